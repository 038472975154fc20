"""Certificates: what is promised, what is assumed to be public and what is not covered, in words and as data."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ..numerics.roots import rounded
from .guarantee import Guarantee

_RELATIONS = {
    "replace-one": "one {unit} is replaced by any other; the number of {units} is public",
    "add-remove": "one {unit} is added or removed; the number of {units} is private",
}


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """The promise of one release or model."""

    private: bool
    promise: str
    guarantee: dict[str, Any]
    assumed_public: tuple[str, ...]
    not_covered: tuple[str, ...]
    not_private: tuple[str, ...]

    def to_json(self) -> str:
        """As JSON."""
        return json.dumps(self.__dict__, indent=1, ensure_ascii=False)

    def __str__(self) -> str:
        lines = ["PRIVATE" if self.private else "NOT PRIVATE", "", self.promise]
        for title, items in (
            ("This is not private because", self.not_private),
            ("Assumed to be public", self.assumed_public),
            ("Not covered", self.not_covered),
        ):
            if items:
                lines += ["", f"{title}:", *(f"  - {item}" for item in items)]
        return "\n".join(lines)


def certify(
    guarantee: Guarantee, *, schema_origin: str | None, entropy: str, not_private: tuple[str, ...]
) -> Certificate:
    """The certificate of releases with this guarantee."""
    views = guarantee.views()
    unit = guarantee.unit if guarantee.rows == 1 else f"person with up to {guarantee.rows} rows"
    relation = _RELATIONS[guarantee.neighbours].format(unit=unit, units=f"{guarantee.unit}s")
    names = [mechanism.name for mechanism in guarantee.mechanisms]
    looks, sums = names.count("gaussian-tables"), names.count("noisy-sum")
    kinds = sorted({*names, *(["gaussian"] if looks else [])} - {"noisy-sum", "gaussian-tables"})
    tables = len(names) - looks - sums
    parts = f"{tables} {'table' if tables == 1 else 'tables'}" + (", a second look at each of them" if looks else "")
    parts += f" and {sums} noisy sums" if sums else ""
    if not_private:
        promise = "No promise is made. The numbers below would hold if the reasons were removed."
    else:
        at = "; ".join(
            f"({'infinite' if value is None else rounded(value, up=True)}, {delta})"
            for delta, value in views["epsilon_at_delta"].items()
        )
        promise = (
            f"Differential privacy for {parts} together, by the {', '.join(kinds)} mechanism: whatever else "
            f"is known, the output is almost as likely when {relation}. {_asked(guarantee)}As (epsilon, delta): {at}. "
            f"Each number is exact or rounded up; the proof is on the documentation page of the mechanism."
            + (
                f" Bin edges found in the data cost a pure epsilon of {rounded(sum(guarantee.pure), up=True)} of it."
                if guarantee.pure
                else ""
            )
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
    if "dirichlet" in kinds:
        not_covered.append(
            "rounding: the Dirichlet draw is made in floating point, whose low bits can tell neighbours apart"
        )
    return Certificate(
        private=not not_private,
        promise=promise,
        guarantee={**guarantee.to_body(), **views, "entropy": entropy},
        assumed_public=tuple(assumed),
        not_covered=tuple(not_covered),
        not_private=not_private,
    )


def _asked(guarantee: Guarantee) -> str:
    """The budget that was asked for and what was spent of it."""
    budget = guarantee.budget
    if budget is None:
        return ""
    if budget.order is not None:
        spent = f"({budget.order:g}, {rounded(guarantee.loss.rdp(budget.order), up=True)})-RDP"
    else:
        assert budget.delta is not None
        spent = f"({rounded(guarantee.epsilon(budget.delta), up=True)}, {budget.delta:g})-DP"
    return f"Asked for {budget}, spent {spent}. "
