"""Text: YAML and JSON to plain values and back, exactly and within limits; and how text files of rows are written.

YAML is read by the safe loader alone, without anchors and aliases, so that a file is as large as it looks.
JSON has no dates, so a date is written as ``{"date": "2024-01-31"}``.
"""

from __future__ import annotations

import codecs
import csv
import datetime
import io
import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import SchemaError, SourceError
from ..lazy import yaml
from .columns import Part

MAX_BYTES = 16 * 2**20
"""Longest text that is read or written."""
MAX_DEPTH = 10
"""Deepest nesting of a YAML file; a schema needs four levels."""


class Quoted(str):
    """Text that YAML always shows in quotes, so that no reader takes it for anything else."""


@cache
def _loader() -> Any:
    """The safe loader, but a key given twice is an error, where YAML would keep the last one silently."""
    # libyaml does the same work about ten times faster where PyYAML was built with it.
    base: Any = getattr(yaml, "CSafeLoader", None) or yaml.SafeLoader

    class StrictLoader(base):  # type: ignore[misc]
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            _check_twice(keys)
            return dict(super().construct_mapping(node, deep=deep))

    return StrictLoader


@cache
def _dumper() -> Any:
    """The safe dumper, with tuples on one line and `Quoted` in double quotes."""
    base: Any = getattr(yaml, "CSafeDumper", None) or yaml.SafeDumper

    class TidyDumper(base):  # type: ignore[misc]
        def ignore_aliases(self, _: object) -> bool:
            """Never write an anchor, which would not be read back."""
            return True

    TidyDumper.add_representer(
        Quoted, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style='"')
    )
    TidyDumper.add_representer(
        tuple, lambda dumper, items: dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=True)
    )
    return TidyDumper


def parse_yaml(text: str) -> object:
    """What the YAML text says, with YAML 1.1 types."""
    _check_size(text)
    try:
        _check_events(yaml.parse(text, Loader=_loader()))
        loader = _loader()(text)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise SchemaError("text", f"YAML{where}: {error.problem}") from None
    except (yaml.YAMLError, TypeError, ValueError, RecursionError) as error:
        if isinstance(error, SchemaError):
            raise
        # For instance a date that does not exist, or an integer with too many digits.
        raise SchemaError("text", f"YAML: {error}") from None


def dump_yaml(value: object, width: int = 100, flow: bool | None = False) -> str:
    """YAML text that `parse_yaml` turns back into the same value; tuples come back as lists."""
    text = yaml.dump(value, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=width, default_flow_style=flow)
    return _check_size(str(text))


