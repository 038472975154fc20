"""Finding, checking and reading the data sets; the archives are imitated, nothing is downloaded."""

from __future__ import annotations

import gzip
import io
import os
import zipfile
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest

from reproduction.datasets import CATALOGUE, PAPER_ORDER, find, generate, load
from reproduction.datasets import download as download_module
from reproduction.datasets import files as files_module
from reproduction.datasets.catalogue import known
from reproduction.datasets.download import download, fetch_from_uci
from reproduction.datasets.files import cache_folder, read_text
from reproduction.datasets.table import check
from simplexdp.errors import InvalidArgument, SourceError

needs_data = pytest.mark.skipif(not os.environ.get("SIMPLEXDP_DATA"), reason="SIMPLEXDP_DATA is not set")


def test_the_catalogue_agrees_with_table_1() -> None:
    expected = {
        "CreditCard": (30000, 23, 2, 22),
        "Thyroid": (7200, 21, 3, None),
        "Shopper": (12330, 17, 2, 15),
        "Digit": (5620, 64, 10, None),
        "GermanCredit": (1000, 20, 2, 30),
        "Bank": (41188, 20, 2, 11),
        "Spam": (4601, 57, 2, 39),
        "Adult": (48842, 13, 2, 24),
    }
    assert tuple(expected) == PAPER_ORDER
    for name, (rows, attributes, classes, positive) in expected.items():
        entry = CATALOGUE[name]
        assert (entry.rows, entry.used_attributes, len(entry.classes)) == (rows, attributes, classes)
        assert sum(entry.classes.values()) == rows
        share = entry.positive_share
        assert (None if share is None else round(100 * share)) == positive


def test_unknown_names_are_refused() -> None:
    assert known("adult").name == "Adult"
    with pytest.raises(InvalidArgument, match="CreditCard"):
        known("iris")


@pytest.mark.slow
@pytest.mark.data
@needs_data
@pytest.mark.parametrize("name", list(CATALOGUE))
def test_every_file_passes_its_checks(name: str) -> None:
    table = load(name)
    assert table.rows == CATALOGUE[name].rows
    assert len(table.attributes) == CATALOGUE[name].used_attributes
    assert "fnlwgt" not in table.attributes


@pytest.mark.data
@needs_data
def test_the_recorded_checksums_are_those_of_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    import hashlib

    for entry in CATALOGUE.values():
        path = find(entry.name)
        assert hashlib.sha256(path.read_bytes()).hexdigest() == entry.sha256
        assert hashlib.sha256(gzip.decompress(path.read_bytes())).hexdigest() == entry.sha256_text


def write(folder: Path, text: bytes) -> Path:
    path = folder / CATALOGUE["GermanCredit"].file
    path.write_bytes(gzip.compress(text))
    return path


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, b"a,b\n1,2\n")
    with pytest.raises(SourceError, match="SHA-256"):
        read_text(CATALOGUE["GermanCredit"], path)
    path.write_bytes(b"not gzip")
    with pytest.raises(SourceError, match="gzip"):
        read_text(CATALOGUE["GermanCredit"], path)


def test_rows_columns_and_balance_are_checked() -> None:
    entry = CATALOGUE["GermanCredit"]
    labels = np.array(["1"] * 700 + ["2"] * 300)
    columns = {f"c{i}": labels for i in range(20)} | {"class": labels}
    check(entry, columns)
    with pytest.raises(SourceError, match="20 attributes"):
        check(entry, {name: value for name, value in columns.items() if name != "c3"})
    with pytest.raises(SourceError, match="1000 rows"):
        check(entry, {name: value[1:] for name, value in columns.items()})
    with pytest.raises(SourceError, match="distributed"):
        check(entry, columns | {"class": np.array(["1"] * 701 + ["2"] * 299)})


def test_a_named_folder_is_used_and_must_hold_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, b"x")
    monkeypatch.setenv("SIMPLEXDP_DATA", str(tmp_path))
    assert find("GermanCredit") == path
    with pytest.raises(SourceError, match="UCI data set 2"):
        find("Adult")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(SourceError, match="does not exist"):
        find("GermanCredit", directory=empty)


def test_without_a_network_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise URLError("no route")

    monkeypatch.setattr(download_module, "urlopen", refuse)
    with pytest.raises(SourceError, match="SIMPLEXDP_DATA"):
        fetch_from_uci("2/adult.zip")


