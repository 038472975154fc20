"""One request of the studio as a value: where the rows are, their columns, the question, the unit and the budget.

It is what stands in the queue of the ledger, so it holds what the user said and nothing that was read.
"""

from __future__ import annotations

import json
import math
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ..budget import Budget, Unit, check_neighbours, check_number
from ..errors import FormatError, InvalidArgument, SchemaError
from ..fitting import LedgerLike
from ..ledger.registry import dataset_name
from ..models import Model
from ..numerics.printed import printed
from ..pipeline import fit_recipe
from ..private.counting import Files, Progress, Query
from ..schema import Schema
from .questions import Question, question_of

DATABASE = "SIMPLEXDP_DATABASE"
"""The variable with the address of a database, which is never written down."""
RESULTS = "releases"
"""The folder of results, below that of the studio."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where the rows are.

    Args:
        files: paths, folders or globs; relative ones start at the folder of the studio.
        sql: a SELECT in their place.
        database: whether it runs on the database of SIMPLEXDP_DATABASE.
        public_size: whether the number of rows that it gives is declared public.
    """

    files: tuple[str, ...] = ()
    sql: str = ""
    database: bool = False
    public_size: bool = False

    def __post_init__(self) -> None:
        if bool(self.files) == bool(self.sql):
            raise InvalidArgument("source", "a file, folder or glob, or else a query")
        if any("\0" in path or not path for path in self.files):
            raise InvalidArgument("source", "a path that the file system can hold")

    @classmethod
    def of(cls, said: Any) -> Source:
        """From plain data."""
        if not isinstance(said, Mapping):
            raise InvalidArgument("source", "a file, folder or glob, or else a query")
        files = said.get("files") or []
        if not isinstance(files, list) or not all(isinstance(path, str) for path in files):
            raise InvalidArgument("source", "paths")
        return cls(
            files=tuple(files),
            sql=_text("sql", said.get("sql", "")),
            database=said.get("database") is True,
            public_size=said.get("public_size") is True,
        )

    def to_body(self) -> dict[str, Any]:
        """As plain data."""
        if self.files:
            return {"files": list(self.files)}
        return {"sql": self.sql, "database": self.database, "public_size": self.public_size}

    def rows(self, folder: Path) -> Any:
        """What the library counts."""
        if self.files:
            return Files([str(folder / path) for path in self.files])
        return Query(self.sql, self.address, self.public_size)

    @property
    def address(self) -> str | None:
        """Of the database."""
        if not self.database:
            return None
        found = os.environ.get(DATABASE)
        if not found:
            raise InvalidArgument("database", f"named by the variable {DATABASE} of the studio's environment")
        return found

    @property
    def words(self) -> str:
        """For people."""
        return ", ".join(self.files) if self.files else self.sql

    def command(self) -> list[str]:
        """The words of the command line."""
        if self.files:
            return list(self.files)
        return ["--sql", self.sql, *(["--public-size"] if self.public_size else [])]

    def script(self) -> str:
        """The expression in a script."""
        if self.files:
            return f"Files({list(self.files)!r})"
        database = f", os.environ[{DATABASE!r}]" if self.database else ""
        return f"Query({self.sql!r}{database}{', public_size=True' if self.public_size else ''})"


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What is asked.

    Args:
        source: of the rows.
        dataset: the name that the ledger knows them by.
        columns: the schema as YAML.
        question: what to publish.
        unit: whose change is hidden.
        budget: what may be spent.
        records: about how many records there are, by public knowledge, where the number is not public.
    """

    source: Source
    dataset: str
    columns: str
    question: Question
    unit: Unit
    budget: Budget
    records: int | None = None

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Spec:
        """From plain data, such as the queue holds."""
        try:
            return cls(
                source=Source.of(said["source"]),
                dataset=dataset_name(said["dataset"]),
                columns=_text("schema", said["schema"]),
                question=question_of(said["question"]),
                unit=unit_of(said["unit"]),
                budget=budget_of(said["budget"]),
                records=said.get("records"),
            )
        except (KeyError, TypeError, AttributeError):
            raise FormatError("the request is incomplete") from None

    def to_body(self) -> dict[str, Any]:
        """As plain data."""
        unit = {"neighbours": self.unit.neighbours, "person": self.unit.person}
        return {
            "source": self.source.to_body(),
            "dataset": self.dataset,
            "schema": self.columns,
            "question": self.question.to_body(),
            "unit": {**unit, "rows_per_person": self.unit.rows_per_person},
            "budget": {"epsilon": self.budget.epsilon, "delta": self.budget.delta},
            "records": self.records,
        }

    @cached_property
    def schema(self) -> Schema:
        """The columns."""
        return self.question.prepared(Schema.from_yaml(self.columns))

    @cached_property
    def recipe(self) -> Any:
        """The recipe; refuses a question that the columns cannot answer."""
        return self.question.recipe(self.schema, self.unit.person)

    @property
    def description(self) -> str:
        """For the ledger, in words that are public."""
        return str(getattr(self.recipe, "what", self.question.title))

    def fit(self, folder: Path, ledger: LedgerLike, progress: Progress | None = None) -> Model:
        """Carry it out; the ledger is charged before any value is looked at."""
        unit = self.unit
        found: Model = fit_recipe(
            self.recipe,
            self.source.rows(folder),
            budget=self.budget,
            records=self.records,
            progress=progress,
            ledger=ledger,
            dataset=self.dataset,
            neighbours=unit.neighbours,
            rows_per_person=unit.rows_per_person,
            person=unit.person,
        )
        return found

    # -- the same without the studio ----------------------------------------------------------------------------------

    def command(self, schema: str, ledger: str, out: str) -> str:
        """The command line that asks the same."""
        unit, budget = self.unit, self.budget
        words = ["simplexdp", *self.question.command(), *self.source.command(), "--schema", schema]
        words += ["--epsilon", repr(budget.epsilon), "--delta", repr(budget.delta)]
        words += ["--neighbours", unit.neighbours]
        if unit.person is not None:
            words += ["--person", unit.person]
        if unit.rows_per_person is not None:
            words += ["--rows-per-person", str(unit.rows_per_person)]
        if self.records is not None:
            words += ["--records", str(self.records)]
        words += ["--ledger", ledger, "--dataset", self.dataset, *self.question.outputs(out)]
        return shlex.join(words)

    def script(self, schema: str, ledger: str, out: str) -> str:
        """The Python script that asks the same."""
        unit, budget = self.unit, self.budget
        said = [f"budget=Budget(epsilon={budget.epsilon!r}, delta={budget.delta!r})"]
        said += [f"neighbours={unit.neighbours!r}", f"ledger={ledger!r}", f"dataset={self.dataset!r}"]
        rows = [] if unit.person is None else [f"person={unit.person!r}"]
        rows += [] if unit.rows_per_person is None else [f"rows_per_person={unit.rows_per_person}"]
        rows += [] if self.records is None else [f"records={self.records}"]
        function, arguments = self.question.script()
        names = sorted({"Budget", "Schema", "Files" if self.source.files else "Query", function}, key=str.lower)
        lines = ["import os\n"] if self.source.database else []
        lines += [f"from simplexdp import {', '.join(names)}", "", f"source = {self.source.script()}"]
        lines.append(f"schema = Schema.read({schema!r})")
        if self.question.fits:
            lines.append(_call(f"model = {function}", [*arguments, *said]))
            lines.append(_call("model.fit", ["source", *rows]))
            lines.append("found = model.model")
        else:
            lines.append(_call(f"found = {function}", ["source", "schema", *arguments, *said, *rows]))
        lines.append(f"found.write({out!r})")
        return "\n".join(lines) + "\n"

    @property
    def sentences(self) -> tuple[str, str]:
        """What is about to be published, and what is about to be charged."""
        budget, unit = self.budget, self.unit
        whom = "row" if unit.person is None else "person"
        moved = "replaced by any other" if unit.neighbours == "replace-one" else "added or removed"
        at = "" if budget.is_pure else f" at δ = {printed(budget.delta or 0.0)}"
        return (
            f"Published: {self.question.words(self.schema)}.",
            f"Charged: at most ε = {printed(budget.epsilon)}{at} to “{self.dataset}”, for one {whom} that is {moved}.",
        )


def unit_of(said: Any) -> Unit:
    """The unit in plain data."""
    if not isinstance(said, Mapping):
        raise InvalidArgument("unit", "a unit")
    person, rows = said.get("person") or None, said.get("rows_per_person")
    if (person is None) != (rows is None):
        raise InvalidArgument("rows_per_person", "given for persons, and for them only")
    if person is not None:
        _text("person", person)
    return Unit(neighbours=check_neighbours(str(said.get("neighbours"))), person=person, rows_per_person=rows)


def budget_of(said: Any) -> Budget:
    """The budget in plain data."""
    if not isinstance(said, Mapping):
        raise InvalidArgument("epsilon", "given")
    return Budget(epsilon=said.get("epsilon"), delta=said.get("delta", 0.0))  # type: ignore[arg-type]  # checked there


def number_from(field: str, text: str) -> float:
    """The number that a field of a form holds."""
    try:
        return check_number(field, float(text.strip().replace(",", ".")))
    except ValueError as error:
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument(field, "a number") from None


def whole_from(field: str, text: str) -> int:
    """The whole number that a field of a form holds."""
    number = number_from(field, text.replace(",", "").replace(" ", ""))
    if not math.isfinite(number) or number != int(number) or abs(number) > 1 << 53:
        raise InvalidArgument(field, "a whole number")
    return int(number)


def digest_of(body: Mapping[str, Any]) -> str:
    """What tells one request from another, for a form to say which one it showed."""
    from ..ledger import fingerprint

    return fingerprint(json.loads(json.dumps(body)))


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise (SchemaError if name == "schema" else InvalidArgument)(name, "a text")
    return value


def _call(function: str, arguments: list[str]) -> str:
    return "\n".join([f"{function}(", *(f"    {each}," for each in arguments), ")"])
