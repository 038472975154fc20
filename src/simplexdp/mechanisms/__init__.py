"""Mechanisms: frozen values with an exact loss, a calibration and a release."""

from .base import Mechanism, Release
from .dirichlet import Dirichlet
from .noise import Gaussian, Laplace
from .polya import Polya

__all__ = ["Dirichlet", "Gaussian", "Laplace", "Mechanism", "Polya", "Release"]
