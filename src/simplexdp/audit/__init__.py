"""Audits: a statistically valid lower bound on ε beside the value that is claimed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..accounting.conversion import rdp_to_epsilon
from ..accounting.loss import PrivacyLoss
from ..budget import Budget, Neighbours, check_delta, check_fraction, check_not_negative, check_whole, convert
from ..errors import InvalidArgument, MissingExtra
from ..lazy import special
from ..mechanisms import Mechanism, private_mechanisms
from ..mechanisms.base import IntArray, Parametrised, TableMechanism, checked_counts
from ..mechanisms.sums import Step
from ..models.guarantee import Guarantee
from ..numerics.printed import printed
from ..sampling import Entropy, entropy_from

FloatArray = NDArray[np.float64]
_CANDIDATES = 512  # thresholds that are tried on the first part
_LUCK = 1e-3  # the error allowed while choosing: of many candidates the luckiest is not the best


def at_least(hits: NDArray[np.int64], draws: int, error: float) -> FloatArray:
    """Clopper–Pearson: the true probability is above this but for a chance of `error`."""
    low = special.betaincinv(np.maximum(hits, 1), draws - np.maximum(hits, 1) + 1, error)
    return np.where(hits > 0, low, 0.0)


def at_most(hits: NDArray[np.int64], draws: int, error: float) -> FloatArray:
    """Clopper–Pearson: the true probability is below this but for a chance of `error`."""
    high = special.betaincinv(np.minimum(hits, draws - 1) + 1, draws - np.minimum(hits, draws - 1), 1 - error)
    return np.where(hits < draws, high, 1.0)


class Hits(NamedTuple):
    """How often each of some events happened in `draws` draws under the likely table and under the other."""

    likely: NDArray[np.int64]
    other: NDArray[np.int64]
    draws: int


@dataclass(frozen=True, kw_only=True)
class Event:
    """`score ≥ threshold` when `upper`, else `score ≤ threshold`; the first table is the likely one when upper."""

    threshold: float
    upper: bool

    def __str__(self) -> str:
        return f"score {'≥' if self.upper else '≤'} {self.threshold:.6g}"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What one event proves at one δ."""

    event: Event
    delta: float
    lower: float
    hits: tuple[int, int]
    draws: int


