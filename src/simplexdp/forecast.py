"""`plan`: what a release would cost and lose, before anything is spent or read.

The loss of a table is forecast on a public stand-in for it: Zipf-distributed counts of the stated total, or counts that
the user knows to be public. That of a model with a second look, Newton rounds or a graph follows from no table alone:
on request the fit itself is run, with seeded noise, on made-up populations (`StandInLoss`). Nothing here touches
sensitive data.
"""

from __future__ import annotations

import contextlib
import math
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from .budget import Budget, Neighbours, Unit, check_positive, check_whole
from .errors import Infeasible, InvalidArgument, PrivacyWarning
from .estimation import Method
from .fitting import Facts, LedgerLike, Terms
from .fitting.design import Design, Recipe, Tabulated
from .ledger import opened
from .mechanisms import Dirichlet, private_mechanisms
from .mechanisms.base import TableMechanism, checked_counts
from .mechanisms.dirichlet import zipf_profile
from .mechanisms.sums import GaussianTables
from .models.certificate import Spent, steps_of
from .pipeline import TablesRecipe
from .planning import MechanismName, Plan, Split, warn_of_weak_budget
from .schema import Schema, SchemaLike
from .shown import Shown
from .stand_ins import FITS, MOST_RECORDS, REPEATED, Designed, Parts, Progress, StandInLoss, TableStandIn, stand_in_loss
from .utility import tail_bound

Tables = Sequence[Sequence[str] | int]
_RELEASES = 60
"""Simulated for one figure: many different tables get fewer each, since their mean is as certain."""
_LEAST, _MOST = 3, 24
"""Releases of one table."""
_ALIKE = 48
"""Up to so many different tables each is simulated; of more, one stands for all of about its size and noise."""
_STEP = 1.1
"""Ratio of cells, and of noise, within which they do."""
_PRECISE = 1.01
"""Ratio to which the smallest ε and the smallest number of records are found."""


@dataclass(frozen=True, kw_only=True)
class TableForecast:
    """One table of a plan."""

    columns: tuple[str, ...]
    cells: int
    share: float
    mechanism: str
    noise: float
    expected_kl: float


@dataclass(frozen=True, kw_only=True, repr=False)
class Forecast(Shown):
    """A plan with what it is expected to lose.

    `alternatives` holds the mean expected KL a table of each rival at this budget, `best` the smallest of them, where
    they were asked for. Then `theorem2` is the paper's bound on the KL of a raw Dirichlet draw that holds with
    probability 0.95, beside the exact expectation of the same draw, for the first table. `on_a_public_stand_in` is what
    the whole fit lost on made-up populations, where that was asked for.
    """

    design: Design
    tables: tuple[TableForecast, ...]
    total: float | None
    alternatives: dict[str, float]
    theorem2: float | None
    raw_dirichlet: float | None
    on_a_public_stand_in: StandInLoss | None = None

    def _columns(self) -> dict[str, list[Any]]:
        told: dict[str, list[Any]] = {"table": [" × ".join(table.columns) for table in self.tables]}
        return told | {
            name: [getattr(table, name) for table in self.tables]
            for name in ("cells", "share", "mechanism", "noise", "expected_kl")
        }

    def _facts(self) -> list[str]:
        return [str(step) for step in self.steps]

    def __repr__(self) -> str:
        return f"Forecast({len(self.tables)} tables, {self.cells:,} cells, expected KL {self.expected_kl:.4g})"

    @property
    def best(self) -> str | None:
        """The rival that would lose least; None where none was asked for."""
        return min(self.alternatives, key=self.alternatives.__getitem__, default=None)

    @property
    def cells(self) -> int:
        """Of all tables."""
        return self.plan.cells

    @property
    def plan(self) -> Plan:
        """The fixed tables and what follows them."""
        return self.design.plan

    @property
    def steps(self) -> tuple[Spent, ...]:
        """What the budget will be spent on."""
        return steps_of(self.design.guarantee)

    @property
    def expected_kl(self) -> float:
        """Mean over the tables."""
        return float(np.mean([table.expected_kl for table in self.tables]))


