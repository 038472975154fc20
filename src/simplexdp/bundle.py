"""One folder or zip with what institutions ask for beside a release: promise, report, registry entry, review answers.

Nine things at most cannot be read off a release; they are asked once and kept in a file of answers. Everything else
follows from the certificate. Nothing here reads private data.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
import os
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import InvalidArgument, MissingExtra
from .lazy import pa, pq
from .models import Certificate, Model
from .models.document import checksum, whole_file
from .numerics.printed import printed
from .report import model_report
from .schema.text import dump_yaml, parse_yaml, read_text

QUESTIONS: dict[str, str] = {
    "name": "What is the data product called?",
    "curators": "Who publishes it? (several with ; between them)",
    "purpose": "What is it meant to be used for?",
    "region": "Which region do the data describe, or whose law applies?",
    "sector": "Technology, Healthcare, Education, Government, Energy or Finance? (empty for none of them)",
    "author": "Who fills in these answers?",
    "justification": "Why these privacy parameters, unit and neighbours; who decided?",
    "access": "Who can see the original data and intermediate files, and when are they deleted?",
    "policy": "Will there be further releases from the same data; what is the budget over time?",
}
"""What has to be asked of a person: at most nine things."""
SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
_EARLIEST = (1980, 1, 1, 0, 0, 0)
_TYPES = {"int64": "sc:Integer", "double": "sc:Float", "bool": "sc:Boolean", "date32[day]": "sc:Date"}


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Answers to `QUESTIONS`; those that are empty are left for later, and the files say so."""

    given: Mapping[str, str]

    def __post_init__(self) -> None:
        unknown = sorted(set(self.given) - set(QUESTIONS))
        if unknown:
            raise InvalidArgument("answers", "to the questions that are asked: " + ", ".join(QUESTIONS), got=unknown[0])
        if self["sector"] and self["sector"] not in SECTORS:
            raise InvalidArgument("sector", "empty or one of " + ", ".join(SECTORS), got=self["sector"])

    def __getitem__(self, name: str) -> str:
        return str(self.given.get(name) or "").strip()

    def said(self, name: str) -> str:
        """The answer, or that there is none."""
        return self[name] or f"Not answered yet: {QUESTIONS[name]}"

    @property
    def missing(self) -> tuple[str, ...]:
        """What is still to be asked; a sector may stay empty."""
        return tuple(name for name in QUESTIONS if not self[name] and name != "sector")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Answers:
        """From a YAML file of answers by name."""
        found = parse_yaml(read_text(Path(path)))
        if not isinstance(found, dict) or not all(isinstance(v, str) or v is None for v in found.values()):
            raise InvalidArgument("answers", "a file with a text for each question", got=str(path))
        return cls(given={str(key): value or "" for key, value in found.items()})

    def to_yaml(self) -> str:
        """For the next time."""
        return dump_yaml({name: self[name] for name in QUESTIONS})


def bundle(
    model: Model,
    path: str | os.PathLike[str],
    answers: Answers,
    *,
    records: str | os.PathLike[str] | None = None,
    key: str | os.PathLike[str] | None = None,
) -> tuple[str, ...]:
    """Write the folder, or the zip if the path ends so, and return the names of the files in it.

    Args:
        model: a release or model that makes a promise.
        path: a new folder, or a new .zip file.
        answers: to the questions.
        records: a .csv or .parquet file of synthetic records from it, which is put beside with Croissant metadata.
        key: a PEM file with a private key (ECDSA P-256) that signs the list of checksums, as `cosign sign-blob` does.
    """
    place, certificate = Path(path), model.certificate()
    if not certificate.private:
        raise InvalidArgument("model", "a release that makes a promise", got="; ".join(certificate.not_private))
    if place.exists():
        raise InvalidArgument("path", "a new folder or .zip file", got=str(place))
    files = _files(model, certificate, answers)
    if records is not None:
        files |= _record_files(Path(records), answers, certificate, model.releases[0].created[:10])
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items())).encode()
    files["SHA256SUMS"] = sums
    if key is not None:
        files["SHA256SUMS.sig"] = signed(sums, Path(key).read_bytes())
    if place.suffix.lower() == ".zip":
        with whole_file(place) as made:
            made.write_bytes(_zipped(files))
    else:
        place.mkdir()
        for name, data in files.items():
            with whole_file(place / name) as made:
                made.write_bytes(data)
    return tuple(sorted(files))


