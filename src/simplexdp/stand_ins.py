"""Public stand-ins for what a forecast may not look at: counts for a table, populations for the rows of a model.

The loss of a model with a second look, Newton rounds or a graph follows from no table alone. On request its fit is run,
with seeded noise, on made-up populations whose own probabilities are known exactly; what it lost is kept on disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._version import __version__
from .budget import Budget
from .errors import InvalidArgument, PrivacyWarning, UtilityWarning
from .estimation import Method
from .fitting import Facts, Terms
from .fitting.design import Design, Steps, Tabulated
from .lazy import special
from .mechanisms.base import TableMechanism
from .mechanisms.dirichlet import zipf_profile
from .models.guarantee import Guarantee
from .models.records import RowDraws, draw_cells
from .models.release import Release
from .pipeline import fit_recipe
from .private.counting import CellNumbers
from .sampling import SeededEntropy
from .schema import Schema

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Progress = Callable[[int, int], None]
"""Called with the parts done and the parts in all."""

_FEW = 2_000
"""Cells up to which a stand-in table is simulated as it is; larger ones are cut to this many with the same mean."""
REPEATED = (0.0, 0.4, 0.8)
"""How much of each feature repeats the one before it, in each of the made-up populations."""
FITS = 2
"""Of each population."""
_HIDDEN = 4
"""Classes that no column shows, where a model has no class column."""
_CONCENTRATED = 8.0
"""How near P(feature | class) is to what the classes have in common: the α₀ of a Dirichlet draw around that."""
_LEAST_EVIDENCE = 0.02
"""Added to that of each cell, so that draws over very many cells are not all zero."""
MOST_RECORDS = 500_000
"""In one simulated fit."""
_SCORED = 5_000
"""Records that are not fitted."""
_EDITION = 1
"""Of the populations and what is measured on them: a new one makes what is kept on disk worthless."""


class Parts:
    """Tells how many parts are done."""

    def __init__(self, progress: Progress | None, parts: int) -> None:
        self._progress, self._parts, self._done = progress, parts, 0

    def done(self, parts: int = 1) -> None:
        """So many more."""
        self._done += parts
        if self._progress is not None:
            self._progress(self._done, self._parts)


@dataclass(frozen=True, kw_only=True, eq=False)
class TableStandIn:
    """What is released in place of the sensitive tables: counts like the given ones, or by Zipf's law.

    Args:
        counts: public ones, if any were given.
        total: of each table.
        method: the estimate whose loss is wanted.
        repeats: releases of each table; None for as many as it takes.
    """

    counts: NDArray[np.int64] | None
    total: float
    method: Method
    repeats: int | None

    def of(self, cells: int) -> NDArray[np.int64]:
        """Counts of a table of this size."""
        size = min(cells, _FEW)
        weights = zipf_profile(1.0, size) if self.counts is None else np.resize(self.counts.astype(float) + 1e-9, size)
        expected = self.total * size / cells * weights / weights.sum()
        counts: NDArray[np.int64] = np.floor(expected).astype(np.int64)
        largest = np.argsort(counts - expected)[: max(1, round(float(expected.sum() - counts.sum())))]
        counts[largest] += 1
        return counts

    def loss(self, mechanism: TableMechanism, cells: int, guarantee: Guarantee, repeats: int) -> float:
        """The mean KL of seeded releases."""
        counts = self.of(cells)
        p = counts / counts.sum()
        alone = replace(guarantee, mechanisms=(mechanism,), pure=(), budget=None, named=())
        found = []
        for seed in range(repeats):
            release = Release(
                values=mechanism.draw(counts, SeededEntropy(seed)),
                mechanism=mechanism,
                guarantee=alone,
                total=float(counts.sum()) if guarantee.total_is_public else None,
                method=self.method,
            )
            found.append(float(np.sum(special.xlogy(p, p) - special.xlogy(p, release.probabilities))))
        return float(np.mean(found))


@dataclass(frozen=True, kw_only=True)
class StandInLoss:
    """What a fit lost on a public stand-in: means over made-up populations, each fitted with seeded noise.

    Args:
        of: whose probabilities are scored: a column given all others, or "rows" as a whole.
        log_loss: of the fitted models, in nats a record, on records that were not fitted.
        best: of the populations themselves, which no model can be below.
        shares: of knowing only how frequent the classes are; None where rows are scored.
        error: the standard error of `log_loss` that the noise leaves.
        records: in each fit: as many as are planned for, or the most that are simulated, where more would lose less.
        fits: how many there were.
    """

    of: str
    log_loss: float
    best: float
    shares: float | None
    error: float
    records: int
    fits: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Population:
    """Classes, and features that are independent given the class but for what each repeats of the one before it.

    P(x_k | x_{k−1}, c) = (1−ρ) θ_k(x_k | c) + ρ [x_k = ⌊x_{k−1} d_k/d_{k−1}⌋]. With ρ > 0 evidence is counted twice by
    naive Bayes, which is what feature weights take back.

    Args:
        shares: of the classes.
        tables: θ_k of each feature, classes × cells.
        repeated: ρ.
    """

    shares: FloatArray
    tables: tuple[FloatArray, ...]
    repeated: float

    @classmethod
    def of(cls, classes: int, sizes: Sequence[int], repeated: float, seed: int) -> Population:
        """From a fixed seed: what the classes have in common is Zipf's law in some order."""
        generator = np.random.default_rng([_EDITION, seed, classes, *sizes])
        tables = []
        for size in sizes:
            common = generator.permutation(_zipf(size))
            tables.append(generator.dirichlet(_CONCENTRATED * common + _LEAST_EVIDENCE, classes))
        return cls(shares=_zipf(classes), tables=tuple(tables), repeated=repeated)

    def draw(self, records: int, generator: np.random.Generator) -> tuple[IntArray, list[IntArray]]:
        """The class and each feature of so many records, as cell numbers."""
        classes = draw_cells(self.shares, records, generator)
        features: list[IntArray] = []
        for table in self.tables:
            own = RowDraws(table).draw(classes, generator)
            if features and self.repeated:
                own = np.where(generator.random(records) < self.repeated, self._copied(len(features), features), own)
            features.append(own)
        return classes, features

    def _copied(self, k: int, features: Sequence[IntArray]) -> IntArray:
        """What feature k is where it repeats the one before."""
        copied: IntArray = features[k - 1] * self.tables[k].shape[1] // self.tables[k - 1].shape[1]
        return copied

    def log_joint(self, features: Sequence[IntArray]) -> FloatArray:
        """ln P(class, features), records × classes."""
        log = np.tile(np.log(self.shares), (features[0].size, 1))
        for k, (table, own) in enumerate(zip(self.tables, features, strict=True)):
            likelihood = table.T[own]
            if k and self.repeated:
                same = own == self._copied(k, features)
                likelihood = (1 - self.repeated) * likelihood + self.repeated * same[:, None]
            log += np.log(np.maximum(likelihood, 1e-300))
        return log


