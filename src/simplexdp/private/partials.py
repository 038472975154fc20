"""Counts of shards: each is counted where it lies, by any scheduler, and the sum is released in one place.

A request says what is counted, of which shards. Counting one of them leaves a partial: exact counts, encrypted to the
process that releases (`sealed`). `Partials` is a source like others: its tables are the sums over all shards, each of
which is there once. A retry of a lost shard writes its partial again; a second one of the same shard is refused.

Proof: docs/proofs/composition.md.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import secrets
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, cast, get_args

import numpy as np
from numpy.typing import NDArray

from .._version import __version__
from ..budget import Neighbours, check_whole
from ..cores import threads_from
from ..errors import FormatError, InvalidArgument, PrivacyError, SourceError, discreet
from ..models.document import read_file, whole_file, write_file
from ..sampling import Entropy, SecureEntropy
from ..schema import Schema
from .counting.files import Files, are_paths, expand
from .counting.passes import Progress, check_source, count_bounded
from .counting.persons import Bound
from .counting.plan import MEMORY_LIMIT, Identity, Plan, check_names, identity_of, make_plan
from .counting.query import seen
from .counting.source import Tabled, engine_errors
from .sealed import CountingKey, ReleaseKey, header_of, seal, unseal
from .tables import CountTable, opened

ENDING = ".partial"
_FORMAT, _VERSION = "simplexdp-request", 1
_DIGEST = 32
_MOST_NAME = 200
_ONE_SHARD = "Every person's rows lie in one shard."


@dataclass(frozen=True, kw_only=True)
class ShardRequest:
    """What is counted, of which shards; public, made once by whoever is responsible.

    Args:
        schema: of the columns.
        tables: what is counted; a fit asks for these or margins of them.
        shards: the name of each shard, by default its file name; the release needs all of them, each once.
        rows_per_person: keep at most this many rows of each person.
        person: the column that names the person, exactly with `rows_per_person`.
        person_in_one_shard: declares that no person has rows in two shards. Certificates repeat it.
        id: makes this request another than one with the same words, so that no partial of an earlier one fits.
    """

    schema: Schema
    tables: tuple[tuple[str, ...], ...]
    shards: tuple[str, ...]
    rows_per_person: int | None = None
    person: str | None = None
    person_in_one_shard: bool = False
    id: str = field(default_factory=lambda: secrets.token_hex(16))

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "schema", Schema.given(self.schema))
        put(self, "tables", tuple(check_names(table) for table in self.tables))
        put(self, "shards", tuple(_shard(name) for name in self.shards))
        make_plan(self.schema, self.tables, MEMORY_LIMIT)
        if not self.shards or len(set(self.shards)) < len(self.shards):
            raise InvalidArgument("shards", "at least one name, each once")
        if (self.rows_per_person is None) != (self.person is None):
            raise InvalidArgument("rows_per_person", "given together with person, the column that names the person")
        if self.rows_per_person is not None:
            put(self, "rows_per_person", check_whole("rows_per_person", self.rows_per_person))
            if self.person_in_one_shard is not True:
                raise PrivacyError(
                    "A person with rows in two shards would count twice as often as the bound allows. Bring the rows "
                    "of each person together first (a shuffle by the person column, PARTITION BY), and declare "
                    "person_in_one_shard=True (--person-in-one-shard)."
                )

    @property
    def declarations(self) -> tuple[str, ...]:
        """What is declared, as certificates say it."""
        return (_ONE_SHARD,) if self.person is not None else ()

    @property
    def digest(self) -> str:
        """Names this request in its partials."""
        return hashlib.sha256(json.dumps(self.to_body(), sort_keys=True).encode()).hexdigest()

    def plan(self) -> Plan:
        """Columns and tables as they are counted."""
        return make_plan(self.schema, self.tables, MEMORY_LIMIT)

    def to_body(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "format": _FORMAT,
            "version": _VERSION,
            "id": self.id,
            "schema": json.loads(self.schema.to_json()),
            "tables": [list(names) for names in self.tables],
            "shards": list(self.shards),
            "rows_per_person": self.rows_per_person,
            "person": self.person,
            "person_in_one_shard": self.person_in_one_shard,
        }

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file, for the machines that count."""
        write_file(path, json.dumps(self.to_body(), indent=1))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> ShardRequest:
        """The request in a file."""
        try:
            body = json.loads(read_file(path))
            if not isinstance(body, dict) or body.get("format") != _FORMAT:
                raise FormatError(f"{path}: not a request for shards.")
            if body.get("version") != _VERSION:
                raise FormatError(f"{path}: of another version of simplexdp.")
            if not all(isinstance(names, list) for names in (body["tables"], body["shards"], *body["tables"])):
                raise FormatError(f"{path}: a request for shards that is damaged.")
            return cls(
                schema=Schema.from_json(json.dumps(body["schema"])),
                tables=tuple(tuple(names) for names in body["tables"]),
                shards=tuple(body["shards"]),
                rows_per_person=body["rows_per_person"],
                person=body["person"],
                person_in_one_shard=body["person_in_one_shard"],
                id=str(body["id"]),
            )
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            if isinstance(error, FormatError | InvalidArgument):
                raise
            raise FormatError(f"{path}: a request for shards that is damaged.") from None


