"""From rows to releases: count, plan, pay and draw.

Proof: docs/proofs/composition.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .budget import Budget, Neighbours, check_whole
from .counting import Progress, can_be_read_again, count, relations_of
from .drawing import Fit, LedgerLike, charge_plan, draw_each, draw_tables
from .errors import InvalidArgument, SourceError
from .estimation import Method
from .mechanisms.base import checked_counts
from .mechanisms.sums import ExtraKind, GaussianTables
from .models.guarantee import pure_loss
from .models.release import Release
from .numerics.roots import largest_that_fits
from .planning import Calibration, MechanismName, Split, SplitRule, plan_tables
from .quantiles import plan_quantiles
from .sampling.entropy import Entropy, entropy_from
from .schema import Quantiles, Schema, cell_map
from .tables import CountTable, check_relation

SecondLook = Callable[[tuple[Release, ...], float], Mapping[tuple[str, ...], float]]
"""From the first releases and the noise that one more table would get: what to release again, with which weights."""


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
    check_relation(table.relations, neighbours, table.unit)
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
    check_relation(relations_of(source), neighbours, "row" if rows_per_person is None else "person")
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
    public = neighbours == "replace-one" and rows_per_person is None
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
        if public:
            _public_total(quantiles.rows(source, **bound).private_counts(), budget)
        shapes = [schema.shape(columns) for columns in names]
        parts = split(None) if callable(split) else split
        plan = plan_tables(names, shapes, budget, split=parts, pure=(quantiles.epsilon_spent,), **settings)
        payment = charge_plan(plan, ledger, dataset, description)
        resolved = quantiles.resolve(source, **bound).schema
        schema = schema.replace(*(resolved[name] for name in needed.unresolved))
        counted = count(source, schema, names, **bound)
    else:
        counted = count(source, schema, names, **bound)
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
        again = [
            next(each for each in counted if set(columns) <= set(each.columns)).margin(columns) for columns in weights
        ]
        spread = look.spread(list(weights.values()))
        releases += draw_each(again, spread, plan.guarantee, schema, estimate, randomness, "second look at table")
    return Fit(releases=releases, _payment=payment)


def _public_total(counts: NDArray[np.int64], budget: Budget | None) -> float:
    """The number of records, where it is public; nothing is paid for none, of which there is nothing to learn."""
    total = float(counts.sum())
    if not total and budget is not None:
        raise InvalidArgument("counts", "of at least one record", hint="Nothing was charged or drawn.")
    return total


def _margin(tables: Sequence[CountTable], columns: tuple[str, ...]) -> CountTable:
    """The counts over some columns of the first table that has them. **Private** like the table."""
    return next(table for table in tables if set(columns) <= set(table.columns)).margin(columns)


def _merged(table: CountTable, schema: Schema, released: Schema) -> CountTable:
    """The counts over the merged cells of another schema. **Private** like the table."""
    changed = [name for name in table.columns if schema[name] != released[name]]
    places = {name: cell_map(schema[name], released[name]) for name in changed}
    for name, found in places.items():
        if found is None:
            raise InvalidArgument("coarsen", f"a schema that merges bins of {name!r} and changes nothing else")
        table = table.merged(name, found)
    return table


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
