"""What a mechanism says of itself, what mechanisms share, and calibration to a budget.

Whatever the rest of the library needs to know of a mechanism is a member here, so that nothing else switches on names
or types: to add a mechanism, write its class and one line in `mechanisms/__init__.py`.

`expected_kl` is the expected KL of counts with independent noise, clipped at zero with a constant added, without
simulation:

    E KL(p ‖ q) = Σ p ln p − Σ p E ln(X_i + s) + E ln Σ_i (X_i + s),   X_i the noisy count clipped at zero.

The last term is E ln S = ∫₀^∞ (e^-u − E e^-uS)/u du (Frullani), and E e^-uS is a product over independent cells.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..accounting.loss import PrivacyLoss
from ..budget import Budget, Neighbours, check_neighbours, check_positive, check_whole
from ..errors import Infeasible, InvalidArgument, discreet
from ..labelled import check_unlabelled
from ..lazy import special
from ..noisy import FloatArray, NoiseLaw, NoisyCounts
from ..numerics import as_array
from ..numerics.printed import short_fraction
from ..numerics.roots import smallest_that_fits
from ..sampling import Entropy, entropy_from

IntArray = NDArray[np.int64]


class Mechanism(Protocol):
    """A calibrated mechanism: a frozen value that knows its exact loss and draws a release."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name used in files and on the command line."""

    @property
    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """What fixes the mechanism, as plain numbers."""

    @abstractmethod
    def loss(self, neighbours: Neighbours = "replace-one", *, rows: int = 1) -> PrivacyLoss:
        """The exact privacy loss of one table; `rows` is how many rows one person may have."""

    @abstractmethod
    def draw(self, counts: IntArray, entropy: Entropy) -> NDArray[Any]:
        """One draw for checked counts. Private in, public out."""


class Limits(NamedTuple):
    """What a parameter in a file may be: wider than any use, narrow enough that its accounting cannot overflow."""

    low: float
    high: float
    meaning: str


