"""The schema: an ordered tuple of columns and where the declaration comes from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PrivateAttr, model_validator

from ..errors import SchemaError
from ._base import Part, nested, with_first
from .columns import Categories, Column, Numeric, Quantiles

Origin = Literal["declared", "public", "from-data", "paper-discretisation"]
"""Where categories and edges come from; the last two mean that what is made from them is not private."""

_KINDS: dict[str, type[Categories] | type[Numeric] | type[Quantiles]] = {
    "categories": Categories,
    "numeric": Numeric,
    "quantiles": Quantiles,
}
_TELLTALE = {
    "values": "categories",
    "edges": "numeric",
    "own": "numeric",
    "quantiles": "quantiles",
    "bins": "quantiles",
}


def _column(raw: object) -> Categories | Numeric | Quantiles:
    """A column from what a file or a caller says; `kind` follows from the fields where it is left out."""
    if isinstance(raw, (Categories, Numeric, Quantiles)):
        return raw
    if not isinstance(raw, Mapping) or not all(isinstance(key, str) for key in raw):
        raise SchemaError(
            "", f"a column, not {type(raw).__name__}", hint="A column has a name and values, edges or bins."
        )
    fields = dict(raw)
    kind = fields.get("kind")
    if kind is None:
        found = sorted({_TELLTALE[key] for key in fields if key in _TELLTALE})
        if len(found) != 1:
            raise SchemaError(
                "kind", f"one of {', '.join(_KINDS)}", hint="It follows from values, edges or bins."
            )
        kind = fields["kind"] = found[0]
    if not isinstance(kind, str) or kind not in _KINDS:
        raise SchemaError("kind", f"one of {', '.join(_KINDS)}")
    if kind == "quantiles" and "quantiles" in fields and "bins" not in fields:
        fields["bins"] = fields.pop("quantiles")
    return _KINDS[kind](**fields)


def _columns(raw: object) -> tuple[Categories | Numeric | Quantiles, ...]:
    if isinstance(raw, (str, bytes, Mapping)) or not isinstance(raw, Iterable):
        raise SchemaError("", "a list of columns")
    columns: list[Categories | Numeric | Quantiles] = []
    seen: dict[str, int] = {}
    for i, item in enumerate(raw):
        try:
            column = _column(item)
            if not column.name:
                raise SchemaError("name", "a string of at least one character")
            if column.name in seen:
                raise SchemaError("name", f"different from that of columns[{seen[column.name]}]")
        except SchemaError as error:
            name = item.get("name") if isinstance(item, Mapping) else getattr(item, "name", "")
            where = f"[{i}]" + (f" ({name!r})" if isinstance(name, str) and name else "")
            raise nested(where, error) from None
        seen[column.name] = i
        columns.append(column)
    if not columns:
        raise SchemaError("", "a list of at least one column")
    return tuple(columns)


class Schema(Part):
    """Public facts about the columns of a table, in order.

    >>> schema = Schema.of(sex=["f", "m"], age=Numeric([0, 18, 65, 120], outside="nearest"))
    >>> schema.names, schema.shape(["age", "sex"]), schema["sex"].size
    (('sex', 'age'), (3, 2), 2)
    """

    version: Literal[1] = 1
    """Version of the format."""
    columns: Annotated[tuple[Column, ...], BeforeValidator(_columns), Field(min_length=1)]
    """The columns, in order, with different names."""
    origin: Origin = "declared"
    """Where the declaration comes from; `from-data` and `paper-discretisation` are not private."""

    _index: dict[str, int] = PrivateAttr(default_factory=dict)

    def __init__(self, *columns: Any, **fields: Any) -> None:
        super().__init__(**with_first("columns", columns, fields))

    @model_validator(mode="after")
    def _shares(self) -> Schema:
        total = math.fsum(column.share for column in self.columns if isinstance(column, Quantiles))
        if not total < 1:
            raise SchemaError("columns", "such that the shares of all quantile columns add up to less than 1")
        return self

    def model_post_init(self, _: Any, /) -> None:
        """Index the names once, for lookups in wide schemas."""
        self._index.update((column.name, i) for i, column in enumerate(self.columns))

    @classmethod
    def of(cls, **columns: Any) -> Schema:
        """A schema from `name=column`, where a list stands for categories."""
        made: list[object] = []
        for name, column in columns.items():
            if isinstance(column, (Categories, Numeric, Quantiles)):
                made.append(column.model_copy(update={"name": name}))
            else:
                made.append({"name": name, "values": column})
        return cls(made)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(self._index)

    @property
    def is_private(self) -> bool:
        """False if values or edges were read from sensitive rows: what is made from them is not private."""
        return self.origin in ("declared", "public")

    @property
    def unresolved(self) -> tuple[str, ...]:
        """Columns whose edges a private mechanism still has to find."""
        return tuple(column.name for column in self.columns if isinstance(column, Quantiles))

    def shape(self, names: Iterable[str] | None = None) -> tuple[int, ...]:
        """Number of cells of each of these columns (default: all)."""
        return tuple(self[name].size for name in self._check_names(self.names if names is None else names))

    def select(self, names: Iterable[str]) -> Schema:
        """The schema of these columns, in the order given."""
        return Schema([self[name] for name in self._check_names(names)], origin=self.origin)

    def replace(self, *columns: Categories | Numeric | Quantiles) -> Schema:
        """The schema with columns of the same names replaced, everything else kept."""
        new = {column.name: column for column in columns}
        for name in new:
            self[name]
        return Schema([new.get(column.name, column) for column in self.columns], origin=self.origin)

    def __getitem__(self, name: str) -> Categories | Numeric | Quantiles:
        try:
            return self.columns[self._index[name]]
        except (KeyError, TypeError):
            raise SchemaError("name", "a column of the schema", got=name, hint=self._hint()) from None

    def __contains__(self, name: object) -> bool:
        return name in self._index

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[Categories | Numeric | Quantiles]:  # type: ignore[override]
        return iter(self.columns)

    def __hash__(self) -> int:
        return hash((self.columns, self.origin))

    def __repr__(self) -> str:
        return f"Schema({len(self)} columns: {self._some_names()}; origin={self.origin!r})"

    __str__ = __repr__

    def _check_names(self, names: Iterable[str]) -> tuple[str, ...]:
        if isinstance(names, str):
            raise SchemaError("names", "a list of names", got=names)
        return tuple(names)

    def _hint(self) -> str:
        return f"The columns are: {self._some_names()}."

    def _some_names(self) -> str:
        some = self.names[:10]
        return ", ".join(some) + (f", ... ({len(self)} in all)" if len(self) > len(some) else "")
