"""simplexdp: probability distributions and models from sensitive tables, with exact differential privacy."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import errors
from ._version import __version__

if TYPE_CHECKING:
    from .accounting import PrivacyLoss, Sensitivity
    from .budget import Budget
    from .estimation import NoisyCounts, estimate
    from .forecast import plan
    from .learn import NaiveBayes
    from .ledger import Ledger
    from .mechanisms import BalancedLaplace, Dirichlet, Draw, Gaussian, Laplace, Polya
    from .models import (
        BayesianNetworkModel,
        Certificate,
        Model,
        NaiveBayesModel,
        Release,
        SynthesisModel,
        TablesModel,
    )
    from .naive_bayes import fit_naive_bayes
    from .network import BayesianNetwork
    from .pipeline import release, release_distribution, release_tables
    from .private.counting import CellNumbers, Files, OneRecordPerRow, Query, count
    from .private.tables import CountTable
    from .reading import read
    from .schema import Categories, Numeric, Quantiles, Schema
    from .score import private_score, together
    from .synthesizer import Synthesizer
    from .synthetic import synthetic_records, write_synthetic_records

# Names are loaded when they are first used, so that a small job does not wait for Arrow or scikit-learn.
_HOMES = {
    "accounting": ("PrivacyLoss", "Sensitivity"),
    "budget": ("Budget",),
    "counting": ("CellNumbers", "Files", "OneRecordPerRow", "Query", "count"),
    "estimation": ("NoisyCounts", "estimate"),
    "forecast": ("plan",),
    "learn": ("NaiveBayes",),
    "ledger": ("Ledger",),
    "mechanisms": ("BalancedLaplace", "Dirichlet", "Draw", "Gaussian", "Laplace", "Polya"),
    "models": (
        "BayesianNetworkModel",
        "Certificate",
        "Model",
        "NaiveBayesModel",
        "Release",
        "SynthesisModel",
        "TablesModel",
    ),
    "naive_bayes": ("fit_naive_bayes",),
    "network": ("BayesianNetwork",),
    "reading": ("read",),
    "score": ("private_score", "together"),
    "pipeline": ("release", "release_distribution", "release_tables"),
    "schema": ("Categories", "Numeric", "Quantiles", "Schema"),
    "synthesizer": ("Synthesizer",),
    "synthetic": ("synthetic_records", "write_synthetic_records"),
    "private.tables": ("CountTable",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'simplexdp' has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "BalancedLaplace",
    "BayesianNetwork",
    "BayesianNetworkModel",
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
    "Ledger",
    "Model",
    "NaiveBayes",
    "NaiveBayesModel",
    "NoisyCounts",
    "Numeric",
    "OneRecordPerRow",
    "Polya",
    "PrivacyLoss",
    "Quantiles",
    "Query",
    "Release",
    "Schema",
    "Sensitivity",
    "SynthesisModel",
    "Synthesizer",
    "TablesModel",
    "__version__",
    "count",
    "errors",
    "estimate",
    "fit_naive_bayes",
    "plan",
    "private_score",
    "read",
    "release",
    "release_distribution",
    "release_tables",
    "synthetic_records",
    "together",
    "write_synthetic_records",
]
