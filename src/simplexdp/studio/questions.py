"""What can be asked: each kind of question as a recipe, in words, as a command line and as a Python script."""

from __future__ import annotations

import csv
import io
import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ..errors import InvalidArgument
from ..fitting.design import Recipe, Tabulated
from ..models.bayesian_network import Graph
from ..naive_bayes import NaiveBayesRecipe
from ..network import LEARN, NetworkRecipe
from ..pipeline import ALL_TABLES, CrossTablesRecipe, DistributionRecipe, wanted_tables
from ..private.counting import check_names
from ..schema import Categories, Schema
from ..synthesis import SynthesisRecipe

MOST_NAMED = 6
"""Names of columns in a sentence."""


@dataclass(frozen=True, kw_only=True)
class Question(ABC):
    """One thing that can be published."""

    kind: ClassVar[str]
    title: ClassVar[str]
    says: ClassVar[str]
    fits: ClassVar[bool] = False
    """Whether a script makes an object first, and fits it then."""

    @classmethod
    @abstractmethod
    def of(cls, said: Mapping[str, Any]) -> Question:
        """From plain data."""

    @abstractmethod
    def to_body(self) -> dict[str, Any]:
        """As plain data."""

    def prepared(self, schema: Schema) -> Schema:
        """The schema as this question needs it."""
        return schema

    @abstractmethod
    def recipe(self, schema: Schema, person: str | None) -> Recipe[Any]:
        """The recipe, after all of the question is checked."""

    @abstractmethod
    def words(self, schema: Schema) -> str:
        """What would be published, as the end of a sentence."""

    @abstractmethod
    def command(self) -> list[str]:
        """The words of the command line after `simplexdp`."""

    def outputs(self, out: str) -> list[str]:
        """The options that say where to write."""
        return ["--out", out]

    @abstractmethod
    def script(self) -> tuple[str, list[str]]:
        """The function of the library that answers it, and its arguments after source and schema."""


@dataclass(frozen=True, kw_only=True)
class OneTable(Question):
    """The joint distribution of some columns."""

    columns: tuple[str, ...]
    kind: ClassVar[str] = "table"
    title: ClassVar[str] = "One table"
    says: ClassVar[str] = "How the records are distributed over the cells of one or several columns."

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> OneTable:
        """From plain data."""
        return cls(columns=_names("columns", said.get("columns")))

    def to_body(self) -> dict[str, Any]:
        """As plain data."""
        return {"kind": self.kind, "columns": list(self.columns)}

    def recipe(self, schema: Schema, person: str | None) -> Recipe[Any]:  # noqa: ARG002
        """As `release_distribution` makes it."""
        names = check_names(_known("columns", self.columns, schema))
        _check_cells("columns", [names], schema)
        return DistributionRecipe(
            tables=Tabulated(columns=(names,), schema=schema), what=f"distribution of {', '.join(names)}"
        )

    def words(self, schema: Schema) -> str:
        """What would be published."""
        cells = 1
        for size in schema.shape(self.columns):
            cells *= size
        what = "distribution" if len(self.columns) == 1 else "joint distribution"
        return f"the {what} of {listed(self.columns)}: {cells:,} noisy counts, with probabilities and intervals"

    def command(self) -> list[str]:
        """`fit distribution`."""
        return ["fit", "distribution", "--columns", joined(self.columns)]

    def script(self) -> tuple[str, list[str]]:
        """`release_distribution`."""
        return "release_distribution", [repr(list(self.columns))]


@dataclass(frozen=True, kw_only=True)
class ManyTables(Question):
    """Tables that agree with each other."""

    tables: tuple[str | tuple[str, ...], ...]
    kind: ClassVar[str] = "tables"
    title: ClassVar[str] = "Several tables"
    says: ClassVar[str] = "Many tables of the same records in agreement with each other, under one guarantee."

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> ManyTables:
        """From plain data."""
        listed_tables = said.get("tables")
        if not isinstance(listed_tables, list) or not listed_tables:
            raise InvalidArgument("tables", "at least one")
        return cls(tables=tuple(t if isinstance(t, str) else _names("tables", t) for t in listed_tables))

    def to_body(self) -> dict[str, Any]:
        """As plain data."""
        return {"kind": self.kind, "tables": [t if isinstance(t, str) else list(t) for t in self.tables]}

    def recipe(self, schema: Schema, person: str | None) -> Recipe[Any]:  # noqa: ARG002
        """As `release_tables` makes it."""
        for table in self.tables:
            if not isinstance(table, str):
                _known("tables", table, schema)
        wanted = tuple(wanted_tables(schema, list(self.tables)))
        if not wanted:
            raise InvalidArgument("tables", "at least one with so many columns")
        _check_cells("tables", wanted, schema)
        return CrossTablesRecipe(schema=schema, wanted=wanted, weights=(1.0,) * len(wanted))

    def words(self, schema: Schema) -> str:
        """What would be published."""
        wanted = wanted_tables(schema, list(self.tables))
        named = "; ".join(" × ".join(names) for names in wanted[:MOST_NAMED])
        more = f" and {len(wanted) - MOST_NAMED} more" if len(wanted) > MOST_NAMED else ""
        return f"{len(wanted)} {'table' if len(wanted) == 1 else 'tables'} that agree with each other: {named}{more}"

    def command(self) -> list[str]:
        """`fit tables`."""
        return ["fit", "tables", *(w for t in self.tables for w in ("--table", t if isinstance(t, str) else joined(t)))]

    def script(self) -> tuple[str, list[str]]:
        """`release_tables`."""
        return "release_tables", [repr(list(self.tables))]


