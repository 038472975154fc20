"""A guarantee for people: ε and δ in words, and the facts that a report begins with."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from ..numerics.printed import printed
from .guarantee import Guarantee

if TYPE_CHECKING:
    from .model import Model

DELTA = 1e-6
"""Where nobody asked for a δ."""
_UNIT = {"row": "one row (one record of the table)", "person": "one person"}


def delta_of(guarantee: Guarantee) -> float:
    """The δ that was asked for, or `DELTA`."""
    asked = None if guarantee.budget is None else guarantee.budget.delta
    return DELTA if asked is None else asked


def in_words(guarantee: Guarantee) -> str:
    """(ε, δ) as one sentence: exact, or rounded up.

    >>> from simplexdp import Budget, release
    >>> in_words(release([119, 74, 618], budget=Budget(epsilon=1, delta=1e-5)).guarantee)[:72]
    'Whatever anyone concludes from this, one row makes it at most 2.71829 ti'
    """
    delta = delta_of(guarantee)
    epsilon = guarantee.epsilon(delta)
    if not math.isfinite(epsilon):
        return "No number bounds what one record can change."
    other = (
        "as likely as with any other in its place" if guarantee.neighbours == "replace-one" else "as likely as without"
    )
    if guarantee.neighbours == "add-remove":
        other += " it, and the other way round"
    more = f", plus a probability of {chance(delta)}" if delta else ""
    return (
        f"Whatever anyone concludes from this, one {guarantee.unit} makes it at most {printed(_factor(epsilon))} times "
        f"{other}{more}."
    )


def chance(delta: float) -> str:
    """A small probability as one in so many, never smaller than it is.

    >>> chance(1e-6), chance(3e-5)
    ('one in 1,000,000', 'one in 33,333')
    """
    often = math.floor(1 / Fraction(repr(delta))) if delta else 0
    return f"one in {often:,}" if often else "zero"


def key_facts(model: Model, *, dataset: str | None = None, entry: str | None = None) -> list[tuple[str, str]]:
    """What a reader wants to know first, by name: ε, δ, unit, N, data set, ledger entry and where it came from."""
    guarantee, release = model.guarantee, model.releases[0]
    delta = delta_of(guarantee)
    unit = _UNIT[guarantee.unit] + (f" with up to {guarantee.rows:,} rows" if guarantee.rows > 1 else "")
    changed = "replaced by any other" if guarantee.neighbours == "replace-one" else "added or removed"
    size = "private" if release.total is None else f"{release.total:,.0f}, which is public"
    found = [
        ("ε", f"{printed(guarantee.epsilon(delta))} at this δ, for everything on this page together"),
        ("δ", f"{printed(delta)}, {chance(delta)}" if delta else "0: the guarantee is pure"),
        ("Unit", f"{unit}, {changed}"),
        ("Records (N)", size),
        ("Data set", dataset or "not named in the file"),
        ("Ledger entry", entry or "none is known here: `simplexdp inspect FILE --ledger LEDGER` looks for it"),
        ("Drawn", f"{release.created} by {release.software or 'an unknown program'}"),
    ]
    return found if model.private else [fact for fact in found if fact[0] not in ("ε", "δ")]


def _factor(epsilon: float) -> float:
    try:
        return math.exp(epsilon) * (1 + 1e-15)
    except OverflowError:
        return math.inf
