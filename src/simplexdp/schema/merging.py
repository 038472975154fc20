"""Neighbouring bins as one: a coarser declaration of the same numbers, made from public facts alone."""

from __future__ import annotations

from .columns import Categories, Numeric, Quantiles

TAILS = 10
"""Each tail is one bin in so many."""


def merged(column: Numeric, bins: int) -> Numeric:
    """The column with so many bins, if it has more: two tails, a tenth of the bins each, and equal parts of the rest.

    Extreme values often say most, and everything between them mostly a trend, which few bins show. Own values stay.

    >>> merged(Numeric(range(11), own=[3]), 4).labels
    ('3', '[0, 1)', '[1, 5)', '[5, 9)', '[9, 10]')
    """
    if column.bins <= bins:
        return column
    tail = max(1, round(column.bins / TAILS))
    between = [tail + round(i * (column.bins - 2 * tail) / (bins - 2)) for i in range(bins - 1)]
    return column.model_copy(update={"edges": tuple(column.edges[cut] for cut in (0, *between, column.bins))})


def cell_map(
    fine: Categories | Numeric | Quantiles, coarse: Categories | Numeric | Quantiles
) -> tuple[int, ...] | None:
    """For each cell of a column the cell of a coarser one that it is part of; None if the other is not coarser.

    >>> cell_map(Numeric(range(5), missing="cell"), Numeric([0, 1, 4], missing="cell"))
    (0, 1, 1, 1, 2)
    """
    if fine == coarse:
        return tuple(range(fine.size))
    if not isinstance(fine, Numeric) or not isinstance(coarse, Numeric) or not coarse.edges:
        return None
    if fine.model_copy(update={"edges": coarse.edges}) != coarse or not set(coarse.edges) <= set(fine.edges):
        return None
    if (fine.edges[0], fine.edges[-1]) != (coarse.edges[0], coarse.edges[-1]):
        return None
    own = len(fine.own)
    bins = [own + sum(edge <= low for edge in coarse.edges) - 1 for low in fine.edges[:-1]]
    return (*range(own), *bins, *range(own + coarse.bins, coarse.size))
