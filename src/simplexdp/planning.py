"""Plans: which mechanism with which parameters for each table, from public facts only, before anything is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, get_args

from .accounting import PrivacyLoss
from .accounting.conversion import best_order, rdp_for_epsilon
from .budget import Budget, Neighbours, check_neighbours
from .errors import Infeasible, InvalidArgument
from .mechanisms import BalancedLaplace, Dirichlet, Gaussian, Laplace, NoNoise, Polya
from .mechanisms.auto import choose
from .mechanisms.base import Mechanism
from .mechanisms.dirichlet import zipf_profile
from .mechanisms.registry import AnyMechanism
from .mechanisms.splitting import least_loss_shares
from .mechanisms.sums import ExtraKind, GaussianTables, NoisySum, extra
from .models.guarantee import Guarantee, pure_loss
from .numerics.roots import smallest_that_fits
from .sampling.discrete import MOST, MOST_CELLS
from .tables import Unit

MechanismName = Literal["auto", "polya", "dirichlet", "gaussian", "laplace", "balanced-laplace", "none"]
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
    def mechanisms(self) -> tuple[AnyMechanism, ...]:
        """One for each table."""
        return self.guarantee.mechanisms[: len(self.shapes)]  # type: ignore[return-value]  # plans hold our own

    @property
    def extras(self) -> tuple[NoisySum | GaussianTables, ...]:
        """What follows the tables: second looks and noisy sums over the records."""
        return self.guarantee.mechanisms[len(self.shapes) :]  # type: ignore[return-value]  # plans hold our own

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
    extras: Sequence[tuple[ExtraKind, float]] = (),
    charge_order: float | None = None,
) -> Plan:
    """Calibrate one mechanism a table so that all of them together use the budget, from public facts only.

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
        charge_order: the Rényi order at which a ledger charges; "auto" then compares mechanisms at equal charge.
    """
    neighbours = check_neighbours(neighbours)
    if mechanism not in get_args(MechanismName):
        raise InvalidArgument("mechanism", "one of " + ", ".join(get_args(MechanismName)), got=mechanism)
    sizes = [math.prod(shape) for shape in shapes]
    if not sizes:
        raise InvalidArgument("tables", "at least one")
    if unit != "row":
        total = None  # persons have any number of rows: the total is private, and no choice may rest on it
    if split == "loss" and budget is not None:
        split = split_by_loss(budget, sizes, neighbours=neighbours, total=total, rows=rows)
    if mechanism == "auto" and calibration == "exact" and budget is not None and charge_order is not None:

        def attempt(name: MechanismName, within: Budget) -> Plan:
            facts: dict[str, Any] = {"neighbours": neighbours, "split": split, "total": total, "unit": unit}
            facts |= {"rows": rows, "pure": pure, "extras": extras}
            return plan_tables(columns, shapes, within, mechanism=name, **facts)

        return _at_equal_charge(attempt, budget, charge_order)
    mechanisms: Sequence[AnyMechanism | NoisySum | GaussianTables]
    if extras and (mechanism == "none" or calibration != "exact"):
        raise InvalidArgument("extras", "left out without exactly calibrated noise")
    if mechanism == "none":
        mechanisms = [NoNoise()] * len(sizes)
    elif budget is None:
        raise InvalidArgument("budget", "given", hint="Use Budget(epsilon=, delta=) or Budget.rdp(order=, epsilon=).")
    elif calibration == "algorithm1":
        mechanisms = _algorithm1(sizes, budget, mechanism, neighbours, split, columns, total, rows, pure)
    elif calibration == "exact":
        if mechanism == "balanced-laplace":
            _check_balanced(neighbours, unit, max(sizes))
        family = _Family.of(mechanism, budget, len(sizes), neighbours, total, max(sizes), rows)
        mechanisms = family.calibrate(budget, shares(split, sizes, columns), sizes, neighbours, rows, pure, extras)
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
    for each in guarantee.mechanisms:
        _check_drawable(each)
    return Plan(
        columns=tuple(tuple(names) for names in columns),
        shapes=tuple(tuple(shape) for shape in shapes),
        guarantee=guarantee,
    )


def _check_balanced(neighbours: Neighbours, unit: Unit, cells: int) -> None:
    """Balanced noise leaves the total as it is: only for a public total, and for tables that it is drawn for."""
    if neighbours != "replace-one" or unit != "row":
        raise Infeasible(
            "balanced Laplace noise publishes the total, so it needs a public one: replace-one with rows as the unit. "
            "Use Laplace noise otherwise."
        )
    if cells > MOST_CELLS:
        raise Infeasible(
            f"balanced Laplace noise is drawn for up to {MOST_CELLS} cells. Use Laplace noise for larger tables: it is "
            "hardly more there."
        )


def _at_equal_charge(attempt: Callable[[MechanismName, Budget], Plan], budget: Budget, order: float) -> Plan:
    """The least noise within the budget that costs a ledger no more than Gaussian noise within the budget would.

    A ledger charges the Rényi divergence at one order, where mechanisms with the same ε at δ differ: that of Laplace
    noise comes near its pure ε.
    """
    free = attempt("auto", budget)
    if budget.order == order:
        return free
    gaussian = attempt("gaussian", budget)
    charge = gaussian.guarantee.loss.rdp(order)
    if free.guarantee.loss.rdp(order) <= charge:
        return free
    try:
        capped = attempt("auto", Budget.rdp(order=order, epsilon=charge))
    except Infeasible:
        return gaussian
    if not capped.guarantee.loss.fits(budget):  # one order says little about ε at a small δ
        return gaussian
    return replace(capped, guarantee=replace(capped.guarantee, budget=budget))


def _check_drawable(mechanism: Mechanism) -> None:
    """Refuse what the exact sampler could not draw, before anything is paid for."""
    if isinstance(mechanism, Gaussian | NoisySum):
        scale = Fraction(mechanism.variance)
    elif isinstance(mechanism, Laplace | BalancedLaplace):
        scale = mechanism.rational_scale
    else:
        return
    if max(scale.numerator, scale.denominator) > MOST:
        raise Infeasible(
            f"{mechanism} is beyond what the exact sampler takes: the budget asks for far too much or too little noise"
        )


def split_by_loss(
    budget: Budget, sizes: Sequence[int], *, neighbours: Neighbours, total: float | None, rows: int = 1
) -> Split:
    """The weights with the least predicted sum of losses; "cells" where no size above 0 is public."""
    if not total:
        return "cells"
    noise = Gaussian.calibrate(budget, tables=len(sizes), neighbours=neighbours, rows=rows)
    return least_loss_shares(sizes, variance=noise.continuous_variance, total=total)


def shares(split: Split, sizes: Sequence[int], columns: Sequence[Sequence[str]]) -> list[float]:
    """The share of each table, adding up to one."""
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

    def at(self, variance: float, cells: int) -> AnyMechanism:
        """The member with about this noise variance at an empty cell; balanced noise has that of equal scale."""
        if self.name == "polya":
            return Polya(r=int(self.r), alpha=max(1, math.ceil(variance * self.r**2 / 2)))
        if self.name == "dirichlet":
            return Dirichlet(r=self.r, alpha=variance * self.r**2)
        if self.name == "gaussian":
            return Gaussian(sigma=math.sqrt(variance))
        if self.name == "balanced-laplace":
            return BalancedLaplace(scale=math.sqrt(variance / 2), cells=cells)
        return Laplace(scale=math.sqrt(variance / 2))

    def calibrate(
        self,
        budget: Budget,
        parts: list[float],
        sizes: Sequence[int],
        neighbours: Neighbours,
        rows: int,
        pure: tuple[float, ...],
        extras: Sequence[tuple[ExtraKind, float]] = (),
    ) -> list[AnyMechanism | NoisySum | GaussianTables]:
        """Noise variances in inverse proportion to the shares, all as small as the budget allows."""
        n = len(parts)
        alike = self.name != "balanced-laplace" or len(set(sizes)) == 1  # its loss depends on the cells
        if alike and not pure and not extras and max(parts) - min(parts) < 1e-12:
            settings: dict[str, Any] = {"tables": n, "neighbours": neighbours, "rows": rows}
            if self.name == "polya":
                return [Polya.calibrate(budget, r=int(self.r), **settings)] * n
            if self.name == "dirichlet":
                return [Dirichlet.calibrate(budget, r=self.r, **settings)] * n
            if self.name == "balanced-laplace":
                return [BalancedLaplace.calibrate(budget, cells=sizes[0], **settings)] * n
            family: type[Gaussian] | type[Laplace] = Gaussian if self.name == "gaussian" else Laplace
            return [family.calibrate(budget, **settings)] * n
        before = sum((pure_loss(epsilon, neighbours) for epsilon in pure), PrivacyLoss.nothing(neighbours))

        left = 1 - math.fsum(share for _, share in extras)

        def members(scale: float) -> list[AnyMechanism | NoisySum | GaussianTables]:
            tables = [self.at(scale / (n * part * left), size) for part, size in zip(parts, sizes, strict=True)]
            return [*tables, *(extra(kind, math.sqrt(scale / (n * share))) for kind, share in extras)]

        def excess(scale: float) -> float:
            return sum((m.loss(neighbours, rows=rows) for m in members(scale)), before).excess(budget)

        # Unequal Gaussians compose like equal ones with the same Σ 1/σ², so the equal ones are a close start.
        start = Gaussian.calibrate(budget, tables=n, neighbours=neighbours, rows=rows).noise_variance
        found = smallest_that_fits(excess, start, rtol=1e-6, near=0.02)
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
