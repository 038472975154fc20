"""`make house`: how the house stands: what is wanted of the tree, what is measured on it, and what it may not exceed.

Each property is a number that should be small. `WANTED` says how small, where that was decided, and `KEPT` how large it
may be today: a test holds the tree to it, so that it cannot get worse. Who makes a number smaller writes the new one
into `KEPT`.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any

SOURCE = Path(__file__).resolve().parents[1] / "src" / "simplexdp"
MOST_PARAMETERS, MOST_LINES = 8, 60
SHOWN = ("audit",)
"""Packages with public names of their own."""
MECHANISM = r"\bBalancedLaplace\b|[\"']balanced-laplace[\"']|\bbalanced_laplace"
"""One mechanism by any of its names."""

WANTED: dict[str, int | None] = {
    "modules in the wheel": 125,
    "lines in the wheel": 20_000,
    "functions with more than 8 parameters, public doors left out": 0,
    "functions over 60 lines": 8,
    "files that name one mechanism": 5,
    "import cycles": 0,
    "modules imported by exactly one other": None,
    "edges of release([counts])": None,
    "edges of NaiveBayes.fit": 80,
    "edges of BayesianNetwork.fit and sample": None,
}
# 125 modules and 32,400 lines before many tables, answers with intervals, schemas that say more and results that
# show themselves came; 134 and 35,600 before the synthesizer, the studio, shards, threads, bundles, private scores and
# pictures that are drawn here.
KEPT: dict[str, int] = {
    "modules in the wheel": 186,
    "lines in the wheel": 47_000,
    "functions with more than 8 parameters, public doors left out": 0,
    "functions over 60 lines": 6,
    "files that name one mechanism": 5,
    "import cycles": 0,
    "modules imported by exactly one other": 42,
    "edges of release([counts])": 95,
    "edges of NaiveBayes.fit": 212,
    "edges of BayesianNetwork.fit and sample": 184,
}


@dataclass(frozen=True)
class Function:
    """A function or method: where it stands and how long it is."""

    module: str
    name: str
    parameters: int
    lines: int
    public: bool

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(frozen=True, eq=False)
class Tree:
    """The modules of one package, by dotted name without that of the package; its own is ""."""

    package: str
    texts: Mapping[str, str]
    folders: frozenset[str]

    @classmethod
    def of(cls, source: Path) -> Tree:
        """All Python files below a folder, which is the package."""
        texts, folders = {}, set()
        for path in sorted(source.rglob("*.py")):
            parts = path.relative_to(source).with_suffix("").parts
            if parts[-1] == "__init__":
                parts = parts[:-1]
                folders.add(".".join(parts))
            texts[".".join(parts)] = path.read_text(encoding="utf-8")
        return cls(package=source.name, texts=texts, folders=frozenset(folders))

    @cached_property
    def parsed(self) -> dict[str, ast.Module]:
        """Each module as a syntax tree."""
        return {name: ast.parse(text) for name, text in self.texts.items()}

    @property
    def lines(self) -> int:
        """All lines of all modules."""
        return sum(len(text.splitlines()) for text in self.texts.values())

    def naming(self, pattern: str) -> list[str]:
        """The modules with this in their text."""
        return [name for name, text in self.texts.items() if re.search(pattern, text)]

    def imports(self, name: str, *, loaded: bool) -> set[str]:
        """The modules of the tree that one imports: anywhere, or only what is `loaded` with it."""
        found: set[str] = set()
        here = name.split(".") if name else []
        for node in _statements(self.parsed[name]) if loaded else ast.walk(self.parsed[name]):
            if isinstance(node, ast.Import):
                paths = [alias.name.split(".") for alias in node.names]
                targets = [(path[1:], "") for path in paths if path[0] == self.package]
            elif isinstance(node, ast.ImportFrom):
                path = node.module.split(".") if node.module else []
                if node.level:
                    path = [*here[: len(here) + (name in self.folders) - node.level], *path]
                elif path[:1] == [self.package]:
                    path = path[1:]
                else:
                    continue
                targets = [(path, alias.name) for alias in node.names]
            else:
                continue
            for path, item in targets:
                inner = ".".join([*path, item])
                found.add(inner if item and inner in self.texts else ".".join(path))
        return (found & set(self.texts)) - {name}

    def cycles(self) -> list[list[str]]:
        """Modules that cannot be loaded without each other: the strongly connected components of two or more."""
        graph = {name: self.imports(name, loaded=True) for name in self.texts}
        reached = {name: _reached(graph, name) for name in graph}
        groups = {frozenset(b for b in reached[a] if a in reached[b]) for a in graph}
        return sorted(sorted(group) for group in groups if group)

    def single_importer(self) -> list[str]:
        """Modules that exactly one other imports, wherever in its text."""
        count = dict.fromkeys(self.texts, 0)
        for name in self.texts:
            for other in self.imports(name, loaded=False):
                count[other] += 1
        return [name for name, times in count.items() if times == 1]

    def functions(self) -> list[Function]:
        """All functions and methods; what a user calls by a name of the package or as a command is public."""
        return [
            Function(
                module=module,
                name=name,
                parameters=_parameters(node, method="." in name),
                lines=(node.end_lineno or node.lineno) - node.lineno + 1,
                public=self._is_public(module, name),
            )
            for module in self.texts
            for name, node in _functions(self.parsed[module].body)
        ]

    def _is_public(self, module: str, name: str) -> bool:
        if module.split(".")[0] == "cli":
            return (module, name) in self._commands
        top, *inner = name.split(".")
        return top in self._exported and len(inner) < 2 and not any(_hidden(part) for part in inner)

    @cached_property
    def _exported(self) -> set[str]:
        """What users import: `__all__` of the package and of the packages that the API page shows beside it."""
        return {name for module in ("", *SHOWN) if module in self.texts for name in _all(self.parsed[module])}

    @cached_property
    def _commands(self) -> set[tuple[str, str]]:
        """Functions of `cli` under `@app.command(...)`, in its table of `COMMANDS`, or options of commands."""
        found = {(f"cli.{where}", what) for where, what, _ in _literal(self.parsed.get("cli"), "COMMANDS").values()}
        for module in (name for name in self.texts if name.split(".")[0] == "cli"):
            for node in ast.walk(self.parsed[module]):
                if isinstance(node, ast.FunctionDef):
                    if any(".command(" in ast.unparse(each) for each in node.decorator_list):
                        found.add((module, node.name))
                elif isinstance(node, ast.Call) and ast.unparse(node.func) == "with_options" and node.args:
                    found.add((module, ast.unparse(node.args[0])))
        return found


def edges(call: Callable[[], object], package: str) -> set[tuple[str, str]]:
    """The pairs (module, module of the package it calls directly) of one call, in all threads that it starts.

    The call is made once before, so that nothing is imported in the second one.
    """
    inside = re.compile(rf"{package}(\.|$)")
    found: set[tuple[str, str]] = set()

    def see(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_back is not None:
            pair = frame.f_back.f_globals.get("__name__", ""), frame.f_globals.get("__name__", "")
            if pair[0] != pair[1] and all(inside.match(name) for name in pair):
                found.add(pair)

    call()
    threading.setprofile(see)
    sys.setprofile(see)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return found


def between_rooms(pairs: Iterable[tuple[str, str]]) -> int:
    """How many edges would be left if each folder and each module beside them were one module: the frontier."""
    rooms = {tuple(([*name.split("."), ""])[1] for name in pair) for pair in pairs}
    return sum(a != b for a, b in rooms)


def walks() -> dict[str, Callable[[], object]]:
    """What a user asks for, on made-up rows: a vector, naive Bayes with five features, a network and its sample."""
    numpy, dp = importlib.import_module("numpy"), importlib.import_module("simplexdp")
    budget = dp.Budget(epsilon=1.0, delta=1e-5)
    names = [f"feature {i}" for i in range(5)]
    schema = dp.Schema.of(**{name: list("abcd") for name in names}, target=["no", "yes"])
    draws = numpy.random.default_rng(0)
    rows = {name: draws.choice(list("abcd"), 3000).tolist() for name in names}
    rows["target"] = draws.choice(["no", "yes"], 3000).tolist()
    frame = importlib.import_module("pandas").DataFrame(rows)

    def vector() -> object:
        return dp.release([119, 74, 618, 272, 13, 187], budget=budget)

    def naive_bayes() -> object:
        model = dp.NaiveBayes(epsilon=1.0, delta=1e-5, schema=schema, target="target")
        return model.fit(frame[names], frame["target"])

    def network() -> object:
        graph = {names[0]: [], names[1]: [names[0]], names[2]: names[:2], "target": [names[2]]}
        return dp.BayesianNetwork(graph, schema, budget=budget).fit(frame).sample(100)

    return {
        "edges of release([counts])": vector,
        "edges of NaiveBayes.fit": naive_bayes,
        "edges of BayesianNetwork.fit and sample": network,
    }


def long_lists(functions: Iterable[Function]) -> list[Function]:
    """Those with too many parameters, the longest first."""
    return sorted((each for each in functions if each.parameters > MOST_PARAMETERS), key=lambda f: -f.parameters)


def measured(tree: Tree, calls: Mapping[str, Callable[[], object]]) -> dict[str, int]:
    """Every property of a tree, and of the calls into its package."""
    functions = tree.functions()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the same columns are fitted twice
        return {
            "modules in the wheel": len(tree.texts),
            "lines in the wheel": tree.lines,
            "functions with more than 8 parameters, public doors left out": sum(
                not function.public for function in long_lists(functions)
            ),
            "functions over 60 lines": sum(function.lines > MOST_LINES for function in functions),
            "files that name one mechanism": len(tree.naming(MECHANISM)),
            "import cycles": len(tree.cycles()),
            "modules imported by exactly one other": len(tree.single_importer()),
        } | {name: len(edges(call, tree.package)) for name, call in calls.items()}


def _literal(module: ast.Module | None, name: str) -> dict[str, tuple[str, str, str]]:
    """A table that a module gives a name to."""
    for node in module.body if module is not None else ():
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name and node.value is not None:
            return dict(ast.literal_eval(node.value))
    return {}


def _all(module: ast.Module) -> list[str]:
    """The names in its `__all__`."""
    for node in module.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def _hidden(name: str) -> bool:
    return name.startswith("_") and name != "__init__"


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef, *, method: bool) -> int:
    """How many there are, without the object or class that a method is called on."""
    given = node.args
    named = [*given.posonlyargs, *given.args]
    own = method and bool(named) and named[0].arg in ("self", "cls")
    return len(named) + len(given.kwonlyargs) + bool(given.vararg) + bool(given.kwarg) - own


def _functions(
    body: Iterable[ast.stmt], prefix: str = ""
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name, node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _functions(node.body, f"{prefix}{node.name}.")


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """What runs when a module is loaded: not inside functions, and not what is for type checkers alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.stmt):
            yield child
        yield from _statements(child)


