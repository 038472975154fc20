"""The schema: an ordered tuple of columns and where the declaration comes from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    BeforeValidator,
    PlainSerializer,
    PlainValidator,
    PrivateAttr,
    WithJsonSchema,
    model_serializer,
    model_validator,
)

from ..errors import InvalidArgument, PrivacyError, SchemaError, discreet
from .columns import USUAL_SHARE, Categories, Column, Keep, Numeric, Origin, Part, Quantiles, nested, with_first, worst
from .drafting import MAX_DISTINCT, TODO, derive_columns
from .never import Rule, check_rules, did_you_mean, impossible, plain_rules, rules
from .templates import expanded
from .text import Quoted, TextFile, dump_json, dump_yaml, line_of, parse_json, parse_yaml, read_text

_UNKNOWN = "left out: there is no such field"
_KINDS: dict[str, type[Categories] | type[Numeric] | type[Quantiles]] = {
    "categories": Categories,
    "numeric": Numeric,
    "quantiles": Quantiles,
}
DIALECT = "https://json-schema.org/draft/2020-12/schema"
"""The dialect of the published JSON Schema."""
_RULES_SCHEMA = {"type": "array", "items": {"type": "object", "minProperties": 1}}
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
    fields = expanded(raw)
    kind = fields.get("kind")
    if kind is None:
        found = sorted({_TELLTALE[key] for key in fields if key in _TELLTALE})
        if len(found) != 1:
            known = {key for kind in _KINDS.values() for key in kind.model_fields} | {"template", *_TELLTALE}
            meant = "".join(did_you_mean(key, known) for key in fields if key not in known)
            hint = f"{meant}It follows from values, edges, bins or a template."
            raise SchemaError("kind", f"one of {', '.join(_KINDS)}", hint=hint)
        kind = fields["kind"] = found[0]
    if kind == TODO:
        raise SchemaError("kind", f"one of {', '.join(_KINDS)}", hint="This draft is not filled in yet.")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise SchemaError("kind", f"one of {', '.join(_KINDS)}")
    if kind == "quantiles" and "quantiles" in fields and "bins" not in fields:
        fields["bins"] = fields.pop("quantiles")
    return _KINDS[kind](**fields)


def _top(plain: dict[str, Any]) -> dict[str, Any]:
    """What a file says, with its columns under `columns`: a file may also be nothing but names with their columns."""
    if "columns" in plain or set(plain) & {"version", "origin"} or not plain:
        return plain
    for key, item in plain.items():
        if did_you_mean(key, ["columns"]) and (
            (isinstance(item, list) and item and all(map(_is_column, item)))
            or (isinstance(item, Mapping) and len(plain) == 1)
        ):
            raise SchemaError(key, _UNKNOWN, hint="Did you mean 'columns'?")
    top = {key: item for key, item in plain.items() if key == "never" or (key == "file" and _is_layout(item))}
    return {**top, "columns": {key: item for key, item in plain.items() if key not in top}}


def _is_layout(item: object) -> bool:
    return isinstance(item, Mapping) and set(item) <= set(TextFile.model_fields)


def _columns(raw: object) -> tuple[Categories | Numeric | Quantiles, ...]:
    if isinstance(raw, Mapping):
        raw = [_named(name, item) for name, item in raw.items()]
    if isinstance(raw, (str, bytes)) or not isinstance(raw, Iterable):
        raise SchemaError("", "a list of columns, or a mapping of names to columns")
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


_TOP = ("version", "columns", "origin", "never", "file")
"""What a file may say beside its columns."""


def _is_file(plain: Mapping[str, Any]) -> bool:
    """Whether a mapping is what a file holds, not one of names to columns."""
    columns = plain.get("columns")
    if not set(plain) <= set(_TOP) or isinstance(columns, str) or not isinstance(columns, Iterable):
        return False
    if isinstance(columns, Mapping):  # of names to columns, unless it is the fields of a column called so
        return not set(columns) & {"template", *_TELLTALE}
    return all(map(_is_column, columns))


def _named(name: object, item: object) -> object:
    """A column from its name and what is said of it: a template, values, or fields."""
    if isinstance(item, (Categories, Numeric, Quantiles)):
        return type(item)(**item.model_dump() | {"name": name})
    if isinstance(item, str):
        return {"name": name, "kind": TODO} if item == TODO else {"name": name, "template": item}
    return {"name": name, **item} if isinstance(item, Mapping) else {"name": name, "values": item}


def _unfinished(item: object) -> bool:
    return isinstance(item, Mapping) and TODO in (item.get("kind"), item.get("template"))


def _is_column(item: object) -> bool:
    return isinstance(item, (Mapping, Categories, Numeric, Quantiles))


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
    never: Annotated[
        tuple[Rule, ...], PlainValidator(rules), PlainSerializer(plain_rules), WithJsonSchema(_RULES_SCHEMA)
    ] = ()
    """Combinations of values that no record can have, such as {sex: male, pregnant: true}."""
    file: TextFile | None = None
    """How text files with these columns are written: delimiter, quote, encoding."""

    _index: dict[str, int] = PrivateAttr(default_factory=dict)
    _todo: tuple[str, ...] = PrivateAttr(default=())
    _file: tuple[str, str] = PrivateAttr(default=("", ""))

    def __init__(self, *columns: Any, **fields: Any) -> None:
        super().__init__(**with_first("columns", columns, fields))

    @model_validator(mode="before")
    @classmethod
    def _stamp(cls, raw: object) -> object:
        """`origin` beside the columns holds of each of them at least; it is kept there, where no selection loses it."""
        if not isinstance(raw, Mapping) or "origin" not in raw:
            return raw
        fields = dict(raw)
        origin = fields.pop("origin")
        if origin not in get_args(Origin):
            raise SchemaError("origin", f"one of {', '.join(map(repr, get_args(Origin)))}")
        if "columns" in fields:
            try:
                fields["columns"] = [column.stamped(origin) for column in _columns(fields["columns"])]
            except SchemaError as error:
                raise nested("columns", error) from None
        return fields

    @model_validator(mode="after")
    def _check(self) -> Schema:
        stated = math.fsum(column.share or 0 for column in self.columns if isinstance(column, Quantiles))
        if not stated < 1:
            raise SchemaError("columns", "such that the shares of all quantile columns add up to less than 1")
        check_rules(self)
        return self

    @model_serializer(mode="wrap")
    def _without_unsaid(self, handler: Any) -> dict[str, Any]:
        plain: dict[str, Any] = handler(self)
        return {key: value for key, value in plain.items() if value or key not in ("never", "file")}

    def model_post_init(self, _: Any, /) -> None:
        """Index the names once, for lookups in wide schemas."""
        self._index.update((column.name, i) for i, column in enumerate(self.columns))
        if self.file is not None:  # here, before columns are selected: their order is that of the file
            self.__dict__["file"] = self.file.named(column.name for column in self.columns)

    @classmethod
    def of(cls, /, **columns: Any) -> Schema:
        """A schema from `name=column`, where a list stands for categories and a mapping for the fields of a column."""
        return cls([_named(name, column) for name, column in columns.items()])

    @classmethod
    def given(cls, schema: object) -> Schema:
        """The schema that a caller hands over: itself, the path of its file, or a mapping.

        A mapping is the content of a file, or names with a column, a list of values or the fields of a column each.

        >>> Schema.given({"sex": ["f", "m"], "age": {"edges": [0, 18, 65]}}).shape()
        (2, 2)
        """
        if isinstance(schema, Schema):
            return schema
        if isinstance(schema, (str, PathLike)):
            return cls.read(schema)
        if isinstance(schema, Mapping) and all(isinstance(key, str) for key in schema):
            return cls(**schema) if _is_file(schema) else cls.of(**schema)
        raise InvalidArgument(
            "schema",
            "a Schema, the path of a schema file or a mapping of names to columns",
            got=None if schema is None else type(schema).__name__,
            hint="Write Schema.of(name=[values]), or begin a file with `simplexdp schema draft`.",
        )

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
        parse = parse_json if _is_json(Path(path)) else parse_yaml
        text = read_text(Path(path))
        try:
            found = cls._from_plain(parse(text))
            found._file = (Path(path).name, text) if found._todo else ("", "")
            return found
        except SchemaError as error:
            line = line_of(text, error.name)
            where = f"{Path(path).name}, line {line}" if line else Path(path).name
            raise SchemaError(error.name, f"{error.expectation} ({where})", hint=error.hint) from None

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
        return cls(derive_columns(frame, bins=bins, max_distinct=max_distinct, other=other, origin="public"))

    @classmethod
    @discreet
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
        return cls(derive_columns(frame, bins=bins, max_distinct=max_distinct, other="refuse", origin="from-data"))

    @classmethod
    @discreet
    def paper_discretisation(
        cls, frame: object, bins: int = 10, *, max_distinct: int = MAX_DISTINCT, frequent: float | None = None
    ) -> Schema:
        """The discretisation of the paper's experiments, read off the rows and therefore marked not private.

        Numeric columns with at most `max_distinct` distinct values stay categorical. Above that, values that
        make up more than `frequent` of the column (default: 1 / bins, as such a value fills a bin alone) keep
        their own cell and the rest goes to quantile bins. Missing values are a category.
        """
        share = 1 / bins if frequent is None and bins else frequent
        settings: dict[str, Any] = {"bins": bins, "max_distinct": max_distinct, "other": "refuse", "frequent": share}
        return cls(derive_columns(frame, **settings, origin="paper-discretisation"))

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The published JSON Schema of schema files."""
        return _json_schema(cls)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(self._index)

    @property
    def origin(self) -> Origin:
        """The worst of the origins of the columns; `from-data` and `paper-discretisation` are not private."""
        return worst(*(column.origin for column in self.columns))

    @property
    def is_private(self) -> bool:
        """False if values or edges of a column were read from sensitive rows: what is made from them is not private."""
        return all(column.is_private for column in self.columns)

    @property
    def unresolved(self) -> tuple[str, ...]:
        """Columns whose edges a private mechanism still has to find."""
        return tuple(column.name for column in self.columns if isinstance(column, Quantiles))

    @property
    def unfinished(self) -> tuple[str, ...]:
        """Columns of a draft that are not filled in yet: they cannot be used, and the others can."""
        return self._todo

    def impossible(self, names: Iterable[str] | None = None) -> NDArray[np.bool_] | None:
        """The cells of a table over these columns that `never` rules out; None if there are none."""
        return impossible(self, self._check_names(self.names if names is None else names))

    def excluded(self) -> list[tuple[dict[str, Any], NDArray[np.bool_]]]:
        """Each rule of `never`, as files have it, with the cells of its columns that it rules out."""
        alone = [Schema(self.columns, never=[rule]) for rule in self.never]
        found = []
        for rule, one in zip(self.never, alone, strict=True):
            names = [name for name, _ in rule]
            mask = one.impossible(names)
            found.append((plain_rules([rule])[0], np.zeros(self.shape(names), bool) if mask is None else mask))
        return found

    def undecided_whole(self) -> tuple[str, ...]:
        """Numeric columns with edges that are whole numbers, of which nothing says whether their values are."""
        return tuple(
            column.name
            for column in self.columns
            if isinstance(column, Numeric)
            and column.integer is None
            and not column.dates
            and all(edge.is_integer() for edge in (*column.edges, *column.own))
        )

    def shares(self) -> dict[str, float]:
        """The part of the budget that the edges of each quantile column cost.

        What is stated holds. Columns that state none take a tenth each, and together at most half of what is left.
        """
        columns = [column for column in self.columns if isinstance(column, Quantiles)]
        unsaid = sum(column.share is None for column in columns)
        left = 1 - math.fsum(column.share or 0 for column in columns)
        share = min(USUAL_SHARE, left / 2 / unsaid) if unsaid else 0.0
        return {column.name: share if column.share is None else column.share for column in columns}

    def shape(self, names: Iterable[str] | None = None) -> tuple[int, ...]:
        """Number of cells of each of these columns (default: all)."""
        return tuple(self[name].size for name in self._check_names(self.names if names is None else names))

    def select(self, names: Iterable[str]) -> Schema:
        """The schema of these columns, in the order given."""
        columns = [self[name] for name in self._check_names(names)]
        kept = {column.name for column in columns}
        never = [rule for rule in self.never if {name for name, _ in rule} <= kept]
        return Schema(columns, never=never, file=self.file)

    def replace(self, *columns: Categories | Numeric | Quantiles) -> Schema:
        """The schema with columns of the same names replaced, everything else kept."""
        new = {column.name: column for column in columns}
        for name in new:
            self[name]
        replaced = [new.get(column.name, column) for column in self.columns]
        return Schema(replaced, never=self.never, file=self.file)

    def __getitem__(self, name: str) -> Categories | Numeric | Quantiles:
        try:
            return self.columns[self._index[name]]
        except (KeyError, TypeError):
            if name in self._todo:
                hint = f"The draft says TODO there{self._todo_line(name)}: give it a template, values, edges or bins."
                raise SchemaError("column", "one that is filled in", got=name, hint=hint) from None
            raise SchemaError("column", "one of the schema", got=name, hint=self._hint(name)) from None

    def __contains__(self, name: object) -> bool:
        return name in self._index

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[Categories | Numeric | Quantiles]:  # type: ignore[override]
        return iter(self.columns)

    def __hash__(self) -> int:
        return hash(self.columns)

    def __repr__(self) -> str:
        return f"Schema({len(self)} columns: {self._some_names()}; origin={self.origin!r})"

    __str__ = __repr__

    @classmethod
    def _from_plain(cls, plain: object) -> Schema:
        if not isinstance(plain, dict) or not all(isinstance(key, str) for key in plain):
            raise SchemaError("text", "a mapping with the key columns")
        plain = _top(plain)
        if "columns" not in plain:
            return cls(**plain)
        columns = plain["columns"]
        if isinstance(columns, Mapping):
            columns = [_named(name, item) for name, item in columns.items()]
        todo = [item["name"] for item in columns if _unfinished(item)] if isinstance(columns, list) else []
        if todo and len(todo) == len(columns):
            try:
                _columns(columns)  # which names the first
            except SchemaError as error:
                raise nested("columns", error) from None
        kept = [item for item in columns if not _unfinished(item)] if todo else columns
        layout = plain.get("file")
        if todo and isinstance(layout, Mapping) and layout.get("header") is False:
            plain = plain | {"file": {"names": [item["name"] for item in columns]} | dict(layout)}
        schema = cls(**plain | {"columns": kept})
        schema._todo = tuple(map(str, todo))
        return schema

    def _to_plain(self) -> dict[str, Any]:
        """Columns say where they come from, unless they are declared; the schema does if they agree."""
        plain = self.model_dump()
        columns = [{k: v for k, v in column.items() if (k, v) != ("origin", "declared")} for column in plain["columns"]]
        agreed = {column.origin for column in self.columns}
        return {**plain, "columns": columns} | ({"origin": self.origin} if len(agreed) == 1 else {})

    def _check_names(self, names: Iterable[str]) -> tuple[str, ...]:
        if isinstance(names, str):
            raise SchemaError("names", "a list of names", got=names)
        return tuple(names)

    def _todo_line(self, name: str) -> str:
        """Where a column of a draft is to be filled in, for a person."""
        file, text = self._file
        begins = tuple(f"{mark}{name}{mark}:" for mark in ("", '"', "'"))
        lines = (i for i, line in enumerate(text.splitlines(), 1) if line.strip().startswith(begins))
        return "".join(f" ({file}, line {line})" for line in list(lines)[:1])

    def _hint(self, name: object) -> str:
        return f"{did_you_mean(name, self.names)}The columns are: {self._some_names()}."

    def _some_names(self) -> str:
        some = self.names[:10]
        return ", ".join(some) + (f", ... ({len(self)} in all)" if len(self) > len(some) else "")


SchemaLike = Schema | str | PathLike[str] | Mapping[str, Any]
"""What public functions take for a schema: see `Schema.given`."""


def _json_schema(model: type[BaseModel]) -> dict[str, Any]:
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
    origin = schema["$defs"]["Numeric"]["properties"]["origin"]
    schema["properties"]["origin"] = origin | {"description": "Holds of each of the columns at least."}
    return {"$schema": DIALECT, **schema}
