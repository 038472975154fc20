"""Mechanisms: frozen values with an exact loss, a calibration and a release."""

from .base import Draw, Mechanism
from .dirichlet import Dirichlet
from .noise import Gaussian, Laplace
from .polya import Polya

__all__ = ["Dirichlet", "Draw", "Gaussian", "Laplace", "Mechanism", "Polya"]
