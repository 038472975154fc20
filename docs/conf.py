"""Sphinx configuration. The build reads only this repository: no inventories are fetched."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from simplexdp import __version__

_ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(_ROOT), str(_ROOT / "docs" / "_ext")]
os.environ["COLUMNS"] = "100"  # of the output of commands

project = "simplexdp"
author = "the simplexdp authors"
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # the program that sets formulas, as files beside the pages
    "walked",
]
exclude_patterns = ["_build", "_ext"]
source_suffix = {".md": "markdown"}
default_role = "code"  # docstrings write names in single backticks

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
napoleon_google_docstring = True
napoleon_numpy_docstring = False

html_theme = "pydata_sphinx_theme"
html_title = f"simplexdp {release}"
html_theme_options = {
    "navbar_align": "left",
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "header_links_before_dropdown": 4,
}
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_show_sourcelink = False


def _plain_formulas(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:  # noqa: ARG001
    """Docstrings hold formulas in plain text: their bars, stars and underscores are not markup."""
    for i, line in enumerate(lines):
        if not line.lstrip().startswith(">>>"):
            parts = re.split(r"(`[^`]*`)", line)
            parts[::2] = [re.sub(r"([|*]|_(?=\W|$))", r"\\\1", part) for part in parts[::2]]
            lines[i] = "".join(parts)


def setup(app: Any) -> None:
    """Escape the formulas before napoleon writes its own markup."""
    app.connect("autodoc-process-docstring", _plain_formulas, priority=100)