def plan(
    tables: Tables | Recipe[Any],
    *,
    budget: Budget,
    schema: SchemaLike | None = None,
    total: float | None = None,
    like: ArrayLike | None = None,
    mechanism: MechanismName = "auto",
    neighbours: Neighbours = "replace-one",
    split: Split = "equal",
    estimate: Method = "posterior-mean",
    rows_per_person: int | None = None,
    repeats: int | None = None,
    alternatives: Sequence[MechanismName] | Literal["all"] = (),
    for_analysis: Sequence[Sequence[str]] = (),
    ledger: LedgerLike | str | os.PathLike[str] | None = None,
    stand_in: bool = False,
    progress: Progress | None = None,
) -> Forecast:
    """Forecast a release: sizes, mechanisms, noise, expected KL and, on request, what other mechanisms would lose.

    What is forecast is the design that a fit with the same facts carries out.

    >>> from simplexdp import Budget, plan
    >>> forecast = plan([6], budget=Budget(epsilon=1, delta=1e-5), total=1283, alternatives="all")
    >>> forecast.best in forecast.alternatives, round(forecast.tables[0].noise, 2)
    (True, 2.25)

    Args:
        tables: the columns of each table (with `schema`), the number of cells of each, or the recipe of a model.
        budget: for all of them together.
        schema: of the columns.
        total: the number of records; a guess is enough where it is not public. Default: of `like`, or 1000.
        like: public counts that the tables may resemble; Zipf's law otherwise.
        mechanism: of the plan.
        neighbours: the relation.
        split: of the budget over the tables; a recipe has its own.
        estimate: the method whose loss is forecast.
        rows_per_person: plan for persons with up to this many rows.
        repeats: simulated releases of each table; by default 24 for a few small tables, fewer of large or of many.
        alternatives: rival mechanisms to compare with, or "all" that are registered; none by default: each is
            calibrated and simulated as the plan itself is.
        for_analysis: columns that are to share a released table, as `BayesianNetwork` takes them: each gets a table of
            its own where no other has them all.
        ledger: plan for a fit that this ledger pays; nothing is charged.
        stand_in: for the recipe of a model: run its fit on made-up public populations, which takes seconds the first
            time and is kept in the cache folder of the user; see `StandInLoss`.
        progress: called with the parts done and the parts in all.
    """
    if progress is not None and not callable(progress):
        raise InvalidArgument("progress", "called with the parts done and in all", got=type(progress).__name__)
    rivals = tuple(private_mechanisms()) if alternatives == "all" else tuple(alternatives)
    recipe: Any = tables if hasattr(tables, "follow") else tables_recipe(tables, schema, split)
    if for_analysis:
        if not hasattr(recipe, "for_analysis"):
            raise InvalidArgument("for_analysis", "left out for this model", hint="Networks and tables take it.")
        recipe = recipe.for_analysis(for_analysis)
    if stand_in and isinstance(recipe, TablesRecipe):
        raise InvalidArgument("stand_in", "left out for tables", hint="It shows what the fit of a model would lose.")
    counts = None if like is None else checked_counts(like).ravel()
    said = total is not None or counts is not None
    if total is None:
        total = 1000.0 if counts is None else float(counts.sum())
    total = check_positive("total", total)
    repeats = None if repeats is None else check_whole("repeats", repeats)
    unit = Unit(neighbours=neighbours, rows_per_person=rows_per_person)
    paying = opened(ledger)
    facts = Facts(
        records=round(total) if said or unit.total_is_public else None,
        is_public=unit.total_is_public,
        prices=None if paying is None else paying.filter,
    )
    if unit.total_is_public and said:
        warn_of_weak_budget(budget, total)
    else:
        warn_of_weak_budget(budget, None)

    def made(name: MechanismName, facts: Facts = facts) -> Design:
        terms = Terms(budget=budget, mechanism=name, estimate=estimate, unit=unit)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)  # said above, and only where N was given
            design: Design = recipe.design(facts, terms)
            return design

    def losses(design: Design) -> list[float]:
        return _losses(design, TableStandIn(counts=counts, total=total, method=estimate, repeats=repeats))

    parts = Parts(progress, 1 + len(rivals) + stand_in * len(REPEATED) * FITS)
    chosen = made(mechanism)
    lost = losses(chosen)
    parts.done()
    compared: dict[str, float] = {}
    for name in rivals:
        with contextlib.suppress(Infeasible):  # a Dirichlet draw and balanced noise need a public total
            compared[name] = float(np.mean(losses(made(name))))
        parts.done()
    raw: float | None = None
    theorem2: float | None = None
    shapes = chosen.plan.shapes
    if unit.total_is_public and rivals and not (budget.is_pure or budget.concentrated):
        raw, theorem2 = _raw_dirichlet(budget, len(shapes), math.prod(shapes[0]), total)
    simulated: StandInLoss | None = None
    if stand_in:
        records = min(round(total), MOST_RECORDS)
        design = chosen if records == round(total) else made(mechanism, replace(facts, records=records))
        simulated = stand_in_loss(Designed(recipe=recipe, made=design), budget, records, parts)
    rows = zip(chosen.plan.columns, shapes, _table_shares(chosen), _with_look(chosen), lost, strict=True)
    return Forecast(
        design=chosen,
        tables=tuple(
            TableForecast(
                columns=tuple(names),
                cells=math.prod(shape),
                share=share,
                mechanism=str(each),
                noise=math.sqrt(each.noise_variance),
                expected_kl=max(kl, 0.0),  # rounding may put it below
            )
            for names, shape, share, each, kl in rows
        ),
        total=total,
        alternatives=compared,
        theorem2=theorem2,
        raw_dirichlet=raw,
        on_a_public_stand_in=simulated,
    )