class Evidence:
    """Scores of draws under two neighbouring tables, the first fifth for choosing and the rest for proving."""

    def __init__(self, first: FloatArray, second: FloatArray, confidence: float = 0.95) -> None:
        draws = min(first.size, second.size)
        if draws < 20:
            raise InvalidArgument("draws", "20 or more", got=draws)
        if np.isnan(first).any() or np.isnan(second).any():
            raise InvalidArgument("score", "a number for every output, not nan")
        self.confidence = check_fraction("confidence", confidence)
        part = draws // 5
        self._tuning = np.sort(first[:part]), np.sort(second[:part])
        self._proof = np.sort(first[part:draws]), np.sort(second[part:draws])
        self.draws = draws - part

    def best(self, deltas: Sequence[float], gain: Callable[[float, FloatArray], FloatArray]) -> Finding:
        """Take the event and the δ with the largest gain(δ, bound) on the first part; prove it on the second."""
        found: tuple[float, float, Event] | None = None
        for upper in (True, False):
            thresholds = self._thresholds()
            hits = self._hits(self._tuning, thresholds, upper)
            for delta in (check_delta("deltas", each) for each in deltas):
                gains = gain(delta, self._bounds(hits, delta, _LUCK))
                i = int(np.argmax(gains))
                if found is None or gains[i] > found[0]:
                    found = float(gains[i]), delta, Event(threshold=float(thresholds[i]), upper=upper)
        assert found is not None
        return self.prove(found[2], found[1])

    def prove(self, event: Event, delta: float) -> Finding:
        """The bound of one event on the second part."""
        delta = check_delta("delta", delta)
        hits = self._hits(self._proof, np.array([event.threshold]), event.upper)
        lower = float(self._bounds(hits, delta, 1 - self.confidence)[0])
        return Finding(
            event=event, delta=delta, lower=lower, hits=(int(hits.likely[0]), int(hits.other[0])), draws=self.draws
        )

    def delta_at(self, epsilon: float) -> float:
        """A lower bound on δ at ε: p − e^ε p' of the best event, valid for this ε by itself."""
        epsilon = check_not_negative("epsilon", epsilon, rounded="up")
        best, chosen = -math.inf, None
        thresholds = self._thresholds()
        for upper in (True, False):
            gaps = self._gaps(self._hits(self._tuning, thresholds, upper), epsilon, _LUCK)
            i = int(np.argmax(gaps))
            if gaps[i] > best:
                best, chosen = float(gaps[i]), Event(threshold=float(thresholds[i]), upper=upper)
        assert chosen is not None
        hits = self._hits(self._proof, np.array([chosen.threshold]), chosen.upper)
        return max(0.0, float(self._gaps(hits, epsilon, 1 - self.confidence)[0]))

    # -- parts ---------------------------------------------------------------------------------------------------

    def _thresholds(self) -> FloatArray:
        values = np.unique(np.concatenate(self._tuning))
        if values.size > _CANDIDATES:
            values = values[np.linspace(0, values.size - 1, _CANDIDATES).astype(np.int64)]
        return values

    @staticmethod
    def _hits(samples: tuple[FloatArray, FloatArray], thresholds: FloatArray, upper: bool) -> Hits:
        """How often each event happened under the table that makes it likely, and under the other."""
        if upper:
            likely, other = (s.size - np.searchsorted(s, thresholds, side="left") for s in samples)
        else:
            other, likely = (np.searchsorted(s, thresholds, side="right") for s in samples)
        return Hits(likely, other, samples[0].size)

    def _bounds(self, hits: Hits, delta: float, error: float) -> FloatArray:
        p, q = self._probabilities(hits, error)
        return np.log(np.maximum((p - delta) / q, 1.0))  # ε is never below 0

    def _gaps(self, hits: Hits, epsilon: float, error: float) -> FloatArray:
        p, q = self._probabilities(hits, error)
        return p - math.exp(epsilon) * q

    @staticmethod
    def _probabilities(hits: Hits, error: float) -> tuple[FloatArray, FloatArray]:
        return at_least(hits.likely, hits.draws, error / 2), at_most(hits.other, hits.draws, error / 2)


