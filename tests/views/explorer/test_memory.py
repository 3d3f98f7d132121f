"""How much memory a request is estimated to take: every term, written out, and what is held."""

from types import SimpleNamespace

import numpy as np
import pytest

import tiny
from attnflow.edges import EDGE_RULES
from attnflow.evaluation.blanking_check import MOST_WORK
from attnflow.methods.question import BATCH_BYTES
from attnflow.views.explorer.server.memory import Shape
from opened import opened

DEPTH, HEADS, TOKENS = 5, 3, 70
MAP = DEPTH * TOKENS**2  # numbers of one map of every layer
ROW, WHOLE_ROW = 1_000_003, 7_000_003  # bytes of a run of the stub: without and with gradients


CAN = {
    "text": {"estimates_memory": True},
    "pair": {"has_source": True},
    "image": {"has_grid": True},
}


def stub(kind="text", parameters=1000):
    def row_bytes(tokens, *, gradients):
        assert tokens == TOKENS
        return WHOLE_ROW if gradients else ROW

    return SimpleNamespace(
        **{"estimates_memory": False, "has_source": False, "has_grid": False, **CAN[kind]},
        depth=DEPTH,
        heads=HEADS,
        row_bytes=row_bytes,
        description={"parameters": parameters},
    )


def shape(rule="attention", kind="text", threads=1, **options):
    return Shape(stub(kind, **options), EDGE_RULES[rule], TOKENS, threads)


@pytest.mark.parametrize(
    ("rule", "maps", "run"),
    [
        ("attention", 4, ROW),  # float32 of every head
        ("effective", 4 + 2 * 8, WHOLE_ROW),  # and what the rule makes of it, twice, in float64
        ("norms", 4 + 2 * 8, WHOLE_ROW),
        ("alti", 4 + 2 * 8, WHOLE_ROW),
        ("value-zeroing", 4 + 2 * 8, WHOLE_ROW),
        ("gradient", 3 * 4 + 2 * 8, WHOLE_ROW),  # attention, its gradient, and their product
    ],
)
def test_a_forward_pass_keeps_maps_of_all_heads_and_one_run(rule, maps, run):
    assert shape(rule).forward == maps * MAP * HEADS + run


def test_graphs_are_in_float64():
    assert shape().merged == 6 * 8 * MAP
    assert shape().single == 4 * 8 * MAP * HEADS


def test_every_thread_of_a_solver_has_a_network_of_its_own():
    assert [shape(threads=threads).solving for threads in (1, 2, 7)] == [
        *(10 * 8 * MAP, 16 * 8 * MAP, 46 * 8 * MAP)
    ]


@pytest.mark.parametrize(("kind", "steps"), [("pair", 2), ("image", 1)])
def test_models_of_other_inputs_are_estimated_from_their_maps(kind, steps):
    """A decoder's layer has two steps; a vision model adds up to eight tokens to its patches."""
    size = TOKENS + (8 if kind == "image" else 0)
    of = shape(kind=kind)
    assert of.merged == 6 * 8 * steps * DEPTH * size**2
    run = 4 * 4 * HEADS * steps * size**2  # of a layer
    assert of.forward == 4 * HEADS * steps * DEPTH * size**2 + run
    assert of.measuring == BATCH_BYTES
    assert shape("alti", kind).forward == 20 * HEADS * steps * DEPTH * size**2 + DEPTH * run
    assert of.checking == 0


def test_batches_take_as_much_as_they_may_or_one_run_where_that_is_more(monkeypatch):
    of = "attnflow.views.explorer.server.memory"
    assert shape().measuring == BATCH_BYTES
    assert shape().checking == 106 * ROW  # the whole text, without 70 tokens, and 35 split words
    monkeypatch.setattr(f"{of}.BATCH_BYTES", 105 * ROW)
    assert shape().checking == 105 * ROW
    monkeypatch.setattr(f"{of}.BATCH_BYTES", 1000)
    assert (shape().measuring, shape().checking) == (WHOLE_ROW, ROW)


def test_what_is_not_checked_takes_nothing():
    dear = MOST_WORK // TOKENS**2
    assert shape(parameters=dear).checking > 0
    assert shape(parameters=dear + 1).checking == 0


def test_blanked_inputs_run_sixteen_at_a_time():
    assert [shape().blanking(sets) for sets in (1, 16, 17, 900)] == [ROW, *[16 * ROW] * 3]


@pytest.mark.parametrize("rule", EDGE_RULES)
@pytest.mark.parametrize("name", ["tiny/verbs", "tiny/gpt2", "tiny/t5", "tiny/vit"])
def test_what_a_session_holds_is_within_its_estimate(models, name, rule):
    """Captured activations and a rule's maps; then the graphs of each method by itself."""
    adapter = models[name]
    item = np.zeros((40, 40, 3), np.uint8) if name == "tiny/vit" else tiny.TEXT
    if name == "tiny/t5" and EDGE_RULES[rule].needs.gradients:
        pytest.skip("a position of the source predicts nothing to differentiate")
    made = opened(item, adapter, edges=rule, query=1)
    estimate = Shape(adapter, EDGE_RULES[rule], len(adapter.tokenize(item)), threads=1)
    maps = [] if made.config.rule.fuses_heads else made._graphs._made().layers
    held = made.activations.nbytes + sum(int(each.nbytes) for each in maps)
    assert estimate.forward / 40 < held < estimate.forward
    built = made._graphs._built
    for each_head in (False, True) if made.config.rule.single_heads else (False,):
        for method in ("raw", "rollout", "flow"):
            built.clear()
            for chance in (False, True):
                made.graph(method, each_head=each_head, chance=chance)
            graphs = sum(graph.nbytes for graph in built.values())
            most = estimate.single if each_head else estimate.merged
            assert most / 20 < graphs < most
