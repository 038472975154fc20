"""`Release`: one published table with its guarantee, its estimate and a certificate; JSON both ways."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, ClassVar, get_args

import numpy as np
from numpy.typing import NDArray

from ..accounting import PrivacyLoss
from ..budget import UnitKind, check_not_negative, check_positive, check_whole, convert
from ..errors import FormatError, InvalidArgument
from ..estimation import Estimate, IntervalKind, Method, NoisyCounts, estimate
from ..mechanisms import mechanism_from, table_mechanism
from ..mechanisms.base import TableMechanism
from ..schema import Schema
from .certificate import reasons
from .document import packed, reading_body, release_schema, unpacked
from .guarantee import Guarantee, overspent
from .model import Model, check_facts
from .records import IntArray, check_cells, draw_cells, possible_records
from .sections import Bars, HeatMap, Picture, Section, Table, View

FloatArray = NDArray[np.float64]
_ROWS = 40
"""Cells in a table on a page."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Release(Model):
    """A published table. Everything in it is public; nothing in it depends on the data but `values`.

    Args:
        values: what the mechanism drew, with one axis a column.
        mechanism: what drew it.
        guarantee: of this table, or of the whole model that it is part of.
        total: the number of records where it is public.
        columns: names of the axes, empty for counts without names.
        schema: of these columns.
        method: how probabilities are estimated.
        entropy: where the randomness came from.
        not_private: reasons, empty when the promise holds; those that follow from the other facts are added.
        declarations: what the curator declared of the rows, which the promise rests on.
        created: when, in ISO 8601.
        software: what drew it.
    """

    kind: ClassVar[str] = "release"

    values: NDArray[Any]
    mechanism: TableMechanism
    guarantee: Guarantee
    total: float | None = None
    columns: tuple[str, ...] = ()
    schema: Schema | None = None
    method: Method = "posterior-mean"
    entropy: str = "operating-system"
    not_private: tuple[str, ...] = ()
    declarations: tuple[str, ...] = ()
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    software: str = ""

    def __post_init__(self) -> None:
        self.values.setflags(write=False)
        if self.total is not None:
            convert(self, total=check_not_negative)
        check_facts(self)
        found = reasons(self.guarantee, self.entropy, self.schema_origin)
        object.__setattr__(self, "not_private", tuple(dict.fromkeys((*found, *self.not_private))))

    # -- what users read ------------------------------------------------------------------------------------------

    @property
    def draw(self) -> NDArray[Any]:
        """The values as drawn."""
        return self.values

    @property
    def neighbours(self) -> str:
        """The neighbouring relation of the guarantee."""
        return self.guarantee.neighbours

    @property
    def unit(self) -> UnitKind:
        """Whose change the guarantee speaks of."""
        return self.guarantee.unit

    @property
    def schema_origin(self) -> str | None:
        """Where the schema comes from; None without one."""
        return None if self.schema is None else self.schema.origin

    @property
    def loss(self) -> PrivacyLoss:
        """The exact privacy loss of this table and of those released together with it."""
        return self.guarantee.loss

    @cached_property
    def noisy(self) -> NoisyCounts:
        """The release in count units with the law of its noise, which is what estimates start from."""
        return self.mechanism.observe(self.values, self.total)

    @cached_property
    def estimate(self) -> Estimate:
        """Probabilities with uncertainty, at no further budget."""
        if self.mechanism.draws_shares and self.method == "raw":
            flat = self.values if self.impossible is None else np.where(self.impossible, 0.0, self.values)
            flat = flat / flat.sum()
            errors = np.sqrt(flat * (1 - flat))
            if self.impossible is not None:
                found = estimate(self.noisy, "raw", impossible=self.impossible)
                return replace(found, probabilities=flat, standard_errors=errors)
            return Estimate(probabilities=flat, standard_errors=errors, name="raw", noisy=self.noisy)
        return estimate(self.noisy, self.method, impossible=self.impossible)

    @cached_property
    def impossible(self) -> NDArray[np.bool_] | None:
        """Cells that the schema rules out; None where there are none."""
        return None if self.schema is None or not self.schema.never else self.schema.impossible(self.columns)

    @property
    def probabilities(self) -> FloatArray:
        """The published distribution: positive, sums to one."""
        return self.estimate.probabilities

    @property
    def standard_errors(self) -> FloatArray:
        """Of each probability."""
        return self.estimate.standard_errors

    def intervals(self, level: float = 0.95, kind: IntervalKind | None = None) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds of each probability; see `Estimate.intervals` for the two kinds."""
        return self.estimate.intervals(level, kind)

    def __repr__(self) -> str:
        mark = "" if self.private else ", NOT PRIVATE"
        names = f"columns={self.columns}, " if self.columns else ""
        return f"Release({names}shape={self.values.shape}, {self.mechanism}, {self.neighbours}, {self.unit}{mark})"

    def _columns(self) -> dict[str, list[Any]]:
        """A row for each cell: its labels, its probability with an interval of 95 %, its count where N is public."""
        names = self.columns or tuple(f"axis {i + 1}" for i in range(self.values.ndim))
        cells = list(itertools.product(*axis_labels(self)))
        told: dict[str, list[Any]] = {name: [str(cell[i]) for cell in cells] for i, name in enumerate(names)}
        low, high = self.intervals()
        numbers = {"probability": self.probabilities, "standard_error": self.standard_errors, "low": low, "high": high}
        if self.total is not None:
            numbers["count"] = self.probabilities * self.total
        return told | {_free(name, told): values.ravel().tolist() for name, values in numbers.items()}

    # -- as a model -----------------------------------------------------------------------------------------------

    @property
    def releases(self) -> tuple[Release, ...]:
        """Itself."""
        return (self,)

    @property
    def title(self) -> str:
        """Of its report."""
        return f"Distribution of {', '.join(self.columns)}" if self.columns else "A published distribution"

    def sections(self, view: View) -> list[Section]:
        """Its cells with intervals: all of them, or the most probable ones."""
        if view.column is not None:
            raise InvalidArgument("column", "left out for a release of one table")
        level, most, cells = view.level, view.most or _ROWS, self.values.size
        return [
            Section(
                heading=f"The distribution of {' × '.join(self.columns) or 'the cells'}",
                text=[f"Drawn by {self.mechanism}; estimated by {self.method}; created {self.created}."],
                table=Table(
                    columns=["cell", "probability", f"{level:.0%} from", "to"],
                    rows=release_rows(self, level, most),
                    note=f"the {most} most probable of {cells:,} cells" if cells > most else "",
                ),
                figures=[(distribution_picture(self, level=level), "The published distribution with intervals")],
            )
        ]

    def data(self, view: View) -> dict[str, Any]:
        """Every cell with its probability and interval."""
        bounds = (bound.ravel() for bound in self.intervals(view.level))
        return {
            "columns": list(self.columns),
            "shape": list(self.values.shape),
            "level": view.level,
            "cells": [
                {"cell": label, "probability": float(p), "lower": float(a), "upper": float(b)}
                for label, p, a, b in zip(cell_labels(self), self.probabilities.ravel(), *bounds, strict=True)
            ],
        }

    def sample_codes(self, size: int, generator: np.random.Generator) -> Mapping[str, IntArray]:
        """Cell numbers of so many synthetic records, by column."""
        size = check_whole("size", size, at_least=0)

        def draw(records: int) -> Mapping[str, IntArray]:
            axes = np.unravel_index(draw_cells(self.probabilities, records, generator), self.values.shape)
            return dict(zip(self.columns, (axis.astype(np.int64) for axis in axes), strict=True))

        return possible_records(self.schema, size, draw)

    def sample_codes_given(
        self, size: int, generator: np.random.Generator, given: Mapping[str, Sequence[int]]
    ) -> Mapping[str, IntArray]:
        """The same for records whose cells of some columns are among those given."""
        size = check_whole("size", size, at_least=0)
        sizes = zip(self.columns, self.values.shape, strict=True)
        kept = [check_cells(name, given.get(name, range(n)), n) for name, n in sizes]
        part = self.probabilities[np.ix_(*kept)]
        axes = np.unravel_index(draw_cells(part, size, generator), part.shape)
        found = (np.asarray(cells, dtype=np.int64)[axis] for cells, axis in zip(kept, axes, strict=True))
        return dict(zip(self.columns, found, strict=True))

    # -- files ----------------------------------------------------------------------------------------------------

    def to_body(self) -> dict[str, Any]:
        """As plain data; types survive: whole numbers stay whole."""
        return {
            "columns": list(self.columns),
            "shape": list(self.values.shape),
            "values": packed(self.values),
            "mechanism": {"name": self.mechanism.name, "parameters": self.mechanism.parameters},
            "guarantee": self.guarantee.to_body(),
            "total": self.total,
            "schema": None if self.schema is None else json.loads(self.schema.to_json()),
            "method": self.method,
            "entropy": self.entropy,
            "not_private": list(self.not_private),
            "declarations": list(self.declarations),
            "created": self.created,
            "software": self.software,
        }

    @classmethod
    def body_schema(cls) -> dict[str, Any]:
        """The JSON Schema of what `to_body` writes."""
        return release_schema()

    @classmethod
    def from_body(cls, body: dict[str, Any]) -> Release:
        """The inverse of `to_body`."""
        with reading_body("release"):
            _check_types(body)
            shares = table_mechanism(body["mechanism"]["name"]).draws_shares
            values = unpacked(body["values"], math.prod(body["shape"]))
            if not shares and values.dtype.kind != "i":  # whole numbers beyond 2^63 come as others
                raise ValueError("values that are no whole numbers of 64 bits")
            values = values.astype(np.float64 if shares else np.int64, copy=False).reshape(body["shape"])
            release = cls(
                values=values,
                mechanism=mechanism_from(body["mechanism"]["name"], body["mechanism"]["parameters"]),
                guarantee=Guarantee.from_body(body["guarantee"]),
                total=body["total"],
                columns=tuple(body["columns"]),
                schema=None if body["schema"] is None else Schema.from_json(json.dumps(body["schema"])),
                method=body["method"],
                entropy=body["entropy"],
                not_private=tuple(body["not_private"]),
                declarations=tuple(body.get("declarations", ())),
                created=body["created"],
                software=body["software"],
            )
            if overspent(release.guarantee):
                raise FormatError("the mechanisms of the release spend more than the budget that it states")
            if release.not_private and not body["not_private"]:
                raise FormatError(f"the release is marked private, and it is not: {release.not_private[0]}")
            return release


def _check_types(body: dict[str, Any]) -> None:
    """Refuse what would be read as something else: 0.5 as 0, true as 1, a text as a list of letters."""
    lists = {name: body[name] for name in ("columns", "not_private", "values", "shape")}
    shares = table_mechanism(body["mechanism"]["name"]).draws_shares
    if isinstance(body["values"], dict):  # packed: its type says what each of them is
        lists["values"] = [0.5 if shares else 0] if (body["values"].get("dtype") == "float64") == shares else [None]
    lists["declarations"] = body.get("declarations", [])  # files of before declarations have none
    if any(not isinstance(value, list) for value in lists.values()):
        raise TypeError
    texts = [*lists["columns"], *lists["not_private"], *lists["declarations"]]
    texts += [body[name] for name in ("method", "created", "software")]
    if any(not isinstance(text, str) for text in texts) or body["entropy"] not in ("operating-system", "seeded"):
        raise TypeError
    numbers = (int, float) if shares else (int,)
    if any(type(value) not in numbers for value in lists["values"]) or any(type(n) is not int for n in lists["shape"]):
        raise TypeError
    if not lists["values"] or any(n < 1 for n in lists["shape"]):
        raise ValueError
    if body["total"] is not None and check_whole("total", body["total"], at_least=0) > 2**53:
        raise ValueError
    guarantee = body["guarantee"]
    if guarantee["unit"] not in get_args(UnitKind) or type(guarantee["rows"]) is not int or guarantee["rows"] > 10**9:
        raise ValueError
    if any(not 0 < check_positive("pure", epsilon) <= 1e6 for epsilon in guarantee["pure"]):
        raise ValueError


# -- its cells -----------------------------------------------------------------------------------------------------


def _free(name: str, taken: Mapping[str, Any]) -> str:
    return _free(f"{name}_", taken) if name in taken else name


def axis_labels(release: Release) -> list[Sequence[str]]:
    """What the cells of each axis are called."""
    return [
        release.schema[release.columns[i]].labels if release.schema is not None else [str(j + 1) for j in range(size)]
        for i, size in enumerate(release.values.shape)
    ]


def cell_labels(release: Release) -> list[str]:
    """What the cells are called, in the order of the flattened values."""
    return [", ".join(names) for names in itertools.product(*axis_labels(release))]


def release_rows(release: Release, level: float, most: int) -> list[list[str]]:
    """Cell, probability and interval: all cells in their order, or the most probable ones if there are more."""
    labels, probabilities = cell_labels(release), release.probabilities.ravel()
    lower, upper = (bound.ravel() for bound in release.intervals(level))
    shown = (
        range(probabilities.size) if probabilities.size <= most else np.argsort(-probabilities, kind="stable")[:most]
    )
    return [[labels[i], f"{probabilities[i]:.5f}", f"{lower[i]:.5f}", f"{upper[i]:.5f}"] for i in map(int, shown)]


def distribution_picture(release: Release, *, level: float, title: str | None = None, cells: int = 40) -> Picture:
    """Bars with intervals for one column, a map for two, the largest cells for more."""
    title = title or (" × ".join(release.columns) or "distribution")
    if release.values.ndim == 2 and min(release.values.shape) > 1 and release.values.size > 12:
        first, second = release.columns or ("axis 1", "axis 2")
        rows, columns = axis_labels(release)
        return HeatMap(values=release.probabilities, axes=(first, second), rows=rows, columns=columns, title=title)
    lower, upper = release.intervals(level)
    return Bars(
        labels=cell_labels(release),
        values=release.probabilities.ravel(),
        lower=lower.ravel(),
        upper=upper.ravel(),
        title=title,
        note=f"bars: published probability; whiskers: {level:.0%} intervals",
        cells=cells,
    )
