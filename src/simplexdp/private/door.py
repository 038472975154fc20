"""The one door: a recipe and a source go in, what the recipe makes of releases comes out.

The order is facts, design, charge, values. Facts are what is public before any value is looked at; the design follows
from them alone; a ledger is charged for all of it; only then are values counted and drawn. So no refusal can depend on
a value before it is paid for.

Proof: docs/proofs/composition.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..budget import check_whole
from ..cores import threads_from
from ..errors import InvalidArgument, PrivacyError, PrivacyWarning, warn
from ..fitting import Facts, Terms, check_dataset, pay
from ..fitting.design import Recipe, check_cells
from ..schema import Schema
from .counting import (
    Identity,
    Passes,
    Progress,
    Seen,
    can_be_read_again,
    check_columns,
    check_size,
    check_source,
    identity_of,
    number_of_records,
    seen,
    stays_elsewhere,
    with_layout,
)
from .counting.persons import Bound
from .counting.plan import MEMORY_LIMIT
from .counting.source import Tabled
from .given import Given
from .session import Session
from .tables import CountTable

Made = TypeVar("Made")


def fit(
    recipe: Recipe[Made],
    source: Any,
    terms: Terms,
    *,
    records: int | None = None,
    progress: Progress | None = None,
    threads: int | None = None,
) -> Made:
    """Follow a recipe over the rows of a source.

    Args:
        recipe: what to make.
        source: rows; see `count`.
        terms: what may be spent, and for whose protection.
        records: the public number of records, where the source does not tell it without being read; under add-remove
            and for persons a guess, which only accuracy depends on.
        progress: called with the rows done and the rows in all.
        threads: that count; by default as many as the machine grants.
    """
    working = threads_from(threads)
    tables, unit = recipe.tables, terms.unit
    if progress is not None and not callable(progress):
        raise InvalidArgument("progress", "called with the rows done and the rows in all", got=type(progress).__name__)
    check_source(source)
    looked = seen(with_layout(source, tables.schema))
    unit.check(looked.relations)
    bound = Bound.of(unit.rows_per_person, unit.person, terms.entropy)
    needed = tables.needed
    assert needed is not None
    assert tables.schema is not None

    # Facts
    identity = identity_of(source)
    facts = _facts(source, looked, needed, records, terms, working)

    # Design
    design = recipe.design(facts, terms)
    check_size(tables.schema, list(design.plan.columns))
    check_cells(design, facts, many_cells=terms.many_cells)
    for each in design.rounds:
        if 8 * design.counted(each) > MEMORY_LIMIT:
            hint = "Bins are merged after the count. Nothing was charged."
            wanted = f"of at most {MEMORY_LIMIT // 8} counted cells each"
            raise InvalidArgument("rounds", wanted, got=design.counted(each), hint=hint)
    if isinstance(looked.source, Tabled):
        looked.source.check(tables.schema, design.plan.columns, unit.rows_per_person, unit.person)
    check_columns(source, [*needed.names, *([] if unit.person is None else [unit.person])])

    # Charge
    private = terms.entropy.is_private and tables.schema.is_private
    payment = pay(design.plan, terms.ledger, terms.dataset, recipe.what, is_private=private)

    # Values
    told = progress if terms.ledger is None or unit.total_is_public else None  # the number of rows done is private
    once = design.several and not can_be_read_again(source, in_order=unit.person is not None)
    copied = design.copied if once and facts.rows else None
    passes = Passes(source, facts, bound, told, looked, identity, copied, working)
    if once and not facts.rows:
        payment.read(passes.keep)
    made = Session(passes, design, terms.entropy, payment).run(recipe)
    if terms.ledger is None and private and terms.is_noisy:
        _warn_of_repeats(identity, needed)
    return made


def fit_given(recipe: Recipe[Made], given: Given, terms: Terms) -> Made:
    """Follow a recipe over counts that were made elsewhere; it has one table and asks for no rows."""
    terms.unit.check(given.relations)
    public = terms.unit.total_is_public
    total = given.records() if public else None
    prices = None if terms.ledger is None else terms.ledger.filter
    facts = Facts(
        records=None if total is None else int(total), is_public=public, again=False, rows=False, prices=prices
    )
    design = recipe.design(facts, terms)
    private = terms.entropy.is_private and given.is_private
    payment = pay(design.plan, terms.ledger, terms.dataset, recipe.what, is_private=private)
    return Session(_Counted(given), design, terms.entropy, payment).run(recipe)


class _Counted:
    """The rows behind counts, as far as they are known."""

    def __init__(self, given: Given) -> None:
        self._given: Given | None = given

    def count(self, schema: Schema | None, tables: Sequence[Sequence[str]]) -> list[CountTable]:  # noqa: ARG002
        """The counts. **Private**."""
        if self._given is None:
            raise PrivacyError("what was paid for is published, and the counts are not read again for it.")
        return [self._given.table()]

    def blocks(self, schema: Schema, columns: Sequence[str]) -> Iterator[dict[str, NDArray[np.int64]]]:  # noqa: ARG002
        """There are no rows. **Private**."""
        raise PrivacyError("counts have no rows to add up.")

    def close(self) -> None:
        """Let go of the counts."""
        self._given = None


def _facts(source: Any, looked: Seen, schema: Schema, records: int | None, terms: Terms, threads: int) -> Facts:
    """What the design may rest on: said, registered, or found without a look at any value.

    Where the number of records is not public it is never found, but may be guessed by the caller.
    """
    ledger, public = terms.ledger, terms.unit.total_is_public
    said = None if records is None else check_whole("records", records, at_least=0)
    known = None
    if ledger is not None:
        known = ledger.admit(check_dataset(terms.dataset), source, schema, person=terms.unit.person).records
        if public and None not in (said, known) and said != known:
            raise InvalidArgument("records", f"the registered number, {known}, or left out", got=said)
    if said is None and public:
        said = number_of_records(looked.source, threads) if known is None and ledger is None else known
    return Facts(
        records=said,
        is_public=public,
        # Where rows stay elsewhere their order does too, and with it which rows of a person a pass would keep.
        again=not (
            isinstance(looked.source, Tabled) or (stays_elsewhere(looked.source) and terms.unit.person is not None)
        ),
        rows=not stays_elsewhere(looked.source),
        prices=None if ledger is None else ledger.filter,
    )


_FITTED: dict[str, set[str]] = {}
"""Columns that were fitted in this process, by the place of their source; "" once it was warned of them."""


def _warn_of_repeats(identity: Identity, schema: Schema) -> None:
    """Once a process: fits of the same rows add up, and without a ledger nobody adds them."""
    known = _FITTED.setdefault(identity.place, set())
    again = known.intersection(schema.names)
    known.update(schema.names)
    if again and "" not in _FITTED:
        _FITTED[""] = set()
        warn(
            f"This process has fitted {'these files' if identity.parts else 'columns of these names'} before, "
            "without a ledger. Each fit has its own guarantee; where they see the same people, as in cross-validation, "
            "a grid search or a second try, the budgets add up. Pass ledger= and dataset= to keep count.",
            PrivacyWarning,
        )
