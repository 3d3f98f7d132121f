"""One road: every command and page tokenizes once and runs the model as often as it must.

Relevance takes two forward passes, of which one is to compare with; what is shown beside it on
attention one more, and a cut three: what edges there are, without them, and what is said as it is.
"""

from collections import Counter

import numpy as np
import pytest
import transformers as tf

import attnflow
import tiny
from attnflow.cli.app import run
from attnflow.errors import InputError
from attnflow.models.loading import load_model
from attnflow.models.pair.seq2seq import Seq2SeqModel
from attnflow.models.text.model import TextModel
from attnflow.pipeline.prepare import open_session
from attnflow.pipeline.request import Request

TEXT = "the keys to the cabinet"
VERBS = ("--model", "verbs")
RELEVANCE, BESIDE, BLANKING, CUTS = 2, 1, 1, 3  # forward passes


@pytest.fixture
def counts(monkeypatch):
    """How often a text is tokenized, and the network of the verb-number model is called."""
    seen = Counter()
    attnflow.explain(TEXT, "verbs")  # what is measured once for a model was measured
    attnflow.blank_out(TEXT, "verbs")
    counted_of = {
        TextModel: ("tokenize", "run", "predict", "generate"),
        Seq2SeqModel: ("read_source", "run", "predict", "write_target"),
    }
    for kind, names in counted_of.items():
        for name in names:
            original = getattr(kind, name)

            def counted(self, *args, _original=original, _name=name, **kwargs):
                seen[_name] += 1
                return _original(self, *args, **kwargs)

            monkeypatch.setattr(kind, name, counted)
    network = load_model("verbs").network
    forward = type(network).forward

    def called(self, *args, **kwargs):
        seen["forward"] += 1
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(type(network), "forward", called)
    return seen


def test_explain_tokenizes_and_runs_once_for_all_methods(counts):
    """The other forward pass is the check by blanking, one batch."""
    assert run(["explain", TEXT, *VERBS, "--json"]) == 0
    assert counts == {"tokenize": 1, "run": 1, "forward": RELEVANCE + BLANKING}


@pytest.mark.parametrize("more", [["--json"], []])
def test_a_page_has_all_methods_of_one_more_pass(counts, tmp_path, more):
    assert run(["explain", TEXT, *VERBS, "--html", str(tmp_path / "keys.html"), *more]) == 0
    # Five cuts, each with as many random sets, are more than one batch.
    passes = RELEVANCE + BESIDE + BLANKING + CUTS + 1
    assert counts == {"tokenize": 1, "run": 3, "forward": passes}


def test_a_graph_with_routes_runs_once(counts, tmp_path):
    graph = str(tmp_path / "graph.svg")
    assert run(["figure", "graph", TEXT, *VERBS, "--to", "keys", "-o", graph]) == 0
    assert counts == {"tokenize": 1, "run": 1, "forward": RELEVANCE}


ROUTES = ["routes", TEXT, *VERBS, "--to", "keys"]


@pytest.mark.parametrize(
    ("command", "runs", "passes"),
    [
        (["compare", TEXT, *VERBS], 2, RELEVANCE + BESIDE),
        (["compare", TEXT, *VERBS, "--edges", "attention"], 1, 1),
        (ROUTES, 2, RELEVANCE + CUTS),
        ([*ROUTES, "--no-verify"], 1, RELEVANCE),
        ([*ROUTES, "--method", "flow", "--no-verify"], 1, 1),
    ],
)
def test_other_commands_run_no_more_than_they_must(command, runs, passes, counts):
    assert run([*command, "--json"]) == 0
    assert counts == {"tokenize": 1, "run": runs, "forward": passes}


def test_a_request_tokenizes_once_and_an_encoder_decoder_generates_once(counts):
    from starlette.testclient import TestClient

    from attnflow.views.explorer.server.app import make_app

    pair = load_model((tiny.build("t5"), tiny.word_piece()))
    client = TestClient(make_app({"verbs": load_model("verbs"), "t5": pair}), "http://localhost")
    assert client.post("/api/explain", json={"text": TEXT}).status_code == 200
    # One for all that is blanked out.
    assert counts == {"tokenize": 1, "run": 2, "forward": RELEVANCE + BESIDE + BLANKING}
    counts.clear()
    request = {"model": "t5", "text": TEXT}
    (view,) = client.post("/api/explain", json=request).json()["views"]
    assert counts == {"read_source": 1, "run": 2, "write_target": 1}
    place = {"layer": view["layer"], "query": view["query"], "key": 1}
    traced = {**request, "method": "flow", **place}
    assert client.post("/api/trace", json=traced).status_code == 200
    assert counts == {"read_source": 1, "run": 2, "write_target": 1}  # the session is still there


def test_only_the_asked_layers_are_solved():
    model = (tiny.build("bert"), tiny.word_piece())
    top = attnflow.explain(TEXT, model, method="flow")
    everything = attnflow.explain(TEXT, model, method="flow", layers="all")
    assert (top.layers, top.depth) == ((3,), 3)
    assert everything.layers == (1, 2, 3)
    assert everything.statistics["pairs"] == 3 * top.statistics["pairs"]
    np.testing.assert_array_equal(top.values, everything.values)
    some = attnflow.explain(TEXT, model, method="flow", layers=[-1, 1])
    assert (some.layers, some.layer) == ((1, 3), 3)
    np.testing.assert_array_equal(some.row(1), everything.row(1))
    with pytest.raises(InputError, match=r"layer=2 was not computed.*layers='all'"):
        some.row(2)


