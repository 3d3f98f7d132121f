"""Methods and rules in modules of one's own: found, loaded once, and named where they fail."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import attnflow
from attnflow import EDGE_RULES, METHODS, EdgeRule, Method, Scores
from attnflow.cli.app import run
from attnflow.edges.rule import Needs
from attnflow.errors import InputError
from attnflow.methods.maps import select
from attnflow.pipeline.prepare import open_session
from attnflow.pipeline.request import Request
from attnflow.records.activations import Relevances
from attnflow.records.arrays import copied
from attnflow.records.graph import LayeredGraph
from attnflow.records.sparse import SparseLayer, SparseLayers
from opened import opened

ROOT = Path(__file__).parents[1]
TEXT = "the keys to the cabinet"
VERBS = ("--model", "verbs")


def test_the_page_about_extending_is_true(tmp_path, monkeypatch, capsys):
    page = (ROOT / "docs" / "extending.md").read_text()
    plugin, use = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert len([line for line in plugin.splitlines() if line.strip()]) <= 20
    (tmp_path / "my_methods.py").write_text(plugin)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    commands = re.findall(r"^\$ attnflow (explain|compare) (.*)$", page, flags=re.MULTILINE)
    assert len(commands) == 2
    try:
        for command, rest in commands:
            words = re.findall(r'"([^"]*)"|(\S+)', rest)
            assert run([command, *(quoted or word for quoted, word in words)]) == 0
        assert "layer-mean" in capsys.readouterr().out
        forget()  # the rest is another program
        exec(compile(use, "extending.md", "exec"), {})
        attention = attnflow.explain(
            TEXT, "verbs", edges="squared", method="layer-mean", layers="all"
        )
        raw = attnflow.explain(
            TEXT, "verbs", edges="squared", method="raw", residual=0.5, layers="all"
        )
        np.testing.assert_allclose(attention.row(3), raw.scores[:3, 0].mean(0), rtol=0, atol=1e-12)
    finally:
        sys.modules.pop("my_methods", None)
        forget()


@pytest.fixture
def registered(tmp_path):
    """The plugin of the page, and one that reads no edges; both are shown by default."""
    page = (ROOT / "docs" / "extending.md").read_text()
    plugin = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)[0]
    measure = (
        "import attnflow\n"
        "def count(question):\n"
        "    return attnflow.Scores(np.array([float(len(each)) for each in question.groups]))\n"
        'METHODS.register(attnflow.Method("pieces", "Pieces", measure=count))\n'
    )
    file = tmp_path / "my_methods.py"
    file.write_text(plugin + measure)
    yield str(file)
    METHODS.unregister("pieces")
    forget()


def test_what_a_plugin_writes_into_is_its_own(encoder):
    """Other methods of the same session read the same attention and the same graph."""

    def overwrite(activations):
        for attention in activations.attention:
            attention.zero_()
            attention[..., 0] = 1.0
        return activations.attention

    def flatten(graph, selection, execution):
        graph.weights[...] = 0.1
        return Scores(select(graph.weights, [at - 1 for at in selection.layers], selection))

    session = opened(TEXT, attnflow.load_model(encoder))
    expected = opened(TEXT, attnflow.load_model(encoder)).scores("flow", [3], [0]).values
    EDGE_RULES.register(EdgeRule("overwrite", "Overwrite", overwrite))
    METHODS.register(Method("flatten", "Flatten", flatten))
    try:
        made = EDGE_RULES["overwrite"].apply(session.activations).layers
        assert all((layer[..., 0] == 1).all() for layer in made)
        assert (session.scores("flatten", [3], [0]).values == 0.1).all()
        np.testing.assert_array_equal(session.scores("flow", [3], [0]).values, expected)
    finally:
        EDGE_RULES.unregister("overwrite")
        METHODS.unregister("flatten")


@pytest.mark.parametrize(("edges", "method"), [("relevance", "flow"), ("removal", "direct")])
def test_what_came_of_a_target_is_no_plugins_to_change(edges, method, classifier):
    """Neither what passed over edges nor what arrived at tokens, in the default's graph too."""

    def arrays(of):
        held = of.relevance
        found = [] if held is None else [held.maps, held.inputs, held.streams]
        return [*found, *([of.removal] if getattr(of, "removal", None) is not None else [])]

    def overwrite(activations):
        for array in arrays(activations):
            array[...] = 0.5
        return [np.eye(each.shape[-1]) for each in activations.attention]

    def flatten(graph, selection, execution):
        for array in (graph.weights, graph.maps, *arrays(graph)):
            array[...] = 0.5
        return Scores(select(graph.weights, [at - 1 for at in selection.layers], selection))

    def scores(session, method):
        return session.scores(method, [session.depth], [session.query]).values

    model = attnflow.load_model(classifier)
    options = {"edges": edges, "method": method, "correction": None}
    session = open_session(TEXT, model, Request(**options))
    expected = scores(open_session(TEXT, model, Request(**options)), method)
    before = [copied(each) for each in arrays(session.activations)]
    assert before
    METHODS.register(Method("flatten", "Flatten", flatten, amounts="any"))
    rule = EdgeRule("overwrite", "Overwrite", overwrite)
    try:
        assert (scores(session, "flatten") == 0.5).all()
        rule.apply(session.activations)
        np.testing.assert_array_equal(scores(session, method), expected)
        for array, same in zip(arrays(session.activations), before, strict=True):
            assert (array == same).all()
    finally:
        METHODS.unregister("flatten")


