"""Distributions: one table, or several, of counts or of the columns of a source.

Proof: docs/proofs/composition.md.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, TypeVar

from numpy.typing import ArrayLike

from .budget import Budget, BudgetWord, Neighbours, check_granted, check_positive
from .errors import InvalidArgument, discreet
from .estimation import Method, check_method
from .estimation.cross_tables import Columns, check_wanted, least_variance_tables
from .fitting import Facts, LedgerLike, Terms
from .fitting.design import Design, Later, Recipe, Steps, Tabulated, analysed, designed, first_tables
from .ledger import opened
from .models.release import Release
from .models.tables import TablesModel
from .planning import Calibration, MechanismName, Split
from .private.counting import Progress, check_names
from .private.door import fit, fit_given
from .private.given import CategoriesLike, given_counts
from .private.tables import CountTable
from .sampling import Entropy
from .schema import Column, Schema, SchemaLike

Made = TypeVar("Made")


@dataclass(frozen=True, kw_only=True)
class TablesRecipe:
    """Some tables, as they are.

    Args:
        tables: what is released.
        split: of the budget over them.
        what: for the ledger.
    """

    tables: Tabulated
    split: Split = "equal"
    what: str = "tables"

    def for_analysis(self, columns: Sequence[Sequence[str]]) -> TablesRecipe:
        """The same with a table for each of these sets of columns, where no table has them all."""
        schema = self.tables.schema
        if schema is None and columns:
            raise InvalidArgument("for_analysis", "left out for tables without a schema")
        tables = list(self.tables.columns)
        for names in analysed(columns, schema) if schema is not None else ():
            if not any(set(names) <= set(table) for table in tables):
                tables.append(names)
        return replace(self, tables=replace(self.tables, columns=tuple(tables))) if columns else self

    def design(self, facts: Facts, terms: Terms) -> Design:
        """The tables, with the stated split."""
        return designed(self.tables, facts, terms, Later(split=self.split))

    def follow(self, design: Design) -> Steps[Fit]:
        """The tables."""
        schema, releases = yield from first_tables(design)
        return Fit(releases=releases, schema=schema)


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Several tables under one guarantee.

    Args:
        releases: in the order of the tables.
        schema: of the source, with edges for quantiles.
    """

    releases: tuple[Release, ...]
    schema: Schema | None = None


@dataclass(frozen=True, kw_only=True)
class DistributionRecipe:
    """One table.

    Args:
        tables: the one.
        what: for the ledger.
        named: whether the release names its columns.
    """

    tables: Tabulated
    what: str = "distribution"
    named: bool = True

    def design(self, facts: Facts, terms: Terms) -> Design:
        """The table, with the whole budget."""
        return designed(self.tables, facts, terms)

    def follow(self, design: Design) -> Steps[Release]:
        """The table."""
        _, (release,) = yield from first_tables(design)
        return release if self.named else replace(release, columns=())


TableSpec = str | Sequence[str]
"""Columns of a table, or "all-1-way", "all-2-way" or "all-3-way"."""
ALL_TABLES = {"all-1-way": 1, "all-2-way": 2, "all-3-way": 3}


@dataclass(frozen=True, kw_only=True)
class CrossTablesRecipe:
    """Many tables of the same records, and margins of them that make all of them better.

    Args:
        schema: of the columns.
        wanted: the tables to publish.
        weights: what the squared error of each counts.
        split: "loss" draws the tables, and with the precision, that lose least; every other split draws the wanted
            tables as they are.
        parts: the column that says which part of the population a record is in.
    """

    schema: Schema
    wanted: tuple[Columns, ...]
    weights: tuple[float, ...]
    split: Split = "loss"
    parts: str | None = None

    @property
    def what(self) -> str:
        """For the ledger."""
        return f"{len(self.wanted)} tables over {len(self.tables.needed or ())} columns"

    @property
    def tables(self) -> Tabulated:
        """The wanted ones; what is drawn is decided by the design."""
        return Tabulated(columns=self.wanted, schema=self.schema)

    def design(self, facts: Facts, terms: Terms) -> Design:
        """What to draw, with which share of the budget each: a function of sizes alone."""
        estimated = sum(math.prod(self.schema.shape(names)) for names in self.wanted)
        if self.split != "loss":
            return designed(self.tables, facts, terms, Later(split=self.split, estimated=estimated))
        sizes = {name: self.schema[name].size for names in self.wanted for name in names}
        public = terms.unit.total_is_public
        columns, shares = least_variance_tables(self.wanted, sizes, self.weights, total_is_public=public)
        return designed(
            Tabulated(columns=columns, schema=self.schema), facts, terms, Later(split=shares, estimated=estimated)
        )

    def follow(self, design: Design) -> Steps[TablesModel]:
        """All at once, and estimates from all together."""
        schema, releases = yield from first_tables(design)
        assert schema is not None  # with edges where there were private quantiles
        return TablesModel.from_releases(schema, releases, self.wanted, self.parts)


