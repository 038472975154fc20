"""Walks: documentation pages whose code runs, in the build of the documentation, in tests and in notebooks.

A page holds blocks of Python, marked `{run}`, and of commands, marked `{shell}`. A `Walk` runs them one after the other
in one name space and one folder, as a reader does. `python -m tools.walks` writes the notebook of each tutorial anew.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import shlex
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from simplexdp.cli import run
from simplexdp.errors import PrivacyWarning

DOCS = Path(__file__).resolve().parent.parent / "docs"
TUTORIALS = DOCS / "tutorials"
_BLOCK = re.compile(r"^```\{(run|shell)\}[^\n]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_OPTION = re.compile(r"^:[a-z-]+:.*$\n?", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Block:
    """A piece of a page: text, Python, or commands of a shell."""

    kind: Literal["text", "run", "shell"]
    source: str


@dataclass(frozen=True, kw_only=True)
class Output:
    """What a block printed, and how its last value shows itself on a page."""

    text: str
    html: str = ""


def blocks(page: str) -> Iterator[Block]:
    """The pieces of a page, in order."""
    end = 0
    for found in _BLOCK.finditer(page):
        yield Block(kind="text", source=page[end : found.start()])
        yield Block(kind="run" if found[1] == "run" else "shell", source=_OPTION.sub("", found[2]))
        end = found.end()
    yield Block(kind="text", source=page[end:])


@dataclass
class Walk:
    """One name space and one folder, which is gone when the walk is closed."""

    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__walk__"})
    folder: tempfile.TemporaryDirectory[str] = field(default_factory=tempfile.TemporaryDirectory)

    def __enter__(self) -> Walk:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Take the folder away."""
        self.folder.cleanup()

    def step(self, block: Block) -> Output:
        """Run one block in the folder of the walk."""
        printed, before = io.StringIO(), Path.cwd()
        os.chdir(self.folder.name)
        try:
            with contextlib.redirect_stdout(printed), warnings.catch_warnings():
                warnings.filterwarnings("ignore", "This process has fitted", PrivacyWarning)
                value = None
                if block.kind == "run":
                    value = self._python(block.source)
                else:
                    self._shell(block.source)
        finally:
            os.chdir(before)
        shown = getattr(value, "_repr_html_", None)
        if value is None or shown is None:
            return Output(text=printed.getvalue() + ("" if value is None else f"{value!r}\n"))
        return Output(text=printed.getvalue(), html=shown())

    def _python(self, source: str) -> Any:
        tree = ast.parse(source)
        last = tree.body[-1] if tree.body else None
        if not isinstance(last, ast.Expr):
            exec(compile(tree, "<walk>", "exec"), self.names)  # noqa: S102  # the page is part of the repository
            return None
        tree.body.pop()
        exec(compile(tree, "<walk>", "exec"), self.names)  # noqa: S102
        return eval(compile(ast.Expression(last.value), "<walk>", "eval"), self.names)  # noqa: S307

    def _shell(self, source: str) -> None:
        """Commands of `simplexdp`, each on a line of its own; `# exit 2` behind one says what it ends with."""
        for line in source.replace("\\\n", " ").splitlines():
            command, _, ending = line.partition("# exit ")
            words = shlex.split(command)
            if not words:
                continue
            if words[0] != "simplexdp":
                raise ValueError(f"a walk runs commands of simplexdp, and not {words[0]}")
            errors = io.StringIO()
            with contextlib.redirect_stderr(errors):
                code = run(words[1:])
            print(errors.getvalue(), end="")
            if code != int(ending or 0):
                raise RuntimeError(f"{line}: ended with {code}: {errors.getvalue()}")


def notebook(page: str) -> dict[str, Any]:
    """The page as a Jupyter notebook without outputs; commands are lines with an exclamation mark."""
    cells = []
    for i, block in enumerate(blocks(page)):
        source = block.source.strip()
        if not source:
            continue
        cell: dict[str, Any] = {"id": f"cell-{i}", "metadata": {}}
        if block.kind == "text":
            cell |= {"cell_type": "markdown", "source": _lines(_plain(source))}
        else:
            if block.kind == "shell":
                joined = source.replace("\\\n", " ").splitlines()
                source = "\n".join(f"!{line}" for line in joined if line.strip())
            cell |= {"cell_type": "code", "execution_count": None, "outputs": [], "source": _lines(source)}
        cells.append(cell)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    about = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}


def cells(document: Mapping[str, Any]) -> Iterator[Block]:
    """The code of a notebook, as a walk takes it."""
    for cell in document["cells"]:
        if cell["cell_type"] == "code":
            source = "".join(cell["source"])
            shell = source.startswith("!")
            yield (
                Block(kind="shell", source=re.sub(r"^!", "", source, flags=re.M))
                if shell
                else Block(kind="run", source=source)
            )


def text_of(document: Mapping[str, Any]) -> str:
    """A notebook as the text of its file."""
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def pages() -> Sequence[Path]:
    """The tutorials."""
    return [path for path in sorted(TUTORIALS.glob("*.md")) if path.stem != "index"]


def main() -> None:
    """Write the notebook of each tutorial."""
    for path in pages():
        made = path.with_suffix(".ipynb")
        made.write_text(text_of(notebook(path.read_text(encoding="utf-8"))), encoding="utf-8")
        print(made)


def _plain(text: str) -> str:
    """Without the marks of the documentation builder: admonitions become quotes, links between pages their titles."""
    text = re.sub(r"^:::+\{(\w+)\}[^\n]*$", r"**\1**", text, flags=re.M)
    text = re.sub(r"^:::+$", "", text, flags=re.M)
    return re.sub(r"\{download\}`[^`]*`", "this file", text)


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    main()
