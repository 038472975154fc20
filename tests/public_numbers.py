"""Every public callable that takes numbers, found by its annotations."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

MODULES = [
    "accounting",
    "accounting.conversion",
    "accounting.loss",
    "accounting.paper",
    "audit",
    "budget",
    "counting",
    "estimation",
    "fitting",
    "forecast",
    "learn",
    "ledger",
    "ledger.amount",
    "mechanisms",
    "mechanisms.auto",
    "mechanisms.base",
    "mechanisms.dirichlet",
    "mechanisms.sums",
    "models",
    "models.guarantee",
    "network",
    "noisy",
    "pipeline",
    "planning",
    "plots",
    "quantiles",
    "report",
    "sampling.dirichlet",
    "sampling.discrete",
    "sampling",
    "sampling.polya",
    "schema",
    "synthetic",
    "private.counting",
    "private.tables",
    "utility",
]
"""What users import from, and what files and other packages are likely to call. The command line converts texts."""

NUMBER = re.compile(r"\b(int|float|Fraction|ArrayLike|Split)\b")


def callables() -> dict[str, Any]:
    """By the name they are defined under: functions, classes, and the methods of classes."""
    found: dict[str, Any] = {}
    for name in ["", *MODULES]:
        module = importlib.import_module(f"simplexdp.{name}".rstrip("."))
        listed = getattr(module, "__all__", None)
        names = listed or [k for k, v in vars(module).items() if getattr(v, "__module__", None) == module.__name__]
        for each in names:
            item = getattr(module, each)
            if each.startswith("_") or not callable(item) or not hasattr(item, "__qualname__"):
                continue
            home = f"{item.__module__.removeprefix('simplexdp.')}.{item.__qualname__}"
            if inspect.isclass(item):
                if not issubclass(item, Exception | Warning):
                    found[home] = item
                    found |= {f"{home}.{key}": method for key, method in methods(item)}
            else:
                found[home] = item
    return found


def methods(item: type) -> Iterator[tuple[str, Any]]:
    """What a class defines or inherits from ours, and its users call."""
    for key in dir(item):
        raw = inspect.getattr_static(item, key)
        method = raw.__func__ if isinstance(raw, classmethod | staticmethod) else raw
        ours = inspect.isfunction(method) and method.__module__.startswith("simplexdp")
        if ours and (not key.startswith("_") or key == "__mul__"):
            yield key, method


def numbers(item: Any) -> dict[str, str]:
    """The parameters that are numbers, or sequences of numbers, with their annotations; randomness is no number."""
    if inspect.isclass(item) and issubclass(item, BaseModel):
        annotations = {name: str(field.annotation) for name, field in item.model_fields.items()}
    else:
        try:
            signature = inspect.signature(item)
        except ValueError:
            return {}
        annotations = {name: str(each.annotation) for name, each in signature.parameters.items()}
    return {
        name: text
        for name, text in annotations.items()
        if NUMBER.search(text) and "Entropy" not in text and "Callable" not in text and "tuple[tuple" not in text
    }


def public_numbers() -> dict[str, dict[str, str]]:
    """For each public callable its parameters that are numbers, with their annotations."""
    return {name: found for name, item in sorted(callables().items()) if (found := numbers(item))}
