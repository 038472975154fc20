"""The naive Bayes model: what it predicts, what it promises, and its files."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta, kstest

from simplexdp import Budget, Categories, CellNumbers, Dirichlet, Schema
from simplexdp.errors import FormatError, InvalidArgument
from simplexdp.estimation.strata import pooled
from simplexdp.models.naive_bayes import NaiveBayesModel
from simplexdp.naive_bayes import fit_naive_bayes, predict_batches
from simplexdp.sampling import SeededEntropy

SIZES, CLASSES = (3, 2, 5, 4), 3


def schema(sizes: tuple[int, ...] = SIZES, classes: int = CLASSES) -> Schema:
    columns = [Categories(range(size), name=f"x{k}") for k, size in enumerate(sizes)]
    return Schema([*columns, Categories(range(classes), name="y")])


def rows(n: int = 2000, seed: int = 1) -> dict[str, NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    labels = rng.choice(CLASSES, n, p=[0.5, 0.3, 0.2])
    columns = {
        f"x{k}": (labels + rng.integers(0, size, n) * (rng.random(n) < 0.6)) % size for k, size in enumerate(SIZES)
    }
    return columns | {"y": labels}


def fit(n: int = 2000, **settings: Any) -> NaiveBayesModel:
    settings = {"budget": Budget(epsilon=1.0, delta=1e-6), "entropy": 3} | settings
    return fit_naive_bayes(CellNumbers(rows(n)), schema(), "y", **settings)


def codes(n: int = 500) -> NDArray[np.int64]:
    data = rows(n, seed=2)
    return np.stack([data[f"x{k}"] for k in range(len(SIZES))], axis=1)


def test_predictions_are_the_formula() -> None:
    model = fit()
    x = codes()
    scores = np.log(model.class_probabilities) + model.biases + np.zeros((len(x), 1))
    for k in range(len(SIZES)):
        scores += model.weights[k] * np.log(model.conditionals[k])[:, x[:, k]].T
    expected = scores - np.logaddexp.reduce(scores, axis=1)[:, None]
    np.testing.assert_allclose(model.predict_log_proba(x), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("block", [1, 7, 64])
def test_predictions_do_not_depend_on_blocks_or_layout(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = fit()
    x = codes()
    whole = model.predict_log_proba(x)
    monkeypatch.setattr("simplexdp.models.naive_bayes.BLOCK", block)
    np.testing.assert_array_equal(model.predict_log_proba(x.astype(np.uint8)), whole)
    np.testing.assert_array_equal(model.predict_log_proba(list(x.T)), whole)
    np.testing.assert_array_equal(model.predict_log_proba(np.asfortranarray(x)), whole)


@pytest.mark.parametrize("classes", [1, 2, 3, 4, 7])
def test_any_number_of_classes(classes: int) -> None:
    rng = np.random.default_rng(classes)
    data = {"x0": rng.integers(0, 3, 300), "y": rng.integers(0, classes, 300)}
    model = fit_naive_bayes(
        CellNumbers(data), schema((3,), classes), "y", budget=Budget.rdp(order=5, epsilon=1.0), entropy=0
    )
    found = np.exp(model.predict_log_proba(data["x0"][:, None]))
    assert found.shape == (300, classes)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-12)


@pytest.mark.parametrize(
    "bad",
    [
        np.zeros((3, 3), dtype=int),
        np.zeros((3, 4)),
        np.full((3, 4), -1),
        np.array([[0, 2, 0, 0]]),
        np.zeros(4, dtype=int),
        [np.zeros(3, dtype=int)] * 3 + [np.zeros(2, dtype=int)],
    ],
)
def test_codes_that_are_no_cells_are_refused(bad: Any) -> None:
    with pytest.raises(InvalidArgument, match="codes"):
        fit().predict_log_proba(bad)


def test_no_rows_give_no_predictions() -> None:
    assert fit().predict_log_proba(np.zeros((0, 4), dtype=int)).shape == (0, CLASSES)


def test_k_features_cost_k_tables() -> None:
    model = fit(n=300, second_look=False)
    assert [release.columns for release in model.releases] == [(f"x{k}", "y") for k in range(len(SIZES))]
    assert len(model.guarantee.mechanisms) == len(SIZES)


def test_a_second_look_releases_every_table_again() -> None:
    model = fit(n=3000)
    names = [(f"x{k}", "y") for k in range(len(SIZES))]
    assert [release.columns for release in model.releases] == names + names
    look = model.guarantee.mechanisms[len(SIZES)]
    assert look.name == "gaussian-tables"
    # The precisions add up to what was paid for, exactly.
    second = [release.mechanism.variance for release in model.releases[len(SIZES) :]]  # type: ignore[union-attr]
    paid = 1 / Fraction(look.parameters["sigma"]) ** 2
    assert paid * (1 - Fraction(1, 10**9)) < sum(1 / variance for variance in second) <= paid
    assert max(second) > 1.2 * min(second)
    assert model.features == tuple(f"x{k}" for k in range(len(SIZES)))


def test_unclear_classes_get_a_part_of_the_second_look() -> None:
    model = fit(n=300, budget=Budget.rdp(order=5, epsilon=0.01))
    assert model.releases[-1].columns == ("y",)
    assert model.releases[-1].values.shape == (CLASSES,)
    assert model.features == tuple(f"x{k}" for k in range(len(SIZES)))
    assert NaiveBayesModel.from_json(model.to_json()).to_json() == model.to_json()


def test_two_looks_are_one_release_with_less_noise() -> None:
    model = fit(n=3000)
    first, second = (model.releases[k].noisy for k in (0, len(SIZES)))
    both = pooled([first, second])
    assert both.variance == pytest.approx(1 / (1 / first.variance + 1 / second.variance))
    weight = both.variance / first.variance
    np.testing.assert_allclose(both.values, weight * first.values + (1 - weight) * second.values)


def test_exact_counts_give_the_shares_of_the_rows() -> None:
    data = rows(20_000)
    model = fit_naive_bayes(CellNumbers(data), schema(), "y", budget=None, mechanism="none")
    np.testing.assert_allclose(model.class_probabilities, np.bincount(data["y"]) / 20_000, atol=1e-4)
    for k, size in enumerate(SIZES):
        table = np.bincount(data["y"] * size + data[f"x{k}"], minlength=CLASSES * size).reshape(CLASSES, size)
        np.testing.assert_allclose(model.conditionals[k], table / table.sum(axis=1, keepdims=True), atol=5e-3)
    assert not model.private
    assert "exact counts" in str(model.certificate())


@pytest.mark.slow
def test_more_budget_is_closer_to_the_shares_of_the_rows() -> None:
    data = rows()
    exact = np.bincount(data["y"] * 5 + data["x2"], minlength=15).reshape(3, 5)
    exact = exact / exact.sum(axis=1, keepdims=True)
    errors = []
    for epsilon in (0.05, 1.0, 20.0):
        tables = [fit(budget=Budget.rdp(order=5, epsilon=epsilon), entropy=seed).conditionals[2] for seed in range(8)]
        errors.append(float(np.mean([np.abs(table - exact).mean() for table in tables])))
    assert errors[0] > 1.5 * errors[1] > 2 * errors[2]


# -- the law of joint tables ------------------------------------------------------------------------------------------


def test_joint_tables_have_the_law_of_separate_draws() -> None:
    """4,000 joint draws, Kolmogorov–Smirnov at 1e-3; r = 0.9 instead of 0.7 must be rejected.

    One Dirichlet(r f + α) draw over feature × class gives, within each class, the paper's Dirichlet(r f_j + α), and the
    class shares Dirichlet(r n_j + C α), with C the cells a class: the paper's separate draw with prior C α.
    """
    counts = np.array([[30, 4], [12, 9], [3, 40]])
    mechanism = Dirichlet(r=0.7, alpha=2.0)
    source = SeededEntropy(11)
    draws = np.array([mechanism.draw(counts, source.child(str(i))) for i in range(4000)])
    classes = draws.sum(axis=1)

    def law(first: float, rest: float, r: float = 0.7) -> Any:
        return beta(r * first + 2.0, r * rest + 2.0 * 2).cdf  # one cell against the other two of its class

    for j in range(2):
        share = draws[:, 0, j] / classes[:, j]
        first, rest = counts[0, j], counts[1:, j].sum()
        assert kstest(share, law(first, rest)).pvalue > 1e-3
        assert kstest(share, law(first, rest, r=0.9)).pvalue < 1e-3
    totals = counts.sum(axis=0)
    assert kstest(classes[:, 0], beta(0.7 * totals[0] + 6, 0.7 * totals[1] + 6).cdf).pvalue > 1e-3
    assert kstest(classes[:, 0], beta(0.9 * totals[0] + 6, 0.9 * totals[1] + 6).cdf).pvalue < 1e-3
    # Class shares and conditionals are independent: |correlation| of 4,000 pairs is below 0.055 with p > 5e-4.
    for j in range(2):
        assert abs(np.corrcoef(classes[:, 0], draws[:, 0, j] / classes[:, j])[0, 1]) < 0.055


def test_raw_estimates_of_a_dirichlet_draw_are_the_draw() -> None:
    model = fit(
        mechanism="dirichlet", calibration="algorithm1", estimate="raw", budget=Budget.rdp(order=5, epsilon=1.0)
    )
    for release, conditional in zip(model.releases, model.conditionals, strict=True):
        np.testing.assert_allclose(conditional.T, release.values / release.values.sum(axis=0), rtol=1e-14)
    np.testing.assert_allclose(model.class_probabilities, model.releases[1].values.sum(axis=0), rtol=1e-14)


@pytest.mark.parametrize("mechanism", ["polya", "dirichlet", "gaussian", "laplace", "balanced-laplace"])
@pytest.mark.parametrize("estimate", ["posterior-mean", "clip", "clip-tiny", "raw", "projection", "truncated-normal"])
def test_every_mechanism_with_every_estimate(mechanism: Any, estimate: Any) -> None:
    model = fit(mechanism=mechanism, estimate=estimate, budget=Budget.rdp(order=5, epsilon=1.0))
    data = rows(3000, seed=9)
    found = model.predict_log_proba([data[f"x{k}"] for k in range(len(SIZES))])
    assert np.isfinite(found).all()
    assert (found.argmax(axis=1) == data["y"]).mean() > 0.6
    for table in model.conditionals:
        np.testing.assert_allclose(table.sum(axis=1), 1, rtol=1e-12)


def test_an_unknown_total_is_estimated() -> None:
    model = fit(neighbours="add-remove")
    assert all(release.total is None for release in model.releases)
    np.testing.assert_allclose(model.class_probabilities, [0.5, 0.3, 0.2], atol=0.08)


# -- promises ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "second_look", "parts"), [(300, False, 4), (800, True, 5), (200_000, True, 11)])
def test_the_guarantee_recomputed_from_the_file_fits_the_budget(n: int, second_look: bool, parts: int) -> None:
    budget = Budget.rdp(order=5, epsilon=0.4)
    body = json.loads(fit(n=n, budget=budget, mechanism="gaussian", second_look=second_look).to_json())["body"]
    mechanisms = body["releases"][0]["guarantee"]["mechanisms"]
    assert all(release["guarantee"]["mechanisms"] == mechanisms for release in body["releases"])
    # Rényi divergence of Gaussian noise at order λ: λΔ²/2σ². Tables: Δ² = 2. A sum: 4R² (vectors) or 2R² (matrices).
    spent, paid = 0.0, 0.0
    for mechanism in mechanisms:
        p = mechanism["parameters"]
        if mechanism["name"] == "noisy-sum":
            shift = (4 if p["kind"] == "vector" else 2) * p["bound"] ** 2
            variance = 2 * math.ceil(p["sigma"] ** 2 * shift / 4)
            spent += 5 * shift / (2 * variance)
        else:
            spent += 5 * 2 / (2 * p["sigma"] ** 2)
            paid += 5 * 2 / (2 * p["sigma"] ** 2)
    drawn = sum(5 * 2 / (2 * release["mechanism"]["parameters"]["sigma"] ** 2) for release in body["releases"])
    assert drawn <= paid * (1 + 1e-9)
    assert len(mechanisms) == parts
    assert 0.999 * 0.4 < spent <= 0.4 * (1 + 1e-6)


@pytest.mark.slow
def test_the_certificate_of_a_private_fit() -> None:
    model = fit(entropy=None)
    certificate = model.certificate()
    assert certificate.private
    assert certificate.guarantee["epsilon_at_delta"]["1e-06"] == pytest.approx(1.0, rel=1e-3)
    assert certificate.guarantee["epsilon_at_delta"]["1e-06"] <= 1.0 + 1e-9
    assert not fit().certificate().private
    assert "seed" in fit().certificate().not_private[0]


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("n", [300, 200_000])
def test_a_model_read_by_another_process_predicts_the_same_bits(n: int, tmp_path: Path) -> None:
    model = fit(n=n, budget=Budget.rdp(order=5, epsilon=1.0), mechanism="gaussian")
    model.write(tmp_path / "model.json")
    np.save(tmp_path / "x.npy", codes())
    program = (
        "import sys, numpy as np; from simplexdp.models.naive_bayes import NaiveBayesModel as M;"
        "m = M.read(sys.argv[1]); np.save(sys.argv[3], m.predict_log_proba(np.load(sys.argv[2])))"
    )
    paths = [str(tmp_path / name) for name in ("model.json", "x.npy", "out.npy")]
    subprocess.run([sys.executable, "-c", program, *paths], check=True)
    np.testing.assert_array_equal(np.load(paths[2]), model.predict_log_proba(codes()))
    again = NaiveBayesModel.read(tmp_path / "model.json")
    assert again.to_json() == model.to_json()
    assert again.guarantee == model.guarantee
    assert again.schema == model.schema


def edited(change: Any) -> str:
    document = json.loads(fit().to_json())
    change(document)
    return json.dumps(document)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda d: d["body"]["weights"].__setitem__(0, 2.0), "changed"),
        (lambda d: d.update(version=99), "version 99"),
        (lambda d: d.update(format="simplexdp/release"), "not a naive-bayes"),
        (lambda d: d.pop("sha256"), "needs format"),
    ],
)
def test_a_changed_or_newer_file_is_refused_with_the_reason(change: Any, reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        NaiveBayesModel.from_json(edited(change))


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        lambda b: b.pop("target"),
        lambda b: b["conditionals"].pop(),
        lambda b: b["conditionals"][0][0].__setitem__(0, 0.0),
        lambda b: b["class_probabilities"].__setitem__(0, "a"),
        lambda b: b.update(releases=b["releases"][:3]),
        lambda b: b.update(releases=[]),
        lambda b: b["releases"][0]["guarantee"].update(rows=7),
        lambda b: b.update(weights=[1.0]),
        lambda b: b.update(conditionals=3),
        lambda b: b["releases"][0].update(columns=["a", "b"]),
    ],
)
def test_a_body_that_contradicts_itself_is_refused(change: Any) -> None:
    body = fit().to_body()
    body = json.loads(json.dumps(body))
    change(body)
    with pytest.raises(FormatError):
        NaiveBayesModel.from_body(body)


def test_batches_are_encoded_by_the_schema() -> None:
    import pyarrow as pa

    model = fit()
    x = codes(50)
    table = pa.table({f"x{k}": x[:, k] for k in range(len(SIZES))} | {"unused": ["a"] * 50})
    found = np.concatenate(list(predict_batches(model, table.to_batches(max_chunksize=7))))
    np.testing.assert_allclose(found, np.exp(model.predict_log_proba(x)), rtol=1e-15)


def test_a_class_with_other_or_missing_cells_is_refused() -> None:
    columns = [Categories([0, 1], name="x0"), Categories([0, 1], name="y", missing="cell")]
    with pytest.raises(InvalidArgument, match="target"):
        fit_naive_bayes(CellNumbers(np.zeros((4, 2), int)), Schema(columns), "y", budget=Budget.rdp(order=5, epsilon=1))


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "records"), [(0.001, 2000), (0.01, 700), (0.1, 300), (1.0, 100)])
def test_never_far_above_the_class_shares(epsilon: float, records: int) -> None:
    """20 sets of uneven classes and features that say little: the mean loss is below 1.05 × that of the shares."""
    ratios = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        labels = rng.choice(3, 2 * records, p=[0.6, 0.3, 0.1])
        codes = {f"x{k}": (rng.integers(0, 5, labels.size) + labels * (k == 0)) % 5 for k in range(6)}
        schema = Schema([*(Categories(range(5), name=name) for name in codes), Categories(range(3), name="y")])
        train = {name: column[:records] for name, column in (codes | {"y": labels}).items()}
        budget = Budget.rdp(order=5, epsilon=epsilon)
        model = fit_naive_bayes(CellNumbers(train), schema, "y", budget=budget, entropy=seed)
        found = model.predict_log_proba([column[records:] for column in codes.values()])
        truth = labels[records:]
        shares = np.bincount(labels[:records], minlength=3) / records
        ratios.append(-found[np.arange(records), truth].mean() / -np.log(shares)[truth].mean())
    assert np.mean(ratios) < 1.05  # ln 3 is 1.22 × theirs


def test_the_classes_get_what_they_need_before_the_features() -> None:
    schema = Schema([*(Categories(range(4), name=f"x{k}") for k in range(5)), Categories(range(2), name="y")])
    rng = np.random.default_rng(0)
    rows = CellNumbers({name: rng.integers(0, 2, 300) for name in schema.names})
    precisions = {}
    for epsilon in (0.001, 10.0):
        model = fit_naive_bayes(rows, schema, "y", budget=Budget.rdp(order=5, epsilon=epsilon), entropy=1)
        alone = sum(1 / r.noisy.variance for r in model.releases if r.columns == ("y",))
        precisions[epsilon] = alone * 5 / epsilon
    assert 0.8 < precisions[0.001] < 0.9  # of the budget
    assert precisions[10.0] == 0
