"""The recipe of a model of a whole table without a given graph: select, measure, estimate, and again.

One-way tables; a score for every pair against independence, and a forest; its tables, and a score for every pair
against it; tables of all families; a score for every pair against the network, and tables of the pairs that it still
misses. How the budget is spread over these steps follows from public facts and is fixed in the design; which tables are
asked for, and how a step is spread over them, follows from releases.

Proof: docs/proofs/synthesis.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from .budget import Budget, Unit
from .errors import InvalidArgument
from .estimation.network import estimate_network
from .estimation.network_tables import OverlappingTables
from .estimation.one_table import estimate
from .estimation.raking import NOT_RAKED, Raked, pair_counts, rake, stratified
from .estimation.structure import (
    Family,
    Limits,
    Shares,
    all_pairs,
    beyond_the_forest,
    favoured,
    forest,
    forest_pairs,
    forest_triples,
    more_parents,
    pool,
    rooted,
    shared_entropy,
    unexplained,
)
from .estimation.values import NoisyCounts
from .fitting import Facts, Terms
from .fitting.design import (
    MANY_RECORDS,
    Design,
    Expected,
    Further,
    Later,
    Round,
    Scores,
    Steps,
    Tabulated,
    designed,
    first_tables,
)
from .mechanisms import Gaussian
from .models.bayesian_network import BayesianNetworkModel, Graph, possible_tables
from .models.model import cell_places
from .models.query import together
from .models.release import FloatArray, Release
from .models.synthesis import Scored, SynthesisModel
from .schema import Schema
from .schema.pooled import pooled_schema

POWER = 0.3
"""Tables of one step share it in proportion to cells to this power."""
THETA, MOST_CELLS, MOST_WHOLE = 0.3, 50_000, 200_000
"""A family has at most N/(θ σ) cells, never more than the second, and before pooling never more than the third."""
RAKE_CUT = 1.5
"""Pairs whose score is below so many deviations are not raked."""
POOLED = 40
"""Columns of more cells are pooled to as many before they are crossed with others."""
LEAST_STEP = 0.02
"""A step whose share would be below is left out."""
TRIPLES_BELOW, MOST_TRIPLES = 0.012, 1 << 24
"""Below this ratio of `Shares.at` the forest is followed by scores of triples too, of at most so many cells."""
SIMULATED = 400_000
"""The most records of the model that expected counts are read off."""
NO_STEPS = "scores and tables of pairs: for so few records at this budget, single columns are all that can be learnt"

SAYS = {
    "pairs": "scores of all pairs against independence",
    "tree": "tables of the forest's edges",
    "links": "scores of all pairs against the forest",
    "families": "tables of columns with their parents",
    "misses": "scores of all pairs against the network",
    "raking": "tables of pairs that the network misses",
}
_SCORES = ("pairs", "links", "misses")


@dataclass(frozen=True, kw_only=True)
class SynthesisRecipe:
    """A model of all columns before it has seen anything.

    Args:
        schema: of the columns.
        target: a column whose relations to others count more.
        raked: whether pairs that the network misses are raked; otherwise a plain network is made.
    """

    schema: Schema
    target: str | None = None
    raked: bool = True

    def __post_init__(self) -> None:
        if self.target is not None:
            self.schema[self.target]

    @property
    def what(self) -> str:
        """For the ledger."""
        return f"synthesis of {len(self.schema)} columns"

    @property
    def tables(self) -> Tabulated:
        """One table a column; all others are chosen from releases."""
        return Tabulated(columns=tuple((name,) for name in self.schema.names), schema=self.schema)

    def design(self, facts: Facts, terms: Terms) -> Design:
        """The steps that pay at this size and budget, each with its share and maxima."""
        if not terms.is_noisy:
            raise InvalidArgument("mechanism", "one with noise: a structure is learned from noisy scores")
        if facts.total == 0:
            return designed(self.tables, facts, terms)
        ratio = self.ratio(facts, terms.budget, terms.unit)
        rounds = self._rounds(Shares.at(ratio), terms.unit, triples=ratio < TRIPLES_BELOW)
        left_out = () if rounds or len(self.schema) == 1 else (NO_STEPS,)
        if rounds and terms.mechanism == "auto":  # all that follows is Gaussian, and composes with it as one
            terms = replace(terms, mechanism="gaussian")
        return designed(self.tables, facts, terms, Later(rounds=rounds, left_out=left_out))

    def ratio(self, facts: Facts, budget: Budget | None, unit: Unit) -> float:
        """What the shares go by: the noise of a pair's score over the size that is public or guessed."""
        if budget is None:
            raise InvalidArgument(
                "budget", "given", hint="Use Budget(epsilon=, delta=) or Budget.rdp(order=, epsilon=)."
            )
        sigma = Gaussian.calibrate(budget, neighbours=unit.neighbours, rows=unit.rows).sigma
        pairs = max(1, math.comb(len(self.schema), 2))
        deviation = sigma * unit.rows * math.sqrt(pairs / 0.1 * (2 if unit.neighbours == "replace-one" else 1))
        return deviation / max(facts.size or MANY_RECORDS, 1.0)

    def _rounds(self, shares: Shares, unit: Unit, *, triples: bool) -> tuple[Round, ...]:
        """The rounds with their nominal shares, in which a sum that a record is added to costs half."""
        names = self.schema.names
        sizes = [column.size for column in self.schema]
        crossed = sorted((sizes[a] * sizes[b] for a, b in all_pairs(len(names))), reverse=True)
        if not crossed:
            return ()
        wanted = {step: getattr(shares, step) for step in SAYS}
        if not self.raked:
            wanted |= {"misses": 0.0, "raking": 0.0, "families": wanted["families"] + shares.misses + shares.raking}
        if wanted["pairs"] < LEAST_STEP or wanted["families"] < LEAST_STEP:
            return ()
        if wanted["tree"] < LEAST_STEP or wanted["links"] < LEAST_STEP:
            wanted |= {"tree": 0.0, "links": 0.0, "families": wanted["families"] + wanted["tree"] + wanted["links"]}
        if wanted["misses"] < LEAST_STEP or wanted["raking"] < LEAST_STEP:
            wanted |= {
                "misses": 0.0,
                "raking": 0.0,
                "families": wanted["families"] + wanted["misses"] + wanted["raking"],
            }
        price = 2.0 if unit.neighbours == "add-remove" else 1.0
        nominal = {step: share * (price if step in _SCORES else 1.0) for step, share in wanted.items() if share > 0}
        whole = shares.one + math.fsum(nominal.values())
        raked = max(len(names), round(shares.raked * len(names)))
        largest = max(crossed[0], min(MOST_WHOLE, math.prod(sizes)))
        most = {
            "tree": (len(names) - 1, sum(crossed[: len(names) - 1])),
            "families": (len(names), len(names) * largest),
            "raking": (raked, max(sum(crossed[:raked]), raked * max(sizes))),
        }
        number, largest = math.comb(len(names) - 1, 2), math.prod(sorted(sizes)[-3:])
        if triples and self.raked and 0 < number * largest <= MOST_TRIPLES:
            most["links"] = (len(crossed) + number, sum(crossed) + number * largest)
        made = []
        for step, share in nominal.items():
            tables, cells = most.get(step, (len(crossed), sum(crossed)))
            kind = "vector" if step in _SCORES else "tables"
            kernel = "deviation" if step in _SCORES else None
            made.append(
                Round(
                    name=step,
                    buys=((kind, share / whole),),  # type: ignore[arg-type]
                    kernel=kernel,
                    tables=tables,
                    cells=cells,
                    says=SAYS[step],
                )
            )
        return tuple(made)

    def follow(self, design: Design) -> Steps[Any]:
        """Ask for scores and tables, one step after the other, and make the model of what was released."""
        schema, releases = yield from first_tables(design)
        assert schema is not None  # with edges where there were private quantiles
        learner = _Learner(design=design, schema=schema, releases=releases, target=self.target, pooled=self.raked)
        yield from learner.learn()
        return learner.model() if self.raked else learner.network()


