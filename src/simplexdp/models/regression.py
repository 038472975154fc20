"""Regressions on published tables, with intervals that noise and sampling have been taken into account of.

Inside one released table the score test is turned round: an interval holds all b for which

    min over the other coefficients of  U' (S' Cov(f) S)⁻¹ U ≤ q²,    S = x (y − μ(x'β)),  U = S' f,

with f the counts and Cov(f) their posterior covariance. The table tests the true value whatever the noise, so nothing
has to be nearly normal but the counts; an end is infinite where the noise wins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ..budget import check_fraction, check_whole
from ..errors import Infeasible, InvalidArgument
from ..estimation.posterior import Normal
from ..lazy import optimize, special
from .answer import Answer, How
from .query import Evidence

FloatArray = NDArray[np.float64]
Kind = Literal["logistic", "linear", "poisson"]
RIDGE = 1e-6
"""Of the information per record: keeps columns that hardly occur from making it singular."""
STEEP = 3.0
"""Of the linear predictor: a larger standard error of a logistic or Poisson regression is no unit of search."""
FARTHEST = 3.0
"""Ends are looked for up to sinh 3, ten standard errors, from the estimate; beyond they are infinite."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """The cells of a table as the records of a regression.

    Args:
        names: of the coefficients.
        x: cells × coefficients; zero where a cell has no part in it.
        y: the outcome in each cell.
        used: which cells have numbers for everything.
    """

    names: tuple[str, ...]
    x: FloatArray
    y: FloatArray
    used: NDArray[np.bool_]


def regression(
    evidence: Evidence,
    outcome: str | Mapping[str, Any],
    on: Sequence[str],
    kind: Kind,
    how: How,
    values: Mapping[str, Mapping[str, float]] | None = None,
) -> Answer:
    """Coefficients of a generalised linear model; see `Model.regression`."""
    if kind not in get_args(Kind):
        raise InvalidArgument("family", "one of " + ", ".join(get_args(Kind)), got=kind)
    cells, columns = cells_of_regression(evidence, outcome, list(on), kind, values or {})
    if not evidence.pooled.holds(columns):
        raise Infeasible(
            f"no released table has {', '.join(columns)} together, and a regression across tables has no interval that "
            f"holds; a fit with for_analysis=[({', '.join(map(repr, columns))})] buys one."
        )
    law = (evidence.pooled.noise if how.kind == "frequentist" else evidence.pooled.posterior)(columns, how.about)
    mean = _mean(kind)
    total = max(float(np.clip(law.mean, 0, None).sum()), 1.0)
    test = ScoreTest.of(cells, law, kind, total, how.quantile)
    # Positive counts always have a fit, but cutting off what is negative moves it: it is where the search begins.
    start = test.best(fitted(cells, np.clip(law.mean, 0, None), kind)[0])
    weights = np.clip(law.mean, 0, None) * cells.used
    information = (cells.x * (weights * _slope(kind, cells.x @ start))[:, None]).T @ cells.x
    information += RIDGE * total * np.diag(test.scale**2)
    scores = cells.x * ((cells.y - mean(cells.x @ start)) * cells.used)[:, None]
    bread = np.linalg.inv(information)
    error = np.sqrt(np.maximum(np.diag(bread @ law.of(scores) @ bread), 0.0))
    # Where hardly anything is known the error is no scale to search on: a few units of the linear predictor are.
    longest = STEEP / test.scale if kind != "linear" else np.full(start.size, math.inf)
    ends = [test.interval(j, start, max(min(float(error[j]), float(longest[j])), 1e-9)) for j in range(start.size)]
    outcome_name = columns[-1]
    return Answer(
        names=("term",),
        labels=tuple((name,) for name in cells.names),
        measure=f"coefficient of the {kind} regression of {outcome_name}",
        estimate=start,
        standard_error=error,
        low=np.array([low for low, _ in ends]),
        high=np.array([high for _, high in ends]),
        about=how.about,
        kind=how.kind,
        level=how.level,
        ground="released",
        notes=(
            "Intervals by score inversion; an infinite end means that the noise is too large to bound that side.",
            "Numbers count as the middle of their bin.",
        ),
    )


def cells_of_regression(
    evidence: Evidence,
    outcome: str | Mapping[str, Any],
    on: Sequence[str],
    kind: Kind,
    values: Mapping[str, Mapping[str, float]],
) -> tuple[Cells, tuple[str, ...]]:
    """The design over all cells: numbers as they are, other columns as an indicator for each value but the first."""
    if isinstance(outcome, Mapping):
        if len(outcome) != 1 or kind != "logistic":
            raise InvalidArgument("outcome", "one column with the value that counts as 1, of a logistic regression")
        (name, wanted), *_ = outcome.items()
        event = np.zeros(evidence.axis(name).size)
        event[list(evidence.axis(name, wanted).groups[0])] = 1.0
        response = event
    else:
        name = outcome
        axis = evidence.axis(name)
        if kind == "logistic":
            if axis.size != 2:
                raise InvalidArgument(
                    "outcome", "a column of two cells, or a mapping {column: value} for the event", got=name
                )
            response = np.array([0.0, 1.0])
        else:
            response = evidence.numbers(name, values.get(name))
    if not on or name in on or len(set(on)) < len(on):
        raise InvalidArgument("on", "other columns than the outcome, each once", got=list(on))
    columns = (*on, name)
    shape = evidence.pooled.shape(columns) if all(each in evidence.pooled.sizes for each in columns) else ()
    parts, names = [], []
    for each in on:
        axis = evidence.axis(each)
        shape = shape or ()
        try:
            numbers = evidence.numbers(each, values.get(each))
            parts.append(numbers[:, None])
            names.append(each)
        except InvalidArgument:
            parts.append(np.eye(axis.size)[:, 1:])
            names += [f"{each} = {label}" for label in axis.labels[1:]]
    places = np.unravel_index(np.arange(math.prod(shape)), shape)
    x = np.column_stack(
        [np.ones(math.prod(shape)), *(part[place] for part, place in zip(parts, places[:-1], strict=True))]
    )
    y = response[places[-1]]
    used = np.isfinite(x).all(axis=1) & np.isfinite(y)
    if kind == "poisson" and (y[used] < 0).any():
        raise InvalidArgument("outcome", "counts of 0 or more for a Poisson regression", got=name)
    x, y = np.where(used[:, None], x, 0.0), np.where(used, y, 0.0)
    return Cells(names=("intercept", *names), x=x, y=y, used=used), columns


def _mean(kind: Kind) -> Callable[[FloatArray], FloatArray]:
    if kind == "logistic":
        return lambda eta: np.asarray(special.expit(eta))
    if kind == "poisson":
        return lambda eta: np.exp(np.clip(eta, -30, 30))
    return lambda eta: eta


def _slope(kind: Kind, eta: FloatArray) -> FloatArray:
    if kind == "logistic":
        p = special.expit(eta)
        return np.asarray(p * (1 - p))
    return np.exp(np.clip(eta, -30, 30)) if kind == "poisson" else np.ones_like(eta)


def fitted(cells: Cells, counts: FloatArray, kind: Kind) -> tuple[FloatArray, FloatArray]:
    """Coefficients at which the weighted score is 0, and the information there: Newton's method with halved steps."""
    weights = counts * cells.used
    mean, total = _mean(kind), max(float(weights.sum()), 1.0)
    scale = np.sqrt(np.maximum((weights @ cells.x**2) / total, 1e-12))
    ridge = RIDGE * total * np.diag(scale**2)
    beta = np.zeros(cells.x.shape[1])
    if kind != "linear":
        average = float(weights @ cells.y / total)
        beta[0] = math.log(max(average, 1e-6) / (max(1 - average, 1e-6) if kind == "logistic" else 1.0))
    for _ in range(100):
        eta = cells.x @ beta
        score = cells.x.T @ (weights * (cells.y - mean(eta))) - ridge @ beta
        information = (cells.x * (weights * _slope(kind, eta))[:, None]).T @ cells.x + ridge
        step = np.linalg.solve(information, score)
        largest = float(np.max(np.abs(step * scale)))
        beta = beta + step * (1.0 if kind == "linear" else min(1.0, 2.0 / max(largest, 1e-300)))
        if largest < 1e-10:
            break
    eta = cells.x @ beta
    return beta, (cells.x * (weights * _slope(kind, eta))[:, None]).T @ cells.x + ridge


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoreTest:
    """U' (S' Cov(f) S)⁻¹ U as a function of the coefficients."""

    cells: Cells
    kind: Kind
    counts: FloatArray
    covered: Callable[[FloatArray], FloatArray]
    scale: FloatArray
    quantile: float

    @classmethod
    def of(cls, cells: Cells, law: Normal, kind: Kind, total: float, quantile: float) -> ScoreTest:
        """With the covariance at hand where the table is small."""
        if law.mean.size <= 1500:
            dense = law.times(np.eye(law.mean.size))
            covered: Callable[[FloatArray], FloatArray] = lambda s: s.T @ dense @ s  # noqa: E731
        else:
            covered = law.of
        scale = np.sqrt(np.maximum((np.clip(law.mean, 0, None) @ cells.x**2) / total, 1e-12))
        return cls(cells=cells, kind=kind, counts=law.mean, covered=covered, scale=scale, quantile=quantile)

    def statistic(self, beta: FloatArray) -> float:
        """What is at most q² inside the interval."""
        x = self.cells.x / self.scale
        residual = (self.cells.y - _mean(self.kind)(self.cells.x @ beta)) * self.cells.used
        s = x * residual[:, None]
        v, u = self.covered(s), s.T @ self.counts
        return float(u @ np.linalg.solve(v + 1e-9 * (v.trace() + 1e-300) * np.eye(u.size), u))

    def best(self, start: FloatArray) -> FloatArray:
        """The coefficients that the counts contradict least: where the score is 0, if that is anywhere."""

        def at(beta: FloatArray) -> float:
            return self.statistic(beta / self.scale) + RIDGE * float(np.mean(np.square(beta)))

        found = optimize.minimize(at, start * self.scale, method="BFGS", options={"maxiter": 200})
        made = np.asarray(found.x) / self.scale
        return made if self.statistic(made) < self.statistic(start) else start

    def interval(self, j: int, start: FloatArray, error: float) -> tuple[float, float]:
        """All values of one coefficient that the test does not reject, others free; everything if it rejects all."""
        if self.statistic(start) > self.quantile**2:
            return -math.inf, math.inf
        others = np.array([i for i in range(start.size) if i != j], dtype=np.intp)

        def profile(value: float, rest: FloatArray) -> tuple[float, FloatArray]:
            def at(free: FloatArray) -> float:
                beta = np.insert(free / self.scale[others], j, value)
                return (
                    self.statistic(beta) + 1e-5 * float(np.mean(np.square(free))) if free.size else self.statistic(beta)
                )

            if rest.size == 0:
                return at(rest), rest
            best = optimize.minimize(at, rest, method="BFGS", options={"maxiter": 60})
            return float(best.fun), np.asarray(best.x)

        def end(direction: float) -> float:
            inside, rest = float(start[j]), start[others] * self.scale[others]
            for step in np.sinh(np.linspace(0.25, FARTHEST, 12)):
                value = float(start[j] + direction * error * step)
                found, rest_there = profile(value, rest)
                if found > self.quantile**2:

                    def along(b: float, held: FloatArray = rest) -> float:
                        return profile(b, held)[0]

                    return self._edge(along, inside, value, 0.01 * error)
                inside, rest = value, rest_there
            return direction * math.inf

        return end(-1.0), end(1.0)

    def _edge(self, profile: Callable[[float], float], inside: float, outside: float, tolerance: float) -> float:
        """Where the profile crosses q² between the two."""
        if profile(inside) >= self.quantile**2:
            return inside
        return float(optimize.brentq(lambda b: profile(b) - self.quantile**2, inside, outside, xtol=tolerance))


