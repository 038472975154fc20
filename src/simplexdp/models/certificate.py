"""Certificates: what is promised, what is assumed to be public and what is not covered, in words and as data."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from ..accounting import PrivacyLoss
from ..budget import Neighbours
from ..cores import granted, in_order
from ..mechanisms.sums import Step
from ..numerics.printed import exact, printed
from ..shown import Shown
from .guarantee import Guarantee, pure_loss

_WHAT = {"gaussian-tables": "second look", "noisy-sum": "noisy sum"}


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What a guarantee was spent on: steps of one kind.

    Args:
        what: what they release.
        mechanism: what draws them.
        times: how many there are.
        share: of the whole loss that all of them take together; None where it has no bound.
    """

    what: str
    mechanism: str
    times: int
    share: float | None

    def __str__(self) -> str:
        number = f"{self.times} × " if self.times > 1 else ""
        share = "" if self.share is None else f": {self.share:.1%} of the budget"
        return f"{number}{self.what} by {self.mechanism}{share}"

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def steps_of(guarantee: Guarantee) -> tuple[Spent, ...]:
    """The steps in the order in which they are drawn, so that the split is no secret.

    The share of a step is its part of K′(0), the mean of the privacy loss between the worst neighbours, which adds up
    exactly over steps. Among Gaussian noises it is the share of the precision.
    """
    relation = guarantee.neighbours
    found = [
        ("private bin edges", f"noisy choices, ε = {printed(epsilon)}", times, pure_loss(epsilon, relation).rdp(1))
        for epsilon, times in Counter(guarantee.pure).items()
    ]
    steps = iter(guarantee.named)
    kinds = Counter(
        (next(steps, _WHAT.get(each.name, "table")) if isinstance(each, Step) else _WHAT.get(each.name, "table"), each)
        for each in guarantee.mechanisms
    )
    found += [
        (what, str(mechanism), times, mechanism.loss(relation, rows=guarantee.rows).rdp(1))
        for (what, mechanism), times in kinds.items()
    ]
    whole = math.fsum(times * mean for _, _, times, mean in found)
    return tuple(
        Spent(what=what, mechanism=by, times=times, share=times * mean / whole if 0 < whole < math.inf else None)
        for what, by, times, mean in found
    )


FALSE_POSITIVES = (0.001, 0.01, 0.1)
"""False-positive rates at which certificates say how many true positives an attacker can have."""


@dataclass(frozen=True, kw_only=True)
class Risk:
    """What the loss lets any attacker do who knows all else and must say which of two neighbours it was.

    Args:
        advantage: the most that the true-positive rate can be above the false-positive rate.
        posterior: how often a guess that starts at one half is right, at most.
        power: the largest true-positive rate at each false-positive rate.
    """

    advantage: float
    posterior: float
    power: tuple[tuple[float, float], ...]

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, loss: PrivacyLoss) -> Risk:
        """Of everything that was released, each number rounded up."""
        power = tuple(zip(FALSE_POSITIVES, in_order(loss.power, FALSE_POSITIVES, granted()), strict=True))
        return cls(advantage=loss.advantage(), posterior=loss.posterior(), power=power)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        power = {exact(rate): power for rate, power in self.power}
        return {"advantage": self.advantage, "posterior_from_half": self.posterior, "power_at": power}

    def words(self, unit: str, neighbours: Neighbours) -> tuple[str, ...]:
        """For people, about one row or person."""
        asked = f"which of two {unit}s" if neighbours == "replace-one" else f"whether one {unit}"
        caught = "; ".join(f"{percent(power)} at {percent(rate)}" for rate, power in self.power)
        return (
            f"who knows everything else and guesses {asked} was in the data starts at 50 % and is right in at most "
            f"{percent(self.posterior)} of cases (largest advantage of any attacker: {printed(self.advantage)})",
            f"the largest true-positive rate of any such attacker is {caught} false positives",
        )


def percent(share: float) -> str:
    """A share as per cent, rounded up.

    >>> percent(0.001), percent(1 / 3)
    ('0.1 %', '33.3334 %')
    """
    return f"{printed(Fraction(exact(share)) * 100)} %"


NOT_PRIVATE = {
    "seeded": "the draw was made with a seed, so anyone who knows it can undo the noise",
    "from-data": "the schema was taken from the sensitive data itself",
    "paper-discretisation": "the schema was taken from the sensitive data, as in the paper",
}
"""Facts that break the promise: an entropy, an origin of a schema. Mechanisms say it of themselves."""
_RELATIONS = {
    "replace-one": "one {unit} is replaced by any other; the number of {units} is public",
    "add-remove": "one {unit} is added or removed; the number of {units} is private",
}


@dataclass(frozen=True, kw_only=True, repr=False)
class Certificate(Shown):
    """The promise of one release or model."""

    private: bool
    promise: str
    guarantee: dict[str, Any]
    assumed_public: tuple[str, ...]
    not_covered: tuple[str, ...]
    not_private: tuple[str, ...]
    declarations: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    risk: tuple[str, ...] = ()

    @property
    def epsilons(self) -> dict[str, str]:
        """ε at several δ as text, each exact or rounded up."""
        return _epsilons(self.guarantee)

    def _columns(self) -> dict[str, list[Any]]:
        found = self.guarantee["epsilon_at_delta"]
        return {"delta": [float(delta) for delta in found], "epsilon": [_finite(each) for each in found.values()]}

    def _facts(self) -> list[str]:
        return [self.promise, *self.not_private, *self.risk]

    def __repr__(self) -> str:
        told = "; ".join(f"({epsilon}, {delta})" for delta, epsilon in self.epsilons.items())
        return f"Certificate({'PRIVATE' if self.private else 'NOT PRIVATE'}, {told})"

    def to_json(self) -> str:
        """As JSON."""
        return json.dumps(self.__dict__, indent=1, ensure_ascii=False)

    def __str__(self) -> str:
        lines = ["PRIVATE" if self.private else "NOT PRIVATE", "", self.promise]
        for title, items in (
            ("This is not private because", self.not_private),
            ("Risk", self.risk),
            ("Spent on", self.steps),
            ("Left out", self.left_out),
            ("Declared by the curator", self.declarations),
            ("Assumed to be public", self.assumed_public),
            ("Not covered", self.not_covered),
        ):
            if items:
                lines += ["", f"{title}:", *(f"  - {item}" for item in items)]
        return "\n".join(lines)


