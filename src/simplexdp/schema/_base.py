"""What every part of a schema shares: frozen, strict, and errors that name the field."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from ..errors import SchemaError

_EXPECTATIONS = {
    "missing": "given",
    "extra_forbidden": "left out: there is no such field",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "a string",
    "tuple_type": "a list",
}


class Part(BaseModel):
    """A frozen piece of a schema."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise translate(error, type(self)) from None


def with_first(name: str, first: tuple[Any, ...], fields: dict[str, Any]) -> dict[str, Any]:
    """Fields where the one called `name` may have been given by position."""
    if len(first) > 1 or (first and name in fields):
        raise SchemaError(name, "given once", hint="Every other field goes by its name.")
    return {name: first[0], **fields} if first else fields


def translate(error: ValidationError, model: type[BaseModel]) -> SchemaError:
    """The first of pydantic's complaints as one of ours: path to the field, expectation and hint."""
    first = error.errors(include_url=False)[0]
    path = join_path(*first["loc"]) or model.__name__
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, SchemaError):
        return nested(join_path(*first["loc"]), cause)
    kind = first["type"]
    if kind == "extra_forbidden":
        known = ", ".join(model.model_fields)
        return SchemaError(path, _EXPECTATIONS[kind], hint=f"The fields are: {known}.")
    expectation = _EXPECTATIONS.get(kind)
    if expectation is None:
        message = first["msg"]
        expectation = message.removeprefix("Input should be ")
        if expectation == message:
            expectation = f"valid ({message[:1].lower()}{message[1:]})"
    return SchemaError(path, expectation)


def nested(outer: str, error: SchemaError) -> SchemaError:
    """The same error with the path of what surrounds it; validators name themselves "" or "[i]"."""
    separator = "." if outer and error.name and not error.name.startswith("[") else ""
    return SchemaError(f"{outer}{separator}{error.name}", error.expectation, hint=error.hint)


def join_path(*steps: str | int) -> str:
    """A path as people write it.

    >>> join_path("columns", 3, "edges")
    'columns[3].edges'
    """
    path = ""
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else str(step)
    return path
