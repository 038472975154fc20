"""Audits: run a mechanism, or anything that releases, on neighbouring tables and bound its ε from below."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..accounting.conversion import rdp_to_epsilon
from ..accounting.loss import PrivacyLoss
from ..budget import Budget, Neighbours, check_fraction, check_whole
from ..errors import InvalidArgument
from ..mechanisms import Mechanism
from ..mechanisms.base import IntArray, checked_counts
from ..sampling.entropy import Entropy, entropy_from
from .evidence import Evidence, Finding, FloatArray
from .learned import learn_score
from .worst_case import WorstCase

DELTAS = (1e-6, 1e-5, 1e-4, 1e-3, 3e-3, 0.01, 0.02, 0.05, 0.1, 0.2)
"""The δ among which an audit looks for the one at which its draws prove most of the claim."""

Progress = Callable[[int], None]
"""Called with the number of draws done since the last call."""


@dataclass(frozen=True, kw_only=True)
class Audit:
    """The outcome: at `delta` the claim is `claimed`, and ε is at least `lower` with the stated confidence."""

    name: str
    neighbours: str
    claimed: float
    finding: Finding
    confidence: float
    evidence: Evidence = field(repr=False, compare=False)
    claim: PrivacyLoss | Budget = field(repr=False, compare=False)

    @property
    def lower(self) -> float:
        """The lower bound on ε at `delta`."""
        return self.finding.lower

    @property
    def delta(self) -> float:
        """The δ of both numbers."""
        return self.finding.delta

    @property
    def share(self) -> float:
        """The part of the claim that was proved to be spent; above 1 the claim is false."""
        return self.lower / self.claimed if self.claimed > 0 else math.inf

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted at the stated confidence."""
        return self.lower > self.claimed

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "name": self.name,
            "neighbours": self.neighbours,
            "delta": self.delta,
            "claimed_epsilon": self.claimed,
            "lower_bound": self.lower,
            "share": self.share,
            "violated": self.violated,
            "confidence": self.confidence,
            "draws": self.finding.draws,
            "hits": list(self.finding.hits),
            "event": str(self.finding.event),
        }

    def __str__(self) -> str:
        verdict = "REFUTED" if self.violated else "not refuted"
        return (
            f"{self.name}: ε ≥ {self.lower:.4g} at δ = {self.delta:g} ({self.confidence:.1%} confidence), "
            f"claimed {self.claimed:.4g}: {verdict}"
        )