def test_a_home_that_is_missing_or_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(files_module, "download", lambda *_: b"")
    monkeypatch.setattr(files_module, "check_text", lambda *_: None)
    monkeypatch.delenv("SIMPLEXDP_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "")  # the same as not set: never the current folder
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "simplexdp" / "uci"
    monkeypatch.setenv("HOME", os.devnull)
    with pytest.raises(SourceError, match=r"cannot be written: .*SIMPLEXDP_DATA"):
        find("GermanCredit")

    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nobody)
    with pytest.raises(SourceError, match=r"no home folder .*SIMPLEXDP_DATA"):
        find("GermanCredit")


def archive(**members: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, text in members.items():
            file.writestr("folder/" + name.replace("__", ".").replace("_D_", "-"), text)
    return out.getvalue()


def test_downloads_are_converted_checked_and_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SIMPLEXDP_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    body = archive(german__data="A11 6 A34 A43 1169 A65 A75 4 A93 A101 4 A121 67 A143 A152 2 A173 1 A192 A201 1\n")
    text = download(CATALOGUE["GermanCredit"], lambda _: body)
    assert text.startswith(b"checking-status,duration,")
    assert text.endswith(b",A201,1\n")
    with pytest.raises(SourceError, match="SHA-256"):
        find("GermanCredit", fetch=lambda _: body)
    assert not cache_folder().exists()
    with pytest.raises(SourceError, match="layout"):
        download(CATALOGUE["GermanCredit"], lambda _: archive(other__txt="x"))


def test_the_archives_formats_are_undone() -> None:
    adult = archive(
        adult__data="39, State-gov, 1, B, 13, N, A, F, W, M, 2174, 0, 40, US, <=50K\n\n",
        adult__test="|1x3 Cross validator\n25, Private, 2, 11th, 7, N, M, O, B, M, 0, 0, 40, US, <=50K.\n",
    )
    lines = download(CATALOGUE["Adult"], lambda _: adult).decode().splitlines()
    assert lines[1:] == [
        "39,State-gov,1,B,13,N,A,F,W,M,2174,0,40,US,<=50K",
        "25,Private,2,11th,7,N,M,O,B,M,0,0,40,US,<=50K",
    ]
    inner = archive(bank_D_additional_D_full__csv='"age";"job";"y"\n56;"housemaid";"no"\n')
    outer = io.BytesIO()
    with zipfile.ZipFile(outer, "w") as file:
        file.writestr("bank-additional.zip", inner)
    assert download(CATALOGUE["Bank"], lambda _: outer.getvalue()) == b"age,job,y\n56,housemaid,no\n"
    card = b"ID,X1,X2,Y\n1,20000,2,1\n"
    assert download(CATALOGUE["CreditCard"], lambda _: card).splitlines()[1] == b"20000,2,1"


@pytest.mark.data
@needs_data
@pytest.mark.parametrize(
    ("name", "members", "separator"),
    [
        ("Thyroid", {"ann_D_train__data": (0, 3772), "ann_D_test__data": (3772, 7200)}, " "),
        ("Digit", {"optdigits__tra": (0, 3823), "optdigits__tes": (3823, 5620)}, ","),
        ("GermanCredit", {"german__data": (0, 1000)}, " "),
        ("Spam", {"spambase__data": (0, 4601)}, ","),
    ],
)
def test_a_rebuilt_archive_gives_the_known_text(name: str, members: dict[str, tuple[int, int]], separator: str) -> None:
    entry = CATALOGUE[name]
    text = read_text(entry, find(name))
    lines = [line.replace(",", separator) for line in text.decode().splitlines()[1:]]
    body = archive(**{member: "\n".join(lines[a:b]) + "\n" for member, (a, b) in members.items()})
    assert download(entry, lambda _: body) == text


@pytest.mark.data
@needs_data
def test_a_download_is_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = CATALOGUE["GermanCredit"]
    text = read_text(entry, find("GermanCredit"))
    body = archive(german__data="\n".join(line.replace(",", " ") for line in text.decode().splitlines()[1:]))
    monkeypatch.delenv("SIMPLEXDP_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    fetched: list[str] = []

    def fetch(path: str) -> bytes:
        fetched.append(path)
        return body

    for _ in range(2):
        assert read_text(entry, find("GermanCredit", fetch=fetch)) == text
    assert fetched == ["144/statlog+german+credit+data.zip"]


@pytest.mark.parametrize("name", list(CATALOGUE))
def test_generated_tables_have_the_columns_and_classes(name: str) -> None:
    table, again = generate(name, rows=200, seed=3), generate(name, rows=200, seed=3)
    entry = CATALOGUE[name]
    assert table.rows == 200
    assert table.generated
    assert len(table.attributes) == entry.used_attributes
    assert set(table.labels.tolist()) == set(entry.classes)
    assert all((table.columns[column] == again.columns[column]).all() for column in table.columns)
