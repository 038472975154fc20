"""Numbers: arrays that callers hand over, special functions, safe-side roots and rounding."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidArgument


def as_array(values: ArrayLike, name: str = "counts") -> NDArray[Any]:
    """The values as an array of any type; what NumPy, or an object inside, says about a bad one may quote a value.

    So the error is raised outside of the handler, where it has no context.
    """
    if _is_masked(values) or (isinstance(values, list | tuple) and any(map(_is_masked, values))):
        hint = "Fill it first, as with values.filled(0): the mask would be forgotten and what it hides be counted."
        raise InvalidArgument(name, "an array without a mask", hint=hint)
    with contextlib.suppress(Exception):
        return np.asarray(values)
    raise InvalidArgument(name, "an array", hint="Rows of different lengths make no table.")


def _is_masked(values: object) -> bool:
    # Who has one has loaded that part of NumPy.
    return "numpy.ma" in sys.modules and isinstance(values, np.ma.MaskedArray)
