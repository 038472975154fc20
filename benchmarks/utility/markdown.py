"""The tables of docs/which-mechanism.md from the rows of the benchmark: `--read FILE.csv --markdown`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from . import naive_bayes, networks
from .histogram_summary import VARIANTS, that_matter
from .setting import RENYI
from .table import LEAST, OURS, Losses, Row, geometric_mean

FloatArray = NDArray[np.float64]
HISTOGRAMS = {
    "Algorithm 1": "Algorithm 1 of the paper",
    "exact Dir": "Dirichlet draw, exact accounting",
    "G 1e-6": "Gaussian noise, clip at 10⁻⁶ (the paper's baseline)",
    "G +s/2": "Gaussian noise, clip at 0 plus half a deviation",
    "G project": "Gaussian noise, simplex projection",
    "G truncN": "Gaussian noise, truncated normal",
    "L 1e-6": "Laplace noise, clip at 10⁻⁶",
    "L +s/2": "Laplace noise, clip at 0 plus half a deviation",
    "L project": "Laplace noise, simplex projection",
    "L truncN": "Laplace noise, truncated normal",
    "Ye": "Laplace noise, Ye–Feldman–Talwar",
    "Foulds": "Laplace noise, Foulds et al.",
    "Bernstein": "Laplace noise, Bernstein–Sheldon (up to 1000 cells)",
    VARIANTS[0]: "the default estimate, always Gaussian noise",
    VARIANTS[1]: "the default estimate, always Laplace noise",
}
CLASSIFIERS = {
    OURS: "**the default**",
    "Algorithm 1": "Algorithm 1",
    "Dirichlet": "Dirichlet draw, exact accounting",
    "G clip 1e-6": "Gaussian, clip at 10⁻⁶",
    "G clip + s/2": "Gaussian, clip plus half a deviation",
    "G truncN": "Gaussian, truncated normal",
    "L truncN": "Laplace, truncated normal",
    "Ye": "Laplace, Ye–Feldman–Talwar",
    "Foulds": "Laplace, Foulds et al.",
    naive_bayes.PLAIN: "no noise, pseudo-count 0.1",
}
FEW = (OURS, "Algorithm 1", "Dirichlet", "G truncN", "L truncN")
"""What is shown of the (ε, δ) budgets."""


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """All tables that the rows allow, as lines of Markdown."""
    for part, make in (("histograms", _histograms), ("naive-bayes", _naive_bayes), ("networks", _networks)):
        own = [row for row in rows if row.part == part]
        if own:
            yield f"\n### {part}"
            yield from make(own)


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _header(*cells: str) -> Iterator[str]:
    yield ""
    yield _line(*cells)
    yield "|" + "---|" * len(cells)


def _short(value: float) -> str:
    """Two significant digits."""
    return f"{value:.2g}" if value < 0.1 else f"{value:.2f}"


def _histograms(rows: Sequence[Row]) -> Iterator[str]:
    fresh, matter = [row for row in rows if row.origin == "fresh"], that_matter(rows)
    every, new, best = (Losses.of(each) for each in (rows, fresh, matter))
    sizes = [len(table.cells) for table in (every, new, best)]
    yield from _header(
        "against",
        f"all {sizes[0]} cells",
        "no worse",
        f"{sizes[1]} fresh cells",
        f"{sizes[2]} cells where the best other method loses more than 10⁻⁴",
    )

    def ratios(table: Losses, method: str) -> FloatArray:
        ours, other = (np.maximum(table.of_method(name), LEAST) for name in (OURS, method))
        found = ours / other
        return np.asarray(found[np.isfinite(found)])

    for method, label in HISTOGRAMS.items():
        means = [_short(geometric_mean(ratios(table, method))) for table in (every, new, best)]
        yield _line(label, means[0], f"{np.mean(ratios(every, method) <= 1.0001):.0%}".replace("%", " %"), *means[1:])


def _naive_bayes(rows: Sequence[Row]) -> Iterator[str]:
    for budget in dict.fromkeys(row.budget for row in rows):
        own = [row for row in rows if row.budget == budget]
        loss = Losses.of(own, "loss")
        epsilons = np.array([epsilon for _, _, epsilon in loss.cells])
        origins = {row.case: row.origin for row in own}
        fresh = np.array([origins[case] == "fresh" for case, _, _ in loss.cells])
        found = dict.fromkeys(epsilons.tolist())
        yield from _header(f"{budget}, ε =", *(f"{epsilon:g}" for epsilon in found))
        for title, chosen in (("fresh", fresh), ("tuned", ~fresh)):
            for method in CLASSIFIERS if budget == RENYI else FEW:
                each = loss.of_method(method) / loss.of_method(naive_bayes.PRIOR)
                means = [f"{np.mean(each[chosen & (epsilons == epsilon)]):.2f}" for epsilon in found]
                yield _line(f"{title}: {CLASSIFIERS[method]}", *means)


def _networks(rows: Sequence[Row]) -> Iterator[str]:
    for budget in dict.fromkeys(row.budget for row in rows):
        own = [row for row in rows if row.budget == budget]
        epsilons = dict.fromkeys(row.epsilon for row in own)
        yield from _header("network", f"method, {budget} with ε =", *(f"{epsilon:g}" for epsilon in epsilons))
        for case in dict.fromkeys(row.case for row in own):
            here = Losses.of([row for row in own if row.case == case])
            excess = {method: here.of_method(method) for method in here.methods}
            origin = next(row.origin for row in own if row.case == case)
            special = (OURS, networks.PAIRED, networks.ALGORITHM_1, *networks.PGM)
            rest = np.min([values for method, values in excess.items() if method not in special], axis=0)
            lines = {"Algorithm 1": excess[networks.ALGORITHM_1], "best of noisy family tables": rest}
            if np.isfinite(excess.get(networks.PAIRED, np.array([math.nan]))).all():
                lines["best Private-PGM, two splits"] = np.min([excess[method] for method in networks.PGM], axis=0)
                lines["the default, these splits"] = excess[networks.PAIRED]
            lines["**the default**"] = excess[OURS]
            lines["its part of Algorithm 1's"] = excess[OURS] / excess[networks.ALGORITHM_1]
            name = f"{case} ({origin})"
            for label, values in lines.items():
                digits = [f"{value:.1f}" if value >= 10 else f"{value:.2f}" for value in values]
                yield _line(name, label, *digits)
                name = ""
