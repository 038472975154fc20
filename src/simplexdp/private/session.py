"""A session: the only way from rows to releases. It draws what was designed and paid, each step once.

Proof: docs/proofs/composition.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._version import __version__
from ..budget import check_relation, check_whole
from ..errors import InvalidArgument, PrivacyError
from ..estimation import Method
from ..fitting import Payment
from ..fitting.design import Design, Edges, Further, Recipe, Request, Round, Scores, Sums, Tables
from ..fitting.edges import QuantilePlan
from ..mechanisms import AnyMechanism
from ..models.certificate import reasons
from ..models.document import Document, checksum
from ..models.guarantee import Guarantee
from ..models.release import Release
from ..planning import Plan
from ..sampling import Entropy, entropy_from
from ..schema import Numeric, Schema
from ..schema.pooled import pooled_schema
from .kernels import KERNELS
from .tables import CountTable, opened

Made = TypeVar("Made")
IntArray = NDArray[np.int64]
Select = Callable[[IntArray, int], int]
"""Chooses the index of a small score, given the scores and their sensitivity to one row."""


class Rows(Protocol):
    """What was handed over, under one bound on the rows of each person in every pass."""

    def count(self, schema: Schema | None, tables: Sequence[Sequence[str]]) -> list[CountTable]:
        """All tables in one pass. **Private**."""

    def blocks(self, schema: Schema, columns: Sequence[str]) -> Iterator[dict[str, IntArray]]:
        """Cell numbers of the same rows, in blocks. **Private**."""

    def close(self) -> None:
        """No pass follows."""


class Session:
    """Answers the requests of a recipe with releases, within its design.

    Args:
        rows: what is counted.
        design: what may be drawn; its guarantee is what was paid.
        entropy: of all draws.
        payment: what was paid; it knows what to do with a failure.
    """

    def __init__(self, rows: Rows, design: Design, entropy: Entropy, payment: Payment) -> None:
        self._rows, self._design, self._entropy, self._payment = rows, design, entropy, payment
        self._left = {each.name: each for each in design.rounds}
        self._done: set[type] = set()
        self._schema: Schema | None = None
        self._counted: list[CountTable] = []
        self._released: Schema | None = design.released

    def run(self, recipe: Recipe[Made]) -> Made:
        """Follow a recipe to its end, and seal what it made in the ledger, by the checksum that its file has."""
        steps, answer = recipe.follow(self._design), None
        try:
            while True:
                try:
                    request = steps.send(answer)
                except StopIteration as finished:
                    made: Made = finished.value
                    break
                answer = self._answer(request)
        finally:
            self._close()
        if self._payment.charge is not None and isinstance(made, Document):
            self._payment.charge.seal(checksum(made.to_body()))
        return made

    def _answer(self, request: Request) -> Any:
        """What is drawn for a request; what fails in `read` fails because of values, and nothing before knows any."""
        if isinstance(request, Edges):
            self._once(Edges, self._design.edges is not None)
            return self._payment.read(self._edges)
        if isinstance(request, Tables):
            self._once(Tables, Edges in self._done or self._design.edges is None)
            return self._payment.read(lambda: self._tables(request))
        if isinstance(request, Further):
            step, (look,) = self._round(request, tables=list(request.weights))
            spread = look.spread(list(request.weights.values()))
            schema = self._pools(request)
            return self._payment.read(lambda: self._further(step, request, spread, schema))
        if isinstance(request, Scores):
            step, bought = self._round(request, tables=request.tables)
            self._pools(request)
            return self._payment.read(lambda: self._scored(step, request, bought))
        if isinstance(request, Sums):
            step, bought = self._round(request, columns=request.columns)
            return self._payment.read(lambda: self._noisy_sums(step, request, bought))
        raise _not_designed(type(request))

    def _round(
        self,
        request: Further | Scores | Sums,
        tables: Sequence[tuple[str, ...]] | None = None,
        columns: Sequence[str] = (),
    ) -> tuple[Round, tuple[Any, ...]]:
        """The round of a request, which is spent from now on, and what was bought for it. Only public facts decide."""
        step = self._left.pop(request.round, None)
        kernel = None if step is None or step.kernel is None else KERNELS.get(step.kernel)
        if step is None or Tables not in self._done or (step.kernel is None) != isinstance(request, Further):
            raise _not_designed(type(request))
        if not isinstance(request, Further):
            kinds = tuple(kind for kind, _ in step.buys)
            if kernel is None or kernel.of_tables != isinstance(request, Scores) or kernel.kinds != kinds:
                raise _not_designed(type(request))
        schema, known = self._schema, self._design.needed
        asked = {name for names in tables or () for name in names} | set(columns)
        if known is not None and schema is not None and not asked <= set(known.names):
            raise InvalidArgument("columns", "among those of the design's tables", got=sorted(asked - set(known.names)))
        if tables is not None and self._released is not None:
            step.check([math.prod(self._released.shape(names)) for names in tables])
        held = [names for names in tables or () if not step.again and _holding(self._counted, names) is None]
        if held:
            raise InvalidArgument("weights", "by columns of one of the tables of the design", got=held[0])
        return step, self._design.bought[step.name]

    def _pools(self, request: Further | Scores) -> Schema | None:
        """The released schema with the pools of a request in place of cells; only public facts decide."""
        if not request.pools:
            return self._released
        if self._released is None:
            raise InvalidArgument("pools", "left out without a schema")
        return pooled_schema(self._released, request.pools)

    def _once(self, step: type, designed: bool) -> None:
        if not designed or step in self._done:
            raise _not_designed(step)
        self._done.add(step)

    def _edges(self) -> Schema:
        """The schema with edges. **Private** counts of grid cells go in, noisy choices come out."""
        edges, schema = self._design.edges, self._design.schema
        assert edges is not None
        assert schema is not None
        resolved = draw_edges(edges, self._rows.count(edges.grids, edges.tables), self._entropy)
        self._schema = schema.replace(*(resolved[name] for name in edges.epsilons))
        return self._schema

    def _tables(self, request: Tables) -> tuple[Release, ...]:
        design, schema, released = self._design, request.schema, self._design.released
        if schema != (self._schema if design.edges is not None else design.schema):
            raise _not_designed(Tables)
        self._schema = schema
        if schema is not None and released is not None and design.edges is not None:
            released = released.replace(*(schema[name] for name in design.edges.epsilons))
        counted = self._merged(self._rows.count(schema, design.plan.columns))
        self._counted, self._released = counted, released
        return draw_tables(counted, design.plan, schema=released, method=design.estimate, entropy=self._entropy)

    def _margins(
        self, step: Round, tables: Sequence[tuple[str, ...]], pools: Mapping[str, tuple[int, ...]]
    ) -> list[CountTable]:
        """The counts over these columns: of fixed tables where they have them, else in one more pass. **Private**.

        Pools are released: which cells are added up depends on no count.
        """
        found: dict[tuple[str, ...], CountTable] = {}
        for names in tables:
            held = _holding(self._counted, names)
            if held is not None:
                found[names] = held.margin(names)
        absent = [names for names in dict.fromkeys(tables) if names not in found]
        if absent:
            assert step.again
            counted = self._merged(self._rows.count(self._schema, absent))
            found |= dict(zip(absent, counted, strict=True))
        margins = [found[names] for names in tables]
        for column, places in pools.items():
            margins = [table.merged(column, places) if column in table.columns else table for table in margins]
        return margins

    def _merged(self, counted: list[CountTable]) -> list[CountTable]:
        """Over the bins that the design releases. **Private** like the tables."""
        for column, places in self._design.merges.items():
            counted = [table.merged(column, places) if column in table.columns else table for table in counted]
        return counted

    def _further(
        self, step: Round, request: Further, spread: Sequence[AnyMechanism], schema: Schema | None
    ) -> tuple[Release, ...]:
        design, again = self._design, self._margins(step, list(request.weights), request.pools)
        return draw_each(
            again, spread, design.guarantee, schema, design.estimate, self._entropy, f"{step.name} at table"
        )

    def _scored(self, step: Round, request: Scores, bought: Sequence[Any]) -> IntArray:
        """One number for each table, with its noise. **Private** until that is added."""
        kernel = KERNELS[str(step.kernel)]
        counts = [opened(table.private_counts()) for table in self._margins(step, request.tables, request.pools)]
        (scores,) = self._noisy(step, kernel.sums(request.parameters, counts, bought), bought)
        return scores

    def _noisy_sums(self, step: Round, request: Sums, bought: Sequence[Any]) -> tuple[IntArray, ...]:
        """Sums with their noise. **Private** until that is added."""
        kernel, schema = KERNELS[str(step.kernel)], self._schema
        assert schema is not None
        blocks = self._rows.blocks(schema, request.columns)
        return self._noisy(step, kernel.sums(request.parameters, blocks, bought), bought)

    def _noisy(self, step: Round, exact: Sequence[IntArray], bought: Sequence[Any]) -> tuple[IntArray, ...]:
        return tuple(
            mechanism.draw(values, self._entropy.child(f"{step.name}: {name}"))
            for name, mechanism, values in zip(KERNELS[str(step.kernel)].names, bought, exact, strict=True)
        )

    def _close(self) -> None:
        self._rows.close()
        self._counted = []


def _holding(tables: Sequence[CountTable], columns: tuple[str, ...]) -> CountTable | None:
    """The first table that has these columns. **Private** like it."""
    return next((table for table in tables if set(columns) <= set(table.columns)), None)


def _not_designed(step: type) -> PrivacyError:
    return PrivacyError(
        f"the recipe asks for a step ({step.__name__.lower()}) that was not designed and paid, or asks for it twice. "
        "Nothing was drawn for it."
    )


# -- drawing: the only place where private counts go through a mechanism into a release -------------------------------


def draw_tables(
    tables: Sequence[CountTable],
    plan: Plan,
    *,
    schema: Schema | None = None,
    method: Method = "posterior-mean",
    entropy: Entropy | int | None = None,
) -> tuple[Release, ...]:
    """Draw each table once. Whoever has a ledger charges it first."""
    source = entropy_from(entropy)
    guarantee = plan.guarantee
    for table, shape in zip(tables, plan.shapes, strict=True):
        if table.shape != shape:
            raise InvalidArgument("tables", f"of the planned shape {shape}", got=table.shape)
        if (table.unit, table.rows_per_person or 1) != (guarantee.unit, guarantee.rows):
            raise InvalidArgument("tables", f"counted by {guarantee.unit}", got=table.unit)
    for table in tables:
        check_relation(table.relations, guarantee.neighbours, guarantee.unit)
    if guarantee.total_is_public and len({int(opened(table.private_counts()).sum()) for table in tables}) > 1:
        raise InvalidArgument(
            "tables",
            "of the same records: their totals differ",
            hint="Under replace-one the total is published. Rows that only some tables count make it private.",
        )
    return draw_each(tables, plan.mechanisms, guarantee, schema, method, source, "table")


def draw_each(
    tables: Sequence[CountTable],
    mechanisms: Sequence[AnyMechanism],
    guarantee: Guarantee,
    schema: Schema | None,
    method: Method,
    source: Entropy,
    label: str,
) -> tuple[Release, ...]:
    """A release of each table by its mechanism; checks nothing and charges nothing."""
    releases = []
    for i, (table, mechanism) in enumerate(zip(tables, mechanisms, strict=True)):
        counts = opened(table.private_counts())
        part = schema.select(table.columns) if schema is not None else None
        not_private = reasons(guarantee, source.kind, None if part is None else part.origin)
        if not table.is_private and not not_private:
            not_private = (
                *not_private,
                "the table was counted with cells taken from the data or with a known seed for the rows of persons",
            )
        releases.append(
            Release(
                values=mechanism.draw(counts, source.child(f"{label} {i}: {', '.join(table.columns)}")),
                mechanism=mechanism,
                guarantee=guarantee,
                total=float(counts.sum()) if guarantee.total_is_public else None,
                columns=table.columns,
                schema=part,
                method=method,
                entropy=source.kind,
                not_private=not_private,
                declarations=table.declarations,
                software=f"simplexdp {__version__}",
            )
        )
    return tuple(releases)


def draw_edges(plan: QuantilePlan, tables: Sequence[CountTable], entropy: Entropy) -> Schema:
    """Edges from the tables over the grids of the plan: its schema with bins in place of quantiles.

    Proof: docs/proofs/quantiles.md.
    """
    resolved = []
    for (column, grid, choices), table in zip(plan.parts, tables, strict=True):
        check_relation(table.relations, plan.neighbours, table.unit)
        if (table.rows_per_person or 1) > plan.rows_per_person:
            raise InvalidArgument(
                "rows_per_person",
                f"at most the {plan.rows_per_person} that the edges are priced for",
                got=table.rows_per_person,
            )
        inside = opened(table.private_counts())[: len(grid) - 1]
        coins = entropy.child(f"edges: {column.name}")
        points = choose_points(inside, column.bins, partial(choices.select, entropy=coins))
        kept = column.model_dump(include={"name", "outside", "missing", "origin", "transform", "integer"})
        resolved.append(Numeric(grid[points].tolist(), **kept))
    return plan.schema.replace(*resolved)


def choose_points(table: IntArray, bins: int, select: Select) -> list[int]:
    """Indices of `bins` + 1 strictly increasing grid points, the first and last of the grid among them.

    A candidate leaves room for the edges still to come on both sides, so that edges never coincide; where
    they may lie follows from the edges chosen before, never from the rows.

    >>> choose_points(np.array([0, 3, 0, 3, 0, 3]), 3, lambda scores, _: int(scores.argmin()))
    [0, 2, 4, 6]
    """
    bins = check_whole("bins", bins, at_least=2)
    below = np.concatenate([[0], np.cumsum(table, dtype=np.int64)])
    points = {0: 0, bins: len(table)}

    def split(low: int, high: int) -> None:
        if high - low < 2:
            return
        middle = (low + high) // 2
        left, right = middle - low, high - middle
        first, last = points[low], points[high]
        candidates = np.arange(first + left, last - right + 1)
        scores = np.abs(right * (below[candidates] - below[first]) - left * (below[last] - below[candidates]))
        points[middle] = int(candidates[select(scores, max(left, right))])
        split(low, middle)
        split(middle, high)

    split(0, bins)
    return [points[i] for i in range(bins + 1)]
