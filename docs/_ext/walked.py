"""Pages whose blocks run while the documentation is built: `{run}` is Python, `{shell}` are commands."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from tools.walks import Block, Output, Walk


class _Walked(SphinxDirective):
    has_content = True
    option_spec = {"hide": directives.flag, "quiet": directives.flag, "rows": directives.positive_int}  # noqa: RUF012
    kind: Any = "run"
    language = "python"

    def run(self) -> list[nodes.Node]:
        walks: dict[str, Walk] = self.env.temp_data.setdefault("walks", {})
        walk = walks.setdefault(self.env.docname, Walk())
        source = "\n".join(self.content)
        try:
            output = walk.step(Block(kind=self.kind, source=source))
        except Exception as error:
            raise self.error(f"a block of this page fails: {error}") from error
        return [*self._code(source), *self._output(output)]

    def _code(self, source: str) -> list[nodes.Node]:
        return [] if "hide" in self.options else [nodes.literal_block(source, source, language=self.language)]

    def _output(self, output: Output) -> list[nodes.Node]:
        found: list[nodes.Node] = []
        if "quiet" in self.options:
            return found
        lines = output.text.rstrip().splitlines()
        most = self.options.get("rows", 60)
        text = "\n".join([*lines[:most], *(["…"] if len(lines) > most else [])])
        if text:
            found.append(nodes.literal_block(text, text, language="text", classes=["walk-output"]))
        if output.html:
            page = f'<div class="walk-output walk-html">{output.html}</div>'
            found.append(nodes.raw("", page, format="html"))
        return found


class _Shell(_Walked):
    kind = "shell"
    language = "console"

    def _code(self, source: str) -> list[nodes.Node]:
        lines = source.split("\n")
        shown = []
        for i, line in enumerate(lines):
            continued = i > 0 and lines[i - 1].endswith("\\")
            shown.append(
                line.partition("# exit")[0].rstrip() if continued else f"$ {line.partition('# exit')[0].rstrip()}"
            )
        text = "\n".join(shown)
        return [] if "hide" in self.options else [nodes.literal_block(text, text, language=self.language)]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("run", _Walked)
    app.add_directive("shell", _Shell)
    return {"version": "1", "parallel_read_safe": False}
