"""Which tables a Bayesian network releases and how they share the budget, from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Group = Literal["family", "pair", "single"]
UNKNOWN_RATIO = 3.0
"""What κ is taken for where the number of records is private."""


@dataclass(frozen=True, kw_only=True)
class NetworkTables:
    """The tables to release: every family, and smaller ones that their estimates back off to.

    Args:
        columns: of each table.
        groups: "family", "single" for one node, or "pair" for a node and one of several parents.
    """

    columns: tuple[tuple[str, ...], ...]
    groups: tuple[Group, ...]

    @classmethod
    def of(cls, families: Iterable[tuple[str, tuple[str, ...]]], *, extra: bool = True) -> NetworkTables:
        """The tables of these families; without `extra` only the families themselves."""
        families = list(families)
        found: dict[frozenset[str], tuple[tuple[str, ...], Group]] = {}
        for node, parents in families:
            found[frozenset((*parents, node))] = ((*parents, node), "family")
        for node, parents in families if extra else ():
            found.setdefault(frozenset({node}), ((node,), "single"))
            for parent in parents:
                found.setdefault(frozenset({parent, node}), ((parent, node), "pair"))
        return cls(
            columns=tuple(columns for columns, _ in found.values()), groups=tuple(group for _, group in found.values())
        )

    def weights(self, sizes: Mapping[str, int], total: float | None, noise: float) -> list[float]:
        """The share of the budget of each table, adding up to one.

        With κ the count of an average cell of a single column over its noise, single columns get 0.1 + 0.87/(1 +
        (κ/3)^1.5), pairs a quarter of the rest, families the remainder; inside a group shares are ∝ cells^p,
        p = 0.3 − 1.3/(1 + (κ/0.6)²). Where little can be learnt, little is asked.

        Args:
            sizes: cells of each column.
            total: the public number of records, None where it is private.
            noise: the standard deviation of the noise if the families alone shared the budget equally.
        """
        nodes = {name for columns in self.columns for name in columns}
        average = math.fsum(sizes[name] for name in nodes) / len(nodes)
        ratio = UNKNOWN_RATIO if total is None else total / (average * noise)
        power = 0.3 - 1.3 / (1 + (ratio / 0.6) ** 2)
        parts = _group_parts(ratio, self.groups)
        raw = [math.prod(sizes[name] for name in columns) ** power for columns in self.columns]
        whole = {g: math.fsum(w for w, h in zip(raw, self.groups, strict=True) if h == g) for g in parts}
        return [parts[group] * weight / whole[group] for weight, group in zip(raw, self.groups, strict=True)]


def _group_parts(ratio: float, groups: Sequence[Group]) -> dict[Group, float]:
    single = 0.1 + 0.87 / (1 + (ratio / 3) ** 1.5) if "single" in groups else 0.0
    pair = (1 - single) / 4 if "pair" in groups else 0.0
    return {"family": 1 - single - pair, "pair": pair, "single": single}
