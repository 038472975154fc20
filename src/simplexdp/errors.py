"""The one exception tree. Messages name the argument, the expectation and a hint, and never a private value."""

from __future__ import annotations


class SimplexDPError(Exception):
    """Everything this library raises on purpose is one of these."""


class InvalidArgument(SimplexDPError, ValueError):
    """An argument is outside what the function accepts.

    Args:
        name: the argument as the caller knows it.
        expectation: what it must be, completing the sentence "`name` must be ...".
        got: the public value that was given; leave it out for anything private.
        hint: what to do about it.
    """

    def __init__(self, name: str, expectation: str, *, got: object = None, hint: str = "") -> None:
        self.name, self.expectation, self.hint = name, expectation, hint
        text = f"`{name}` must be {expectation}"
        if got is not None:
            text += f", got {got!r}"
        super().__init__(f"{text}. {hint}".rstrip())


class Infeasible(SimplexDPError, ValueError):
    """No parameters reach the target; `floor` is the best value that can be reached, where it is known."""

    def __init__(self, message: str, *, floor: float | None = None) -> None:
        self.floor = floor
        super().__init__(message)


class NumericalError(SimplexDPError, ArithmeticError):
    """A guarantee could not be computed to the precision it needs; nothing is returned rather than a guess."""


class PrivacyError(SimplexDPError):
    """Something would be read from the sensitive data that no budget covers; the message names the opt-out."""


class BudgetExceeded(PrivacyError):
    """The ledger does not hold enough budget for the request; nothing was drawn.

    `left` and `requested` are public: Rényi ε at the ledger's order.
    """

    def __init__(self, message: str, *, left: float | None = None, requested: float | None = None) -> None:
        self.left, self.requested = left, requested
        super().__init__(message)


class LedgerUnavailable(SimplexDPError, OSError):
    """The ledger cannot be read or written now (locked, no space, no permission); nothing was drawn."""


class SchemaError(InvalidArgument):
    """A schema contradicts itself or a file of one cannot be read."""


class SourceError(SimplexDPError):
    """A source of rows is missing a column, has a wrong type, breaks a schema rule or cannot be read."""


class FormatError(SimplexDPError, ValueError):
    """A release, model or ledger file is damaged, was changed by hand or has a newer format."""


class MissingExtra(SimplexDPError, ImportError):
    """An optional package is needed; the message names the extra to install."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed. Install it with: python -m pip install 'simplexdp[{extra}]'")
