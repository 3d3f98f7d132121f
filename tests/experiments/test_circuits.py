"""Circuits that are written by hand do what they should, over the edges that they should."""

import math
import sys
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import attnflow
from attnflow_experiments.evidence import __main__ as command
from attnflow_experiments.evidence import edge_tables, ranking, raw, tables, truth
from attnflow_experiments.evidence.circuits import FAMILIES, TASKS, make_circuits
from attnflow_experiments.evidence.trials import make_trials
from attnflow_experiments.known_answers.cases import Case
from attnflow_experiments.known_answers.trials import Settings

TEXT = "the story is slow , but the music is wonderful ."
PER_ROUND = sum(len(families) for _, _, families in TASKS.values())


@pytest.fixture(scope="module")
def known():
    """One circuit of every task, in every family in turn."""
    found = {}
    for number, case in enumerate(islice(truth.circuits(0), PER_ROUND)):
        built = case.built
        wanted = TASKS[built.task][2]
        if built.family == wanted[len(found) % len(wanted)] and built.task not in found:
            found[built.task] = case
        assert number < PER_ROUND
    assert {case.built.family for case in found.values()} == set(FAMILIES)
    return found


@pytest.mark.parametrize("task", TASKS)
def test_without_a_true_edge_the_answer_is_lost_and_without_another_it_stays(known, task):
    case = known[task]
    edges = case.built.circuit.edges
    there = ranking.edges_there(case, case.model)
    true = truth.marked(case, there)
    assert there[true].all()
    assert true.sum() == len(edges)
    sets = {str(at): (int(at[0]) + 1, int(at[1]), int(at[2])) for at in np.argwhere(there)}
    found = attnflow.knockout(case.text, case.model, edges=sets, random=0)
    changes = np.array([one.change for one in found.values()])
    assert changes[true[there]].max() < min(-0.2, changes[~true[there]].min())


def test_a_head_reads_what_it_should_and_is_not_saturated(known):
    case = known["through two middle tokens"]
    network, tokenizer = case.built.model()
    network.set_attn_implementation("eager")
    given = torch.tensor([tokenizer(case.text)["input_ids"]])
    maps = network(given, output_attentions=True).attentions
    for layer, query, key in case.built.circuit.edges:
        assert 0.9 < maps[layer - 1][0, 0, query, key] < 0.99


def test_relevance_finds_what_is_carried_and_not_what_steers_attention(known):
    words = known["induction"].built.circuit
    assert len(words.edges) == 2
    relevance = truth.rule("relevance")(known["induction"], None)
    assert relevance["flow"]["token"] == 1.0
    assert relevance["flow"]["cut"] == pytest.approx(1.0, abs=0.02)
    assert relevance["raw"]["edges"] == pytest.approx(
        0.5
    )  # the edge that is copied over, not the key's
    assert truth.rule("removal")(known["induction"], None)["raw"]["edges"] == pytest.approx(1.0)
    middle = truth.rule("relevance")(known["through a middle token"], None)
    assert middle["raw"] == pytest.approx({"edges": 1.0, "layers": 1.0})
    assert "barrier" not in relevance  # which can't read amounts
    assert "no edges" in relevance["rollout"]


def test_the_first_of_equals_are_drawn_by_lot():
    true = np.array([True, False, True, False])
    assert ranking.share_true(np.array([3.0, 2, 1, 0]), true) == 0.5
    assert ranking.share_true(np.array([3.0, 1, 1, 0]), true) == 0.75
    assert ranking.share_true(np.zeros(4), true) == 0.5


def test_the_first_edges_are_removed_and_kept():
    model, case = attnflow.load_model("sentiment"), Case(TEXT)
    there = ranking.edges_there(case, model)
    found = ranking.edges("relevance")(case, model)
    maps = attnflow.explain(TEXT, model, edges="relevance", method="raw", layers="all", query="all")
    places = sorted(
        (tuple(map(int, at)) for at in np.argwhere(there)),
        key=lambda at: -maps.scores[at],
    )
    first = [(layer + 1, query, key) for layer, query, key in places]
    count = round(0.03 * len(first))
    sets = {"remove": first[:count], "keep": first[count:]}
    oracle = attnflow.knockout(TEXT, model, edges=sets, random=0)
    for kind, one in oracle.items():
        assert found[kind][2] == pytest.approx(one.change, abs=1e-4)
    single = ranking.singles(case, model)["changes"]
    assert len(single) == len(found["estimates"]) == min(ranking.SAMPLED, len(first))


