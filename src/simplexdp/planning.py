"""Plans: which mechanism with which parameters for each table, from public facts only, before anything is read."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from .accounting import PrivacyLoss
from .accounting.conversion import best_order, rdp_for_epsilon
from .accounting.filters import Filter
from .budget import (
    Budget,
    Neighbours,
    UnitKind,
    check_budget,
    check_neighbours,
    check_not_negative,
    check_positive,
    check_whole,
    convert,
)
from .errors import Infeasible, InvalidArgument, PrivacyWarning, warn
from .mechanisms import Dirichlet, Gaussian, Laplace, table_mechanism
from .mechanisms.auto import RIVALS, choose, least_loss_shares, predicted_loss
from .mechanisms.base import Parametrised, TableMechanism, no_pure_guarantee, noise_scale
from .mechanisms.dirichlet import zipf_profile
from .mechanisms.sums import ExtraKind, Step, extra
from .models.guarantee import Guarantee, pure_loss
from .numerics.printed import printed
from .numerics.roots import smallest_that_fits
from .sampling.discrete import MOST

MechanismName = str
"""A name in the registry, or "auto"; checked when it is used, as mechanisms are registered at run time."""
Calibration = Literal["exact", "algorithm1"]
Split = Literal["equal", "cells", "loss"] | Sequence[float] | Mapping[str, float]
SplitRule = Callable[[float | None], Split]
"""A split that depends on the number of records, which it is given where that number is public."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What will be released and what it costs, known before anything is read."""

    columns: tuple[tuple[str, ...], ...]
    shapes: tuple[tuple[int, ...], ...]
    guarantee: Guarantee

    @property
    def mechanisms(self) -> tuple[TableMechanism, ...]:
        """One for each table."""
        return tuple(each for each in self.guarantee.mechanisms if isinstance(each, TableMechanism))

    @property
    def extras(self) -> tuple[Step, ...]:
        """What follows the tables: second looks and noisy sums over the records."""
        return tuple(each for each in self.guarantee.mechanisms if isinstance(each, Step))

    @property
    def cells(self) -> int:
        """Of all tables."""
        return sum(math.prod(shape) for shape in self.shapes)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is to be planned, from public facts only.

    Args:
        columns: of each table.
        shapes: of each table.
        budget: for all tables together; None only with mechanism "none".
        mechanism: "auto" takes the exact integer mechanism with the least noise.
        calibration: "exact", or the paper's "algorithm1" (Dirichlet only).
        neighbours: the relation of the guarantee.
        split: of the budget over the tables: "equal", by the number of "cells", by least predicted "loss", or weights.
        total: the public number of records, where there is one; it helps to choose. There is none for persons.
        unit: "row" or "person".
        rows: rows that one person may have.
        pure: ε of pure steps that the budget also pays for.
        extras: second looks and noisy sums after the tables: the kind of each and its share of the budget.
        prices: what a ledger charges by; "auto" then compares mechanisms at equal charge.
    """

    columns: Sequence[Sequence[str]]
    shapes: Sequence[Sequence[int]]
    budget: Budget | None
    mechanism: MechanismName = "auto"
    calibration: Calibration = "exact"
    neighbours: Neighbours = "replace-one"
    split: Split = "equal"
    total: float | None = None
    unit: UnitKind = "row"
    rows: int = 1
    pure: tuple[float, ...] = ()
    extras: Sequence[tuple[ExtraKind, float]] = ()
    prices: Filter | None = None

    def __post_init__(self) -> None:
        check_neighbours(self.neighbours)
        check_budget(self.budget)
        convert(self, rows=check_whole)
        if self.total is not None:
            convert(self, total=check_not_negative)
        shapes = tuple(tuple(check_whole("shapes", size) for size in shape) for shape in self.shapes)
        object.__setattr__(self, "shapes", shapes)
        extras = tuple((kind, check_positive("extras", share)) for kind, share in self.extras)
        object.__setattr__(self, "extras", extras)
        if self.unit != "row":  # persons have any number of rows: the total is private, and no choice may rest on it
            object.__setattr__(self, "total", None)
        if not shapes:
            raise InvalidArgument("tables", "at least one")

    @property
    def kind(self) -> type[TableMechanism] | None:
        """The mechanism, where it is not to be chosen."""
        return None if self.mechanism == "auto" else table_mechanism(self.mechanism, others=("auto",))

    @property
    def sizes(self) -> list[int]:
        """Cells of each table."""
        return [math.prod(shape) for shape in self.shapes]

    @property
    def exact_counts(self) -> bool:
        """Whether nothing is hidden."""
        return self.kind is not None and bool(self.kind.not_private)

    @property
    def parts(self) -> list[float]:
        """The share of each table."""
        return shares(self.split, self.sizes, self.columns)


def plan_tables(
    columns: Sequence[Sequence[str]],
    shapes: Sequence[Sequence[int]],
    budget: Budget | None,
    *,
    quiet: bool = False,
    **settings: Any,
) -> Plan:
    """Calibrate one mechanism a table so that all of them together use the budget, from public facts only.

    Args:
        columns: of each table.
        shapes: of each table.
        budget: for all tables together; None only with mechanism "none".
        quiet: whether a budget that protects little goes without a warning.
        settings: the other fields of `Asked`.
    """
    asked = Asked(columns=columns, shapes=shapes, budget=budget, **settings)
    if budget is not None and not asked.exact_counts and not quiet:
        warn_of_weak_budget(budget, asked.total if asked.neighbours == "replace-one" else None)
    return planned(asked)


def planned(asked: Asked) -> Plan:
    """The same, without a word on the budget."""
    budget = asked.budget
    if asked.split == "loss" and budget is not None:
        weights = split_by_loss(budget, asked.sizes, neighbours=asked.neighbours, total=asked.total, rows=asked.rows)
        asked = replace(asked, split=weights)
    to_choose = asked.mechanism == "auto" and asked.calibration == "exact"
    if to_choose and budget is not None and asked.prices is not None:
        return _at_equal_charge(replace(asked, prices=None), budget, asked.prices)
    if to_choose and budget is not None and asked.extras and not budget.is_pure:
        return _least_loss(asked)
    return _carried_out(asked)


def _least_loss(asked: Asked) -> Plan:
    """The whole plan with the least predicted loss: what composes best with later steps is not best by itself."""
    plans = [_carried_out(asked)]
    for name in RIVALS if asked.total else RIVALS[:2]:
        with contextlib.suppress(Infeasible, InvalidArgument):  # not for this relation, or beyond what it can do
            plans.append(_carried_out(replace(asked, mechanism=name)))
    return _best(plans, asked)


def _best(plans: Sequence[Plan], asked: Asked) -> Plan:
    return min(plans, key=lambda plan: _predicted_plan_loss(plan, asked.total))


def _predicted_plan_loss(plan: Plan, total: float | None) -> float:
    """The sum of the predicted losses of the tables; without a size above 0, of the variances of all cells."""
    sizes = (math.prod(shape) for shape in plan.shapes)
    tables = Counter(zip(plan.mechanisms, sizes, strict=True))
    if not total:
        return math.fsum(times * size * each.noise_variance for (each, size), times in tables.items())
    found = (
        times * predicted_loss(each.law, total=total, cells=max(2, size)) for (each, size), times in tables.items()
    )
    return math.fsum(found)


def _carried_out(asked: Asked) -> Plan:
    """The plan with the mechanism that is asked for, or the best for the tables alone."""
    budget = asked.budget
    guarantee = Guarantee(
        mechanisms=tuple(_mechanisms(asked)),
        neighbours=asked.neighbours,
        unit=asked.unit,
        rows=asked.rows,
        pure=asked.pure,
        budget=None if budget is None else replace(budget, ceiling=None),
    )
    if budget is not None and not asked.exact_counts and not guarantee.loss.fits(budget):
        raise Infeasible(f"no parameters fit {budget} for {len(asked.sizes)} tables")
    for each in guarantee.mechanisms:
        _check_drawable(each)
    return Plan(
        columns=tuple(tuple(names) for names in asked.columns),
        shapes=tuple(tuple(shape) for shape in asked.shapes),
        guarantee=guarantee,
    )


def _mechanisms(asked: Asked) -> Sequence[Parametrised]:
    budget, kind = asked.budget, asked.kind
    if asked.extras and (asked.exact_counts or asked.calibration != "exact"):
        raise InvalidArgument("extras", "left out without exactly calibrated noise")
    if asked.extras and budget is not None and not budget.concentrated:
        no_pure_guarantee(budget, "the Gaussian noise of second looks and sums")
    if kind is not None and asked.exact_counts:
        return [kind()] * len(asked.sizes)
    if budget is None:
        raise InvalidArgument("budget", "given", hint="Use Budget(epsilon=, delta=) or Budget.rdp(order=, epsilon=).")
    if asked.calibration == "algorithm1":
        return _algorithm1(asked, budget)
    if asked.calibration != "exact":
        raise InvalidArgument("calibration", "'exact' or 'algorithm1'", got=asked.calibration)
    if kind is not None:
        public = asked.neighbours == "replace-one" and asked.unit == "row"
        kind.check_table(total_is_public=public, total=asked.total, cells=max(asked.sizes))
    return _calibrated(asked, budget)


MOST_EPSILON = 20.0
"""Above it a warning says what ε means."""


def warn_of_weak_budget(budget: Budget, total: float | None) -> None:
    """Say in words what an ε above 20 and a δ above 1/N mean, from the public number of records, where there is one."""
    total = None if total is None else check_not_negative("total", total)
    if budget.epsilon > MOST_EPSILON:
        warn(
            f"epsilon = {printed(budget.epsilon)} is above {printed(MOST_EPSILON)}: what is published may be "
            f"e^{printed(budget.epsilon)} times as likely with a person's record as without it, so that the promise "
            "protects hardly anybody. Take an epsilon of about 1, and not above 10.",
            PrivacyWarning,
        )
    if total and budget.delta is not None and budget.delta * total > 1:
        warn(
            f"delta = {printed(budget.delta)} is above 1/N, for N = {total:,.0f} records: with δ above 1/N a mechanism "
            "may publish a whole record, chosen at random, and keep its promise. Take a delta far below 1/N, such as "
            f"{0.01 / total:.0e}, or a pure budget with delta=0.",
            PrivacyWarning,
        )


def _at_equal_charge(asked: Asked, budget: Budget, prices: Filter) -> Plan:
    """The least noise within the budget that costs a ledger no more than Gaussian noise within the budget would.

    What a ledger charges is not ε at δ: mechanisms with the same ε at δ differ there.
    """
    free = planned(asked)
    if prices.charges_as_asked(budget) or budget.is_pure:  # Gaussian noise has no pure guarantee to compare with
        return free
    gaussian = planned(replace(asked, mechanism="gaussian"))
    charge = prices.price(gaussian.guarantee.loss).cost
    if not math.isfinite(charge) or prices.price(free.guarantee.loss).cost <= charge:
        return free
    try:
        capped = planned(replace(asked, budget=prices.at_most(budget, charge)))
    except Infeasible:
        return gaussian
    if not capped.guarantee.loss.fits(budget):  # one order says little about ε at a small δ
        return gaussian
    capped = replace(capped, guarantee=replace(capped.guarantee, budget=budget))
    return _best([capped, gaussian], asked) if asked.extras else capped


def _check_drawable(mechanism: Parametrised) -> None:
    """Refuse what the exact sampler could not draw, before anything is paid for."""
    scale = mechanism.drawn_with
    if scale is not None and max(scale.numerator, scale.denominator) > MOST:
        raise Infeasible(
            f"{mechanism} is beyond what the exact sampler takes: the budget asks for far too much or too little noise"
        )


def split_by_loss(
    budget: Budget, sizes: Sequence[int], *, neighbours: Neighbours, total: float | None, rows: int = 1
) -> Split:
    """The weights with the least predicted sum of losses; "cells" where no size above 0 is public."""
    sizes, rows = [check_whole("sizes", size) for size in sizes], check_whole("rows", rows)
    total = None if total is None else check_not_negative("total", total)
    if not total:
        return "cells"
    family = Laplace if budget.is_pure else Gaussian
    noise = family.calibrate(budget, tables=len(sizes), neighbours=neighbours, rows=rows)
    return least_loss_shares(sizes, variance=noise.continuous_variance, total=total)


def shares(split: Split, sizes: Sequence[int], columns: Sequence[Sequence[str]]) -> list[float]:
    """The share of each table, adding up to one."""
    sizes = [check_whole("sizes", size) for size in sizes]
    if isinstance(split, str):
        if split == "equal":
            weights = [1.0] * len(sizes)
        elif split == "cells":
            # √cells minimises the summed error of all cells; powers of two leave few different noises to compose.
            weights = [2.0 ** round(math.log2(size) / 2) for size in sizes]
        else:
            raise InvalidArgument("split", "'equal', 'cells', 'loss' or one weight for each table", got=split)
    elif isinstance(split, Mapping):
        unknown = sorted(set(split) - {names[0] for names in columns})
        if unknown:
            raise InvalidArgument("split", "weights by the first column of each table", got=unknown)
        weights = [split.get(names[0], 0.0) for names in columns]
    else:
        weights = list(split)
    if len(weights) != len(sizes):
        raise InvalidArgument("split", f"{len(sizes)} finite weights above 0")
    try:
        weights = [check_positive("split", weight) for weight in weights]
    except InvalidArgument:
        raise InvalidArgument("split", f"{len(sizes)} finite weights above 0") from None
    return [weight / math.fsum(weights) for weight in weights]


def _calibrated(asked: Asked, budget: Budget) -> list[Parametrised]:
    """Noise variances in inverse proportion to the shares, all as small as the budget allows."""
    parts, sizes, neighbours, rows = asked.parts, asked.sizes, asked.neighbours, asked.rows
    n = len(parts)
    facts: dict[str, Any] = {"tables": n, "neighbours": neighbours, "total": asked.total, "cells": max(sizes)}
    facts |= {"rows": rows}
    calibrate = choose if asked.mechanism == "auto" else table_mechanism(asked.mechanism).calibrate
    found = calibrate(budget, **facts)
    alike = len({found.at(1.0, size) for size in sizes}) == 1  # some losses depend on the cells
    if alike and not asked.pure and not asked.extras and max(parts) - min(parts) < 1e-12:
        return [found] * n
    before = sum((pure_loss(epsilon, neighbours) for epsilon in asked.pure), PrivacyLoss.nothing(neighbours))
    left = 1 - math.fsum(share for _, share in asked.extras)

    def members(scale: float) -> list[Parametrised]:
        tables = [found.at(scale / (n * part * left), size) for part, size in zip(parts, sizes, strict=True)]
        return [*tables, *(extra(kind, math.sqrt(scale / (n * share))) for kind, share in asked.extras)]

    def excess(scale: float) -> float:
        return sum((m.loss(neighbours, rows=rows) for m in members(scale)), before).excess(budget)

    # Unequal Gaussians compose like equal ones with the same Σ 1/σ², so the equal ones are a close start.
    if budget.is_pure:
        start = (noise_scale(budget, n) * rows) ** 2
    else:
        equal = found if isinstance(found, Gaussian) else Gaussian.calibrate(budget, **facts)
        start = equal.noise_variance
    scale = smallest_that_fits(excess, start, rtol=1e-6, near=0.02)
    if not math.isfinite(scale):
        raise Infeasible(f"the steps before the tables leave nothing of {budget} for the tables")
    return members(scale)


def _algorithm1(asked: Asked, budget: Budget) -> list[Dirichlet]:
    """The paper's own parameters: each table gets its share of the Rényi ε."""
    its_own = asked.mechanism in ("auto", "dirichlet") and asked.neighbours == "replace-one" and asked.rows == 1
    if not its_own or asked.pure:
        raise InvalidArgument(
            "calibration",
            "'exact' for this setting",
            got="algorithm1",
            hint="Algorithm 1 is stated for replace-one rows.",
        )
    no_pure_guarantee(budget, "the Dirichlet mechanism")
    total = asked.total
    Dirichlet.check_total(total)
    parts = asked.parts

    def at(order: float, epsilon: float) -> list[Dirichlet]:
        return [Dirichlet.algorithm1(order=order, epsilon=epsilon * part) for part in parts]

    if budget.order is not None:
        return at(budget.order, budget.epsilon)
    delta = budget.delta or 0.0
    profile = zipf_profile(total or 1000.0, max(asked.sizes))

    def kl(order: float) -> float:
        try:
            return at(order, rdp_for_epsilon(order, budget.epsilon, delta))[0].expected_kl_of_profile(profile)
        except Infeasible:
            return math.inf

    order, _ = best_order(kl, 1e6)
    return at(order, rdp_for_epsilon(order, budget.epsilon, delta))
