"""Figures 4, 5 and their (ε̂, δ) twins: naive Bayes on the eight data sets."""

from __future__ import annotations

from collections.abc import Sequence

from ..published_values import CROSS_ENTROPY
from ..results import CORRECT, PUBLISHED, Row, curve, distinct
from ..settings import Settings
from .models import ModelFigure


class _NaiveBayes(ModelFigure):
    kind = "naive-bayes"
    metrics = ("cross-entropy", "accuracy")
    log_axis = True

    def data(self, settings: Settings, *, published: bool) -> tuple[str, ...]:
        """The data sets of Table 1."""
        return settings.naive_bayes_data(published=published)

    def found(self, rows: Sequence[Row]) -> list[str]:
        """As for every model, and how often a private fit is below the non-private one."""
        correct = [row for row in rows if row.setting == CORRECT and row.metric == "cross-entropy"]
        below = points = 0
        for data in distinct(correct, "data"):
            plain = curve(correct, data=data, method="non-private")
            for method in distinct(correct, "method"):
                values = (
                    curve(correct, data=data, method=method).mean if method not in ("non-private", "random") else ()
                )
                points += len(values)
                below += sum(value < plain.mean[0] for value in values)
        sentences = super().found(rows)
        sentences.append(
            f"{below} of {points} private fits have a lower cross-entropy than the non-private one: naive Bayes is "
            "over-confident, and whatever pulls its tables towards uniform hides part of that."
        )
        if PUBLISHED in distinct(rows, "setting"):
            sentences.append(
                "GermanCredit is the South German file as published and the classic one in the correct settings."
            )
        return sentences


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
