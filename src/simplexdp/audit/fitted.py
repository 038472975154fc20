"""Audits of a fit: everything that its guarantee paid for, drawn together on the worst-case neighbours.

The one record of the neighbours lies in empty cells of all tables at once, and is as large as a record can be in all
sums. The steps are independent given the data, so the loss of an output is the sum of the losses of its parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from ..budget import Neighbours
from ..errors import InvalidArgument
from ..mechanisms import BalancedLaplace, Mechanism
from ..mechanisms.none import NoNoise
from ..mechanisms.sums import GaussianTables, NoisySum
from ..models.guarantee import Guarantee
from ..sampling.entropy import Entropy, entropy_from
from .evidence import FloatArray
from .run import Audit, Progress, collect, judge
from .worst_case import WorstCase

_LARGE, _SMALL = 64, 24
"""Rows of the matrices that noisy sums are drawn as, where the entries off the diagonal count and where those on it."""


def audit_fit(
    guarantee: Guarantee,
    *,
    name: str = "fit",
    draws: int = 200_000,
    delta: float | None = None,
    confidence: float = 0.95,
    entropy: Entropy | int | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Audit all releases of a fit together: tables, second looks and noisy sums, with the parameters that were used.

    The bound reaches the claim where that is exact. A claim that goes through the Rényi curve (second looks, sums,
    persons with several rows) is an upper bound, so that less of it can be proved; private quantiles are not drawn.

    Args:
        guarantee: of a release or a model.
        name: for the report.
        draws: for each of the two neighbours.
        delta: the δ of the bound; by default the one that proves most of the claim.
        confidence: of the bound.
        entropy: as for a release.
        progress: called with the number of draws done.

    >>> from simplexdp import Gaussian, Laplace
    >>> fit = Guarantee(mechanisms=(Gaussian(sigma=1.0), Laplace(scale=2.0)))
    >>> found = audit_fit(fit, draws=100_000, entropy=1)
    >>> found.violated, found.share > 0.9
    (False, True)
    """
    if any(isinstance(mechanism, NoNoise) for mechanism in guarantee.mechanisms):
        raise InvalidArgument("guarantee", "one with noise", hint="Exact counts promise nothing that could be audited.")
    source, loss = entropy_from(entropy), guarantee.loss
    steps = [
        (_step(mechanism, guarantee.neighbours, guarantee.rows), times)
        for mechanism, times in Counter(guarantee.mechanisms).items()
        if not (isinstance(mechanism, BalancedLaplace) and mechanism.cells == 1)  # the public total, nothing drawn
    ]

    def scores(table: int, block: int) -> FloatArray:
        total = np.zeros(block)
        for step, times in steps:
            total += step(table, block * times, source).reshape(times, block).sum(axis=0)
        return total

    return judge(name, guarantee.neighbours, loss, collect(scores, draws, confidence, progress), delta)


def _step(mechanism: Mechanism, neighbours: Neighbours, rows: int) -> Callable[[int, int, Entropy], FloatArray]:
    """From the table (0 or 1) and a number of draws to the losses of as many outputs of this step."""
    if isinstance(mechanism, NoisySum):
        return _sums(mechanism, neighbours, rows)
    tables = mechanism.spread([1.0])[0] if isinstance(mechanism, GaussianTables) else mechanism
    case = WorstCase(claimed=tables, neighbours=neighbours, rows=rows)
    return lambda table, draws, entropy: case.scores(tables, table, draws, entropy)


def _sums(mechanism: NoisySum, neighbours: Neighbours, rows: int) -> Callable[[int, int, Entropy], FloatArray]:
    """One entry of the sum that the neighbours move as far as a record can: from 0 to `shift`, or back."""
    replaced, size = neighbours == "replace-one", rows * mechanism.bound
    if mechanism.kind == "vector":
        # v against −v, which is a shift by 2·bound; against nothing it is one by the bound.
        shift, variance = (2 * size if replaced else size), mechanism.variance
    else:
        # (e+f)(e+f)ᵀ/2 against (e−f)(e−f)ᵀ/2 of equal trace differ off the diagonal only, where noise has half the
        # variance; eeᵀ against nothing differs in one diagonal entry.
        shift, variance = size, (mechanism.variance // 2 if replaced else mechanism.variance)

    def scores(table: int, draws: int, entropy: Entropy) -> FloatArray:
        start = shift if table == 0 else 0
        if mechanism.kind == "vector":
            values = mechanism.draw(np.full(draws, start, dtype=np.int64), entropy)
        else:
            places = np.triu_indices(_LARGE, 1) if replaced else np.diag_indices(_SMALL)
            entries = np.full((_LARGE, _LARGE) if replaced else (_SMALL, _SMALL), start, dtype=np.int64)
            times = -(-draws // len(places[0]))
            values = np.concatenate([mechanism.draw(entries, entropy)[places] for _ in range(times)])[:draws]
        return np.asarray((2.0 * values - shift) * (shift / (2.0 * variance)))

    return scores
