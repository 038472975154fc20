"""Answers with honest uncertainty from what was released, at no further budget.

Where the columns of a question share a released table, the answer rests on that table and all that overlap with it, and
its interval holds as stated (docs/answers.md says how well). Where they do not, the answer rests on the structure of
the model, whose error is not in the releases: it says "given the graph" and promises no coverage.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..budget import check_fraction, check_number
from ..errors import Infeasible, InvalidArgument
from ..estimation.posterior import About, Normal, PooledPosteriors, Ratios
from ..estimation.values import noise_intervals
from ..lazy import sparse
from ..numerics.factors import Factor, eliminate
from ..schema import Categories, Column, Numeric, Schema
from ..schema.never import impossible
from .answer import Answer, Axis, Ground, How, cells_of

if TYPE_CHECKING:
    from .model import Model

FloatArray = NDArray[np.float64]
Family = tuple[str, tuple[str, ...]]
DRAWS = 400
"""Draws of the published tables behind an answer that is given the graph."""
MOST_CELLS = 1 << 22
"""Of the table that a question is answered from."""


class Evidence:
    """The releases of one model as questions see them.

    Args:
        model: with the releases.
        families: the structure that answers rest on where no released table does: each node with its parents.
        factors: by which the product of the families is multiplied, by their columns.
    """

    def __init__(
        self,
        model: Model,
        families: Sequence[Family] = (),
        factors: Mapping[tuple[str, ...], FloatArray] | None = None,
    ) -> None:
        self.model, self.families, self.factors = model, tuple(families), dict(factors or {})
        self._drawn: dict[About, dict[str, FloatArray]] = {}

    @cached_property
    def pooled(self) -> PooledPosteriors:
        """Posteriors of all released tables together."""
        tables: dict[tuple[str, ...], Any] = {}
        for release in self.model.releases:
            names = release.columns or tuple(f"axis {i + 1}" for i in range(release.values.ndim))
            tables[names] = release.noisy if names not in tables else together(tables[names], release.noisy)
        rows = self.model.guarantee.rows
        return PooledPosteriors(tables, rows=rows)

    @cached_property
    def schema(self) -> dict[str, Column | None]:
        """Of the released columns, which may have fewer bins than the model's."""
        found: dict[str, Column | None] = {}
        for release in self.model.releases:
            names = release.columns or tuple(f"axis {i + 1}" for i in range(release.values.ndim))
            found.update((name, None if release.schema is None else release.schema[name]) for name in names)
        return found

    # -- questions --------------------------------------------------------------------------------------------

    def axis(self, name: str, wanted: Any = None) -> Axis:
        """All cells of a column, or those that a value, a label, a list of them or a pair of edges names, as one."""
        if name not in self.schema:
            known = ", ".join(list(self.schema)[:20])
            raise InvalidArgument("columns", "among those that were released", got=name, hint=f"There are {known}.")
        size, column = self.pooled.sizes[name], self.schema[name]
        labels = column.labels if column is not None else [str(i + 1) for i in range(size)]
        if wanted is None:
            return Axis(name=name, labels=tuple(labels), groups=tuple((i,) for i in range(size)), size=size)
        cells = cells_of(name, column, labels, wanted)
        text = " or ".join(labels[cell] for cell in cells)
        return Axis(name=name, labels=(text,), groups=(tuple(cells),), size=size)

    def axes(self, asked: Any, what: str) -> list[Axis]:
        """From a name, names, or names with values."""
        if asked is None:
            return []
        if isinstance(asked, str):
            return [self.axis(asked)]
        if isinstance(asked, Mapping):
            return [self.axis(name, wanted) for name, wanted in asked.items()]
        try:
            names = list(asked)
        except TypeError:
            raise InvalidArgument(what, "names of columns, or a mapping from names to values", got=asked) from None
        if len(set(names)) < len(names):
            raise InvalidArgument(what, "each once", got=names)
        return [self.axis(name) for name in names]

    def numbers(self, name: str, values: Mapping[str, float] | None) -> FloatArray:
        """A number for each cell of a column, not a number where it has none."""
        column, size = self.schema[name], self.pooled.sizes[name]
        if values is not None:
            labels = self.axis(name).labels
            unknown = [label for label in values if label not in labels]
            if unknown:
                raise InvalidArgument("values", f"numbers by the labels of {name!r}", got=unknown)
            known = {label: check_number("values", number) for label, number in values.items()}
            return np.array([known.get(label, math.nan) for label in labels])
        found = np.full(size, math.nan)
        if isinstance(column, Numeric):
            edges = np.asarray(column.edges)
            found[: column.declared] = [*column.own, *((edges[1:] + edges[:-1]) / 2)]
        elif isinstance(column, Categories) and type(column.values[0]) in (int, bool):
            found[: column.declared] = column.values
        else:
            raise InvalidArgument(
                "column", "of numbers", got=name, hint="Give values={label: number} for a column of categories."
            )
        return found

    # -- the counts behind an answer ---------------------------------------------------------------------------

    def answered(
        self, names: Sequence[str], ratios: Ratios, how: How, *, bounded: bool, counts: bool = False
    ) -> tuple[Ground, FloatArray, FloatArray, FloatArray, FloatArray]:
        """Ground, estimates, standard errors and bounds of ratios of the counts over these columns."""
        if math.prod(self.pooled.shape(names)) > MOST_CELLS:
            raise Infeasible(f"a table of {', '.join(names)} has too many cells; ask for fewer columns.")
        ratios = self._possible(names, ratios)
        if self.pooled.holds(names):
            direct = self.pooled.noise(names, how.about)
            law = direct if how.kind == "frequentist" else self.pooled.posterior(names, how.about)
            found = ratios.intervals(
                law,
                direct,
                how.quantile,
                rows=self.model.guarantee.rows,
                population=how.about == "population",
                bounded=bounded,
                tails=self._tails(names, ratios),
            )
            return ("released", *found)
        how.refuse_if_strict(names)
        joint = self.joint(names, how.about)
        if counts:
            joint = joint * self.pooled.known.total
        with np.errstate(divide="ignore", invalid="ignore"):
            values = (joint @ ratios.top) / (joint @ ratios.bottom)[:, ratios.group]
        error = (1 - how.level) / 2
        low, high = np.nanquantile(values[1:], [error, 1 - error], axis=0)
        # The first row is the model itself.
        return (
            "given the graph",
            values[0],
            np.nanstd(values[1:], axis=0),
            np.minimum(low, values[0]),
            np.maximum(high, values[0]),
        )

    def _possible(self, names: Sequence[str], ratios: Ratios) -> Ratios:
        """Without the cells that the schema declares impossible."""
        schema = self.model.schema
        if schema is None or not schema.never or any(schema[name] != self.schema[name] for name in names):
            return ratios
        never = impossible(schema, names)
        if never is None:
            return ratios
        kept = sparse.diags_array((~never).ravel().astype(float))
        return replace(ratios, top=sparse.csr_array(kept @ ratios.top), bottom=sparse.csr_array(kept @ ratios.bottom))

    def _tails(self, names: Sequence[str], ratios: Ratios) -> FloatArray:
        """Excess kurtosis of the noise behind each answer: 3 for Laplace noise, over the cells that are summed."""
        summed = np.asarray((ratios.top != 0).sum(axis=0)).ravel()
        spread = [
            release.noisy.size / math.prod(self.pooled.shape(names))
            for release in self.model.releases
            if release.noisy.noise == "laplace" and set(names) <= set(release.columns or self.schema)
        ]
        return 3.0 / np.maximum(summed * min(spread), 1.0) if spread else np.zeros(summed.size)

    # -- draws of what is left open --------------------------------------------------------------------------------

    def redrawn(
        self, number: int, generator: np.random.Generator
    ) -> list[tuple[Schema, Sequence[Family], Mapping[str, FloatArray]]]:
        """Schema, families and tables of so many draws from the posterior of the population."""
        columns = [column for column in self.schema.values() if column is not None]
        if len(columns) < len(self.schema):
            raise Infeasible("records are drawn from declared columns: give a schema.")
        families = self.families or _chain(list(self.schema))
        drawn: dict[str, FloatArray] = {}
        if self.families:
            for node, parents in families:
                law = self.pooled.posterior((*parents, node), "population")
                drawn[node] = _rows(law.draws(number, generator), self.pooled.shape((*parents, node)))
        else:
            names = list(self.schema)
            joint = np.maximum(self.pooled.posterior(names, "population").draws(number, generator), 1e-3)
            joint = joint.reshape(number, *self.pooled.shape(names))
            for i, name in enumerate(names):
                table = joint.sum(axis=tuple(range(i + 2, joint.ndim)))
                drawn[name] = table / table.sum(axis=-1, keepdims=True)
        schema = Schema(columns)
        return [(schema, families, {name: tables[i] for name, tables in drawn.items()}) for i in range(number)]

    # -- given the graph --------------------------------------------------------------------------------------

    def joint(self, names: Sequence[str], about: About) -> FloatArray:
        """Probabilities over these columns under the structure: of the model, then of draws of its tables."""
        if not self.families:
            raise Infeasible(
                f"no released table has {', '.join(names)} together, and this model has no structure that joins them."
            )
        needed = _above(self.families, [*names, *(name for pair in self.factors for name in pair)])
        factors = [
            Factor(("", *parents, node), self._tables(node, parents, about))
            for node, parents in self.families
            if node in needed
        ]
        factors += [Factor(pair, values) for pair, values in self.factors.items()]
        try:
            made, _ = eliminate(factors, tuple(names), limit=MOST_CELLS * DRAWS)
        except Infeasible:
            raise Infeasible(
                f"the structure joins {', '.join(names)} by too many others for an exact answer; draw records and "
                "count them, or ask for columns of one released table."
            ) from None
        flat = made.values.reshape(len(made.values), -1)
        return np.asarray(flat / flat.sum(axis=1, keepdims=True))

    def _tables(self, node: str, parents: tuple[str, ...], about: About) -> FloatArray:
        """The model's P(node | parents), then draws of it."""
        drawn = self._drawn.setdefault(about, {})
        if node not in drawn:
            known = np.asarray(self.model.conditional(node))
            law = self.pooled.posterior((*parents, node), about)
            generator = np.random.default_rng(len(drawn))
            drawn[node] = np.concatenate([known[None], _rows(law.draws(DRAWS, generator), known.shape)])
        return drawn[node]


