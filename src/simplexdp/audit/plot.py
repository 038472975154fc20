"""The picture of an audit: what is claimed as a curve δ(ε), and what the draws prove below it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..accounting.loss import PrivacyLoss
from ..errors import InvalidArgument, MissingExtra
from .run import Audit


def plot_audits(audits: Sequence[Audit], path: Path) -> None:
    """Write one panel for each audit; the ending of the path names the format."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "plots") from None
    with mpl.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(4.2 * len(audits), 3.4), layout="constrained")
        axes = figure.subplots(1, len(audits), squeeze=False, sharey=True)[0]
        for axis, audit in zip(axes, audits, strict=True):
            _panel(axis, audit)
        axes[0].set_ylabel("δ")
        try:
            figure.savefig(path, dpi=160)
        except (OSError, ValueError) as error:
            raise InvalidArgument("plot", f"a path whose format matplotlib can write ({error})") from None


def _panel(axis: Any, audit: Audit) -> None:
    top = max(audit.lower, audit.claimed, 0.05) * 1.6
    epsilons = np.linspace(0.0, top, 33)
    if isinstance(audit.claim, PrivacyLoss):
        axis.plot(epsilons, [audit.claim.delta(float(e)) for e in epsilons], color="#0b5fa5", label="claimed, exact")
    proved = np.array([audit.evidence.delta_at(float(e)) for e in epsilons])
    seen = proved > 0
    axis.plot(
        epsilons[seen],
        proved[seen],
        "o",
        color="#c4480c",
        markersize=3,
        label=f"proved, {audit.confidence:.0%} each",
    )
    axis.plot([audit.lower], [audit.delta], "D", color="black", markersize=5, label="the bound reported")
    axis.set_yscale("log")
    axis.set_ylim(1e-6, 1.0)
    axis.set_xlabel("ε")
    axis.set_title(f"{audit.name}\n{audit.neighbours}", fontsize=9)
    axis.legend(frameon=False, fontsize=8)
