"""Conditional tables (strata × values): rows are pulled towards the pooled marginal as far as it pays.

θ_j ~ Dirichlet(τ_j m) with m the pooled marginal; the strengths τ_j are on a grid whose prior is learnt from
all rows, by the evidence of the noisy values. It costs no budget. Laplace noise is treated as normal here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..errors import InvalidArgument
from .beta import Proportions, beta_posterior
from .one_table import estimate
from .strengths import STRENGTHS, row_strengths
from .values import FloatArray, NoisyCounts


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
    row_noise = NoisyCounts(
        values=values.sum(axis=1), variance=categories * noisy.variance, slope=noisy.slope, total=noisy.total
    )
    by_row = estimate(row_noise)
    if row_totals is None:
        totals, row_variance = total * by_row.probabilities, (total * by_row.standard_errors) ** 2
    else:
        totals, row_variance = _checked("row_totals", row_totals, strata), np.zeros(strata)
    if pooled is None:
        column_noise = NoisyCounts(
            values=values.sum(axis=0), variance=strata * noisy.variance, slope=noisy.slope, total=noisy.total
        )
        by_column = estimate(column_noise)
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
    deviation = np.sqrt(np.maximum(second - rows**2, 0.0))
    rows = np.maximum(rows, 1e-12)
    return ConditionalEstimate(
        rows=rows / rows.sum(axis=1, keepdims=True),
        standard_errors=deviation,
        marginal=by_row.probabilities if row_totals is None else totals / totals.sum(),
        pooled=pooled,
        strengths=weights,
        noisy=noisy,
    )


def _checked(name: str, values: FloatArray, size: int) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (size,) or not np.all(np.isfinite(array)) or not np.all(array > 0):
        raise InvalidArgument(name, f"{size} finite numbers above 0")
    return array
