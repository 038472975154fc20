"""Where counting meets mechanisms: plan, charge, draw. The only place that turns private counts into releases."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, get_args

from numpy.typing import ArrayLike

from ._version import __version__
from .accounting import PrivacyLoss
from .accounting.conversion import best_order, rdp_for_epsilon
from .budget import Budget, Neighbours, check_neighbours, check_whole
from .counting import Progress, count
from .errors import Infeasible, InvalidArgument, PrivacyError
from .estimation import Method
from .mechanisms import Dirichlet, Gaussian, Laplace, NoNoise, Polya
from .mechanisms.auto import choose
from .mechanisms.base import checked_counts, noise_scale
from .mechanisms.dirichlet import zipf_profile
from .mechanisms.registry import AnyMechanism
from .models.guarantee import Guarantee, pure_loss
from .models.release import Release, reasons
from .numerics.roots import smallest_that_fits
from .sampling.entropy import Entropy, entropy_from
from .schema import Schema
from .tables import CountTable, Unit

MechanismName = Literal["auto", "polya", "dirichlet", "gaussian", "laplace", "none"]
Calibration = Literal["exact", "algorithm1"]
Split = Literal["equal", "cells"] | Sequence[float] | Mapping[str, float]
SplitRule = Callable[[float | None], Split]
"""A split that depends on the number of records, which it is given where that number is public."""


class Charge(Protocol):
    """A payment in a ledger."""

    def seal(self, release_hash: str) -> None:
        """Record what was bought."""


class LedgerLike(Protocol):
    """A ledger, as far as drawing needs it."""

    def charge(self, loss: PrivacyLoss, *, dataset: str, description: str, request_hash: str) -> Charge:
        """Pay before the draw, or raise BudgetExceeded."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What will be released and what it costs, known before anything is read."""

    columns: tuple[tuple[str, ...], ...]
    shapes: tuple[tuple[int, ...], ...]
    guarantee: Guarantee

    @property
    def mechanisms(self) -> tuple[AnyMechanism, ...]:
        """One for each table."""
        return self.guarantee.mechanisms  # type: ignore[return-value]  # plans hold our own mechanisms

    @property
    def cells(self) -> int:
        """Of all tables."""
        return sum(math.prod(shape) for shape in self.shapes)


def plan_tables(
    columns: Sequence[Sequence[str]],
    shapes: Sequence[Sequence[int]],
    budget: Budget | None,
    *,
    mechanism: MechanismName = "auto",
    calibration: Calibration = "exact",
    neighbours: Neighbours = "replace-one",
    split: Split = "equal",
    total: float | None = None,
    unit: Unit = "row",
    rows: int = 1,
    pure: tuple[float, ...] = (),
) -> Plan:
    """Calibrate one mechanism a table so that all of them together use the budget, from public facts only.

    Args:
        columns: of each table.
        shapes: of each table.
        budget: for all tables together; None only with mechanism "none".
        mechanism: "auto" takes the exact integer mechanism with the least noise.
        calibration: "exact", or the paper's "algorithm1" (Dirichlet only).
        neighbours: the relation of the guarantee.
        split: of the budget over the tables: "equal", in proportion to the "cells", or weights.
        total: the public number of records, where there is one; it helps to choose.
        unit: "row" or "person".
        rows: rows that one person may have.
        pure: ε of pure steps that the budget also pays for.
    """
    neighbours = check_neighbours(neighbours)
    if mechanism not in get_args(MechanismName):
        raise InvalidArgument("mechanism", "one of " + ", ".join(get_args(MechanismName)), got=mechanism)
    sizes = [math.prod(shape) for shape in shapes]
    if not sizes:
        raise InvalidArgument("tables", "at least one")
    if mechanism == "none":
        mechanisms: Sequence[AnyMechanism] = [NoNoise()] * len(sizes)
    elif budget is None:
        raise InvalidArgument("budget", "given", hint="Use Budget(epsilon=, delta=) or Budget.rdp(order=, epsilon=).")
    elif calibration == "algorithm1":
        mechanisms = _algorithm1(sizes, budget, mechanism, neighbours, split, columns, total, rows, pure)
    elif calibration == "exact":
        family = _Family.of(mechanism, budget, len(sizes), neighbours, total, max(sizes), rows)
        mechanisms = family.calibrate(budget, shares(split, sizes, columns), neighbours, rows, pure)
    else:
        raise InvalidArgument("calibration", "'exact' or 'algorithm1'", got=calibration)
    guarantee = Guarantee(
        mechanisms=tuple(mechanisms),
        neighbours=neighbours,
        unit=unit,
        rows=rows,
        pure=pure,
        budget=budget,
    )
    if budget is not None and mechanism != "none" and not guarantee.loss.fits(budget):
        raise Infeasible(f"no parameters fit {budget} for {len(sizes)} tables")
    return Plan(
        columns=tuple(tuple(names) for names in columns),
        shapes=tuple(tuple(shape) for shape in shapes),
        guarantee=guarantee,
    )


