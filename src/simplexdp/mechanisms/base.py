"""What mechanisms share: checked counts, the draw they return, and calibration to a budget."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..accounting.loss import PrivacyLoss
from ..budget import Budget, Neighbours
from ..errors import Infeasible, InvalidArgument
from ..numerics.roots import smallest_that_fits
from ..sampling.entropy import Entropy, entropy_from

FloatArray = NDArray[np.float64]
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


@dataclass(frozen=True, kw_only=True)
class Parametrised(Mechanism):
    """A mechanism that its fields fix."""

    name: ClassVar[str]

    @property
    def parameters(self) -> dict[str, Any]:
        """The fields, as plain numbers."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

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


def as_array(counts: ArrayLike) -> NDArray[Any]:
    """Counts as an array of any type; what NumPy says about a bad one would quote a value."""
    try:
        return np.asarray(counts)
    except (TypeError, ValueError):
        pass
    raise InvalidArgument("counts", "an array", hint="Rows of different lengths make no table.")


def checked_counts(counts: ArrayLike) -> IntArray:
    """Counts as int64, or one error that names no count."""
    array = as_array(counts)
    hint = "Give one non-negative whole number for each of two or more cells."
    if array.dtype.kind not in "iuf":
        raise InvalidArgument("counts", "an array of whole numbers", hint=hint)
    if array.size < 2:
        raise InvalidArgument("counts", "two or more cells", got=array.size, hint=hint)
    if array.dtype.kind == "f":
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
    mechanism: Mechanism, counts: ArrayLike, neighbours: Neighbours, entropy: Entropy | int | None, **work: int
) -> Draw:
    """Check, draw once, and say what was drawn."""
    source = entropy_from(entropy)
    loss = mechanism.loss(neighbours)  # before the draw: an unknown relation must not cost one
    values = mechanism.draw(checked_counts(counts), source, **work)
    return Draw(
        mechanism=mechanism,
        neighbours=neighbours,
        values=values,
        loss=loss,
        entropy=source.kind,
        private=source.is_private and mechanism.name != "none",
    )


class TableMechanism(Parametrised):
    """A mechanism of tables that are released as they are counted."""

    def release(
        self,
        counts: ArrayLike,
        *,
        neighbours: Neighbours = "replace-one",
        entropy: Entropy | int | None = None,
    ) -> Draw:
        """Draw once, for counts of any shape; a seeded draw is marked as not private."""
        return release_counts(self, counts, neighbours, entropy)


def calibrate_upwards(
    loss: Callable[[float], PrivacyLoss], budget: Budget, start: float, *, rtol: float = 1e-10
) -> float:
    """The smallest parameter whose loss the budget covers, for a loss that decreases in it; verified at the end."""
    found = smallest_that_fits(lambda x: loss(x).excess(budget), start, rtol=rtol)
    if not np.isfinite(found) or not loss(found).fits(budget):
        raise Infeasible(f"no parameters fit {budget}")
    return found


def noise_scale(budget: Budget, tables: int) -> float:
    """About the standard deviation that a count needs at this budget: a starting point, never a guarantee."""
    if budget.order is not None:
        return float(np.sqrt(tables * budget.order / budget.epsilon))
    assert budget.delta is not None
    log = -np.log(budget.delta)
    rho = (np.sqrt(log + budget.epsilon) - np.sqrt(log)) ** 2
    return float(np.sqrt(tables / rho))
