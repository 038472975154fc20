"""Normal posteriors of tables inside released tables, for intervals: post-processing of releases alone.

Every set of columns that some released table contains has a pooled, unbiased noisy table A (`OverlappingTables`), whose
noise is Σ_S v_S P_S, with P_S the projector on the effects of exactly the columns S. Around independence m,

    counts f = m + Σ_S (effects of S, of standard deviation a_S m^¾) + sampling,        A = f + noise,

all normal but the effects, which are Student's: each has a width of its own, at which it is normal. The a_S and the
widths are learnt from A, smaller tables first. The posterior of f speaks of the records; that of f without its
sampling error speaks of the population that they were drawn from.

All matrices here are a diagonal and a few indicators of margins, A = D + B W Bᵀ with as many columns of B as the
margins have cells, so nothing grows with the cube of the cells (Woodbury's identity).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, product
from typing import Any, Literal

import numpy as np

from ..errors import InvalidArgument
from ..lazy import linalg, sparse, special
from .network_tables import OverlappingTables
from .one_table import estimate
from .values import FloatArray, NoisyCounts

About = Literal["records", "population"]
"""What the true table says (noise alone), or the population that its records were drawn from (noise and sampling)."""

EFFECT_GRID = (0.25, 0.5, 1.0, 2.0)
"""Relative standard deviations a_S of the effects in a cell of typical size, with equal prior weights."""
EFFECT_POWER = 0.75
"""The standard deviation of an effect grows with this power of the expected count."""
SINGLE_COLUMN = 3.0
"""Relative prior standard deviation of the counts of one column: hardly any."""
FREEDOM = 1.0
"""Degrees of freedom of the law of single effects: in real tables some are far larger than the others."""
EM_STEPS = 20
"""Of expectation-maximisation for how wide the law of each effect is: more change nothing that matters."""
HARDLY = 1e-4
"""Strengths of less evidence than this are left out when the counts are looked at again."""
FLAT = 10.0
"""Noise of the total in units of the trace: the evidence says nothing about it, it is conditioned on instead."""
MOST_DRAWN_TOGETHER = 2000
"""Cells whose covariance is taken apart for draws."""
FEW_PARAMETERS = 1500
"""Above this many cells of margins the strength is read off the second moment, at an eighth of the cost."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Normal:
    """A normal law of counts, its covariance as Σ_i weight_i (diag(d) + L N Lᵀ) with few columns in L.

    Args:
        mean: of the counts, flat.
        parts: (diagonal, columns, core) of each structured matrix that the covariance is the sum of.
    """

    mean: FloatArray
    parts: tuple[tuple[FloatArray, Any, FloatArray], ...] = field(repr=False)

    @cached_property
    def variance(self) -> FloatArray:
        """Of each count."""
        found = np.zeros(self.mean.size)
        for diagonal, columns, core in self.parts:
            found += diagonal + _quadratic(columns, core)
        return np.maximum(found, 0.0)

    def times(self, vectors: Any) -> FloatArray:
        """The covariance times these columns (cells × any number, dense or sparse)."""
        found = np.zeros((self.mean.size, vectors.shape[1]))
        for diagonal, columns, core in self.parts:
            found += _dense(sparse.diags_array(diagonal) @ vectors) + columns @ (core @ _dense(columns.T @ vectors))
        return found

    def of(self, vectors: Any) -> FloatArray:
        """The covariance of linear functions of the counts, one column each."""
        return np.asarray(vectors.T @ self.times(vectors))

    def draws(self, number: int, generator: np.random.Generator) -> FloatArray:
        """So many draws of the counts; those of a large table with their variances alone."""
        normal = generator.standard_normal((number, self.mean.size))
        if self.mean.size > MOST_DRAWN_TOGETHER:
            return np.asarray(self.mean + normal * np.sqrt(self.variance))
        values, vectors = np.linalg.eigh(self.times(np.eye(self.mean.size)))
        return np.asarray(self.mean + (normal * np.sqrt(np.maximum(values, 0))) @ vectors.T)


