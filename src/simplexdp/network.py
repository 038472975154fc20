"""`BayesianNetwork`: from a graph, a schema and rows to a published network."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .budget import Budget, BudgetWord, Neighbours, check_granted, check_not_negative
from .cores import granted, in_order
from .errors import InvalidArgument, discreet
from .estimation import Method
from .estimation.network_tables import NetworkTables
from .fitting import Facts, LedgerLike, Terms, granted_budget
from .fitting.design import Design, Later, Steps, Tabulated, analysed, designed, first_tables
from .ledger import opened
from .mechanisms.base import noise_scale
from .models.bayesian_network import BayesianNetworkModel, Graph, to_pgmpy
from .models.certificate import Certificate
from .planning import Calibration, MechanismName, Split
from .private.counting import Progress, check_names
from .private.counting.passes import encode_rows
from .private.door import fit
from .sampling import Entropy
from .schema import Schema, SchemaLike
from .synthesis import SynthesisRecipe
from .synthetic import Bins, replicated_records, synthetic_records

LEARN = "learn"
"""In place of a graph."""


@dataclass(frozen=True, kw_only=True)
class SizeSummary:
    """What a fit would release, known before anything is read or spent.

    Args:
        tables: columns and number of cells of each table.
        parameters: free parameters of the network.
        bytes: memory of the counts.
    """

    tables: tuple[tuple[tuple[str, ...], int], ...]
    parameters: int
    bytes: int

    @property
    def cells(self) -> int:
        """Of all tables."""
        return sum(cells for _, cells in self.tables)

    def __str__(self) -> str:
        largest = max(self.tables, key=lambda table: table[1])
        lines = [f"{len(self.tables)} tables, {self.cells:,} cells, {self.bytes / 2**20:.3g} MiB of counts"]
        lines.append(f"{self.parameters:,} free parameters; the largest table is {' × '.join(largest[0])}:")
        lines += [f"  {cells:>10,}  {' × '.join(columns)}" for columns, cells in self.tables]
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class NetworkRecipe:
    """A network before it has seen anything.

    Args:
        graph: its structure.
        schema: of the nodes.
        split: of the budget over the tables; "auto" goes by public sizes.
        together: whether all conditional tables are learned together, from more tables than those of the families.
        wanted: columns of further tables that an analysis needs, where no family has them.
    """

    graph: Graph
    schema: Schema
    split: Split | str = "auto"
    together: bool = True
    wanted: tuple[tuple[str, ...], ...] = ()

    @property
    def what(self) -> str:
        """For the ledger."""
        return f"Bayesian network over {len(self.graph.nodes)} columns"

    @property
    def chosen(self) -> NetworkTables:
        """The tables with the groups that they were chosen for."""
        return NetworkTables.of(self.graph.families, extra=self.together, wanted=self.wanted)

    @property
    def tables(self) -> Tabulated:
        """One table a family, and those that make the estimate of all better."""
        return Tabulated(columns=tuple(check_names(names) for names in self.chosen.columns), schema=self.schema)

    def for_analysis(self, columns: Sequence[Sequence[str]]) -> NetworkRecipe:
        """The same with a table for each of these sets of columns, where no family has them all."""
        return replace(self, wanted=(*self.wanted, *analysed(columns, self.schema)))

    def design(self, facts: Facts, terms: Terms) -> Design:
        """The tables, by default with more of the budget for those that need it."""
        split = self.shares(facts.size, terms.budget) if self.split == "auto" else self.split
        return designed(self.tables, facts, terms, Later(split=split))  # type: ignore[arg-type]  # checked there

    def shares(self, total: float | None, budget: Budget | None) -> list[float]:
        """The share of the budget of each table, from the public number of records."""
        total, chosen = None if total is None else check_not_negative("total", total), self.chosen
        if budget is None or len(set(chosen.groups)) == 1:
            return [1 / len(chosen.columns)] * len(chosen.columns)
        noise = noise_scale(budget, len(self.graph.nodes))
        return chosen.weights({column.name: column.size for column in self.schema}, total, noise)

    def follow(self, design: Design) -> Steps[BayesianNetworkModel]:
        """The tables, and all conditional tables from them."""
        schema, releases = yield from first_tables(design)
        assert schema is not None  # with edges where there were private quantiles
        return BayesianNetworkModel.from_releases(self.graph, schema, releases)


class BayesianNetwork:
    """A Bayesian network with a known graph, fitted under differential privacy.

    >>> from simplexdp.schema import Schema
    >>> schema = Schema.of(rain=["no", "yes"], sprinkler=["off", "on"], wet=["no", "yes"])
    >>> network = BayesianNetwork([("rain", "sprinkler"), ("rain", "wet"), ("sprinkler", "wet")], schema)
    >>> network.size_summary().cells, len(network.size_summary().tables)
    (26, 7)

    Args:
        graph: edges (parent, child), a mapping of parents, a networkx or pgmpy graph, or the path of a BIF file; or
            "learn", which learns one over all columns of the schema, within the same budget.
        schema: declares every node.
        epsilon: of the guarantee, when no budget is given.
        delta: of the guarantee, when no budget is given.
        budget: what may be spent, in place of epsilon and delta.
        mechanism: "auto" takes the exact integer mechanism with the least noise.
        calibration: "exact", or the paper's "algorithm1".
        estimate: "posterior-mean" learns all conditional tables together; other methods take each family's table alone.
        neighbours: "replace-one" (the number of rows is public) or "add-remove" (it is not).
        split: of the budget over the tables: "auto" by public sizes, "equal", "cells", or one weight for each table.
        for_analysis: columns that are to share a released table, so that `query` and `regression` have intervals that
            hold: [("ill", "age", "smoker")]. They get a table of their own where no family has them all.
        entropy: None for the operating system's; a number makes a repeatable fit that is not private.
        ledger: a ledger or its path, charged before any value is looked at; needs `dataset`.
        dataset: the name that the ledger knows the data by.
    """

    def __init__(
        self,
        graph: Any,
        schema: SchemaLike,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        budget: Budget | BudgetWord | None = None,
        mechanism: MechanismName = "auto",
        calibration: Calibration = "exact",
        estimate: Method = "posterior-mean",
        neighbours: Neighbours = "replace-one",
        split: Split | str = "auto",
        for_analysis: Sequence[Sequence[str]] = (),
        entropy: Entropy | int | None = None,
        ledger: LedgerLike | str | os.PathLike[str] | None = None,
        dataset: str | None = None,
    ) -> None:
        schema = Schema.given(schema)
        self._learned = isinstance(graph, str) and graph == LEARN
        self._graph = Graph.of(dict.fromkeys(schema.names, ()) if self._learned else graph)
        self._graph.check_columns(schema)
        self.schema = schema.select([name for name in schema.names if name in self._graph.nodes])
        asked = Budget(epsilon=epsilon, delta=delta) if budget is None and mechanism != "none" else budget
        self.budget = check_granted(asked)
        self.mechanism, self.calibration, self.estimate = mechanism, calibration, estimate
        self.neighbours, self.split, self.entropy = neighbours, split, entropy
        self.ledger, self.dataset = ledger, dataset
        if isinstance(split, Mapping):
            raise InvalidArgument("split", "'auto', 'equal', 'cells' or one weight for each table", got="a mapping")
        together = estimate == "posterior-mean" and mechanism != "none"
        recipe = NetworkRecipe(graph=self._graph, schema=self.schema, split=split, together=together)
        self.recipe: NetworkRecipe | SynthesisRecipe = recipe.for_analysis(for_analysis)
        if self._learned:
            if split != "auto" or for_analysis or not together or calibration != "exact":
                settings = "without split, for_analysis, calibration and estimate, and with noise"
                raise InvalidArgument("graph", settings, got=LEARN)
            self.recipe = SynthesisRecipe(schema=self.schema, raked=False)
        self._model: BayesianNetworkModel | None = None

    @property
    def graph(self) -> Graph:
        """The graph: given, or learned by the fit."""
        return self.model.graph if self._learned else self._graph

    def _known(self) -> NetworkRecipe:
        if not isinstance(self.recipe, NetworkRecipe):
            raise InvalidArgument("graph", "given", got=LEARN, hint="`plan` shows what a learned one may ask for.")
        return self.recipe

    @property
    def tables(self) -> NetworkTables:
        """The tables that a fit releases, with the groups that they were chosen for."""
        return self._known().chosen

    def shares(self, total: float | None) -> list[float]:
        """The share of the budget of each table under split="auto", from the public number of records."""
        return self._known().shares(total, granted_budget(self.budget, opened(self.ledger), self.dataset))

    def size_summary(self) -> SizeSummary:
        """Tables, cells and memory, before anything is spent."""
        sizes = {column.name: column.size for column in self.schema}
        tables = tuple((names, math.prod(sizes[name] for name in names)) for names in self._known().tables.columns)
        parameters = sum(
            (sizes[node] - 1) * math.prod(sizes[name] for name in parents) for node, parents in self.graph.families
        )
        return SizeSummary(tables=tables, parameters=parameters, bytes=8 * sum(cells for _, cells in tables))

    @discreet
    def fit(
        self,
        source: Any,
        *,
        rows_per_person: int | None = None,
        person: str | None = None,
        records: int | None = None,
        progress: Progress | None = None,
        threads: int | None = None,
        many_cells: bool = False,
    ) -> BayesianNetwork:
        """Charge, count all tables in one pass, draw and estimate; see `simplexdp.count` for the sources.

        `records` is the public number of records, if the source is a stream; under add-remove and for persons a guess.
        Tables of far more cells than records are refused before that, unless `many_cells` says that they are wanted.
        `threads` count, by default as many as the machine grants.
        """
        terms = Terms.of(
            self.budget,
            mechanism=self.mechanism,
            calibration=self.calibration,
            estimate=self.estimate,
            neighbours=self.neighbours,
            rows_per_person=rows_per_person,
            person=person,
            entropy=self.entropy,
            ledger=opened(self.ledger),
            dataset=self.dataset,
            many_cells=many_cells,
        )
        self._model = fit(self.recipe, source, terms, records=records, progress=progress, threads=threads)
        return self

    @property
    def model(self) -> BayesianNetworkModel:
        """The fitted model, built from releases only: it may be published."""
        if self._model is None:
            raise InvalidArgument("network", "fitted", hint="Call fit(source) first.")
        return self._model

    @discreet
    def log_likelihood(self, rows: Any) -> float:
        """ln P of all rows together; rows come from any source that `fit` takes, in values or cell numbers."""
        threads = granted()
        blocks = encode_rows(rows, self.schema, self.model.columns, threads=threads)
        return math.fsum(
            float(value) for values in in_order(self.model.log_likelihoods, blocks, threads) for value in values
        )

    @discreet
    def predict(self, variable: str, rows: Any, *, given: Sequence[str] | None = None) -> NDArray[np.float64]:
        """P(variable | given columns) for each row, rows × cells of the variable; exact.

        Args:
            variable: the column to predict.
            rows: any source that `fit` takes, in values or cell numbers.
            given: the columns of the rows to use; all other nodes by default. The rest is summed over.
        """
        self.schema[variable]
        names = [n for n in self.model.columns if n != variable] if given is None else list(given)
        threads, model = granted(), self.model
        blocks = encode_rows(rows, self.schema, names, threads=threads)
        parts = list(in_order(lambda codes: model.predict(variable, codes), blocks, threads))
        return np.concatenate(parts) if parts else np.empty((0, self.schema[variable].size))

    def sample(
        self,
        size: int,
        *,
        bins: Bins = "auto",
        labels: bool = False,
        seed: int | None = None,
        given: Mapping[str, Any] | None = None,
        replicates: int | None = None,
    ) -> Any:
        """Synthetic records as an Arrow table, at no further budget; see `simplexdp.synthetic_records`.

        With `given`, records of people with these values; with `replicates`, a list of so many tables, each from
        another draw of what noise and sampling leave open (see `simplexdp.synthetic.replicated_records`).
        """
        if replicates is not None:
            if given is not None:
                raise InvalidArgument("given", "left out with replicates")
            return replicated_records(self.model, size, replicates, bins=bins, labels=labels, seed=seed)
        return synthetic_records(self.model, size, bins=bins, labels=labels, seed=seed, given=given).read_all()

    def to_pgmpy(self) -> Any:
        """The fitted network as a pgmpy model."""
        return to_pgmpy(self.model)

    def to_bif(self) -> str:
        """The fitted network as BIF text."""
        return self.model.to_bif()

    def to_json(self) -> str:
        """The fitted network with its releases as a JSON document."""
        return self.model.to_json()

    def certificate(self) -> Certificate:
        """What is promised for all tables together."""
        return self.model.certificate()