def one_step(
    evidence: Evidence,
    statistic: Callable[[FloatArray], Any],
    influence: Callable[[FloatArray], Any],
    columns: Sequence[str],
    how: How,
) -> Answer:
    """θ(p) + Σ ψ(cell) f/N from a first guess p of the shares, with variance ψ' Cov(f) ψ / N²."""
    names = tuple(columns)
    if not evidence.pooled.holds(names):
        how.refuse_if_strict(names)
        raise Infeasible(f"no released table has {', '.join(names)} together.")
    law = (evidence.pooled.noise if how.kind == "frequentist" else evidence.pooled.posterior)(names, how.about)
    shape = evidence.pooled.shape(names)
    positive = np.clip(law.mean, 1e-9 * max(float(law.mean.sum()), 1.0), None)
    shares = (positive / positive.sum()).reshape(shape)
    first = np.atleast_1d(np.asarray(statistic(shares), dtype=np.float64)).ravel()
    psi = np.asarray(influence(shares), dtype=np.float64).reshape(*shape, -1).reshape(math.prod(shape), -1)
    if psi.shape[1] != first.size or not np.isfinite(psi).all():
        raise InvalidArgument("influence", f"finite numbers of the shape {(*shape, first.size)}, one for each cell")
    psi = psi - shares.ravel() @ psi
    total = max(float(law.mean.sum()), 1.0)
    made = first + psi.T @ law.mean / total
    error = np.sqrt(np.maximum(np.diag(law.of(psi)), 0.0)) / total
    return Answer(
        names=("part",) if first.size > 1 else (),
        labels=tuple((str(i + 1),) for i in range(first.size)) if first.size > 1 else ((),),
        measure="statistic",
        estimate=made,
        standard_error=error,
        low=made - how.quantile * error,
        high=made + how.quantile * error,
        about=how.about,
        kind=how.kind,
        level=how.level,
        ground="released",
        notes=(
            "One step from the published shares: for noise so large that the statistic bends, intervals are too short.",
        ),
    )


def combine(estimates: Sequence[float], *, level: float = 0.95) -> tuple[float, float, float, float]:
    """One estimate from those of several sets of synthetic records: estimate, standard error, lower and upper bound.

    The sets come from `sample(..., replicates=m)`, each from another draw of what the releases leave open, so that they
    differ by noise and sampling: the variance is (1 + 1/m) times theirs, on m − 1 degrees of freedom. It holds for what
    the model can say (columns that share a released table); nothing in the sets tells of the error of a graph, and
    errors that analyses print for a single set are far too small.
    """
    values = np.asarray(list(estimates), dtype=np.float64)
    check_whole("replicates", values.size, at_least=2)
    level = check_fraction("level", level)
    if not np.isfinite(values).all():
        raise InvalidArgument("estimates", "finite numbers, one from each set")
    error = math.sqrt((1 + 1 / values.size) * float(values.var(ddof=1)))
    q = float(special.stdtrit(values.size - 1, (1 + level) / 2))
    centre = float(values.mean())
    return centre, error, centre - q * error, centre + q * error
