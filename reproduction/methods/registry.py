"""All methods by name: the paper's, with their published slips, and what the paper lacks."""

from __future__ import annotations

from .base import Method, Regime
from .exact import (
    DirichletExact,
    GaussianExact,
    GaussianPosterior,
    LaplaceExact,
    LaplacePosterior,
    PolyaExact,
    PolyaPosterior,
)
from .noisy import BernsteinSheldon, Foulds, YeFeldmanTalwar
from .paper import AlgorithmOne, GaussianClip, Gohari, LaplaceClip, NonPrivate, RandomGuess
from .posterior import Concentrated, Diffused, Dimitrakakis, Machanavajjhala, WangFienbergSmola
from .published import PublishedDirichlet, PublishedGaussian, PublishedGohari, PublishedLaplace

PAPER: tuple[Method, ...] = (RandomGuess(), NonPrivate(), AlgorithmOne(), GaussianClip(), LaplaceClip(), Gohari())
"""The paper's methods with correct budgets."""
FURTHER: tuple[Method, ...] = (
    DirichletExact(),
    GaussianExact(),
    LaplaceExact(),
    PolyaExact(),
    GaussianPosterior(),
    LaplacePosterior(),
    PolyaPosterior(),
    Diffused(),
    Concentrated(),
    Foulds(),
    BernsteinSheldon(),
    Machanavajjhala(),
    WangFienbergSmola(),
    Dimitrakakis(),
    YeFeldmanTalwar(),
)
"""What the paper lacks."""
PUBLISHED: dict[Regime, tuple[Method, ...]] = {
    "rdp": (RandomGuess(), NonPrivate(), AlgorithmOne(), GaussianClip(), LaplaceClip()),
    "dp": (
        RandomGuess(),
        NonPrivate(),
        PublishedDirichlet(),
        PublishedGohari(),
        PublishedGaussian(),
        PublishedLaplace(),
    ),
}
"""The paper's methods as in the published code."""


def methods(regime: Regime, *, published: bool) -> tuple[Method, ...]:
    """The methods that are run under this kind of budget."""
    if published:
        return PUBLISHED[regime]
    return tuple(method for method in PAPER + FURTHER if regime in method.regimes)


def method_named(name: str, regime: Regime, *, published: bool) -> Method:
    """The method of this name."""
    return next(method for method in methods(regime, published=published) if method.name == name)
