"""Exact privacy accounting: a mechanism supplies the log-MGF of its loss, everything else follows."""

from .conversion import conversion_floor, rdp_for_epsilon, rdp_to_epsilon
from .loss import PrivacyLoss
from .paper import Sensitivity, gohari_delta, gohari_guarantee

__all__ = [
    "PrivacyLoss",
    "Sensitivity",
    "conversion_floor",
    "gohari_delta",
    "gohari_guarantee",
    "rdp_for_epsilon",
    "rdp_to_epsilon",
]
