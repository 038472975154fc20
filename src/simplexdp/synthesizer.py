"""`Synthesizer`: from any table and its schema to a model of all columns and synthetic records, without a graph."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .budget import Budget, BudgetWord, Neighbours, check_granted
from .errors import InvalidArgument, discreet
from .fitting import LedgerLike, Terms
from .ledger import opened
from .models.bayesian_network import Graph
from .models.certificate import Certificate
from .models.synthesis import SynthesisModel
from .planning import MechanismName
from .private.counting import Progress
from .private.counting.passes import encode_rows
from .private.door import fit
from .sampling import Entropy
from .schema import Schema, SchemaLike
from .synthesis import SynthesisRecipe
from .synthetic import Bins, synthetic_records


class Synthesizer:
    """A model of all columns of a table, learned under differential privacy, and records that are drawn from it.

    >>> import numpy as np, pyarrow as pa
    >>> from simplexdp.schema import Schema
    >>> ill = np.random.default_rng(1).random(5000) < 0.3
    >>> rows = pa.table({"ill": ill, "absent": ill})
    >>> schema = Schema.of(ill=[False, True], absent=[False, True])
    >>> made = Synthesizer(schema, epsilon=1, delta=1e-6, entropy=1).fit(rows)
    >>> made.graph.edges, made.sample(3).shape
    ((('ill', 'absent'),), (3, 2))

    Args:
        schema: declares the columns.
        epsilon: of the guarantee, when no budget is given.
        delta: of the guarantee, when no budget is given; above 0, as scores are noisy sums.
        budget: what may be spent, in place of epsilon and delta.
        target: a column that is to be predicted from the others: its relations count more.
        columns: of the schema; all by default.
        mechanism: of the tables of single columns; "auto" is Gaussian noise like all that follows, with which it
            composes as one, and the best single mechanism where nothing follows.
        neighbours: "replace-one" (the number of rows is public) or "add-remove" (it is not).
        entropy: None for the operating system's; a number makes a repeatable fit that is not private.
        ledger: a ledger or its path, charged before any value is looked at; needs `dataset`.
        dataset: the name that the ledger knows the data by.
    """

    def __init__(
        self,
        schema: SchemaLike,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        budget: Budget | BudgetWord | None = None,
        target: str | None = None,
        columns: Sequence[str] | None = None,
        mechanism: MechanismName = "auto",
        neighbours: Neighbours = "replace-one",
        entropy: Entropy | int | None = None,
        ledger: LedgerLike | str | os.PathLike[str] | None = None,
        dataset: str | None = None,
    ) -> None:
        declared = Schema.given(schema)
        if isinstance(columns, str):
            raise InvalidArgument("columns", "a list of columns of the schema", got=columns)
        self.schema = declared if columns is None else declared.select(columns)
        self.budget = check_granted(Budget(epsilon=epsilon, delta=delta) if budget is None else budget)
        self.mechanism, self.neighbours, self.entropy = mechanism, neighbours, entropy
        self.ledger, self.dataset = ledger, dataset
        self.recipe = SynthesisRecipe(schema=self.schema, target=target)
        self._model: SynthesisModel | None = None

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
    ) -> Synthesizer:
        """Charge for all steps, then count, draw and choose, step by step; see `simplexdp.count` for the sources.

        `records` is the public number of records, if the source is a stream. Under add-remove and for persons it is a
        guess from public knowledge: the budget is spread over the steps for about so many (10,000 if nothing is said).
        `threads` count, by default as many as the machine grants.
        """
        terms = Terms.of(
            self.budget,
            mechanism=self.mechanism,
            neighbours=self.neighbours,
            rows_per_person=rows_per_person,
            person=person,
            entropy=self.entropy,
            ledger=opened(self.ledger),
            dataset=self.dataset,
        )
        self._model = fit(self.recipe, source, terms, records=records, progress=progress, threads=threads)
        return self

    @property
    def model(self) -> SynthesisModel:
        """The fitted model, built from releases only: it may be published."""
        if self._model is None:
            raise InvalidArgument("synthesizer", "fitted", hint="Call fit(source) first.")
        return self._model

    @property
    def graph(self) -> Graph:
        """The learned network."""
        return self.model.graph

    @discreet
    def log_likelihood(self, rows: Any) -> float:
        """ln P of all rows together; rows come from any source that `fit` takes, in values or cell numbers."""
        return math.fsum(
            float(value)
            for codes in encode_rows(rows, self.schema, self.model.columns)
            for value in self.model.log_likelihoods(codes)
        )

    @discreet
    def predict(self, variable: str, rows: Any, *, given: Sequence[str] | None = None) -> NDArray[np.float64]:
        """P(variable | given columns) for each row, rows × cells of the variable.

        Args:
            variable: the column to predict.
            rows: any source that `fit` takes, in values or cell numbers.
            given: the columns of the rows to use; all others by default. The rest is summed over.
        """
        size = self.schema[variable].size
        names = [n for n in self.model.columns if n != variable] if given is None else list(given)
        parts = [self.model.predict(variable, codes) for codes in encode_rows(rows, self.schema, names)]
        return np.concatenate(parts) if parts else np.empty((0, size))

    def sample(
        self,
        size: int,
        *,
        bins: Bins = "auto",
        labels: bool = False,
        seed: int | None = None,
        given: Mapping[str, Any] | None = None,
    ) -> Any:
        """Synthetic records as an Arrow table, at no further budget; see `simplexdp.synthetic_records`."""
        return synthetic_records(self.model, size, bins=bins, labels=labels, seed=seed, given=given).read_all()

    def to_json(self) -> str:
        """The model with its releases as a JSON document."""
        return self.model.to_json()

    def write(self, path: str | os.PathLike[str]) -> None:
        """The same into a file, which `simplexdp.read` reads."""
        self.model.write(path)

    def certificate(self) -> Certificate:
        """What is promised for all steps together, and what each of them took."""
        return self.model.certificate()