def _shard(name: str) -> str:
    """The name of a shard, which becomes part of a file name."""
    if not isinstance(name, str) or not name or len(name) > _MOST_NAME or name != Path(name).name or name[0] == ".":
        raise InvalidArgument("shards", "names without a slash, of at most 200 characters", got=name)
    return name


# -- one shard ---------------------------------------------------------------------------------------------------------


@discreet
def count_shard(
    source: Any,
    request: ShardRequest,
    key: CountingKey,
    out: str | os.PathLike[str],
    *,
    shard: str | None = None,
    entropy: Entropy | None = None,
    progress: Progress | None = None,
    threads: int | None = None,
) -> Path:
    """Count one shard of a request and write its partial, whole or not at all; returns its path.

    Args:
        source: the rows of the shard, any source of `count` but Spark, which counts by itself.
        request: what is counted.
        key: for counting; it opens nothing.
        out: the file, or the folder that it is written to under the name of the shard. A file that is there is
            replaced, so that a scheduler may repeat a shard.
        shard: its name in the request; by default that of its one file.
        entropy: where the choice of each person's rows comes from.
        progress: called with the rows done and the rows in all.
        threads: that count; by default as many as the machine grants.
    """
    name = _name_of(source, shard, request)
    check_source(source)
    known, before = seen(source), identity_of(source)
    entropy = SecureEntropy() if entropy is None else entropy
    bound = Bound.of(request.rows_per_person, request.person, entropy if request.person is not None else None)
    content = _content(source, key)
    done = 0

    def told(rows: int, total: int | None) -> None:
        nonlocal done
        done = rows
        if progress is not None:
            progress(rows, total)

    tables = count_bounded(
        known, request.schema, request.tables, bound=bound, progress=told, threads=threads_from(threads)
    )
    if identity_of(source) != before:
        raise SourceError("the files of the shard have changed while they were counted.")
    header = {
        "request": request.digest,
        "schema": _mark(table.fingerprint for table in tables),
        "shard": name,
        "relations": sorted(tables[0].relations),
        "declarations": list(tables[0].declarations),
        "is_private": all(table.is_private for table in tables),
        "software": f"simplexdp {__version__}",
    }
    target = Path(out) / f"{name}{ENDING}" if Path(out).is_dir() else Path(out)
    with whole_file(target) as made, made.open("wb") as file:
        seal(file, header, _body(done, content, tables), key)
    target.chmod(0o600)
    return target


def _name_of(source: Any, shard: str | None, request: ShardRequest) -> str:
    if shard is None and isinstance(source, str | os.PathLike):
        shard = Path(source).name
    if shard is None or shard not in request.shards:
        raise InvalidArgument("shard", "a shard of the request", got=shard, hint=_some("It has", request.shards))
    return shard


def _content(source: Any, key: CountingKey) -> bytes:
    """What tells equal files from each other, to those who have the key; zeros for what is no file."""
    if isinstance(source, str | os.PathLike) or are_paths(source):
        source = Files(source)
    if not isinstance(source, Files):
        return bytes(_DIGEST)
    digest = hashlib.blake2b(key=key.secret, digest_size=_DIGEST)
    for path in expand(source.paths):
        with engine_errors(f"{path} could not be read"), Path(path).open("rb") as file:
            while block := file.read(1 << 22):
                digest.update(block)
    return digest.digest()