def _zipf(size: int) -> FloatArray:
    weights: FloatArray = 1 / np.arange(1.0, size + 1)
    weights /= weights.sum()
    return weights


@dataclass(frozen=True, kw_only=True)
class Designed:
    """A recipe with the design that a plan shows, so that this very design is carried out."""

    recipe: Any
    made: Design

    @property
    def what(self) -> str:
        """Of the recipe."""
        return str(self.recipe.what)

    @property
    def tables(self) -> Tabulated:
        """Of the recipe."""
        fixed: Tabulated = self.recipe.tables
        return fixed

    def design(self, facts: Facts, terms: Terms) -> Design:  # noqa: ARG002  # made before
        """The one that the plan shows."""
        return self.made

    def follow(self, design: Design) -> Steps[Any]:
        """Of the recipe."""
        return self.recipe.follow(design)  # type: ignore[no-any-return]

    @property
    def key(self) -> str | None:
        """Of everything that its loss depends on; None for recipes of others, whose code may change at any time."""
        if not type(self.recipe).__module__.startswith("simplexdp."):
            return None
        facts = (_told(self.recipe), _told(self.made), REPEATED, FITS, _SCORED, __version__, _EDITION)
        return hashlib.sha256(repr(facts).encode()).hexdigest()


def _told(value: Any) -> Any:
    """A value in full, as text: field by field, as some hide what they hold."""
    if isinstance(value, Schema):
        return value.to_json()
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__qualname__, [(each.name, _told(getattr(value, each.name))) for each in fields(value)]
    if isinstance(value, Mapping):
        return [(_told(key), _told(each)) for key, each in value.items()]
    if isinstance(value, list | tuple):
        return [_told(each) for each in value]
    return value.tolist() if isinstance(value, np.ndarray) else repr(value)


