"""Mechanisms by name: how files and the command line speak of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InvalidArgument
from ..sampling.discrete import MOST_CELLS
from .balanced import BalancedLaplace
from .dirichlet import Dirichlet
from .noise import Gaussian, Laplace
from .none import NoNoise
from .polya import Polya

AnyMechanism = Dirichlet | Polya | Gaussian | Laplace | BalancedLaplace | NoNoise

MECHANISMS: dict[str, type[AnyMechanism]] = {
    "polya": Polya,
    "dirichlet": Dirichlet,
    "gaussian": Gaussian,
    "laplace": Laplace,
    "balanced-laplace": BalancedLaplace,
    "none": NoNoise,
}


LIMITS = {
    "sigma": (0.125, 1e12),
    "scale": (1e-3, 1e12),
    "cells": (1, MOST_CELLS),
    "r": (1e-9, 1e12),
    "alpha": (1e-9, 1e15),
    "flips": (1, 16),
}
"""What a parameter in a file may be: wider than any use, narrow enough that its accounting cannot overflow."""


def mechanism_from(name: str, parameters: Mapping[str, Any]) -> AnyMechanism:
    """The mechanism of this name with these parameters, checked.

    >>> mechanism_from("gaussian", {"sigma": 5.0})
    Gaussian(sigma=5.0)
    """
    if name not in MECHANISMS:
        raise InvalidArgument("mechanism", "one of " + ", ".join(MECHANISMS), got=name)
    try:
        mechanism = MECHANISMS[name](**parameters)
        for key, value in mechanism.parameters.items():
            low, high = LIMITS[key]
            if not low <= value <= high:
                raise InvalidArgument(key, f"from {low:g} to {high:g}", got=value)
        return mechanism
    except TypeError:
        raise InvalidArgument(
            "parameters", f"those of the {name} mechanism", got=sorted(str(key) for key in parameters)
        ) from None