def test_the_models_weights_are_no_plugins_to_change(encoder):
    """An edge rule reads blocks, whose projections are the model's own; its own parts included."""

    def tensors(block):
        return [each for each in vars(block).values() if isinstance(each, torch.Tensor)]

    def overwrite(activations):
        written = [array for block in activations.blocks for array in tensors(block)]
        assert len(written) >= 5 * len(activations.blocks)
        for array in written:
            array.fill_(0.5)
        return activations.attention

    network, _ = encoder
    weights = {name: each.clone() for name, each in network.state_dict().items()}
    model = attnflow.load_model(encoder)
    session = open_session(TEXT, model, Request(edges="norms"))
    before = [copied(each) for block in session.activations.blocks for each in tensors(block)]
    EdgeRule("overwrite", "Overwrite", overwrite, needs=Needs(blocks=True)).apply(
        session.activations
    )
    after = [each for block in session.activations.blocks for each in tensors(block)]
    assert all(torch.equal(*pair) for pair in zip(before, after, strict=True))
    assert all(torch.equal(each, weights[name]) for name, each in network.state_dict().items())


def test_what_a_plugin_traces_is_its_own_and_its_errors_are_named(encoder):
    def trace(graph, pair):
        graph.weights[...] = 0.5
        if pair.key == 1:
            raise KeyError(pair)
        return attnflow.FlowTrace.of(pair, 0.5, graph.weights)

    METHODS.register(Method("drawn", "Drawn", METHODS["raw"].score, trace=trace))
    try:
        session = opened(TEXT, attnflow.load_model(encoder))
        before = copied(session.graph("drawn").weights)
        assert (session.trace("drawn", 2, 0, 2).edges == 0.5).all()
        np.testing.assert_array_equal(session.graph("drawn").weights, before)
        with pytest.raises(InputError, match="method='drawn' failed in its own code: KeyError"):
            session.trace("drawn", 2, 0, 1)
    finally:
        METHODS.unregister("drawn")


def test_copies_share_no_memory():
    """Of sparse maps, too, in records within records."""
    rows = np.array([[0.5, 0.5], [0.0, 1.0]])
    sparse = SparseLayers((SparseLayer.of(rows), SparseLayer.of(rows)))
    graph = LayeredGraph(sparse, relevance=Relevances(rows, rows[0], 1.0, 0.0))
    own = copied(graph)
    own.weights[1].values[:] = 9
    own.relevance.maps[:] = own.relevance.inputs[:] = 9
    np.testing.assert_array_equal(np.asarray(graph.weights), [rows, rows])
    np.testing.assert_array_equal(rows, [[0.5, 0.5], [0.0, 1.0]])


@pytest.mark.parametrize("kind", ["heads", "graph", "heatmap"])
def test_figures_leave_out_what_a_plugin_does_not_have(kind, registered, tmp_path):
    file = tmp_path / "it.svg"
    named = ["--method", "rollout", "--method", "layer-mean"] if kind == "graph" else []
    options = [*VERBS, *named, "--plugin", registered, "-o", str(file)]
    assert run(["figure", kind, TEXT, *options]) == 0
    drawn = file.read_text()
    shown = {"heads": [], "graph": ["Mean over layers"], "heatmap": ["Mean over layers", "Pieces"]}
    for title in ("Mean over layers", "Pieces"):
        assert (title in drawn) == (title in shown[kind]), title
    assert "ollout" in drawn


def test_a_figure_of_heads_names_the_methods_that_have_them(registered, tmp_path, capsys):
    options = ["--plugin", registered, "--method", "layer-mean", "-o", str(tmp_path / "it.svg")]
    assert run(["figure", "heads", TEXT, *VERBS, *options]) == 2
    told = capsys.readouterr().err
    assert "'layer-mean' needs merged heads" in told
    assert "figure heads show; use one of raw, rollout, flow" in told


def test_a_run_over_single_heads_leaves_out_what_a_plugin_does_not_have(registered, tmp_path):
    options = {"edges": "attention", "plugins": [registered]}
    single = attnflow.run([TEXT], tmp_path / "each", "verbs", heads="each", **options)
    assert [one.method for one in single] == ["raw", "rollout", "flow"]
    merged = attnflow.run([TEXT], tmp_path / "mean", "verbs", **options)
    assert {one.method for one in merged} == {"raw", "rollout", "flow", "layer-mean", "pieces"}


def forget():
    METHODS.unregister("layer-mean")
    EDGE_RULES.unregister("squared")


def test_a_plugin_that_is_not_there_is_named(capsys):
    assert run(["explain", TEXT, "--plugin", "no_such_module"]) == 2
    assert (
        "plugin 'no_such_module' failed: it can't be found; name a file" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "import no_such_thing_at_all",
            "ModuleNotFoundError: No module named 'no_such_thing_at_all'",
        ),
        ("def broken(:", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("from attnflow import *; METHODS.register(METHODS['flow'])", "registered already"),
    ],
)
def test_a_plugin_that_fails_is_named_with_the_reason(content, message, tmp_path, capsys):
    plugin = tmp_path / "my.rules.py"
    plugin.write_text(content)
    assert run(["explain", TEXT, "--plugin", str(plugin)]) == 2
    error = capsys.readouterr().err
    assert "my.rules.py' failed: " in error
    assert message in error


def test_plugins_of_the_same_name_are_both_loaded(tmp_path):
    from attnflow.registry import load_plugin

    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        rule = f"EdgeRule('{name}', '{name}', lambda a: a.attention)"
        text = f"from attnflow import EDGE_RULES, EdgeRule; EDGE_RULES.register({rule})"
        (folder / "rules.py").write_text(text)
        load_plugin(str(folder / "rules.py"))
        load_plugin(str(folder / "rules.py"))  # which is the same, and loaded once
    EDGE_RULES.unregister("one")
    EDGE_RULES.unregister("two")
