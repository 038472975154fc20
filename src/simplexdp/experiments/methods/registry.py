"""All methods by name: the paper's, with their published slips, and what the paper lacks."""

from __future__ import annotations

from .base import Method, Regime
from .baselines import NonPrivate, RandomGuess
from .bernstein import BernsteinSheldon
from .dimitrakakis import Dimitrakakis
from .estimated import GaussianPosterior, LaplacePosterior, PolyaPosterior
from .exact import DirichletExact, GaussianExact, LaplaceExact, PolyaExact
from .foulds import Foulds
from .geumlek import Concentrated, Diffused
from .gohari import Gohari
from .machanavajjhala import Machanavajjhala
from .paper import AlgorithmOne, GaussianClip, LaplaceClip
from .published import PublishedDirichlet, PublishedGaussian, PublishedGohari, PublishedLaplace
from .wang import WangFienbergSmola
from .ye import YeFeldmanTalwar

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
