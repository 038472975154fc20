"""The schema: an ordered tuple of columns and where the declaration comes from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, PrivateAttr, model_validator

from ..errors import PrivacyError, SchemaError
from ._base import Part, nested, with_first
from .columns import Categories, Column, Keep, Numeric, Quantiles
from .derive import MAX_DISTINCT, derive_columns
from .published import json_schema
from .text import Quoted, dump_json, dump_yaml, parse_json, parse_yaml, read_text

Origin = Literal["declared", "public", "from-data", "paper-discretisation"]
"""Where categories and edges come from; the last two mean that what is made from them is not private."""

_KINDS: dict[str, type[Categories] | type[Numeric] | type[Quantiles]] = {
    "categories": Categories,
    "numeric": Numeric,
    "quantiles": Quantiles,
}
TODO = "TODO"
"""What a draft says where the user has to decide on the kind of a column."""
_TELLTALE = {
    "values": "categories",
    "edges": "numeric",
    "own": "numeric",
    "quantiles": "quantiles",
    "bins": "quantiles",
}

_REFUSAL = (
    "Categories and bin edges read off sensitive rows reveal them: a rare value is there or not. Instead "
    "declare them (Schema.of, or a file begun with `simplexdp schema draft`), take them from public data "
    "(Schema.from_public), or pay for private edges (Quantiles in the schema). To go on without privacy, "
    "pass i_accept_that_the_result_is_not_private=True; all that is made from the schema is then marked so."
)


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
            raise SchemaError("kind", f"one of {', '.join(_KINDS)}", hint="It follows from values, edges or bins.")
        kind = fields["kind"] = found[0]
    if kind == TODO:
        raise SchemaError("kind", f"one of {', '.join(_KINDS)}", hint="This draft is not filled in yet.")
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


def _is_json(path: Path) -> bool:
    suffix = path.suffix.lower()
    if suffix not in (".json", ".yaml", ".yml"):
        raise SchemaError("path", "the name of a .yaml, .yml or .json file", got=str(path))
    return suffix == ".json"


class Schema(Part):
    """Public facts about the columns of a table, in order.

    >>> schema = Schema.of(sex=["f", "m"], age=Numeric([0, 18, 65, 120], outside="nearest"))
    >>> schema.names, schema.shape(["age", "sex"]), schema["sex"].size
    (('sex', 'age'), (3, 2), 2)
    """

    version: Literal[1] = 1
    """Version of the format."""
    columns: Annotated[tuple[Column, ...], BeforeValidator(_columns)]
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
                made.append(type(column)(**column.model_dump() | {"name": name}))
            else:
                made.append({"name": name, "values": column})
        return cls(made)

    @classmethod
    def from_yaml(cls, text: str) -> Schema:
        """The schema that a YAML text declares."""
        return cls._from_plain(parse_yaml(text))

    @classmethod
    def from_json(cls, text: str) -> Schema:
        """The schema that a JSON text declares."""
        return cls._from_plain(parse_json(text))

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Schema:
        """The schema in a .yaml, .yml or .json file."""
        parse = cls.from_json if _is_json(Path(path)) else cls.from_yaml
        return parse(read_text(Path(path)))

    def to_yaml(self) -> str:
        """YAML text that `from_yaml` reads back as an equal schema, types included."""
        plain = self._to_plain()
        for column in plain["columns"]:
            column["name"] = Quoted(column["name"])
            if "values" in column:
                column["values"] = tuple(Quoted(v) if isinstance(v, str) else v for v in column["values"])
        return dump_yaml(plain)

    def to_json(self) -> str:
        """JSON text that `from_json` reads back as an equal schema, types included."""
        return dump_json(self._to_plain())

    def write(self, path: str | PathLike[str]) -> None:
        """Write a .yaml, .yml or .json file."""
        text = self.to_json() if _is_json(Path(path)) else self.to_yaml()
        Path(path).write_text(text, encoding="utf-8", newline="\n")

    @classmethod
    def from_public(
        cls, frame: object, bins: int = 10, *, max_distinct: int = MAX_DISTINCT, other: Keep = "refuse"
    ) -> Schema:
        """The schema of a table that you state to be public, such as a census sample or last year's release.

        Categories are the sorted values; numbers with more than `max_distinct` values go to quantile bins.
        Columns with missing values get a cell for them.
        """
        columns = derive_columns(frame, bins=bins, max_distinct=max_distinct, other=other)
        return cls(columns, origin="public")

    @classmethod
    def from_data(
        cls,
        frame: object,
        bins: int = 10,
        *,
        max_distinct: int = MAX_DISTINCT,
        i_accept_that_the_result_is_not_private: bool = False,
    ) -> Schema:
        """Refused: categories and edges read off sensitive rows reveal them, and no budget covers that.

        With the opt-out the schema is made and marked, and so is everything made from it: not private.
        """
        if i_accept_that_the_result_is_not_private is not True:
            raise PrivacyError(_REFUSAL)
        columns = derive_columns(frame, bins=bins, max_distinct=max_distinct, other="refuse")
        return cls(columns, origin="from-data")

    @classmethod
    def paper_discretisation(
        cls, frame: object, bins: int = 10, *, max_distinct: int = MAX_DISTINCT, frequent: float | None = None
    ) -> Schema:
        """The discretisation of the paper's experiments, read off the rows and therefore marked not private.

        Numeric columns with at most `max_distinct` distinct values stay categorical. Above that, values that
        make up more than `frequent` of the column (default: 1 / bins, as such a value fills a bin alone) keep
        their own cell and the rest goes to quantile bins. Missing values are a category.
        """
        share = 1 / bins if frequent is None and bins else frequent
        columns = derive_columns(frame, bins=bins, max_distinct=max_distinct, other="refuse", frequent=share)
        return cls(columns, origin="paper-discretisation")

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The published JSON Schema of schema files."""
        return json_schema(cls)

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
            raise SchemaError("column", "one of the schema", got=name, hint=self._hint()) from None

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

    @classmethod
    def _from_plain(cls, plain: object) -> Schema:
        if not isinstance(plain, dict) or not all(isinstance(key, str) for key in plain):
            raise SchemaError("text", "a mapping with the key columns")
        return cls(**plain)

    def _to_plain(self) -> dict[str, Any]:
        plain = self.model_dump()
        return {**plain, "columns": list(plain["columns"])}

    def _check_names(self, names: Iterable[str]) -> tuple[str, ...]:
        if isinstance(names, str):
            raise SchemaError("names", "a list of names", got=names)
        return tuple(names)

    def _hint(self) -> str:
        return f"The columns are: {self._some_names()}."

    def _some_names(self) -> str:
        some = self.names[:10]
        return ", ".join(some) + (f", ... ({len(self)} in all)" if len(self) > len(some) else "")
