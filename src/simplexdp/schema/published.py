"""The published JSON Schema of schema files, for editors and other programs."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of what people may write and of what `to_json` writes.

    Two rules are beyond it: names are unique, and edges strictly increase.
    """
    schema = model.model_json_schema()
    for part in (schema, *schema["$defs"].values()):
        part["description"] = part["description"].splitlines()[0]
        for field in part["properties"].values():
            field.pop("title", None)
        if "name" in part["properties"]:
            part["properties"]["name"] = {
                "type": "string",
                "minLength": 1,
                "description": "The column in the data.",
            }
            part["required"] = ["name", *part.get("required", [])]
    quantiles = schema["$defs"]["Quantiles"]
    quantiles["required"].remove("bins")
    quantiles["properties"]["quantiles"] = quantiles["properties"]["bins"] | {"description": "The same as bins."}
    quantiles["oneOf"] = [{"required": ["bins"]}, {"required": ["quantiles"]}]
    numeric = schema["$defs"]["Numeric"]
    numeric["anyOf"] = [{"required": ["edges"]}, {"required": ["own"]}]
    return {"$schema": DIALECT, **schema}
