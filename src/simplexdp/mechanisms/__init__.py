"""Mechanisms: frozen values with an exact loss, a calibration and a release; and which ones there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from ..errors import InvalidArgument
from .balanced import BalancedLaplace
from .base import Draw, Mechanism, Parametrised, TableMechanism
from .dirichlet import Dirichlet
from .noise import Gaussian, Laplace, NoNoise
from .polya import Polya
from .sums import GaussianTables, NoisySum, Step

AnyMechanism = TableMechanism
AnyClass = TypeVar("AnyClass", bound=type[Parametrised])

_TABLES: dict[str, type[TableMechanism]] = {}
_STEPS: dict[str, type[Step]] = {}


def register(cls: AnyClass) -> AnyClass:
    """Make a mechanism of tables, or a step that follows them, known by its name; refused if the name is taken.

    A mechanism of tables says for each parameter what a file may hold: files come from anywhere.
    """
    if cls.name in (*_TABLES, *_STEPS, "auto", "all"):
        raise InvalidArgument("name", "a name that no other mechanism has", got=cls.name)
    if issubclass(cls, Step):
        _STEPS[cls.name] = cls
    elif issubclass(cls, TableMechanism):
        if set(cls.limits) != {each.name for each in fields(cls)}:
            raise InvalidArgument("limits", f"given for each parameter of {cls.__name__}", got=sorted(cls.limits))
        _TABLES[cls.name] = cls
    else:
        raise InvalidArgument("cls", "a TableMechanism or a Step", got=cls.__name__)
    return cls


def unregister(cls: type[Parametrised]) -> None:
    """Forget a mechanism again."""
    for known in (_TABLES, _STEPS):
        if known.get(cls.name) is cls:
            del known[cls.name]


for _cls in (Polya, Dirichlet, Gaussian, Laplace, BalancedLaplace, NoNoise, NoisySum, GaussianTables):
    register(_cls)


def table_mechanisms() -> dict[str, type[TableMechanism]]:
    """The mechanisms of tables, by name."""
    return dict(_TABLES)


def private_mechanisms() -> dict[str, type[TableMechanism]]:
    """Those that make a promise."""
    return {name: cls for name, cls in _TABLES.items() if not cls.not_private}


def steps() -> dict[str, type[Step]]:
    """What may follow the tables, by name."""
    return dict(_STEPS)


def table_mechanism(name: str, argument: str = "mechanism", others: tuple[str, ...] = ()) -> type[TableMechanism]:
    """The mechanism of tables of this name; the error says which names there are, beside others."""
    if not isinstance(name, str) or name not in _TABLES:
        raise InvalidArgument(argument, "one of " + ", ".join((*others, *_TABLES)), got=name)
    return _TABLES[name]


def mechanism_from(name: str, parameters: Mapping[str, Any]) -> TableMechanism:
    """The mechanism of this name with these parameters, checked.

    >>> mechanism_from("gaussian", {"sigma": 5.0})
    Gaussian(sigma=5.0)
    """
    return _made(table_mechanism(name), parameters)


def step_from(name: str, parameters: Mapping[str, Any]) -> Parametrised:
    """What a guarantee lists under this name: a step that follows the tables, or a mechanism of tables."""
    return _made(_STEPS[name], parameters) if name in _STEPS else mechanism_from(name, parameters)


Made = TypeVar("Made", bound=Parametrised)


def _made(cls: type[Made], parameters: Mapping[str, Any]) -> Made:
    try:
        made = cls(**parameters)
    except TypeError:
        raise InvalidArgument(
            "parameters", f"those of the {cls.name} mechanism", got=sorted(str(key) for key in parameters)
        ) from None
    for key, (low, high, _) in cls.limits.items():
        value = getattr(made, key)
        if not low <= value <= high:
            raise InvalidArgument(key, f"from {low:g} to {high:g}", got=value)
    return made


__all__ = [
    "BalancedLaplace",
    "Dirichlet",
    "Draw",
    "Gaussian",
    "Laplace",
    "Mechanism",
    "NoNoise",
    "Polya",
    "mechanism_from",
    "register",
    "unregister",
]
