"""Private bin edges: `Quantiles` columns become `Numeric` ones at a price in pure ε-differential privacy.

Proof: docs/proofs/quantiles.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .budget import Neighbours
from .errors import InvalidArgument, discreet
from .fitting.edges import MAX_CANDIDATES, QuantilePlan, plan_quantiles
from .private.counting import count
from .private.session import choose_points, draw_edges
from .sampling import SecureEntropy
from .schema import Schema, SchemaLike

__all__ = [
    "MAX_CANDIDATES",
    "QuantilePlan",
    "Resolution",
    "choose_points",
    "plan_quantiles",
    "resolve",
    "resolve_quantiles",
]


@dataclass(frozen=True, kw_only=True)
class Resolution:
    """A schema whose quantile columns have edges, and what they cost."""

    schema: Schema
    """The schema with every `Quantiles` replaced by a `Numeric` of the same size."""
    epsilon_spent: float
    """Pure ε of all edges together; 0 if there was nothing to resolve."""
    epsilons: Mapping[str, float]
    """Pure ε of each column that was resolved."""
    neighbours: Neighbours
    """The relation that the ε speaks of."""


@discreet
def resolve(plan: QuantilePlan, source: object, **counting: Any) -> Resolution:
    """Draw the edges of a plan, in one pass over any source that `count` takes, which gets the options `counting`.

    Every call spends anew.
    """
    # Without quantile columns no row is read.
    tables = count(source, plan.grids, plan.tables, **counting) if plan.parts else []
    if not all(table.is_private for table in tables) and plan.grids.is_private:  # bounds from data mark the schema
        raise InvalidArgument(
            "entropy", "the operating system's", hint="Who knows a seed knows which rows of a person were counted."
        )
    return Resolution(
        schema=draw_edges(plan, tables, SecureEntropy()),
        epsilon_spent=plan.epsilon_spent,
        epsilons=plan.epsilons,
        neighbours=plan.neighbours,
    )


@discreet
def resolve_quantiles(
    schema: SchemaLike,
    source: object,
    *,
    epsilon: float,
    neighbours: Neighbours,
    candidates: int = 1000,
    rows_per_person: int = 1,
) -> Resolution:
    """Find private edges for all `Quantiles` columns: `plan_quantiles` and `resolve` in one call."""
    plan = plan_quantiles(
        schema,
        epsilon=epsilon,
        neighbours=neighbours,
        candidates=candidates,
        rows_per_person=rows_per_person,
    )
    return resolve(plan, source)
