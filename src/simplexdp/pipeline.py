"""Where counting meets mechanisms: count, plan, charge, draw. Only here private counts become releases.

Proof: docs/proofs/composition.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._version import __version__
from .accounting import PrivacyLoss
from .budget import Budget, Neighbours, check_whole
from .counting import Progress, can_be_read_again, count, relations_of
from .errors import InvalidArgument, PrivacyError, SourceError
from .estimation import Method
from .mechanisms.base import checked_counts
from .mechanisms.registry import AnyMechanism
from .mechanisms.sums import ExtraKind, GaussianTables
from .models.document import Document, checksum
from .models.guarantee import Guarantee, pure_loss
from .models.release import Release, reasons
from .numerics.roots import largest_that_fits
from .planning import Calibration, MechanismName, Plan, Split, SplitRule, plan_tables
from .quantiles import plan_quantiles
from .sampling.entropy import Entropy, entropy_from
from .schema import Quantiles, Schema, cell_map
from .tables import CountTable, Unit

Published = TypeVar("Published", bound=Document)
SecondLook = Callable[[tuple[Release, ...], float], Mapping[tuple[str, ...], float]]
"""From the first releases and the noise that one more table would get: what to release again, with which weights."""


class Charge(Protocol):
    """A payment in a ledger."""

    def seal(self, release_hash: str) -> None:
        """Record what was bought."""


class LedgerLike(Protocol):
    """A ledger, as far as planning and drawing need it."""

    @property
    def order(self) -> float:
        """The Rényi order of every charge."""

    def charge(
        self, loss: PrivacyLoss, *, dataset: str, description: str, request_hash: str, unit: Unit = "row"
    ) -> Charge:
        """Pay before the draw, or raise BudgetExceeded."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Tables that were drawn and paid for; the payment waits for what is made of them.

    Args:
        releases: in the order of the tables, second looks after them.
    """

    releases: tuple[Release, ...]
    _payment: Charge | None = field(default=None, repr=False)

    def publish(self, document: Published) -> Published:
        """Record in the ledger what was bought, by the checksum that its file has, and hand it back.

        Whatever else is drawn from the budget of the fit is drawn before, so that the checksum covers all of it.
        """
        if self._payment is not None:
            self._payment.seal(checksum(document.to_body()))
        return document


def draw_tables(
    tables: Sequence[CountTable],
    plan: Plan,
    *,
    schema: Schema | None = None,
    method: Method = "posterior-mean",
    entropy: Entropy | int | None = None,
) -> tuple[Release, ...]:
    """Draw each table once. Whoever has a ledger charges it first with `charge_plan`."""
    source = entropy_from(entropy)
    guarantee = plan.guarantee
    for table, shape in zip(tables, plan.shapes, strict=True):
        if table.shape != shape:
            raise InvalidArgument("tables", f"of the planned shape {shape}", got=table.shape)
        if (table.unit, table.rows_per_person or 1) != (guarantee.unit, guarantee.rows):
            raise InvalidArgument("tables", f"counted by {guarantee.unit}", got=table.unit)
    for table in tables:
        _check_relation(table.relations, guarantee.neighbours, guarantee.unit)
    if guarantee.total_is_public and len({int(table.private_counts().sum()) for table in tables}) > 1:
        raise InvalidArgument(
            "tables",
            "of the same records: their totals differ",
            hint="Under replace-one the total is published. Rows that only some tables count make it private.",
        )
    return _draw(tables, plan.mechanisms, guarantee, schema, method, source, "table")


def _draw(
    tables: Sequence[CountTable],
    mechanisms: Sequence[AnyMechanism],
    guarantee: Guarantee,
    schema: Schema | None,
    method: Method,
    source: Entropy,
    label: str,
) -> tuple[Release, ...]:
    releases = []
    for i, (table, mechanism) in enumerate(zip(tables, mechanisms, strict=True)):
        counts = table.private_counts()
        part = schema.select(table.columns) if schema is not None else None
        not_private = reasons(source.kind, mechanism.name, part)
        if not table.is_private and not not_private:
            not_private = (
                *not_private,
                "the table was counted with cells taken from the data or with a known seed for the rows of persons",
            )
        releases.append(
            Release(
                values=mechanism.draw(counts, source.child(f"{label} {i}: {', '.join(table.columns)}")),
                mechanism=mechanism,
                guarantee=guarantee,
                total=float(counts.sum()) if guarantee.total_is_public else None,
                columns=table.columns,
                schema=part,
                method=method,
                entropy=source.kind,
                not_private=not_private,
                software=f"simplexdp {__version__}",
            )
        )
    return tuple(releases)


def charge_plan(plan: Plan, ledger: LedgerLike | None, dataset: str | None, description: str) -> Charge | None:
    """Pay for everything in the plan at once, before any draw."""
    if ledger is None:
        return None
    if dataset is None:
        raise InvalidArgument("dataset", "the name of the data set that the ledger charges", got=dataset)
    if any(mechanism.name == "none" for mechanism in plan.mechanisms):
        raise PrivacyError("a ledger cannot pay for exact counts: its budget is finite. Leave the ledger out.")
    request = {"columns": plan.columns, "shapes": plan.shapes, "guarantee": plan.guarantee.to_body()}
    return ledger.charge(
        plan.guarantee.loss,
        dataset=dataset,
        description=description,
        request_hash=checksum(request),
        unit=plan.guarantee.unit,
    )


def release(
    counts: ArrayLike | CountTable,
    *,
    budget: Budget | None,
    mechanism: MechanismName = "auto",
    calibration: Calibration = "exact",
    estimate: Method = "posterior-mean",
    neighbours: Neighbours = "replace-one",
    entropy: Entropy | int | None = None,
    ledger: LedgerLike | None = None,
    dataset: str | None = None,
) -> Release:
    """Publish the distribution behind a vector or array of counts.

    >>> from simplexdp import Budget, release
    >>> published = release([119, 74, 618, 272, 13, 187], budget=Budget(epsilon=1, delta=1e-5), entropy=1)
    >>> published
    Release(shape=(6,), BalancedLaplace(scale=1.99995, cells=6), replace-one, row, NOT PRIVATE)
    >>> bool(abs(published.probabilities.sum() - 1) < 1e-12)
    True

    Args:
        counts: whole numbers, one for each cell, or a CountTable.
        budget: what may be spent.
        mechanism: "auto" takes the exact integer mechanism with the least noise.
        calibration: "exact", or "algorithm1" for the paper's choice.
        estimate: how probabilities are made from the draw; see `simplexdp.estimation`.
        neighbours: "replace-one" (the total is public) or "add-remove" (it is not).
        entropy: None for the operating system's; a number makes a repeatable draw that is not private.
        ledger: charged before the draw; needs `dataset`.
        dataset: the name that the ledger knows the data by.
    """
    if isinstance(counts, CountTable):
        table = counts
    else:
        array = checked_counts(counts)
        names = [f"axis {i}" for i in range(array.ndim)]
        table = CountTable.from_array(array, columns=names)
    rows = table.rows_per_person or 1
    _check_relation(table.relations, neighbours, table.unit)
    public = neighbours == "replace-one" and table.unit == "row"
    total = _public_total(table.private_counts(), budget) if public else None
    plan = plan_tables(
        [table.columns],
        [table.shape],
        budget,
        mechanism=mechanism,
        calibration=calibration,
        neighbours=neighbours,
        total=total,
        unit=table.unit,
        rows=rows,
        charge_order=None if ledger is None else ledger.order,
    )
    payment = charge_plan(plan, ledger, dataset, "distribution")
    releases = draw_tables([table], plan, method=estimate, entropy=entropy)
    found = releases[0] if isinstance(counts, CountTable) else replace(releases[0], columns=())
    return Fit(releases=(found,), _payment=payment).publish(found)


def release_distribution(
    source: Any,
    schema: Schema,
    columns: Sequence[str],
    *,
    budget: Budget | None,
    mechanism: MechanismName = "auto",
    calibration: Calibration = "exact",
    estimate: Method = "posterior-mean",
    neighbours: Neighbours = "replace-one",
    entropy: Entropy | int | None = None,
    rows_per_person: int | None = None,
    person: str | None = None,
    progress: Progress | None = None,
    ledger: LedgerLike | None = None,
    dataset: str | None = None,
) -> Release:
    """Publish the joint distribution of one or several columns of a table; see `count` for the sources."""
    fit = fit_tables(
        source,
        schema,
        [tuple(columns)],
        budget=budget,
        mechanism=mechanism,
        calibration=calibration,
        estimate=estimate,
        neighbours=neighbours,
        entropy=entropy,
        rows_per_person=rows_per_person,
        person=person,
        progress=progress,
        ledger=ledger,
        dataset=dataset,
        description=f"distribution of {', '.join(columns)}",
    )
    return fit.publish(fit.releases[0])


def fit_tables(
    source: Any,
    schema: Schema,
    tables: Iterable[Sequence[str]],
    *,
    budget: Budget | None,
    mechanism: MechanismName = "auto",
    calibration: Calibration = "exact",
    estimate: Method = "posterior-mean",
    neighbours: Neighbours = "replace-one",
    split: Split | SplitRule = "equal",
    entropy: Entropy | int | None = None,
    rows_per_person: int | None = None,
    person: str | None = None,
    progress: Progress | None = None,
    ledger: LedgerLike | None = None,
    dataset: str | None = None,
    description: str = "",
    extras: Callable[[float | None], Sequence[tuple[ExtraKind, float]]] | None = None,
    second_look: SecondLook | None = None,
    coarsen: Callable[[float | None], Schema] | None = None,
) -> Fit:
    """Count all tables in one pass, pay, and draw them under one exactly composed guarantee.

    The caller makes of the releases what is published and passes that to `Fit.publish`.

    `extras` reserves budget for what follows the tables, given the public number of records; it is all in the
    guarantee. If that includes "tables", `second_look` says from the releases which tables, or margins of tables, are
    released once more and with which weights. Noisy sums are left to the caller.

    `coarsen` gives the schema that the tables are released in, from the public number of records: that of the source
    with some bins merged. A record is still in one cell of each table.
    """
    names = [tuple(columns) for columns in tables]
    _check_relation(relations_of(source), neighbours, "row" if rows_per_person is None else "person")
    randomness = entropy_from(entropy)
    needed = schema.select(dict.fromkeys(name for columns in names for name in columns))
    settings: dict[str, Any] = {
        "mechanism": mechanism,
        "calibration": calibration,
        "neighbours": neighbours,
        "charge_order": None if ledger is None else ledger.order,
    }
    bound: dict[str, Any] = {"progress": progress}
    if rows_per_person is not None:
        rows_per_person = check_whole("rows_per_person", rows_per_person)
        settings |= {"unit": "person", "rows": rows_per_person}
        bound |= {"rows_per_person": rows_per_person, "person": person, "entropy": randomness}
    elif person is not None:
        raise InvalidArgument("rows_per_person", "given with person", hint="It bounds what one person can change.")
    if needed.unresolved:
        if not can_be_read_again(source):
            raise SourceError(
                "private quantiles need a second pass, and a stream is read once. Give a file, a table or a data frame."
            )
        # Edges cost something and come first, so the plan is made and paid without the number of records.
        quantiles = plan_quantiles(
            needed,
            epsilon=_pure_epsilon(needed, budget),
            neighbours=neighbours,
            rows_per_person=rows_per_person or 1,
        )
        shapes = [schema.shape(columns) for columns in names]
        parts = split(None) if callable(split) else split
        plan = plan_tables(names, shapes, budget, split=parts, pure=(quantiles.epsilon_spent,), **settings)
        payment = charge_plan(plan, ledger, dataset, description)
        resolved = quantiles.resolve(source, **bound).schema
        schema = schema.replace(*(resolved[name] for name in needed.unresolved))
        counted = count(source, schema, names, **bound)
    else:
        counted = count(source, schema, names, **bound)
        public = neighbours == "replace-one" and rows_per_person is None
        total = _public_total(counted[0].private_counts(), budget) if public else None
        if coarsen is not None:
            released = coarsen(total)
            counted = [_merged(table, schema, released) for table in counted]
            schema = released
        parts = split(total) if callable(split) else split
        reserved = extras(total) if extras else ()
        shapes = [table.shape for table in counted]
        plan = plan_tables(names, shapes, budget, split=parts, total=total, extras=reserved, **settings)
        payment = charge_plan(plan, ledger, dataset, description)
    look = next((extra for extra in plan.extras if isinstance(extra, GaussianTables)), None)
    releases = draw_tables(counted, plan, schema=schema, method=estimate, entropy=randomness)
    if look is not None and second_look is not None:
        weights = second_look(releases, look.sigma)
        again = [_margin(counted, columns) for columns in weights]
        spread = look.spread(list(weights.values()))
        releases += _draw(again, spread, plan.guarantee, schema, estimate, randomness, "second look at table")
    return Fit(releases=releases, _payment=payment)


def _check_relation(relations: frozenset[Neighbours], neighbours: Neighbours, unit: Unit) -> None:
    """Replace-one of rows publishes their number, which a selection would leak; otherwise no record may replace one."""
    if neighbours == "replace-one" and unit == "row":
        if "replace-one" not in relations:
            raise PrivacyError(
                "Under replace-one the number of rows is public, but this query may select rows by their values (it "
                "has a word such as WHERE, JOIN or DISTINCT), so that one record can change it. Use "
                "neighbours='add-remove' (--neighbours add-remove); or, if the number is public knowledge, declare it "
                "with Query(..., public_size=True) (--public-size)."
            )
    elif "add-remove" not in relations:
        raise PrivacyError(
            "Under add-remove, and for persons, a query must not cut its rows at a number (LIMIT, OFFSET, TOP, FETCH): "
            "without one record another moves up, and more rows change than the noise is for. Leave it out, or use "
            "neighbours='replace-one' with rows as the unit."
        )


def _public_total(counts: NDArray[np.int64], budget: Budget | None) -> float:
    """The number of records, where it is public; nothing is paid for none, of which there is nothing to learn."""
    total = float(counts.sum())
    if not total and budget is not None:
        raise InvalidArgument("counts", "of at least one record", hint="Nothing was charged or drawn.")
    return total


def _merged(table: CountTable, schema: Schema, released: Schema) -> CountTable:
    """The counts over the merged cells of another schema. **Private** like the table."""
    counts = table.private_counts()
    for axis, name in enumerate(table.columns):
        if schema[name] == released[name]:
            continue
        places = cell_map(schema[name], released[name])
        if places is None:
            raise InvalidArgument("coarsen", f"a schema that merges bins of {name!r} and changes nothing else")
        sums = np.zeros((released[name].size, *np.delete(counts.shape, axis)), dtype=counts.dtype)
        np.add.at(sums, np.array(places), np.moveaxis(counts, axis, 0))
        counts = np.moveaxis(sums, 0, axis)
    if counts.shape == table.shape:
        return table
    return _remade(table, counts, table.columns)


def _margin(tables: Sequence[CountTable], columns: tuple[str, ...]) -> CountTable:
    """The counts over some columns of the first table that has them, in its order. **Private** like the table."""
    table = next(table for table in tables if set(columns) <= set(table.columns))
    if table.columns == columns:
        return table
    away = tuple(axis for axis, name in enumerate(table.columns) if name not in columns)
    left = tuple(name for name in table.columns if name in columns)
    return _remade(table, table.private_counts().sum(axis=away), left)


def _remade(table: CountTable, counts: NDArray[np.int64], columns: Sequence[str]) -> CountTable:
    """Counts of the same records over other cells. **Private** like the table."""
    return CountTable(
        counts,
        columns,
        unit=table.unit,
        rows_per_person=table.rows_per_person,
        is_private=table.is_private,
        relations=table.relations,
    )


def _pure_epsilon(schema: Schema, budget: Budget | None) -> float:
    """The pure ε that the stated shares of all quantile columns come to."""
    if budget is None:
        raise InvalidArgument("budget", "given", hint="Private quantiles cost budget; give edges to go without.")
    share = math.fsum(column.share for column in schema if isinstance(column, Quantiles))
    if budget.order is None:
        return share * budget.epsilon
    order = budget.order

    def excess(epsilon: float) -> float:
        return math.log(pure_loss(epsilon, "replace-one").rdp(order) / (share * budget.epsilon))

    return largest_that_fits(excess, share * budget.epsilon)
