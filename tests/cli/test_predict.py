from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from cli_support import SECRET, contents, make_rows

from simplexdp.models.bayesian_network import BayesianNetworkModel
from simplexdp.models.naive_bayes import NaiveBayesModel
from simplexdp.naive_bayes import predict_batches


@pytest.mark.slow
@pytest.mark.parametrize("source", ["rows.parquet", "rows.csv"])
@pytest.mark.parametrize("out", ["out.parquet", "out.csv", "out.arrow"])
def test_naive_bayes_over_files_agrees_with_the_model(trained, simplexdp, source, out, monkeypatch):
    monkeypatch.setattr("simplexdp.cli.published.ROWS", 400)  # several blocks, the last one shorter
    ran = simplexdp("predict", "nb.json", source, "--out", out)
    assert (ran.code, ran.err) == (0, "")
    found = read(out)
    rows = make_rows()
    (expected,) = predict_batches(NaiveBayesModel.read("nb.json"), rows.combine_chunks().to_batches())
    assert found.column_names == [*rows.column_names, "prediction", "probability_False", "probability_True"]
    assert found["id"].cast(pa.int64()).to_pylist() == list(range(1500))
    assert found["prediction"].to_pylist() == (expected.argmax(axis=1) == 1).tolist()
    np.testing.assert_allclose(found["probability_True"], expected[:, 1], rtol=1e-12)
    assert found["note"].to_pylist() == rows["note"].to_pylist()


@pytest.mark.slow
def test_a_network_predicts_any_column_from_those_that_are_there(trained, simplexdp):
    ran = simplexdp(
        "predict", "bn.json", "rows.parquet", "--target", "ill", "--keep", "id", "--out", "p.parquet", "--json"
    )
    assert ran.code == 0, ran.err
    assert ran.data["rows"] == 1500
    assert ran.data["columns"] == ["id", "prediction", "probability_False", "probability_True"]
    model, rows = BayesianNetworkModel.read("bn.json"), make_rows()
    smoker = (rows["smoker"].to_numpy() == "yes").astype(int)
    expected = model.predict("ill", {"smoker": smoker, "region": rows["region"].to_numpy() - 1})
    np.testing.assert_allclose(read("p.parquet")["probability_True"], expected[:, 1], rtol=1e-12)
    given = (
        "predict",
        "bn.json",
        "rows.csv",
        "--target",
        "ill",
        "--given",
        "smoker",
        "--keep",
        "",
        "--no-probabilities",
    )
    assert simplexdp(*given, "--out", "g.csv").code == 0
    assert read("g.csv").column_names == ["prediction"]
    # A column with a cell for other values is predicted by its labels.
    assert simplexdp("predict", "bn.json", "rows.csv", "--target", "region", "--out", "r.csv").code == 0
    assert "probability_(other)" in read("r.csv").column_names


def test_no_rows_give_a_file_with_a_header(trained, simplexdp):
    pq.write_table(make_rows().slice(0, 0), "none.parquet")
    assert simplexdp("predict", "nb.json", "none.parquet", "--out", "p.csv").code == 0
    assert read("p.csv").num_rows == 0
    assert "prediction" in Path("p.csv").read_text()


