"""Figure 7 and its (ε̂, δ) twin: test log-likelihood of the three networks."""

from __future__ import annotations

from ..published_values import LOG_LIKELIHOOD
from ..settings import Settings
from .models import ModelFigure


class _LogLikelihood(ModelFigure):
    kind = "network"
    metrics = ("log-likelihood",)
    log_axis = False

    def data(self, settings: Settings, *, published: bool) -> tuple[str, ...]:  # noqa: ARG002
        """The data sets with a network."""
        return settings.network_data()


class LogLikelihoodRdp(_LogLikelihood):
    """Under (5, ε)-RDP."""

    name = "log-likelihood-rdp"
    title = "Bayesian networks under (5, ε)-RDP: test log-likelihood"
    paper_says = (
        "On all data sets the test log-likelihoods of the Dirichlet mechanism are substantially better than those of "
        'the Gaussian and Laplace mechanisms for ε < 1 (the text says "less").'
    )
    regime = "rdp"
    published_values = LOG_LIKELIHOOD


class LogLikelihoodDp(_LogLikelihood):
    """Under (ε̂, 1e-5)-DP."""

    name = "log-likelihood-dp"
    title = "Bayesian networks under (ε̂, 1e-5)-DP: test log-likelihood"
    paper_says = "Similar results as under Rényi privacy; Gohari et al.'s mechanism is significantly worse for small ε̂."
    regime = "dp"
