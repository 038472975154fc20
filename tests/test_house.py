"""`make house` measures what it says, and the tree is no worse than the numbers that are kept."""

from __future__ import annotations

import importlib
import re
import sys
import textwrap
from pathlib import Path

import pytest
from tools.house import KEPT, SOURCE, WANTED, Tree, between_rooms, edges, long_lists, measured, show, walks

FILES = {
    "__init__.py": """
        from .doors import ask

        __all__ = ["ask", "Model"]
        """,
    "doors.py": """
        from . import inner, other
        from .inner import deep


        def ask(a, b, c, d, e, /, f, g, *h, i=1, **j):
            return deep.down(other.up)


        class Model:
            def __init__(self, a, b, c, d, e, f, g, h, i):
                def helper(a, b, c, d, e, f, g, h, i): ...

            def fit(self, a, b, c, d, e, f, g, h): ...

            def _secret(self, a, b, c, d, e, f, g, h, i): ...
        """,
    "other.py": """
        from typing import TYPE_CHECKING

        if TYPE_CHECKING:
            from .doors import Model


        def up():
            return [down_again() for _ in range(2)]


        def down_again():
            from .inner.deep import bottom

            return bottom()
        """,
    "inner/__init__.py": "",
    "inner/deep.py": """
        import house_example.lonely
        from ..ring.one import turn


        def down(call):
            return call()


        def bottom():
            return "balanced-laplace"
        """,
    "lonely.py": "BalancedLaplaces = 1\n",
    "ring/__init__.py": "",
    "ring/one.py": """
        class turn:
            from .two import back
        """,
    "ring/two.py": """
        try:
            from .one import turn
        except ImportError:
            turn = None
        back = None
        """,
    "cli/__init__.py": """
        from . import tell
        COMMANDS: dict[str, tuple[str, str, str]] = {"say": ("tell", "tell", "Tell it.")}
        """,
    "cli/tell.py": """
        def tell(a, b, c, d, e, f, g, h, i): ...


        def ask(a, b, c, d, e, f, g, h, i): ...
        """,
    "long.py": "def sixty():\n" + "    ...\n" * 59 + "\n\ndef longer():\n" + "    ...\n" * 60,
}


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    for name, text in FILES.items():
        path = tmp_path / "house_example" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.startswith("house_example")]:
        monkeypatch.delitem(sys.modules, name)
    return Tree.of(tmp_path / "house_example")


def test_the_numbers_of_a_made_up_tree(example: Tree) -> None:
    assert measured(example, {}) == {
        "modules in the wheel": 12,
        "lines in the wheel": sum(len(textwrap.dedent(text).splitlines()) for text in FILES.values()),
        "functions with more than 8 parameters, public doors left out": 3,
        "functions over 60 lines": 1,
        "files that name one mechanism": 1,
        "import cycles": 1,
        "modules imported by exactly one other": 5,
    }


def test_the_names_behind_the_numbers(example: Tree) -> None:
    assert {str(each): (each.parameters, each.public) for each in long_lists(example.functions())} == {
        "doors.ask": (10, True),
        "doors.Model.__init__": (9, True),
        "doors.Model.__init__.helper": (9, False),
        "doors.Model._secret": (9, False),
        "cli.tell.tell": (9, True),
        "cli.tell.ask": (9, False),
    }
    assert example.cycles() == [["ring.one", "ring.two"]]
    assert example.imports("other", loaded=True) == set()
    assert example.imports("other", loaded=False) == {"doors", "inner.deep"}
    assert sorted(example.single_importer()) == ["cli.tell", "inner", "lonely", "other", "ring.two"]


def test_the_edges_of_a_call(example: Tree) -> None:
    package = importlib.import_module("house_example")
    assert edges(lambda: package.ask(1, 2, 3, 4, 5, 6, 7), example.package) == {
        ("house_example.doors", "house_example.inner.deep"),
        ("house_example.inner.deep", "house_example.other"),
        ("house_example.other", "house_example.inner.deep"),
    }


def test_edges_within_a_room_do_not_count_between_rooms() -> None:
    pairs = {("p", "p.a"), ("p.a.x", "p.a.y"), ("p.a.x", "p.b"), ("p.a.y", "p.b.z"), ("p.b.z", "p.a")}
    assert between_rooms(pairs) == 3


@pytest.mark.slow
def test_the_house_is_no_worse_than_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    tree = Tree.of(SOURCE)
    found = measured(tree, walks())
    assert found.keys() == KEPT.keys() == WANTED.keys()
    show(tree, found, {})
    printed = capsys.readouterr().out
    assert all(re.search(rf"^{re.escape(name)} +{number:,} ", printed, re.MULTILINE) for name, number in found.items())
    assert {name: (number, KEPT[name]) for name, number in found.items() if number > KEPT[name]} == {}, printed
