"""The one exception tree. Messages name the argument, the expectation and a hint, and never a private value."""

from __future__ import annotations

import inspect
import os
import sys
import warnings
from collections.abc import Callable
from functools import update_wrapper
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")


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
        near = "" if "Did you mean" in hint else nearest(got, expectation)
        super().__init__(f"{text}. {near}{hint}".rstrip())


def nearest(got: object, expectation: str) -> str:
    """For an expectation of the form "one of a, b, c" the nearest of them as a question, if one is near.

    >>> nearest("gausian", "one of auto, polya, gaussian")
    "Did you mean 'gaussian'? "
    """
    if not (isinstance(got, str) and expectation.startswith("one of ")):
        return ""
    from difflib import get_close_matches

    known = [word.strip(" '") for word in expectation.removeprefix("one of ").split(",")]
    close = get_close_matches(got, known, n=1)
    return f"Did you mean {close[0]!r}? " if close and close[0] != got else ""


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


class PrivacyWarning(UserWarning):
    """What was asked for is allowed and weaker than it looks: a large ε, a δ above 1/N, repeated fits."""


class UtilityWarning(UserWarning):
    """The guarantee holds, but something that would have helped the result was left out; the message says what."""


def warn(message: str, category: type[Warning]) -> None:
    """A warning that points at the line outside of this library that led to it."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == __package__:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


class MissingExtra(SimplexDPError, ImportError):
    """An optional package is needed; the message names the extra to install."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed. Install it with: python -m pip install 'simplexdp[{extra}]'")


def discreet(function: Callable[P, R]) -> Callable[P, R]:
    """A function near private values, whose errors leave it with nothing but their message.

    `raise ... from None` hides the error of an engine, which quotes values, and keeps it in `__context__`; and every
    frame of a traceback keeps its variables, among them the rows. Here both are dropped where the caller begins: the
    error is raised anew, outside of any handler, in a frame that has let go of its arguments. With SIMPLEXDP_DEBUG=1
    in the environment all is kept, for those who may see the data.
    """
    bare, generator = _bare, cast(Any, function)

    def door(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            failure = bare(error)
        del args, kwargs
        try:
            raise failure
        finally:
            del failure  # the error holds this frame, and this frame must not hold the error

    def blocks(*args: Any, **kwargs: Any) -> Any:
        made = generator(*args, **kwargs)
        del args, kwargs
        while True:
            try:
                block = next(made)
            except StopIteration:
                return
            except Exception as error:
                failure = bare(error)
                break
            yield block
        del made
        try:
            raise failure
        finally:
            del failure

    inner = cast(FunctionType, function)
    outer = cast(FunctionType, blocks if inspect.isgeneratorfunction(function) else door)
    # With the names of the module it stands in, or doctest would take its examples for those of another module.
    made = FunctionType(outer.__code__, inner.__globals__, outer.__name__, None, outer.__closure__)
    return cast(Callable[P, R], update_wrapper(made, inner))


def _bare(error: Exception) -> Exception:
    """The error without what it came from, notes and frames."""
    if os.environ.get("SIMPLEXDP_DEBUG"):
        return error
    error.__cause__ = error.__context__ = None
    error.__suppress_context__ = False
    error.__dict__.pop("__notes__", None)
    return error.with_traceback(None)