def _reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    todo = [start]
    while todo:
        for other in graph[todo.pop()] - seen:
            seen.add(other)
            todo.append(other)
    return seen


def show(tree: Tree, found: Mapping[str, int], calls: Mapping[str, Callable[[], object]]) -> None:
    """Print the table, then the names behind its numbers."""
    print(f"{'property':62}{'measured':>9}{'kept':>9}{'wanted':>9}")
    for name, number in found.items():
        wanted = WANTED[name]
        print(f"{name:62}{number:9,}{KEPT[name]:9,}{'–' if wanted is None else format(wanted, ','):>9}")
    print("\nIf each folder were one module:")
    for name, call in calls.items():
        print(f"  {name}: {between_rooms(edges(call, tree.package))}")
    print(f"\nFunctions with more than {MOST_PARAMETERS} parameters:")
    for function in long_lists(tree.functions()):
        print(f"  {function.parameters:3} {function}{' (public door)' if function.public else ''}")
    for title, names in (
        (f"Functions over {MOST_LINES} lines", [str(each) for each in tree.functions() if each.lines > MOST_LINES]),
        ("Files that name balanced Laplace noise", tree.naming(MECHANISM)),
        ("Import cycles", [" – ".join(cycle) for cycle in tree.cycles()]),
        ("Imported by exactly one other", tree.single_importer()),
    ):
        print(f"\n{title}: {', '.join(name or '__init__' for name in names) or 'none'}")


def main() -> None:
    """Measure this repository."""
    tree = Tree.of(SOURCE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the same columns are fitted twice
        show(tree, measured(tree, walks()), walks())


if __name__ == "__main__":
    main()