REFUSED = {
    "a release": ("dist.json", "rows.parquet"),
    "no target": ("bn.json", "rows.parquet"),
    "unknown target": ("bn.json", "rows.parquet", "--target", "sick"),
    "another target": ("nb.json", "rows.parquet", "--target", "smoker"),
    "no such model": ("none.json", "rows.parquet"),
    "no such input": ("nb.json", "none.parquet"),
    "a damaged model": ("cut.json", "rows.parquet"),
    "a changed model": ("changed.json", "rows.parquet"),
    "a missing feature": ("nb.json", "few.parquet"),
    "an undeclared value": ("nb.json", "strange.parquet"),
    "a column of the same name": ("nb.json", "again.parquet"),
    "an unknown column to keep": ("nb.json", "rows.parquet", "--keep", "colour"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_one_line_and_write_nothing(trained, simplexdp, name):
    rows = make_rows()
    text = Path("nb.json").read_text()
    Path("cut.json").write_text(text[:-20])
    Path("changed.json").write_text(text.replace('"target": "ill"', '"target": "age"'))
    pq.write_table(rows.drop_columns(["age"]), "few.parquet")
    pq.write_table(rows.set_column(2, "smoker", pa.array([SECRET] * 1500)), "strange.parquet")
    pq.write_table(rows.append_column("prediction", rows["ill"]), "again.parquet")
    before = contents(trained)
    ran = simplexdp("predict", *REFUSED[name], "--out", "out.parquet")
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith("simplexdp: ")
    assert ran.err.count("\n") == 1
    assert SECRET not in ran.err
    assert contents(trained) == before


def test_an_existing_output_is_kept(trained, simplexdp):
    Path("p.csv").write_text("mine")
    assert simplexdp("predict", "nb.json", "rows.csv", "--out", "p.csv").code == 2
    assert Path("p.csv").read_text() == "mine"
    assert simplexdp("predict", "nb.json", "rows.csv", "--out", "p.txt", "--force").code == 2
    assert simplexdp("predict", "nb.json", "rows.csv", "--out", "p.csv", "--force").code == 0


def read(path: str) -> pa.Table:
    if path.endswith(".csv"):
        return pyarrow.csv.read_csv(path)
    if path.endswith(".arrow"):
        with pa.ipc.open_file(path) as reader:
            return reader.read_all()
    return pq.read_table(path)


@pytest.mark.parametrize(("model", "target"), [("nb", ()), ("bn", ("--target", "ill"))])
def test_a_value_that_the_model_does_not_know_is_refused_by_row_or_ignored(
    trained, simplexdp, model, target, monkeypatch
):
    """Ignored: the row is predicted from its other columns, as a row that lacks the column is."""
    monkeypatch.setattr("simplexdp.cli.published.ROWS", 2)
    lines = ["smoker,age,region", "no,30,1", "yes,50,2", "no,70,1", f"{SECRET},30,1", "yes,30,1", f"{SECRET},,9"]
    Path("new.csv").write_text("\n".join(lines) + "\n")
    asked = ["predict", f"{model}.json", "new.csv", *target, "--keep", "", "--out", "p.csv"]
    ran = simplexdp(*asked)
    assert ran.code == 2
    assert "new.csv, row 4: column 'smoker' has values that are not declared" in ran.err
    assert "--unknown ignore" in ran.err
    assert SECRET not in ran.err
    ran = simplexdp(*asked, "--unknown", "ignore")
    assert (ran.code, ran.err) == (0, "")
    found = read("p.csv")["probability_True"].to_pylist()
    assert len(found) == 6
    fitted = (NaiveBayesModel if model == "nb" else BayesianNetworkModel).read(f"{model}.json")
    one = np.array([1, 3, 0])[[0]] * 0
    known = {"region": one, **({"age": one + 1} if model == "nb" else {})}
    np.testing.assert_allclose(found[3], fitted.predict_some("ill", known, 1)[0, 1], rtol=1e-9)
    other = {"region": one + 3}
    np.testing.assert_allclose(found[5], fitted.predict_some("ill", other, 1)[0, 1], rtol=1e-9)
    assert simplexdp(*asked, "--unknown", "drop").code == 2


def test_what_is_not_known_is_summed_over(trained):
    """With all features known it is the prediction; of none it is the class distribution."""
    for name, model in (("nb", NaiveBayesModel), ("bn", BayesianNetworkModel)):
        fitted = model.read(f"{name}.json")
        codes = {"smoker": np.array([0, 1, 1]), "age": np.array([0, 1, 3]), "region": np.array([0, 2, 3])}
        codes = {key: value for key, value in codes.items() if key in fitted.schema}
        np.testing.assert_allclose(fitted.predict_some("ill", codes, 3), fitted.predict("ill", codes), rtol=1e-9)
        nothing = fitted.predict_some("ill", {}, 2)
        assert nothing.shape == (2, 2)
        np.testing.assert_allclose(nothing.sum(axis=1), 1)
    np.testing.assert_allclose(nothing[0], fitted.marginal(["ill"]))
