"""Errors speak the language of the command line: options as they were typed, files by their name."""

from __future__ import annotations

import pytest

from simplexdp.cli import run


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["account", "gaussian", "--sigma", "0"], "`--sigma`"),
        (["account", "gaussian", "--sigma=0"], "`--sigma`"),
        (["plan", "--cells", "5", "--epsilon", "1", "--delta", "1e-6", "--split", "most"], "`--split`"),
        (["account", "gaussian", "--sigma", "1", "--neighbours", "nobody"], "`--neighbours`"),
        (["calibrate", "--mechanism", "laplace", "--epsilon", "1", "--delta", "2"], "`--delta`"),
    ],
)
def test_an_argument_of_the_library_is_named_as_the_option_that_gave_it(
    capsys: pytest.CaptureFixture[str], arguments: list[str], named: str
) -> None:
    assert run(arguments) == 2
    assert capsys.readouterr().err.startswith(f"simplexdp: {named} must be ")


def test_an_argument_that_no_option_gave_keeps_its_name(work, simplexdp):
    ran = simplexdp("plan", "--schema", "schema.yaml", "--columns", "weight", "--epsilon", 1, "--delta", 1e-6)
    assert ran.err.startswith("simplexdp: `column` must be one of the schema, got 'weight'. The columns are: ")


def test_a_file_that_is_no_document_is_named(work, simplexdp):
    ran = simplexdp("inspect", "schema.yaml")
    assert ran.code == 2
    assert ran.err.startswith("simplexdp: schema.yaml: the document is not JSON")


def test_the_options_of_a_fit_itself_come_first(simplexdp):
    text = simplexdp("fit", "nb", "--help").out
    assert 0 < text.index("--target") < text.index("--schema") < text.index("--epsilon")
