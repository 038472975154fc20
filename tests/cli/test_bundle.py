"""The bundle: everything an institution asks for, valid, public, and asked of a person once."""

from __future__ import annotations

import base64
import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from simplexdp import Budget, CellNumbers, Schema, release, release_distribution
from simplexdp.bundle import QUESTIONS, Answers, bundle, parameters, registry_entry
from simplexdp.cli import run
from simplexdp.errors import InvalidArgument
from simplexdp.synthetic import write_synthetic_records

GIVEN = {
    "name": "Wards and ages",
    "curators": "City hospital; Region",
    "purpose": "Planning",
    "region": "Somewhere",
    "sector": "Healthcare",
    "author": "A. Officer",
    "justification": "Policy 7",
    "access": "Two people; files are deleted after a week",
    "policy": "Yearly, each with a budget of its own",
}
TEXT = {"type": "string", "minLength": 1}


def exactly(optional: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:
    needed = [name for name in fields if name not in optional]
    return {"type": "object", "additionalProperties": False, "required": needed, "properties": fields}


# The fields, choices and types of the registry's schema that an entry of ours has; each of its own was looked up there.
REGISTRY = exactly(
    url_slug={"type": "string", "pattern": "^[a-z0-9-]+$"},
    status={"enum": ["Draft"]},
    tier={"enum": [1, 2, 3]},
    deployment=exactly(
        basic=exactly(
            ("data_product_sector",),
            name=TEXT,
            data_curators={"type": "array", "items": TEXT, "minItems": 1},
            description=TEXT,
            intended_use=TEXT,
            data_product_type={"enum": ["Summary statistics", "Machine learning model", "Dataset", "Synthetic data"]},
            data_product_region=TEXT,
            publication_date={"type": "string", "format": "date"},
            data_product_sector={"enum": ["Technology", "Healthcare", "Education", "Government", "Energy", "Finance"]},
        ),
        dp_variant=exactly(
            variant_name={"enum": ["Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"]},
            data_domain=TEXT,
            unprotected_quantities=TEXT,
        ),
        privacy_loss=exactly(
            privacy_unit=TEXT,
            privacy_unit_details=TEXT,
            privacy_parameters=exactly(
                ("epsilon", "delta", "rho"),
                epsilon={"type": "number"},
                delta={"type": ["number", "string"]},
                rho={"type": "number"},
            ),
            privacy_parameters_details=TEXT,
        ),
        deployment_model=exactly(
            model_name={"enum": ["Local", "Central", "Shuffle", "Federated"]},
            actors=TEXT,
            release_type={"enum": ["One release", "Many releases"]},
            release_type_details=TEXT,
            data_source_type={"enum": ["Static", "Dynamic"]},
            access_type={"enum": ["Interactive", "Non-interactive"]},
        ),
        accounting=exactly(post_processing=TEXT, composition=TEXT),
        implementation=exactly(preprocessing_and_hyperparameter_tuning=TEXT, mechanisms=TEXT, justification=TEXT),
        administrative=exactly(notes=TEXT, registry_authors={"type": "array", "items": TEXT, "minItems": 1}),
    ),
)


def valid(entry: Any) -> None:
    checker = jsonschema.Draft7Validator.FORMAT_CHECKER
    jsonschema.Draft7Validator(REGISTRY, format_checker=checker).validate(entry)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    schema = Schema.of(ward=["a", "b"], age=["young", "old"])
    rows = CellNumbers({"ward": [0, 1] * 200, "age": [0, 0, 1, 1] * 100})
    path = tmp_path_factory.mktemp("published") / "release.json"
    budget = Budget(epsilon=1, delta=1e-6)
    release_distribution(rows, schema, ["ward", "age"], budget=budget, rows_per_person=None).write(path)
    return path


def test_a_folder_with_everything(published: Path, tmp_path: Path) -> None:
    (tmp_path / "answers.yaml").write_text(yaml.safe_dump(GIVEN))
    asked = ["bundle", str(published), "--out", str(tmp_path / "out"), "--answers", str(tmp_path / "answers.yaml")]
    assert run(asked) == 0
    out = tmp_path / "out"
    for line in (out / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((out / name).read_bytes()).hexdigest() == digest
    assert (out / "release.json").read_bytes().strip() == published.read_bytes().strip()
    assert json.loads((out / "certificate.json").read_text())["private"]
    assert (out / "certificate.txt").read_text().startswith("PRIVATE")
    assert "<html" in (out / "report.html").read_text()
    assert Schema.from_json((out / "schema.json").read_text()).names == ("ward", "age")
    entry = yaml.safe_load((out / "registry_entry.yaml").read_text())
    valid(entry)
    assert entry["deployment"]["basic"]["data_curators"] == ["City hospital", "Region"]
    assert entry["deployment"]["privacy_loss"]["privacy_parameters"] == pytest.approx({"epsilon": 1.0, "delta": 1e-6})
    for sheet in ("nist_sp_800_226.md", "w3c_review.md"):
        text = (out / sheet).read_text()
        assert all(answer in text for answer in ("Policy 7", "Yearly", "deleted after a week"))
        assert "Not answered" not in text
    assert run(asked) == 2  # nothing is replaced


def test_the_check_of_the_registry_can_fail(published: Path) -> None:
    from simplexdp import read

    model = read(published)
    entry = registry_entry(model, model.certificate(), Answers(given=GIVEN))
    valid(entry)
    entry["deployment"]["basic"]["publication_date"] = "soon"
    with pytest.raises(jsonschema.ValidationError):
        valid(entry)


def test_at_most_nine_questions_asked_once(published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(QUESTIONS) <= 9
    kept = tmp_path / "answers.yaml"
    assert run(["bundle", str(published), "--out", str(tmp_path / "a.zip"), "--answers", str(kept)]) == 0
    assert "Not answered yet" in capsys.readouterr().out
    assert set(yaml.safe_load(kept.read_text())) == set(QUESTIONS)
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        valid(yaml.safe_load(archive.read("registry_entry.yaml")))
        assert b"Not answered yet" in archive.read("w3c_review.md")
    kept.write_text(yaml.safe_dump(GIVEN))
    assert Answers.read(kept).missing == ()
    kept.write_text("nmae: x\n")
    assert run(["bundle", str(published), "--out", str(tmp_path / "b.zip"), "--answers", str(kept)]) == 2
    assert not (tmp_path / "b.zip").exists()


@pytest.mark.parametrize(
    ("budget", "mechanism", "variant", "names"),
    [
        (Budget.pure(1.0), "laplace", "Pure DP", {"epsilon"}),
        (Budget.zcdp(rho=0.02), "gaussian", "Zero-concentrated DP", {"rho"}),
        (Budget.rdp(order=5, epsilon=0.3), "gaussian", "Approximate DP", {"epsilon", "delta"}),
    ],
)
def test_every_kind_of_budget_has_an_entry(budget: Budget, mechanism: Any, variant: str, names: set[str]) -> None:
    model = release([30, 20, 50], budget=budget, mechanism=mechanism)
    entry = registry_entry(model, model.certificate(), Answers(given=GIVEN))
    valid(entry)
    assert entry["deployment"]["dp_variant"]["variant_name"] == variant
    assert set(parameters(model.certificate())) == names


def test_what_makes_no_promise_has_no_bundle(tmp_path: Path) -> None:
    model = release([30, 20, 50], budget=Budget(epsilon=1, delta=1e-6), entropy=1)
    with pytest.raises(InvalidArgument, match="promise"):
        bundle(model, tmp_path / "out", Answers(given=GIVEN))
    assert not (tmp_path / "out").exists()


def test_a_local_key_signs_the_checksums(published: Path, tmp_path: Path) -> None:
    hashes = pytest.importorskip("cryptography.hazmat.primitives.hashes")
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    form = serialization.PrivateFormat.PKCS8
    pem = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    (tmp_path / "key.pem").write_bytes(pem)
    asked = ["bundle", str(published), "--sign-key", str(tmp_path / "key.pem"), "--out"]
    assert run([*asked, str(tmp_path / "out")]) == 0
    signature = base64.b64decode((tmp_path / "out" / "SHA256SUMS.sig").read_bytes())
    sums = (tmp_path / "out" / "SHA256SUMS").read_bytes()
    key.public_key().verify(signature, sums, ec.ECDSA(hashes.SHA256()))
    with pytest.raises(InvalidSignature):
        key.public_key().verify(signature, sums + b"x", ec.ECDSA(hashes.SHA256()))
    (tmp_path / "key.pem").write_text("no key")
    assert run([*asked, str(tmp_path / "again")]) == 2


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_synthetic_records_have_croissant_metadata(published: Path, tmp_path: Path, suffix: str) -> None:
    from simplexdp import read

    write_synthetic_records(read(published), 20, tmp_path / f"r{suffix}", seed=1)
    asked = ["bundle", str(published), "--records", str(tmp_path / f"r{suffix}"), "--out", str(tmp_path / "out")]
    assert run(asked) == 0
    found = json.loads((tmp_path / "out" / "croissant.json").read_text())
    (file,) = found["distribution"]
    assert hashlib.sha256((tmp_path / "out" / file["contentUrl"]).read_bytes()).hexdigest() == file["sha256"]
    assert [field["name"] for field in found["recordSet"][0]["field"]] == ["ward", "age"]
    croissant = pytest.importorskip(
        "mlcroissant", reason="mlcroissant is no light dependency: `pip install mlcroissant`"
    )
    rows = list(croissant.Dataset(str(tmp_path / "out" / "croissant.json")).records("records"))
    assert len(rows) == 20
