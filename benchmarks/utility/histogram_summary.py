"""What the table of histograms says: ratios, how often ours is the best, and where it is not."""

from __future__ import annotations

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
SIZES = {"d ≤ 6": (0, 6), "d 7–99": (7, 99), "d ≥ 100": (100, 10**9)}


def summary(rows: Sequence[Row]) -> list[str]:
    """Lines of text."""
    groups: dict[str, Callable[[Row], bool]] = {"all": lambda _: True}
    groups |= {origin: lambda row, origin=origin: row.origin == origin for origin in ("tuned", "fresh")}  # type: ignore[misc]
    groups |= {
        f"{budget} {origin}": lambda row, budget=budget, origin=origin: (row.budget, row.origin) == (budget, origin)  # type: ignore[misc]
        for budget in dict.fromkeys(row.budget for row in rows)
        for origin in ("tuned", "fresh")
    }
    groups |= {
        name: lambda row, low=low, high=high: low <= cells_of(row.case) <= high  # type: ignore[misc]
        for name, (low, high) in SIZES.items()
    }
    chosen = {name: [row for row in rows if inside(row)] for name, inside in groups.items()}
    chosen = {name: each for name, each in chosen.items() if each}
    lines = ["", "geometric mean of ours/method (share of cells where ours is no worse)"]
    lines += _ratios(chosen)
    lines += [
        "",
        "ours against the best of the other methods in each cell; the best of many noisy means is biased low,",
    ]
    lines += ["so 'not refuted' counts cells where no method beats ours by more than 5 % at 2 paired standard errors"]
    lines += [_against_best(name, each) for name, each in chosen.items()]
    lines += ["", "where ours loses most (loss of the best above 1e-4)"]
    for name, (low, high) in SIZES.items():
        lines += _worst(name, [row for row in rows if low <= cells_of(row.case) <= high])
    return lines


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
    if not rows:
        return
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