def reasons(guarantee: Guarantee, entropy: str, schema_origin: str | None) -> tuple[str, ...]:
    """Why something made this way is not private; empty when it is. The facts decide, whatever a mark says."""
    exact = (mechanism.not_private for mechanism in guarantee.mechanisms)
    found = [NOT_PRIVATE.get(entropy), *exact, NOT_PRIVATE.get(schema_origin or "")]
    return tuple(dict.fromkeys(reason for reason in found if reason))


def certify(
    guarantee: Guarantee,
    *,
    schema_origin: str | None,
    entropy: str,
    not_private: tuple[str, ...],
    declarations: tuple[str, ...] = (),
) -> Certificate:
    """The certificate of releases with this guarantee; `not_private` are reasons beside those that the facts give."""
    not_private = tuple(dict.fromkeys((*reasons(guarantee, entropy, schema_origin), *not_private)))
    views, steps, risk = guarantee.views(), steps_of(guarantee), Risk.of(guarantee.loss)
    unit = guarantee.unit if guarantee.rows == 1 else f"person with up to {guarantee.rows} rows"
    relation = _RELATIONS[guarantee.neighbours].format(unit=unit, units=f"{guarantee.unit}s")
    after = Counter(type(mechanism) for mechanism in guarantee.mechanisms if isinstance(mechanism, Step))
    drawn = {type(mechanism) for mechanism in guarantee.mechanisms}
    kinds = sorted({kind.drawn_by if issubclass(kind, Step) else kind.name for kind in drawn} - {""})
    tables = len(guarantee.mechanisms) - after.total()
    parts = f"{tables} {'table' if tables == 1 else 'tables'}"
    if guarantee.named:
        parts += f" and {len(guarantee.named)} further steps"
    else:
        parts += "".join(step.phrase(times) for step, times in after.items())
    if not_private:
        promise = "No promise is made. The numbers below would hold if the reasons were removed."
    else:
        pure = sum(map(Fraction, guarantee.pure), Fraction(0))
        at = "; ".join(f"({epsilon}, {delta})" for delta, epsilon in _epsilons(views).items())
        promise = (
            f"Differential privacy for {parts} together, by the {', '.join(kinds)} mechanism: whatever else "
            f"is known, the output is almost as likely when {relation}. {_asked(guarantee)}As (epsilon, delta): {at}. "
            f"Each number is exact or rounded up; the proof is on the documentation page of the mechanism."
            + (f" Bin edges found in the data cost a pure epsilon of {printed(pure)} of it." if pure else "")
        )
    edges = ", bins" if not guarantee.pure else " and number of bins"
    assumed = [f"the columns, their values{edges} and rules in the schema" if schema_origin else "the number of cells"]
    if guarantee.neighbours == "replace-one":
        assumed.append(f"the number of {guarantee.unit}s")
    if schema_origin == "public":
        assumed.append("the data that the schema was taken from, as stated by its author")
    not_covered = [
        "other releases from the same data, also those made to choose this one; a ledger adds them up",
        "what the outputs reveal about a group as a whole, which is what they are for",
        "side channels such as running time and memory of the machine that drew them",
    ]
    not_covered += sorted({kind.not_covered for kind in drawn} - {""})
    return Certificate(
        private=not not_private,
        promise=promise,
        guarantee={
            **guarantee.to_body(),
            **views,
            "entropy": entropy,
            "steps": [step.as_dict() for step in steps],
            "risk": risk.as_dict(),
        },
        assumed_public=tuple(assumed),
        not_covered=tuple(not_covered),
        not_private=not_private,
        declarations=declarations,
        steps=tuple(map(str, steps)),
        left_out=guarantee.left_out,
        risk=risk.words(guarantee.unit, guarantee.neighbours),
    )


def _finite(epsilon: float | None) -> float:
    return math.inf if epsilon is None else epsilon


def _epsilons(views: dict[str, Any]) -> dict[str, str]:
    """What `Guarantee.views` says of ε, where None stands for infinity, as text."""
    found = views["epsilon_at_delta"].items()
    return {delta: printed(math.inf if epsilon is None else epsilon) for delta, epsilon in found}


def _asked(guarantee: Guarantee) -> str:
    """The budget that was asked for and what was spent of it."""
    budget = guarantee.budget
    if budget is None:
        return ""
    if budget.order is not None:
        spent = f"({exact(budget.order)}, {printed(guarantee.loss.rdp(budget.order))})-RDP"
    elif budget.concentrated:
        spent = f"{printed(guarantee.loss.rho)}-zCDP"
    else:
        assert budget.delta is not None
        spent = f"({printed(guarantee.epsilon(budget.delta))}, {printed(budget.delta)})-DP"
    return f"Asked for {budget}, spent {spent}. "
