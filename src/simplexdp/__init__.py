"""simplexdp: probability distributions and models from sensitive tables, with exact differential privacy."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from . import errors
from .accounting import PrivacyLoss, Sensitivity
from .budget import Budget
from .mechanisms import Dirichlet, Draw, Gaussian, Laplace, Polya

try:
    __version__ = version("simplexdp")
except PackageNotFoundError:  # run from a checkout that is not installed
    __version__ = "0+unknown"

__all__ = [
    "Budget",
    "Dirichlet",
    "Draw",
    "Gaussian",
    "Laplace",
    "Polya",
    "PrivacyLoss",
    "Sensitivity",
    "__version__",
    "errors",
]