def wanted_tables(schema: Schema, tables: TableSpec | Sequence[TableSpec], parts: str | None = None) -> list[Columns]:
    """The columns of each table that was asked for, with that of the parts in front.

    >>> from simplexdp import Schema
    >>> wanted_tables(Schema.of(age=["young", "old"], ill=["no", "yes"]), ["all-1-way", ("age", "ill")])
    [('age',), ('ill',), ('age', 'ill')]
    """
    found: dict[frozenset[str], Columns] = {}
    if parts is not None:
        schema.select([parts])
    for spec in [tables] if isinstance(tables, str) else tables:
        if isinstance(spec, str) and spec not in ALL_TABLES:
            hint = f"For one column write ({spec!r},)." if spec in schema else ""
            raise InvalidArgument(
                "tables", "tuples of columns, or " + ", ".join(map(repr, ALL_TABLES)), got=spec, hint=hint
            )
        others = [name for name in schema.names if name != parts]
        new = [check_names(spec)] if not isinstance(spec, str) else list(combinations(others, ALL_TABLES[spec]))
        for names in new:
            schema.select(names)
            whole = names if parts is None or parts in names else (parts, *names)
            if all(schema[name].size < 2 for name in whole):
                hint = "A column with one cell says nothing: name the columns of the tables without it."
                raise InvalidArgument("tables", "of two or more cells", got=whole, hint=hint)
            found.setdefault(frozenset(whole), whole)
    check_wanted(list(found.values()))
    return list(found.values())


@discreet
def release_tables(
    source: Any,
    schema: SchemaLike,
    tables: TableSpec | Sequence[TableSpec],
    *,
    budget: Budget | BudgetWord | None,
    weights: Sequence[float] | Mapping[Columns, float] | None = None,
    split: Split = "loss",
    parts: str | None = None,
    mechanism: MechanismName = "auto",
    neighbours: Neighbours = "replace-one",
    entropy: Entropy | int | None = None,
    rows_per_person: int | None = None,
    person: str | None = None,
    records: int | None = None,
    progress: Progress | None = None,
    threads: int | None = None,
    ledger: LedgerLike | str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    many_cells: bool = False,
) -> TablesModel:
    """Publish many tables of the same records in one pass, under one guarantee, in agreement with each other.

    >>> from simplexdp import Budget, CellNumbers, Schema
    >>> schema = Schema.of(sex=["f", "m"], ill=["no", "yes"])
    >>> rows = CellNumbers({"sex": [0, 1, 0, 1] * 50, "ill": [0, 1, 0, 0] * 50})
    >>> found = release_tables(rows, schema, "all-2-way", budget=Budget(epsilon=1, delta=1e-6), entropy=1)
    >>> found
    TablesModel(1 tables, 4 cells, 2 columns, NOT PRIVATE)
    >>> found.count("sex").estimate.sum().round(6)
    np.float64(200.0)

    Args:
        source: rows; see `count`.
        schema: what is public about the columns.
        tables: columns of each table; "all-1-way", "all-2-way" and "all-3-way" are the tables of so many columns.
        budget: for all of them together.
        weights: what the squared error of each table counts, in their order or by columns; 1 by default.
        split: "loss" draws those of the tables and their margins, with the precision, that make the summed squared
            error least; "equal", "cells" or one number a table draw the tables as they are.
        parts: a column which every table is given by: each part of the population has tables of its own. A record
            is in one part, so that this costs what the tables of all together cost.
        mechanism: "auto" takes the exact integer mechanism with the least noise.
        neighbours: "replace-one" (the number of records is public) or "add-remove" (it is not).
        entropy: None for the operating system's; a number makes a repeatable draw that is not private.
        rows_per_person: the most rows that a person may have, where persons are protected.
        person: the column that names the person.
        records: the public number of records of a stream; under add-remove and for persons a guess.
        progress: called with the rows done and the rows in all.
        threads: that count; by default as many as the machine grants. What is published is the same for any number.
        ledger: charged before any value is looked at; needs `dataset`.
        dataset: the name that the ledger knows the data by.
        many_cells: whether tables of far more cells than records are wanted; they are refused otherwise.
    """
    schema = Schema.given(schema)
    wanted = wanted_tables(schema, tables, parts)
    recipe = CrossTablesRecipe(
        schema=schema, wanted=tuple(wanted), weights=_weights(weights, wanted), split=split, parts=parts
    )
    terms = Terms.of(
        budget,
        mechanism=mechanism,
        neighbours=neighbours,
        rows_per_person=rows_per_person,
        person=person,
        entropy=entropy,
        ledger=opened(ledger),
        dataset=dataset,
        many_cells=many_cells,
    )
    return fit(recipe, source, terms, records=records, progress=progress, threads=threads)