def _files(model: Model, certificate: Certificate, answers: Answers) -> dict[str, bytes]:
    entry = registry_entry(model, certificate, answers)
    texts = {
        "release.json": model.to_json(),
        "certificate.txt": f"{certificate}\n",
        "certificate.json": certificate.to_json(),
        "report.html": model_report(model),
        "registry_entry.yaml": dump_yaml(entry),
        "nist_sp_800_226.md": _sheet("Answers for NIST SP 800-226", nist_answers(certificate, answers)),
        "w3c_review.md": _sheet(
            "Answers for the W3C note on reviewing differential privacy", w3c(certificate, answers)
        ),
        "answers.yaml": answers.to_yaml(),
    }
    if model.schema is not None:
        texts["schema.json"] = model.schema.to_json()
    return {name: text.encode() for name, text in texts.items()}


# -- what follows from a certificate ----------------------------------------------------------------------------------


def parameters(certificate: Certificate) -> dict[str, float]:
    """ε at the δ that was asked for, or at 10⁻⁵; a pure ε where there is one, ρ of a zCDP budget."""
    body = certificate.guarantee
    asked = body["budget"] or {}
    if asked.get("concentrated"):
        return {"rho": body["zcdp_rho"]}
    if body.get("pure_epsilon") is not None and not asked.get("delta"):
        return {"epsilon": body["pure_epsilon"]}
    known = {float(delta): epsilon for delta, epsilon in body["epsilon_at_delta"].items() if epsilon is not None}
    wanted = float(asked.get("delta") or 1e-5)
    delta = min(known, key=lambda other: abs(math.log(max(other, 1e-300) / wanted)))
    return {"epsilon": known[delta], "delta": delta}


def _variant(certificate: Certificate) -> str:
    found = parameters(certificate)
    if "rho" in found:
        return "Zero-concentrated DP"
    return "Approximate DP" if "delta" in found else "Pure DP"


def _unit(certificate: Certificate) -> tuple[str, str]:
    body = certificate.guarantee
    unit = "a person" if body["unit"] == "person" else "a record"
    rows = f", of whom at most {body['rows']} rows are used" if body["unit"] == "person" else ""
    change = "replaced by any other" if body["neighbours"] == "replace-one" else "added or removed"
    return unit, f"Two data sets are adjacent if one of them follows from the other when {unit}{rows} is {change}."


def registry_entry(model: Model, certificate: Certificate, answers: Answers) -> dict[str, Any]:
    """For the public registry of deployments (opendp/deployments-registry-data), as a draft of tier 3."""
    unit, adjacent = _unit(certificate)
    kinds = {"tables": "Summary statistics", "release": "Summary statistics"}
    name = answers.said("name")
    curators = [each.strip() for each in answers.said("curators").split(";") if each.strip()]
    basic = {
        "name": name,
        "data_curators": curators,
        "description": f"{model.title}. {certificate.promise}",
        "intended_use": answers.said("purpose"),
        "data_product_type": kinds.get(model.kind, "Machine learning model"),
        "data_product_region": answers.said("region"),
        "publication_date": model.releases[0].created[:10],
        **({"data_product_sector": answers["sector"]} if answers["sector"] else {}),
    }
    mechanisms = ", ".join(dict.fromkeys(each["name"] for each in certificate.guarantee["mechanisms"]))
    return {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:80] or "release",
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": basic,
            "dp_variant": {
                "variant_name": _variant(certificate),
                "data_domain": "All tables with the columns and values that the published schema declares.",
                "unprotected_quantities": "; ".join(certificate.assumed_public),
            },
            "privacy_loss": {
                "privacy_unit": unit,
                "privacy_unit_details": adjacent,
                "privacy_parameters": parameters(certificate),
                "privacy_parameters_details": " ".join([certificate.promise, *certificate.risk]),
            },
            "deployment_model": {
                "model_name": "Central",
                "actors": answers.said("access"),
                "release_type": "One release",
                "release_type_details": answers.said("policy"),
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": "Estimates, intervals, predictions and synthetic records follow from the releases.",
                "composition": "Exact composition of all mechanisms: " + "; ".join(certificate.steps),
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": "Declared: " + "; ".join(certificate.declarations or ("–",)),
                "mechanisms": f"{mechanisms}, by {model.releases[0].software}, with random words of the operating "
                "system and exact integer samplers where the mechanism has one. Not covered: "
                + "; ".join(certificate.not_covered),
                "justification": answers.said("justification"),
            },
            "administrative": {
                "notes": f"SHA-256 of the release: {checksum(model.to_body())}",
                "registry_authors": [answers.said("author")],
            },
        },
    }


def _told(certificate: Certificate) -> str:
    return ", ".join(f"{name} = {printed(value)}" for name, value in parameters(certificate).items())


