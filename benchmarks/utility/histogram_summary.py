"""What the table of histograms says: ratios, how often ours is the best, and where it is not."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from .histogram_cases import cells_of
from .table import LEAST, OURS, Losses, Row, geometric_mean

FloatArray = NDArray[np.float64]
VARIANTS = ("ours, G", "ours, L")
"""Ours at fixed noise: not competitors."""
MATTERS = 1e-4
"""Losses above this matter."""
SIZES = {"d ≤ 6": 6, "d 7–99": 99, "d ≥ 100": math.inf}


def summary(rows: Sequence[Row]) -> list[str]:
    """Lines of text."""
    keys: tuple[Callable[[Row], str], ...] = (
        lambda _: "all",
        lambda row: row.origin,
        lambda row: f"{row.budget} {row.origin}",
        size_class,
    )
    groups: dict[str, list[Row]] = {}
    for key in keys:
        for row in rows:
            groups.setdefault(key(row), []).append(row)
    groups["best > 1e-4"] = that_matter(rows)  # elsewhere losses may be 0 in all seeds and make ratios extreme
    return [
        "",
        "geometric mean of ours/method (share of cells where ours is no worse)",
        *_ratios(groups),
        "",
        "ours against the best of the other methods in each cell; the best of many noisy means is biased low, so",
        "'not refuted' counts cells where no method beats ours by more than 5 % at 2 paired standard errors",
        *(_against_best(name, each) for name, each in groups.items()),
        "",
        "where ours loses most (loss of the best above 1e-4)",
        *(line for name in SIZES if name in groups for line in _worst(name, groups[name])),
    ]


def size_class(row: Row) -> str:
    """By the number of cells."""
    return next(name for name, most in SIZES.items() if cells_of(row.case) <= most)


def that_matter(rows: Sequence[Row]) -> list[Row]:
    """Those of cells in which the best other method loses more than 10⁻⁴."""
    table = Losses.of(rows)
    best = np.nanmin(np.array([table.of_method(method) for method in _others(table)]), axis=0)
    kept = {cell for cell, loss in zip(table.cells, best, strict=True) if loss > MATTERS}
    return [row for row in rows if (row.case, row.budget, row.epsilon) in kept]


def _others(table: Losses) -> list[str]:
    return [method for method in table.methods if method != OURS and method not in VARIANTS]


def _ratios(groups: dict[str, list[Row]]) -> Iterator[str]:
    tables = {name: Losses.of(rows) for name, rows in groups.items()}
    yield f"{'method':>12} " + " ".join(f"{name:>22}" for name in tables)
    for method in tables["all"].methods:
        texts = []
        for table in tables.values():
            ratio = _clean(table.of_method(OURS)) / _clean(table.of_method(method))
            known = np.isfinite(ratio)
            if known.any():
                texts.append(f"{geometric_mean(ratio):15.3f} ({np.mean(ratio[known] <= 1.0001):4.0%})")
            else:
                texts.append(" " * 22)
        yield f"{method:>12} " + " ".join(texts)


def _clean(losses: FloatArray) -> FloatArray:
    return np.where(np.isfinite(losses), np.maximum(losses, LEAST), np.nan)


def _against_best(name: str, rows: Sequence[Row]) -> str:
    table, paired = Losses.of(rows), Losses.of(rows, "paired")
    ours, others = _clean(table.of_method(OURS)), _others(table)
    rivals = np.array([_clean(table.of_method(method)) for method in others])
    errors = np.array([paired.of_method(method) for method in others])
    best = np.nanmin(rivals, axis=0)
    ratio, matters = ours / best, np.nanmin(rivals, axis=0) > MATTERS
    beaten = np.nan_to_num(ours - 1.05 * rivals - 2 * errors, nan=-1.0) > 0
    with_variants = np.nanmin(_clean(table.values), axis=0)
    return (
        f"{name:>22}: within 5 % in {np.mean(ratio <= 1.05):5.1%} of {ours.size:4d} cells, not refuted in "
        f"{np.mean(~beaten.any(axis=0)):5.1%}; mean ratio {geometric_mean(ratio):.3f}; "
        f"where it matters at most 1.5 × in {np.mean(ratio[matters] <= 1.5):5.1%}, "
        f"worst {ratio[matters].max(initial=0.0):.2f} ×; "
        f"within 5 % of the best with ours at either noise in {np.mean(ours / with_variants <= 1.05):5.1%}"
    )


def _worst(name: str, rows: Sequence[Row], most: int = 12) -> Iterator[str]:
    table, paired = Losses.of(rows), Losses.of(rows, "paired")
    others = _others(table)
    rivals = np.array([_clean(table.of_method(method)) for method in others])
    ours, best = _clean(table.of_method(OURS)), np.nanmin(rivals, axis=0)
    ratio = np.where(best > MATTERS, ours / best, 0.0)
    yield f"  {name}:"
    for at in np.argsort(-ratio)[:most]:
        if ratio[at] <= 1.05:
            break
        method = others[int(np.nanargmin(rivals[:, at]))]
        case, budget, epsilon = table.cells[at]
        error = paired.of_method(method)[at]
        yield (
            f"    {ratio[at]:5.2f} × {method:>11} {case:34} {budget:>13} ε={epsilon:<6g}"
            f" ours {ours[at]:.3g}, best {best[at]:.3g}, difference ± {error:.1g}"
        )