def _weights(weights: Sequence[float] | Mapping[Columns, float] | None, wanted: Sequence[Columns]) -> tuple[float, ...]:
    """One for each wanted table."""
    if weights is None:
        return (1.0,) * len(wanted)
    if isinstance(weights, Mapping):
        by = {frozenset(check_names(names)): weight for names, weight in weights.items()}
        unknown = set(by) - {frozenset(names) for names in wanted}
        if unknown:
            raise InvalidArgument("weights", "by columns of the tables", got=[sorted(each) for each in unknown])
        weights = [by.get(frozenset(names), 1.0) for names in wanted]
    found = tuple(check_positive("weights", weight) for weight in weights)
    if len(found) != len(wanted):
        raise InvalidArgument("weights", f"one for each of the {len(wanted)} tables", got=len(found))
    return found


@discreet
def release(
    counts: ArrayLike | Mapping[Any, Any] | CountTable,
    *,
    budget: Budget | BudgetWord | None,
    schema: SchemaLike | Column | None = None,
    categories: CategoriesLike | None = None,
    mechanism: MechanismName = "auto",
    calibration: Calibration = "exact",
    estimate: Method = "posterior-mean",
    neighbours: Neighbours = "replace-one",
    entropy: Entropy | int | None = None,
    ledger: LedgerLike | str | os.PathLike[str] | None = None,
    dataset: str | None = None,
) -> Release:
    """Publish the distribution behind a vector or array of counts.

    >>> from simplexdp import Budget, release
    >>> published = release([119, 74, 618, 272, 13, 187], budget=Budget(epsilon=1, delta=1e-5), entropy=1)
    >>> published.values.sum(), published.private  # a seeded draw is for tests only; leave entropy out
    (np.int64(1283), False)
    >>> bool(abs(published.probabilities.sum() - 1) < 1e-12)
    True

    Args:
        counts: whole numbers, one for each cell, or a CountTable. Which names a table has, and in which order, came
            from the data: a dictionary, `value_counts()`, a cross table and the like need a schema or categories.
        budget: what may be spent; with a ledger also "remaining" or "half" of what it has left.
        schema: the columns of the counts, by the names that their axes have, with all values that can occur: a column,
            a Schema, the path of one or a mapping. Named counts are put in this order, with zeros for what the data
            lacks, by the rules for other and missing values.
        categories: in place of a schema all values that can occur: a list, or for several columns lists by name.
        mechanism: "auto" takes the exact integer mechanism with the least noise.
        calibration: "exact", or "algorithm1" for the paper's choice.
        estimate: how probabilities are made from the draw; see `simplexdp.estimation`.
        neighbours: "replace-one" (the total is public) or "add-remove" (it is not).
        entropy: None for the operating system's; a number makes a repeatable draw that is not private.
        ledger: charged before the draw; needs `dataset`.
        dataset: the name that the ledger knows the data by.
    """
    check_granted(budget)
    check_method(estimate)
    given = given_counts(counts, schema, categories)
    terms = Terms.of(
        budget,
        mechanism=mechanism,
        calibration=calibration,
        estimate=estimate,
        neighbours=neighbours,
        rows_per_person=given.rows_per_person,
        entropy=entropy,
        ledger=opened(ledger),
        dataset=dataset,
    )
    tables = Tabulated(columns=(given.columns,), schema=given.schema, shapes=(given.shape,))
    return fit_given(DistributionRecipe(tables=tables, named=given.named), given, terms)


