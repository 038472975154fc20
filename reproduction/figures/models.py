"""What the figures on data share: cells by data set and method, panels, and the comparison with the paper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from simplexdp.numerics.printed import printed

from ..cells import Cell, fit_cell
from ..methods.base import Method, Regime
from ..methods.registry import FURTHER, PAPER, methods
from ..published_values import EPSILONS, Series
from ..results import CORRECT, PUBLISHED, Row, curve, distinct
from ..settings import Settings
from .base import Figure, Grid
from .canvas import canvas, stamp, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

TOLERANCE = 0.10
PAPER_REPEATS = 10
LABELS = {method.name: method.label for method in (*PAPER, *FURTHER)}


def _both(times: int) -> float:
    """The standard error of the difference of two means, one over `times` draws and one over the paper's ten."""
    return math.sqrt(1 / times + 1 / PAPER_REPEATS)


class ModelFigure(Figure):
    """All methods on all data sets under one kind of budget."""

    regime: ClassVar[Regime]
    kind: ClassVar[str]
    metrics: ClassVar[tuple[str, ...]]
    log_axis: ClassVar[bool]
    published_values: ClassVar[dict[str, Series]] = {}

    def data(self, settings: Settings, *, published: bool) -> tuple[str, ...]:
        """The data sets."""
        raise NotImplementedError

    def cells(self, settings: Settings) -> list[Cell]:
        """One for each setting, data set and method."""
        return [
            Cell(
                figure=self.name,
                settings=settings,
                regime=self.regime,
                published=published,
                data=data,
                method=method.name,
            )
            for published in settings.kinds
            for data in self.data(settings, published=published)
            for method in methods(self.regime, published=published)
        ]

    def compute(self, cell: Cell) -> list[Row]:
        """Fit and evaluate."""
        return fit_cell(cell, self.kind)

    # -- drawings ------------------------------------------------------------------------------------------------

    def draw(self, rows: Sequence[Row]) -> dict[str, Drawing]:
        """The paper's methods and the further ones, for each metric; the published settings apart."""
        drawings = {}
        for metric in self.metrics:
            for group, chosen in (("paper", PAPER), ("further", (PAPER[1], *FURTHER))):
                drawings[f"{metric}-{group}"] = self._panels(rows, metric, CORRECT, chosen)
            if PUBLISHED in distinct(rows, "setting"):
                drawings[f"{metric}-as-published"] = self._panels(rows, metric, PUBLISHED, PAPER)
        return drawings

    def _panels(self, rows: Sequence[Row], metric: str, setting: str, chosen: Sequence[Method]) -> Drawing:
        names = distinct([row for row in rows if row.setting == setting], "data")
        wide = min(4, max(1, len(names)))
        drawing, panels = canvas(math.ceil(len(names) / wide), wide, width=max(3.4, 7 / wide), height=2.8)
        for panel, data in zip(panels, names, strict=False):
            for i, method in enumerate(chosen):
                c = curve(rows, data=data, method=method.name, setting=setting, metric=metric)
                if c.x:
                    panel.errorbar(c.x, c.mean, yerr=c.error, label=LABELS[method.name], **style(i))
            published = (
                self.published_values.get(data, {}) if setting == PUBLISHED and metric == self.metrics[0] else {}
            )
            for i, method in enumerate(chosen):
                if method.name in published:
                    panel.plot(EPSILONS, published[method.name], "x", color=f"C{i % 10}", markersize=7)
            if published:
                panel.plot([], [], "x", color="grey", label="read off the paper")
            panel.set_xscale("log")
            if self.log_axis and metric == self.metrics[0]:
                panel.set_yscale("log")
            panel.set_title(data, fontsize=9)
            panel.set_xlabel("ε" if self.regime == "rdp" else "ε̂", fontsize=8)
            panel.tick_params(which="both", labelsize=7)
        for panel in panels[len(names) :]:
            panel.axis("off")
        if panels:
            panels[0].set_ylabel(metric)
            handles, labels = panels[0].get_legend_handles_labels()
            columns = max(2, wide)
            drawing.set_figheight(drawing.get_figheight() + 0.18 * math.ceil(len(labels) / columns) + 0.3)
            drawing.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=7)
        stamp(drawing, [setting])
        return drawing

    # -- words ---------------------------------------------------------------------------------------------------

    def found(self, rows: Sequence[Row]) -> list[str]:
        """Who wins, and what the correct settings change."""
        metric = self.metrics[0]
        sentences = [self._against_clip(rows, metric), self._best(rows, metric)]
        if PUBLISHED in distinct(rows, "setting"):
            agreement = self._agreement(rows)
            if agreement:
                sentences.append(agreement)
            sentences.append(self._moved(rows, metric))
        infeasible = sum(row.metric == "infeasible" for row in rows)
        if infeasible:
            sentences.append(f"{infeasible} points are infeasible at their budget and are not drawn.")
        return [sentence for sentence in sentences if sentence]

    def _compare(self, rows: Sequence[Row], metric: str, one: str, other: str) -> tuple[int, int]:
        """At how many points `one` is better than `other`, and of how many."""
        wins = points = 0
        for data in distinct([row for row in rows if row.setting == CORRECT], "data"):
            a, b = (curve(rows, data=data, method=m, setting=CORRECT, metric=metric) for m in (one, other))
            for x, value in zip(a.x, a.mean, strict=True):
                if x in b.x:
                    points += 1
                    wins += self._better(value, b.mean[b.x.index(x)], metric)
        return wins, points

    @staticmethod
    def _better(one: float, other: float, metric: str) -> bool:
        return one < other if metric == "cross-entropy" else one > other

    def _against_clip(self, rows: Sequence[Row], metric: str) -> str:
        wins, points = self._compare(rows, metric, "algorithm1", "gaussian-clip")
        honest, of = self._compare(rows, metric, "algorithm1", "gaussian-exact")
        if not points or not of:
            return ""
        return (
            f"With correct budgets Algorithm 1 beats Gaussian noise clipped at 1e-6 at {wins} of {points} points; "
            f"against the same noise clipped at zero plus half a standard deviation it wins at {honest} of {of}."
        )

    def _best(self, rows: Sequence[Row], metric: str) -> str:
        counts: dict[str, int] = {}
        chosen = [row for row in rows if row.setting == CORRECT and row.metric == metric]
        for data in distinct(chosen, "data"):
            curves = {
                m: curve(chosen, data=data, method=m)
                for m in distinct(chosen, "method")
                if m not in ("non-private", "random")
            }
            for x in sorted({x for c in curves.values() for x in c.x}):
                at = {m: c.mean[c.x.index(x)] for m, c in curves.items() if x in c.x}
                best = min(at, key=lambda m: at[m] if metric == "cross-entropy" else -at[m])
                counts[best] = counts.get(best, 0) + 1
        ranking = sorted(counts, key=lambda m: -counts[m])
        return (
            "Best private method, by number of points: " + ", ".join(f"{LABELS[m]} {counts[m]}" for m in ranking) + "."
        )

    def _agreement(self, rows: Sequence[Row]) -> str:
        """How many published values are met, and whether the rest lies within the sampling error of ten draws."""
        compared = self.comparison(rows)
        if not compared:
            return ""
        outside = [each for each in compared if abs(each[3] / each[4] - 1) > TOLERANCE]
        noise = sum(abs(value - published) <= 2 * both for *_, value, published, _, both in outside)
        return (
            f"As published (not private): {len(compared) - len(outside)} of {len(compared)} values read off the paper "
            f"are met within 10 %; of the {len(outside)} others {noise} lie within two standard errors of its draws."
        )

    def _moved(self, rows: Sequence[Row], metric: str) -> str:
        """From what to what the paper's own method moves at the middle of the axis."""
        parts = []
        for data in distinct([row for row in rows if row.setting == PUBLISHED], "data"):
            name = "GermanCredit" if data == "SouthGermanCredit" and self.kind == "naive-bayes" else data
            before, after = (
                curve(rows, data=d, method="algorithm1", setting=s, metric=metric)
                for d, s in ((data, PUBLISHED), (name, CORRECT))
            )
            if before.x and after.x:
                parts.append(f"{name} {before.at(0.1):.4g} → {after.at(0.1):.4g}")
        if not parts:
            return ""
        return (
            "Correct budgets, bins and cells move Algorithm 1 at 0.1 from what was published to: "
            + ", ".join(parts)
            + "."
        )

    def comparison(self, rows: Sequence[Row]) -> list[tuple[str, str, float, float, float, float, float]]:
        """Data set, method, ε, value found, value published, standard error of what was found and of the difference."""
        found = []
        for data, series in self.published_values.items():
            for method, values in series.items():
                c = curve(rows, data=data, method=method, setting=PUBLISHED, metric=self.metrics[0])
                for epsilon, published in zip(EPSILONS, values, strict=True):
                    near = [i for i, x in enumerate(c.x) if abs(math.log(x / epsilon)) < 1e-3]
                    found += [
                        (data, method, epsilon, c.mean[i], published, c.error[i], c.deviation[i] * _both(c.times[i]))
                        for i in near
                    ]
        return found

    def grids(self, rows: Sequence[Row]) -> list[Grid]:
        """Every value read off the paper beside what was found with its slips repeated."""
        compared = self.comparison(rows)
        if not compared:
            return []
        lines = tuple(
            (
                data,
                LABELS[method],
                printed(epsilon),
                f"{published:.4g}",
                f"{value:.4g} ± {error:.2g}",
                f"{100 * (value / published - 1):+.1f} %",
            )
            for data, method, epsilon, value, published, error, _ in compared
        )
        header = ("data set", "method", "ε", "read off the paper", "found (± standard error)", "difference")
        return [Grid(title="As published, not private: against the published figures", header=header, rows=lines)]
