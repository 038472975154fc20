"""Bayesian networks from releases, over a graph that is given."""

from __future__ import annotations

import contextlib
import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ...budget import check_whole
from ...errors import Infeasible, InvalidArgument, MissingExtra, discreet
from ...estimation import Method
from ...estimation.network import estimate_network
from ...numerics import as_array
from ...numerics.factors import MAX_CELLS, Factor, eliminate, largest_table
from ...schema import Schema
from ..document import NUMBERS, SCHEMA, TEXTS, guarantee_schema, object_schema, reading_body, release_schema
from ..guarantee import Guarantee
from ..model import ModelOfReleases, Predictor, cell_places, check_codes, distinct_rows
from ..records import IntArray, RowDraws, draw_given, possible_records, possible_shares
from ..release import FloatArray, Release
from ..sections import Bars, Diagram, Section, Table, View, conditional_section, cut, mutual_information, nats
from .graph import Graph, write_network

_SHOWN = 8
"""Marginals in a report."""
_DETAILS = 3
"""Conditional tables there."""


@dataclass(frozen=True, kw_only=True, eq=False)
class BayesianNetworkModel(ModelOfReleases, Predictor):
    """A Bayesian network whose every number was released or computed from what was released.

    Args:
        graph: the structure.
        schema: of the nodes, in the order of the columns of codes.
        releases: all tables, under one guarantee.
        tables: P(node | parents) by node, parents on the first axes in the order of the graph.
    """

    kind: ClassVar[str] = "bayesian-network"

    graph: Graph
    schema: Schema
    releases: tuple[Release, ...]
    tables: Mapping[str, FloatArray]

    def __post_init__(self) -> None:
        for node in self.graph.nodes:
            table = self.tables.get(node)
            shape = self.schema.shape(self.graph.family(node))
            if table is None or table.shape != shape:
                raise InvalidArgument("tables", f"of the shape {shape} for {node!r}")
            if not (np.isfinite(table).all() and (table >= 0).all() and np.allclose(table.sum(axis=-1), 1, atol=1e-9)):
                raise InvalidArgument("tables", f"distributions in every row for {node!r}")
            table.setflags(write=False)
        super().__post_init__()
        drawn = {release.columns: release for release in self.releases}
        for node in self.graph.nodes:
            if self.graph.family(node) not in drawn:
                raise InvalidArgument("releases", f"with the table of {node!r} and its parents")
        for release in self.releases:
            if release.schema != self.schema.select(release.columns):
                raise InvalidArgument("releases", "with the schema of the network", got=release.columns)

    @classmethod
    def from_releases(cls, graph: Graph, schema: Schema, releases: Sequence[Release]) -> BayesianNetworkModel:
        """Estimate all conditional tables from the releases, at no further budget.

        The method of the releases decides: "posterior-mean" uses all tables together; every other method takes each
        family's table alone and normalises its rows.
        """
        graph.check_columns(schema)
        schema = schema.select([name for name in schema.names if name in graph.nodes])
        by_columns = {release.columns: release for release in releases}
        absent = [node for node in graph.nodes if graph.family(node) not in by_columns]
        if absent:
            raise InvalidArgument("releases", f"with the table of {absent[0]!r} and its parents")
        if _method(releases) == "posterior-mean":
            noisy = {columns: release.noisy for columns, release in by_columns.items()}
            places = {column.name: found for column in schema if (found := cell_places(column)) is not None}
            tables = possible_tables(graph, schema, estimate_network(graph.families, noisy, places))
        else:
            tables = {}
            for node in graph.nodes:
                joint = by_columns[graph.family(node)].probabilities
                tables[node] = _rows(joint)
        return cls(graph=graph, schema=schema, releases=tuple(releases), tables=tables)

    # -- what it says -----------------------------------------------------------------------------------------

    @property
    def columns(self) -> tuple[str, ...]:
        """The nodes, in the order of the columns of codes."""
        return self.schema.names

    def __repr__(self) -> str:
        mark = "" if self.private else ", NOT PRIVATE"
        return f"BayesianNetworkModel({len(self.columns)} nodes, {len(self.graph.edges)} edges{mark})"

    @property
    def title(self) -> str:
        """Of its report."""
        return f"A Bayesian network over {len(self.columns)} columns"

    def sections(self, view: View) -> list[Section]:
        """Each column with its parents and what they say, and some marginals; or P(column | parents)."""
        if view.column is not None:
            column = view.column
            if column not in self.tables:
                raise InvalidArgument("column", "a node of the network", got=column)
            parents = self.graph.parents(column)
            bounds = self._bounds(column, parents, view.level)
            return [conditional_section(column, parents, self.tables[column], self.schema, view.most, bounds)]
        rows = [
            [node, ", ".join(parents) or "–", f"{self.tables[node].size:,}", nats(self.information[node])]
            for node, parents in self.graph.families
        ]
        known = {node: value for node, value in self.information.items() if not math.isnan(value)}
        gains = dict(sorted(known.items(), key=lambda item: -item[1]))
        told = Bars(
            labels=list(gains),
            values=list(gains.values()),
            title="Information shared with the parents",
            unit="nats",
            cells=30,
        )
        graph = Diagram(nodes=list(self.graph.nodes), edges=list(self.graph.edges), title="The graph")
        marginals = []
        for node in self.graph.nodes[:_SHOWN]:
            with contextlib.suppress(Infeasible):  # exact inference has its limits
                bounds = self._bounds(node, (), view.level)
                bars = Bars(
                    labels=self.schema[node].labels,
                    values=self.marginal([node]),
                    lower=None if bounds is None else bounds[0],
                    upper=None if bounds is None else bounds[1],
                    title=f"P({node})",
                    cells=20,
                )
                marginals.append((bars, f"P({node})"))
        return [
            Section(
                heading=f"{len(rows)} columns, {len(self.graph.edges)} edges",
                table=Table(
                    columns=["column", "parents", "cells", "information from the parents, nats"],
                    rows=rows[: view.most],
                    note="In the published model.",
                ),
                figures=[
                    (graph, "The graph of the network: arrows go from parents to children"),
                    (told, "Mutual information of each column with its parents"),
                ],
            ),
            Section(
                heading="Marginals",
                figures=marginals,
                text=[
                    f"Computed from the published tables{cut(len(marginals), len(rows))}. "
                    f"Intervals of {view.level:.0%} are about the population, by noise and sampling."
                ],
            ),
        ]

    @property
    def details(self) -> Sequence[str]:
        """The columns that their parents say most about."""
        known = {node: value for node, value in self.information.items() if self.graph.parents(node) and value > 0}
        return sorted(known, key=lambda node: -known[node])[:_DETAILS]

    def data(self, view: View) -> dict[str, Any]:  # noqa: ARG002  # it has no intervals
        """The conditional tables, with what the parents say."""
        return {
            "nodes": {
                node: {
                    "parents": list(parents),
                    "information": None if math.isnan(self.information[node]) else self.information[node],
                    "table": self.tables[node].tolist(),
                }
                for node, parents in self.graph.families
            }
        }

    @cached_property
    def information(self) -> dict[str, float]:
        """Mutual information of each column with its parents in the model, in nats, in the order of the graph.

        NaN where parents are too many for exact inference.
        """
        gained = {}
        for node, parents in self.graph.families:
            try:
                weights = self.marginal(parents).ravel() if parents else np.ones(1)
            except Infeasible:
                gained[node] = math.nan
                continue
            gained[node] = mutual_information(weights, self.tables[node].reshape(weights.size, -1))
        return gained

    @property
    def families(self) -> Sequence[tuple[str, tuple[str, ...]]]:
        """Each node with its parents."""
        return self.graph.families

    def conditional(self, node: str) -> FloatArray:
        """P(node | parents), parents first."""
        return self.tables[node]

    # -- likelihood and inference ---------------------------------------------------------------------------------

    @cached_property
    def _logs(self) -> dict[str, FloatArray]:
        with np.errstate(divide="ignore"):
            return {node: np.log(table) for node, table in self.tables.items()}

    @discreet
    def log_likelihoods(self, codes: Any) -> FloatArray:
        """ln P(row) for each row of cell numbers: rows × columns, or one array for each column by name."""
        found = check_codes(codes, self.schema, self.columns)
        total = np.zeros(len(found[self.columns[0]]))
        for node in self.graph.nodes:
            total += self._logs[node][tuple(found[name] for name in self.graph.family(node))]
        return total

    @discreet
    def log_likelihood(self, codes: Any) -> float:
        """ln P of all rows together."""
        return math.fsum(self.log_likelihoods(codes))

    @discreet
    def marginal(self, columns: Sequence[str], evidence: Mapping[str, int] | None = None) -> FloatArray:
        """The joint distribution of some columns, given the cell numbers of others; exact."""
        given = {name: np.array([check_whole("evidence", code, at_least=0)]) for name, code in (evidence or {}).items()}
        wanted = self._check_wanted(columns, given)
        given = check_codes(given, self.schema, tuple(given))
        return np.asarray(self._posterior(wanted, given, 1)[0])

    @discreet
    def predict(self, variable: str, evidence: Any) -> FloatArray:
        """P(variable | evidence) for each row, rows × cells; exact.

        Args:
            variable: the column to predict.
            evidence: cell numbers of other columns by name, arrays of one length; or rows × all columns of the
                model, of which that of the variable is ignored. Columns left out are summed over.
        """
        if not isinstance(evidence, Mapping):
            names = self.columns
            array = as_array(evidence, "evidence")
            if array.ndim != 2 or array.shape[1] != len(names):
                raise InvalidArgument("evidence", f"a mapping of arrays, or rows × {len(names)} columns")
            evidence = {name: array[:, i] for i, name in enumerate(names) if name != variable}
        return self._shares(variable, evidence, refused=True)

    @discreet
    def judged(self, variable: str, evidence: Mapping[str, IntArray]) -> FloatArray:
        """`predict`, and an even distribution for rows that the model says cannot be."""
        return self._shares(variable, evidence, refused=False)

    def _shares(self, variable: str, evidence: Mapping[str, Any], *, refused: bool) -> FloatArray:
        (variable,) = self._check_wanted([variable], evidence)
        given = check_codes(evidence, self.schema, tuple(evidence))
        if not given:
            raise InvalidArgument("evidence", "codes of at least one column", hint="Use marginal for none.")
        relevant = self._relevant(variable, tuple(given))
        if not relevant:
            size = len(next(iter(given.values())))
            alone = np.repeat(self._posterior((variable,), {}, 1), size, axis=0)
            return possible_shares(self.schema, variable, given, alone)
        distinct, inverse = distinct_rows([given[name] for name in relevant])
        rows = {name: distinct[:, i] for i, name in enumerate(relevant)}
        cells = largest_table(self._free_axes(variable, relevant), self._sizes, (variable,))
        block = max(1, MAX_CELLS // (4 * cells))
        parts = [
            self._posterior(
                (variable,), {n: c[i : i + block] for n, c in rows.items()}, len(distinct[i : i + block]), refused
            )
            for i in range(0, len(distinct), block)
        ]
        return possible_shares(self.schema, variable, given, np.concatenate(parts)[inverse])

    @discreet
    def predict_some(self, variable: str, evidence: Mapping[str, IntArray], rows: int) -> FloatArray:
        """P(variable | evidence), which may be of no column at all."""
        rows = check_whole("rows", rows, at_least=0)
        return self.predict(variable, evidence) if evidence else np.tile(self.marginal([variable]), (rows, 1))

    def _posterior(
        self, wanted: tuple[str, ...], given: Mapping[str, IntArray], rows: int, refused: bool = True
    ) -> FloatArray:
        factors = [
            Factor(self.graph.family(node), self.tables[node]).at(given) for node in self._above((*wanted, *given))
        ]
        joint, _ = eliminate(factors, wanted)
        values = joint.values if joint.names != wanted else joint.values[None]
        flat = values.reshape(len(values), -1)
        sums = flat.sum(axis=1, keepdims=True)
        if refused and not (sums > 0).all():
            raise InvalidArgument("evidence", "possible in this model; some row has probability 0")
        shares = np.where(sums > 0, flat, 1.0) / np.where(sums > 0, sums, flat.shape[1])
        return np.broadcast_to(shares, (rows, flat.shape[1])).reshape(rows, *self.schema.shape(wanted))

    @cached_property
    def _sizes(self) -> dict[str, int]:
        return {column.name: column.size for column in self.schema}

    def _above(self, names: Sequence[str]) -> list[str]:
        """These nodes and their ancestors; every node below sums to one and drops out."""
        kept = self.graph.ancestors(names)
        return [node for node in self.graph.nodes if node in kept]

    def _free_axes(self, variable: str, given: tuple[str, ...]) -> list[tuple[str, ...]]:
        return [
            tuple(name for name in self.graph.family(node) if name not in given)
            for node in self._above((variable, *given))
        ]

    def _relevant(self, variable: str, given: tuple[str, ...]) -> tuple[str, ...]:
        """The given columns that share a path of unobserved columns with the variable (moralised ancestors)."""
        families = [self.graph.family(node) for node in self._above((variable, *given))]
        reached, frontier = {variable}, {variable}
        while frontier:
            near = {name for family in families if frontier & set(family) for name in family} - reached
            reached |= near
            frontier = near - set(given)
        return tuple(name for name in given if name in reached)

    def _check_wanted(self, columns: Sequence[str], given: Mapping[str, Any]) -> tuple[str, ...]:
        wanted = tuple(columns)
        for name in (*wanted, *given):
            if name not in self.schema:
                raise InvalidArgument("columns", "nodes of the network", got=name)
        if not wanted or len(set(wanted)) < len(wanted) or set(wanted) & set(given):
            raise InvalidArgument("columns", "at least one, each once, and none of the evidence", got=wanted)
        return wanted

    # -- records --------------------------------------------------------------------------------------------------

    def sample_codes(self, size: int, generator: np.random.Generator) -> dict[str, IntArray]:
        """Cell numbers of synthetic records, column by column; ancestral sampling, at no further budget."""
        return possible_records(
            self.schema, check_whole("size", size, at_least=0), lambda records: self._ancestral(records, generator)
        )

    def _ancestral(self, size: int, generator: np.random.Generator) -> dict[str, IntArray]:
        drawn: dict[str, IntArray] = {}
        for node, parents in self.graph.families:
            rows = drawn[parents[0]] if parents else np.zeros(size, dtype=np.int64)
            for name in parents[1:]:
                rows = rows * self.schema[name].size + drawn[name]
            drawn[node] = self._draws[node].draw(rows, generator)
        return {name: drawn[name] for name in self.columns}

    def sample_codes_given(
        self, size: int, generator: np.random.Generator, given: Mapping[str, Sequence[int]]
    ) -> dict[str, IntArray]:
        """Cell numbers of records whose cells of some columns are among those given; exact, at no further budget."""
        drawn = draw_given(self.graph.families, self.tables, given, size, generator, self.schema)
        return {name: drawn[name] for name in self.columns}

    @cached_property
    def _draws(self) -> dict[str, RowDraws]:
        return {node: RowDraws(table) for node, table in self.tables.items()}

    # -- files ----------------------------------------------------------------------------------------------------

    def to_bif(self) -> str:
        """The network as BIF text, which other software reads."""
        labels = {column.name: column.labels for column in self.schema}
        return write_network(self.graph.families, labels, self.tables)

    def to_body(self) -> dict[str, Any]:
        """As plain data: what was released and what was estimated, so that a loaded model is the same to the bit."""
        return {
            "families": [[node, list(parents)] for node, parents in self.graph.families],
            "schema": json.loads(self.schema.to_json()),
            "guarantee": self.guarantee.to_body(),
            "releases": [without_guarantee(release.to_body()) for release in self.releases],
            "tables": {node: self.tables[node].ravel().tolist() for node in self.graph.nodes},
        }

    @classmethod
    def from_body(cls, body: dict[str, Any]) -> BayesianNetworkModel:
        """The inverse of `to_body`."""
        with reading_body("network"):
            guarantee = Guarantee.from_body(body["guarantee"])
            graph = Graph.from_parents({node: list(parents) for node, parents in body["families"]})
            schema = Schema.from_json(json.dumps(body["schema"]))
            tables = {
                node: np.array(body["tables"][node], dtype=np.float64).reshape(schema.shape(graph.family(node)))
                for node in graph.nodes
            }
            return cls(
                graph=graph,
                schema=schema,
                releases=tuple(
                    replace(Release.from_body({**release, "guarantee": body["guarantee"]}), guarantee=guarantee)
                    for release in body["releases"]
                ),
                tables=tables,
            )

    @classmethod
    def body_schema(cls) -> dict[str, Any]:
        """The JSON Schema of what `to_body` writes."""
        return object_schema(
            {
                "families": {
                    "type": "array",
                    "items": {
                        "type": "array",
                        "prefixItems": [{"type": "string"}, TEXTS],
                        "minItems": 2,
                        "maxItems": 2,
                    },
                },
                "schema": SCHEMA,
                "guarantee": guarantee_schema(),
                "releases": {"type": "array", "items": release_schema(guarantee_is_shared=True), "minItems": 1},
                "tables": {"type": "object", "additionalProperties": NUMBERS},
            }
        )


def _rows(joint: FloatArray) -> FloatArray:
    """Rows that add up to one; one without mass is uniform."""
    sums = joint.sum(axis=-1, keepdims=True)
    return np.where(sums > 0, joint / np.where(sums > 0, sums, 1.0), 1 / joint.shape[-1])


def possible_tables(graph: Graph, schema: Schema, tables: dict[str, FloatArray]) -> dict[str, FloatArray]:
    """Conditional tables without what the rules of the schema exclude."""
    for node in graph.nodes:
        excluded = schema.impossible(graph.family(node)) if schema.never else None
        if excluded is not None:
            kept = np.where(excluded, 0.0, tables[node])
            # A row of which nothing is possible belongs to parents that are not: it stays.
            tables[node] = np.where(excluded.all(axis=-1, keepdims=True), tables[node], _rows(kept))
    return tables


def without_guarantee(body: dict[str, Any]) -> dict[str, Any]:
    """All releases of a model share one guarantee, which names every table: it is written once."""
    return {key: value for key, value in body.items() if key != "guarantee"}


def _method(releases: Sequence[Release]) -> Method:
    methods = {release.method for release in releases}
    if len(methods) != 1:
        raise InvalidArgument("releases", "of one method", got=sorted(methods))
    return methods.pop()


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


__all__ = ["BayesianNetworkModel", "Graph", "to_pgmpy"]