def test_heads_are_removed_and_kept():
    model, case = attnflow.load_model("verbs"), Case("the keys to the cabinet")
    single = ranking.single_heads(case, model)["changes"]
    found = ranking.heads("relevance")(case, model)
    assert len(found["estimates"]) == len(single)
    best = int(np.argmax(found["estimates"]))
    count = model.heads
    one = attnflow.Edges(best // count + 1, best % count)
    alone = attnflow.knockout(case.text, model, edges=one, random=0).change
    assert single[best] == pytest.approx(alone, abs=1e-6)
    assert len(found["keep"]) == len(ranking.HEAD_SHARES)


def test_the_command_makes_tables_of_circuits_and_keeps_every_number(monkeypatch, tmp_path, capsys):
    import pyarrow.parquet as pq

    files = tmp_path / "files"

    def run(*given):
        monkeypatch.setattr(sys, "argv", ["evidence", *map(str, given), "--raw", str(files)])
        command.main()
        return capsys.readouterr().out

    shown = run(tmp_path, "--only", "circuits", "--count", 1)
    assert "| copy the previous token (1) | 1.00 | 1.00 |" in shown
    assert "| relevance | flow | 1.00 | 1.00 | 1.00 | 1.00 |" in shown
    rows = pq.read_table(files / "ground-truth.parquet").to_pylist()
    (row,) = [
        row for row in rows if (row["piece"], row["measure"]) == ("edges relevance", "flow.token")
    ]
    assert (row["trial"], row["case"], row["value"]) == ("circuits", 0, 1.0)
    assert run(tmp_path / "elsewhere", "--only", "") == shown  # from the file alone
    assert pq.read_table(files / "ground-truth.parquet").to_pylist() == rows


def test_numbers_are_read_as_they_were_written(tmp_path):
    scored = {"scores": [0.5, -2.0], "deciding": [False, True]}
    sets = {"its cut": {"edges": 7, "change": -2.0}, "another": {"edges": 1, "change": 0.0}}
    found = {
        "copied": [{"lrp": scored, "words": {"words": list(range(12))}}, {"lrp": scored}],
        "knockouts-copied": [{"knockouts": {"sets": sets, "total": 90}}],
        "faithful-verbs": [{"lrp": {"refused": "no"}}],
    }
    raw.write_raw(tmp_path / "raw.parquet", found)
    assert raw.read_raw(tmp_path / "raw.parquet") == {
        name: found[name] for name in ("copied", "knockouts-copied")
    }
    assert raw.read_raw(tmp_path / "none.parquet") == {}


def test_a_table_says_what_is_left_without_the_first_edges():
    def ranked(change, estimates):
        size = len(ranking.SHARES)
        return {"remove": [change] * size, "keep": [0.0] * size, "estimates": estimates}

    names = [f"edges by {name}" for name in (*ranking.RANKINGS, *ranking.BASELINES)]
    case = {name: ranked(0.0, [1.0, 2.0, 3.0]) for name in names}
    case["edges by removal"] = ranked(math.log(0.25), [3.0, 2.0, 1.0])
    case["single edges"] = {"changes": [-3.0, -2.0, -1.0]}
    rows = list(edge_tables.edge_table([case] * 3, tables.with_marks))
    (row,) = [row for row in rows if row.startswith("| removal |")]
    assert "| −1.39 | −1.39 | −1.39 | −1.39 | **.25**" in row
    assert "**1.00**" in row
    (row,) = [row for row in rows if row.startswith("| random |")]
    assert row.rstrip(" |").split(" | ")[-1].startswith("−1.00")
    assert next(make_circuits(0)).task == next(iter(TASKS))


def test_maps_of_a_tape_are_brought_to_the_host():
    maps = [torch.rand(3, 3, requires_grad=True)]  # as those of a GPU, which NumPy refuses, too
    found = ranking.edge_values(SimpleNamespace(maps=maps), "raw")
    assert found == pytest.approx(maps[0].detach().numpy()[None])


def test_a_trial_that_has_some_pieces_only_is_left_out():
    trials = make_trials(Settings(Path()))
    single = {"single edges": {"changes": [-3.0, -2.0]}, "single heads": {"changes": [-1.0]}}
    found = {
        "edges-planted": [single],
        "faithful-planted": [{"lrp": {"refused": "no"}}],
        "planted-minilm": [{"words": {"words": [0, 1]}}],
        "documents": [{"lrp": {"documents": [1.0, 2.0]}}],
        "knockouts-planted": [{"knockouts": {"refused": "no"}}],
        "copied": [{"lrp": {"scores": [1.0, 2.0], "deciding": [False, True]}}],
    }
    written = tables.write_tables({name: (trials[name], each) for name, each in found.items()})
    assert set(written) == {"Known answers: SmolLM2"}
    assert "| lrp | 1.00 [" in written["Known answers: SmolLM2"]
