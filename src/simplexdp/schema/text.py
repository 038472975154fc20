"""YAML and JSON text to plain values and back, exactly, and within limits that no file can exceed.

YAML is read by the safe loader alone, without anchors and aliases, so that a file is as large as it looks.
JSON has no dates, so a date is written as ``{"date": "2024-01-31"}``.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from ..errors import SchemaError

MAX_BYTES = 16 * 2**20
"""Longest text that is read or written."""
MAX_DEPTH = 10
"""Deepest nesting of a YAML file; a schema needs four levels."""

# libyaml does the same work about ten times faster where PyYAML was built with it.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class Quoted(str):
    """Text that YAML always shows in quotes, so that no reader takes it for anything else."""


class _StrictLoader(_Loader):  # type: ignore[misc]
    """The safe loader, but a key given twice is an error, where YAML would keep the last one silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        _check_twice(keys)
        return dict(super().construct_mapping(node, deep=deep))


class _TidyDumper(_Dumper):  # type: ignore[misc]
    """The safe dumper, with tuples on one line and `Quoted` in double quotes."""

    def ignore_aliases(self, _: object) -> bool:
        """Never write an anchor, which would not be read back."""
        return True


_TidyDumper.add_representer(
    Quoted, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style='"')
)
_TidyDumper.add_representer(
    tuple, lambda dumper, items: dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=True)
)


def parse_yaml(text: str) -> object:
    """What the YAML text says, with YAML 1.1 types."""
    _check_size(text)
    try:
        _check_events(yaml.parse(text, Loader=_Loader))
        loader = _StrictLoader(text)
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


def dump_yaml(value: object, width: int = 100) -> str:
    """YAML text that `parse_yaml` turns back into the same value; tuples come back as lists."""
    text = yaml.dump(value, Dumper=_TidyDumper, sort_keys=False, allow_unicode=True, width=width)
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
