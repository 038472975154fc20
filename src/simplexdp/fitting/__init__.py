"""Asking: what the user grants, who pays, and from there designs, recipes and requests."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from ..accounting import PrivacyLoss
from ..accounting.filters import Filter
from ..budget import Budget, BudgetWord, Neighbours, Unit, UnitKind, check_budget, check_granted, check_whole, convert
from ..errors import InvalidArgument, PrivacyError, SimplexDPError, SourceError
from ..estimation import Method, check_method
from ..models.document import checksum
from ..planning import Calibration, MechanismName, Plan
from ..sampling import Entropy, SecureEntropy, entropy_from


@dataclass(frozen=True, kw_only=True)
class Terms:
    """One value for what every door of the library takes as keywords.

    Args:
        budget: what may be spent; None only without noise.
        mechanism: "auto", or the name of one.
        calibration: "exact", or "algorithm1" for the paper's.
        estimate: how probabilities are made of draws.
        unit: whose change is hidden.
        entropy: where randomness comes from.
        ledger: charged before any value is looked at.
        dataset: the name that the ledger knows the data by.
        many_cells: whether tables of many more cells than records are wanted all the same.
    """

    budget: Budget | None
    mechanism: MechanismName = "auto"
    calibration: Calibration = "exact"
    estimate: Method = "posterior-mean"
    unit: Unit = field(default_factory=Unit)
    entropy: Entropy = field(default_factory=SecureEntropy)
    ledger: LedgerLike | None = None
    dataset: str | None = None
    many_cells: bool = False

    def __post_init__(self) -> None:
        check_budget(self.budget)
        check_method(self.estimate)

    @classmethod
    def of(
        cls,
        budget: Budget | BudgetWord | None,
        *,
        neighbours: Neighbours = "replace-one",
        rows_per_person: int | None = None,
        person: str | None = None,
        entropy: Entropy | int | None = None,
        **granted: Any,
    ) -> Terms:
        """From the keywords of a public function; `granted` are fields of the same names."""
        return cls(
            budget=granted_budget(budget, granted.get("ledger"), granted.get("dataset")),
            unit=Unit(neighbours=neighbours, rows_per_person=rows_per_person, person=person),
            entropy=entropy_from(entropy),
            **granted,
        )

    @property
    def is_noisy(self) -> bool:
        """Whether anything is drawn at all: "none" publishes exact counts, marked as not private."""
        return self.mechanism != "none"


SHARES: dict[str, float] = {"remaining": 1.0, "half": 0.5}
"""Of what is left of a ledger, by the words for it."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a fit is designed from.

    Args:
        records: the number of records, said or found; None where it is not known.
        is_public: whether that number is public: replace-one with rows as the unit. Otherwise `records` is a guess from
            public knowledge, and what is counted later may differ.
        again: whether there can be several passes: over the rows themselves, or over one private copy of them.
        rows: whether kernels can be given single records; those of Spark stay where they are.
        prices: what a ledger charges by; None without one.
    """

    records: int | None
    is_public: bool
    again: bool = True
    rows: bool = True
    prices: Filter | None = None

    def __post_init__(self) -> None:
        if self.records is not None:
            convert(self, records=_whole)

    @property
    def total(self) -> float | None:
        """The public number of records, as mechanisms take it."""
        return float(self.records) if self.is_public and self.records is not None else None

    @property
    def size(self) -> float | None:
        """About how many records there are, by public knowledge: for choices that only accuracy depends on."""
        return None if self.records is None else float(self.records)


def _whole(name: str, value: int) -> int:
    return check_whole(name, value, at_least=0)


def granted_budget(budget: Budget | BudgetWord | None, ledger: LedgerLike | None, dataset: str | None) -> Budget | None:
    """The budget that an argument means: of a word, all or half of what the ledger has left for the data set.

    It is public like the rest of a ledger. Whoever spends in between makes the charge fail, never the guarantee.
    """
    budget = check_granted(budget)
    if not isinstance(budget, str):
        return budget
    if ledger is None:
        hint = "Give ledger= and dataset= (--ledger and --dataset)."
        raise InvalidArgument("budget", "a Budget where no ledger pays", got=budget, hint=hint)
    return ledger.remaining(check_dataset(dataset)).part(SHARES[budget])


# -- payment ----------------------------------------------------------------------------------------------------------
#
# Paying: what a ledger is to a fit, and the one way to values, which are looked at when they are paid for.
#
# Proof: docs/proofs/composition.md.

Result = TypeVar("Result")


class Charge(Protocol):
    """A payment in a ledger."""

    def seal(self, release_hash: str) -> None:
        """Record what was bought."""

    def fail(self, reason: str) -> None:
        """Record for the officer why nothing came of it, and close the data set."""


class Admitted(Protocol):
    """A registered data set."""

    @property
    def records(self) -> int | None:
        """How many records it has, where that is public."""


class AmountLike(Protocol):
    """What a data set has left."""

    def part(self, share: float) -> Budget:
        """A budget for this share of it."""


class LedgerLike(Protocol):
    """A ledger, as far as planning and drawing need it."""

    def remaining(self, dataset: str) -> AmountLike:
        """What a data set may still spend."""

    @property
    def filter(self) -> Filter:
        """What charges are priced by."""

    def charge(
        self, loss: PrivacyLoss, *, dataset: str, description: str, request_hash: str, unit: UnitKind = "row"
    ) -> Charge:
        """Pay before the draw, or raise BudgetExceeded."""

    def admit(self, dataset: str, source: Any, schema: Any, *, person: str | None = None) -> Admitted:
        """The registration of a source, if it may be asked about; reads no value."""


@dataclass(frozen=True, kw_only=True)
class Payment:
    """What a request has paid, or a request that pays nobody.

    Args:
        charge: in a ledger.
        dataset: the name that the ledger knows the data by.
    """

    charge: Charge | None = None
    dataset: str | None = None

    def read(self, work: Callable[[], Result]) -> Result:
        """Do what looks at values. What fails there fails because of them, and a refusal tells of them.

        With a ledger it is recorded for the officer, the data set is closed, and the analyst learns that it failed;
        warnings, which may speak of values too, are dropped. Without one there is nobody to keep it from, and the error
        says what it gives away.
        """
        result, told = self._attempt(work)
        if told is None:
            return result[0]
        if self.charge is None:
            raise SourceError(told)
        raise PrivacyError(told)

    def _attempt(self, work: Callable[[], Result]) -> tuple[tuple[Result, ...], str | None]:
        """The result, or what is told of a failure. No error leaves this frame, nor what its frames hold."""
        charge = self.charge
        if charge is None:
            try:
                return (work(),), None
            except SourceError as error:
                text = str(error)
            return (), text if _REVEALS in text else f"{text} {_REVEALS}"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return (work(),), None
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # some engines panic with errors that are no Exception
            reason = f"{type(error).__name__}: {error if isinstance(error, SimplexDPError) else ''}"
        try:
            charge.fail(reason)
            unrecorded = ""
        except SimplexDPError:
            unrecorded = " It could not be recorded, as the ledger cannot be written now."
        return (), (
            f"The request failed on the data of {self.dataset!r}, after it was charged. Why is recorded for the "
            f"officer alone, and the data set is closed until the officer opens it again.{unrecorded}"
        )


_REVEALS = (
    "(A refusal tells whoever sees it that such rows are there, and no budget covers that: cells for other and missing "
    "values avoid it, or a ledger, which registers the source first.)"
)


def pay(plan: Plan, ledger: LedgerLike | None, dataset: str | None, description: str, *, is_private: bool) -> Payment:
    """Pay for everything in the plan at once, before any value is read.

    `is_private` is False for seeded draws and for cells or rows that were chosen by the data: their loss is not that of
    the plan, and the ledger would add up less than is spent.
    """
    if ledger is None:
        return Payment()
    if any(mechanism.not_private for mechanism in plan.mechanisms):
        raise PrivacyError("a ledger cannot pay for exact counts: its budget is finite. Leave the ledger out.")
    if not is_private:
        raise PrivacyError(
            "a ledger cannot pay for what is not private: a seeded draw can be undone, and cells that were read off "
            "the rows tell of them. Leave out the seed, declare the columns, or leave out the ledger."
        )
    name = check_dataset(dataset)
    request = {"columns": plan.columns, "shapes": plan.shapes, "guarantee": plan.guarantee.to_body()}
    charge = ledger.charge(
        plan.guarantee.loss,
        dataset=name,
        description=description,
        request_hash=checksum(request),
        unit=plan.guarantee.unit,
    )
    return Payment(charge=charge, dataset=name)


def check_dataset(dataset: str | None) -> str:
    """The name that a ledger charges, which must be given."""
    if dataset is None:
        raise InvalidArgument("dataset", "the name of the data set that the ledger charges", got=dataset)
    return dataset