@dataclass(frozen=True, kw_only=True)
class WorstCase:
    """Two neighbouring tables and the exact privacy loss between them, ln P(output)/Q(output).

    Args:
        claimed: the mechanism whose loss it is.
        neighbours: the relation.
        rows: of the one person that makes the difference, all in one cell.
    """

    claimed: TableMechanism
    neighbours: Neighbours
    rows: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.claimed, TableMechanism):
            raise InvalidArgument(
                "mechanism",
                "one of " + ", ".join(cls.__name__ for cls in private_mechanisms().values()),
                got=type(self.claimed).__name__,
                hint="For anything else use `audit` with your own pair of tables.",
            )
        convert(self, rows=check_whole)

    @property
    def tables(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The pair; the last cell of shares under add-remove stands for the rest."""
        return self.claimed.worst_pair(self.neighbours, self.rows)

    @property
    def _beside_rest(self) -> bool:
        return self.claimed.draws_shares and self.neighbours == "add-remove"

    def scores(self, drawn: Mechanism, table: int, draws: int, entropy: Entropy) -> FloatArray:
        """The loss, by the claimed mechanism, of outputs that `drawn` gives for the first (0) or second (1) table."""
        table, draws = check_whole("table", table, at_least=0), check_whole("draws", draws)
        counts = np.array(self.tables[table], dtype=np.int64)
        if self._beside_rest:  # up to the constant total; the spread of the largest cell cancels to about 2⁻¹⁸
            values = drawn.draw(np.append(np.full(draws, counts[0]), counts[1]), entropy)
            return self.loss(values[:-1], values[-1:])
        if self.claimed.draws_alone:
            values = drawn.draw(np.tile(counts, (draws, 1)), entropy)
        elif (many := getattr(drawn, "draws", None)) is not None:
            values = many(counts, draws, entropy)
        else:
            values = np.stack([drawn.draw(counts, entropy) for _ in range(draws)])
        return self.loss(values[:, 0], values[:, 1])

    def loss(self, x: NDArray[Any], y: NDArray[Any]) -> FloatArray:
        """ln P/Q at the values of the two cells."""
        first = self.claimed.cell_loss(x, self.rows)
        if self.neighbours == "replace-one" or self._beside_rest:
            return first - self.claimed.cell_loss(y, self.rows)
        return first


# -- learned ----------------------------------------------------------------------------------------------------------
#
# A score for outputs of which nothing is known: learned on draws that are not used for the bound.
#
# Any score gives a valid bound, a poor one a low bound. This one adds two logarithms of likelihood ratios: of the shape
# of the output with the places of its gaps, which tells categories that come from the data; and of its values and zeros
# as if they were normal with one covariance (Fisher's linear discriminant), which tells noise that is too small, shared
# or reused.

_RIDGE = 1e-9
_MOST = 1e6  # a score, so that outputs without any noise stay comparable


def learn_score(first: Sequence[Any], second: Sequence[Any]) -> Callable[[Any], float]:
    """A function of one output that is larger where the first table is the likelier one."""
    samples = [[_vector(output) for output in outputs] for outputs in (first, second)]
    patterns = [Counter(_pattern(vector) for vector in sample) for sample in samples]
    common = (patterns[0] + patterns[1]).most_common(1)[0][0]
    discriminant = _discriminant(*([v for v in sample if _pattern(v) == common] for sample in samples))

    def score(output: Any) -> float:
        vector = _vector(output)
        pattern = _pattern(vector)
        # One added to each count: what was never seen says nothing.
        told = math.log((patterns[0][pattern] + 1) / (patterns[1][pattern] + 1))
        return told + discriminant(vector) if pattern == common else told

    return score


def _vector(output: Any) -> FloatArray:
    return np.asarray(output, dtype=np.float64).ravel()


def _pattern(vector: FloatArray) -> tuple[int, bytes]:
    return vector.size, np.isfinite(vector).tobytes()


def _features(vector: FloatArray) -> FloatArray:
    return np.concatenate([np.where(np.isfinite(vector), vector, 0.0), vector == 0])


def _discriminant(first: list[FloatArray], second: list[FloatArray]) -> Callable[[FloatArray], float]:
    if len(first) < 2 or len(second) < 2:
        return lambda _: 0.0
    x, y = (np.array([_features(vector) for vector in sample]) for sample in (first, second))
    centre, gap = (x.mean(axis=0) + y.mean(axis=0)) / 2, x.mean(axis=0) - y.mean(axis=0)
    within = np.concatenate([x - x.mean(axis=0), y - y.mean(axis=0)])
    # The covariance at the scale of the values, so that noise which cancels exactly is seen as no noise at all.
    scale = np.sqrt(np.mean(np.concatenate([x, y]) ** 2, axis=0)) + 1e-300
    within, gap = within / scale, gap / scale
    covariance = within.T @ within / len(within)
    weights = np.linalg.solve(covariance + _RIDGE * np.eye(len(gap)), gap)

    def score(vector: FloatArray) -> float:
        value = float((_features(vector) - centre) / scale @ weights)
        return min(max(value, -_MOST), _MOST)

    return score


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
            f"{self.name}: ε ≥ {printed(self.lower, up=False)} at δ = {printed(self.delta)} "
            f"({self.confidence:.1%} confidence), claimed {printed(self.claimed)}: {verdict}"
        )


def audit_mechanism(
    mechanism: TableMechanism,
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
    draws, confidence = check_whole("draws", draws, at_least=40), check_fraction("confidence", confidence)
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
    confidence = check_fraction("confidence", confidence)
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
        delta = claimed.delta or None  # a pure claim holds at every δ
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


# -- fitted -----------------------------------------------------------------------------------------------------------
#
# Audits of a fit: everything that its guarantee paid for, drawn together on the worst-case neighbours.
#
# The one record of the neighbours lies in empty cells of all tables at once, and is as large as a record can be in all
# sums. The steps are independent given the data, so the loss of an output is the sum of the losses of its parts.


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

    The bound reaches the claim where that is exact. A claim that goes through the Rényi curve (Dirichlet and Pólya
    noise for persons with several rows) is an upper bound, so that less of it can be proved; private quantiles are not
    drawn.

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
    if any(mechanism.not_private for mechanism in guarantee.mechanisms):
        raise InvalidArgument("guarantee", "one with noise", hint="Exact counts promise nothing that could be audited.")
    source, loss = entropy_from(entropy), guarantee.loss
    steps = [
        (_step(mechanism, guarantee.neighbours, guarantee.rows), times)
        for mechanism, times in Counter(guarantee.mechanisms).items()
        if any(mechanism.loss(guarantee.neighbours, rows=guarantee.rows).directions)  # else it shows nothing
    ]

    def scores(table: int, block: int) -> FloatArray:
        total = np.zeros(block)
        for step, times in steps:
            total += step(table, block * times, source).reshape(times, block).sum(axis=0)
        return total

    return judge(name, guarantee.neighbours, loss, collect(scores, draws, confidence, progress), delta)


def _step(mechanism: Parametrised, neighbours: Neighbours, rows: int) -> Callable[[int, int, Entropy], FloatArray]:
    """From the table (0 or 1) and a number of draws to the losses of as many outputs of this step."""
    if isinstance(mechanism, Step):
        return mechanism.worst_scores(neighbours, rows)
    case = WorstCase(claimed=mechanism, neighbours=neighbours, rows=rows)  # type: ignore[arg-type]  # checked there
    return lambda table, draws, entropy: case.scores(mechanism, table, draws, entropy)


# -- plot -------------------------------------------------------------------------------------------------------------
#
# The picture of an audit: what is claimed as a curve δ(ε), and what the draws prove below it.


def plot_audits(audits: Sequence[Audit], path: Path) -> None:
    """Write one panel for each audit; the ending of the path names the format."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "plots") from None
    with mpl.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(4.2 * len(audits), 3.4), layout="constrained")
        axes = figure.subplots(1, len(audits), squeeze=False, sharey=True)[0]
        for axis, audit in zip(axes, audits, strict=True):
            _panel(axis, audit)
        axes[0].set_ylabel("δ")
        try:
            figure.savefig(path, dpi=160)
        except (OSError, ValueError) as error:
            raise InvalidArgument("plot", f"a path whose format matplotlib can write ({error})") from None


def _panel(axis: Any, audit: Audit) -> None:
    top = max(audit.lower, audit.claimed, 0.05) * 1.6
    epsilons = np.linspace(0.0, top, 33)
    if isinstance(audit.claim, PrivacyLoss):
        axis.plot(epsilons, [audit.claim.delta(float(e)) for e in epsilons], color="#0b5fa5", label="claimed, exact")
    proved = np.array([audit.evidence.delta_at(float(e)) for e in epsilons])
    seen = proved > 0
    axis.plot(
        epsilons[seen],
        proved[seen],
        "o",
        color="#c4480c",
        markersize=3,
        label=f"proved, {audit.confidence:.0%} each",
    )
    axis.plot([audit.lower], [audit.delta], "D", color="black", markersize=5, label="the bound reported")
    axis.set_yscale("log")
    axis.set_ylim(1e-6, 1.0)
    axis.set_xlabel("ε")
    axis.set_title(f"{audit.name}\n{audit.neighbours}", fontsize=9)
    axis.legend(frameon=False, fontsize=8)


__all__ = ["Audit", "Event", "Evidence", "Finding", "WorstCase", "audit", "audit_fit", "audit_mechanism"]
