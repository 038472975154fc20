"""Speed of accounting and calibration beside dp-accounting's PLD of the same pair, in one run."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

from simplexdp import Budget, Dirichlet, Gaussian, Polya, PrivacyLoss

from .clock import seconds

BUDGET = Budget(epsilon=1.0, delta=1e-6)
STEP = 1e-3
"""The grid of the PLD; its answer is then about 0.01 % above the exact one."""


def warm_seconds(call: Callable[[], object], repeats: int) -> float:
    """The least CPU time of some calls, after one that fills caches."""
    call()
    return seconds(call, repeats)


def beta_pld(r: float, alpha: float, times: int) -> object:
    """dp-accounting's pessimistic PLD of one Beta pair, composed: δ on a grid by the closed form of SciPy."""
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution
    from scipy.special import betainc

    top = math.ceil(12 * r * math.sqrt(2 / alpha) / STEP)
    epsilon = STEP * np.arange(-top, top + 1)
    s = 1 / (1 + np.exp(epsilon / r))
    deltas = betainc(alpha, alpha + r, s) - np.exp(epsilon) * betainc(alpha + r, alpha, s)
    deltas = np.minimum.accumulate(np.clip(deltas, 0, 1))
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(STEP, -top, top, deltas)
    return privacy_loss_distribution.PrivacyLossDistribution(pmf).self_compose(times)


def calibrate_by_pld(tables: int) -> float:
    """The α at r = 1 that the PLD gives for the budget: the peer of `Dirichlet.calibrate`."""
    from scipy.optimize import brentq

    def excess(log_alpha: float) -> float:
        pld = beta_pld(1.0, math.exp(log_alpha), tables)
        return math.log(pld.get_delta_for_epsilon(BUDGET.epsilon) / BUDGET.delta)  # type: ignore[attr-defined]

    return math.exp(brentq(excess, math.log(500.0), math.log(50_000.0), xtol=1e-10))


def mixed_loss() -> PrivacyLoss:
    """24 tables of 24 different parameters."""
    return sum((Dirichlet(r=0.5 + 0.05 * i, alpha=900.0 + 20 * i).loss() for i in range(24)), PrivacyLoss.nothing())


def mixed_pld() -> float:
    plds = [beta_pld(0.5 + 0.05 * i, 900.0 + 20 * i, 1) for i in range(24)]
    total = plds[0]
    for pld in plds[1:]:
        total = total.compose(pld)  # type: ignore[attr-defined]
    return float(total.get_delta_for_epsilon(1.0))  # type: ignore[attr-defined]


def main(*, quick: bool = False) -> None:
    repeats = 3 if quick else 10
    polya = Polya.calibrate(BUDGET, tables=64, r=3)
    pld_64 = warm_seconds(lambda: calibrate_by_pld(64), 2)
    pld_mixed = warm_seconds(mixed_pld, 1)
    loss_64 = 64 * polya.loss()
    rows: list[tuple[str, Callable[[], object], float | None, str, float | None]] = [
        ("Algorithm 1 calibration", lambda: Dirichlet.algorithm1(order=5, epsilon=1.0), 100e-6, "", None),
        (
            "Dirichlet, exact calibration of 64 tables",
            lambda: Dirichlet.calibrate(BUDGET, tables=64, r=1.0),
            50e-3,
            "the same root of the PLD",
            pld_64,
        ),
        (".delta of 24 different tables", lambda: mixed_loss().delta(1.0), 10e-3, "PLD of the same", pld_mixed),
        ("Pólya, exact calibration of 64 tables", lambda: Polya.calibrate(BUDGET, tables=64, r=3), None, "", None),
        (".delta of 64 Pólya tables", lambda: loss_64.delta(1.0), None, "", None),
        ("Gaussian, exact calibration of 64 tables", lambda: Gaussian.calibrate(BUDGET, tables=64), None, "", None),
    ]
    table = Table("what", "CPU time", "target", "peer", "peer's time", "peer / ours", title="Accounting")
    for label, call, target, peer, theirs in rows:
        ours = warm_seconds(call, repeats)
        table.add_row(
            label,
            _time(ours),
            "" if target is None else f"{_time(target)} {'met' if ours < target else 'MISSED'}",
            peer,
            "" if theirs is None else _time(theirs),
            "" if theirs is None else f"{theirs / ours:.1f} x",
        )
    Console(width=150).print(table)


def _time(value: float) -> str:
    return f"{value * 1e6:.0f} µs" if value < 1e-3 else f"{value * 1e3:.1f} ms"


if __name__ == "__main__":
    main()
