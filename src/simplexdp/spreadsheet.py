"""Public numbers as CSV and as XLSX, which every spreadsheet opens: cells one below the other, and cross tables."""

from __future__ import annotations

import csv
import io
import math
import os
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

from .errors import InvalidArgument
from .models import Release
from .models.document import whole_file
from .shown import Columns, Shown

ENDINGS = (".csv", ".xlsx")
_DAY_ONE = (1980, 1, 1, 0, 0, 0)
"""The time of everything in an XLSX file, so that the same numbers are the same bytes."""
_MOST_ROWS = 1 << 20
_ODD = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def export_table(shown: Shown, path: str | os.PathLike[str]) -> None:
    """Write a release, a model, or anything else with numbers in columns, to a .csv or .xlsx file.

    CSV has what `to_frame` has. XLSX has it too, and for a release of two columns a second sheet with the cross table
    and its margins.
    """
    place = Path(path)
    suffix = place.suffix.lower()
    if suffix not in ENDINGS:
        raise InvalidArgument("path", "a file name that ends in .csv or .xlsx", got=str(place))
    columns = shown._columns()
    if suffix == ".csv":
        data = _csv(columns).encode()
    else:
        sheets = {"cells": columns}
        if isinstance(shown, Release) and shown.values.ndim == 2:
            sheets["cross table"] = cross_table(shown)
        data = _xlsx(sheets)
    with whole_file(place) as made:
        made.write_bytes(data)


def cross_table(release: Release) -> dict[str, list[Any]]:
    """A release of two columns with its margins: counts where the number of records is public, else probabilities.

    >>> from simplexdp import Budget, release
    >>> made = release([[30, 10], [20, 40]], budget=Budget(epsilon=1, delta=1e-6), entropy=1)
    >>> list(cross_table(made)), len(cross_table(made)["total"])
    (['axis 1', '1', '2', 'total'], 3)
    """
    if release.values.ndim != 2:
        raise InvalidArgument("release", "of two columns", got=release.values.ndim)
    schema, names = release.schema, release.columns or ("axis 1", "axis 2")
    shapes = release.values.shape
    rows, across = (
        list(map(str, schema[name].labels)) if schema is not None else [str(i + 1) for i in range(size)]
        for name, size in zip(names, shapes, strict=True)
    )
    table = release.probabilities.reshape(shapes) * (1 if release.total is None else release.total)
    whole = np.vstack([table, table.sum(axis=0)])
    found: dict[str, list[Any]] = {names[0]: [*rows, "total"]}
    for label, numbers in zip(across, whole.T, strict=True):
        found[_free(label, found)] = numbers.tolist()
    found[_free("total", found)] = whole.sum(axis=1).tolist()
    return found


def _free(name: str, taken: Mapping[str, Any]) -> str:
    while name in taken:
        name += " "
    return name


def _csv(columns: Columns) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def _xlsx(sheets: Mapping[str, Columns]) -> bytes:
    """The smallest workbook: a sheet of inline texts and numbers for each."""
    head = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml."
    numbers = range(1, len(sheets) + 1)
    listed = "".join(
        f'<sheet name="{escape(name)}" sheetId="{i}" r:id="rId{i}"/>' for i, name in zip(numbers, sheets, strict=True)
    )
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{kind}sheet.main+xml"/>'
        + "".join(
            f'<Override PartName="/xl/worksheets/sheet{i}.xml" ContentType="{kind}worksheet+xml"/>' for i in numbers
        )
        + "</Types>",
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships">'
        f'<Relationship Id="rId1" Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>{listed}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships">'
        + "".join(
            f'<Relationship Id="rId{i}" Type="{office}/worksheet" Target="worksheets/sheet{i}.xml"/>' for i in numbers
        )
        + "</Relationships>",
    }
    for i, columns in zip(numbers, sheets.values(), strict=True):
        parts[f"xl/worksheets/sheet{i}.xml"] = f'<worksheet xmlns="{main}">{_rows(columns)}</worksheet>'
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(zipfile.ZipInfo(name, _DAY_ONE), (head + text).encode(), zipfile.ZIP_DEFLATED)
    return made.getvalue()


def _rows(columns: Columns) -> str:
    lines: list[Sequence[Any]] = [list(columns), *zip(*columns.values(), strict=True)]
    if len(lines) > _MOST_ROWS:
        raise InvalidArgument("path", f"a .csv file: a spreadsheet has at most {_MOST_ROWS:,} rows", got=len(lines))
    cells = ("".join(map(_cell, line)) for line in lines)
    return f"<sheetData>{''.join(f'<row>{line}</row>' for line in cells)}</sheetData>"


def _cell(value: Any) -> str:
    if value is None:
        return "<c/>"
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return f"<c><v>{value!r}</v></c>"
    text = escape(_ODD.sub("\ufffd", str(value)))
    return f'<c t="inlineStr"><is><t xml:space="preserve">{text}</t></is></c>'
