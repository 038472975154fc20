"""Networks with given tables, brute-force twins, and strategies."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from simplexdp import Schema
from simplexdp.mechanisms import NoNoise
from simplexdp.models import Guarantee, Release
from simplexdp.models.bayesian_network import BayesianNetworkModel
from simplexdp.models.bayesian_network.graph import Graph


def schema_of(sizes: dict[str, int]) -> Schema:
    return Schema.of(**{name: [f"{name}{i}" for i in range(size)] for name, size in sizes.items()})


def hundred(shape: tuple[int, ...]) -> NDArray[np.int64]:
    """A table of a hundred records."""
    values = np.zeros(shape, dtype=np.int64)
    values.flat[0] = 100
    return values


def model_with(graph: Graph, schema: Schema, tables: dict[str, NDArray[np.float64]]) -> BayesianNetworkModel:
    """A model with these conditional tables; its releases are placeholders."""
    mechanisms = tuple(NoNoise() for _ in graph.nodes)
    guarantee = Guarantee(mechanisms=mechanisms)
    releases = tuple(
        Release(
            values=hundred(schema.shape(graph.family(node))),
            mechanism=mechanism,
            guarantee=guarantee,
            total=100.0,
            columns=graph.family(node),
            schema=schema.select(graph.family(node)),
            not_private=("exact counts were published",),
        )
        for node, mechanism in zip(graph.nodes, mechanisms, strict=True)
    )
    return BayesianNetworkModel(graph=graph, schema=schema, releases=releases, tables=tables)


@st.composite
def networks(draw: st.DrawFn) -> BayesianNetworkModel:
    """Up to five nodes of one to three cells, with any acyclic graph and random tables."""
    names = [f"v{i}" for i in range(draw(st.integers(1, 5)))]
    sizes = {name: draw(st.integers(1, 3)) for name in names}
    parents = {name: [other for other in names[:i] if draw(st.booleans())] if i else [] for i, name in enumerate(names)}
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    graph = Graph.of(parents)
    shown = draw(st.permutations(names))
    schema = schema_of({name: sizes[name] for name in shown})
    tables = {node: rng.dirichlet(np.full(sizes[node], 0.7), size=schema.shape(graph.parents(node))) for node in names}
    return model_with(graph, schema, tables)


def brute_joint(model: BayesianNetworkModel) -> NDArray[np.float64]:
    """P over all columns of the model by multiplying out every record."""
    joint = np.empty(model.schema.shape())
    place = {name: i for i, name in enumerate(model.columns)}
    for record in itertools.product(*(range(size) for size in joint.shape)):
        value = 1.0
        for node in model.graph.nodes:
            value *= model.tables[node][tuple(record[place[name]] for name in model.graph.family(node))]
        joint[record] = value
    return joint
