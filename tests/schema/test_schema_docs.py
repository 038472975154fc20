"""The page about schemas: its Python runs, and its YAML is the schema it says."""

import re
from pathlib import Path

from simplexdp.schema import Schema

PAGE = (Path(__file__).parents[2] / "docs/schema.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


def test_examples():
    names = {}
    python = blocks("python")
    assert len(python) == 4
    exec(python[0], names)  # noqa: S102
    (text,) = blocks("yaml")
    assert Schema.from_yaml(text) == names["schema"]
    for block in python[1:]:
        exec(block, names)  # noqa: S102
    assert names["found"].schema.unresolved == ()
