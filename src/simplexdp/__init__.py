"""simplexdp: probability distributions and models from sensitive tables, with exact differential privacy."""

from __future__ import annotations

from . import errors
from ._version import __version__
from .accounting import PrivacyLoss, Sensitivity
from .budget import Budget
from .counting import CellNumbers, Files, Query, count
from .estimation import NoisyCounts, estimate
from .mechanisms import Dirichlet, Draw, Gaussian, Laplace, Polya
from .models import Certificate, Release
from .network import BayesianNetwork
from .pipeline import release, release_distribution
from .schema import Categories, Numeric, Quantiles, Schema
from .synthetic import synthetic_records, write_synthetic_records
from .tables import CountTable

__all__ = [
    "BayesianNetwork",
    "Budget",
    "Categories",
    "CellNumbers",
    "Certificate",
    "CountTable",
    "Dirichlet",
    "Draw",
    "Files",
    "Gaussian",
    "Laplace",
    "NoisyCounts",
    "Numeric",
    "Polya",
    "PrivacyLoss",
    "Quantiles",
    "Query",
    "Release",
    "Schema",
    "Sensitivity",
    "__version__",
    "count",
    "errors",
    "estimate",
    "release",
    "release_distribution",
    "synthetic_records",
    "write_synthetic_records",
]