@dataclass(frozen=True, kw_only=True)
class Parametrised(Mechanism):
    """A mechanism that its fields fix, as a guarantee lists it: of one table, or a step that follows the tables."""

    name: ClassVar[str]
    limits: ClassVar[Mapping[str, Limits]] = {}
    """Of the parameters."""
    not_private: ClassVar[str] = ""
    """Why nothing that is made with it is private, in the words of a certificate; empty where its promise holds."""
    not_covered: ClassVar[str] = ""
    """What its promise does not cover, in the words of a certificate."""

    @property
    def parameters(self) -> dict[str, Any]:
        """The fields, as plain numbers."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def precision(self) -> Fraction:
        """1/σ² of Gaussian noise, which several tables can share whatever the parts; 0 of all other noise."""
        return Fraction(0)

    @property
    def drawn_with(self) -> Fraction | None:
        """The scale or variance that the exact sampler of integer noise draws with; None where there is none."""
        return None

    def __str__(self) -> str:
        inside = ", ".join(f"{name}={value:.6g}" for name, value in self.parameters.items())
        return f"{type(self).__name__}({inside})"


@dataclass(frozen=True, kw_only=True)
class Draw:
    """A public draw with what is needed to judge it."""

    mechanism: Mechanism
    neighbours: Neighbours
    values: NDArray[Any]
    loss: PrivacyLoss = field(repr=False)
    entropy: str
    private: bool

    def __post_init__(self) -> None:
        self.values.setflags(write=False)

    def __str__(self) -> str:
        mark = "" if self.private else " (not private: seeded draw)"
        return f"draw over {self.values.size} cells by {self.mechanism} under {self.neighbours}{mark}"


def checked_counts(counts: ArrayLike) -> IntArray:
    """Counts as int64, or one error that names no count."""
    array = as_array(counts)
    hint = "Give one non-negative whole number for each of two or more cells."
    if array.dtype.kind not in "iuf":
        raise InvalidArgument("counts", "an array of whole numbers", hint=hint)
    if array.size < 2:
        raise InvalidArgument("counts", "two or more cells", got=array.size, hint=hint)
    if array.dtype.kind == "f":
        array = array.astype(np.float64)  # a short float cannot be compared with 2^53
        if not np.isfinite(array).all():
            raise InvalidArgument("counts", "finite", hint=hint)
        if (array != np.floor(array)).any():
            raise InvalidArgument("counts", "whole numbers", hint=hint + " For other queries pass sensitivity=.")
    if (array < 0).any():
        raise InvalidArgument("counts", "zero or more", hint=hint)
    if (array > 2**53).any():
        raise InvalidArgument("counts", "at most 2^53", hint="No table of people has that many.")
    return array.astype(np.int64)


def release_counts(
    mechanism: TableMechanism, counts: ArrayLike, neighbours: Neighbours, entropy: Entropy | int | None, **work: int
) -> Draw:
    """Check, draw once, and say what was drawn."""
    check_unlabelled(counts)
    source = entropy_from(entropy)
    loss = mechanism.loss(neighbours)  # before the draw: an unknown relation must not cost one
    values = mechanism.draw(checked_counts(counts), source, **work)
    return Draw(
        mechanism=mechanism,
        neighbours=neighbours,
        values=values,
        loss=loss,
        entropy=source.kind,
        private=source.is_private and not mechanism.not_private,
    )


@dataclass(frozen=True, kw_only=True)
class TableMechanism(Parametrised):
    """A mechanism of one table: all that planning, releases, files, certificates, audits and commands ask of it."""

    publishes_total: ClassVar[bool] = False
    """Whether the draw tells the number of records, which must be public then."""
    draws_shares: ClassVar[bool] = False
    """Whether a draw is a distribution, positive numbers that add up to one, and not whole numbers, cell by cell."""
    draws_alone: ClassVar[bool] = True
    """Whether the noise of a cell tells nothing of that of others, so that one draw can serve for many tables."""

    # -- calibration ---------------------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def calibrate(
        cls,
        budget: Budget,
        *,
        tables: int = 1,
        neighbours: Neighbours = "replace-one",
        total: float | None = None,
        cells: int | None = None,
        rows: int = 1,
    ) -> Self:
        """The least noise for which so many tables fit the budget; total and cells are public where they are given."""

    @abstractmethod
    def at(self, variance: float, cells: int) -> Self:
        """The relative with about this noise variance at an empty cell of a table of so many cells.

        Noise that depends on that of other cells counts as the independent noise of equal scale.
        """

    @classmethod
    def check_table(cls, *, total_is_public: bool, total: float | None, cells: int) -> None:
        """Refuse a table that this cannot be planned for, from public facts."""

    # -- what was drawn ------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def law(self) -> NoiseLaw:
        """The law of the noise, in count units."""

    @property
    def noise_variance(self) -> float:
        """The variance of what an empty cell shows, in count units."""
        return self.law.variance

    def unbiased(self, values: NDArray[Any], total: float | None) -> tuple[FloatArray, float, float]:  # noqa: ARG002
        """Values in count units, their noise variance at an empty cell, and how it grows with the count."""
        return values.astype(np.float64), self.law.variance, self.law.slope

    def observe(self, values: NDArray[Any], total: float | None) -> NoisyCounts:
        """What was drawn as noisy counts, which estimates start from."""
        return NoisyCounts.of(self.unbiased(values, total)[0], self.law, total)

    def check_values(self, values: NDArray[Any], total: float | None) -> None:  # noqa: ARG002
        """Refuse values that this cannot have drawn."""
        if values.dtype.kind not in "iu":
            raise InvalidArgument("values", f"whole numbers, as the {self.name} mechanism draws")

    @discreet
    def release(
        self,
        counts: ArrayLike,
        *,
        neighbours: Neighbours = "replace-one",
        entropy: Entropy | int | None = None,
    ) -> Draw:
        """Draw once, for counts of any shape; a seeded draw is marked as not private."""
        return release_counts(self, counts, neighbours, entropy)

    # -- audit ---------------------------------------------------------------------------------------------------

    def worst_pair(self, neighbours: Neighbours, rows: int = 1) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The neighbouring tables on which it loses most: the rows of a person in an empty cell, or not there."""
        rows = check_whole("rows", rows)
        if check_neighbours(neighbours) == "replace-one":
            return (rows, 0), (0, rows)
        return (rows, 0), (0, 0)

    @abstractmethod
    def cell_loss(self, values: NDArray[Any], rows: int = 1) -> FloatArray:
        """ln of the law of a cell with so many rows over that of an empty one, at drawn values, up to a constant."""


