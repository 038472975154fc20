"""Fitted networks as pgmpy models; the only module that imports pgmpy."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .errors import MissingExtra
from .models.bayesian_network import BayesianNetworkModel


def to_pgmpy(model: BayesianNetworkModel) -> Any:
    """A `pgmpy.models.DiscreteBayesianNetwork` with the same conditional tables; states are the schema's labels."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # pgmpy warns about its own parts when it is imported
            from pgmpy.factors.discrete import TabularCPD
            from pgmpy.models import DiscreteBayesianNetwork
    except ImportError:
        raise MissingExtra("pgmpy", "networks") from None
    network = DiscreteBayesianNetwork()
    network.add_nodes_from(model.graph.nodes)
    network.add_edges_from(model.graph.edges)
    for node, parents in model.graph.families:
        table = model.tables[node]
        network.add_cpds(
            TabularCPD(
                node,
                table.shape[-1],
                np.ascontiguousarray(table.reshape(-1, table.shape[-1]).T),
                evidence=list(parents) or None,
                evidence_card=list(table.shape[:-1]) or None,
                state_names={name: list(model.schema[name].labels) for name in (*parents, node)},
            )
        )
    network.check_model()
    return network