@pytest.mark.parametrize("rule", ["gradient", "gradient-only"])
@pytest.mark.parametrize("head", [None, tf.BertForTokenClassification])
def test_edges_towards_one_prediction_give_the_scores_of_its_position_alone(rule, head):
    """Every position predicts something else: its edges, and so its scores, are its own."""
    model = load_model(
        (tiny.build("gpt2"), tiny.plain())
        if head is None
        else (tiny.build("bert", head=head), tiny.word_piece())
    )
    options = {"method": "rollout", "edges": rule, "correction": None}
    own = {at: attnflow.explain(TEXT, model, query=at, **options) for at in (1, 3)}
    assert {at: found.queries for at, found in own.items()} == {1: (1,), 3: (3,)}
    with pytest.raises(InputError, match=r"query=1 was not computed; this attribution has 3"):
        own[3].row(query=1)
    # What the graph towards 3 says of 1 is not what 1 comes from: it must not be shown as that.
    session = open_session(TEXT, model, Request(query=3, **options))
    there = session.scores("rollout", [session.depth], [1]).values[0, 0]
    assert np.abs(there - own[1].values).max() > 0.01


def test_edges_that_are_the_same_for_every_position_give_the_scores_of_all():
    decoder = load_model((tiny.build("gpt2"), tiny.plain()))
    classifier = (tiny.build("bert", head=tf.BertForSequenceClassification), tiny.word_piece())
    for model, edges in ((decoder, "attention"), (load_model(classifier), "gradient")):
        found = attnflow.explain(TEXT, model, method="rollout", edges=edges, query=2)
        assert (found.query, found.queries) == (2, tuple(range(len(found.tokens))))
    everywhere = attnflow.explain(TEXT, decoder, method="rollout", edges="gradient", query="all")
    assert everywhere.queries == tuple(range(5))


@pytest.mark.parametrize("method", ["raw", "rollout", "flow"])
@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_a_session_with_all_heads_gives_what_fused_heads_give(method, family):
    tokenizer = tiny.word_piece() if family == "bert" else tiny.plain()
    adapter = load_model((tiny.build(family), tokenizer))
    config = Request(method=method, layers="all", query="all")
    fused = open_session(TEXT, adapter, config).attribution()
    every = open_session(TEXT, adapter, config, all_heads=True).attribution()
    np.testing.assert_array_equal(fused.scores, every.scores)


def test_a_session_makes_each_graph_once(monkeypatch):
    from attnflow.pipeline import session as module

    built = []
    build = module.build_graph
    monkeypatch.setattr(
        module, "build_graph", lambda *of, **more: built.append(of[1]) or build(*of, **more)
    )
    config = Request(edges="attention", layers="all")
    session = open_session(TEXT, load_model("verbs"), config, all_heads=True)
    for method in ("raw", "rollout", "flow"):
        session.attribution(method)
        session.trace(method, 6, 0, 2)
        session.scores(method, [6], [0], words=True)
    assert len(built) == 2  # rollout and flow share one; raw attention has no residual


def test_a_session_applies_its_edge_rule_once(monkeypatch):
    from attnflow.pipeline import session as module

    adapter = load_model((tiny.build("gpt2"), tiny.plain()))
    config = Request(method="rollout", edges="norms", correction="uniform")
    applied = []
    apply = type(config.rule).apply
    monkeypatch.setattr(
        type(config.rule), "apply", lambda *of: applied.append(of[0].name) or apply(*of)
    )

    def every_score():
        session = open_session("the keys to the cabinet are here", adapter, config)
        applied.clear()
        return [session.scores(method, [3], [5]).values for method in ("raw", "rollout", "flow")]

    once = every_score()
    assert applied == ["norms"]
    monkeypatch.setattr(module, "MOST_KEPT", 0)
    again = every_score()
    assert len(applied) > 1
    for one, other in zip(once, again, strict=True):
        np.testing.assert_array_equal(one, other)


def test_pieces_give_what_one_call_gives():
    checks = []
    session = open_session(TEXT, load_model("verbs"), Request(edges="attention"))
    whole = session.scores("flow", [3, 6], [0, 2])
    from attnflow.pipeline import session as module

    piece, module.PIECE = module.PIECE, 1
    try:
        pieces = session.scores("flow", [3, 6], [0, 2], check=lambda: checks.append(1))
    finally:
        module.PIECE = piece
    np.testing.assert_array_equal(pieces.values, whole.values)
    assert len(checks) == session.size
    assert pieces.statistics["pairs"] == whole.statistics["pairs"]


@pytest.mark.parametrize(
    "values", [(1.0, float("nan"), 2.0), (float("nan"), 1.0), (1.0, float("nan"))]
)
def test_statistics_that_are_nan_stay_so_in_any_order(values):
    from attnflow.methods.method import merge_statistics

    merged = merge_statistics([{"largest_gap": value, "sum": value} for value in values])
    assert np.isnan(merged["largest_gap"])
    assert np.isnan(merged["sum"])
    assert merge_statistics([{"largest_gap": 1.0}, {"largest_gap": 3.0}, {"largest_gap": 2.0}]) == {
        "largest_gap": 3.0
    }


def test_a_session_counts_blocks_gradients_and_maps():
    adapter = load_model((tiny.build("gpt2"), tiny.plain()))

    values, rows = 4 * 4 * 8 * 4 * 3, 4 * 32 * 4 * 3
    plain = 3 * 4 * 4**2 * 4  # attention of all heads
    assert (
        open_session(
            "the keys are here", adapter, Request(method="rollout", edges="alti")
        ).activations.nbytes
        == plain + values + 2 * rows
    )