def tables_recipe(tables: Tables, schema: SchemaLike | None = None, split: Split = "equal") -> TablesRecipe:
    """The recipe of some tables, given by their columns or by their numbers of cells."""
    declared = None if schema is None else Schema.given(schema)
    columns, shapes = _tables(tables, declared)
    return TablesRecipe(tables=Tabulated(columns=tuple(columns), schema=declared, shapes=tuple(shapes)), split=split)


def _with_look(design: Design) -> list[TableMechanism]:
    """What each table is known by in the end: with further looks at the same ones, as if spread as the first."""
    rounds = [each for each in design.rounds if each.kernel is None and not each.again]
    looks = [look for each in rounds for look in design.bought[each.name] if isinstance(look, GaussianTables)]
    if not looks:
        return list(design.mechanisms)
    first = [1 / each.noise_variance for each in design.mechanisms]
    more = float(sum(look.precision for look in looks))
    both = [own + more * own / math.fsum(first) for own in first]
    return [replace(looks[0], sigma=precision**-0.5).spread([1.0])[0] for precision in both]


def _table_shares(design: Design) -> list[float]:
    """The part of the loss of all fixed tables that each takes."""
    guarantee = design.guarantee
    known = {each: each.loss(guarantee.neighbours, rows=guarantee.rows).rdp(1) for each in set(design.mechanisms)}
    whole = math.fsum(known[each] for each in design.mechanisms)
    return [known[each] / whole if 0 < whole < math.inf else 1 / len(design.mechanisms) for each in design.mechanisms]


def smallest_epsilon(
    target_kl: float, tables: Tables, *, budget: Budget, progress: Progress | None = None, **settings: Any
) -> float:
    """About the smallest ε (δ or order as in `budget`) at which the expected KL of `plan` is at most the target."""
    target_kl = check_positive("target_kl", target_kl)

    def kl(epsilon: float) -> float:
        return plan(tables, budget=replace(budget, epsilon=epsilon), **settings).expected_kl

    return _search(kl, target_kl, (1e-3, 20.0), progress)


