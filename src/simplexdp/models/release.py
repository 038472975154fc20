"""`Release`: one published table with its guarantee, its estimate and a certificate; JSON both ways."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, ClassVar, get_args

import numpy as np
from numpy.typing import NDArray

from ..accounting import PrivacyLoss
from ..budget import check_positive, check_whole
from ..errors import FormatError, InvalidArgument
from ..estimation import Estimate, IntervalKind, Method, NoisyCounts, estimate
from ..mechanisms.balanced import BalancedLaplace
from ..mechanisms.dirichlet import Dirichlet
from ..mechanisms.noise import Laplace
from ..mechanisms.registry import AnyMechanism, mechanism_from
from ..schema import Schema
from ..tables import Unit
from .certificate import Certificate, certify
from .document import Document, reading_body
from .guarantee import Guarantee

FloatArray = NDArray[np.float64]
NOT_PRIVATE = {
    "seeded": "the draw was made with a seed, so anyone who knows it can undo the noise",
    "none": "exact counts were published",
    "from-data": "the schema was taken from the sensitive data itself",
    "paper-discretisation": "the schema was taken from the sensitive data, as in the paper",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Release(Document):
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
        not_private: reasons, empty when the promise holds.
    """

    kind: ClassVar[str] = "release"

    values: NDArray[Any]
    mechanism: AnyMechanism
    guarantee: Guarantee
    total: float | None = None
    columns: tuple[str, ...] = ()
    schema: Schema | None = None
    method: Method = "posterior-mean"
    entropy: str = "operating-system"
    not_private: tuple[str, ...] = ()
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    software: str = ""

    def __post_init__(self) -> None:
        self.values.setflags(write=False)
        if not self.guarantee.covers([self.mechanism]):
            raise InvalidArgument("guarantee", f"one that covers {self.mechanism}")
        if isinstance(self.mechanism, BalancedLaplace):
            if self.values.size != self.mechanism.cells:
                raise InvalidArgument("values", "of as many cells as the mechanism is for", got=self.values.size)
            if self.total is not None and self.values.sum() != self.total:
                raise InvalidArgument("total", "the sum of the values for balanced noise", got=self.total)
        if self.columns and len(self.columns) != self.values.ndim:
            raise InvalidArgument("columns", "one for each axis of the values", got=self.columns)

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
    def unit(self) -> Unit:
        """Whose change the guarantee speaks of."""
        return self.guarantee.unit

    @property
    def private(self) -> bool:
        """Whether the promise holds."""
        return not self.not_private

    @property
    def loss(self) -> PrivacyLoss:
        """The exact privacy loss of this table and of those released together with it."""
        return self.guarantee.loss

    @cached_property
    def noisy(self) -> NoisyCounts:
        """The release in count units with the law of its noise, which is what estimates start from."""
        values, variance, slope = self.mechanism.unbiased(self.values, self.total)
        balanced = isinstance(self.mechanism, BalancedLaplace)
        return NoisyCounts(
            values=values,
            variance=variance,
            slope=slope,
            total=self.total,
            noise="laplace" if balanced or isinstance(self.mechanism, Laplace) else "normal",
            balanced=balanced and self.total is not None,
        )

    @cached_property
    def estimate(self) -> Estimate:
        """Probabilities with uncertainty, at no further budget."""
        if isinstance(self.mechanism, Dirichlet) and self.method == "raw":
            flat = self.values / self.values.sum()
            return Estimate(
                probabilities=flat, standard_errors=np.sqrt(flat * (1 - flat)), name="raw", noisy=self.noisy
            )
        return estimate(self.noisy, self.method)

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

    def certificate(self) -> Certificate:
        """What is promised, in words and as data."""
        return certify(
            self.guarantee,
            schema_origin=self.schema.origin if self.schema is not None else None,
            entropy=self.entropy,
            not_private=self.not_private,
        )

    def __repr__(self) -> str:
        mark = "" if self.private else ", NOT PRIVATE"
        names = f"columns={self.columns}, " if self.columns else ""
        return f"Release({names}shape={self.values.shape}, {self.mechanism}, {self.neighbours}, {self.unit}{mark})"

    # -- files ----------------------------------------------------------------------------------------------------

    def to_body(self) -> dict[str, Any]:
        """As plain data; types survive: whole numbers stay whole."""
        return {
            "columns": list(self.columns),
            "shape": list(self.values.shape),
            "values": self.values.ravel().tolist(),
            "mechanism": {"name": self.mechanism.name, "parameters": self.mechanism.parameters},
            "guarantee": self.guarantee.to_body(),
            "total": self.total,
            "schema": None if self.schema is None else json.loads(self.schema.to_json()),
            "method": self.method,
            "entropy": self.entropy,
            "not_private": list(self.not_private),
            "created": self.created,
            "software": self.software,
        }

    @classmethod
    def from_body(cls, body: dict[str, Any]) -> Release:
        """The inverse of `to_body`."""
        with reading_body("release"):
            _check_types(body)
            whole = body["mechanism"]["name"] != "dirichlet"
            values = np.array(body["values"], dtype=np.int64 if whole else np.float64).reshape(body["shape"])
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
                created=body["created"],
                software=body["software"],
            )
            schema = release.schema
            if schema is not None and (schema.names != release.columns or schema.shape() != values.shape):
                raise FormatError("the schema of the release is not that of its columns")
            paid = release.guarantee.mechanisms
            # Tables whose noise was spread later are paid for together, not one by one.
            if release.mechanism not in paid and all(mechanism.name != "gaussian-tables" for mechanism in paid):
                raise FormatError("the guarantee of the release does not cover its mechanism")
            return release


def _check_types(body: dict[str, Any]) -> None:
    """Refuse what would be read as something else: 0.5 as 0, true as 1, a text as a list of letters."""
    lists = {name: body[name] for name in ("columns", "not_private", "values", "shape")}
    if any(not isinstance(value, list) for value in lists.values()):
        raise TypeError
    texts = [*lists["columns"], *lists["not_private"], *(body[name] for name in ("method", "created", "software"))]
    if any(not isinstance(text, str) for text in texts) or body["entropy"] not in ("operating-system", "seeded"):
        raise TypeError
    numbers = (int, float) if body["mechanism"]["name"] == "dirichlet" else (int,)
    if any(type(value) not in numbers for value in lists["values"]) or any(type(n) is not int for n in lists["shape"]):
        raise TypeError
    if not lists["values"] or any(n < 1 for n in lists["shape"]):
        raise ValueError
    if body["total"] is not None and check_whole("total", body["total"], at_least=0) > 2**53:
        raise ValueError
    guarantee = body["guarantee"]
    if guarantee["unit"] not in get_args(Unit) or type(guarantee["rows"]) is not int or guarantee["rows"] > 10**9:
        raise ValueError
    if any(not 0 < check_positive("pure", epsilon) <= 1e6 for epsilon in guarantee["pure"]):
        raise ValueError


def reasons(draw_kind: str, mechanism: str, schema: Schema | None) -> tuple[str, ...]:
    """Why something made this way is not private; empty when it is."""
    keys = [draw_kind, mechanism, schema.origin if schema is not None else ""]
    return tuple(NOT_PRIVATE[key] for key in keys if key in NOT_PRIVATE)