def stand_in_loss(recipe: Designed, budget: Budget, records: int, parts: Parts) -> StandInLoss:
    """Of the design on all populations, from the cache where it is known."""
    schema = recipe.tables.needed
    if schema is None or schema.unresolved:
        raise InvalidArgument("stand_in", "left out for columns whose edges are private quantiles: they need values")
    key = recipe.key
    path = None
    if key is not None:
        with contextlib.suppress(RuntimeError):  # nobody's process has no home folder
            path = cache_folder("stand-ins") / f"{key}-{records}.json"
    known = None if path is None else _kept(path)
    if known is not None:
        parts.done(len(REPEATED) * FITS)
        return known
    found = _simulated(recipe, schema, budget, records, parts)
    if path is not None:
        with contextlib.suppress(OSError):  # it is computed again next time
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(f".{os.getpid()}.partial")
            partial.write_text(json.dumps(asdict(found)), encoding="utf-8")
            partial.replace(path)
    return found


def _kept(path: Path) -> StandInLoss | None:
    """What was found before; None where there is nothing that can be read."""
    try:
        return StandInLoss(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _simulated(recipe: Designed, schema: Schema, budget: Budget, records: int, parts: Parts) -> StandInLoss:
    """The fit on each population."""
    target: str | None = getattr(recipe.recipe, "target", None)
    features = [column for column in schema if column.name != target]
    unit, person = recipe.made.unit, "".join(("person of ", *schema.names))
    classes = _HIDDEN if target is None else schema[target].size
    lost, best, shares = [], [], []
    for seed, repeated in enumerate(REPEATED):
        population = Population.of(classes, [column.size for column in features], repeated, seed)

        def drawn(size: int, generator: np.random.Generator, made: Population = population) -> dict[str, IntArray]:
            hidden, values = made.draw(size, generator)
            named = dict(zip((column.name for column in features), values, strict=True))
            return named if target is None else named | {target: hidden}

        held = drawn(_SCORED, np.random.default_rng([_EDITION, seed, 0]))
        log = population.log_joint([held[column.name] for column in features])
        whole = np.logaddexp.reduce(log, axis=1)
        if target is None:
            best.append(-float(whole.mean()))
        else:
            rows = np.arange(_SCORED), held[target]
            best.append(-float((log[rows] - whole).mean()))
            shares.append(-float(np.log(population.shares)[held[target]].mean()))
        fitted = []
        for number in range(1, FITS + 1):
            data = drawn(records, np.random.default_rng([_EDITION, seed, number]))
            if unit.rows_per_person is not None:
                data[person] = np.arange(records) // unit.rows_per_person
            with warnings.catch_warnings():
                for kind in (PrivacyWarning, UtilityWarning):  # nothing here is anybody's
                    warnings.simplefilter("ignore", kind)
                model = fit_recipe(
                    recipe,
                    CellNumbers(data),
                    budget=budget,
                    records=records,
                    entropy=SeededEntropy(number),
                    neighbours=unit.neighbours,
                    rows_per_person=unit.rows_per_person,
                    person=None if unit.rows_per_person is None else person,
                )
            fitted.append(_log_loss(model, held, target))
            parts.done()
        lost.append(fitted)
    each = np.array(lost)
    error = math.sqrt(float(each.var(axis=1, ddof=1).sum()) / FITS) / len(REPEATED)
    return StandInLoss(
        of="rows" if target is None else target,
        log_loss=float(each.mean()),
        best=float(np.mean(best)),
        shares=float(np.mean(shares)) if shares else None,
        error=error,
        records=records,
        fits=each.size,
    )


def _log_loss(model: Any, held: dict[str, IntArray], target: str | None) -> float:
    """The mean of −ln P of the class given the features, or of rows."""
    if target is not None:
        given = {name: codes for name, codes in held.items() if name != target}
        chances = model.predict(target, given)[np.arange(_SCORED), held[target]]
        return -float(np.log(np.maximum(chances, 1e-300)).mean())
    if not hasattr(model, "log_likelihoods"):
        raise InvalidArgument("stand_in", "left out for a model that tells neither classes nor the likelihood of rows")
    return -float(np.mean(model.log_likelihoods(held)))


def cache_folder(kind: str) -> Path:
    """The folder for what can be made again, where each platform keeps such things.

    Raises:
        RuntimeError: there is no home folder.
    """
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "simplexdp" / kind
