"""`simplexdp demo`: the core on the histogram of the paper, then the main job on handwritten digits."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress

from ..accounting import Sensitivity, gohari_guarantee
from ..budget import Budget
from ..mechanisms import Dirichlet, Gaussian, Laplace, Polya
from ..models.document import write_file
from .calibrate import best_algorithm1
from .digits import BUDGETS, DELTA, NON_PRIVATE, OURS, PAPER, Outcome, digits_report, run_digits
from .files import check_output
from .options import Json, number, print_json, print_table

HISTOGRAM = (119, 74, 618, 272, 13, 187)


def demo(
    out: Annotated[Path, typer.Option(help="The report; an existing one is replaced.")] = Path("demo-report.html"),
    histogram_only: Annotated[
        bool, typer.Option("--histogram-only", help="Only the paper's histogram, no digits and no report.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="One budget and one fit of each kind.")] = False,
    as_json: Json = False,
) -> None:
    """The main job on embedded data: private classifiers of handwritten digits at several budgets, with a report."""
    started = time.perf_counter()
    if not histogram_only:
        check_output(out, force=True, endings=(".html",))
    if not as_json:
        _histogram()
    if histogram_only:
        return
    budgets, repeats = ((BUDGETS[-2],), 1) if quick else (BUDGETS, 3)
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("fitting", total=None)
        outcome = run_digits(budgets, repeats, lambda done, total: bar.update(task, completed=done, total=total))
        write_file(out, digits_report(outcome))
    if as_json:
        print_json({"report": str(out), **outcome.as_data()})
        return
    _show(outcome)
    typer.echo(f"\nThe report, one self-contained file: {out.resolve()}")
    typer.echo(f"Done in {time.perf_counter() - started:.0f} s.")


def _show(outcome: Outcome) -> None:
    typer.echo("")
    print_table(
        f"Handwritten digits: naive Bayes from {outcome.train} images, tested on {outcome.test} others",
        ["ε at δ = 1e-5", "accuracy", "the paper's", "log loss", "the paper's"],
        [
            [
                f"{epsilon:g}",
                outcome.text(OURS, epsilon, "accuracy"),
                outcome.text(PAPER, epsilon, "accuracy"),
                outcome.text(OURS, epsilon, "log_loss"),
                outcome.text(PAPER, epsilon, "log_loss"),
            ]
            for epsilon in outcome.epsilons
        ]
        + [
            [
                "no privacy",
                outcome.text(NON_PRIVATE, math.inf, "accuracy"),
                "",
                outcome.text(NON_PRIVATE, math.inf, "log_loss"),
                "",
            ]
        ],
        note=f"64 pixels, 10 classes, replace-one, δ = {DELTA:g}. Private fits per budget: {outcome.repeats}, drawn "
        "from the operating system's entropy, so they differ each time. The paper's: Algorithm 1 with its raw draws.",
    )


def _histogram() -> None:
    """Guarantees side by side and a release with its loss, on the paper's histogram."""
    counts = np.array(HISTOGRAM)
    total, cells = int(counts.sum()), counts.size
    budget = Budget(epsilon=1.0, delta=1e-5)
    typer.echo(f"The paper's histogram {HISTOGRAM}, {total} records, budget {budget}, replace-one.\n")
    paper = best_algorithm1(budget, 1, total, cells)
    gohari = gohari_guarantee(r=paper.r, alpha=paper.alpha, total=total, cells=cells, delta=1e-5)
    print_table(
        f"One mechanism, three guarantees: Dirichlet(r={paper.r:.4g}, α={paper.alpha:.4g}), ε at δ = 1e-5",
        ["accounting", "ε"],
        [
            ["Gohari et al. 2021", number(gohari)],
            ["the paper's bound, best order", number(paper.bound(Sensitivity()).epsilon(1e-5))],
            ["exact", number(paper.loss().epsilon(1e-5))],
        ],
    )
    choices: dict[str, Dirichlet | Laplace | Gaussian | Polya] = {
        "Dirichlet, the paper's Algorithm 1": paper,
        "Dirichlet, exact accounting": Dirichlet.calibrate(budget, total=total, cells=cells),
        "Laplace noise": Laplace.calibrate(budget),
        "Gaussian noise": Gaussian.calibrate(budget),
        "Pólya (exact integers)": Polya.calibrate(budget, total=total, cells=cells),
    }
    print_table(
        "What each mechanism loses at that budget",
        ["mechanism", "parameters", "exact ε", "expected KL"],
        [
            [label, str(each), number(each.loss().epsilon(1e-5)), number(each.expected_kl(counts))]
            for label, each in choices.items()
        ],
        note="Expected KL(f/N ‖ release): the raw draw for the Dirichlet mechanism, clipped at zero plus half a "
        "standard deviation for the others.",
    )
