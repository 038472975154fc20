"""A model of a whole table whose structure was learned: a network, and one factor for each pair that it misses.

q(x) = Π P(x_i | parents) · Π ψ_ab(x_a, x_b) / Z. Long columns are modelled by pools of their cells; a cell follows its
pool alone. Every number was released or computed from what was released.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np

from ..budget import check_whole
from ..errors import Infeasible, InvalidArgument, discreet
from ..estimation.raking import stratified
from ..estimation.structure import Family
from ..numerics import as_array
from ..numerics.factors import MAX_CELLS, Factor, eliminate, largest_table
from ..schema import Schema
from ..schema.pooled import pooled_schema
from .bayesian_network import Graph, without_guarantee
from .document import NUMBERS, SCHEMA, TEXTS, guarantee_schema, object_schema, reading_body, release_schema
from .guarantee import Guarantee
from .model import Model, ModelOfReleases, Predictor, check_codes, distinct_rows
from .query import Evidence
from .records import IntArray, RowDraws, check_cells, draw_given, possible_records, possible_shares
from .release import FloatArray, Release
from .sections import Bars, Diagram, Section, Table, View, conditional_section

SPARE, LEAST_SPARE = 4, 4096
"""Records of the network for each that is kept by its weight, and the fewest that are drawn."""
_SHOWN = 20
"""Pairs in a report."""


@dataclass(frozen=True, kw_only=True)
class Scored:
    """What a step said of a pair or triple: how much the model so far misses of it.

    Args:
        step: its name.
        columns: two or three.
        score: about N times the missed information, in nats, with noise.
        deviation: of that noise.
    """

    step: str
    columns: tuple[str, ...]
    score: float
    deviation: float


@dataclass(frozen=True, kw_only=True, eq=False)
class SynthesisModel(ModelOfReleases, Predictor):
    """A distribution over all columns of a table, whose structure was chosen by releases.

    Args:
        graph: the learned network.
        schema: of the columns, in the order of the columns of codes.
        releases: all tables, under one guarantee.
        tables: P(node | parents) by node over pools, parents on the first axes in the order of the graph.
        factors: of raked pairs, over pools.
        log_scale: ln Z.
        pools: for long columns, where each cell goes.
        inside: for each of these the share of each cell in its pool.
        target: the column that the model was made to predict, if one was named.
        scores: of all pairs in each step that asked for them.
    """

    kind: ClassVar[str] = "synthesis"
    says_agreement: ClassVar[bool] = True

    graph: Graph
    schema: Schema
    releases: tuple[Release, ...]
    tables: Mapping[str, FloatArray]
    factors: Mapping[tuple[str, str], FloatArray] = field(default_factory=dict)
    log_scale: float = 0.0
    pools: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    inside: Mapping[str, FloatArray] = field(default_factory=dict)
    target: str | None = None
    scores: tuple[Scored, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        coarse = self.coarse
        for node in self.graph.nodes:
            table, shape = self.tables.get(node), coarse.shape(self.graph.family(node))
            if table is None or table.shape != shape:
                raise InvalidArgument("tables", f"of the shape {shape} for {node!r}")
            if not (np.isfinite(table).all() and (table >= 0).all() and np.allclose(table.sum(axis=-1), 1, atol=1e-9)):
                raise InvalidArgument("tables", f"distributions in every row for {node!r}")
            table.setflags(write=False)
        for pair, factor in self.factors.items():
            good = factor.shape == coarse.shape(pair) and np.isfinite(factor).all() and (factor >= 0).all()
            if len(pair) != 2 or not good:
                raise InvalidArgument("factors", f"finite and not negative, over the cells of {pair}")
        if set(self.inside) != set(self.pools) or not math.isfinite(self.log_scale):
            raise InvalidArgument("inside", "shares for each pooled column")
        for name, shares in self.inside.items():
            sums = np.bincount(self.pools[name], shares, minlength=coarse[name].size)
            if shares.shape != (self.schema[name].size,) or (shares < 0).any() or not np.allclose(sums, 1, atol=1e-9):
                raise InvalidArgument("inside", f"shares that add up to 1 in each pool of {name!r}")
        if set(self.graph.nodes) != set(self.schema.names):
            raise InvalidArgument("graph", "over all columns of the schema")

    # -- what it says -----------------------------------------------------------------------------------------

    @property
    def columns(self) -> tuple[str, ...]:
        """In the order of codes."""
        return self.schema.names

    @property
    def records(self) -> int:
        """How many records the releases speak of: the public number, or about so many."""
        return max(1, round(self._evidence.pooled.known.total))

    @cached_property
    def coarse(self) -> Schema:
        """The schema with pools in place of the cells of long columns."""
        return pooled_schema(self.schema, self.pools) if self.pools else self.schema

    def __repr__(self) -> str:
        mark = "" if self.private else ", NOT PRIVATE"
        raked = f", {len(self.factors)} raked pairs" if self.factors else ""
        return f"SynthesisModel({len(self.columns)} columns, {len(self.graph.edges)} edges{raked}{mark})"

    @property
    def title(self) -> str:
        """Of its report."""
        return f"A model of all {len(self.columns)} columns, learned from releases"

    @property
    def families(self) -> Sequence[tuple[str, tuple[str, ...]]]:
        """Each column with its parents."""
        return self.graph.families

    def conditional(self, node: str) -> FloatArray:
        """P(node | parents) of the network over pools, parents first; raked pairs are not in it."""
        return self.tables[node]

    @cached_property
    def _evidence(self) -> Evidence:
        return Evidence(
            cast(Model, _Coarse(self)), self.families, {tuple(pair): values for pair, values in self.factors.items()}
        )

    def sections(self, view: View) -> list[Section]:
        """The learned structure, what was bought, how well the model agrees with it, and what it cannot know."""
        if view.column is not None:
            above = self.graph.parents(view.column)
            return [conditional_section(view.column, above, self.tables[view.column], self.coarse, view.most)]
        rows = [[node, ", ".join(above) or "–", f"{self.tables[node].size:,}"] for node, above in self.families]
        graph = Diagram(nodes=list(self.graph.nodes), edges=list(self.graph.edges), title="The learned graph")
        found = [
            Section(
                heading=f"{len(rows)} columns, {len(self.graph.edges)} edges, {len(self.factors)} raked pairs",
                text=[
                    "The structure was chosen by releases. An arrow says what was measured together, not what causes."
                ],
                table=Table(columns=["column", "parents", "cells"], rows=rows[: view.most]),
                figures=[(graph, "The learned graph: arrows go from parents to children")],
            )
        ]
        if self.factors:
            strength = {
                f"{a} × {b}": float(np.abs(np.log(np.maximum(f, 1e-9))).mean()) for (a, b), f in self.factors.items()
            }
            strongest = dict(sorted(strength.items(), key=lambda item: -item[1])[:_SHOWN])
            bars = Bars(
                labels=list(strongest), values=list(strongest.values()), title="Raked pairs", unit="mean |ln ψ|"
            )
            found[0] = replace(found[0], figures=[*found[0].figures, (bars, "How far each raked pair was moved")])
        agreement = self.agreement()
        found.append(
            Section(
                heading="Agreement with what was released",
                table=Table(
                    columns=["table", "cells", "noise of a cell", "TV to the model", "TV that noise alone makes"],
                    rows=[
                        [name, f"{cells:,}", f"{noise:.3g}", f"{tv:.4f}", f"{chance:.4f}"]
                        for name, cells, noise, tv, chance in agreement[: view.most]
                    ],
                    note="Records of the model against each released table. Far above noise: the model misses it.",
                ),
            )
        )
        found.append(
            Section(
                heading="What it cannot know",
                items=[
                    "how three or more columns hang together beyond the families and raked pairs above",
                    "values that are rarer than the noise of a cell: they are drawn from what fewer columns say",
                    "anything about one person: what looks like a person in the records is none",
                ],
            )
        )
        return found

    def agreement(self, records: int = 50_000) -> list[tuple[str, int, float, float, float]]:
        """For each released table: its name, cells, noise, the TV of records to it, and the TV that noise makes."""
        records = check_whole("records", records)
        codes = self._pooled(self.sample_codes(records, np.random.default_rng(0)))
        found = []
        for release in self.releases:
            names, noisy = release.columns, release.noisy
            given = codes if release.values.shape == self.coarse.shape(names) else None
            if given is None:
                continue
            number = np.ravel_multi_index([given[name] for name in names], release.values.shape)
            drawn = np.bincount(number, minlength=noisy.size) / records
            total = noisy.likely_total
            noise = np.sqrt(noisy.noise_variance(drawn * total)) / total
            sampling = drawn * (1 - drawn) / records
            tv = 0.5 * float(np.abs(noisy.values.ravel() / total - drawn).sum())
            chance = 0.5 * float(np.sqrt(2 / math.pi) * np.sqrt(noise**2 + sampling).sum())
            found.append((" × ".join(names), noisy.size, noisy.scale, tv, chance))
        return found

    def data(self, view: View) -> dict[str, Any]:  # noqa: ARG002
        """The structure, the factors and the scores."""
        return {
            "nodes": {
                node: {"parents": list(above), "table": self.tables[node].tolist()} for node, above in self.families
            },
            "raked": [{"columns": list(pair), "factor": factor.tolist()} for pair, factor in self.factors.items()],
            "pooled": {name: list(places) for name, places in self.pools.items()},
            "target": self.target,
        }

    # -- likelihood and inference -----------------------------------------------------------------------------

    def _pooled(self, codes: Mapping[str, IntArray]) -> dict[str, IntArray]:
        return {
            name: np.asarray(self.pools[name])[column] if name in self.pools else column
            for name, column in codes.items()
        }

    @cached_property
    def _factors(self) -> list[Factor]:
        """All tables and factors over pools."""
        made = [Factor(self.graph.family(node), self.tables[node]) for node in self.graph.nodes]
        return [*made, *(Factor(pair, factor) for pair, factor in self.factors.items())]

    @discreet
    def log_likelihoods(self, codes: Any) -> FloatArray:
        """ln P(row) for each row of cell numbers: rows × columns, or one array for each column by name."""
        found = check_codes(codes, self.schema, self.columns)
        pooled = self._pooled(found)
        total = np.full(len(found[self.columns[0]]), -self.log_scale)
        with np.errstate(divide="ignore"):
            for factor in self._factors:
                total += np.log(factor.values)[tuple(pooled[name] for name in factor.names)]
            for name, shares in self.inside.items():
                total += np.log(shares)[found[name]]
        return total

    @discreet
    def log_likelihood(self, codes: Any) -> float:
        """ln P of all rows together."""
        return math.fsum(self.log_likelihoods(codes))

    @discreet
    def predict(self, variable: str, evidence: Any) -> FloatArray:
        """P(variable | evidence) for each row, rows × cells; exact.

        Args:
            variable: the column to predict.
            evidence: cell numbers of other columns by name, arrays of one length; or rows × all columns of the
                model, of which that of the variable is ignored. Columns left out are summed over, where that takes no
                table that is too large.
        """
        if not isinstance(evidence, Mapping):
            array = as_array(evidence, "evidence")
            if array.ndim != 2 or array.shape[1] != len(self.columns):
                raise InvalidArgument("evidence", f"a mapping of arrays, or rows × {len(self.columns)} columns")
            evidence = {name: array[:, i] for i, name in enumerate(self.columns) if name != variable}
        unknown = [name for name in (variable, *evidence) if name not in self.schema]
        if unknown or variable in evidence or not evidence:
            raise InvalidArgument("evidence", "codes of other columns of the model", got=unknown or variable)
        given = check_codes(evidence, self.schema, tuple(evidence))
        pooled = self._pooled(given)
        known = tuple(pooled)
        if set(known) | {variable} == set(self.columns):
            touched = [factor for factor in self._factors if variable in factor.names]
            known = tuple(name for name in known if any(name in factor.names for factor in touched))
        else:
            touched = self._factors
        if known:
            distinct, inverse = distinct_rows([pooled[name] for name in known])
        else:
            distinct, inverse = (
                np.zeros((1, 0), dtype=np.int64),
                np.zeros(len(next(iter(given.values()))), dtype=np.int64),
            )
        sizes = {column.name: column.size for column in self.coarse}
        free = [tuple(name for name in factor.names if name not in known) for factor in touched]
        block = max(1, MAX_CELLS // (4 * largest_table([(variable,), *free], sizes, (variable,))))
        parts = []
        for first in range(0, len(distinct), block):
            rows = {name: distinct[first : first + block, i] for i, name in enumerate(known)}
            parts.append(self._shares(variable, touched, rows, len(distinct[first : first + block])))
        shares = np.concatenate(parts)[inverse]
        if variable in self.pools:
            shares = shares[:, list(self.pools[variable])] * self.inside[variable]
        return possible_shares(self.schema, variable, given, shares)

    def _shares(
        self, variable: str, touched: Sequence[Factor], rows: Mapping[str, IntArray], number: int
    ) -> FloatArray:
        try:
            joint, _ = eliminate([factor.at(rows) for factor in touched], (variable,))
        except Infeasible:
            raise Infeasible(
                "summing over the columns that are not given takes too large a table. Give more columns, or draw "
                "records with these values."
            ) from None
        values = joint.values if joint.names != (variable,) else joint.values[None]
        flat = values.reshape(len(values), -1)
        sums = flat.sum(axis=1, keepdims=True)
        even = np.full_like(flat, 1 / flat.shape[1])
        shares = np.where(sums > 0, flat / np.where(sums > 0, sums, 1.0), even)
        return np.broadcast_to(shares, (number, flat.shape[1]))

    @discreet
    def predict_some(self, variable: str, evidence: Mapping[str, IntArray], rows: int) -> FloatArray:
        """P(variable | evidence), which may be of no column at all."""
        rows = check_whole("rows", rows, at_least=0)
        return self.predict(variable, evidence) if evidence else np.tile(self.marginal([variable]), (rows, 1))

    @discreet
    def marginal(self, columns: Sequence[str]) -> FloatArray:
        """The joint distribution of some columns, exact where no table is too large for that."""
        wanted = tuple(self.schema.select(columns).names)
        joint, _ = eliminate(self._factors, wanted)
        values = joint.values / joint.values.sum()
        for axis, name in enumerate(wanted):
            if name in self.pools:
                shape = [-1 if i == axis else 1 for i in range(len(wanted))]
                values = np.take(values, self.pools[name], axis=axis) * self.inside[name].reshape(shape)
        return np.asarray(values)

    # -- records ----------------------------------------------------------------------------------------------

    def sample_codes(self, size: int, generator: np.random.Generator) -> dict[str, IntArray]:
        """Cell numbers of synthetic records, column by column, at no further budget.

        Records of the network are kept by their weights (systematic resampling).
        """
        return possible_records(
            self.schema, check_whole("size", size, at_least=0), lambda records: self._weighted(records, generator)
        )

    def _weighted(self, size: int, generator: np.random.Generator) -> dict[str, IntArray]:
        number = {name: i for i, name in enumerate(self.columns)}
        families: list[Family] = [(number[n], tuple(number[p] for p in above)) for n, above in self.families]
        tables = {number[node]: table for node, table in self.tables.items()}
        spare = max(SPARE * size, LEAST_SPARE) if self.factors else size
        drawn = stratified(families, tables, spare, generator)
        codes = {name: drawn[i].astype(np.int64) for name, i in number.items()}
        if self.factors:
            kept = _resampled(self._log_weights(codes), size, generator)
            codes = {name: column[kept] for name, column in codes.items()}
        return self._cells(codes, generator)

    def _log_weights(self, codes: Mapping[str, IntArray]) -> FloatArray:
        found = np.zeros(len(codes[self.columns[0]]))
        with np.errstate(divide="ignore"):
            for (a, b), factor in self.factors.items():
                found += np.log(factor)[codes[a], codes[b]]
        return found

    def _cells(self, codes: Mapping[str, IntArray], generator: np.random.Generator) -> dict[str, IntArray]:
        """A cell in each pool."""
        found = dict(codes)
        for name, shares in self.inside.items():
            pools, cells = self.coarse[name].size, len(shares)
            table = np.zeros((pools, cells))
            table[list(self.pools[name]), np.arange(cells)] = shares
            found[name] = RowDraws(table).draw(codes[name], generator)
        return {name: found[name] for name in self.columns}

    def sample_codes_given(
        self, size: int, generator: np.random.Generator, given: Mapping[str, Sequence[int]]
    ) -> dict[str, IntArray]:
        """Cell numbers of records whose cells of some columns are among those given, by their weights."""
        size = check_whole("size", size, at_least=0)
        allowed = {name: check_cells(name, cells, self.schema[name].size) for name, cells in given.items()}
        coarse = {
            name: sorted({self.pools[name][cell] for cell in cells}) if name in self.pools else list(cells)
            for name, cells in allowed.items()
        }
        limited = replace(self, inside={name: self._inside(name, allowed.get(name)) for name in self.pools})

        def draw(records: int) -> dict[str, IntArray]:
            spare = max(SPARE * records, LEAST_SPARE)
            codes = draw_given(self.graph.families, self.tables, coarse, spare, generator)
            weights = self._log_weights(codes)
            with np.errstate(divide="ignore"):
                for name in set(self.pools) & set(allowed):
                    mass = np.bincount(
                        np.asarray(self.pools[name])[allowed[name]],
                        self.inside[name][allowed[name]],
                        minlength=self.coarse[name].size,
                    )
                    weights = weights + np.log(mass)[codes[name]]
            kept = _resampled(weights, records, generator)
            return limited._cells({name: codes[name][kept] for name in self.columns}, generator)

        return possible_records(self.schema, size, draw)

    def _inside(self, name: str, cells: Sequence[int] | None) -> FloatArray:
        """The shares of cells in their pools, of the allowed cells alone where a pool has any with mass."""
        shares = self.inside[name]
        if cells is None:
            return shares
        kept = np.zeros_like(shares)
        kept[list(cells)] = shares[list(cells)]
        places = np.asarray(self.pools[name])
        sums = np.bincount(places, kept)[places]
        return np.where(sums > 0, kept / np.where(sums > 0, sums, 1.0), shares)

    # -- files --------------------------------------------------------------------------------------------------

    def to_body(self) -> dict[str, Any]:
        """As plain data: what was released and what was estimated, so that a loaded model is the same to the bit."""
        return {
            "families": [[node, list(parents)] for node, parents in self.graph.families],
            "schema": json.loads(self.schema.to_json()),
            "guarantee": self.guarantee.to_body(),
            "releases": [without_guarantee(release.to_body()) for release in self.releases],
            "tables": {node: self.tables[node].ravel().tolist() for node in self.graph.nodes},
            "factors": [[list(pair), factor.ravel().tolist()] for pair, factor in self.factors.items()],
            "log_scale": self.log_scale,
            "pools": {name: list(places) for name, places in self.pools.items()},
            "inside": {name: shares.tolist() for name, shares in self.inside.items()},
            "target": self.target,
            "scores": [[each.step, list(each.columns), each.score, each.deviation] for each in self.scores],
        }

    @classmethod
    def from_body(cls, body: dict[str, Any]) -> SynthesisModel:
        """The inverse of `to_body`."""
        with reading_body("synthesis model"):
            guarantee = Guarantee.from_body(body["guarantee"])
            graph = Graph.from_parents({node: list(parents) for node, parents in body["families"]})
            schema = Schema.from_json(json.dumps(body["schema"]))
            pools = {
                name: tuple(check_whole("pools", each, at_least=0) for each in places)
                for name, places in body["pools"].items()
            }
            coarse = pooled_schema(schema, pools)
            return cls(
                graph=graph,
                schema=schema,
                releases=tuple(
                    replace(Release.from_body({**release, "guarantee": body["guarantee"]}), guarantee=guarantee)
                    for release in body["releases"]
                ),
                tables={
                    node: np.array(body["tables"][node], dtype=np.float64).reshape(coarse.shape(graph.family(node)))
                    for node in graph.nodes
                },
                factors={
                    (a, b): np.array(values, dtype=np.float64).reshape(coarse.shape((a, b)))
                    for (a, b), values in body["factors"]
                },
                log_scale=float(body["log_scale"]),
                pools=pools,
                inside={name: np.array(shares, dtype=np.float64) for name, shares in body["inside"].items()},
                target=body["target"],
                scores=tuple(
                    Scored(step=step, columns=tuple(columns), score=float(score), deviation=float(deviation))
                    for step, columns, score, deviation in body["scores"]
                ),
            )

    @classmethod
    def body_schema(cls) -> dict[str, Any]:
        """The JSON Schema of what `to_body` writes."""

        def rows(*items: dict[str, Any]) -> dict[str, Any]:
            row = {"type": "array", "prefixItems": list(items), "minItems": len(items), "maxItems": len(items)}
            return {"type": "array", "items": row}

        text, number = {"type": "string"}, {"type": "number"}
        return object_schema(
            {
                "families": rows(text, TEXTS),
                "schema": SCHEMA,
                "guarantee": guarantee_schema(),
                "releases": {"type": "array", "items": release_schema(guarantee_is_shared=True), "minItems": 1},
                "tables": {"type": "object", "additionalProperties": NUMBERS},
                "factors": rows(TEXTS, NUMBERS),
                "log_scale": number,
                "pools": {"type": "object", "additionalProperties": NUMBERS},
                "inside": {"type": "object", "additionalProperties": NUMBERS},
                "target": {"type": ["string", "null"]},
                "scores": rows(text, TEXTS, number, number),
            }
        )


@dataclass(frozen=True)
class _Coarse:
    """A model as questions see it: over pools, where a column has some together with others."""

    model: SynthesisModel
    voices: ClassVar[str] = ""

    @property
    def releases(self) -> tuple[Release, ...]:
        """Those over the pooled schema."""
        coarse = self.model.coarse
        found = tuple(each for each in self.model.releases if each.values.shape == coarse.shape(each.columns))
        missing = {name for name in coarse.names if not any(name in each.columns for each in found)}
        return (*found, *(each for each in self.model.releases if set(each.columns) & missing))

    @property
    def guarantee(self) -> Guarantee:
        """Of the model."""
        return self.model.guarantee

    @property
    def schema(self) -> Schema:
        """With pools."""
        return self.model.coarse

    def conditional(self, node: str) -> FloatArray:
        """Of the model."""
        return self.model.conditional(node)


def _resampled(log_weights: FloatArray, size: int, generator: np.random.Generator) -> IntArray:
    """Places of so many records in proportion to their weights, in a random order."""
    top = float(log_weights.max()) if log_weights.size else -math.inf
    if not math.isfinite(top):
        raise Infeasible("The model gives no mass to such records.")
    sums = np.cumsum(np.exp(log_weights - top))
    at = np.searchsorted(sums / sums[-1], (np.arange(size) + generator.random()) / max(size, 1), side="right")
    found: IntArray = np.minimum(at, len(log_weights) - 1).astype(np.int64)
    return generator.permutation(found)
