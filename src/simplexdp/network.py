"""`BayesianNetwork`: from a graph, a schema and rows to a published network."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .budget import Budget, Neighbours
from .counting import Progress
from .counting.rows import encode_rows
from .drawing import LedgerLike
from .errors import InvalidArgument
from .estimation import Method
from .estimation.network_tables import NetworkTables
from .mechanisms.base import noise_scale
from .models.bayesian_network import BayesianNetworkModel
from .models.certificate import Certificate
from .models.graph import Graph
from .models.synthetic import Bins
from .pgmpy import to_pgmpy
from .pipeline import fit_tables
from .planning import Calibration, MechanismName, Split
from .sampling.entropy import Entropy
from .schema import Schema
from .synthetic import synthetic_records


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


class BayesianNetwork:
    """A Bayesian network with a known graph, fitted under differential privacy.

    >>> from simplexdp.schema import Schema
    >>> schema = Schema.of(rain=["no", "yes"], sprinkler=["off", "on"], wet=["no", "yes"])
    >>> network = BayesianNetwork([("rain", "sprinkler"), ("rain", "wet"), ("sprinkler", "wet")], schema)
    >>> network.size_summary().cells, len(network.size_summary().tables)
    (26, 7)

    Args:
        graph: edges (parent, child), a mapping of parents, a networkx or pgmpy graph, or the path of a BIF file.
        schema: declares every node.
        epsilon: of the guarantee, when no budget is given.
        delta: of the guarantee, when no budget is given.
        budget: what may be spent, in place of epsilon and delta.
        mechanism: "auto" takes the exact integer mechanism with the least noise.
        calibration: "exact", or the paper's "algorithm1".
        estimate: "posterior-mean" learns all conditional tables together; other methods take each family's table alone.
        neighbours: "replace-one" (the number of rows is public) or "add-remove" (it is not).
        split: of the budget over the tables: "auto" by public sizes, "equal", "cells", or one weight for each table.
        entropy: None for the operating system's; a number makes a repeatable fit that is not private.
        ledger: charged before the draw; needs `dataset`.
        dataset: the name that the ledger knows the data by.
    """

    def __init__(
        self,
        graph: Any,
        schema: Schema,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        budget: Budget | None = None,
        mechanism: MechanismName = "auto",
        calibration: Calibration = "exact",
        estimate: Method = "posterior-mean",
        neighbours: Neighbours = "replace-one",
        split: Split | str = "auto",
        entropy: Entropy | int | None = None,
        ledger: LedgerLike | None = None,
        dataset: str | None = None,
    ) -> None:
        self.graph = Graph.of(graph)
        self.graph.check_columns(schema)
        self.schema = schema.select([name for name in schema.names if name in self.graph.nodes])
        self.budget = Budget(epsilon=epsilon, delta=delta) if budget is None and mechanism != "none" else budget
        self.mechanism, self.calibration, self.estimate = mechanism, calibration, estimate
        self.neighbours, self.split, self.entropy = neighbours, split, entropy
        self.ledger, self.dataset = ledger, dataset
        if isinstance(split, Mapping):
            raise InvalidArgument("split", "'auto', 'equal', 'cells' or one weight for each table", got="a mapping")
        together = estimate == "posterior-mean" and mechanism != "none"
        self.tables = NetworkTables.of(self.graph.families, extra=together)
        self._model: BayesianNetworkModel | None = None

    @property
    def _sizes(self) -> dict[str, int]:
        return {column.name: column.size for column in self.schema}

    def size_summary(self) -> SizeSummary:
        """Tables, cells and memory, before anything is spent."""
        sizes = self._sizes
        tables = tuple((columns, math.prod(sizes[name] for name in columns)) for columns in self.tables.columns)
        parameters = sum(
            (sizes[node] - 1) * math.prod(sizes[name] for name in parents) for node, parents in self.graph.families
        )
        return SizeSummary(tables=tables, parameters=parameters, bytes=8 * sum(cells for _, cells in tables))

    def shares(self, total: float | None) -> list[float]:
        """The share of the budget of each table under split="auto", from the public number of records."""
        if self.budget is None or len(set(self.tables.groups)) == 1:
            return [1 / len(self.tables.columns)] * len(self.tables.columns)
        noise = noise_scale(self.budget, len(self.graph.nodes))
        return self.tables.weights(self._sizes, total, noise)

    def fit(
        self,
        source: Any,
        *,
        rows_per_person: int | None = None,
        person: str | None = None,
        progress: Progress | None = None,
    ) -> BayesianNetwork:
        """Count all tables in one pass, charge, draw and estimate; see `simplexdp.count` for the sources."""
        found = fit_tables(
            source,
            self.schema,
            self.tables.columns,
            budget=self.budget,
            mechanism=self.mechanism,
            calibration=self.calibration,
            estimate=self.estimate,
            neighbours=self.neighbours,
            split=self.shares if self.split == "auto" else self.split,  # type: ignore[arg-type]  # checked there
            entropy=self.entropy,
            rows_per_person=rows_per_person,
            person=person,
            progress=progress,
            ledger=self.ledger,
            dataset=self.dataset,
            description=f"Bayesian network over {len(self.graph.nodes)} columns",
        )
        # Private quantiles have edges by now: the releases know them.
        known = {column.name: column for release in found.releases for column in release.schema or ()}
        schema = self.schema.replace(*known.values())
        self._model = found.publish(BayesianNetworkModel.from_releases(self.graph, schema, found.releases))
        return self

    @property
    def model(self) -> BayesianNetworkModel:
        """The fitted model, built from releases only: it may be published."""
        if self._model is None:
            raise InvalidArgument("network", "fitted", hint="Call fit(source) first.")
        return self._model

    def log_likelihood(self, rows: Any) -> float:
        """ln P of all rows together; rows come from any source that `fit` takes, in values or cell numbers."""
        return math.fsum(
            float(value)
            for codes in encode_rows(rows, self.schema, self.model.columns)
            for value in self.model.log_likelihoods(codes)
        )

    def predict(self, variable: str, rows: Any, *, given: Sequence[str] | None = None) -> NDArray[np.float64]:
        """P(variable | given columns) for each row, rows × cells of the variable; exact.

        Args:
            variable: the column to predict.
            rows: any source that `fit` takes, in values or cell numbers.
            given: the columns of the rows to use; all other nodes by default. The rest is summed over.
        """
        self.schema[variable]
        names = [n for n in self.model.columns if n != variable] if given is None else list(given)
        parts = [self.model.predict(variable, codes) for codes in encode_rows(rows, self.schema, names)]
        return np.concatenate(parts) if parts else np.empty((0, self.schema[variable].size))

    def sample(self, size: int, *, bins: Bins = "uniform", labels: bool = False, seed: int | None = None) -> Any:
        """Synthetic records as an Arrow table, at no further budget; see `simplexdp.synthetic_records`."""
        return synthetic_records(self.model, size, bins=bins, labels=labels, seed=seed).read_all()

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
