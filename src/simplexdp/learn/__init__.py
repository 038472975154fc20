"""A scikit-learn classifier: differentially private naive Bayes."""

from .classifier import NaiveBayes

__all__ = ["NaiveBayes"]