def nist_answers(certificate: Certificate, answers: Answers) -> dict[str, str]:
    """By the layers of the guidelines: guarantee, algorithms, and what surrounds them."""
    unit, adjacent = _unit(certificate)
    return {
        "Privacy parameters": f"{_variant(certificate)}: {_told(certificate)}. {certificate.promise}",
        "Why these parameters": answers.said("justification"),
        "Unit of privacy": f"{unit[:1].upper()}{unit[1:]}. {adjacent}",
        "What an attacker can do": " ".join(certificate.risk),
        "What is not protected": "; ".join((*certificate.assumed_public, *certificate.not_covered)),
        "Mechanisms and composition": "; ".join(certificate.steps),
        "Floating point and random numbers": "Integers are drawn exactly, with words of the operating system.",
        "Utility": "Every number is published with an interval; see the report.",
        "Subgroups": "Small groups have the same noise and a larger relative error; their intervals show it.",
        "Trust model": "Central: " + answers.said("access"),
        "Exposure over time": answers.said("policy"),
        "Purpose": answers.said("purpose"),
        "Authorship": answers.said("author"),
    }


def w3c(certificate: Certificate, answers: Answers) -> dict[str, str]:
    """The trade-offs that a reviewer who is no expert is told to look at."""
    unit, adjacent = _unit(certificate)
    return {
        "Who is protected, and from what change": f"{unit}. {adjacent}",
        "How strong is the protection, in words": " ".join(certificate.risk),
        "The numbers": _told(certificate),
        "Who chose them, and why": answers.said("justification"),
        "Does the loss grow over time": answers.said("policy"),
        "Who has to be trusted; what happens to the original data": answers.said("access"),
        "What is it used for, and how exact is it": f"{answers.said('purpose')} Intervals are in the report.",
        "Are small groups served worse": "The noise is the same for all, so shares of small groups are less exact.",
        "What is outside of the promise": "; ".join((*certificate.assumed_public, *certificate.not_covered)),
        "Can it be checked": "Mechanisms and parameters are in the certificate, with proofs; the audit draws them.",
    }


def _sheet(title: str, answers: Mapping[str, str]) -> str:
    return f"# {title}\n\n" + "".join(f"## {name}\n\n{text}\n\n" for name, text in answers.items())


# -- synthetic records ------------------------------------------------------------------------------------------------


def _record_files(path: Path, answers: Answers, certificate: Certificate, created: str) -> dict[str, bytes]:
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise InvalidArgument("records", "a .csv or .parquet file", got=str(path))
    data = path.read_bytes()
    if suffix == ".csv":
        import pyarrow.csv

        schema = pyarrow.csv.read_csv(pa.BufferReader(data)).schema
    else:
        schema = pq.read_schema(pa.BufferReader(data))
    name = f"records{suffix}"
    found = _croissant(name, data, schema, answers, certificate, created)
    return {name: data, "croissant.json": json.dumps(found, indent=1, ensure_ascii=False).encode()}


def _croissant(
    name: str, data: bytes, schema: Any, answers: Answers, certificate: Certificate, created: str
) -> dict[str, Any]:
    """Metadata by the vocabulary of MLCommons Croissant 1.0: the file, and one field for each column."""
    kind = "text/csv" if name.endswith(".csv") else "application/x-parquet"
    fields = [
        {
            "@type": "cr:Field",
            "@id": f"records/{field.name}",
            "name": field.name,
            "dataType": _TYPES.get(str(field.type), "sc:Text"),
            "source": {"fileObject": {"@id": name}, "extract": {"column": field.name}},
        }
        for field in schema
    ]
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "name": re.sub(r"[^A-Za-z0-9]+", "_", answers.said("name")),
        "description": f"Synthetic records. {certificate.promise}",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "datePublished": created,
        "version": "1.0.0",
        "creator": [{"@type": "sc:Organization", "name": each.strip()} for each in answers.said("curators").split(";")],
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": name,
                "name": name,
                "contentUrl": name,
                "encodingFormat": kind,
                "sha256": hashlib.sha256(data).hexdigest(),
            }
        ],
        "recordSet": [{"@type": "cr:RecordSet", "@id": "records", "name": "records", "field": fields}],
    }


_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "recordSet": "cr:recordSet",
    "field": "cr:field",
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "source": "cr:source",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "extract": "cr:extract",
    "column": "cr:column",
}


# -- zip and signature ------------------------------------------------------------------------------------------------


def _zipped(files: Mapping[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name, _EARLIEST), data, zipfile.ZIP_DEFLATED)
    return made.getvalue()


def signed(data: bytes, key: bytes) -> bytes:
    """The signature of `cosign sign-blob --key`: ECDSA over SHA-256, base64; `cosign verify-blob` checks it."""
    try:
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError:
        raise MissingExtra("cryptography", "sign") from None
    try:
        private = serialization.load_pem_private_key(key, password=None)
    except (ValueError, TypeError):
        private = None
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        raise InvalidArgument("key", "a PEM file with a private ECDSA key without a password")
    return base64.b64encode(private.sign(data, ec.ECDSA(hashes.SHA256()))) + b"\n"