def query(
    evidence: Evidence, columns: Any = None, given: Any = None, how: How | None = None, *, counts: bool = False
) -> Answer:
    """Probabilities of the cells of some columns, given others or their values; or expected counts of the records."""
    how = how or How()
    asked, known = (
        evidence.axes(columns if columns is not None else _all(evidence), "columns"),
        evidence.axes(given, "given"),
    )
    check_apart(asked, known)
    axes = [*known, *asked]
    names = tuple(axis.name for axis in axes)
    top = product_of([axis.matrix for axis in axes])
    answers, ones = top.shape[1], [np.ones((axis.size, 1)) for axis in asked]
    groups = math.prod(len(axis.groups) for axis in asked)
    if counts:
        # As shares of everything, times the number of records; under add-remove that number is itself estimated.
        scaled = Ratios(top=top, bottom=np.full((top.shape[0], 1), 1.0), group=np.zeros(answers, dtype=np.intp))
        found = _counted(evidence, names, scaled, how)
    else:
        bottom = product_of([*(axis.matrix for axis in known), *map(sparse.csr_array, ones)])
        ratios = Ratios(top=top, bottom=bottom, group=np.arange(answers) // groups)
        found = evidence.answered(names, ratios, how, bounded=True)
    ground, estimate, error, low, high = found
    ground, low, high = _exact_intervals(evidence, names, how, axes, known, counts, (ground, low, high))
    return Answer(
        names=names,
        labels=tuple(itertools.product(*(axis.labels for axis in axes))),
        measure="count" if counts else "probability",
        estimate=estimate,
        standard_error=error,
        low=low,
        high=high,
        about=how.about,
        kind=how.kind,
        level=how.level,
        ground=ground,
        notes=notes_of(evidence, how, ground),
    )


def mean(
    evidence: Evidence,
    column: str,
    given: Any = None,
    how: How | None = None,
    *,
    values: Mapping[str, float] | None = None,
) -> Answer:
    """The mean of a column, where numbers count as the middle of their bin; records without one are left out."""
    how = how or How()
    known, axis = evidence.axes(given, "given"), evidence.axis(column)
    check_apart([axis], known)
    numbers = evidence.numbers(column, values)
    there = np.isfinite(numbers)
    matrices = [each.matrix for each in known]
    top = product_of([*matrices, sparse.csr_array(np.where(there, numbers, 0.0)[:, None])])
    bottom = product_of([*matrices, sparse.csr_array(there[:, None].astype(float))])
    names = (*(each.name for each in known), column)
    ratios = Ratios(top=top, bottom=bottom, group=np.arange(top.shape[1]))
    ground, estimate, error, low, high = evidence.answered(names, ratios, how, bounded=False)
    smallest, largest = float(numbers[there].min()), float(numbers[there].max())
    return Answer(
        names=tuple(each.name for each in known),
        labels=tuple(itertools.product(*(each.labels for each in known))),
        measure=f"mean of {column}",
        estimate=np.clip(estimate, smallest, largest),
        standard_error=error,
        low=np.clip(low, smallest, largest),
        high=np.clip(high, smallest, largest),
        about=how.about,
        kind=how.kind,
        level=how.level,
        ground=ground,
        notes=(*notes_of(evidence, how, ground), *_binned(evidence, column)),
    )


def quantile(evidence: Evidence, column: str, q: float = 0.5, given: Any = None, how: How | None = None) -> Answer:
    """Where a share of the records lies below: bounds of the distribution function, turned round.

    The interval is all x at which the interval of Pr[column < x] holds the share; numbers lie evenly in their bins.
    """
    how, share = how or How(), check_fraction("q", q)
    known = evidence.axes(given, "given")
    check_apart([evidence.axis(column)], known)
    spec = evidence.schema[column]
    if not isinstance(spec, Numeric) or not spec.bins:
        raise InvalidArgument("column", "of numbers in bins", got=column)
    edges = np.asarray(spec.edges)
    below = np.zeros((spec.size, spec.bins + 1))
    for i, edge in enumerate(edges):
        below[: len(spec.own), i] = np.asarray(spec.own) < edge
        below[len(spec.own) : len(spec.own) + i, i] = 1.0
    there = np.zeros((spec.size, 1))
    there[: spec.declared] = 1.0
    matrices = [each.matrix for each in known]
    top = product_of([*matrices, sparse.csr_array(below)])
    bottom = product_of([*matrices, sparse.csr_array(there)])
    names = (*(each.name for each in known), column)
    ratios = Ratios(top=top, bottom=bottom, group=np.arange(top.shape[1]) // edges.size)
    ground, estimate, _, low, high = evidence.answered(names, ratios, how, bounded=True)

    def curves(values: FloatArray) -> FloatArray:
        return np.maximum.accumulate(np.nan_to_num(values.reshape(-1, edges.size)), axis=1)

    at = np.array([float(np.interp(share, row, edges)) for row in curves(estimate)])
    # The smallest number at which the upper bound of the distribution function reaches the share.
    first = np.array([float(np.interp(share, row, edges)) for row in curves(high)])
    falling = np.minimum.accumulate(curves(low)[:, ::-1], axis=1)[:, ::-1]
    last = np.array([_last(row, edges, share) for row in falling])
    return Answer(
        names=tuple(each.name for each in known),
        labels=tuple(itertools.product(*(each.labels for each in known))),
        measure=f"{share:g} quantile of {column}",
        estimate=np.clip(at, first, last),
        standard_error=np.full(at.size, math.nan),
        low=first,
        high=last,
        about=how.about,
        kind=how.kind,
        level=how.level,
        ground=ground,
        notes=(*notes_of(evidence, how, ground), *_binned(evidence, column)),
    )


# -- parts ----------------------------------------------------------------------------------------------------------


def _all(evidence: Evidence) -> list[str]:
    if len(evidence.model.releases) > 1:
        raise InvalidArgument("columns", "given", hint=f"There are {', '.join(list(evidence.schema)[:20])}.")
    return list(evidence.schema)


def check_apart(asked: Sequence[Axis], known: Sequence[Axis]) -> None:
    """Something is asked for, and nothing of it is given."""
    both = {axis.name for axis in asked} & {axis.name for axis in known}
    if both:
        raise InvalidArgument("given", "other columns than those that are asked for", got=sorted(both))
    if not asked:
        raise InvalidArgument("columns", "at least one")


def product_of(matrices: Sequence[Any]) -> Any:
    """The Kronecker product: cells of all columns × groups of all."""
    made = sparse.csr_array(np.ones((1, 1)))
    for matrix in matrices:
        made = sparse.kron(made, matrix, format="csr")
    return sparse.csr_array(made)


def _counted(
    evidence: Evidence, names: tuple[str, ...], shares: Ratios, how: How
) -> tuple[Ground, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Counts: cells of the law itself, as ratios to a constant."""
    if evidence.pooled.holds(names):
        # A further cell that is always one, without variance, stands below.
        top = sparse.vstack([shares.top, sparse.csr_array((1, shares.top.shape[1]))], format="csr")
        one = sparse.csr_array(([1.0], ([top.shape[0] - 1], [0])), shape=(top.shape[0], 1))
        ratios = Ratios(top=top, bottom=one, group=shares.group)
        direct = _with_one(evidence.pooled.noise(names, how.about))
        law = direct if how.kind == "frequentist" else _with_one(evidence.pooled.posterior(names, how.about))
        tails = evidence._tails(names, shares)
        found = ratios.intervals(law, direct, how.quantile, rows=1, population=False, bounded=False, tails=tails)
        estimate, error, low, high = found
        return "released", np.maximum(estimate, 0), error, np.maximum(low, 0), np.maximum(high, 0)
    ground, estimate, error, low, high = evidence.answered(names, shares, how, bounded=False)
    total = evidence.pooled.known.total
    return ground, estimate * total, error * total, low * total, high * total


def _with_one(law: Normal) -> Normal:
    """The law of the counts and of a further one that is 1."""
    parts = tuple(
        (
            np.append(diagonal, 0.0),
            sparse.vstack([columns, sparse.csr_array((1, columns.shape[1]))], format="csr"),
            core,
        )
        for diagonal, columns, core in law.parts
    )
    return replace(law, mean=np.append(law.mean, 1.0), parts=parts)


def _exact_intervals(
    evidence: Evidence,
    names: tuple[str, ...],
    how: How,
    axes: Sequence[Axis],
    known: Sequence[Axis],
    counts: bool,
    found: tuple[Ground, FloatArray, FloatArray],
) -> tuple[Ground, FloatArray, FloatArray]:
    """For single cells of the only table there is, the exact law of the noise in place of the normal one."""
    ground = found[0]
    releases = [release for release in evidence.model.releases if set(names) <= set(release.columns or evidence.schema)]
    whole = all(len(axis.groups) == axis.size for axis in axes)
    if known or not whole or how.kind != "frequentist" or how.about != "records" or len(releases) != 1:
        return found
    noisy = releases[0].noisy
    if noisy.noise == "normal" and noisy.slope == 0:
        return found
    held = releases[0].columns or tuple(evidence.schema)
    if set(held) != set(names) or (counts and noisy.total is None):
        return found
    turned = [held.index(name) for name in names]
    exact = [each.reshape(noisy.values.shape).transpose(turned).ravel() for each in noise_intervals(noisy, how.level)]
    factor = noisy.total if counts and noisy.total is not None else 1.0
    return ground, np.clip(exact[0], 0, 1) * factor, np.clip(exact[1], 0, 1) * factor


def _rows(counts: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Distributions along the last axis of each draw."""
    positive = np.maximum(counts, 1e-3).reshape(len(counts), *shape)
    return np.asarray(positive / positive.sum(axis=-1, keepdims=True))


def _chain(names: Sequence[str]) -> list[Family]:
    """Each column given all before it."""
    return [(name, tuple(names[:i])) for i, name in enumerate(names)]


def together(first: Any, second: Any) -> Any:
    """Two looks at one table as one, weighted by precision."""
    at = first.likely_total / first.size
    weights = [1 / (each.variance + each.slope * at) for each in (first, second)]
    share = weights[0] / sum(weights)
    return replace(
        first,
        values=share * first.values + (1 - share) * second.values,
        variance=share**2 * first.variance + (1 - share) ** 2 * second.variance,
        slope=share**2 * first.slope + (1 - share) ** 2 * second.slope,
        noise="normal",
        balanced=False,
    )


def _above(families: Sequence[Family], names: Sequence[str]) -> set[str]:
    """These columns and what they descend from."""
    parents, found, left = dict(families), set(), list(names)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += parents.get(name, ())
    return found


def notes_of(evidence: Evidence, how: How, ground: Ground) -> tuple[str, ...]:
    """What else every answer of this model should say."""
    rows = evidence.model.guarantee.rows
    notes = [evidence.model.voices] if ground == "given the graph" and evidence.model.voices else []
    if how.about == "population" and rows > 1:
        notes.append(
            f"A person has up to {rows} rows: sampling is taken to vary {rows} times as much as for single rows."
        )
    return tuple(notes)


def _binned(evidence: Evidence, column: str) -> tuple[str, ...]:
    return (
        ("Numbers are taken to lie evenly inside their bins.",) if isinstance(evidence.schema[column], Numeric) else ()
    )


def _last(below: FloatArray, edges: FloatArray, share: float) -> float:
    """The largest number at which the lower bound is still at most the share."""
    places = np.flatnonzero(below <= share)
    if places.size == 0:
        return float(edges[0])
    at = int(places[-1])
    if at == edges.size - 1:
        return float(edges[-1])
    span = below[at + 1] - below[at]
    return float(edges[at] + (edges[at + 1] - edges[at]) * ((share - below[at]) / span if span > 0 else 1.0))
