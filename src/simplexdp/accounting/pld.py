"""A bridge to dp-accounting: our exact losses as privacy loss distributions, for composition with other mechanisms.

dp-accounting is optional; everything in this library is accounted without it. The distribution is pessimistic (connect
the dots, Doroshenko et al. 2022), so what it gives is never below the exact value.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..budget import check_positive
from ..errors import MissingExtra
from .loss import PrivacyLoss


def to_pld(loss: PrivacyLoss, interval: float = 1e-3) -> Any:
    """`loss` as a `dp_accounting.pld.privacy_loss_distribution.PrivacyLossDistribution` on a grid of this interval.

    >>> from simplexdp import Dirichlet
    >>> loss = Dirichlet(r=1.0, alpha=100.0).loss()
    >>> pld = to_pld(loss, 2e-2)
    >>> 0 <= pld.get_epsilon_for_delta(1e-5) - loss.epsilon(1e-5) < 2e-2
    True
    """
    try:
        from dp_accounting.pld import pld_pmf, privacy_loss_distribution
    except ImportError:
        raise MissingExtra("dp-accounting", "pld") from None
    interval = check_positive("interval", interval)
    pmfs = []
    for direction in range(len(loss.directions)):
        one = PrivacyLoss("replace-one", (loss.directions[direction],))
        top = math.ceil(one.epsilon(1e-14) / interval) + 1
        # δ at a negative ε follows from the other side of the pair: δ_{P|Q}(−ε) = 1 − e^{−ε} + e^{−ε} δ_{Q|P}(ε).
        other = one if len(loss.directions) == 1 else PrivacyLoss("replace-one", (loss.directions[1 - direction],))
        deltas = [one.delta(index * interval) for index in range(top + 1)]
        below = [
            -math.expm1(-index * interval) + math.exp(-index * interval) * other.delta(index * interval)
            for index in range(1, top + 1)
        ]
        grid = np.array(below[::-1] + deltas)
        pmfs.append(pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, -top, top, grid))
    if len(pmfs) == 1:
        return privacy_loss_distribution.PrivacyLossDistribution(pmfs[0])
    return privacy_loss_distribution.PrivacyLossDistribution(pmfs[0], pmfs[1])
