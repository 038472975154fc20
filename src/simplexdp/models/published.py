"""The published JSON Schemas of release and model files, for other programs that read them."""

from __future__ import annotations

from typing import Any

from ..schema import Schema
from .document import VERSION

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_NUMBERS = {"type": "array", "items": {"type": "number"}}
_TEXTS = {"type": "array", "items": {"type": "string"}}


def _object(properties: dict[str, Any], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


_MECHANISM = _object(
    {
        "name": {"enum": ["polya", "dirichlet", "gaussian", "laplace", "balanced-laplace", "none"]},
        "parameters": {"type": "object", "additionalProperties": {"type": "number"}},
    }
)
_AFTER_TABLES = _object(
    {
        "name": {"enum": ["noisy-sum", "gaussian-tables"]},
        "parameters": {"type": "object", "additionalProperties": {"type": ["number", "string"]}},
    }
)
_GUARANTEE = _object(
    {
        "mechanisms": {
            "type": "array",
            "items": {"oneOf": [_MECHANISM, _AFTER_TABLES]},
            "description": "one for each table released together, then those that follow the tables",
        },
        "neighbours": {"enum": ["replace-one", "add-remove"]},
        "unit": {"enum": ["row", "person"]},
        "rows": {"type": "integer", "minimum": 1, "description": "rows that one unit may have"},
        "pure": {**_NUMBERS, "description": "ε of pure-DP steps before the tables"},
        "budget": {
            "oneOf": [
                {"type": "null"},
                _object(
                    {
                        "epsilon": {"type": "number", "exclusiveMinimum": 0},
                        "delta": {"type": ["number", "null"]},
                        "order": {"type": ["number", "null"]},
                    }
                ),
            ]
        },
    }
)


def _release(guarantee_is_shared: bool = False) -> dict[str, Any]:
    properties = {
        "columns": _TEXTS,
        "shape": {"type": "array", "items": {"type": "integer", "minimum": 1}},
        "values": {**_NUMBERS, "description": "what was drawn, in C order; whole numbers unless a Dirichlet draw"},
        "mechanism": _MECHANISM,
        "guarantee": _GUARANTEE,
        "total": {"type": ["number", "null"], "description": "the number of records where it is public"},
        "schema": {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/schema"}]},
        "method": {"type": "string"},
        "entropy": {"enum": ["operating-system", "seeded"]},
        "not_private": {**_TEXTS, "description": "reasons why no promise is made; empty when it is"},
        "created": {"type": "string"},
        "software": {"type": "string"},
    }
    if guarantee_is_shared:
        del properties["guarantee"]
    return _object(properties)


def _bodies() -> dict[str, dict[str, Any]]:
    return {
        "release": _release(),
        "naive-bayes": _object(
            {
                "target": {"type": "string"},
                "method": {"type": "string"},
                "releases": {"type": "array", "items": _release(), "minItems": 1},
                "class_probabilities": _NUMBERS,
                "conditionals": {"type": "array", "items": {"type": "array", "items": _NUMBERS}},
                "weights": _NUMBERS,
                "biases": _NUMBERS,
                "schema": {
                    "oneOf": [{"type": "null"}, {"$ref": "#/$defs/schema"}],
                    "description": "of the model, where tables were released over merged bins of it",
                },
            },
            optional=("schema",),
        ),
        "bayesian-network": _object(
            {
                "families": {
                    "type": "array",
                    "items": {
                        "type": "array",
                        "prefixItems": [{"type": "string"}, _TEXTS],
                        "minItems": 2,
                        "maxItems": 2,
                    },
                },
                "schema": {"$ref": "#/$defs/schema"},
                "guarantee": _GUARANTEE,
                "releases": {"type": "array", "items": _release(guarantee_is_shared=True), "minItems": 1},
                "tables": {"type": "object", "additionalProperties": _NUMBERS},
            }
        ),
    }


KINDS = tuple(_bodies())


def document_schema(kind: str) -> dict[str, Any]:
    """The JSON Schema of documents of this kind."""
    columns = Schema.json_schema()
    parts = columns.pop("$defs")
    columns.pop("$schema")
    return {
        "$schema": _DIALECT,
        "title": f"simplexdp {kind}",
        **_object(
            {
                "format": {"const": f"simplexdp/{kind}"},
                "version": {"const": VERSION},
                "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
                "body": _bodies()[kind],
            }
        ),
        "$defs": {"schema": columns, **parts},
    }
