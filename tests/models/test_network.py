"""The network model: inference against brute force and pgmpy, files, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from network_support import brute_joint, model_with, networks, schema_of
from numpy.typing import NDArray

from simplexdp.errors import FormatError, Infeasible, InvalidArgument
from simplexdp.models import document
from simplexdp.models.bayesian_network import BayesianNetworkModel, to_pgmpy
from simplexdp.models.bayesian_network.graph import Graph
from simplexdp.numerics.factors import Factor, eliminate, largest_table


def chain(seed: int = 3) -> BayesianNetworkModel:
    """Five nodes with a diamond in it and cells that need care in files."""
    rng = np.random.default_rng(seed)
    graph = Graph.of([("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("d", "e")])
    schema = schema_of({"e": 3, "a": 2, "d": 4, "c": 3, "b": 2})
    tables = {n: rng.dirichlet(np.full(schema[n].size, 0.5), schema.shape(graph.parents(n))) for n in graph.nodes}
    return model_with(graph, schema, tables)


def all_records(model: BayesianNetworkModel) -> NDArray[np.int64]:
    return np.indices(model.schema.shape()).reshape(len(model.columns), -1).T


# -- inference ----------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(networks())
def test_likelihood_is_the_brute_force_joint(model: BayesianNetworkModel) -> None:
    joint = brute_joint(model)
    assert joint.sum() == pytest.approx(1, abs=1e-12)
    records = all_records(model)
    with np.errstate(divide="ignore"):
        expected = np.log(joint.ravel())
    np.testing.assert_allclose(model.log_likelihoods(records), expected, rtol=1e-12, atol=1e-12)
    possible = records[joint.ravel() > 0]
    assert model.log_likelihood(possible) == pytest.approx(float(model.log_likelihoods(possible).sum()), rel=1e-12)


@settings(max_examples=80, deadline=None)
@given(networks(), st.data())
def test_predictions_are_those_of_brute_force(model: BayesianNetworkModel, data: st.DataObject) -> None:
    joint = brute_joint(model)
    variable = data.draw(st.sampled_from(model.columns))
    others = [name for name in model.columns if name != variable]
    given_names = [name for name in others if data.draw(st.booleans())]
    if not given_names:
        axes = tuple(i for i, name in enumerate(model.columns) if name != variable)
        np.testing.assert_allclose(model.marginal([variable]), joint.sum(axis=axes), atol=1e-12)
        return
    wanted = [*given_names, variable]
    drop = tuple(i for i, name in enumerate(model.columns) if name not in wanted)
    kept = [name for name in model.columns if name in wanted]
    table = joint.sum(axis=drop).transpose([kept.index(name) for name in wanted])
    rows = table.reshape(-1, table.shape[-1])
    possible = rows.sum(axis=1) > 1e-9
    codes = np.indices(table.shape[:-1]).reshape(len(given_names), -1)[:, possible]
    found = model.predict(variable, dict(zip(given_names, codes, strict=True)))
    np.testing.assert_allclose(found, rows[possible] / rows[possible].sum(axis=1, keepdims=True), rtol=1e-7, atol=1e-12)


def test_a_joint_marginal_with_evidence_has_its_axes_in_order() -> None:
    model = chain()
    joint = brute_joint(model)  # axes e, a, d, c, b
    expected = joint[:, :, 2, :, :].sum(axis=2)  # e, a, b with d = 2
    expected = expected.transpose(2, 0, 1) / expected.sum()
    np.testing.assert_allclose(model.marginal(["b", "e", "a"], {"d": 2}), expected, rtol=1e-12)


def test_all_columns_as_evidence_ignores_the_one_predicted() -> None:
    model = chain()
    records = all_records(model)
    found = model.predict("c", records)
    changed = records.copy()
    changed[:, model.columns.index("c")] = 0
    np.testing.assert_array_equal(found, model.predict("c", changed))
    by_name = {name: records[:, i] for i, name in enumerate(model.columns) if name != "c"}
    np.testing.assert_array_equal(found, model.predict("c", by_name))


def test_evidence_that_says_nothing_gives_the_marginal() -> None:
    model = model_with(
        Graph.from_parents({"a": [], "b": []}),
        schema_of({"a": 2, "b": 3}),
        {"a": np.array([0.25, 0.75]), "b": np.array([0.5, 0.3, 0.2])},
    )
    np.testing.assert_allclose(model.predict("a", {"b": np.array([0, 2, 1])}), [[0.25, 0.75]] * 3, rtol=1e-15)


def test_long_networks_with_much_evidence_do_not_underflow() -> None:
    nodes = [f"n{i}" for i in range(400)]
    parents = {"root": [], **{name: ["root"] for name in nodes}}
    table = np.array([[1e-6, 1 - 1e-6], [2e-6, 1 - 2e-6]])
    model = model_with(
        Graph.of(parents),
        schema_of(dict.fromkeys(parents, 2)),
        {"root": np.array([0.5, 0.5]), **{name: table.copy() for name in nodes}},
    )
    seen = model.predict("root", {name: np.array([0]) for name in nodes[:60]})[0]
    assert seen[0] == pytest.approx(1 / (1 + 2.0**60), rel=1e-9)
    assert model.predict("root", {name: np.array([0]) for name in nodes})[0, 1] == 1.0


def test_too_wide_a_query_is_refused_before_it_is_computed() -> None:
    factors = [Factor(("x", f"y{i}"), np.ones((2, 8))) for i in range(9)]
    with pytest.raises(Infeasible, match="exact inference needs a table of"):
        eliminate(factors, [f"y{i}" for i in range(9)])


@settings(max_examples=40, deadline=None)
@given(networks(), st.data())
def test_the_largest_table_is_foreseen(model: BayesianNetworkModel, data: st.DataObject) -> None:
    variable = data.draw(st.sampled_from(model.columns))
    sizes = {name: model.schema[name].size for name in model.columns}
    families = [model.graph.family(node) for node in model.graph.nodes]
    foreseen = largest_table(families, sizes, (variable,))
    factors = [Factor(family, model.tables[family[-1]]) for family in families]
    eliminate(factors, (variable,), limit=foreseen)
    if foreseen > 1:
        with pytest.raises(Infeasible):
            eliminate(factors, (variable,), limit=foreseen - 1)


# -- pgmpy --------------------------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(networks(), st.data())
def test_pgmpy_infers_the_same(model: BayesianNetworkModel, data: st.DataObject) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pgmpy.inference import VariableElimination

        variable = data.draw(st.sampled_from(model.columns))
        evidence = {
            name: data.draw(st.integers(0, model.schema[name].size - 1))
            for name in model.columns
            if name != variable and data.draw(st.booleans())
        }
        try:
            mine = model.marginal([variable], evidence)
        except InvalidArgument:
            return  # impossible evidence
        theirs = VariableElimination(to_pgmpy(model)).query(
            [variable],
            {name: model.schema[name].labels[code] for name, code in evidence.items()},
            show_progress=False,
        )
        np.testing.assert_allclose(mine, theirs.values, rtol=1e-12, atol=1e-12)
        assert theirs.state_names[variable] == list(model.schema[variable].labels)


@pytest.mark.slow
def test_pgmpy_reads_the_bif_and_infers_the_same() -> None:
    model = chain()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pgmpy.inference import VariableElimination
        from pgmpy.readwrite import BIFReader

        network = BIFReader(string=model.to_bif()).get_model()
        network.check_model()
        found = VariableElimination(network).query(["a"], {"e": "e1", "c": "c2"}, show_progress=False)
        np.testing.assert_allclose(model.marginal(["a"], {"e": 1, "c": 2}), found.values, rtol=1e-12)
        for node in model.graph.nodes:
            values = network.get_cpds(node).values
            np.testing.assert_array_equal(np.moveaxis(values, 0, -1), model.tables[node])


def test_our_own_bif_is_read_as_the_same_graph(tmp_path: Path) -> None:
    model = chain()
    path = tmp_path / "net.bif"
    path.write_text(model.to_bif())
    assert dict(Graph.of(path).families) == dict(model.graph.families)


# -- files --------------------------------------------------------------------------------------------------------

SCRIPT = """
import sys, numpy as np
from simplexdp.models.bayesian_network import BayesianNetworkModel
model = BayesianNetworkModel.read(sys.argv[1])
records = np.indices(model.schema.shape()).reshape(len(model.columns), -1).T
print(model.log_likelihoods(records).tobytes().hex())
print(model.predict("a", {"e": np.array([0, 1, 2])}).tobytes().hex())
print(model.sample_codes(50, np.random.default_rng(1))["d"].tobytes().hex())
print(model.to_json() == open(sys.argv[1], encoding="utf-8").read())
"""


@pytest.mark.slow
def test_another_process_predicts_bit_for_bit_the_same(tmp_path: Path) -> None:
    model = chain()
    path = tmp_path / "model.json"
    model.write(path)
    ran = subprocess.run([sys.executable, "-c", SCRIPT, str(path)], capture_output=True, text=True, check=True)
    likelihood, predicted, drawn, same = ran.stdout.split()
    assert bytes.fromhex(likelihood) == model.log_likelihoods(all_records(model)).tobytes()
    assert bytes.fromhex(predicted) == model.predict("a", {"e": np.array([0, 1, 2])}).tobytes()
    assert bytes.fromhex(drawn) == model.sample_codes(50, np.random.default_rng(1))["d"].tobytes()
    assert same == "True"


def test_a_changed_file_is_refused() -> None:
    text = chain().to_json()
    envelope = json.loads(text)
    envelope["body"]["tables"]["a"] = [0.5, 0.5]
    with pytest.raises(FormatError, match="changed after it was written"):
        BayesianNetworkModel.from_json(json.dumps(envelope))
    newer = json.loads(text) | {"version": 99}
    with pytest.raises(FormatError, match="format version 99"):
        BayesianNetworkModel.from_json(json.dumps(newer))
    with pytest.raises(FormatError, match="truncated"):
        BayesianNetworkModel.from_json(text[:-100])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tables", {}),
        ("tables", {name: [0.5] for name in "abcde"}),
        ("families", [["a", ["b"]], ["b", ["a"]]]),
        ("families", 3),
        ("schema", {}),
        ("guarantee", {}),
        ("releases", [{}]),
        ("releases", None),
    ],
)
def test_a_wrong_body_with_the_right_checksum_is_refused(key: str, value: object) -> None:
    body = chain().to_body()
    body[key] = value
    with pytest.raises(FormatError):
        BayesianNetworkModel.from_json(document.write_document("bayesian-network", body))


def test_rows_that_are_no_distributions_are_refused() -> None:
    model = chain()
    for wrong in (np.array([0.5, 0.6]), np.array([1.5, -0.5]), np.array([np.nan, 1.0]), np.ones(3) / 3):
        with pytest.raises(InvalidArgument, match="tables"):
            model_with(model.graph, model.schema, {**model.tables, "a": wrong})


# -- errors -------------------------------------------------------------------------------------------------------


def test_wrong_questions_are_refused_with_the_reason() -> None:
    model = chain()
    one = np.array([0])
    with pytest.raises(InvalidArgument, match="rows × the 5 columns"):
        model.log_likelihoods(np.zeros((2, 4), dtype=int))
    with pytest.raises(InvalidArgument, match="cell numbers from 0 to 1 for 'a'"):
        model.log_likelihoods(np.full((1, 5), 2))
    with pytest.raises(InvalidArgument, match="whole numbers"):
        model.log_likelihoods(np.zeros((2, 5)))
    with pytest.raises(InvalidArgument, match="given for the column"):
        model.log_likelihoods({"a": one})
    with pytest.raises(InvalidArgument, match="nodes of the network"):
        model.predict("z", {"a": one})
    with pytest.raises(InvalidArgument, match="none of the evidence"):
        model.predict("a", {"a": one})
    with pytest.raises(InvalidArgument, match="at least one column"):
        model.predict("a", {})
    with pytest.raises(InvalidArgument, match="one length"):
        model.predict("a", {"b": one, "c": np.array([0, 1])})
    with pytest.raises(InvalidArgument, match="at least one, each once"):
        model.marginal([])
    with pytest.raises(InvalidArgument, match="a mapping of arrays"):
        model.predict("a", np.zeros((1, 3), dtype=int))


def test_impossible_evidence_is_refused() -> None:
    model = model_with(
        Graph.of([("a", "b")]),
        schema_of({"a": 2, "b": 2}),
        {"a": np.array([1.0, 0.0]), "b": np.array([[1.0, 0.0], [0.0, 1.0]])},
    )
    with pytest.raises(InvalidArgument, match="probability 0"):
        model.marginal(["a"], {"b": 1})


def test_one_guarantee_covers_all_releases() -> None:
    model = chain()
    other = chain()
    with pytest.raises(InvalidArgument, match="under one guarantee"):
        BayesianNetworkModel(
            graph=model.graph,
            schema=model.schema,
            releases=(model.releases[0], *_with_person_guarantee(other)),
            tables=model.tables,
        )


def _with_person_guarantee(model: BayesianNetworkModel) -> list[object]:
    from dataclasses import replace

    return [
        replace(release, total=None, guarantee=replace(release.guarantee, neighbours="add-remove"))
        for release in model.releases[1:]
    ]
