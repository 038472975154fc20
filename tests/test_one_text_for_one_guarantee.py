"""The same ε at the same δ is the same text in the certificate, the report, the terminal and the ledger."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from simplexdp import BayesianNetwork, Budget, Gaussian, Laplace, NaiveBayes, Release, Schema, release
from simplexdp.cli import run
from simplexdp.errors import BudgetExceeded
from simplexdp.ledger import Ledger, fingerprint
from simplexdp.models import Guarantee
from simplexdp.models.document import Document
from simplexdp.numerics.printed import printed
from simplexdp.report import model_report

SCHEMA = Schema.of(a=["x", "y", "z"], b=[0, 1], c=[False, True])
BUDGET = Budget(epsilon=1.2896448, delta=1e-5)
DELTAS = (1e-5, 1e-6, 1e-9)


def published() -> dict[str, Document]:
    rng = np.random.default_rng(0)
    rows = pa.table({"a": rng.choice(["x", "y", "z"], 300), "b": rng.integers(0, 2, 300), "c": rng.random(300) < 0.5})
    bayes = NaiveBayes(schema=SCHEMA, target="c", budget=BUDGET, reweight=False).fit(rows.select(["a", "b"]), rows["c"])
    mechanism = Laplace(scale=2 / 1.0000024)  # its ε at 1e-9 is just above 1
    just_above = Release(
        values=mechanism.draw(np.array([3, 4]), _entropy()),
        mechanism=mechanism,
        guarantee=Guarantee(mechanisms=(mechanism,)),
        total=7.0,
    )
    return {
        "release": release([119, 74, 618], budget=BUDGET),
        "gaussian": release([119, 74, 618], budget=BUDGET, mechanism="gaussian"),
        "just above": just_above,
        "bayes": bayes.model_,
        "network": BayesianNetwork({"b": ["a"]}, SCHEMA, budget=BUDGET).fit(rows).model,
    }


def _entropy() -> object:
    from simplexdp.sampling import SecureEntropy

    return SecureEntropy()


@pytest.fixture(scope="module", name="models")
def _models() -> dict[str, Document]:
    return published()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["release", "gaussian", "just above", "bayes", "network"])
def test_every_place_shows_the_same_text(
    models: dict[str, Document], name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = models[name]
    wanted = {printed(delta): printed(model.guarantee.epsilon(delta)) for delta in DELTAS}
    certificate = model.certificate()
    assert certificate.epsilons == wanted
    model.write(tmp_path / "m.json")
    assert run(["inspect", str(tmp_path / "m.json"), "--plot", str(tmp_path / "m.html")]) == 0
    terminal = capsys.readouterr().out
    html = (tmp_path / "m.html").read_text(encoding="utf-8")
    assert html.split("<footer>")[0] == model_report(model).split("<footer>")[0]
    for delta, epsilon in wanted.items():
        for text in (certificate.promise, str(certificate), terminal, html):
            assert f"({epsilon}, {delta})" in text
        assert f'<tr><th scope="row">{delta}</th><td>{epsilon}</td></tr>' in html
        exact = json.loads(certificate.to_json())["guarantee"]["epsilon_at_delta"][delta]
        assert exact == model.guarantee.epsilon(float(delta))  # data for programs stays exact
        assert float(epsilon) >= exact
    if model.guarantee.budget is not None:
        assert f"Asked for {BUDGET}, spent ({wanted['1e-05']}, 1e-05)-DP." in certificate.promise
        assert str(BUDGET) == "(1.28965, 1e-05)-DP"


def test_the_report_says_above_one_where_it_is(models: dict[str, Document]) -> None:
    assert '<tr><th scope="row">1e-09</th><td>1.00001</td></tr>' in model_report(models["just above"])  # it said 1


def test_no_finite_epsilon_is_one_word_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exact = release([3, 4], budget=None, mechanism="none")
    assert set(exact.certificate().epsilons.values()) == {"infinite"}
    assert '<th scope="row">1e-05</th><td>infinite</td>' in model_report(exact)
    assert run(["account", "dirichlet", "--r", "1", "--alpha", "2", "--order", "40"]) == 0
    assert "infinite" in capsys.readouterr().out


def test_the_command_line_shows_bounds_on_their_safe_sides(capsys: pytest.CaptureFixture[str]) -> None:
    loss = Laplace(scale=1.7).loss()
    assert run(["account", "laplace", "--scale", "1.7", "--delta", "1e-7", "--epsilon", "0.3", "--order", "2.5"]) == 0
    text = capsys.readouterr().out
    for request in ({"delta": 1e-7}, {"epsilon": 0.3}, {"order": 2.5}):
        bounds = loss.bounds(**request)
        assert printed(bounds.upper) in text
        assert printed(bounds.lower, up=False) in text


def test_what_is_left_is_shown_rounded_down_and_what_is_spent_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "ledger.db"
    ledger = Ledger.open(path, budget=BUDGET, datasets=["d"])
    loss = Gaussian(sigma=7.123456789).loss()
    for _ in range(2):
        ledger.charge(loss, dataset="d", description="", request_hash=fingerprint("q"))
    spent, left = ledger.spent("d"), ledger.remaining("d")
    assert Fraction(printed(spent.exact)) >= spent.exact
    assert Fraction(printed(left.exact, up=False)) <= left.exact
    assert run(["ledger", "show", str(path)]) == 0
    shown = re.sub(r"\s+", " ", capsys.readouterr().out)
    assert printed(spent.exact) in shown
    assert printed(left.exact, up=False) in shown
    assert printed(left.epsilon(), up=False) in shown
    large = Gaussian(sigma=1.5).loss()
    with pytest.raises(BudgetExceeded) as refused:
        ledger.charge(large, dataset="d", description="", request_hash=fingerprint("q"))
    assert f"has {printed(left.exact, up=False)} of" in str(refused.value)
    assert f"costs {printed(ledger.filter.price(large).cost)}." in str(refused.value)


def test_a_budget_reads_back_from_its_repr() -> None:
    for budget in (BUDGET, Budget.rdp(order=17.823457, epsilon=0.1 + 0.2)):
        assert eval(repr(budget), {"Budget": Budget}) == budget  # noqa: S307
    assert str(Budget.rdp(order=17.823457, epsilon=0.1 + 0.2)) == "(17.823457, 0.300001)-RDP"
