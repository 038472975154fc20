"""Models built from releases only, and which kinds there are: nothing here reads a table.

Files are read and JSON Schemas published by the kind that each class names.
"""

from __future__ import annotations

import os
import re
from typing import Any, TypeVar

from ..errors import InvalidArgument
from ..schema import Schema
from .bayesian_network import BayesianNetworkModel
from .certificate import Certificate
from .document import DIALECT, VERSION, object_schema, open_document, read_document
from .guarantee import Guarantee
from .model import Model, ModelOfReleases, Predictor
from .naive_bayes import NaiveBayesModel
from .release import Release
from .synthesis import SynthesisModel
from .tables import TablesModel

_KINDS: dict[str, type[Model]] = {}
_Kind = TypeVar("_Kind", bound=type[Model])


def register(model: _Kind) -> _Kind:
    """Make a kind of model known, so that its files are read, inspected, sampled, audited; also as a decorator."""
    if not (isinstance(model, type) and issubclass(model, Model)):
        raise InvalidArgument("model", "a class that derives from simplexdp.models.Model")
    kind = getattr(model, "kind", None)
    if not isinstance(kind, str) or not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", kind):
        raise InvalidArgument("model", "of a kind in small letters, such as 'naive-bayes'", got=kind)
    if _KINDS.setdefault(kind, model) is not model:
        raise InvalidArgument("model", f"of a new kind: {kind!r} is {_KINDS[kind].__qualname__}")
    return model


def unregister(model: type[Model]) -> None:
    """Forget a kind of model; its files are not read any more."""
    if _KINDS.get(model.kind) is model:
        del _KINDS[model.kind]


register(Release)
register(NaiveBayesModel)
register(BayesianNetworkModel)
register(TablesModel)
register(SynthesisModel)


def model_of(kind: str) -> type[Model]:
    """The class of a kind."""
    if kind not in _KINDS:
        raise InvalidArgument("kind", "one of " + ", ".join(_KINDS), got=kind)
    return _KINDS[kind]


def kinds() -> tuple[str, ...]:
    """What documents can be, in the order in which they were registered."""
    return tuple(_KINDS)


def read(path: str | os.PathLike[str]) -> Model:
    """Read a release or model that was written to a file, whatever its kind.

    Files that were changed, are damaged or are newer than this software are refused with the reason.

    >>> import os, tempfile
    >>> from simplexdp import Budget, read, release
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "published.json")
    ...     release([119, 74, 618], budget=Budget(epsilon=1, delta=1e-5), entropy=1).write(path)
    ...     read(path).kind
    'release'
    """
    kind, body = open_document(path, *_KINDS)
    return _KINDS[kind].from_body(body)


def check_document(text: str) -> dict[str, Any]:
    """The body of a document of any kind as it was written, after it was read; refused with the reason otherwise."""
    kind, body = read_document(text, *_KINDS)
    _KINDS[kind].from_body(body)
    return body


def document_schema(kind: str) -> dict[str, Any]:
    """The JSON Schema of documents of this kind."""
    model = model_of(kind)
    columns = Schema.json_schema()
    parts = columns.pop("$defs")
    columns.pop("$schema")
    return {
        "$schema": DIALECT,
        "title": f"simplexdp {kind}",
        **object_schema(
            {
                "format": {"const": f"simplexdp/{kind}"},
                "version": {"const": VERSION},
                "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
                "body": model.body_schema(),
            }
        ),
        "$defs": {"schema": columns, **parts},
    }


__all__ = [
    "BayesianNetworkModel",
    "Certificate",
    "Guarantee",
    "Model",
    "ModelOfReleases",
    "NaiveBayesModel",
    "Predictor",
    "Release",
    "SynthesisModel",
    "TablesModel",
    "read",
    "register",
]
