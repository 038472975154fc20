"""Mechanisms: frozen values with an exact loss, a calibration and a release."""

from .balanced import BalancedLaplace
from .base import Draw, Mechanism
from .dirichlet import Dirichlet
from .noise import Gaussian, Laplace
from .none import NoNoise
from .polya import Polya
from .registry import mechanism_from

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
]
