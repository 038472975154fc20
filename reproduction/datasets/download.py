"""From the UCI repository's own archives to one CSV file with a header and the label last.

Written from the layout of the archives; the checksum of the resulting text decides whether it is used.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Callable, Iterable
from urllib.error import URLError
from urllib.request import urlopen

from simplexdp.errors import SourceError

from .catalogue import DataSet
from .headers import HEADERS

Fetch = Callable[[str], bytes]
Rows = list[list[str]]

_SITE = "https://archive.ics.uci.edu/static/public"
_ARCHIVES = {
    "CreditCard": "350/data.csv",  # the archive holds a spreadsheet, this is the same as text
    "Thyroid": "102/thyroid+disease.zip",
    "Shopper": "468/online+shoppers+purchasing+intention+dataset.zip",
    "Digit": "80/optical+recognition+of+handwritten+digits.zip",
    "GermanCredit": "144/statlog+german+credit+data.zip",
    "Bank": "222/bank+marketing.zip",
    "Spam": "94/spambase.zip",
    "Adult": "2/adult.zip",
    "SouthGermanCredit": "522/south+german+credit.zip",
}


def fetch_from_uci(path: str) -> bytes:
    """The bytes at a path of the repository."""
    url = f"{_SITE}/{path}"
    try:
        with urlopen(url, timeout=60) as response:
            body: bytes = response.read()
    except (URLError, TimeoutError, OSError) as error:
        raise SourceError(
            f"{url} cannot be reached ({error}). Without a network, put the files of docs/reproduction.md into a "
            "folder and name it by the variable SIMPLEXDP_DATA or by --data."
        ) from None
    return body


def download(data_set: DataSet, fetch: Fetch = fetch_from_uci) -> bytes:
    """The CSV text of a data set from its archive."""
    body = fetch(_ARCHIVES[data_set.name])
    try:
        rows = _RECIPES[data_set.name](body)
    except (zipfile.BadZipFile, KeyError, StopIteration, UnicodeDecodeError) as error:
        raise SourceError(
            f"the archive of UCI data set {data_set.uci} has another layout than expected ({error!r})."
        ) from None
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([HEADERS.get(data_set.name) or rows.pop(0), *rows])
    return out.getvalue().encode()


def _members(body: bytes, *names: str) -> list[str]:
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        return [archive.read(_path(archive, name)).decode("utf-8-sig") for name in names]


def _path(archive: zipfile.ZipFile, name: str) -> str:
    """The member of this name in whatever folder."""
    return next(path for path in archive.namelist() if path.rsplit("/", 1)[-1] == name)


def _split(text: str, delimiter: str | None = ",") -> Rows:
    lines = (line for line in text.splitlines() if line.strip())
    if delimiter is None:
        return [line.split() for line in lines]
    return [[value.strip() for value in row] for row in csv.reader(lines, delimiter=delimiter)]


def _credit_card(body: bytes) -> Rows:
    return [row[1:] for row in _split(body.decode("utf-8-sig"))[1:]]  # without ID and the header X1 ... Y


def _thyroid(body: bytes) -> Rows:
    return [row for text in _members(body, "ann-train.data", "ann-test.data") for row in _split(text, None)]


def _shopper(body: bytes) -> Rows:
    return _split(_members(body, "online_shoppers_intention.csv")[0])


def _digit(body: bytes) -> Rows:
    return [row for text in _members(body, "optdigits.tra", "optdigits.tes") for row in _split(text)]


def _german(body: bytes) -> Rows:
    return _split(_members(body, "german.data")[0], None)


def _bank(body: bytes) -> Rows:
    with zipfile.ZipFile(io.BytesIO(body)) as outer:
        inner = outer.read(_path(outer, "bank-additional.zip"))
    return _split(_members(inner, "bank-additional-full.csv")[0], ";")


def _spam(body: bytes) -> Rows:
    return _split(_members(body, "spambase.data")[0])


def _adult(body: bytes) -> Rows:
    rows: Rows = []
    for text in _members(body, "adult.data", "adult.test"):
        wanted: Iterable[list[str]] = (row for row in _split(text) if len(row) == 15)  # adult.test starts with a note
        rows += [[*row[:-1], row[-1].rstrip(".")] for row in wanted]
    return rows


def _south_german(body: bytes) -> Rows:
    return _split(_members(body, "SouthGermanCredit.asc")[0], None)[1:]


_RECIPES: dict[str, Callable[[bytes], Rows]] = {
    "CreditCard": _credit_card,
    "Thyroid": _thyroid,
    "Shopper": _shopper,
    "Digit": _digit,
    "GermanCredit": _german,
    "Bank": _bank,
    "Spam": _spam,
    "Adult": _adult,
    "SouthGermanCredit": _south_german,
}