def audit_mechanism(
    mechanism: Mechanism,
    *,
    neighbours: Neighbours = "replace-one",
    drawn: Mechanism | None = None,
    draws: int = 1_000_000,
    delta: float | None = None,
    confidence: float = 0.95,
    entropy: Entropy | int | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Audit a mechanism on its worst-case neighbours with its exact privacy loss as the test.

    Args:
        mechanism: whose claim is audited.
        neighbours: the relation of the claim.
        drawn: what really draws, where that is something else; to see whether an audit would find it.
        draws: for each of the two tables.
        delta: the δ of the bound; by default the one of `DELTAS` that proves most of the claim.
        confidence: of the bound.
        entropy: as for a release.
        progress: called with the number of draws done.

    >>> from simplexdp import Gaussian
    >>> found = audit_mechanism(Gaussian(sigma=1.0), draws=50_000, entropy=1)
    >>> found.violated, found.share > 0.9
    (False, True)
    """
    source, case = entropy_from(entropy), WorstCase(claimed=mechanism, neighbours=neighbours)
    loss = mechanism.loss(neighbours)
    actual = mechanism if drawn is None else drawn
    found = collect(lambda table, block: case.scores(actual, table, block, source), draws, confidence, progress)
    return judge(str(mechanism), neighbours, loss, found, delta)


def collect(
    scores: Callable[[int, int], FloatArray], draws: int, confidence: float, progress: Progress | None
) -> Evidence:
    """Scores of both tables, block by block; `scores` is called with the table, 0 or 1, and the size of a block."""
    check_whole("draws", draws, at_least=40)
    samples = []
    for table in (0, 1):
        parts, left = [], draws
        while left:
            block = min(left, 1 << 17)
            parts.append(scores(table, block))
            left -= block
            if progress is not None:
                progress(block)
        samples.append(np.concatenate(parts))
    return Evidence(samples[0], samples[1], confidence)


def audit(
    run_on: Callable[[IntArray, Entropy], Any],
    *,
    tables: tuple[ArrayLike, ArrayLike],
    claimed: PrivacyLoss | Budget,
    score: Callable[[Any], float] | None = None,
    name: str = "pipeline",
    draws: int = 10_000,
    delta: float | None = None,
    confidence: float = 0.95,
    entropy: Entropy | int | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Audit anything that turns counts and a source of randomness into an output.

    Args:
        run_on: called `draws` times for each table with the counts and a fresh child of the source.
        tables: two tables that the claim says are neighbours; made up, as their outputs are shown.
        claimed: the loss or the budget that is claimed.
        score: larger where the first table is likelier; learned from a third of the draws if not given.
        name: for the report.
        draws: for each of the two tables.
        delta: the δ of the bound; that of an (ε, δ) budget, or the one that proves most of the claim.
        confidence: of the bound.
        entropy: as for a release.
        progress: called with the number of draws done.
    """
    source, draws = entropy_from(entropy), check_whole("draws", draws, at_least=60)
    outputs: list[list[Any]] = []
    for number, table in enumerate(tables):
        counts = checked_counts(table)
        collected = []
        for i in range(draws):
            collected.append(run_on(counts.copy(), source.child(f"{number}/{i}")))
            if progress is not None:
                progress(1)
        outputs.append(collected)
    if score is None:
        third = draws // 3
        score = learn_score(outputs[0][:third], outputs[1][:third])
        outputs = [collected[third:] for collected in outputs]
    scores = [np.array([float(score(output)) for output in collected]) for collected in outputs]
    neighbours = claimed.neighbours if isinstance(claimed, PrivacyLoss) else "as stated"
    if delta is None and isinstance(claimed, Budget):
        delta = claimed.delta
    return judge(name, neighbours, claimed, Evidence(scores[0], scores[1], confidence), delta)


def judge(
    name: str, neighbours: str, claim: PrivacyLoss | Budget, evidence: Evidence, delta: float | None = None
) -> Audit:
    """Hold the evidence against the claim at the given δ, or at the one where it proves most of the claim."""
    deltas: Sequence[float] = DELTAS if delta is None else (check_fraction("delta", delta),)
    claims = {d: claimed_epsilon(claim, d) for d in deltas}
    finite = {d: epsilon for d, epsilon in claims.items() if math.isfinite(epsilon)}
    # A claim near zero is reached by nothing but luck; take it only if there is no other.
    usable = {d: epsilon for d, epsilon in finite.items() if epsilon > 1e-3} or finite
    if not usable:
        raise InvalidArgument("delta", "one at which the claim is finite", got=delta)
    finding = evidence.best(tuple(usable), lambda d, bound: bound / max(usable[d], 1e-12))
    return Audit(
        name=name,
        neighbours=neighbours,
        claimed=usable[finding.delta],
        finding=finding,
        confidence=evidence.confidence,
        evidence=evidence,
        claim=claim,
    )


def claimed_epsilon(claim: PrivacyLoss | Budget, delta: float) -> float:
    """ε that the claim allows at δ; a smaller δ than the one of an (ε, δ) budget is not covered by it."""
    if isinstance(claim, PrivacyLoss):
        return claim.epsilon(delta)
    if claim.order is not None:
        return rdp_to_epsilon(claim.order, claim.epsilon, delta)
    assert claim.delta is not None
    return claim.epsilon if delta >= claim.delta else math.inf