@discreet
def release_distribution(
    source: Any,
    schema: SchemaLike,
    columns: Sequence[str],
    *,
    budget: Budget | BudgetWord | None,
    mechanism: MechanismName = "auto",
    calibration: Calibration = "exact",
    estimate: Method = "posterior-mean",
    neighbours: Neighbours = "replace-one",
    entropy: Entropy | int | None = None,
    rows_per_person: int | None = None,
    person: str | None = None,
    records: int | None = None,
    progress: Progress | None = None,
    threads: int | None = None,
    ledger: LedgerLike | str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    many_cells: bool = False,
) -> Release:
    """Publish the joint distribution of one or several columns of a table; see `count` for sources and schemas.

    `records` says the public number of records of a source that is read once only, such as a stream; under add-remove
    and for persons it is a guess from public knowledge. A ledger (or the path of one) is charged before any value is
    looked at, and knows the source by `dataset`, under which it was registered. A table of far more cells than records
    is refused with a forecast, before anything is charged, unless `many_cells` says that it is wanted.
    """
    terms = Terms.of(
        budget,
        mechanism=mechanism,
        calibration=calibration,
        estimate=estimate,
        neighbours=neighbours,
        rows_per_person=rows_per_person,
        person=person,
        entropy=entropy,
        ledger=opened(ledger),
        dataset=dataset,
        many_cells=many_cells,
    )
    names = check_names(columns)
    recipe = DistributionRecipe(
        tables=Tabulated(columns=(names,), schema=Schema.given(schema)), what=f"distribution of {', '.join(names)}"
    )
    return fit(recipe, source, terms, records=records, progress=progress, threads=threads)


@discreet
def fit_recipe(
    recipe: Recipe[Made],
    source: Any,
    *,
    budget: Budget | BudgetWord | None,
    records: int | None = None,
    progress: Progress | None = None,
    threads: int | None = None,
    ledger: LedgerLike | str | os.PathLike[str] | None = None,
    **granted: Any,
) -> Made:
    """Fit a model by its recipe, such as one of your own: see [models](models.md).

    Args:
        recipe: what is designed, asked for and made.
        source: rows; see `count`.
        budget: for everything that the recipe asks for.
        records: as for `release_distribution`.
        progress: called with the rows done and the rows in all.
        threads: that count; by default as many as the machine grants. What is published is the same for any number.
        ledger: charged before any value is looked at; needs `dataset`.
        granted: further keywords of `release_distribution`: mechanism, neighbours, unit, entropy, dataset.
    """
    terms = Terms.of(budget, ledger=opened(ledger), **granted)
    return fit(recipe, source, terms, records=records, progress=progress, threads=threads)


def fit_tables(
    source: Any, schema: Schema, tables: Iterable[Sequence[str]], *, split: Split = "equal", **granted: Any
) -> Fit:
    """Count all tables in one pass and draw them under one exactly composed guarantee; `granted` as in `fit_recipe`."""
    asked = Tabulated(columns=tuple(check_names(columns) for columns in tables), schema=schema)
    return fit_recipe(TablesRecipe(tables=asked, split=split), source, **granted)