class PooledPosteriors:
    """Posteriors of all tables that some released table contains.

    Args:
        tables: released values by the columns of their axes.
        rows: how many rows one person may have; sampling varies by up to so much more than for independent rows.
    """

    def __init__(self, tables: Mapping[tuple[str, ...], NoisyCounts], *, rows: int = 1) -> None:
        self.known = OverlappingTables(tables)
        self.sizes = {n: k for names, table in tables.items() for n, k in zip(names, table.values.shape, strict=True)}
        self._sets = [frozenset(names) for names in tables]
        self._rows = rows
        self._strengths: dict[tuple[str, ...], FloatArray] = {}
        self._found: dict[tuple[str, ...], dict[About, Normal]] = {}

    def holds(self, columns: Sequence[str]) -> bool:
        """Whether one released table has all of these columns."""
        return any(names.issuperset(columns) for names in self._sets)

    def shape(self, columns: Sequence[str]) -> tuple[int, ...]:
        """Cells along each axis."""
        return tuple(self.sizes[name] for name in columns)

    def pooled(self, columns: Sequence[str]) -> NoisyCounts:
        """The best linear unbiased estimate of the counts, from all releases."""
        self._check(columns)
        return self.known.marginal(columns)

    def posterior(self, columns: Sequence[str], about: About) -> Normal:
        """Of the counts over these columns, flat; about the population: N times its probabilities."""
        self._check(columns)
        names = tuple(columns)
        if names not in self._found:
            self._found[names] = self._learn(names)
        return self._found[names][about]

    def noise(self, columns: Sequence[str], about: About) -> Normal:
        """The same without a prior: what is pooled with its noise, and with the sampling of a population."""
        self._check(columns)
        table = self.known.marginal(columns)
        names, values = tuple(columns), table.values.ravel()
        blocks = self._blocks(names)
        diagonal, coefficients = self._noise(names, np.clip(values, 0.0, None))
        coefficients[0] += self.known.total_variance / values.size**2
        if about == "population":
            counts = np.maximum(values, 0.0)
            diagonal = diagonal + self._rows * counts
            blocks = sparse.hstack([blocks, sparse.csr_array(counts[:, None])], format="csr")
            coefficients = np.append(coefficients, -self._rows / max(self.known.total, 1.0))
        return Normal(mean=values, parts=((diagonal, blocks, np.diag(coefficients)),))

    def _check(self, columns: Sequence[str]) -> None:
        if not self.holds(columns):
            raise InvalidArgument("columns", "together in one released table", got=tuple(columns))

    # -- the law of the noise ---------------------------------------------------------------------------------

    def _subsets(self, columns: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        """All but the whole set, smaller ones first."""
        for number in range(len(columns)):
            yield from combinations(columns, number)

    def _blocks(self, columns: tuple[str, ...], weights: FloatArray | None = None) -> Any:
        """Indicators of the margins over all subsets, one after the other; by weights where there are some."""
        return sparse.hstack(
            [self.indicator(columns, names, weights) for names in self._subsets(columns)], format="csr"
        )

    def indicator(self, columns: Sequence[str], names: Sequence[str], weights: FloatArray | None = None) -> Any:
        """Cells × margin: which cell of the margin over `names` each cell of the table belongs to."""
        shape = self.shape(columns)
        size = math.prod(shape)
        places = np.unravel_index(np.arange(size), shape) if shape else ()
        kept = [i for i, name in enumerate(columns) if name in names]
        inner = tuple(shape[i] for i in kept)
        at = np.ravel_multi_index(tuple(places[i] for i in kept), inner) if kept else np.zeros(size, dtype=np.intp)
        entries = np.ones(size) if weights is None else weights
        return sparse.csr_array((entries, (np.arange(size), at)), shape=(size, math.prod(inner)))

    def _noise(self, columns: tuple[str, ...], counts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Σ_S v_S P_S as a diagonal and one coefficient for each column of `_blocks`.

        P_S = Σ_{R ⊆ S} (−1)^{|S \\ R|} A_R, where A_R averages over all columns but R. Where noise grows with the
        count, that of the whole table is that of its cells.
        """
        size, total = math.prod(self.shape(columns)), max(self.known.total, 1.0)
        coefficient: dict[tuple[str, ...], float] = {}
        diagonal = np.zeros(size)
        for number in range(1, len(columns) + 1):
            for names in combinations(columns, number):
                effect = self.known.noisy_effect(names)
                cells = math.prod(self.shape(names))
                variance = (effect.variance + effect.slope * total / cells) / (size / cells)
                for inner in (r for k in range(number + 1) for r in combinations(names, k)):
                    sign = -1.0 if (number - len(inner)) % 2 else 1.0
                    coefficient[inner] = coefficient.get(inner, 0.0) + sign * variance
                if number == len(columns):
                    grown = effect.variance + effect.slope * counts
                    diagonal = coefficient[names] * grown / (effect.variance + effect.slope * total / cells)
        found = [
            np.full(math.prod(self.shape(names)), coefficient[names] * math.prod(self.shape(names)) / size)
            for names in self._subsets(columns)
        ]
        return diagonal, np.concatenate(found)

    # -- the posterior ----------------------------------------------------------------------------------------

    def _learn(self, columns: tuple[str, ...]) -> dict[About, Normal]:
        total = max(self.known.total, 1.0)
        values = self.known.marginal(columns).values.ravel()
        m = np.ones(1)
        for name in columns:
            m = np.outer(m, estimate(self.known.marginal([name])).probabilities).ravel()
        m = total * np.maximum(m, 1e-6)
        scale = m**EFFECT_POWER * math.sqrt((m @ m) / (m**EFFECT_POWER @ m**EFFECT_POWER))
        several = len(columns) > 1
        own = scale**2 if several else m**2
        grid: tuple[float, ...] = EFFECT_GRID if several else (SINGLE_COLUMN,)
        prior = self._prior(columns, m, scale)
        sampled, passes = m, 2  # the sampling variance is that of the counts, which are taken for independent first
        if several and prior[0].shape[1] > FEW_PARAMETERS:
            sampled, passes = total * estimate(self.known.marginal(columns)).probabilities.ravel(), 1
            grid = (self._moment(columns, scale, sampled),)
        for left in reversed(range(passes)):
            problem = _Problem.of(self, columns, values, m, prior, sampled)
            widths = [self._widths(columns, values - m, a * a * own, sampled) if several else 1.0 for a in grid]
            laws = [problem.given(a * a * own * w) for a, w in zip(grid, widths, strict=True)]
            weights = special.softmax(np.array([law.evidence - _cost(w) for law, w in zip(laws, widths, strict=True)]))
            mean = sum(w * law.means["records"] for w, law in zip(weights, laws, strict=True))
            sampled = np.maximum(mean, 0.1 * np.sqrt(m))
            sampled = sampled * (total / sampled.sum())
            if left:
                grid = tuple(a for a, weight in zip(grid, weights, strict=True) if weight > HARDLY)
        found = sum(p * a * a * w for p, a, w in zip(weights, grid, widths, strict=True)) * np.ones(m.size)
        turned = np.argsort(columns)
        self._strengths[tuple(sorted(columns))] = found.reshape(self.shape(columns)).transpose(turned).ravel()
        return {about: _mixed(weights, laws, about) for about in ("population", "records")}

    def _moment(self, columns: tuple[str, ...], scale: FloatArray, counts: FloatArray) -> float:
        """The strength at which the effect of all columns has the squares that are seen, within the grid."""
        effect = self.known.noisy_effect(columns)
        values = np.transpose(effect.values, [sorted(columns).index(name) for name in columns]).ravel()
        known = self._rows * counts + effect.variance + effect.slope * counts
        weights = (known + scale**2) ** -2.0
        found = float(weights @ (scale**2 * (values**2 / effect.left - known))) / float(weights @ scale**4)
        return float(np.clip(math.sqrt(max(found, 0.0)), EFFECT_GRID[0], EFFECT_GRID[-1]))

    def _prior(self, columns: tuple[str, ...], m: FloatArray, scale: FloatArray) -> tuple[Any, FloatArray]:
        """Indicators and variances of the effects of fewer columns."""
        blocks, variances = [sparse.csr_array((m.size, 0))], [np.zeros(0)]
        for names in self._subsets(columns):
            if not names:
                continue
            single = len(names) == 1
            blocks.append(self.indicator(columns, names, m if single else scale))
            variances.append(np.full(blocks[-1].shape[1], SINGLE_COLUMN**2) if single else self._strength(names))
        return sparse.hstack(blocks, format="csr"), np.concatenate(variances)

    def _widths(self, columns: tuple[str, ...], excess: FloatArray, own: FloatArray, counts: FloatArray) -> FloatArray:
        """How much wider than the others the law of each single effect is: Student's law as a mixture of normal ones.

        With λ ~ Gamma(ν/2, ν/2) and effect ~ N(0, own/λ), expectation-maximisation puts 1/λ at
        (ν + E[effect²]/own)/(ν + 1). It starts from above, with what is seen, so that a large effect is found.
        """
        effect = self.known.noisy_effect(columns)
        values = excess.reshape(self.shape(columns))
        for axis in range(values.ndim):
            values = values - values.mean(axis=axis, keepdims=True)
        squares = values.ravel() ** 2 / max(effect.left, 1e-9)
        known = self._rows * counts + effect.variance + effect.slope * counts
        widths = np.maximum(1.0, (squares - known) / own)
        for _ in range(EM_STEPS):
            law = own * widths
            kept = law / (law + known)
            widths = (FREEDOM + (kept**2 * squares + kept * known) / own) / (FREEDOM + 1)
        return np.asarray(widths)

    def _strength(self, names: tuple[str, ...]) -> FloatArray:
        """Prior variances of the effects of exactly these columns, by cell of their table."""
        key = tuple(sorted(names))
        self.posterior(key, "records")
        return self._strengths[key].reshape(self.shape(key)).transpose([key.index(name) for name in names]).ravel()


@dataclass(frozen=True, kw_only=True, eq=False)
class _Law:
    """Evidence and posteriors under one strength."""

    evidence: float
    means: Mapping[About, FloatArray]
    parts: Mapping[About, tuple[tuple[FloatArray, Any, FloatArray], ...]]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Problem:
    """Noisy values, all laws as diagonals and coefficients over the same columns.

    Args:
        excess: values less what independence says.
        columns: of the structured matrices.
        prior, sampling, noise: coefficients of each, one for each column.
        sampled: the diagonal of the sampling.
        noisy: the diagonal of the noise.
        total: what the counts add up to, and the variance of that.
    """

    excess: FloatArray
    centre: FloatArray
    columns: Any
    prior: FloatArray
    sampling: FloatArray
    noise: FloatArray
    sampled: FloatArray
    noisy: FloatArray
    total: tuple[float, float]

    @classmethod
    def of(
        cls,
        known: PooledPosteriors,
        names: tuple[str, ...],
        values: FloatArray,
        m: FloatArray,
        prior: tuple[Any, FloatArray],
        sampled: FloatArray,
    ) -> _Problem:
        """Columns of the prior, of the noise and of the sampling, side by side."""
        rows, total = known._rows, max(known.known.total, 1.0)
        diagonal, noise = known._noise(names, np.maximum(sampled, 0.0))
        used = np.abs(noise) > 1e-12 * max(float(diagonal.max()), 1e-300)
        used[0] = True  # the total
        blocks = known._blocks(names)[:, np.flatnonzero(used)]
        # The total says nothing here: flat noise along it.
        noise = noise[used]
        noise[0] += FLAT * (float((diagonal + sampled + prior[0].multiply(prior[0]) @ prior[1]).sum()) + 1.0) / m.size
        first, last = prior[0].shape[1], blocks.shape[1]
        zeros = np.zeros(first + last + 1)

        def put(part: FloatArray, at: int) -> FloatArray:
            return np.concatenate([zeros[:at], part, zeros[at + part.size :]])

        return cls(
            excess=values - m,
            centre=m,
            columns=sparse.hstack([prior[0], blocks, sparse.csr_array(sampled[:, None])], format="csr"),
            prior=put(prior[1], 0),
            noise=put(noise, first),
            sampling=put(np.array([-rows / total]), first + last),
            sampled=rows * sampled,
            noisy=diagonal,
            total=(total, known.known.total_variance),
        )

    def given(self, own: FloatArray) -> _Law:
        """The posteriors where the effects of all columns together have these variances."""
        small = 1e-6 * (1.0 + float(self.noisy.min()))
        law_diagonal = {"population": own, "records": own + self.sampled}
        law_core = {"population": self.prior, "records": self.prior + self.sampling}
        whole = own + self.sampled + self.noisy + small
        weights = self.prior + self.sampling + self.noise
        b = self.columns
        gram = (b.T @ sparse.diags_array(1 / whole) @ b).toarray()
        factors = linalg.lu_factor(np.eye(weights.size) + weights[:, None] * gram, overwrite_a=True, check_finite=False)
        log_det = float(np.log(np.abs(np.diag(factors[0]))).sum())
        q = linalg.lu_solve(factors, np.diag(weights), overwrite_b=True, check_finite=False)
        q = (q + q.T) / 2
        solved = self.excess / whole
        solved = solved - (b @ (q @ (b.T @ solved))) / whole
        evidence = -0.5 * float(self.excess @ solved) - 0.5 * (float(np.log(whole).sum()) + log_det)
        means: dict[About, FloatArray] = {}
        parts: dict[About, tuple[tuple[FloatArray, Any, FloatArray], ...]] = {}
        for about in ("population", "records"):
            e, v = law_diagonal[about], law_core[about]
            gained = e * solved + b @ (v * (b.T @ solved))
            # With whole⁻¹ = D − D B q Bᵀ D and law = diag(e) + B diag(v) Bᵀ, where v is 0 or the weight in `whole`:
            # law − law whole⁻¹ law = diag(e (1 − s)) + M q Mᵀ with s = e D and M = B [v ≠ 0] − diag(s) B.
            share = e / whole
            kept = sparse.csr_array(b @ sparse.diags_array((v != 0).astype(float)) - sparse.diags_array(share) @ b)
            structured = (e * (1 - share), kept, q)
            means[about], parts[about] = self._at_total(self.centre + gained, structured)
        return _Law(evidence=evidence, means=means, parts=parts)

    def _at_total(
        self, mean: FloatArray, part: tuple[FloatArray, Any, FloatArray]
    ) -> tuple[FloatArray, tuple[tuple[FloatArray, Any, FloatArray], ...]]:
        """Given what all counts add up to."""
        free = Normal(mean=mean, parts=(part,))
        along = free.times(np.ones((mean.size, 1))).ravel()
        whole = float(along.sum()) + self.total[1]
        if whole <= 0:
            return mean, (part,)
        mean = mean + along * ((self.total[0] - float(mean.sum())) / whole)
        return mean, (part, _rank_one(along, -1 / whole))


def _quadratic(rows: Any, core: FloatArray) -> FloatArray:
    """x core xᵀ for each of these sparse rows, entry by entry: each has few."""
    rows = sparse.csr_array(rows)
    number = np.diff(rows.indptr)
    places = np.minimum(rows.indptr[:-1, None] + np.arange(number.max(initial=0)), max(rows.nnz - 1, 0))
    there = np.arange(places.shape[1]) < number[:, None]
    values, at = np.where(there, rows.data[places], 0.0), rows.indices[places]
    found = np.zeros(rows.shape[0])
    for i, j in product(range(places.shape[1]), repeat=2):
        found += values[:, i] * values[:, j] * core[at[:, i], at[:, j]]
    return found


def _cost(widths: FloatArray | float) -> float:
    """What the logarithm of Student's mixture takes for these widths, none where all are 1."""
    return float(0.5 * FREEDOM * np.sum(np.log(widths) + 1 / np.asarray(widths) - 1))


def _dense(matrix: Any) -> FloatArray:
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)


def _rank_one(vector: FloatArray, weight: float) -> tuple[FloatArray, Any, FloatArray]:
    return np.zeros(vector.size), sparse.csr_array(vector[:, None]), np.array([[weight]])


def _mixed(weights: FloatArray, laws: Sequence[_Law], about: About) -> Normal:
    """The mean and covariance of a mixture."""
    mean = np.asarray(sum(w * law.means[about] for w, law in zip(weights, laws, strict=True)))
    parts: list[tuple[FloatArray, Any, FloatArray]] = []
    for w, law in zip(weights, laws, strict=True):
        if w < 1e-6:
            continue
        parts += [(w * diagonal, columns, w * core) for diagonal, columns, core in law.parts[about]]
        if len(laws) > 1:
            parts.append(_rank_one(law.means[about] - mean, float(w)))
    return Normal(mean=mean, parts=tuple(parts))


# -- intervals of ratios ------------------------------------------------------------------------------------------

TAIL_STRETCH = 0.06
"""How much longer an interval is that rests on the prior alone: real effects have heavier tails than normal ones."""
SKEW = 0.25
"""What part of the prior's variance grows with the count: a small count may be far larger, and not far smaller."""
BLOCK = 256
"""Linear functions whose covariances are found at once."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Ratios:
    """Linear functions of the counts over others: probabilities, conditional ones, means.

    Args:
        top: cells × answers.
        bottom: cells × denominators.
        group: for each answer, its denominator.
    """

    top: Any
    bottom: Any
    group: np.ndarray[Any, np.dtype[np.intp]]

    @cached_property
    def _sums(self) -> bool:
        """Whether answers are counts of some cells over others."""
        return bool(np.all(sparse.csc_array(self.top).data == 1))

    @cached_property
    def _cells(self) -> FloatArray | None:
        """The single cell of each answer, if each is one."""
        top = sparse.csc_array(self.top)
        if top.nnz == top.shape[1] and np.all(np.diff(top.indptr) == 1) and np.all(top.data == 1):
            return np.asarray(top.indices)
        return None

    def moments(self, law: Normal) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
        """Means of numerators and denominators, their variances and their covariance, for each answer."""
        a, b = self.top.T @ law.mean, (self.bottom.T @ law.mean)[self.group]
        va, vb, c = np.zeros(a.size), np.zeros(a.size), np.zeros(a.size)
        if self._cells is not None:
            va = law.variance[self._cells]
        else:
            for at in range(0, a.size, BLOCK):
                part = self.top[:, at : at + BLOCK]
                va[at : at + BLOCK] = np.asarray(part.multiply(law.times(part)).sum(axis=0)).ravel()
        for at in range(0, self.bottom.shape[1], BLOCK):
            part = self.bottom[:, at : at + BLOCK]
            covered = law.times(part)
            own = np.asarray(part.multiply(covered).sum(axis=0)).ravel()
            mine = np.flatnonzero((self.group >= at) & (self.group < at + BLOCK))
            vb[mine] = own[self.group[mine] - at]
            if self._cells is not None:
                c[mine] = covered[self._cells[mine], self.group[mine] - at]
            else:
                for i in mine:
                    c[i] = float((self.top[:, [i]].T @ covered[:, [self.group[i] - at]])[0, 0])
        return a, b, np.maximum(va, 0.0), np.maximum(vb, 0.0), c

    def intervals(
        self, law: Normal, direct: Normal, q: float, *, rows: int, population: bool, bounded: bool, tails: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Estimate, standard error, lower and upper bound of each answer.

        Args:
            law: of the counts.
            direct: the same without a prior, which says how much of the answer rests on one.
            q: quantile of the normal at the level.
            rows: that one person may have.
            population: whether sampling is part of it; probabilities then lie as Wilson's interval does: where the
                variance grows with the count, the interval is that of all counts which do not contradict the estimate.
            bounded: whether answers are probabilities.
            tails: excess kurtosis of the noise behind each answer, by which its quantile is corrected.
        """
        a, b, va, vb, c = self.moments(law)
        plain = va if law is direct else self.moments(direct)[2]
        kept = np.minimum(va / np.maximum(plain, 1e-12), 1.0)
        reach = q * (1 + TAIL_STRETCH * (1 - kept)) * (1 + kept**2 * tails * (q * q - 3) / 24)
        safe = np.where(b > 0, b, 1.0)
        estimate = np.where(b > 0, a / safe, np.nan)
        error = np.where(b > 0, np.sqrt(np.maximum(va - 2 * estimate * c + estimate**2 * vb, 0)) / safe, np.inf)
        low, high = fieller(a, b, va, vb, c, reach)
        if self._sums:
            known = (vb <= 1e-9 * np.maximum(va, 1e-300)) & (b > 0)
            p = np.clip(np.nan_to_num(estimate, nan=0.5), 0, 1)
            slope = rows * kept**2 * (1 - 2 * p) * (population and bounded)
            slope = slope + SKEW * (1 - kept) * va / np.maximum(a, np.sqrt(va) + 1e-300)
            centre, half = a + reach**2 * slope / 2, np.sqrt(reach**2 * va + (reach**2 * slope / 2) ** 2)
            low = np.where(known, (centre - half) / safe, low)
            high = np.where(known, (centre + half) / safe, high)
        if bounded:
            estimate, low, high = (np.clip(each, 0, 1) for each in (np.nan_to_num(estimate, nan=0.5), low, high))
        return estimate, error, low, high


def fieller(
    a: FloatArray, b: FloatArray, va: FloatArray, vb: FloatArray, c: FloatArray, q: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """All θ with (a − θb)² ≤ q² (va − 2θc + θ² vb): Fieller's theorem; everything where b may be 0."""
    x, y, z = b * b - q * q * vb, -2 * (a * b - q * q * c), a * a - q * q * va
    root, bounded = np.sqrt(np.maximum(y * y - 4 * x * z, 0)), (x > 0) & (b > 0)
    safe = np.where(bounded, 2 * x, 1.0)
    return np.where(bounded, (-y - root) / safe, -np.inf), np.where(bounded, (-y + root) / safe, np.inf)