def _body(rows: int, content: bytes, tables: Sequence[CountTable]) -> Iterator[bytes]:
    """Its length is a function of the request alone."""
    yield struct.pack("<q", rows) + content
    for table in tables:
        yield opened(table.private_counts()).astype("<i8").tobytes()


# -- all shards --------------------------------------------------------------------------------------------------------


class Partials(Tabled):
    """The partials of all shards of a request, as one source for `count`, `release_tables`, `fit_naive_bayes`, ...

    Each shard is there once: a missing one, a second one of the same shard, one of another request, two of the same
    rows, and a file that was changed or cut are refused when this is made, so before anything is charged: all files
    are read then, and never again. **Private** like the rows.

    Args:
        source: the folder that holds them, or their paths.
        request: of all of them, or its file.
        key: for release, or its file.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        request: ShardRequest | str | os.PathLike[str],
        key: ReleaseKey | str | os.PathLike[str],
    ) -> None:
        self.request = request if isinstance(request, ShardRequest) else ShardRequest.read(request)
        self._shards = _checked(_found(source), self.request)
        self._rows, self._sums = self._open(key if isinstance(key, ReleaseKey) else ReleaseKey.read(key))
        headers = [header for _, header in self._shards.values()]  # as authenticated
        relations = [frozenset(header["relations"]) for header in headers]
        self._relations = cast(frozenset[Neighbours], frozenset.intersection(*relations))
        texts = [text for header in headers for text in header["declarations"]]
        self._declarations = tuple(dict.fromkeys([*self.request.declarations, *texts]))
        self._is_private = all(header["is_private"] for header in headers)

    @property
    def relations(self) -> frozenset[Neighbours]:
        """The neighbours that all shards may be released under."""
        return self._relations

    @property
    def declarations(self) -> tuple[str, ...]:
        """What is declared of the shards."""
        return self._declarations

    @property
    def identity(self) -> Identity:
        """The request names it, so that a ledger knows it under one name only."""
        digest = self.request.digest
        return Identity(about=f"partials of {len(self._shards)} shards", place=digest, parts=(digest,))

    @property
    def unit(self) -> tuple[int | None, str | None]:
        """As in the request."""
        return self.request.rows_per_person, self.request.person

    @property
    def records(self) -> int:
        """The rows of all shards. **Private** unless the number of records is public."""
        return self._rows

    def check(self, schema: Schema, tables: Iterable[Sequence[str]], rows: int | None, person: str | None) -> None:
        """Refuse what cannot be read off the tables of the request."""
        request = self.request
        if (rows, person) != self.unit:
            unit = "rows" if request.person is None else f"at most {request.rows_per_person} rows of each person"
            raise InvalidArgument("rows_per_person", f"as in the request of the shards, which counts {unit}", got=rows)
        for names in tables:
            other = [name for name in names if name not in request.schema or request.schema[name] != schema[name]]
            if other:
                raise InvalidArgument("schema", f"that of the request, in which {other[0]!r} is another column or none")
            if self._place(names) is None:
                hint = _some("The shards were counted by", [", ".join(table) for table in request.tables])
                raise InvalidArgument("tables", "among those of the request, or margins of them", got=names, hint=hint)

    def tables(self, schema: Schema, tables: Iterable[Sequence[str]], bound: Bound | None) -> list[CountTable]:
        """The sums over all shards. **Private**."""
        wanted = [tuple(names) for names in tables]
        self.check(schema, wanted, *((None, None) if bound is None else (bound.rows, bound.person)))
        plan, sums = make_plan(schema, wanted, MEMORY_LIMIT), self._sums
        found = []
        for names, fingerprint in zip(wanted, plan.fingerprints, strict=True):
            place = self._place(names)
            assert place is not None
            held = self.request.tables[place]
            counts = sums[place].sum(axis=tuple(axis for axis, name in enumerate(held) if name not in names))
            kept = [name for name in held if name in names]
            found.append(
                CountTable(
                    np.ascontiguousarray(counts.transpose([kept.index(name) for name in names])),
                    names,
                    unit="row" if bound is None else "person",
                    rows_per_person=None if bound is None else bound.rows,
                    fingerprint=fingerprint,
                    is_private=self._is_private and plan.is_private,
                    relations=self.relations,
                    declarations=self.declarations,
                )
            )
        return found

    def _place(self, names: Sequence[str]) -> int | None:
        """The smallest table of the request that has these columns."""
        schema, tables = self.request.schema, self.request.tables
        holding = [place for place, held in enumerate(tables) if set(names) <= set(held)]
        return min(holding, key=lambda place: math.prod(schema.shape(tables[place])), default=None)

    @discreet
    def _open(self, key: ReleaseKey) -> tuple[int, list[NDArray[np.int64]]]:
        """Rows and tables of all shards, once each header that was read is found to be authentic. **Private**."""
        layout, rows, digests = self.request.plan().layout, 0, dict[bytes, str]()
        shapes = [layout.shape(table) for table in range(len(layout.tables))]
        total = np.zeros(layout.cells(), np.int64)
        for name, (path, known) in self._shards.items():
            header, body = unseal(path, key)
            if header != known or len(body) != 8 + _DIGEST + 8 * total.size:
                raise FormatError(f"{path}: not the partial that it was when its header was read.")
            (done,) = struct.unpack_from("<q", body)
            content = bytes(body[8 : 8 + _DIGEST])
            if done and any(content) and content in digests:
                raise PrivacyError(
                    f"the shards {digests[content]!r} and {name!r} were counted from the same file: each record "
                    "would count twice. Count each shard from its own."
                )
            digests[content] = name
            total += np.frombuffer(body, "<i8", offset=8 + _DIGEST)
            rows += int(done)
        ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
        return rows, [part.reshape(shape) for part, shape in zip(np.split(total, ends), shapes, strict=True)]

    def __repr__(self) -> str:
        return f"Partials({len(self._shards)} shards, request {self.request.digest[:12]})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise PrivacyError("Partials are opened by the process that releases, and are not copied, pickled or sent.")


def _found(source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    if not isinstance(source, str | os.PathLike):
        return [Path(path) for path in source]
    folder = Path(source)
    if not folder.is_dir():
        raise InvalidArgument("partials", f"the folder of the {ENDING} files, or their paths", got=str(source))
    return sorted(path for path in folder.iterdir() if path.suffix == ENDING and not path.name.startswith("."))


def _checked(paths: Sequence[Path], request: ShardRequest) -> dict[str, tuple[Path, dict[str, Any]]]:
    """The partial of each shard and its header: all of this request, each shard once, none missing."""
    found: dict[str, tuple[Path, dict[str, Any]]] = {}
    digest, mark = request.digest, _mark(request.plan().fingerprints)
    for path in paths:
        try:
            header = header_of(path)
        except OSError as error:
            raise FormatError(f"{path}: could not be read ({type(error).__name__}).") from None
        _check_header(path, header, request.shards, digest, mark)
        name = header["shard"]
        if name in found:
            raise PrivacyError(
                f"{path} and {found[name][0]} are both of the shard {name!r}: its records would count twice. Remove "
                "one."
            )
        found[name] = path, header
    absent = [name for name in request.shards if name not in found]
    if absent:
        hint = "A shard whose job was lost is counted again."
        raise InvalidArgument("partials", "of all shards", hint=f"{_some('Missing:', absent)} {hint}")
    return found


def _check_header(path: Path, header: Mapping[str, Any], shards: Sequence[str], digest: str, mark: str) -> None:
    if header.get("request") != digest:
        raise FormatError(f"{path}: counted for another request than {digest[:12]}.")
    if header.get("schema") != mark or header.get("shard") not in shards:
        raise FormatError(f"{path}: counted by another schema, or of a shard that the request does not have.")
    relations, texts = header.get("relations"), header.get("declarations")
    known = isinstance(relations, list) and all(each in get_args(Neighbours) for each in relations)
    told = isinstance(texts, list) and all(isinstance(text, str) for text in texts)
    if not known or not told or not isinstance(header.get("is_private"), bool):
        raise FormatError(f"{path}: a header that simplexdp did not write.")


def _mark(fingerprints: Iterable[str | None]) -> str:
    """One digest of how the tables were declared, so that a header stays short whatever their number."""
    return hashlib.sha256(json.dumps(list(fingerprints)).encode()).hexdigest()


def _some(what: str, names: Sequence[str]) -> str:
    """Ten names at most."""
    return f"{what} {', '.join(names[:10])}{f', ... ({len(names)} in all)' if len(names) > 10 else ''}."
