"""The one decision that a plan shows and a fit carries out: what will be released, by what, at which price.

A design is a function of facts and terms alone, made before a value is looked at. What is decided later, from releases,
is bounded here: each `Round` by its share of the budget and by its most tables and cells. A session draws nothing that
is not in it.

Proof: docs/proofs/composition.md.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Protocol, TypeVar

from ..budget import Budget, Unit, check_positive, check_whole, convert
from ..errors import InvalidArgument, PrivacyError, SourceError
from ..estimation import Method
from ..mechanisms import AnyMechanism
from ..mechanisms.sums import ExtraKind, GaussianTables, NoisySum, Step
from ..models.guarantee import Guarantee, pure_loss
from ..models.release import Release
from ..noisy import FloatArray
from ..numerics.roots import largest_that_fits
from ..planning import Plan, Split, plan_tables
from ..schema import Schema, cell_map
from . import Facts, Terms
from .edges import QuantilePlan, plan_quantiles

CELLS_PER_RECORD, MANY_CELLS = 100, 100_000
"""Above both, a table is asked about: most of its cells are empty, and what is drawn of them is noise."""
MANY_RECORDS = 10_000
"""As many are taken for granted where no number is known."""
MEMORY_PER_CELL, FILE_PER_CELL, FILE_PER_SHARE = 64, 1.0, 10.1
"""Bytes, measured on tables of 10^6 cells at ε = 1: 39 to 62 for the count, the draw and the estimate; in a document
0.7 to 0.9 for whole numbers, 10.1 for the shares of a Dirichlet draw and for estimated counts."""
MEMORY_PER_ESTIMATE = 150
"""Bytes for each cell that is estimated from several tables together, measured in the same way."""


@dataclass(frozen=True, kw_only=True)
class Tabulated:
    """The fixed tables of a recipe: their columns over a schema, or cells without names.

    Args:
        columns: of each table.
        schema: of the source, None for counts without a declaration.
        shapes: cells along each axis, where there is no schema.
        also: columns that are in no table, and that a later round reads.
    """

    columns: tuple[tuple[str, ...], ...]
    schema: Schema | None
    shapes: tuple[tuple[int, ...], ...] = ()
    also: tuple[str, ...] = ()

    def over(self, schema: Schema | None) -> list[tuple[int, ...]]:
        """The shapes over this schema."""
        return list(self.shapes) if schema is None else [schema.shape(names) for names in self.columns]

    @property
    def needed(self) -> Schema | None:
        """The columns that are read."""
        if self.schema is None:
            return None
        return self.schema.select(dict.fromkeys(name for names in (*self.columns, self.also) for name in names))


def analysed(for_analysis: Sequence[Sequence[str]], schema: Schema) -> tuple[tuple[str, ...], ...]:
    """The columns of each analysis, in the order of the schema."""
    if isinstance(for_analysis, str) or any(isinstance(names, str) for names in for_analysis):
        raise InvalidArgument("for_analysis", "a list of lists of columns", got=for_analysis)
    found = []
    for names in for_analysis:
        absent = [name for name in names if name not in schema]
        if absent or not names:
            raise InvalidArgument("for_analysis", "columns of the model", got=absent or list(names))
        found.append(tuple(name for name in schema.names if name in names))
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class Round:
    """One step after the fixed tables. Which tables, or at which parameters, is chosen from releases, within maxima.

    Args:
        name: by which a recipe asks for it, once.
        buys: the kind of each mechanism and its share of the budget.
        kernel: of sums and scores, see `private/kernels.py`; None for a round of tables.
        tables: the most tables that are released, or that scores are of.
        cells: the most cells of all these together.
        again: whether the rows are gone over again; otherwise all tables are margins of the fixed ones.
        says: what a certificate calls it, where the recipe has words for each of its rounds.
    """

    name: str
    buys: tuple[tuple[ExtraKind, float], ...]
    kernel: str | None = None
    tables: int = 0
    cells: int = 0
    again: bool = True
    says: str = ""

    def __post_init__(self) -> None:
        convert(self, tables=_whole, cells=_whole)
        if (self.kernel is None) != ([kind for kind, _ in self.buys] == ["tables"]):
            raise InvalidArgument("buys", "one ('tables', share) for tables, sums for a kernel", got=self.buys)

    def check(self, sizes: Sequence[int]) -> None:
        """Refuse more tables or cells than were designed; everything here is public."""
        if len(sizes) > self.tables or sum(sizes) > self.cells:
            raise PrivacyError(
                f"{self.name!r} was designed for at most {self.tables} tables of {self.cells} cells, and {len(sizes)} "
                f"of {sum(sizes)} cells are asked for. Nothing was drawn for it."
            )


def _whole(name: str, value: int) -> int:
    return check_whole(name, value, at_least=0)


@dataclass(frozen=True, kw_only=True)
class Design:
    """What will be released and what it costs; equal designs release the same, from whatever rows.

    Args:
        plan: the fixed tables with a mechanism each, and what follows them.
        schema: of the source, None for counts without a declaration.
        released: the schema of the tables: that of the source, with some bins merged.
        edges: private quantiles, drawn before the tables.
        unit: whose change is hidden.
        estimate: how probabilities are made of the draws.
        total: the public number of records, where it is known beforehand.
        rounds: what follows the fixed tables.
        estimated: cells that are estimated from all tables together and kept beside them.
        also: columns that are in no table, and that a round reads.
    """

    plan: Plan
    schema: Schema | None
    released: Schema | None
    edges: QuantilePlan | None
    unit: Unit
    estimate: Method
    total: float | None
    rounds: tuple[Round, ...] = ()
    estimated: int = 0
    also: tuple[str, ...] = ()

    @property
    def guarantee(self) -> Guarantee:
        """Of everything together."""
        return self.plan.guarantee

    @property
    def mechanisms(self) -> tuple[AnyMechanism, ...]:
        """One for each fixed table."""
        return self.plan.mechanisms

    @property
    def bought(self) -> dict[str, tuple[Step, ...]]:
        """The mechanisms of each round, by its name."""
        left = iter(self.plan.extras)
        return {each.name: tuple(next(left) for _ in each.buys) for each in self.rounds}

    @property
    def needed(self) -> Schema | None:
        """The columns that are read, and no round may ask for others."""
        if self.schema is None:
            return None
        return self.schema.select(dict.fromkeys(name for names in (*self.plan.columns, self.also) for name in names))

    @property
    def copied(self) -> Schema | None:
        """The columns that are read, with fine grids in place of quantiles: one pass encodes them for all others."""
        if self.needed is None or self.edges is None:
            return self.needed
        return self.needed.replace(*self.edges.grids)

    @property
    def several(self) -> bool:
        """Whether the rows may be gone over more than once."""
        return self.edges is not None or any(each.again for each in self.rounds)

    @property
    def look(self) -> GaussianTables | None:
        """The precision of the first round of tables."""
        return next((extra for extra in self.plan.extras if isinstance(extra, GaussianTables)), None)

    def counted(self, step: Round) -> int:
        """The most cells that a round counts: those of its tables before bins are merged, which comes after."""
        schema, released = self.schema, self.released
        if schema is None or released is None or not (step.again and step.tables):
            return step.cells
        sizes = [(schema[name].size, released[name].size) for name in self.merges]
        # A table of so many cells has at most log2 of them columns of two and more.
        wide = sorted((Fraction(*each) for each in sizes if each[1] > 1), reverse=True)[: step.cells.bit_length()]
        wide += [Fraction(*each) for each in sizes if each[1] == 1]
        return math.ceil(math.prod(wide, start=Fraction(step.cells)))

    @property
    def sums(self) -> tuple[NoisySum, ...]:
        """The noisy sums, in their order."""
        return tuple(extra for extra in self.plan.extras if isinstance(extra, NoisySum))

    @property
    def merges(self) -> dict[str, tuple[int, ...]]:
        """For each column that is released in fewer cells, where its cells go."""
        found: dict[str, tuple[int, ...]] = {}
        if self.schema is None or self.released is None:
            return found
        for column in self.schema:
            if column == self.released[column.name]:
                continue
            places = cell_map(column, self.released[column.name])
            if places is None:
                raise InvalidArgument("released", f"a schema that merges bins of {column.name!r} and changes no more")
            found[column.name] = places
        return found


@dataclass(frozen=True, kw_only=True)
class Later:
    """What follows the fixed tables, from public facts.

    Args:
        rounds: in the order in which a certificate names them.
        released: the schema that tables are released in, if bins are merged.
        split: of the rest of the budget over the tables.
        left_out: what public facts rule out, in words for a certificate.
        estimated: cells that are estimated from all tables together and kept beside them.
    """

    rounds: Sequence[Round] = ()
    released: Schema | None = None
    split: Split = field(default="equal")
    left_out: tuple[str, ...] = ()
    estimated: int = 0


def designed(
    tables: Tabulated, facts: Facts, terms: Terms, later: Later | None = None, *, quiet: bool = False
) -> Design:
    """Price everything: edges first, then tables and what follows them, so that all of it uses the budget.

    Raises:
        Infeasible: no noise fits the budget.
        SourceError: the rows are given once, and several passes are needed.
    """
    later, needed, unit = later or Later(), tables.needed, terms.unit
    if facts.total == 0 and terms.budget is not None:
        raise InvalidArgument("counts", "of at least one record", hint="Nothing was charged or drawn.")
    edges = None
    if needed is not None and needed.unresolved:
        if not facts.again:
            raise SourceError(
                "private quantiles need a second pass: counts have no rows, and Spark may keep other rows of a person "
                "the next time. Give a file, a table or a data frame."
            )
        epsilon = _pure_epsilon(needed, terms.budget)
        edges = plan_quantiles(needed, epsilon=epsilon, neighbours=unit.neighbours, rows_per_person=unit.rows)
    _check_rounds(later.rounds, facts)
    released = tables.schema if later.released is None else later.released
    plan = plan_tables(
        tables.columns,
        tables.over(released),
        terms.budget,
        mechanism=terms.mechanism,
        calibration=terms.calibration,
        neighbours=unit.neighbours,
        split=later.split,
        total=facts.total,
        unit=unit.kind,
        rows=unit.rows,
        pure=() if edges is None else (edges.epsilon_spent,),
        extras=[each for step in later.rounds for each in step.buys],
        prices=facts.prices,
        quiet=quiet,
    )
    named = tuple(each.says for each in later.rounds for _ in each.buys)
    named = named if all(named) else ()
    plan = replace(plan, guarantee=replace(plan.guarantee, left_out=later.left_out, named=named))
    design = Design(
        plan=plan,
        schema=tables.schema,
        released=released,
        edges=edges,
        unit=unit,
        estimate=terms.estimate,
        total=facts.total,
        rounds=tuple(later.rounds),
        estimated=later.estimated,
        also=tables.also,
    )
    assert design.merges is not None  # what cannot be merged is refused here
    return design


def check_cells(design: Design, facts: Facts, *, many_cells: bool) -> None:
    """Refuse, before anything is charged, tables that have many more cells than records, unless they are wanted.

    Only public facts decide: the declared cells and the number of records as far as it is known.
    """
    shapes = [design.released.shape(names) for names in design.plan.columns] if design.released else []
    cells = [math.prod(shape) for shape in shapes]
    largest = max(cells, default=0)
    records = MANY_RECORDS if facts.records is None else max(facts.records, 1)
    if many_cells or largest <= MANY_CELLS or largest <= CELLS_PER_RECORD * records:
        return
    place = cells.index(largest)
    law = getattr(design.mechanisms[place], "law", None)
    noise = f" The noise of a cell has a standard deviation of {math.sqrt(law.variance):.3g}." if law else ""
    kept = FILE_PER_SHARE if getattr(design.mechanisms[place], "draws_shares", False) else FILE_PER_CELL
    memory = sum(cells) * MEMORY_PER_CELL + design.estimated * MEMORY_PER_ESTIMATE
    size = sum(cells) * kept + design.estimated * FILE_PER_SHARE
    told = f"{facts.records:,} records" if facts.records is not None else "an unknown number of records"
    raise InvalidArgument(
        "tables",
        f"of fewer cells: ({', '.join(design.plan.columns[place])}) has {largest:,} for {told}",
        hint=f"On average a cell holds {records / largest:.2g} of them.{noise} All tables take about "
        f"{memory / 2**30:.2g} GiB of memory and a file of about {size / 2**20:.0f} MiB. Take fewer columns or larger "
        "bins; or say many_cells=True (--yes). Nothing was charged.",
    )


def _check_rounds(rounds: Sequence[Round], facts: Facts) -> None:
    """Refuse what cannot be carried out, before anything is charged."""
    if len({each.name for each in rounds}) < len(rounds):
        raise InvalidArgument("rounds", "each with a name of its own", got=[each.name for each in rounds])
    for each in rounds:
        if (each.again and not facts.again) or (each.kernel is not None and not each.tables and not facts.rows):
            raise SourceError(
                f"{each.name!r} goes over the rows again, and this source cannot: counts have no rows, and those of "
                "Spark stay where they are. Give a file, a table, a data frame or a stream. Nothing was charged."
            )


def _pure_epsilon(schema: Schema, budget: Budget | None) -> float:
    """The pure ε that the stated shares of all quantile columns come to."""
    if budget is None:
        raise InvalidArgument("budget", "given", hint="Private quantiles cost budget; give edges to go without.")
    share = math.fsum(schema.shares().values())
    if budget.concentrated:  # ε-DP is ε²/2-zCDP
        return math.sqrt(2 * share * budget.epsilon) * (1 - 1e-15)
    if budget.order is None:
        return share * budget.epsilon
    order = budget.order

    def excess(epsilon: float) -> float:
        return math.log(pure_loss(epsilon, "replace-one").rdp(order) / (share * budget.epsilon))

    return largest_that_fits(excess, share * budget.epsilon)


# -- what a recipe asks for, one after the other, each with what was released before ---------------------------------


@dataclass(frozen=True, kw_only=True)
class Edges:
    """Private quantiles for the columns of the design that have none. The answer is the schema with edges."""


@dataclass(frozen=True, kw_only=True)
class Tables:
    """The fixed tables of the design, all at once. The answer is a tuple of releases in their order.

    Args:
        schema: of the source, with edges for all columns; None for counts without a declaration.
    """

    schema: Schema | None


@dataclass(frozen=True, kw_only=True)
class Further:
    """Tables of the same records, chosen from what was released before. The answer is releases, in this order.

    Args:
        round: the round of the design.
        weights: for the columns of each table, its part of the precision of the round.
        pools: for columns whose cells are pooled, as releases say: where each cell goes.
    """

    round: str
    weights: Mapping[tuple[str, ...], float]
    pools: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Sums:
    """Sums over the records by the kernel of a round, which bounds the part of each. The answer is the noisy sums.

    Args:
        round: the round of the design.
        parameters: what the kernel evaluates each record at: released, or computed from releases.
        columns: of the blocks that the kernel is given.
    """

    round: str
    parameters: Any
    columns: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Scores:
    """One number for each of some tables by the kernel of a round. The answer is the vector of them, with its noise.

    Args:
        round: the round of the design.
        parameters: what the tables are compared with: released, or computed from releases.
        tables: the columns of each.
        pools: for columns whose cells are pooled, as releases say: where each cell goes.
    """

    round: str
    parameters: Expected
    tables: tuple[tuple[str, ...], ...]
    pools: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A released model whose predictions are held against the rows.

    A row adds (±c, y): + where its class is the likeliest one, and y from −c to c for a log-loss from 0 to `clip`.

    Args:
        model: what predicts; it has nothing private.
        target: the class column.
        features: the columns to predict from.
        clip: the most that one row counts of the log-loss.
    """

    model: Any
    target: str
    features: tuple[str, ...]
    clip: float

    def __post_init__(self) -> None:
        convert(self, clip=check_positive)

    def steps(self, bound: int) -> int:
        """The largest whole c with c√2 within the bound of the sum."""
        return math.isqrt(bound**2 // 2)


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What tables are expected to hold, for scores that tell how far they are from it.

    The score of a table is Σ_cells φ(x, m) - φ(0, m) with slope clip(ln((k + ½)/m), ±clip) from k to k + 1 records, in
    whole multiples of `unit`: it ranks as x ln(x/m) - x + m does, and no record moves it by more than `clip`.

    Args:
        cells: for each table the expected counts m, of its shape.
        clip: the most that one record counts.
    """

    cells: tuple[FloatArray, ...]
    clip: float

    def __post_init__(self) -> None:
        convert(self, clip=check_positive)

    def steps(self, bound: int) -> int:
        """The largest whole slope c of each of P scores with c√P within the bound of their sum."""
        return math.isqrt(bound**2 // max(len(self.cells), 1))

    def unit(self, bound: int) -> float:
        """What one step of a score is worth."""
        return self.clip / max(self.steps(bound), 1)


Request = Edges | Tables | Further | Sums | Scores


# -- recipes ----------------------------------------------------------------------------------------------------------

Made = TypeVar("Made", covariant=True)

Steps = Generator[Request, Any, Made]
"""Requests to the session, each answered by what was released; returns what is made of the releases."""


class Recipe(Protocol[Made]):
    """How a model is fitted. It sees facts and releases, never a row or a count."""

    @property
    def what(self) -> str:
        """What a ledger writes beside the charge; public."""

    @property
    def tables(self) -> Tabulated:
        """The fixed tables."""

    def design(self, facts: Facts, terms: Terms) -> Design:
        """Everything that will be released, and bounds for what is decided later."""

    def follow(self, design: Design) -> Steps[Made]:
        """Ask for what was designed, step by step, and make the model of the answers."""


def first_tables(design: Design) -> Steps[tuple[Schema | None, tuple[Release, ...]]]:
    """The steps that every recipe begins with: edges where they are private, then the fixed tables."""
    schema = design.schema
    if design.edges is not None:
        schema = yield Edges()
    releases: tuple[Release, ...] = yield Tables(schema=schema)
    return schema, releases
