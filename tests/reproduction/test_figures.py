"""Every figure in quick mode on generated tables, and on the real data when SIMPLEXDP_DATA is set."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest

from reproduction.cells import Cell
from reproduction.figures.gohari_delta import ALPHA, CONCENTRATION, quadrature_delta
from reproduction.figures.kl_epsilon import published_dirichlet
from reproduction.figures.models import TOLERANCE, ModelFigure
from reproduction.figures.networks import depths
from reproduction.figures.registry import FIGURES, chosen, figure_named
from reproduction.figures.renyi_bound import renyi_between
from reproduction.graphs import GRAPHS
from reproduction.report import write_report
from reproduction.results import CORRECT, PUBLISHED, Row, curve
from reproduction.runner import run, work
from reproduction.settings import Settings
from simplexdp import Dirichlet
from simplexdp.accounting.paper import gohari_delta

pytestmark = pytest.mark.slow

DATA = os.environ.get("SIMPLEXDP_DATA")


def regenerate(name: str, settings: Settings, out: Path) -> list[Row]:
    """Run one figure and check that everything a figure promises is there."""
    figure = figure_named(name)
    rows = run([figure], settings, out)
    page = write_report([figure], rows, settings, out).read_text(encoding="utf-8")
    assert rows
    assert figure.found(rows)
    assert "The paper says" in page
    assert "http://" not in page.replace("http://www.w3.org", "")  # self-contained
    for drawing in (out / "figures").glob("*.png"):
        assert drawing.with_suffix(".svg").stat().st_size > 1000
    if name != "table1":
        assert list((out / "figures").glob("*.png"))
    return rows


@pytest.mark.parametrize("name", [figure.name for figure in FIGURES])
def test_every_figure_is_regenerated_on_generated_tables(name: str, tmp_path: Path) -> None:
    rows = regenerate(name, Settings(quick=True, repeats=1, generated=True, as_published=True), tmp_path)
    marked = {row.setting for row in rows}
    assert marked <= {CORRECT, PUBLISHED}
    if isinstance(figure_named(name), ModelFigure):
        assert marked == {CORRECT, PUBLISHED}
        page = (tmp_path / "report.html").read_text(encoding="utf-8")
        assert "not private" in page
        assert "as published, not private" in (tmp_path / "results.csv").read_text(encoding="utf-8")


@pytest.mark.data
@pytest.mark.skipif(not DATA, reason="SIMPLEXDP_DATA is not set")
@pytest.mark.parametrize(
    "name", ["table1", "naive-bayes-rdp", "naive-bayes-dp", "log-likelihood-rdp", "log-likelihood-dp"]
)
def test_every_data_figure_is_regenerated_on_the_real_data(name: str, tmp_path: Path) -> None:
    rows = regenerate(name, Settings(quick=True, repeats=1), tmp_path)
    if name == "table1":
        assert figure_named(name).found(rows)[0] == "All agree with Table 1."


@pytest.mark.data
@pytest.mark.skipif(not DATA, reason="SIMPLEXDP_DATA is not set")
@pytest.mark.parametrize(
    ("name", "data"),
    [("naive-bayes-rdp", name) for name in ("Bank", "Shopper", "SouthGermanCredit", "Adult")]
    + [("log-likelihood-rdp", name) for name in GRAPHS],
)
def test_the_published_numbers_are_met_with_the_published_slips(name: str, data: str) -> None:
    """Within 10 %, or within three standard errors of the ten draws that the paper averages."""
    figure = figure_named(name)
    assert isinstance(figure, ModelFigure)
    settings = Settings(repeats=5, as_published=True)
    cells = [cell for cell in figure.cells(settings) if cell.published and cell.data == data]
    compared = figure.comparison([row for cell in cells for row in work(cell)[1]])
    assert len(compared) == 20
    for _, method, epsilon, value, published, _, both in compared:
        close = abs(value / published - 1) <= TOLERANCE or abs(value - published) <= 3 * both
        assert close, f"{method} at {epsilon}: {value} against {published}"
    plain = [abs(value / published - 1) for _, method, _, value, published, *_ in compared if method == "non-private"]
    assert max(plain) < 0.02


def test_figures_are_chosen_by_name() -> None:
    assert [figure.name for figure in chosen(("networks", "trigamma"))] == ["trigamma", "networks"]
    assert chosen(()) == FIGURES
    with pytest.raises(ValueError, match="trigamma"):
        figure_named("figure-1")


def test_the_quadrature_artefact_is_not_in_the_exact_delta() -> None:
    exact = gohari_delta(1e-6, concentration=CONCENTRATION, alpha=ALPHA, cells=6)
    assert pytest.approx(171.87, abs=0.01) == CONCENTRATION
    assert exact < 1e-19
    assert abs(quadrature_delta(1e-6)) > 1e-5
    assert abs(quadrature_delta(1e-6, degree=220)) < 1e-10  # a rule of sufficient degree has no floor


def test_renyi_divergence_of_two_dirichlet_laws() -> None:
    """The worst pair of the exact accounting, and Gauss quadrature on a beta law."""
    r, alpha, order = 0.7, 9.0, 4.0
    first, second = np.array([alpha + r, alpha]), np.array([alpha, alpha + r])
    assert renyi_between(first, second, order) == pytest.approx(Dirichlet(r=r, alpha=alpha).loss().rdp(order), rel=1e-9)
    nodes, weights = np.polynomial.legendre.leggauss(200)
    t = (nodes + 1) / 2
    from scipy.stats import beta

    p, q = beta(*first).pdf(t), beta(*second).pdf(t)
    integral = math.log(float(weights @ (p**order * q ** (1 - order))) / 2) / (order - 1)
    assert renyi_between(first, second, order) == pytest.approx(integral, rel=1e-9)


def test_published_points_below_the_floor_are_no_guarantee() -> None:
    mechanism = published_dirichlet(20, 0.1)
    assert mechanism.loss().epsilon(1e-5) > 0.1


def test_graphs_are_those_of_the_paper() -> None:
    assert {name: sum(map(len, graph.values())) for name, graph in GRAPHS.items()} == {
        "Adult": 13,
        "Bank": 16,
        "SouthGermanCredit": 14,
    }
    for graph in GRAPHS.values():
        seen: set[str] = set()
        for node, parents in graph.items():
            assert seen.issuperset(parents)
            seen.add(node)
        assert min(depths(graph).values()) == 0


def test_curves_average_repeats_and_skip_infeasible_points() -> None:
    rows = [
        Row(figure="f", method="m", x=1.0, repeat=i, metric="v", value=value) for i, value in enumerate((1.0, 3.0))
    ] + [Row(figure="f", method="m", x=2.0, metric="v", value=math.nan, note="infeasible")]
    found = curve(rows, method="m")
    assert (found.x, found.mean, found.times) == ((1.0,), (2.0,), (2,))
    assert found.error[0] == pytest.approx(1.0)
    assert found.at(1.3) == 2.0


def test_a_budget_below_the_floor_is_reported_as_infeasible() -> None:
    cell = Cell(figure="kl-epsilon", settings=Settings(quick=True))
    rows = [row for row in work(cell)[1] if row.data == "λ = 2" and row.method == "Algorithm 1"]
    assert all(row.note == "infeasible" for row in rows if row.x < 10)
    assert not any(row.note for row in rows if row.x > 11)