@dataclass(eq=False)
class _Learner:
    """What is known while a model is learned: releases alone."""

    design: Design
    schema: Schema
    releases: tuple[Release, ...]
    target: str | None
    pooled: bool
    families: list[Family] = field(init=False)
    tables: dict[int, FloatArray] = field(init=False)
    raked: Raked = field(default=NOT_RAKED)
    scored: list[Scored] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.singles = [estimate(release.noisy).probabilities.ravel() for release in self.releases]
        self.pools = self._pools() if self.pooled else {}
        self.coarse = pooled_schema(self.schema, self.pools) if self.pools else self.schema
        self.names, self.sizes = self.schema.names, [column.size for column in self.coarse]
        self.whole = [column.size for column in self.schema]
        self.places = {column.name: places for column in self.schema if (places := self._places(column)) is not None}
        self.pairs = all_pairs(len(self.names))
        self.generator = np.random.default_rng(0)  # of simulated records: it decides nothing that is private
        self.steps = {each.name: each for each in self.design.rounds}
        self.families = [(i, ()) for i in range(len(self.names))]
        self.tables = {i: self._coarse_single(i) for i in range(len(self.names))}
        self.total = OverlappingTables(self.noisy).total
        self.at = Shares.at(self._ratio()) if "pairs" in self.steps else Shares.at(math.inf)

    # -- what it knows ----------------------------------------------------------------------------------------

    def _pools(self) -> dict[str, tuple[int, ...]]:
        found = {}
        for column, shares in zip(self.schema, self.singles, strict=True):
            if column.size > POOLED:
                found[column.name] = tuple(pool(shares, cell_places(column), POOLED))
        return found

    def _places(self, column: Any) -> FloatArray | None:
        """Of the cells or pools of a column whose values have an order."""
        places = cell_places(column)
        if places is None or column.name not in self.pools:
            return places
        found = np.full(self.coarse[column.name].size, math.inf)
        np.minimum.at(found, list(self.pools[column.name]), places)
        return found

    def _coarse_single(self, i: int) -> FloatArray:
        shares = self.singles[i]
        places = self.pools.get(self.names[i])
        return shares if places is None else np.asarray(np.bincount(places, shares, minlength=self.sizes[i]))

    @property
    def noisy(self) -> dict[tuple[str, ...], NoisyCounts]:
        """All that was released, over pools; two looks at a table as one."""
        found: dict[tuple[str, ...], NoisyCounts] = {}
        for release in self.releases:
            names, known = release.columns, release.noisy
            if known.values.shape != self.coarse.shape(names):
                (name,) = names
                pools = self.sizes[self.names.index(name)]
                values: FloatArray = np.asarray(np.bincount(self.pools[name], known.values, minlength=pools))
                # The noise of a pool grows with its cells; its mean over pools stands for all.
                variance = known.variance * known.size / pools
                known = NoisyCounts(values=values, variance=variance, slope=known.slope, total=known.total)
            found[names] = known if names not in found else together(found[names], known)
        return found

    def _ratio(self) -> float:
        """The deviation of a pair's score at the clip 1 and the share 0.1 over the number of records, as released."""
        guarantee, (vector,) = self.design.guarantee, self.design.bought["pairs"]
        relation, rows = guarantee.neighbours, guarantee.rows
        share = vector.loss(relation, rows=rows).rdp(1) / guarantee.loss.rdp(1)
        expected = Expected(cells=tuple(np.ones(1) for _ in self.pairs), clip=1.0)
        deviation = math.sqrt(vector.variance) * expected.unit(vector.bound)  # type: ignore[attr-defined]
        return deviation * math.sqrt(share / 0.1) / self.total

    # -- steps ------------------------------------------------------------------------------------------------

    def learn(self) -> Steps[None]:
        """All steps of the design."""
        if not self.steps:
            return
        target = None if self.target is None else self.names.index(self.target)
        singles = [self.tables[i] for i in range(len(self.names))]
        independent = {(a, b): np.outer(singles[a], singles[b]) for a, b in self.pairs}
        scores, deviation = yield from self._scores("pairs", independent, 0.0)
        named = dict(zip(self.pairs, map(float, scores), strict=True))
        edges = forest(len(self.names), named, self.at.cut * deviation)
        self.families = rooted(len(self.names), edges, named, target)
        if "tree" in self.steps:
            yield from self._buy("tree", [self._named(each) for each in self.families if each[1]])
            yield from self._link(target)
        yield from self._buy("families", [self._named(each) for each in self.families])
        self._fit()
        if "raking" in self.steps:
            yield from self._rake(target)

    def _link(self, target: int | None) -> Steps[None]:
        """Further parents, by what the forest misses."""
        self._fit()
        pairs = forest_pairs(self.families, self.tables)
        joints: dict[tuple[int, ...], FloatArray] = {(a, b): joint for (a, b), joint in pairs.items()}
        asked = len(self.pairs)
        if self.steps["links"].tables > asked:
            joints |= forest_triples(self.families, self.tables, pairs)
        found, deviation = yield from self._scores("links", joints, 0.0)
        if len(joints) > asked:
            known = dict(zip(joints, map(float, found), strict=True))
            named, deviation = beyond_the_forest(self.families, known), math.sqrt(3) * deviation
            found = np.array([named[pair] for pair in self.pairs])
        scores = found
        (tables,) = self.design.bought["families"]
        sigma = float(tables.precision) ** -0.5 * math.sqrt(len(self.names))
        limits = Limits(
            cut=self.at.cut * deviation,
            parents=max(1, round(self.at.parents)),
            cells=min(MOST_CELLS, self.total / (THETA * sigma)),
            whole=MOST_WHOLE,
        )
        worth = dict(zip(self.pairs, map(float, favoured(scores, self.pairs, target)), strict=True))
        shared = shared_entropy(pairs, len(self.names))
        self.families = more_parents(self.families, worth, shared, self.sizes, self.whole, limits)

    def _rake(self, target: int | None) -> Steps[None]:
        """Tables of pairs that the network misses, and a factor for each."""
        records: list[Any] = []
        if all(len(above) <= 1 for _, above in self.families):
            joints, simulated = forest_pairs(self.families, self.tables), 0.0
        else:
            records = self._simulated()
            size = len(records[0])
            joints = {pair: pair_counts(records, pair, self.sizes) / size for pair in self.pairs}
            simulated = self.total / size
        scores, deviation = yield from self._scores("misses", joints, simulated)
        worth = favoured(scores, self.pairs, target)
        most = min(max(1, round(self.at.raked * len(self.names))), self.steps["raking"].tables)
        found = [self.pairs[i] for i in np.argsort(-worth, kind="stable") if scores[i] > RAKE_CUT * deviation][:most]
        if not found:  # nothing is missed that could be seen: what is known is known better
            edges = [(above[0], node) for node, above in self.families if above]
            yield from self._buy("raking", [(self.names[a], self.names[b]) for a, b in edges])
            self._fit()
            return
        yield from self._buy("raking", [(self.names[a], self.names[b]) for a, b in found], power=0.0)
        impossible = {
            (a, b): cells
            for a, b in found
            if self.coarse.never and (cells := self.coarse.impossible((self.names[a], self.names[b]))) is not None
        }
        records = records or self._simulated()
        known = OverlappingTables(self.noisy)
        self.raked = rake(records, self._simulated(), known, found, self.names, self.sizes, impossible)

    def _scores(self, step: str, joints: Mapping[Any, FloatArray], simulated: float) -> Steps[tuple[FloatArray, float]]:
        """What the records hold of each pair beyond these distributions, and the deviation of the noise."""
        cells = tuple(np.maximum(self.total * joint, 1e-9) for joint in joints.values())
        expected = Expected(cells=cells, clip=self.at.clip)
        tables = tuple(tuple(self.names[i] for i in columns) for columns in joints)
        drawn = yield Scores(round=step, parameters=expected, tables=tables, pools=self.pools)
        (vector,) = self.design.bought[step]
        unit = expected.unit(vector.bound)  # type: ignore[attr-defined]
        deviation = math.sqrt(vector.variance) * unit  # type: ignore[attr-defined]
        scores = unexplained(np.asarray(drawn) * unit, cells, self.at.clip, simulated)
        misfits = self._misfits()
        scores = scores - np.array([math.fsum(misfits[i] for i in columns) for columns in joints])
        self.scored += [
            Scored(step=step, columns=columns, score=float(score), deviation=deviation)
            for columns, score in zip(tables, scores, strict=True)
        ]
        return scores, deviation

    def _misfits(self) -> list[float]:
        """What single columns that are known by noise add to the score of each pair that they are in."""
        known, found = OverlappingTables(self.noisy), []
        for name, cells in zip(self.names, self.sizes, strict=True):
            if cells == 1:
                found.append(0.0)
                continue
            said = estimate(known.marginal([name]))
            spread, mean = said.standard_errors.ravel() * self.total, said.probabilities.ravel() * self.total
            off = np.minimum(spread**2 / (2 * np.maximum(mean, 1e-9)), self.at.clip * math.sqrt(2 / math.pi) * spread)
            found.append(float(off.sum()))
        return found

    def _buy(self, step: str, tables: Sequence[tuple[str, ...]], power: float = POWER) -> Steps[None]:
        """Tables with shares of their step by their cells; an empty step is spent on single columns."""
        wanted = ([tuple(names) for names in tables] or [(name,) for name in self.names])[: self.steps[step].tables]
        weights = {names: float(math.prod(self.coarse.shape(names))) ** power for names in wanted}
        found = yield Further(round=step, weights=weights, pools=self.pools)
        self.releases = (*self.releases, *found)

    def _named(self, family: Family) -> tuple[str, ...]:
        node, above = family
        return tuple(self.names[i] for i in (*above, node))

    # -- estimates --------------------------------------------------------------------------------------------

    def _fit(self) -> None:
        """All conditional tables of the families, from all that was released."""
        named = [(self.names[node], tuple(self.names[i] for i in above)) for node, above in self.families]
        found = estimate_network(named, self.noisy, self.places)
        found = possible_tables(self._graph(), self.coarse, found)
        self.tables = {i: found[name] for i, name in enumerate(self.names)}

    def _graph(self) -> Graph:
        return Graph.from_parents({self.names[node]: [self.names[i] for i in above] for node, above in self.families})

    def _simulated(self) -> list[Any]:
        size = int(min(SIMULATED, max(100_000, 8 * self.total)))
        return list(stratified(self.families, self.tables, size, self.generator))

    @cached_property
    def _inside(self) -> dict[str, FloatArray]:
        """The share of each cell in its pool."""
        found = {}
        for i, name in enumerate(self.names):
            if name in self.pools:
                places, shares = np.asarray(self.pools[name]), np.maximum(self.singles[i], 1e-12)
                found[name] = shares / np.bincount(places, shares)[places]
        return found

    def model(self) -> SynthesisModel:
        """What was learned."""
        return SynthesisModel(
            graph=self._graph(),
            schema=self.schema,
            releases=self.releases,
            tables={name: np.array(self.tables[i]) for i, name in enumerate(self.names)},
            factors={(self.names[a], self.names[b]): factor for (a, b), factor in self.raked.factors.items()},
            log_scale=self.raked.log_scale,
            pools=self.pools,
            inside=self._inside,
            target=self.target,
            scores=tuple(self.scored),
        )

    def network(self) -> BayesianNetworkModel:
        """The learned network alone."""
        return BayesianNetworkModel(
            graph=self._graph(),
            schema=self.schema,
            releases=self.releases,
            tables={name: np.array(self.tables[i]) for i, name in enumerate(self.names)},
        )
