"""What a published JSON Schema says about each field: the text below it in its class."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from typing import Any

from pydantic import BaseModel, ConfigDict


def described(published: dict[str, Any], part: type[BaseModel]) -> None:
    """Add the texts; pydantic calls this when a schema is published, and the source is read only then."""
    for cls in reversed(part.__mro__):
        if not issubclass(cls, BaseModel) or cls is BaseModel:
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
        assert isinstance(tree, ast.ClassDef)
        for field, text in itertools.pairwise(tree.body):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
                about = published["properties"].get(field.target.id)
                if about is not None and isinstance(text.value, ast.Constant):
                    about["description"] = inspect.cleandoc(str(text.value.value))


# Built when a schema is first made or read, which not every job does.
SETTINGS = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True, json_schema_extra=described)
