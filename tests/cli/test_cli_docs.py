"""The page about the command line: every example runs, and every command has one."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from simplexdp.cli import COMMANDS, command

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_every_example_runs_in_order(tmp_path, monkeypatch, simplexdp):
    monkeypatch.chdir(tmp_path)
    ran = 0
    for kind, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "python":
            exec(compile(text, "docs/cli.md", "exec"), {})  # noqa: S102 - our own page
        elif kind == "yaml":
            Path("schema.yaml").write_text(text)
        else:
            assert kind == "console"
            for line in text.splitlines():
                assert line.startswith("$ simplexdp "), line
                monkeypatch.setattr("simplexdp.private.door._FITTED", {})  # each command is a process of its own
                done = simplexdp(*shlex.split(line)[2:])
                assert (done.code, done.err) == (0, ""), (line, done.err)
                ran += 1
    assert ran > 20


def test_every_command_has_an_example():
    examples = [
        line[len("$ simplexdp ") :] for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:1] == "$"
    ]
    names = []
    for name in COMMANDS:
        made = command(name)
        names += [f"{name} {each}" for each in getattr(made, "commands", {})] or [name]
    assert len(names) > 15
    for name in names:
        assert any(f"{example} ".startswith(f"{name} ") for example in examples), name


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_each_says_itself(name):
    said = (command(name).help or "").replace("\n\n", "\n").split("\n")[0]
    assert COMMANDS[name][2] == said


def test_the_list_of_commands_is_in_the_help(simplexdp):
    said = " ".join(simplexdp("--help").out.split())
    assert all(name in said for name in COMMANDS)
    assert simplexdp("plam").code == 2
