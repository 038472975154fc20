"""What every model is: releases under one guarantee, what it says, what can be drawn and predicted from it, a file.

A new kind of model derives from `ModelOfReleases`, writes its own of what is abstract here, and enters by
`simplexdp.models.register`: the command line, the report, synthetic records, audits and files ask for nothing else.
"""

from __future__ import annotations

import datetime
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ..budget import check_whole
from ..errors import Infeasible, InvalidArgument
from ..estimation.posterior import About
from ..estimation.values import IntervalKind
from ..numerics import as_array
from ..numerics.printed import printed
from ..schema import Categories, Column, Numeric, Schema
from ..shown import Shown, card
from .answer import Answer, How, cells_of
from .certificate import Certificate, certify
from .comparison import compare
from .document import Document
from .guarantee import Guarantee
from .plain import delta_of, in_words
from .query import Evidence, Family, mean, quantile, query
from .records import IntArray
from .regression import one_step, regression
from .sections import Picture, Section, View

if TYPE_CHECKING:
    from .release import Release


def check_codes(codes: Any, schema: Schema, columns: Sequence[str]) -> dict[str, IntArray]:
    """One array of cell numbers for each column, from a mapping or from rows × columns in this order."""
    if not isinstance(codes, Mapping):
        array = as_array(codes, "codes")
        if array.ndim != 2 or array.shape[1] != len(columns):
            raise InvalidArgument("codes", f"rows × the {len(columns)} columns {', '.join(columns)}", got=array.shape)
        codes = {name: array[:, i] for i, name in enumerate(columns)}
    absent = [name for name in columns if name not in codes]
    if absent:
        raise InvalidArgument("codes", f"given for the column {absent[0]!r}")
    found: dict[str, IntArray] = {}
    for name in columns:
        array = as_array(codes[name], "codes")
        if array.ndim != 1 or array.dtype.kind not in "iub":
            raise InvalidArgument("codes", f"a one-dimensional array of whole numbers for {name!r}")
        if array.size and not (array.min() >= 0 and array.max() < schema[name].size):
            raise InvalidArgument("codes", f"cell numbers from 0 to {schema[name].size - 1} for {name!r}")
        found[name] = array.astype(np.int64, copy=False)
    if len({array.size for array in found.values()}) > 1:
        raise InvalidArgument("codes", "arrays of one length")
    return found


def cell_order(column: Column) -> NDArray[np.intp] | None:
    """Cell numbers in increasing order of the values, other and missing last; None for text and truth values.

    >>> from simplexdp.schema import Numeric
    >>> cell_order(Numeric([0, 10, 20], own=[10], outside="cell"))
    array([1, 0, 2, 3])
    """
    places = cell_places(column)
    return None if places is None else np.argsort(places, kind="stable")


def cell_places(column: Column) -> NDArray[np.float64] | None:
    """The place of each cell in the order of the values, ∞ for other and missing; None for text and truth values.

    >>> from simplexdp.schema import Numeric
    >>> cell_places(Numeric([0, 10, 20], own=[10], outside="cell"))
    array([ 1.,  0.,  2., inf])
    """
    places: list[float]
    if isinstance(column, Numeric):
        # A value of its own comes before the bin that begins with it, and after the bins that begin below it.
        places = [*column.own, *column.edges[:-1]]
    elif isinstance(column, Categories):
        if isinstance(column.values[0], str | bool):
            return None
        places = [v.toordinal() if isinstance(v, datetime.date) else float(v) for v in column.values]
    else:
        places = list(range(column.declared))
    order = np.argsort(places, kind="stable")
    found = np.full(column.size, math.inf)
    found[order] = np.arange(order.size)
    return found


