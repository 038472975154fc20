"""Registered sources: what the officer has checked once, so that no request of an analyst can fail on a value.

A request that is refused because of what some record holds tells about that record, and no ε pays for it. So the
officer registers a data set: its source and a schema that every record obeys. Requests may then use these columns, or
others over the same values that refuse nothing which the registered ones accept; that is found out without the data.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..budget import check_whole, convert
from ..errors import FormatError, InvalidArgument, PrivacyError, SchemaError
from ..schema import Categories, Numeric, Quantiles, Schema, cell_map

if TYPE_CHECKING:
    from ..private.counting import Identity

MAX_NAME, MAX_TEXT = 200, 2000
_DIGITS = "0123456789abcdef"

CELL_NUMBERS = "an array of cell numbers"
"""What sources are said to be that hold the numbers of cells in place of values."""

MAX_SCHEMA = 1 << 19
"""Characters of a registered schema in JSON; an entry of a ledger is at most twice as long."""


@dataclass(frozen=True, kw_only=True)
class Registration:
    """A data set as the officer registered it.

    Args:
        about: the source in words.
        place: fingerprint of where its rows come from.
        state: fingerprint of sizes and times of its files, empty for other sources.
        parts: fingerprints of the single files.
        schema: of all columns that may be asked about, as JSON.
        records: the number of records, where it is public.
        person: the column that names the person, where persons are protected.
    """

    about: str
    place: str
    state: str
    parts: tuple[str, ...]
    schema: str
    records: int | None
    person: str | None

    def __post_init__(self) -> None:
        if self.records is not None:
            convert(self, records=lambda name, value: check_whole(name, value, at_least=0))

    @classmethod
    def of(cls, identity: Identity, schema: Schema, records: int | None, person: str | None) -> Registration:
        """Of a source that was read to the end without a refusal."""
        text = json.dumps(json.loads(schema.to_json()), separators=(",", ":"), ensure_ascii=True)
        if len(text) > MAX_SCHEMA:
            raise InvalidArgument("schema", f"at most {MAX_SCHEMA >> 10} KiB as JSON to be registered")
        if not schema.is_private:
            raise PrivacyError(
                "A schema that was read off the sensitive rows cannot be registered: its values and edges tell about "
                "them. Declare the columns, or take them from public data."
            )
        return cls(
            about=identity.about,
            place=identity.place,
            state=identity.state,
            parts=identity.parts,
            schema=text,
            records=records,
            person=person,
        )

    def to_body(self) -> dict[str, Any]:
        """As plain data."""
        return {**self.__dict__, "parts": list(self.parts), "schema": json.loads(self.schema)}

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> Registration:
        """The inverse of `to_body`."""
        records, person = body["records"], body["person"]
        if records is not None and (type(records) is not int or records < 0):
            raise FormatError("a registered number of records is a whole number")
        text = json.dumps(body["schema"], separators=(",", ":"), ensure_ascii=True)
        Schema.from_json(text)
        return cls(
            about=check_text("about", body["about"], MAX_NAME),
            place=check_hash("place", body["place"]),
            state=body["state"] and check_hash("state", body["state"]),
            parts=tuple(check_hash("parts", part) for part in body["parts"]),
            schema=text,
            records=records,
            person=None if person is None else check_text("person", person, MAX_NAME),
        )

    def check(self, dataset: str, identity: Identity, schema: Schema, person: str | None) -> None:
        """Refuse a request that is not about this source and these columns; nothing is read for it but file times."""
        if identity.place != self.place:
            raise PrivacyError(
                f"the source is not the one that is registered as {dataset!r} ({self.about}). Use that one, or let the "
                "officer register this one under a name of its own."
            )
        if identity.state != self.state:
            raise PrivacyError(
                f"the files of data set {dataset!r} have changed since they were registered. The officer registers "
                "them again: `simplexdp ledger register`."
            )
        if person != self.person:
            known = "rows, without a person column" if self.person is None else f"persons by column {self.person!r}"
            raise InvalidArgument("person", f"as registered: data set {dataset!r} protects {known}", got=person)
        if not schema.is_private:
            raise PrivacyError("a request to a ledger needs declared columns; this schema was read off sensitive rows.")
        known_columns = Schema.from_json(self.schema)
        for column in schema:
            if column.name not in known_columns:
                raise SchemaError(
                    column.name,
                    f"a registered column of data set {dataset!r}",
                    hint=f"Registered are: {', '.join(known_columns.names[:20])}.",
                )
            registered = known_columns[column.name]
            problem = may_refuse(registered, column)
            if self.about == CELL_NUMBERS and cell_map(registered, column) != tuple(range(column.size)):
                problem = "The source holds cell numbers, which mean the registered cells and no others."
            if problem:
                raise SchemaError(
                    column.name,
                    "declared so that it refuses nothing which the registered column accepts",
                    hint=f"{problem} Use the registered column, or coarser bins of it.",
                )


def may_refuse(known: Categories | Numeric | Quantiles, asked: Categories | Numeric | Quantiles) -> str:
    """What a record that the registered column accepts could be refused for by the other; empty if nothing.

    >>> may_refuse(Numeric([0, 18, 65, 120]), Numeric([0, 65, 120]))
    ''
    >>> may_refuse(Numeric([0, 18, 65, 120]), Numeric([0, 65]))
    'It ends before the registered range does.'
    """
    if known == asked:
        return ""
    if known.has_missing and not asked.has_missing:
        return "It has no cell for missing values, and the registered column has one."
    if isinstance(known, Categories) or isinstance(asked, Categories):
        if not isinstance(known, Categories) or not isinstance(asked, Categories):
            return "One has categories and the other has numbers."
        if type(known.values[0]) is not type(asked.values[0]):
            return "Its values are of another type."
        if asked.has_other:
            return ""
        if known.has_other:
            return "It has no cell for other values, and the registered column has one."
        return "" if set(known.values) <= set(asked.values) else "It leaves out registered values."
    if asked.has_other:
        return ""
    if known.has_other:  # texts and the like may be among them, which no bin is nearest to
        return "It has no cell for values outside, and the registered column has one."
    if asked.outside == "nearest":
        return ""
    if known.outside == "nearest":
        return "It refuses values outside its edges, and the registered column takes the nearest bin."
    low, high = _range(asked) or (math.inf, -math.inf)
    first, last = _range(known) or (math.inf, -math.inf)  # a value of its own at an end covers nothing before it
    inside = first > last or (low <= first and last <= high)
    own, taken = getattr(known, "own", ()), getattr(asked, "own", ())
    if inside and all(low <= value <= high or value in taken for value in own):
        return ""
    return "It ends before the registered range does."


def _range(column: Numeric | Quantiles) -> tuple[float, float] | None:
    if isinstance(column, Quantiles):
        return column.lower, column.upper
    return (column.edges[0], column.edges[-1]) if column.edges else None


# -- names ----------------------------------------------------------------------------------------------------------

_ALIKE = str.maketrans("аеорсухіѕјԁһпоανκρτոıi1|0", "aeopcyxlsjdhnoavkptnllllo")
"""Letters and digits that look like others, the commonest of them: those of other scripts, i, l and 1, o and 0."""
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0]")
"""Letters that show nothing."""
_BETWEEN = re.compile(r"^[\W_]+|[\W_]+$|[\s_-]+")


def dataset_name(name: object) -> str:
    """A data set's name in one spelling: composed (NFKC), without space around it, printable."""
    if not isinstance(name, str):
        raise InvalidArgument("dataset", "a name", got=type(name).__name__)
    spelled = unicodedata.normalize("NFKC", name).strip()
    if _INVISIBLE.search(spelled):
        raise InvalidArgument("dataset", "a name of letters that can be seen")
    return check_text("dataset", spelled, MAX_NAME)