@dataclass(frozen=True, kw_only=True)
class Classifier(Question):
    """Naive Bayes."""

    target: str
    features: tuple[str, ...]
    kind: ClassVar[str] = "classifier"
    title: ClassVar[str] = "A classifier"
    says: ClassVar[str] = "A model that predicts one column from the others (naive Bayes)."

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Classifier:
        """From plain data."""
        (target,) = _names("target", [said.get("target")])
        given = said.get("features")
        return cls(target=target, features=_names("features", given) if given else ())

    def to_body(self) -> dict[str, Any]:
        """As plain data."""
        return {"kind": self.kind, "target": self.target, "features": list(self.features)}

    def prepared(self, schema: Schema) -> Schema:
        """A class has its declared values and no others: rows with another one are refused when they are read."""
        _known("target", [self.target], schema)
        column = schema[self.target]
        if isinstance(column, Categories) and (column.has_other or column.has_missing):
            schema = schema.replace(Categories(**column.model_dump() | {"other": "refuse", "missing": "refuse"}))
        return schema

    def recipe(self, schema: Schema, person: str | None) -> Recipe[Any]:
        """As `fit_naive_bayes` makes it."""
        _known("target", [self.target], schema)
        _known("features", self.features, schema)
        return NaiveBayesRecipe.of(schema, self.target, self.features or None, person=person)

    def words(self, schema: Schema) -> str:
        """What would be published."""
        others = self.features or tuple(name for name in schema.names if name != self.target)
        return f"a naive Bayes classifier of {self.target} from {listed(others)}, with the noisy tables it is made of"

    def command(self) -> list[str]:
        """`fit nb`."""
        return ["fit", "nb", "--target", self.target, *(["--features", joined(self.features)] if self.features else [])]

    def script(self) -> tuple[str, list[str]]:
        """`fit_naive_bayes`."""
        return "fit_naive_bayes", [repr(self.target), *([repr(list(self.features))] if self.features else [])]


@dataclass(frozen=True, kw_only=True)
class Network(Question):
    """A Bayesian network with a graph that the user drew, or that is learned over all columns."""

    edges: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]
    learned: bool = False
    kind: ClassVar[str] = "network"
    title: ClassVar[str] = "A network"
    says: ClassVar[str] = "A model of all columns together, by a graph that you draw or that is learned."
    fits: ClassVar[bool] = True

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Network:
        """From plain data."""
        if said.get("learned") is True:
            return cls(edges=(), columns=(), learned=True)
        given = said.get("edges")
        if not isinstance(given, list):
            raise InvalidArgument("edges", "edges such as age -> ill")
        edges = tuple(_names("edges", edge) for edge in given)
        if any(len(edge) != 2 for edge in edges):
            raise InvalidArgument("edges", "edges such as age -> ill, one in a line")
        return cls(edges=edges, columns=_names("columns", said.get("columns")))  # type: ignore[arg-type]

    def to_body(self) -> dict[str, Any]:
        """As plain data."""
        edges = [list(edge) for edge in self.edges]
        return {"kind": self.kind, "edges": edges, "columns": list(self.columns), "learned": self.learned}

    @property
    def parents(self) -> dict[str, list[str]]:
        """Of each column."""
        found: dict[str, list[str]] = {name: [] for name in self.columns}
        for parent, child in self.edges:
            for name in (parent, child):
                if name not in found:
                    raise InvalidArgument("edges", "between columns of the network", got=name)
            found[child].append(parent)
        return found

    def recipe(self, schema: Schema, person: str | None) -> Recipe[Any]:
        """As `BayesianNetwork` makes it."""
        if self.learned:
            return SynthesisRecipe(schema=_without(schema, person), raked=False)
        _known("columns", self.columns, schema)
        graph = Graph.of(self.parents)
        graph.check_columns(schema)
        columns = schema.select([name for name in schema.names if name in graph.nodes])
        return NetworkRecipe(graph=graph, schema=columns)

    def words(self, schema: Schema) -> str:
        """What would be published."""
        if self.learned:
            return f"a Bayesian network of {listed(schema.names)} with a learned graph, with what it is made of"
        edges = f"{len(self.edges)} {'edge' if len(self.edges) == 1 else 'edges'}"
        return f"a Bayesian network of {listed(self.columns)} with {edges}, with the noisy tables it is made of"

    def command(self) -> list[str]:
        """`fit bn`."""
        if self.learned:
            return ["fit", "bn", "--graph", LEARN]
        alone = [name for name in self.columns if not any(name in edge for edge in self.edges)]
        return ["fit", "bn", "--graph", ", ".join([*(f"{a}->{b}" for a, b in self.edges), *alone])]

    def script(self) -> tuple[str, list[str]]:
        """`BayesianNetwork`."""
        return "BayesianNetwork", [repr(LEARN) if self.learned else repr(self.parents), "schema"]