def distinct_rows(columns: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
    """The different rows, and for each row which of them it is."""
    distinct, inverse = np.unique(np.column_stack(columns), axis=0, return_inverse=True)
    return distinct, inverse.ravel()


_BOUNDED = 2000
"""Cells of a conditional table up to which its intervals are shown."""
ENTROPIES = ("operating-system", "seeded")


def check_facts(release: Release) -> None:
    """Refuse a release whose mechanism, guarantee, values, total, columns, schema and origin contradict each other."""
    guarantee = release.guarantee
    if not guarantee.covers([release.mechanism]):
        raise InvalidArgument("guarantee", f"one that covers {release.mechanism}")
    if release.entropy not in ENTROPIES:
        raise InvalidArgument("entropy", " or ".join(map(repr, ENTROPIES)), got=release.entropy)
    if (release.total is not None) != guarantee.total_is_public:
        raise InvalidArgument(
            "total",
            "given exactly where it is public",
            hint="It is so under replace-one with rows as the unit, and private for add-remove and for persons.",
        )
    if release.columns and len(release.columns) != release.values.ndim:
        raise InvalidArgument("columns", "one for each axis of the values", got=release.columns)
    schema = release.schema
    if schema is not None and (schema.names != release.columns or schema.shape() != release.values.shape):
        raise InvalidArgument("schema", "that of the columns and of the shape of the values")
    release.mechanism.check_values(release.values, release.total)
    _check_time(release.created)


def _check_time(text: str) -> None:
    try:
        made = datetime.datetime.fromisoformat(text)
    except (TypeError, ValueError):
        made = None
    if made is None or made.tzinfo is None:
        raise InvalidArgument("created", "a time with its zone in ISO 8601, such as 2026-01-31T12:00:00+00:00")


def check_together(releases: Sequence[Release]) -> None:
    """Refuse tables of a model that were not drawn together and paid for by the one guarantee that they state."""
    if not releases:
        raise InvalidArgument("releases", "at least one")
    first = releases[0]
    if any(release.guarantee != first.guarantee for release in releases):
        raise InvalidArgument("releases", "made together, under one guarantee")
    if not first.guarantee.covers([release.mechanism for release in releases]):
        raise InvalidArgument("releases", "those that the guarantee paid for, and no others")
    for what in ("entropy", "total"):
        if any(getattr(release, what) != getattr(first, what) for release in releases):
            raise InvalidArgument("releases", f"made together, with one {what}")


def _labels(schema: Schema | None, name: str, cells: int) -> list[str]:
    """What the cells of a column are called; their numbers where the table has merged ones."""
    labels = () if schema is None or name not in schema else schema[name].labels
    return list(map(str, labels)) if len(labels) == cells else [str(i + 1) for i in range(cells)]


class Model(Shown, Document, ABC):
    """A frozen value that was made from releases alone, so that nothing which is done with it costs a budget."""

    says_agreement: ClassVar[bool] = False
    """Whether its own description compares synthetic records with the releases; reports do so for all others."""

    if TYPE_CHECKING:
        # Fields of some models and computed by others: a property here would stand in the way of a field there.

        @property
        def releases(self) -> tuple[Release, ...]:
            """What was drawn, in the order of the tables; a release is its own."""

        @property
        def guarantee(self) -> Guarantee:
            """Of all releases together."""

        @property
        def schema(self) -> Schema | None:
            """Of the columns; None where nothing was declared."""

        @property
        def not_private(self) -> tuple[str, ...]:
            """Why the promise does not hold; empty when it does."""

    # -- what it promises -----------------------------------------------------------------------------------------

    @property
    def private(self) -> bool:
        """Whether the promise holds."""
        return not self.not_private

    def certificate(self) -> Certificate:
        """What is promised for all releases together, in words and as data."""
        return certify(
            self.guarantee,
            schema_origin=None if self.schema is None else self.schema.origin,
            entropy=self.releases[0].entropy,
            not_private=self.not_private,
            declarations=tuple(dict.fromkeys(text for release in self.releases for text in release.declarations)),
        )

    # -- what it says ---------------------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        """Of its report."""
        return self.kind.replace("-", " ").capitalize()

    def describe(self, *, level: float = 0.95, most: int | None = None, column: str | None = None) -> Sequence[Section]:
        """What it says, for the terminal, the report and notebooks.

        Args:
            level: of intervals.
            most: rows of each table; as many as suit a page by default.
            column: say what there is to say of this column alone.
        """
        return self.sections(View(level=level, most=most, column=column))

    def picture(self, *, level: float = 0.95, column: str | None = None) -> Picture:
        """The first picture of the description, which says most."""
        for section in self.describe(level=level, column=column):
            for picture, _ in section.figures:
                return picture  # type: ignore[no-any-return]  # a model makes pictures, no figures
        raise Infeasible("There is nothing to draw of this model.")

    def plot(self, *, level: float = 0.95, column: str | None = None) -> Any:
        """The first picture of the description, drawn: a figure of matplotlib that shows itself in a notebook."""
        from .. import plots

        return plots.figure(self.picture(level=level, column=column))

    def _repr_html_(self) -> str:
        """For notebooks: verdict and facts, the first picture, and the first rows of the numbers."""
        from ..pictures import svg

        try:
            drawn = svg(self.picture())
        except Infeasible:
            drawn = ""
        facts = [*self._facts(), *([in_words(self.guarantee)] if self.private else [])]
        return card(repr(self), facts, self._columns(), drawn=drawn)

    def _columns(self) -> dict[str, list[Any]]:
        """A row for each number: which column, given which cells of which others, its cell, and the probability."""
        told: dict[str, list[Any]] = {"column": [], "given": [], "cell": [], "probability": []}
        for node, parents in self.families:
            table = self.conditional(node)
            labels = [_labels(self.schema, *axis) for axis in zip((*parents, node), table.shape, strict=True)]
            for place, value in np.ndenumerate(table):
                *given, cell = (names[i] for names, i in zip(labels, place, strict=True))
                told["column"].append(node)
                told["given"].append(", ".join(f"{p} = {x}" for p, x in zip(parents, given, strict=True)))
                told["cell"].append(cell)
                told["probability"].append(float(value))
        return told

    def _facts(self) -> list[str]:
        guarantee, total = self.guarantee, self.releases[0].total
        delta = delta_of(guarantee)
        size = "N is private" if total is None else f"N = {total:,.0f} (public)"
        if not self.private:
            return ["NOT PRIVATE", *self.not_private, size]
        promise = f"PRIVATE: ({printed(guarantee.epsilon(delta))}, {printed(delta)})-DP"
        return [f"{promise} for one {guarantee.unit}, {guarantee.neighbours}", size]

    def as_data(self, *, level: float = 0.95) -> dict[str, Any]:
        """What it says for programs, in numbers; kind and certificate are added by those who print it."""
        return self.data(View(level=level))

    @property
    def details(self) -> Sequence[str]:
        """Columns that a report describes one by one after the whole."""
        return ()

    @abstractmethod
    def sections(self, view: View) -> Sequence[Section]:
        """What `describe` gives."""

    def data(self, view: View) -> dict[str, Any]:
        """What `as_data` gives; by default the tables of the description."""
        tables = [(section.heading, section.table) for section in self.sections(view) if section.table is not None]
        return {
            "sections": [
                {"heading": heading, "columns": list(table.columns), "rows": [list(row) for row in table.rows]}
                for heading, table in tables
            ]
        }

    # -- answers --------------------------------------------------------------------------------------------------

    @property
    def families(self) -> Sequence[Family]:
        """The structure that joins columns without a common released table: each node with its parents."""
        return ()

    @property
    def voices(self) -> str:
        """Where predictions follow another law than records and answers: which follows which. Empty for one law."""
        return ""

    def conditional(self, node: str) -> NDArray[np.float64]:
        """P(node | parents) over the released cells, parents first, for each family."""
        raise Infeasible(f"this model has no table of {node!r} given others.")

    def _bounds(
        self, node: str, parents: Sequence[str], level: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """The interval of each P(node | parents); None where cells were merged or none can be given."""
        sizes = self._evidence.pooled.sizes
        shape = tuple(sizes.get(name, 0) for name in (*parents, node))
        if not 0 < math.prod(shape) <= _BOUNDED:
            return None
        try:
            found = self.query(node, list(parents) or None, level=level)
        except (Infeasible, InvalidArgument):
            return None
        if not (np.isfinite(found.low).all() and np.isfinite(found.high).all()):
            return None
        return found.low.reshape(shape), found.high.reshape(shape)

    @cached_property
    def _evidence(self) -> Evidence:
        return Evidence(self, self.families)

    def query(
        self,
        columns: Any = None,
        given: Any = None,
        *,
        about: About = "population",
        level: float = 0.95,
        kind: IntervalKind = "posterior",
        strict: bool = False,
        counts: bool = False,
    ) -> Answer:
        """Probabilities of the cells of some columns with intervals, at no further budget.

        Args:
            columns: a name or names, for each of their cells; or a mapping from names to the values that are asked
                for: a value, a label, a list of them, or a pair (from, below) of edges. By default all columns of a
                release.
            given: the same, for what is known.
            about: the "records" that were counted, or the "population" that they were drawn from.
            level: of the intervals.
            kind: "posterior", shorter, or "frequentist", from the noise alone.
            strict: refuse what no released table holds; otherwise such an answer is given the graph, and says so.
            counts: expected counts in place of probabilities; what is given then counts too.

        >>> from simplexdp import Budget, release
        >>> published = release([119, 74, 618, 272], budget=Budget(epsilon=1, delta=1e-6), entropy=1)
        >>> len(published.query(about="records"))
        4
        """
        return query(
            self._evidence, columns, given, How(about=about, kind=kind, level=level, strict=strict), counts=counts
        )

    def mean(
        self,
        column: str,
        given: Any = None,
        *,
        values: Mapping[str, float] | None = None,
        about: About = "population",
        level: float = 0.95,
        kind: IntervalKind = "posterior",
        strict: bool = False,
    ) -> Answer:
        """The mean of a column of numbers, over all records or those that are given; see `query`.

        Args:
            column: its cells are numbers, or `values` gives a number for each label.
            values: numbers by label; records in other cells are left out.
        """
        how = How(about=about, kind=kind, level=level, strict=strict)
        return mean(self._evidence, column, given, how, values=values)

    def quantile(
        self,
        column: str,
        q: float = 0.5,
        given: Any = None,
        *,
        about: About = "population",
        level: float = 0.95,
        kind: IntervalKind = "posterior",
        strict: bool = False,
    ) -> Answer:
        """The number that the share q of the records lies below; 0.5 is the median. See `query`."""
        how = How(about=about, kind=kind, level=level, strict=strict)
        return quantile(self._evidence, column, q, given, how)

    def compare(
        self,
        columns: Any,
        first: Mapping[str, Any],
        second: Mapping[str, Any],
        *,
        by: Literal["difference", "ratio"] = "difference",
        about: About = "population",
        level: float = 0.95,
        kind: IntervalKind = "posterior",
        strict: bool = False,
    ) -> Answer:
        """P(columns | first) less P(columns | second), or their ratio; see `query`."""
        how = How(about=about, kind=kind, level=level, strict=strict)
        return compare(self._evidence, columns, first, second, how, by=by)

    def regression(
        self,
        outcome: str | Mapping[str, Any],
        on: Sequence[str],
        *,
        family: Literal["logistic", "linear", "poisson"] = "logistic",
        values: Mapping[str, Mapping[str, float]] | None = None,
        about: About = "population",
        level: float = 0.95,
        kind: IntervalKind = "frequentist",
    ) -> Answer:
        """Coefficients of a regression inside one released table, with intervals by score inversion.

        Args:
            outcome: a column; for a logistic regression one of two cells, or {column: value} for the event.
            on: columns of numbers, each one term, and of categories, one for each value but the first.
            family: "logistic", "linear" or "poisson".
            values: numbers by label for columns that are not numbers.
            about, level: see `query`.
            kind: "frequentist", from the law of the noise alone; "posterior" is shorter where noise is large, but what
                its prior shrinks adds up over the cells of a regression, so that no coverage is promised.
        """
        how = How(about=about, kind=kind, level=level, strict=True)
        return regression(self._evidence, outcome, on, family, how, values)

    def one_step(
        self,
        statistic: Callable[[NDArray[np.float64]], Any],
        influence: Callable[[NDArray[np.float64]], Any],
        columns: Sequence[str],
        *,
        about: About = "population",
        level: float = 0.95,
        kind: IntervalKind = "frequentist",
    ) -> Answer:
        """Any statistic of a released table that has an influence function, in one step from the published shares.

        Args:
            statistic: from the shares of the cells, one axis a column, to numbers.
            influence: from the same to each number's derivative with respect to each cell, numbers on the last axis.
            columns: which share a released table.
            about, level, kind: see `regression`.
        """
        how = How(about=about, kind=kind, level=level, strict=True)
        return one_step(self._evidence, statistic, influence, columns, how)

    # -- how it is fitted ---------------------------------------------------------------------------------------------

    @classmethod
    def recipe(cls, schema: Schema, **said: Any) -> Any:  # noqa: ARG003
        """What fits this kind, for `simplexdp fit model` and `plan --model`; its keywords are what users may say.

        Those of the library have commands of their own.
        """
        raise InvalidArgument("model", "of a kind that has a recipe", got=cls.kind)

    # -- records --------------------------------------------------------------------------------------------------

    @abstractmethod
    def sample_codes(self, size: int, generator: np.random.Generator) -> Mapping[str, IntArray]:
        """Cell numbers of so many synthetic records, by column."""

    def sample_codes_given(
        self, size: int, generator: np.random.Generator, given: Mapping[str, Sequence[int]]
    ) -> Mapping[str, IntArray]:
        """The same for records whose cell of some columns is among those that are given; exact."""
        del size, generator, given
        raise Infeasible(f"records of a {self.kind} cannot be drawn given values.")

    def redrawn(
        self, number: int, generator: np.random.Generator
    ) -> list[tuple[Schema, Sequence[Family], Mapping[str, NDArray[np.float64]]]]:
        """So many draws of its structure from what noise and sampling leave open: schema, families and their tables."""
        return self._evidence.redrawn(check_whole("number", number), generator)

    def given_cells(self, given: Mapping[str, Any]) -> dict[str, list[int]]:
        """The cells that values, labels, lists of them or pairs of edges name, by column."""
        schema = self.schema
        if schema is None:
            raise InvalidArgument("given", "left out without a schema")
        absent = [name for name in given if name not in schema]
        if absent:
            raise InvalidArgument("given", "columns of the model", got=absent)
        return {name: cells_of(name, schema[name], schema[name].labels, wanted) for name, wanted in given.items()}

    # -- files ----------------------------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def body_schema(cls) -> dict[str, Any]:
        """The JSON Schema of what `to_body` writes; `simplexdp.models.document` has the parts."""


class ModelOfReleases(Model):
    """A model of several releases that were drawn together and paid for by one guarantee."""

    def __post_init__(self) -> None:
        """Refuse releases that were not; models that check more of themselves begin or go on with this."""
        check_together(self.releases)

    @property
    def guarantee(self) -> Guarantee:
        """Of all releases together."""
        return self.releases[0].guarantee

    @property
    def not_private(self) -> tuple[str, ...]:
        """Why the promise does not hold; empty when it does."""
        return tuple(dict.fromkeys(reason for release in self.releases for reason in release.not_private))


class Predictor(ABC):
    """A model that predicts a column from others."""

    if TYPE_CHECKING:

        @property
        def schema(self) -> Schema | None:
            """Of the columns."""

    @abstractmethod
    def predict(self, variable: str, evidence: Any) -> NDArray[np.float64]:
        """P(variable | evidence) for each row, rows × cells of the variable.

        Args:
            variable: the column to predict.
            evidence: cell numbers of other columns by name, arrays of one length.
        """

    def judged(self, variable: str, evidence: Mapping[str, IntArray]) -> NDArray[np.float64]:
        """`predict` for private records: none is refused, so that a refusal tells of none. See docs/proofs/sums.md."""
        return self.predict(variable, evidence)

    def predict_some(self, variable: str, evidence: Mapping[str, IntArray], rows: int) -> NDArray[np.float64]:
        """`predict` for rows of which only these columns are known, none of them perhaps."""
        if not evidence:
            raise InvalidArgument(
                "evidence", f"of at least one column for {check_whole('rows', rows, at_least=0)} rows"
            )
        return self.predict(variable, evidence)

    def question(
        self, target: str | None, given: Sequence[str] | None, there: Sequence[str]
    ) -> tuple[str, tuple[str, ...]]:
        """The column to predict and those to predict it from, in the order of the schema.

        Args:
            target: the column that was asked for, if one was.
            given: the columns to predict from, if they were said.
            there: the columns that the rows have.
        """
        schema = self.schema
        if schema is None or target is None or target not in schema:
            hint = "" if schema is None else f"It has {', '.join(schema.names[:20])}."
            raise InvalidArgument("target", "a column of the model", got=target, hint=hint)
        names = tuple(n for n in schema.names if n != target and n in there) if given is None else tuple(given)
        schema.select(names)
        if not names or target in names:
            raise InvalidArgument("given", "other columns of the model, at least one that the rows have", got=names)
        return target, names
