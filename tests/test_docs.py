"""The quickstart runs as written, and the identities that the proofs state hold at 30 digits."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

from simplexdp import Dirichlet

DOCS = Path(__file__).resolve().parent.parent / "docs"


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(30):
        yield


@pytest.mark.slow
def test_the_quickstart_runs_as_written():
    text = (DOCS / "quickstart.md").read_text(encoding="utf-8")
    text = re.sub(r"^```.*$", "", text, flags=re.MULTILINE)
    test = doctest.DocTestParser().get_doctest(text, {}, "quickstart", "quickstart.md", 0)
    report: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert result.attempted > 20
    assert result.failed == 0, "".join(report)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["ledger", "audit", "which-mechanism"])
def test_the_examples_of_a_page_run_as_written(page):
    text = re.sub(r"^```.*$", "", (DOCS / f"{page}.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    test = doctest.DocTestParser().get_doctest(text, {}, page, f"{page}.md", 0)
    report: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert result.attempted > 4
    assert result.failed == 0, "".join(report)


@pytest.mark.slow
def test_the_recipe_for_choosing_settings_runs_as_written():
    (code,) = re.findall(r"^```python\n(.*?)^```$", (DOCS / "tuning.md").read_text(encoding="utf-8"), re.M | re.S)
    exec(compile(code, "docs/tuning.md", "exec"), {})  # noqa: S102 - our own page


def test_functions_named_in_the_proofs_exist():
    source = "\n".join(path.read_text(encoding="utf-8") for path in (DOCS.parent / "src").rglob("*.py"))
    for page in [*sorted((DOCS / "proofs").glob("*.md")), DOCS / "numerics.md"]:
        for line in page.read_text(encoding="utf-8").splitlines():
            for name in re.findall(r"`(\w+\.py|[\w/]+\.py|[A-Za-z_]\w*(?:\.\w+)?)(?:\([^`]*\))?`", line):
                last = name.rsplit("/", 1)[-1]
                if last.endswith(".py"):
                    assert (DOCS.parent / "src" / "simplexdp" / name).exists(), (page.name, name)
                else:
                    part = last.rsplit(".", 1)[-1]
                    assert re.search(rf"\b{part}\b", source), (page.name, name)


def _replace(w, r, alpha):
    return (
        sum(mp.loggamma(x) for x in (alpha + (1 + w) * r, alpha - w * r)) - mp.loggamma(alpha + r) - mp.loggamma(alpha)
    )


def _remove(w, r, alpha):
    return mp.loggamma(alpha + (1 + w) * r) - (1 + w) * mp.loggamma(alpha + r) + w * mp.loggamma(alpha)


def _profile(epsilon, r, alpha):
    if epsilon < 0:  # the pair is symmetric
        return 1 - mp.exp(epsilon) + mp.exp(epsilon) * _profile(-epsilon, r, alpha)
    s = 1 / (1 + mp.exp(epsilon / r))
    front = mp.betainc(alpha, alpha + r, 0, s, regularized=True)
    return front - mp.exp(epsilon) * mp.betainc(alpha + r, alpha, 0, s, regularized=True)


@pytest.mark.slow
def test_replace_one_is_a_double_integral_of_the_trigamma_function():
    w, r, alpha = mp.mpf(3), mp.mpf("0.5"), mp.mpf(8)
    integral = mp.quad(lambda s, t: mp.psi(1, alpha - w * r + s + t), [0, w * r], [0, (1 + w) * r])
    assert mp.almosteq(_replace(w, r, alpha), integral, rel_eps=mp.mpf(10) ** -20)


@pytest.mark.parametrize("z", ["0.1", "0.5", "1", "7", "40"])
def test_the_lemma_behind_persons_with_several_rows(z):
    z = mp.mpf(z)
    left = mp.psi(1, z) + (z - mp.mpf(1) / 2) * mp.psi(2, z)

    def integrand(t):
        q = mp.exp(-t)
        return t * mp.exp(-z * t) * (1 + q) / (1 - q) ** 2 * (t / 2 - mp.tanh(t / 2))

    right = mp.quad(integrand, [0, 1 / z, 5 / z + 1, 50 / z + 10, mp.inf])
    assert left > 0
    assert mp.almosteq(left, right, rel_eps=mp.mpf(10) ** -12)


def test_rows_spread_over_cells_may_cost_more_below_one_half():
    assert _remove(1, 2, mp.mpf("0.1")) < 2 * _remove(1, 1, mp.mpf("0.1"))
    assert _remove(1, 2, mp.mpf("0.5")) > 2 * _remove(1, 1, mp.mpf("0.5"))


def test_the_trapezoidal_rule_is_the_profile_plus_positive_aliases():
    r, alpha, epsilon, c, h = mp.mpf("0.5"), mp.mpf(8), mp.mpf(1), mp.mpf(8), mp.mpf("1.5")

    def integrand(t):
        w = mp.mpc(c, t)
        return mp.re(mp.exp(_replace(w, r, alpha) - w * epsilon) / (w * (w + 1)))

    rule = h / (2 * mp.pi) * sum(integrand(j * h) for j in range(-120, 121))
    period = 2 * mp.pi / h
    aliases = sum(_profile(epsilon + m * period, r, alpha) * mp.exp(m * period * c) for m in range(-5, 6))
    assert mp.almosteq(rule, aliases, rel_eps=mp.mpf(10) ** -18)
    assert rule > _profile(epsilon, r, alpha) * (1 + mp.mpf(10) ** -12)
    assert Dirichlet(r=0.5, alpha=8.0).loss().delta(1.0) >= _profile(epsilon, r, alpha)


def test_theorem_two_needs_alpha_of_one_half():
    d, alpha, beta, eta = 1000, 0.06, 100.0, 1.0
    assert beta >= d * alpha / np.expm1(eta / 2)
    bound = np.exp(-beta * eta**2 / (2 * (2 + eta) * (4 + 3 * eta)))
    assert bound < 0.1
    # KL = −ln d − (1/d) Σ ln q_i: the mean and variance are polygamma functions, and Chebyshev does the rest.
    shape, total = beta / d + alpha, beta + d * alpha
    mean = float(mp.digamma(total) - mp.digamma(shape) - mp.log(d))
    variance = float(mp.psi(1, shape) / d - mp.psi(1, total))
    assert 1 - variance / (mean - eta) ** 2 > 0.99


@pytest.mark.parametrize("eta", ["0.01", "0.5", "1", "4", "20"])
def test_the_last_step_of_theorem_two(eta):
    eta = mp.mpf(eta)
    v = mp.re(mp.lambertw(mp.exp(1 + eta / 2))) - 1
    theta = v / (1 + v)
    assert mp.almosteq(theta * (-eta / 2 - mp.log(1 - theta)), -(v**2) / (1 + v))
    sharper, paper = eta**2 / (16 + 4 * eta), eta**2 / (2 * (2 + eta) * (4 + 3 * eta))
    assert v**2 / (1 + v) >= sharper >= paper
