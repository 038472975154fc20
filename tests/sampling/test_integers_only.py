"""No float touches an exact draw: the code of the two exact samplers is read, and their runs are watched."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable
from fractions import Fraction
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray
from sampling_support import Counting

from simplexdp.mechanisms import Gaussian, Laplace, Polya, noise, sums
from simplexdp.mechanisms import polya as polya_mechanism
from simplexdp.sampling import Entropy, SecureEntropy, SeededEntropy, choice, discrete, polya

INEXACT = {
    "sqrt",
    "log",
    "exp",
    "power",
    "divide",
    "true_divide",
    "mean",
    "random",
    "generator",
    "math",
    "float",
}


def inexact(source: str) -> list[str]:
    """What in the code could make a float: literals, true division, names of floating types and functions."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, (float, complex)):
            found.append(repr(node.value))
        if isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, ast.Div):
            found.append("/")
        if isinstance(node, (ast.Name, ast.Attribute)):
            name = node.id if isinstance(node, ast.Name) else node.attr
            if name in INEXACT or name.startswith(("float", "double", "half", "single", "longdouble", "complex")):
                found.append(name)
    return found


@pytest.mark.parametrize("module", [polya, discrete, choice], ids=lambda module: module.__name__.rpartition(".")[2])
def test_the_code_names_no_float(module: ModuleType) -> None:
    assert inexact(inspect.getsource(module)) == []


@pytest.mark.parametrize("source", [SecureEntropy, SeededEntropy])
def test_random_words_are_made_without_floats(source: type[Entropy]) -> None:
    assert inexact(textwrap.dedent(inspect.getsource(source.words))) == []
    assert source.words(SeededEntropy(1), 3).dtype == np.uint64


@pytest.mark.parametrize("line", ["x = 1.0", "x = a / b", "a /= b", "np.sqrt(x)", "x.astype(np.float64)", "float(x)"])
def test_the_reading_can_fail(line: str) -> None:
    assert inexact(line)


def watched(module: ModuleType, run: Callable[[], NDArray[np.int64]], function: str | None = None) -> set[str]:
    """The kinds of all arrays in the local variables of the module's functions, or of one, while `run` runs."""
    kinds: set[str] = set()

    def trace(frame: object, event: str, argument: object) -> object:
        if frame.f_code.co_filename != module.__file__:  # type: ignore[attr-defined]
            return None
        if function is not None and frame.f_code.co_name != function:  # type: ignore[attr-defined]
            return None
        for value in (*frame.f_locals.values(), argument):  # type: ignore[attr-defined]
            if isinstance(value, (np.ndarray, np.generic)):
                kinds.add(value.dtype.kind)
            elif isinstance(value, float):
                kinds.add("float")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        assert run().dtype == np.int64
    finally:
        sys.settrace(before)
    return kinds


RUNS: list[tuple[ModuleType, Callable[[], NDArray[np.int64]]]] = [
    (polya, lambda: polya.negative_binomial(np.array([1, 5, 100, 35_000]), 2, Counting(1))),
    (polya, lambda: polya.negative_binomial(np.array([1, 5, 100, 35_000]), 1, Counting(1), upper=40_000)),
    (discrete, lambda: discrete.discrete_laplace(1000, Fraction(7, 3), Counting(1))),
    (discrete, lambda: discrete.balanced_laplace(100, 5, Fraction(7, 3), Counting(1))),
    (discrete, lambda: discrete.discrete_gaussian(1000, Fraction(700, 3), Counting(1))),
]


@pytest.mark.parametrize(("module", "run"), RUNS)
def test_a_run_holds_no_float(module: ModuleType, run: Callable[[], NDArray[np.int64]]) -> None:
    """Every array of every line is of integers or truth values; the source has no generator of floats to
    ask."""
    kinds = watched(module, run)
    assert kinds <= {"i", "u", "b"}
    assert {"i", "u", "b"} <= kinds


COUNTS = np.array([[0, 3], [5, 0]])
DRAWS: list[tuple[ModuleType, Callable[[], NDArray[np.int64]]]] = [
    (noise, lambda: Gaussian(sigma=2.5).draw(COUNTS, Counting(1))),
    (noise, lambda: Laplace(scale=2.5).draw(COUNTS, Counting(1))),
    (polya_mechanism, lambda: Polya(r=2, alpha=7).draw(COUNTS, Counting(1))),
    (sums, lambda: sums.NoisySum.of("vector", 2.5).draw(COUNTS[0], Counting(1))),
    (sums, lambda: sums.NoisySum.of("matrix", 2.5).draw(COUNTS, Counting(1))),
    (sums, lambda: sums.GaussianTables(sigma=2.5).draw(COUNTS, Counting(1))),
]


@pytest.mark.parametrize(("module", "run"), DRAWS)
def test_the_draw_of_a_mechanism_holds_no_float(module: ModuleType, run: Callable[[], NDArray[np.int64]]) -> None:
    """Between the private counts and the released integers: parameters are fractions or whole numbers by then."""
    kinds = watched(module, run, "draw")
    assert kinds
    assert kinds <= {"i", "u", "b"}


def test_the_watch_can_fail() -> None:
    assert "float" in watched(sys.modules[__name__], _floating, "_floating")


def _floating() -> NDArray[np.int64]:
    noise = 0.5
    return np.rint(COUNTS + noise).astype(np.int64)