def check_sum(mechanism: TableMechanism, values: NDArray[Any], total: float | None) -> None:
    """Refuse a public total that the values of a mechanism which leaves it as it is do not add up to."""
    if total not in (None, values.sum()):
        raise InvalidArgument("total", f"the sum of the values for the {mechanism.name} mechanism", got=total)


def check_not_below_zero(mechanism: TableMechanism, values: NDArray[Any]) -> None:
    """Refuse values below 0 for a mechanism that draws none."""
    if (values < 0).any():
        raise InvalidArgument("values", f"0 or more, as the {mechanism.name} mechanism draws")


def calibrate_upwards(
    loss: Callable[[float], PrivacyLoss], budget: Budget, start: float, *, rtol: float = 1e-10
) -> float:
    """The smallest parameter whose loss the budget covers, for a loss that decreases in it; verified at the end."""
    start, rtol = check_positive("start", start), check_positive("rtol", rtol)
    found = smallest_that_fits(lambda x: loss(x).excess(budget), start, rtol=rtol)
    if not np.isfinite(found) or not loss(found).fits(budget):
        raise Infeasible(f"no parameters fit {budget}")
    return found


GAUSSIAN = "Gaussian noise"


def no_pure_guarantee(budget: Budget, noise: str) -> None:
    """Refuse a pure budget for noise whose privacy loss has no bound."""
    if budget.concentrated and noise != GAUSSIAN:
        raise Infeasible(
            f"{noise} is not zCDP: its Rényi divergence is infinite from some order on. Use mechanism='gaussian'."
        )
    if budget.is_pure:
        raise Infeasible(
            f"{noise} has no pure guarantee: its privacy loss has no bound. Give a delta above 0, or use "
            "mechanism='laplace'."
        )


def pure_scale(budget: Budget, shifts: int) -> float:
    """The smallest scale b that is drawn as it is with shifts/b ≤ ε, in exact arithmetic.

    >>> pure_scale(Budget(epsilon=1.0, delta=0), 2)
    2.0
    """
    shifts = check_whole("shifts", shifts)
    return float(short_fraction(Fraction(shifts) / Fraction(budget.epsilon)))


def noise_scale(budget: Budget, tables: int) -> float:
    """About the standard deviation that a count needs at this budget: a starting point, never a guarantee."""
    tables = check_whole("tables", tables)
    if budget.is_pure:  # Laplace noise of scale 2·tables/ε
        return float(np.sqrt(8) * tables / budget.epsilon)
    if budget.order is not None:
        return float(np.sqrt(tables * budget.order / budget.epsilon))
    if budget.concentrated:
        return float(np.sqrt(tables / budget.epsilon))
    assert budget.delta is not None
    log = -np.log(budget.delta)
    rho = (np.sqrt(log + budget.epsilon) - np.sqrt(log)) ** 2
    return float(np.sqrt(tables / rho))


@dataclass(frozen=True, kw_only=True)
class Law:
    """The distribution of one noisy count."""

    values: FloatArray
    probabilities: FloatArray


def expected_kl(counts: ArrayLike, law: Callable[[int], Law], constant: float) -> float:
    """E KL(f/N ‖ q), q ∝ max(noisy, 0) + constant; reads the counts, so it is not private."""
    f = checked_counts(counts).ravel()
    total = int(f.sum())
    if total == 0:
        raise InvalidArgument("counts", "not all zero", hint="An empty table has no distribution.")
    distinct, times = np.unique(f, return_counts=True)
    laws = [law(int(count)) for count in distinct]
    shifted = [np.maximum(each.values, 0.0) + constant for each in laws]
    means = [float(each.probabilities @ value) for each, value in zip(laws, shifted, strict=True)]
    scale = float(times @ np.array(means))
    # u = e^x / scale; the integrand falls off exponentially to the left and doubly so to the right.
    x = np.linspace(-34, 6, 801)
    u = np.exp(x)
    log_transform = np.zeros_like(u)
    logs = 0.0
    for count, n, each, value in zip(distinct, times, laws, shifted, strict=True):
        mgf = np.exp(-np.outer(u / scale, value)) @ each.probabilities
        log_transform += n * np.log(np.maximum(mgf, 1e-300))
        logs += n * count / total * float(each.probabilities @ np.log(value))
    log_sum = np.log(scale) + float(np.trapezoid(np.exp(-u) - np.exp(log_transform), x))
    p = f / total
    return float(np.sum(special.xlogy(p, p))) - logs + float(log_sum)