@dataclass(frozen=True, kw_only=True)
class Synthetic(Question):
    """A model of all columns, for synthetic records."""

    target: str = ""
    kind: ClassVar[str] = "synthetic"
    title: ClassVar[str] = "Synthetic records"
    says: ClassVar[str] = "A model of all columns, learned without a graph, from which any number of records are drawn."
    fits: ClassVar[bool] = True

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Synthetic:
        """From plain data."""
        target = said.get("target") or ""
        if not isinstance(target, str):
            raise InvalidArgument("target", "a column")
        return cls(target=target)

    def to_body(self) -> dict[str, Any]:
        """As plain data."""
        return {"kind": self.kind, "target": self.target}

    def recipe(self, schema: Schema, person: str | None) -> Recipe[Any]:
        """As `Synthesizer` makes it."""
        if self.target:
            _known("target", [self.target], schema)
        return SynthesisRecipe(schema=_without(schema, person), target=self.target or None)

    def words(self, schema: Schema) -> str:
        """What would be published."""
        return f"a model of {listed(schema.names)}, with what it is made of, and synthetic records that follow it"

    def command(self) -> list[str]:
        """`synthesize`."""
        return ["synthesize", *(["--target", self.target] if self.target else [])]

    def outputs(self, out: str) -> list[str]:
        """The records and the model."""
        return ["--out", f"{out.removesuffix('.json')}.csv", "--model", out]

    def script(self) -> tuple[str, list[str]]:
        """`Synthesizer`."""
        return "Synthesizer", ["schema", *([f"target={self.target!r}"] if self.target else [])]


KINDS: dict[str, type[Question]] = {each.kind: each for each in (OneTable, ManyTables, Classifier, Network, Synthetic)}


def question_of(said: Any) -> Question:
    """The question in plain data, checked as far as that goes without a schema."""
    kind = said.get("kind") if isinstance(said, Mapping) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidArgument("kind", "one of " + ", ".join(KINDS))
    return KINDS[kind].of(said)


def joined(names: Sequence[str]) -> str:
    """Names as an option of the command line takes them.

    >>> joined(["age", "region, of birth"])
    'age,"region, of birth"'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(names)
    return text.getvalue()


def listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> listed(["age", "sex", "ill"])
    'age, sex and ill'
    """
    if len(names) > MOST_NAMED:
        return f"{len(names)} columns"
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def tables_from(text: str) -> list[str | list[str]]:
    """The tables that lines name: columns with commas between them, or one of the words for all of a kind.

    >>> tables_from("all-1-way\\nage, ill")
    ['all-1-way', ['age', 'ill']]
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return [
        line if line in ALL_TABLES else [name.strip() for name in next(csv.reader([line], skipinitialspace=True), [])]
        for line in lines
    ]


def edges_from(text: str) -> list[list[str]]:
    """The edges that lines name.

    >>> edges_from("age -> ill -> cost")
    [['age', 'ill'], ['ill', 'cost']]
    """
    found = []
    for line in text.splitlines():
        names = [name.strip() for name in line.replace("→", "->").split("->")]
        if names == [""]:
            continue
        found += [[a, b] for a, b in itertools.pairwise(names)] or [names]
    return found


def _names(field: str, given: Any) -> tuple[str, ...]:
    if not isinstance(given, list) or not given or not all(isinstance(name, str) and name for name in given):
        raise InvalidArgument(field, "at least one column" if field != "target" else "a column")
    if len(set(given)) < len(given):
        raise InvalidArgument(field, "different columns")
    return tuple(given)


def _known(field: str, names: Sequence[str], schema: Schema) -> Sequence[str]:
    unknown = [name for name in names if name not in schema]
    if unknown:
        raise InvalidArgument(field, "columns of the schema", got=unknown[0])
    return names


def _without(schema: Schema, person: str | None) -> Schema:
    """The column that names persons is no part of a model."""
    names = [name for name in schema.names if name != person]
    if not names:
        raise InvalidArgument("person", "another column than the only one of the model")
    return schema if person is None else schema.select(names)


def _check_cells(field: str, tables: Sequence[Sequence[str]], schema: Schema) -> None:
    if all(schema[name].size < 2 for names in tables for name in names):
        raise InvalidArgument(field, "columns with two or more cells")