def shares(split: Split, sizes: Sequence[int], columns: Sequence[Sequence[str]]) -> list[float]:
    """The share of each table, adding up to one."""
    if isinstance(split, str):
        if split == "equal":
            weights = [1.0] * len(sizes)
        elif split == "cells":
            weights = [math.sqrt(size) for size in sizes]  # what minimises the summed error of all cells
        else:
            raise InvalidArgument("split", "'equal', 'cells' or one weight for each table", got=split)
    elif isinstance(split, Mapping):
        weights = [float(split.get(names[0], 0.0)) for names in columns]
    else:
        weights = [float(weight) for weight in split]
    if len(weights) != len(sizes) or not all(math.isfinite(w) and w > 0 for w in weights):
        raise InvalidArgument("split", f"{len(sizes)} finite weights above 0")
    return [weight / math.fsum(weights) for weight in weights]


@dataclass(frozen=True)
class _Family:
    """A mechanism with everything but its noise fixed."""

    name: str
    r: float = 1.0

    @classmethod
    def of(
        cls,
        name: MechanismName,
        budget: Budget,
        tables: int,
        neighbours: Neighbours,
        total: float | None,
        cells: int,
        rows: int,
    ) -> _Family:
        chosen: AnyMechanism
        if name == "auto":
            chosen = choose(budget, tables=tables, neighbours=neighbours, total=total, cells=cells, rows=rows)
        elif name == "polya":
            chosen = Polya.calibrate(budget, tables=tables, neighbours=neighbours, total=total, cells=cells, rows=rows)
        elif name == "dirichlet":
            if total is None:
                raise Infeasible(
                    "the Dirichlet mechanism publishes shares, so it needs a public total: replace-one with rows as "
                    "the unit. Use the Pólya mechanism otherwise."
                )
            chosen = Dirichlet.calibrate(
                budget, tables=tables, neighbours=neighbours, total=total, cells=cells, rows=rows
            )
        else:
            return cls(name)
        return cls(chosen.name, float(getattr(chosen, "r", 1.0)))

    def at(self, variance: float) -> AnyMechanism:
        """The member with about this noise variance at an empty cell."""
        if self.name == "polya":
            return Polya(r=int(self.r), alpha=max(1, math.ceil(variance * self.r**2 / 2)))
        if self.name == "dirichlet":
            return Dirichlet(r=self.r, alpha=variance * self.r**2)
        if self.name == "gaussian":
            return Gaussian(sigma=math.sqrt(variance))
        return Laplace(scale=math.sqrt(variance / 2))

    def calibrate(
        self, budget: Budget, parts: list[float], neighbours: Neighbours, rows: int, pure: tuple[float, ...]
    ) -> list[AnyMechanism]:
        """Noise variances in inverse proportion to the shares, all as small as the budget allows."""
        n = len(parts)
        if not pure and max(parts) - min(parts) < 1e-12:
            settings: dict[str, Any] = {"tables": n, "neighbours": neighbours, "rows": rows}
            if self.name == "polya":
                return [Polya.calibrate(budget, r=int(self.r), **settings)] * n
            if self.name == "dirichlet":
                return [Dirichlet.calibrate(budget, r=self.r, **settings)] * n
            family: type[Gaussian] | type[Laplace] = Gaussian if self.name == "gaussian" else Laplace
            return [family.calibrate(budget, **settings)] * n
        extra = sum((pure_loss(epsilon, neighbours) for epsilon in pure), PrivacyLoss.nothing(neighbours))

        def members(scale: float) -> list[AnyMechanism]:
            return [self.at(scale / (n * part)) for part in parts]

        def excess(scale: float) -> float:
            return sum((m.loss(neighbours, rows=rows) for m in members(scale)), extra).excess(budget)

        start = (noise_scale(budget, n) * rows) ** 2
        found = smallest_that_fits(excess, start, rtol=1e-6)
        if not math.isfinite(found):
            raise Infeasible(f"the steps before the tables leave nothing of {budget} for the tables")
        return members(found)


