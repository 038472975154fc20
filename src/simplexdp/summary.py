"""Rows of text about a release or model, for the terminal and the report; everything here is public already."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import xlogy

from .errors import Infeasible, InvalidArgument
from .models.bayesian_network import BayesianNetworkModel
from .models.naive_bayes import NaiveBayesModel
from .models.release import FloatArray, Release


def cell_labels(release: Release) -> list[str]:
    """What the cells are called, in the order of the flattened values."""
    axes: list[Sequence[str]] = [
        release.schema[release.columns[i]].labels if release.schema is not None else [str(j + 1) for j in range(size)]
        for i, size in enumerate(release.values.shape)
    ]
    return [", ".join(names) for names in itertools.product(*axes)]


def shown_cells(probabilities: FloatArray, most: int) -> list[int]:
    """All cells in their order, or the most probable ones if there are more."""
    if probabilities.size <= most:
        return list(range(probabilities.size))
    return [int(i) for i in np.argsort(-probabilities, kind="stable")[:most]]


def release_rows(release: Release, level: float, most: int) -> list[list[str]]:
    """Cell, probability and interval."""
    labels, probabilities = cell_labels(release), release.probabilities.ravel()
    lower, upper = (bound.ravel() for bound in release.intervals(level))
    return [
        [labels[i], f"{probabilities[i]:.5f}", f"{lower[i]:.5f}", f"{upper[i]:.5f}"]
        for i in shown_cells(probabilities, most)
    ]


def conditional_rows(
    model: NaiveBayesModel | BayesianNetworkModel, column: str, most: int
) -> tuple[list[str], list[list[str]]]:
    """Header and rows of P(column | class) or P(column | parents): one row for each value of what is given."""
    schema = model.schema
    given: tuple[str, ...]
    if isinstance(model, NaiveBayesModel):
        if column not in model.features:
            raise InvalidArgument("column", "a feature of the model", got=column)
        given, table = (model.target,), model.conditionals[model.features.index(column)]
    else:
        if column not in model.tables:
            raise InvalidArgument("column", "a node of the network", got=column)
        given, table = model.graph.parents(column), model.tables[column]
    flat = table.reshape(-1, table.shape[-1])
    if schema is None:
        values, names = [str(i + 1) for i in range(flat.shape[1])], [str(i + 1) for i in range(flat.shape[0])]
    else:
        values = list(schema[column].labels)
        names = [", ".join(labels) for labels in itertools.product(*(schema[name].labels for name in given))]
    header = [" × ".join(given) or column, *values]
    return header, [
        [name or "–", *(f"{p:.4f}" for p in row)] for name, row in list(zip(names, flat, strict=True))[:most]
    ]


def information(model: NaiveBayesModel | BayesianNetworkModel) -> dict[str, float]:
    """Mutual information in nats, in the model: of each feature with the class, or each node with its parents.

    Features come in decreasing order, nodes in the order of the graph. NaN where parents are too many for exact
    inference.
    """
    if isinstance(model, NaiveBayesModel):
        found = {
            name: _mutual(model.class_probabilities, table)
            for name, table in zip(model.features, model.conditionals, strict=True)
        }
        return dict(sorted(found.items(), key=lambda item: -item[1]))
    gained = {}
    for node, parents in model.graph.families:
        try:
            weights = model.marginal(parents).ravel() if parents else np.ones(1)
        except Infeasible:
            gained[node] = math.nan
            continue
        gained[node] = _mutual(weights, model.tables[node].reshape(weights.size, -1))
    return gained


def merged_note(merged: Mapping[str, tuple[int, int]]) -> str:
    """Which features were released with fewer cells than declared, in one line."""
    names = ", ".join(f"{name} ({cells} of {declared} cells)" for name, (cells, declared) in merged.items())
    return f"Bins that the noise would hide were merged before it: {names}."


def nats(value: float) -> str:
    """Information for people."""
    return "–" if math.isnan(value) else f"{value:.5f}"


def _mutual(weights: FloatArray, table: FloatArray) -> float:
    pooled = weights @ table
    return float(max(0.0, weights @ xlogy(table, table).sum(axis=1) - xlogy(pooled, pooled).sum()))