def smallest_epsilon_for_cell(
    error: float, tables: Tables, *, budget: Budget, progress: Progress | None = None, **settings: Any
) -> float:
    """The smallest ε, to 1 %, at which the noise of every cell has at most this standard deviation.

    An interval of 95 % around a count that is far from zero is 3.92 times as wide. Nothing is simulated.

    >>> from simplexdp import Budget
    >>> found = smallest_epsilon_for_cell(10.0, [6], budget=Budget(epsilon=1, delta=1e-6), total=1000)
    >>> 0.1 < found < 0.6
    True
    """
    error = check_positive("error", error)

    def worst(epsilon: float) -> float:
        asked = replace(budget, epsilon=epsilon)
        made = plan(tables, budget=asked, **{**settings, "alternatives": (), "stand_in": False}).design
        return max(math.sqrt(mechanism.noise_variance) for mechanism in made.mechanisms)

    return _search(worst, error, (1e-3, 20.0), progress)


def smallest_total(
    target_kl: float, tables: Tables, *, budget: Budget, progress: Progress | None = None, **settings: Any
) -> int:
    """About the smallest number of records at which the expected KL of `plan` is at most the target."""
    target_kl = check_positive("target_kl", target_kl)

    def kl(total: float) -> float:
        return plan(tables, budget=budget, total=round(total), **settings).expected_kl

    return math.ceil(_search(kl, target_kl, (1.0, 1e12), progress))


def _search(
    kl: Callable[[float], float], target: float, inside: tuple[float, float], progress: Progress | None
) -> float:
    """Bisection on a logarithmic scale to 1 %; where the loss is simulated, the forecast itself is not more precise."""
    low, high = inside
    parts = Parts(progress, 1 + math.ceil(math.log2(math.log(high / low) / math.log(_PRECISE))))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # of budgets and sizes that are only tried
        if kl(high) > target:
            raise Infeasible(f"a target of {target:g} is not reached within any sensible range")
        parts.done()
        while high / low > _PRECISE:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if kl(middle) <= target else (middle, high)
            parts.done()
    return high


def _tables(tables: Tables, schema: Schema | None) -> tuple[list[tuple[str, ...]], list[tuple[int, ...]]]:
    if not tables:
        raise InvalidArgument("tables", "at least one")
    columns: list[tuple[str, ...]] = []
    shapes: list[tuple[int, ...]] = []
    for i, table in enumerate(tables):
        if not isinstance(table, Iterable):
            columns.append((f"table {i + 1}",))
            shapes.append((check_whole("tables", table, at_least=2),))
        elif schema is None:
            raise InvalidArgument("schema", "given when tables are named by their columns")
        else:
            columns.append(tuple(table))
            shapes.append(schema.shape(tuple(table)))
    return columns, shapes


def _losses(design: Design, stand_in: TableStandIn) -> list[float]:
    """The expected KL of each table; equal ones are simulated once, and of very many those that are nearly equal."""
    keys = list(zip(_with_look(design), (math.prod(shape) for shape in design.plan.shapes), strict=True))
    kinds: dict[Any, tuple[TableMechanism, int]] = {key: key for key in keys}
    about = {key: key for key in kinds}
    if len(kinds) > _ALIKE:
        about = {key: (type(key[0]), _rung(key[1]), _rung(math.sqrt(key[0].noise_variance))) for key in kinds}
        kinds = {about[key]: key for key in kinds}
    each = max(_LEAST, _RELEASES // len(kinds))
    found = {}
    for kind, (mechanism, cells) in kinds.items():
        # The loss of a large table is a mean over its cells already, and takes longer.
        usual = min(each, _MOST, max(4, 1500 // cells))
        found[kind] = stand_in.loss(mechanism, cells, design.guarantee, stand_in.repeats or usual)
    return [found[about[key]] for key in keys]


def _rung(size: float) -> int:
    return round(math.log(max(size, 1e-9)) / math.log(_STEP))


def _raw_dirichlet(budget: Budget, tables: int, cells: int, total: float) -> tuple[float, float | None]:
    """Exact expected KL of a raw Dirichlet draw, and the η that Theorem 2 bounds it by with probability 0.95."""
    mechanism = Dirichlet.calibrate(budget, tables=tables, total=total, cells=cells)
    expected = mechanism.expected_kl_of_profile(zipf_profile(total, cells))
    etas = np.geomspace(1e-6, 1e3, 400)
    inside = [eta for eta in etas if tail_bound(mechanism, total=total, cells=cells, eta=float(eta)) <= 0.05]
    return expected, float(inside[0]) if inside else None