def _algorithm1(
    sizes: Sequence[int],
    budget: Budget,
    mechanism: MechanismName,
    neighbours: Neighbours,
    split: Split,
    columns: Sequence[Sequence[str]],
    total: float | None,
    rows: int,
    pure: tuple[float, ...],
) -> list[Dirichlet]:
    """The paper's own parameters: each table gets its share of the Rényi ε."""
    if mechanism not in ("auto", "dirichlet") or neighbours != "replace-one" or rows != 1 or pure:
        raise InvalidArgument(
            "calibration",
            "'exact' for this setting",
            got="algorithm1",
            hint="Algorithm 1 is stated for replace-one rows.",
        )
    parts = shares(split, sizes, columns)

    def at(order: float, epsilon: float) -> list[Dirichlet]:
        return [Dirichlet.algorithm1(order=order, epsilon=epsilon * part) for part in parts]

    if budget.order is not None:
        return at(budget.order, budget.epsilon)
    delta = budget.delta or 0.0
    profile = zipf_profile(total or 1000.0, max(sizes))

    def kl(order: float) -> float:
        try:
            return at(order, rdp_for_epsilon(order, budget.epsilon, delta))[0].expected_kl_of_profile(profile)
        except Infeasible:
            return math.inf

    order, _ = best_order(kl, 1e6)
    return at(order, rdp_for_epsilon(order, budget.epsilon, delta))


def draw_tables(
    tables: Sequence[CountTable],
    plan: Plan,
    *,
    schema: Schema | None = None,
    method: Method = "posterior-mean",
    entropy: Entropy | int | None = None,
    ledger: LedgerLike | None = None,
    dataset: str | None = None,
    description: str = "",
) -> tuple[Release, ...]:
    """Charge the ledger, then draw each table once. Nothing is drawn before the charge is on disk."""
    source = entropy_from(entropy)
    guarantee = plan.guarantee
    for table, shape in zip(tables, plan.shapes, strict=True):
        if table.shape != shape:
            raise InvalidArgument("tables", f"of the planned shape {shape}", got=table.shape)
        if (table.unit, table.rows_per_person or 1) != (guarantee.unit, guarantee.rows):
            raise InvalidArgument("tables", f"counted by {guarantee.unit}", got=table.unit)
    payment = charge_plan(plan, ledger, dataset, description)
    releases = []
    for i, (table, mechanism) in enumerate(zip(tables, plan.mechanisms, strict=True)):
        counts = table.private_counts()
        part = schema.select(table.columns) if schema is not None else None
        not_private = reasons(source.kind, mechanism.name, part)
        if not table.is_private and not not_private:
            not_private = (*not_private, "the cells of the table were taken from the sensitive data")
        releases.append(
            Release(
                values=mechanism.draw(counts, source.child(f"table {i}: {', '.join(table.columns)}")),
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
    if payment is not None:
        payment.seal(fingerprint([release.to_body() for release in releases]))
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
        plan.guarantee.loss, dataset=dataset, description=description, request_hash=fingerprint(request)
    )


def fingerprint(value: Any) -> str:
    """SHA-256 of plain data."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


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
    Release(shape=(6,), Laplace(scale=1.99995), replace-one, row, NOT PRIVATE)
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
    total = float(table.private_counts().sum()) if neighbours == "replace-one" and table.unit == "row" else None
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
    )
    (found,) = draw_tables(
        [table], plan, method=estimate, entropy=entropy, ledger=ledger, dataset=dataset, description="distribution"
    )
    return found if isinstance(counts, CountTable) else replace(found, columns=())


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
    (found,) = fit_tables(
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
    return found


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
) -> tuple[Release, ...]:
    """Count all tables in one pass and release them under one exactly composed guarantee."""
    names = [tuple(columns) for columns in tables]
    source_of_randomness = entropy_from(entropy)
    if rows_per_person is not None:
        check_whole("rows_per_person", rows_per_person)
    counted = count(
        source,
        schema,
        names,
        rows_per_person=rows_per_person,
        person=person,
        entropy=source_of_randomness if rows_per_person is not None else None,
        progress=progress,
    )
    public = neighbours == "replace-one" and counted[0].unit == "row"
    total = float(counted[0].private_counts().sum()) if public else None
    plan = plan_tables(
        names,
        [table.shape for table in counted],
        budget,
        mechanism=mechanism,
        calibration=calibration,
        neighbours=neighbours,
        split=split(total) if callable(split) else split,
        total=total,
        unit=counted[0].unit,
        rows=counted[0].rows_per_person or 1,
    )
    return draw_tables(
        counted,
        plan,
        schema=schema,
        method=estimate,
        entropy=source_of_randomness,
        ledger=ledger,
        dataset=dataset,
        description=description,
    )
