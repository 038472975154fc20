"""`simplexdp demo`: the core on the histogram of the paper."""

from __future__ import annotations

import math

import numpy as np
import typer

from ..accounting import Sensitivity, gohari_guarantee
from ..budget import Budget
from ..mechanisms import Dirichlet, Gaussian, Laplace, Polya
from .calibrate import best_algorithm1
from .options import number, print_table

HISTOGRAM = (119, 74, 618, 272, 13, 187)


def demo() -> None:
    """Guarantees side by side, a release and its loss, on the paper's histogram."""
    counts = np.array(HISTOGRAM)
    total, cells = int(counts.sum()), counts.size
    budget = Budget(epsilon=1.0, delta=1e-5)
    typer.echo(f"The paper's histogram {HISTOGRAM}, {total} records, budget {budget}, replace-one.\n")

    paper = best_algorithm1(budget, 1, total, cells)
    gohari = gohari_guarantee(r=paper.r, alpha=paper.alpha, total=total, cells=cells, delta=1e-5)
    loss = paper.loss()
    print_table(
        f"One mechanism, three guarantees: Dirichlet(r={paper.r:.4g}, α={paper.alpha:.4g}), ε at δ = 1e-5",
        ["accounting", "ε"],
        [
            ["Gohari et al. 2021", number(gohari)],
            ["the paper's bound, best order", number(paper.bound(Sensitivity()).epsilon(1e-5))],
            ["exact", number(loss.epsilon(1e-5))],
        ],
    )
    choices: dict[str, Dirichlet | Laplace | Gaussian | Polya] = {
        "Dirichlet, the paper's Algorithm 1": paper,
        "Dirichlet, exact accounting": Dirichlet.calibrate(budget, total=total, cells=cells),
        "Laplace noise": Laplace.calibrate(budget),
        "Gaussian noise": Gaussian.calibrate(budget),
        "Pólya (exact integers)": Polya.calibrate(budget, total=total, cells=cells),
    }
    rows = []
    for label, mechanism in choices.items():
        spent = mechanism.loss().epsilon(1e-5)
        rows.append([label, str(mechanism), number(spent), number(mechanism.expected_kl(counts))])
    print_table(
        "What each mechanism loses at that budget",
        ["mechanism", "parameters", "exact ε", "expected KL"],
        rows,
        note="Expected KL(f/N ‖ release): the raw draw for the Dirichlet mechanism, clipped at zero plus half a "
        "standard deviation for the others.",
    )
    mechanism = choices["Gaussian noise"]
    release = mechanism.release(counts)
    noisy = np.maximum(release.values, 0) + math.sqrt(Gaussian.calibrate(budget).noise_variance) / 2
    q, p = noisy / noisy.sum(), counts / total
    rows = [[str(i + 1), f"{p[i]:.4f}", str(release.values[i]), f"{q[i]:.4f}"] for i in range(cells)]
    print_table(
        f"A release by {mechanism}",
        ["cell", "share in the data (private)", "released", "published share"],
        rows,
        note=f"KL of this release: {float(np.sum(p * np.log(p / q))):.5f}. "
        "Drawn from the operating system's entropy, so it differs each time.",
    )