def parse_json(text: str) -> object:
    """What the JSON text says, with dates for ``{"date": ...}``."""
    _check_size(text)
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        where = f"(line {error.lineno}, column {error.colno})"
        raise SchemaError("text", f"JSON {where}: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, SchemaError):
            raise
        raise SchemaError("text", f"JSON: {error}") from None


def dump_json(value: object) -> str:
    """JSON text that `parse_json` turns back into the same value; tuples come back as lists."""
    return _check_size(json.dumps(value, default=_typed, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_text(path: Path) -> str:
    """The text of a file, unless it is too long."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SchemaError("path", f"a file that can be read ({error.strerror})", got=str(path)) from None
    if len(raw) > MAX_BYTES:
        raise _too_long()
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SchemaError("path", "a file of UTF-8 text", got=str(path)) from None


def _check_size(text: str) -> str:
    if not isinstance(text, str):
        raise SchemaError("text", f"a string, not {type(text).__name__}")
    if len(text) > MAX_BYTES or len(text.encode(errors="surrogatepass")) > MAX_BYTES:
        raise _too_long()
    return text


def _too_long() -> SchemaError:
    return SchemaError("text", f"at most {MAX_BYTES // 2**20} MiB long", hint="Are all these values needed?")


def _check_events(events: Iterable[yaml.Event]) -> None:
    """Refuse aliases and deep nesting before anything is built."""
    depth = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            line = f" (line {event.start_mark.line + 1})" if event.start_mark else ""
            raise SchemaError("text", f"YAML without anchors and aliases{line}", hint="Write it out.")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise SchemaError("text", f"nested at most {MAX_DEPTH} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _check_twice(keys: Iterable[str]) -> None:
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            raise SchemaError(key, "given once")
        seen.add(key)


def _object(pairs: list[tuple[str, Any]]) -> object:
    _check_twice(key for key, _ in pairs)
    found = dict(pairs)
    return _date(found["date"]) if found.keys() == {"date"} else found


def _date(text: object) -> datetime.date:
    try:
        date = datetime.date.fromisoformat(str(text))
    except ValueError:
        date = None
    # fromisoformat also takes forms such as 20240131; one spelling is enough.
    if date is None or date.isoformat() != text:
        raise SchemaError("date", "a day that exists, written as YYYY-MM-DD")
    return date


def _typed(value: object) -> object:
    if type(value) is datetime.date:
        return {"date": value.isoformat()}
    raise TypeError(f"a schema holds no {type(value).__name__}")


def _no_constant(name: str) -> float:
    raise SchemaError("text", f"JSON without {name}")


def line_of(text: str, path: str) -> int | None:
    """The line of a YAML or JSON text on which the value at a path such as `columns[2] ('age').edges[1]` begins."""
    try:
        node = yaml.compose(text, Loader=_loader())
    except (yaml.YAMLError, RecursionError, ValueError):
        return None
    steps = re.findall(r"\[([0-9]+)\]|([^.\[\]()]+)|\('[^']*'\)", path)
    if isinstance(node, yaml.MappingNode) and steps[:1] == [("", "columns")] and not _entry(node, "columns"):
        steps = steps[1:]  # a file of nothing but columns
    for number, name in steps:
        if not (number or name.strip()):
            continue
        pairs = node.value if isinstance(node, (yaml.MappingNode, yaml.SequenceNode)) else []
        if number:
            found = pairs[int(number)] if int(number) < len(pairs) else None
            found = found[1] if isinstance(found, tuple) else found
        else:
            found = _entry(node, name.strip())
        if found is None:
            break
        node = found
    return None if node is None else int(node.start_mark.line) + 1


def _entry(node: Any, name: str) -> Any:
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next((value for key, value in pairs if key.value == name), None)


# -- rows ----------------------------------------------------------------------------------------------------------

DELIMITERS = ",;\t|"
"""What a header may be divided by, the usual one first."""
MAX_HEADER = 4 * 2**20
"""Bytes in which the header of a text file must end."""
_NOT_TEXT = "Say --encoding latin-1 (or cp1252), or write `file: {encoding: latin-1}` into the schema."


class TextFile(Part):
    """How a file of rows is written. What is not said is read off the header, which is public, never off a record."""

    delimiter: str | None = None
    """One ASCII character; by default the one of `,` `;` tab and `|` that divides the header into most names."""
    quote: str | None = None
    """One ASCII character, a double quote by default, or an empty text for none."""
    encoding: str | None = None
    """utf-8 by default, or one where every byte is a character, such as latin-1 or cp1252."""
    header: bool | None = None
    """Whether the first record names the columns, as it does by default; otherwise they have the names that follow."""
    names: tuple[str, ...] | None = None
    """All columns of a file without a header, in order; by default those of the schema in theirs."""

    def model_post_init(self, _: Any, /) -> None:
        """Check what is said."""
        if self.names is not None:
            if self.header:
                raise SchemaError("names", "left out where files have a header")
            if not self.names or not all(self.names) or len(set(self.names)) < len(self.names):
                raise SchemaError("names", "one or more, all different", got=list(self.names))
        for name in ("delimiter", "quote"):
            mark = getattr(self, name)
            bad = mark is not None and (len(mark) != 1 or not mark.isascii() or mark in "\r\n" or mark.isalnum())
            if bad and (name, mark) != ("quote", ""):
                raise SchemaError(name, "one ASCII character, no letter, digit or line break", got=mark)
        if self.delimiter is not None and self.delimiter == self.mark:
            raise SchemaError("delimiter", "another character than the quote", got=self.delimiter)
        if not _is_simple(self.codec):
            hint = "Convert the file to UTF-8, for instance with iconv."
            raise SchemaError("encoding", "utf-8, or one of a byte a character that ends as ASCII", hint=hint)

    @property
    def mark(self) -> str:
        """The quote, empty for none."""
        return '"' if self.quote is None else self.quote

    @property
    def codec(self) -> str:
        """The encoding as Python knows it; empty if it does not."""
        try:
            return codecs.lookup(self.encoding or "utf-8").name
        except LookupError:
            return ""

    @property
    def headless(self) -> bool:
        """Whether the first record is one like all others."""
        return self.header is False or self.names is not None

    def named(self, names: Iterable[str]) -> TextFile:
        """With these names, where there is no header and names are not said."""
        return self.model_copy(update={"names": tuple(names)}) if self.headless and self.names is None else self

    def or_else(self, other: TextFile | None) -> TextFile:
        """This, and where it says nothing, what the other says."""
        if other is None:
            return self
        said = {name: value for name, value in self.model_dump().items() if value is not None}
        told = {} if self.header is None and self.names is None else {"header": None, "names": None}
        return TextFile(**other.model_dump() | told | said)

    def columns(self, start: bytes, label: str) -> tuple[str, list[str]]:
        """The delimiter and the names, from the first bytes of a file; nothing after the header is looked at.

        >>> TextFile().columns(b"age;sex;income\\n17;f;0\\n", "rows.csv")
        (';', ['age', 'sex', 'income'])
        """
        usual = "\t" if ".tsv" in label.lower() else ","
        if self.headless:  # nothing of a record is looked at
            if self.names is None:
                raise SourceError(
                    f"{label}: a file without a header needs the names of all its columns, in order: --names a,b,c, "
                    "Files(path, names=[...]), or a schema file with `file: {header: false}` and the columns in order."
                )
            return self.delimiter or usual, list(self.names)
        if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            raise SourceError(f"{label}: it is UTF-16 text. Convert it to UTF-8.")
        if self.codec == "utf-8":
            start = start.removeprefix(codecs.BOM_UTF8)
        quote = self.mark.encode()
        line = _first_record(start, quote)
        try:
            text = line.decode(self.codec)
        except UnicodeDecodeError:
            raise SourceError(f"{label}: the header is no UTF-8 text. {_NOT_TEXT}") from None
        mark = re.escape(self.mark)
        bare = re.sub(f"{mark}[^{mark}]*{mark}", "", text) if quote else text
        most = max([usual, *DELIMITERS], key=bare.count)
        delimiter = self.delimiter or most
        style: dict[str, Any] = {"quotechar": self.mark} if quote else {"quoting": csv.QUOTE_NONE}
        return delimiter, next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, **style), [])


def _is_simple(name: str) -> bool:
    """Whether ASCII bytes are ASCII characters and nothing else is, and a field can be read by itself."""
    if name in ("utf-8", "ascii"):
        return True
    try:
        plain = bytes(range(128)).decode(name) == bytes(range(128)).decode("ascii")
        return (
            plain
            and all(len(bytes([byte]).decode(name, "replace")) == 1 for byte in range(256))
            and (len(b"\xe4\xf6".decode(name, "replace")) == 2)
        )
    except (LookupError, UnicodeError, TypeError):
        return False


def _first_record(start: bytes, quote: bytes) -> bytes:
    inside = False
    for place, byte in enumerate(start):
        if quote and byte == quote[0]:
            inside = not inside
        elif not inside and byte in b"\r\n" and place:
            return start[:place]
    return start
