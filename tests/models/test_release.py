"""Releases: files both ways, certificates, and a guarantee that other code recomputes from the file."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pyarrow as pa
import pytest

from simplexdp import Budget, Release, Schema, release, release_distribution
from simplexdp.errors import FormatError
from simplexdp.models.document import checksum
from simplexdp.numerics.printed import printed

COUNTS = (119, 74, 618, 272, 13, 187)
BUDGET = Budget(epsilon=1.0, delta=1e-5)
MECHANISMS = ["auto", "polya", "dirichlet", "gaussian", "laplace", "balanced-laplace"]


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [*MECHANISMS, "none"])
def test_json_both_ways_with_types_intact(mechanism: Any) -> None:
    made = release(COUNTS, budget=BUDGET, mechanism=mechanism, entropy=5)
    back = Release.from_json(made.to_json())
    assert back.values.dtype == made.values.dtype
    assert back.values.tolist() == made.values.tolist()
    assert back.mechanism == made.mechanism
    assert [type(v) for v in back.mechanism.parameters.values()] == [
        type(v) for v in made.mechanism.parameters.values()
    ]
    assert back.to_json() == made.to_json()
    assert back.probabilities.tolist() == made.probabilities.tolist()
    assert (back.created, back.software, back.total) == (made.created, made.software, made.total)


def test_a_release_of_a_table_keeps_its_schema() -> None:
    import pandas as pd

    schema = Schema.of(flag=[False, True], day=[1, 2])
    frame = pd.DataFrame({"flag": [True, False] * 50, "day": [1, 1, 2, 2] * 25})
    made = release_distribution(frame, schema, ["flag", "day"], budget=BUDGET)
    back = Release.from_json(made.to_json())
    assert back.schema == schema
    assert isinstance(back.schema["flag"].values[0], bool)
    assert back.columns == ("flag", "day")


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_guarantee_recomputed_from_the_file_by_other_code(mechanism: Any) -> None:
    """40-digit Rényi divergences written here from the parameters in the JSON, against the claim in the certificate."""
    budget = Budget.rdp(order=5, epsilon=0.5)
    few = np.tile([3, 0, 1, 0], 10)  # small counts, so that the Pólya parameters are small enough to enumerate
    made = release(few, budget=budget, mechanism=mechanism)
    body = json.loads(made.to_json())["body"]
    claimed = json.loads(made.certificate().to_json())["guarantee"]["renyi_epsilon_at_order"]["5"]
    with mp.workdps(40):
        exact = sum(_renyi(entry["name"], entry["parameters"], 5) for entry in body["guarantee"]["mechanisms"])
    assert exact <= claimed <= exact * (1 + 1e-9)
    assert claimed <= 0.5


def _renyi(name: str, parameters: dict[str, Any], order: int) -> mp.mpf:
    w = mp.mpf(order - 1)
    if name == "dirichlet":
        r, a = mp.mpf(parameters["r"]), mp.mpf(parameters["alpha"])
        total = mp.loggamma(a + (1 + w) * r) + mp.loggamma(a - w * r) - mp.loggamma(a + r) - mp.loggamma(a)
        return total / w
    if name == "polya":
        r, a, p = parameters["r"], parameters["alpha"], mp.mpf(2) ** -parameters["flips"]
        return (_moment(a + r, a, p, w) + _moment(a, a + r, p, w)) / w
    if name == "gaussian":
        mantissa, exponent = math.frexp(parameters["sigma"] ** 2)
        variance = mp.mpf(math.ceil(mantissa * 2**36)) * mp.mpf(2) ** (exponent - 36)
        xs = range(-int(40 * math.sqrt(variance)) - 9, int(40 * math.sqrt(variance)) + 10)
        mass = mp.fsum(mp.exp(-(mp.mpf(x) ** 2) / (2 * variance)) for x in xs)
        moment = mp.fsum(
            mp.exp(-(mp.mpf(x) ** 2) / (2 * variance) + w * (mp.mpf(x - 1) ** 2 - mp.mpf(x) ** 2) / (2 * variance))
            for x in xs
        )
        return 2 * mp.log(moment / mass) / w
    mantissa, exponent = math.frexp(parameters["scale"])
    t = 1 / (mp.mpf(math.ceil(mantissa * 2**36)) * mp.mpf(2) ** (exponent - 36))
    if name == "balanced-laplace":
        d, x = parameters["cells"], mp.coth(t)
        most = mp.legendre(d - 2, x) / (-mp.expm1(-2 * t) * mp.legendre(d - 1, x))
        rest = 1 - most * (1 + mp.exp(-2 * t))
        return mp.log(most * (mp.exp(2 * w * t) + mp.exp(-2 * t * (1 + w))) + rest) / w
    moment = (mp.exp(w * t) + mp.exp(-t) * mp.exp(-w * t)) / (1 + mp.exp(-t))
    return 2 * mp.log(moment) / w


def _moment(shape_p: int, shape_q: int, p: mp.mpf, w: mp.mpf) -> mp.mpf:
    def log_mass(x: int, n: int) -> mp.mpf:
        return mp.loggamma(x + n) - mp.loggamma(n) - mp.loggamma(x + 1) + n * mp.log(p) + x * mp.log(1 - p)

    top = int(shape_p * float((1 - p) / p) * 3 + 1000)
    return mp.log(mp.fsum(mp.exp((1 + w) * log_mass(x, shape_p) - w * log_mass(x, shape_q)) for x in range(top)))


def _edited(made: Release, change: dict[str, Any], *, seal: bool) -> str:
    document = json.loads(made.to_json())
    document["body"].update(change)
    if seal:
        document["sha256"] = checksum(document["body"])
    return json.dumps(document)


def test_a_changed_truncated_or_newer_file_is_refused_with_the_reason(tmp_path: Path) -> None:
    made = release(COUNTS, budget=BUDGET)
    text = made.to_json()
    cases = {
        _edited(made, {"total": 5.0}, seal=False): "changed after it was written",
        _edited(made, {"values": ["x"] * 6}, seal=True): "wrong type",
        _edited(made, {"shape": [7]}, seal=True): "wrong type",
        _edited(made, {"mechanism": {"name": "magic", "parameters": {}}}, seal=True): "mechanism",
        json.dumps({**json.loads(text), "version": 99}): "Update simplexdp",
        json.dumps({**json.loads(text), "format": "simplexdp/other"}): "not a release",
        text[: len(text) // 2]: "truncated",
        "[" * 100_000: "nested too deeply",
        "{}": "needs format, version",
        '{"format": NaN}': "not JSON",
        text.replace('"values":', '"values": [1, 2], "values":', 1): "not JSON",
    }
    for broken, reason in cases.items():
        with pytest.raises(FormatError, match=reason):
            Release.from_json(broken)
    path = tmp_path / "r.json"
    made.write(path)
    assert Release.read(path).to_json() == text
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]
    with pytest.raises(FormatError, match="No such file"):
        Release.read(tmp_path / "absent.json")


@pytest.mark.slow
def test_another_process_reads_the_same_probabilities(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    made = release(COUNTS, budget=BUDGET)
    made.write(path)
    code = f"from simplexdp import Release; print(Release.read({str(path)!r}).probabilities.tobytes().hex())"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == made.probabilities.tobytes().hex()


@pytest.mark.slow
def test_certificates_say_what_breaks_the_promise() -> None:
    assert release(COUNTS, budget=BUDGET).certificate().private
    seeded = release(COUNTS, budget=BUDGET, entropy=1).certificate()
    assert not seeded.private
    assert "seed" in str(seeded)
    assert str(seeded).startswith("NOT PRIVATE")
    exact = release(COUNTS, budget=None, mechanism="none")
    assert "exact counts were published" in exact.not_private
    assert exact.loss.delta(100.0) == 1.0
    float_draw = release(COUNTS, budget=BUDGET, mechanism="dirichlet").certificate()
    assert any("floating point" in item for item in float_draw.not_covered)
    hidden = release(COUNTS, budget=BUDGET, neighbours="add-remove")
    assert hidden.total is None
    assert "added or removed" in hidden.certificate().promise
    assert not any("number of" in item and "rows" in item for item in hidden.certificate().assumed_public)


def test_a_table_of_one_cell_is_read_back(tmp_path: Path) -> None:
    """A column may have one value; what was drawn and paid for must not be lost in its file."""
    schema = Schema.of(a=["x"])
    for neighbours in ("replace-one", "add-remove"):
        made = release_distribution(pa.table({"a": ["x"] * 9}), schema, ["a"], budget=BUDGET, neighbours=neighbours)
        made.write(tmp_path / "one.json")
        assert Release.read(tmp_path / "one.json").probabilities.tolist() == [1.0]


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["auto", "balanced-laplace", "laplace", "gaussian", "polya"])
def test_certificates_never_show_a_budget_that_holds_as_overspent(mechanism: Any) -> None:
    """ε at δ is searched from above; here 1.000000000000003 would be told as 1.00001."""
    asked = Budget(epsilon=1.0, delta=1e-5)
    made = release([100, 2, 3, 4], budget=asked, mechanism=mechanism)
    assert made.loss.fits(asked)
    assert made.guarantee.epsilon(1e-5) <= 1.0
    assert made.certificate().guarantee["epsilon_at_delta"]["1e-05"] <= 1.0
    assert "1.00001" not in made.certificate().promise
    less = replace(
        made.guarantee, budget=Budget(epsilon=0.5, delta=1e-5)
    )  # a budget that does not hold changes nothing
    assert less.epsilon(1e-5) == made.loss.epsilon(1e-5)


def test_nothing_private_in_the_representation() -> None:
    made = release([123457, 76543, 98765], budget=Budget(epsilon=1.0, delta=1e-8))
    assert "123457" not in repr(made)
    assert "123457" not in str(made.certificate())


def test_a_release_cannot_be_changed() -> None:
    made = release(COUNTS, budget=BUDGET)
    with pytest.raises(ValueError, match="read-only"):
        made.values[0] = 1
    with pytest.raises(AttributeError):
        made.total = 5.0  # type: ignore[misc]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["raw", "clip", "clip-tiny", "projection", "truncated-normal", "posterior-mean"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_estimate_of_every_mechanism_is_a_distribution(method: Any, mechanism: Any) -> None:
    made = release(COUNTS, budget=BUDGET, mechanism=mechanism, estimate=method, entropy=2)
    assert made.probabilities.sum() == pytest.approx(1, abs=1e-12)
    assert (made.probabilities > 0).all()
    lower, upper = made.intervals(0.95)
    assert (lower <= upper).all()
    assert np.isfinite(made.standard_errors).all()


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_certificates_say_the_risk_in_words_and_as_data(neighbours: Any) -> None:
    made = release([40, 60], budget=BUDGET, neighbours=neighbours)
    certificate, loss = made.certificate(), made.guarantee.loss
    risk = certificate.guarantee["risk"]
    assert risk == {
        "advantage": loss.advantage(),
        "posterior_from_half": loss.posterior(),
        "power_at": {"0.001": loss.power(0.001), "0.01": loss.power(0.01), "0.1": loss.power(0.1)},
    }
    text = str(certificate)
    assert f"largest advantage of any attacker: {printed(loss.advantage())}" in text
    for share in (loss.posterior(), loss.power(0.001), loss.power(0.1)):
        assert f"{printed(Fraction(share) * 100)} %" in text
    assert ("which of two rows" in text) == (neighbours == "replace-one")
    assert certificate.risk[0] in json.loads(certificate.to_json())["risk"]
