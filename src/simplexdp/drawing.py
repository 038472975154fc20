"""Paying for a plan and drawing its tables: the only place where private counts go through a mechanism into a release.

Proof: docs/proofs/composition.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from ._version import __version__
from .accounting import PrivacyLoss
from .errors import InvalidArgument, PrivacyError
from .estimation import Method
from .mechanisms.registry import AnyMechanism
from .models.document import Document, checksum
from .models.guarantee import Guarantee
from .models.release import Release, reasons
from .planning import Plan
from .sampling.entropy import Entropy, entropy_from
from .schema import Schema
from .tables import CountTable, Unit, check_relation

Published = TypeVar("Published", bound=Document)


class Charge(Protocol):
    """A payment in a ledger."""

    def seal(self, release_hash: str) -> None:
        """Record what was bought."""


class LedgerLike(Protocol):
    """A ledger, as far as planning and drawing need it."""

    @property
    def order(self) -> float:
        """The Rényi order of every charge."""

    def charge(
        self, loss: PrivacyLoss, *, dataset: str, description: str, request_hash: str, unit: Unit = "row"
    ) -> Charge:
        """Pay before the draw, or raise BudgetExceeded."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Tables that were drawn and paid for; the payment waits for what is made of them.

    Args:
        releases: in the order of the tables, second looks after them.
    """

    releases: tuple[Release, ...]
    _payment: Charge | None = field(default=None, repr=False)

    def publish(self, document: Published) -> Published:
        """Record in the ledger what was bought, by the checksum that its file has, and hand it back.

        Whatever else is drawn from the budget of the fit is drawn before, so that the checksum covers all of it.
        """
        if self._payment is not None:
            self._payment.seal(checksum(document.to_body()))
        return document


def draw_tables(
    tables: Sequence[CountTable],
    plan: Plan,
    *,
    schema: Schema | None = None,
    method: Method = "posterior-mean",
    entropy: Entropy | int | None = None,
) -> tuple[Release, ...]:
    """Draw each table once. Whoever has a ledger charges it first with `charge_plan`."""
    source = entropy_from(entropy)
    guarantee = plan.guarantee
    for table, shape in zip(tables, plan.shapes, strict=True):
        if table.shape != shape:
            raise InvalidArgument("tables", f"of the planned shape {shape}", got=table.shape)
        if (table.unit, table.rows_per_person or 1) != (guarantee.unit, guarantee.rows):
            raise InvalidArgument("tables", f"counted by {guarantee.unit}", got=table.unit)
    for table in tables:
        check_relation(table.relations, guarantee.neighbours, guarantee.unit)
    if guarantee.total_is_public and len({int(table.private_counts().sum()) for table in tables}) > 1:
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
        counts = table.private_counts()
        part = schema.select(table.columns) if schema is not None else None
        not_private = reasons(source.kind, mechanism.name, part)
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
                software=f"simplexdp {__version__}",
            )
        )
    return tuple(releases)


def charge_plan(plan: Plan, ledger: LedgerLike | None, dataset: str | None, description: str) -> Charge | None:
    """Pay for everything in the plan at once, before any draw."""
    if ledger is None:
        return None
    if dataset is None:
        raise InvalidArgument("dataset", "the name of the data set that the ledger charges", got=dataset)
    if any(mechanism.name == "none" for mechanism in plan.mechanisms):
        raise PrivacyError("a ledger cannot pay for exact counts: its budget is finite. Leave the ledger out.")
    request = {"columns": plan.columns, "shapes": plan.shapes, "guarantee": plan.guarantee.to_body()}
    return ledger.charge(
        plan.guarantee.loss,
        dataset=dataset,
        description=description,
        request_hash=checksum(request),
        unit=plan.guarantee.unit,
    )
