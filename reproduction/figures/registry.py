"""All figures in the order of the paper."""

from __future__ import annotations

from simplexdp.errors import InvalidArgument

from .base import Figure
from .epsilon_r import EpsilonR
from .gohari_delta import GohariDelta
from .kl_epsilon import KlEpsilon
from .log_likelihood import LogLikelihoodDp, LogLikelihoodRdp
from .naive_bayes import NaiveBayesDp, NaiveBayesRdp
from .networks import Networks
from .not_pure import NotPure
from .posterior_sampling import PosteriorSampling
from .renyi_bound import RenyiBound
from .table1 import TableOne
from .trigamma import Trigamma

FIGURES: tuple[Figure, ...] = (
    Trigamma(),
    GohariDelta(),
    RenyiBound(),
    KlEpsilon(),
    TableOne(),
    NaiveBayesRdp(),
    Networks(),
    LogLikelihoodRdp(),
    NotPure(),
    EpsilonR(),
    NaiveBayesDp(),
    LogLikelihoodDp(),
    PosteriorSampling(),
)


def figure_named(name: str) -> Figure:
    """The figure of this name."""
    for figure in FIGURES:
        if figure.name == name:
            return figure
    raise InvalidArgument("figure", "one of " + ", ".join(figure.name for figure in FIGURES), got=name)


def chosen(names: tuple[str, ...]) -> tuple[Figure, ...]:
    """The figures of these names in the order of the paper, all when none is named."""
    wanted = {figure_named(name).name for name in names}
    return tuple(figure for figure in FIGURES if not wanted or figure.name in wanted)
