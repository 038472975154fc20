"""One function prints an ε or δ: never on the wrong side, the same text everywhere, and nobody prints one besides."""

from __future__ import annotations

import ast
import math
import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import reproduction
import simplexdp
from simplexdp import Laplace
from simplexdp.errors import NumericalError
from simplexdp.numerics.printed import DIGITS, exact, printed

ROOTS = [Path(package.__file__).parent for package in (simplexdp, reproduction)]
amounts = st.floats(0, 1e308)
HARD = (
    5e-324,
    2.5e-310,
    0.1,
    0.3,
    1.0000000000000002,
    0.9999999999999999,
    1.2896448,
    999999.5,
    999999.9999999999,
    1e300,
)


def one_is_the_float(text: str, value: float | Fraction) -> bool:
    """Whether the text is the shortest spelling of this very float, which may be half a unit below or above it."""
    return float(text) == value


@given(amounts)
def test_what_is_promised_is_never_below_its_value(value: float) -> None:
    text = printed(value)
    assert float(text) >= value
    assert one_is_the_float(text, value) or Decimal(text) >= Decimal(value)


@given(amounts)
def test_what_is_left_is_never_above_its_value(value: float) -> None:
    text = printed(value, up=False)
    assert float(text) <= value
    assert one_is_the_float(text, value) or Decimal(text) <= Decimal(value)


@pytest.mark.parametrize("value", HARD)
def test_hard_numbers_are_on_the_safe_side(value: float) -> None:
    assert float(printed(value, up=False)) <= value <= float(printed(value))
    assert float(printed(math.nextafter(value, math.inf))) > value


@given(st.fractions(min_value=0, max_value=10**9))
def test_sums_are_rounded_once_from_their_exact_value(value: Fraction) -> None:
    assert Fraction(printed(value, up=False)) <= value or one_is_the_float(printed(value, up=False), value)
    assert Fraction(printed(value)) >= value or one_is_the_float(printed(value), value)


def test_a_sum_just_above_a_float_is_not_printed_as_that_float() -> None:
    assert printed(Fraction(1) + Fraction(1, 2**80)) == "1.00001"
    assert printed(Fraction(1) - Fraction(1, 2**80), up=False) == "0.999999"


@given(amounts, st.booleans())
def test_printing_what_was_printed_changes_nothing(value: float, up: bool) -> None:
    text = printed(value, up=up)
    assert printed(float(text), up=up) == text


@given(amounts, amounts, st.booleans())
@example(0.1, math.nextafter(0.1, 1), True)
@example(0.3, math.nextafter(0.3, 0), False)
def test_a_larger_amount_is_not_printed_as_a_smaller_one(one: float, other: float, up: bool) -> None:
    small, large = sorted((one, other))
    assert Decimal(printed(small, up=up)) <= Decimal(printed(large, up=up))


@given(amounts, st.booleans())
def test_at_most_six_digits_and_within_a_unit_of_the_sixth(value: float, up: bool) -> None:
    found = Decimal(printed(value, up=up)).normalize()
    assert len(found.as_tuple().digits) <= DIGITS
    assert abs(found - Decimal(value)) <= Decimal(value) * Decimal(10) ** (1 - DIGITS) + Decimal(math.ulp(0.0))


@given(st.integers(1, 10**DIGITS - 1), st.integers(-300, 290))
def test_numbers_that_people_write_are_printed_as_they_are(digits: int, power: int) -> None:
    value = float(f"{digits}e{power}")
    assert printed(value) == printed(value, up=False)
    assert Decimal(printed(value)) == Decimal(f"{digits}e{power}")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_settings_are_printed_exactly(value: float) -> None:
    assert float(exact(value)) == value


def test_words_and_spellings() -> None:
    assert [printed(x) for x in (math.inf, None, 0, -0.0, 1, 1e-5, 1e-4, 123456, 1e6)] == [
        *("infinite", "–", "0", "0", "1", "1e-05", "0.0001", "123456", "1e+06")
    ]
    for wrong in (math.nan, -math.inf):
        with pytest.raises(NumericalError):
            printed(wrong)


def test_the_example_that_was_printed_too_low() -> None:
    epsilon = Laplace(scale=2 / 1.0000024).loss().epsilon(1e-9)
    assert 1 < epsilon < 1.00001
    assert printed(epsilon) == "1.00001"


# -- nobody else prints one ------------------------------------------------------------------------------------------

AMOUNT = re.compile(r"(^|_)(eps|epsilons?|deltas?|rdp|ε|δ|claimed|cost|limit|spent)($|_)", re.IGNORECASE)
BEFORE = re.compile(r"(ε|δ|ε̂|epsilon|delta)( at least| left)? ?(=|≥|≤|>|<|of|below|above) ?$")
FORMATTERS = {"round", "format", "number", "format_float_positional", "format_float_scientific"}


def names(node: ast.AST) -> set[str]:
    """Every name, attribute and text key in an expression, outside of calls that print."""
    found: set[str] = set()
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("printed", "exact"):
        return found
    if isinstance(node, ast.Name):
        found.add(node.id)
    elif isinstance(node, ast.Attribute):
        found.add(node.attr)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        found.add(node.value)
    for child in ast.iter_child_nodes(node):
        found |= names(child)
    return found


def speaks_of_an_amount(node: ast.AST) -> bool:
    return any(AMOUNT.search(name) for name in names(node))


def offences(text: str) -> list[int]:
    """Lines that give an amount its digits: a format spec, `round` and the like, or anything after "ε = ".

    The tables of benchmarks are not searched: their ε are the round numbers that the runs were made at.
    """
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.JoinedStr):
            for before, part in zip([None, *node.values], node.values, strict=False):
                if not isinstance(part, ast.FormattedValue) or part.conversion == ord("r"):
                    continue  # a repr is code: it holds the float itself
                said = isinstance(before, ast.Constant) and BEFORE.search(str(before.value))
                by_us = isinstance(part.value, ast.Call) and not names(part.value)
                if (part.format_spec and speaks_of_an_amount(part.value)) or (said and not by_us):
                    found.append(part.lineno)
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name in FORMATTERS and any(speaks_of_an_amount(argument) for argument in node.args):
                found.append(node.lineno)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            text_left = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
            if text_left and speaks_of_an_amount(node.right):
                found.append(node.lineno)
    return found


@pytest.mark.parametrize(
    "path",
    [path for root in ROOTS for path in sorted(root.rglob("*.py")) if path.name != "printed.py"],
    ids=lambda path: "/".join(path.parts[-2:]),
)
def test_no_other_module_gives_an_amount_its_digits(path: Path) -> None:
    assert offences(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "planted",
    [
        'f"{epsilon:.6g}"',
        'f"{budget.delta:g}"',
        'f"{loss.epsilon(delta):.3f}"',
        """f"{entry['epsilon']:g}" """,
        'f"ε = {found:.3g}"',
        'f"claimed ε ≥ {found}"',
        "round(loss.rdp(5), 3)",
        "np.round(epsilons, 3)",
        'format(spent_delta, ".3g")',
        'number(row["epsilon_left"])',
        '"%g" % epsilon',
        '"{:g}".format(loss.delta(1.0))',
    ],
)
def test_the_rule_sees_a_violation(planted: str) -> None:
    assert offences(f"import numpy as np\n{planted}\n") == [2]


@pytest.mark.parametrize("allowed", ['f"ε = {printed(found)}"', 'f"{noise:.3g}"', "printed(loss.epsilon(1e-5))"])
def test_the_rule_lets_pass_what_is_printed_here(allowed: str) -> None:
    assert offences(allowed) == []
