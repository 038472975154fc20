"""Figures 4, 5 and their (ε̂, δ) twins: naive Bayes on the eight data sets."""

from __future__ import annotations

from ..published_values import CROSS_ENTROPY
from ..settings import Settings
from .models import ModelFigure


class _NaiveBayes(ModelFigure):
    kind = "naive-bayes"
    metrics = ("cross-entropy", "accuracy")
    log_axis = True

    def data(self, settings: Settings, *, published: bool) -> tuple[str, ...]:
        """The data sets of Table 1."""
        return settings.naive_bayes_data(published=published)


class NaiveBayesRdp(_NaiveBayes):
    """Under (5, ε)-RDP."""

    name = "naive-bayes-rdp"
    title = "Naive Bayes under (5, ε)-RDP: test cross-entropy and accuracy"
    paper_says = (
        "On all data sets the test cross-entropies of the Dirichlet mechanism are substantially less than those of the "
        "Gaussian and Laplace mechanisms; in accuracy there is no clear winner."
    )
    regime = "rdp"
    published_values = CROSS_ENTROPY


class NaiveBayesDp(_NaiveBayes):
    """Under (ε̂, 1e-5)-DP."""

    name = "naive-bayes-dp"
    title = "Naive Bayes under (ε̂, 1e-5)-DP: test cross-entropy and accuracy"
    paper_says = (
        "The Dirichlet mechanism performs better than Gohari et al.'s in all experiments; the Laplace mechanism "
        "performs better than the Gaussian mechanism."
    )
    regime = "dp"
