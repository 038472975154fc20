"""The three networks, drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..cells import Cell
from ..graphs import GRAPHS, PAPER_NAMES, Graph
from ..results import Row
from .base import Figure
from .canvas import canvas

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


def depths(graph: Graph) -> dict[str, int]:
    """How far each node is from the roots."""
    found: dict[str, int] = {}
    for node, parents in graph.items():
        found[node] = 1 + max((found[parent] for parent in parents), default=-1)
    return found


class Networks(Figure):
    """One row of nodes for each depth."""

    name = "networks"
    title = "The three Bayesian networks"
    paper_says = "Parts of the full networks of Le Quy et al. (2022) on Adult, Bank and GermanCredit."

    def compute(self, cell: Cell) -> list[Row]:  # noqa: ARG002
        """One row for each edge: `data` the graph, `method` the child, `note` the parent."""
        return [
            Row(figure=self.name, data=PAPER_NAMES[name], method=node, metric="edge", value=1.0, note=parent)
            for name, graph in GRAPHS.items()
            for node, parents in graph.items()
            for parent in parents
        ]

    def draw(self, rows: Sequence[Row]) -> dict[str, Drawing]:  # noqa: ARG002
        """Nodes by depth, arrows from parents."""
        drawing, panels = canvas(1, 3, width=5, height=5.5)
        for panel, (name, graph) in zip(panels, GRAPHS.items(), strict=True):
            places = _places(graph)
            for node, parents in graph.items():
                for parent in parents:
                    panel.annotate(
                        "",
                        xy=places[node],
                        xytext=places[parent],
                        arrowprops={"arrowstyle": "->", "color": "grey", "shrinkA": 12, "shrinkB": 12},
                    )
                box = {"boxstyle": "round", "facecolor": "white", "edgecolor": "C0"}
                panel.text(*places[node], node, ha="center", va="center", fontsize=7, bbox=box)
            panel.set_title(PAPER_NAMES[name])
            panel.set_xlim(-0.75, 0.75)
            panel.set_ylim(min(y for _, y in places.values()) - 0.6, 0.6)
            panel.axis("off")
        return {"": drawing}

    def found(self, rows: Sequence[Row]) -> list[str]:
        """Nodes and edges."""
        counted = ", ".join(
            f"{PAPER_NAMES[name]}: {len(graph)} nodes, {sum(row.data == PAPER_NAMES[name] for row in rows)} edges"
            for name, graph in GRAPHS.items()
        )
        return [counted + ".", "The published budget is divided by 3, the number of data sets; it must be the nodes."]


def _places(graph: Graph) -> dict[str, tuple[float, float]]:
    depth = depths(graph)
    places = {}
    for level in range(max(depth.values()) + 1):
        nodes = [node for node in graph if depth[node] == level]
        for i, node in enumerate(nodes):
            shift = 0.08 * (-1) ** level if len(nodes) == 1 else 0.0  # so that a chain's arrows do not overlap
            places[node] = ((i + 0.5) / len(nodes) - 0.5 + shift, -float(level))
    return places