def check_near(name: str, known: Iterable[str]) -> None:
    """Refuse a new name that looks like a known one: it would have a budget of its own for the same people."""
    known = list(known)
    for other in known:
        if name not in known and skeleton(other) == skeleton(name):
            raise InvalidArgument(
                "dataset",
                f"{other!r}, which the ledger knows, or a name that is easily told from it",
                got=name,
                hint="Two names have two budgets.",
            )


def skeleton(name: str) -> str:
    """What is left of a name for the eye: no case, no spaces, hyphens and final signs, letters that look alike as one.

    >>> skeleton("Clinic 1") == skeleton("clinic-1")
    True
    """
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", name).casefold())
    plain = "".join(letter for letter in folded if not unicodedata.combining(letter)).translate(_ALIKE)
    return _BETWEEN.sub("", plain) or plain.strip()


# -- texts ---------------------------------------------------------------------------------------------------------


def check_hash(name: str, value: str) -> str:
    """64 lower-case hexadecimal digits."""
    if not (isinstance(value, str) and len(value) == 64 and not value.strip(_DIGITS)):
        raise InvalidArgument(name, "64 lower-case hexadecimal digits", hint="Use simplexdp.ledger.fingerprint.")
    return value


def check_text(name: str, value: str, most: int, *, empty: bool = False) -> str:
    """Printable text of limited length, so that a ledger shown on a terminal is nothing but text."""
    if not (isinstance(value, str) and value.isprintable() and len(value) <= most and (value or empty)):
        raise InvalidArgument(name, f"printable text of {0 if empty else 1} to {most} characters")
    return value


def printable(text: str) -> str:
    """The text as an entry can hold it."""
    return "".join(letter if letter.isprintable() else " " for letter in text)[:MAX_TEXT]
