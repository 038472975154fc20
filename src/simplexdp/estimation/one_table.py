"""From one released table to probabilities with uncertainty: of its cells, or of the rows of a conditional table."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidArgument
from .beta import STRENGTHS, Proportions, beta_posterior, row_strengths
from .few import few_cells
from .many import many_cells
from .values import METHODS, CellPosterior, Estimate, FloatArray, NoisyCounts

Method = Literal["posterior-mean", "truncated-normal", "projection", "clip", "clip-tiny", "raw"]
FEW = 10
"""Tables up to this size get the exact posterior: there is too little in them to learn a prior from."""
LEAST_SHARE = 1e-12
"""No count is taken below this share of the total, so that every logarithm is finite."""


def check_method(method: str, name: str = "estimate") -> None:
    """Refuse a way to estimate that there is not, before anything is paid for."""
    if method not in get_args(Method):
        raise InvalidArgument(name, "one of " + ", ".join(get_args(Method)), got=method)


def estimate(
    noisy: NoisyCounts, method: Method = "posterior-mean", *, impossible: NDArray[np.bool_] | None = None
) -> Estimate:
    """Estimate the probabilities f/N behind a released table. Post-processing: it costs no budget.

    Args:
        noisy: the released values and the law of their noise.
        method: "posterior-mean", the default, minimises the expected KL(f/N ‖ q) under a prior learnt
            from the release; "truncated-normal" does so under a flat prior; "projection" is the nearest
            point of the simplex; "clip" at 0 plus half a standard deviation; "clip-tiny" the paper's clip
            at 1e-6; "raw" the draw itself.
        impossible: cells that no record can be in, by public knowledge: their probability is 0, and what was drawn of
            them says nothing of the others.

    >>> table = NoisyCounts(values=np.array([118.0, 72.0, 610.0, -3.0]), variance=25.0, total=800)
    >>> estimate(table).probabilities.sum().round(12)
    np.float64(1.0)
    """
    check_method(method, "method")
    if impossible is not None and impossible.any():
        return _estimate_possible(noisy, method, ~impossible)
    posterior: CellPosterior | None = None
    if noisy.size == 1:
        counts, deviations = np.ones(1), np.zeros(1)
    elif method == "posterior-mean":
        exact = few_cells(noisy) if noisy.size <= FEW else None
        counts, deviations, posterior = exact or many_cells(noisy)
    else:
        counts = METHODS[method](noisy).ravel()
        deviations = noisy.deviations
    shape = noisy.values.shape
    return Estimate(
        probabilities=_normalise(counts, noisy.likely_total).reshape(shape),
        standard_errors=(deviations / noisy.likely_total).reshape(shape),
        name=method,
        noisy=noisy,
        posterior=posterior,
    )


def _estimate_possible(noisy: NoisyCounts, method: Method, possible: NDArray[np.bool_]) -> Estimate:
    """The estimate over the possible cells alone, with zeros elsewhere."""
    if possible.shape != noisy.values.shape or not possible.any():
        raise InvalidArgument("impossible", f"cells of a table of the shape {noisy.values.shape}, and not all of them")
    # That noise adds up to zero holds of all cells, not of some.
    law = replace(noisy.law, balanced=False)
    inside = estimate(NoisyCounts.of(noisy.values[possible], law, noisy.total), method)
    full = np.zeros((2, *possible.shape))
    full[0][possible], full[1][possible] = inside.probabilities, inside.standard_errors
    return replace(inside, probabilities=full[0], standard_errors=full[1], possible=possible)


def _normalise(counts: FloatArray, total: float) -> FloatArray:
    floored = np.maximum(counts, LEAST_SHARE * max(total, 1.0))
    return np.asarray(floored / floored.sum())


@dataclass(frozen=True, kw_only=True, eq=False)
class ConditionalEstimate:
    """Row distributions of a strata × values table.

    Args:
        rows: P(value | stratum), each row positive and of sum 1.
        standard_errors: posterior standard deviations of the rows' probabilities.
        marginal: P(stratum).
        pooled: P(value), what the rows were pulled towards.
        strengths: posterior weights of each row over the grid `STRENGTHS`.
        noisy: what it was computed from.
    """

    rows: FloatArray
    standard_errors: FloatArray
    marginal: FloatArray
    pooled: FloatArray
    strengths: FloatArray
    noisy: NoisyCounts = field(repr=False)


def estimate_conditional(
    noisy: NoisyCounts, *, pooled: FloatArray | None = None, row_totals: FloatArray | None = None
) -> ConditionalEstimate:
    """Estimate P(value | stratum) and P(stratum) from one released table of strata × values.

    Args:
        noisy: the released table, values of shape (strata, values).
        pooled: what rows are pulled towards, if more is known than the table's own column sums say.
        row_totals: records in each stratum, if more is known than the table's own row sums say.

    >>> values = np.array([[40.0, 61.0], [38.0, 63.0], [1.0, -2.0]])
    >>> table = NoisyCounts(values=values, variance=9.0, total=200)
    >>> bool(abs(estimate_conditional(table).rows[2, 0] - 0.4) < 0.1)
    True
    """
    values = noisy.values
    if values.ndim != 2:
        raise InvalidArgument("noisy", "a table of two axes: strata and values")
    strata, categories = values.shape
    total = noisy.likely_total
    by_row = estimate(_sums(noisy, 1))
    if row_totals is None:
        totals, row_variance = total * by_row.probabilities, (total * by_row.standard_errors) ** 2
    else:
        totals, row_variance = _checked("row_totals", row_totals, strata), np.zeros(strata)
    if pooled is None:
        by_column = estimate(_sums(noisy, 0))
        pooled = by_column.probabilities
        pooled_variance = by_column.standard_errors**2 + pooled * (1 - pooled) / total
    else:
        pooled = _checked("pooled", pooled, categories)
        pooled, pooled_variance = pooled / pooled.sum(), np.zeros(categories)
    # Spread each row's difference to its estimated total over its cells: their noise loses that component.
    shifted = values + ((totals - values.sum(axis=1)) / categories)[:, None]
    variance = noisy.variance * (1 - 1 / categories) + row_variance / categories**2
    known = Proportions(
        values=shifted.ravel(),
        totals=np.repeat(totals, categories),
        means=np.tile(pooled, strata),
        variance=np.repeat(np.maximum(variance, 1e-9 * noisy.variance), categories),
        slope=noisy.slope,
    )
    rows, deviation, weights = _shrunk(known, pooled, pooled_variance, strata)
    rows = np.maximum(rows, 1e-12)
    return ConditionalEstimate(
        rows=rows / rows.sum(axis=1, keepdims=True),
        standard_errors=deviation,
        marginal=by_row.probabilities if row_totals is None else totals / totals.sum(),
        pooled=pooled,
        strengths=weights,
        noisy=noisy,
    )


def _sums(noisy: NoisyCounts, axis: int) -> NoisyCounts:
    """The margin of a table of two axes."""
    variance = noisy.values.shape[axis] * noisy.variance
    return NoisyCounts(values=noisy.values.sum(axis=axis), variance=variance, slope=noisy.slope, total=noisy.total)


def _shrunk(
    known: Proportions, pooled: FloatArray, pooled_variance: FloatArray, strata: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Rows, their posterior deviations, and the weights of the strengths with which they are pulled."""
    categories = pooled.size
    shape = (STRENGTHS.size, strata, categories)
    found = beta_posterior(known)
    means, variances = found.mean.reshape(shape), found.variance.reshape(shape)
    evidence = found.log_evidence.reshape(shape)
    # What the prior says counts V/V_prior; its own error enters the rows' errors with the square of that.
    prior_variance = pooled * (1 - pooled) / (STRENGTHS[:, None, None] + 1)
    share = np.ones(shape)
    np.divide(variances, prior_variance, out=share, where=prior_variance > 0)
    variances = variances + np.minimum(share, 1.0) ** 2 * (pooled_variance + prior_variance / strata)
    # The cells of a row add up, and the pooled marginal was fitted to the same rows: correct for freedom.
    freedom = (categories - 1) / categories * (strata - 1) / strata
    weights = row_strengths(evidence.sum(axis=2).T * freedom)
    rows = np.einsum("jt,tjc->jc", weights, means)
    second = np.einsum("jt,tjc->jc", weights, means**2 + variances)
    return rows, np.sqrt(np.maximum(second - rows**2, 0.0)), weights


def _checked(name: str, values: FloatArray, size: int) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (size,) or not np.all(np.isfinite(array)) or not np.all(array > 0):
        raise InvalidArgument(name, f"{size} finite numbers above 0")
    return array
