"""The leaderboard's page says what the results say."""

import sys
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

import attnflow
from attnflow.evaluation.result import Column, Evaluation, Explainer
from attnflow_experiments import coverage
from attnflow_experiments.leaderboard import __main__ as command
from attnflow_experiments.leaderboard.measure import Task, compute, join
from attnflow_experiments.leaderboard.page import write_page
from attnflow_experiments.leaderboard.raw import read_raw, write_raw
from attnflow_experiments.leaderboard.standings import MAIN, Table

EXPLAINERS = (
    Explainer("flow", "attention", 6),
    Explainer("rollout", "attention", 6),
    Explainer("rollout", "alti", 6),
    Explainer("raw", "attention", 6),
    Explainer("blank-out"),
    Explainer("random", baseline=True),
)
MEANS = (0.1, 0.3, 0.6, 0.3, 0.9, 0.1)


def board(texts, seed=0):
    columns = (MAIN, Column("sufficiency", "unk"), Column("aopc", "unk"))
    noise = np.random.default_rng(seed).normal(0, 0.1, (len(EXPLAINERS), len(columns), texts))
    values = np.array(MEANS)[:, None, None] + noise
    about = {"title": "A board", "texts": "texts", "accuracy": "", "refused": [], "device": "here"}
    about |= {"causal": False, "rows": list(range(texts))}
    tied = (0,) * len(EXPLAINERS)
    return Evaluation(EXPLAINERS, columns, values, {}, tied, (), about)


def test_the_order_and_what_differs_are_those_of_the_values():
    found = board(40)
    table = Table(found)
    means = found.values[:, 0].mean(1)
    assert table.best.explainer == EXPLAINERS[2]
    assert [line.mean for line in table.order] == sorted(np.delete(means, 4), reverse=True)
    assert table.reference == pytest.approx(means[4])
    assert all(line.p < 0.05 for line in table.order[1:])
    flow, random = table.find("flow", "attention"), table.find("random")
    assert table.differ(flow, [random, table.find("raw", "attention")])[1] < 0.05
    assert table.differ(flow, [random])[0] >= 0.05


def test_the_page_says_plainly_where_flow_loses():
    page = write_page({"one": board(40)}, ["Another board"])
    assert "`rollout` on `alti` is the most faithful." in page
    assert "Default of 0.2, `rollout` on `alti`: place 1 of 5." in page
    beside = "worse than rollout and raw, not significantly different from random order."
    assert beside in page
    assert "significantly worse" in page
    assert "Not measured yet: Another board." in page
    assert "| `alti` | – | **" in page


def test_an_order_that_reads_nothing_and_is_as_good_is_named():
    page = write_page({"one": board(40)})
    assert "`rollout` on `alti` (most faithful on 1 of 1)" in page
    assert "it is not significantly better than random order" in page
    assert "ignores the model" not in page
    found = board(40)
    found.values[5] = found.values[2] - np.random.default_rng(1).normal(1e-4, 1e-2, (3, 40))
    page = write_page({"one": found})
    assert "among them random order, which ignores the model" in page
    assert "(A board), this measure can't recommend a method" in page
    assert "ask for the best" not in page


def test_the_default_is_judged_beside_the_best_and_what_was_before():
    found = board(40)
    explainers = (Explainer("flow", "relevance", 6), *EXPLAINERS[1:])
    page = write_page({"one": replace(found, explainers=explainers), "two": found})
    assert (
        "The default, `flow` on `relevance`, is not significantly worse than the best on 0 of 1"
        in page
    )
    assert "Compared with what 0.2 used, it is significantly better on 0 and worse on 1" in page


def test_few_texts_tell_nothing():
    page = write_page({"one": board(5)})
    assert "with so few texts, no other is significantly worse" in page


def test_a_piece_has_every_method_on_the_rules_that_it_reads_once(tmp_path):
    rows = ({"text": "the keys to the cabinet"}, {"text": "the author of the books"})
    asked = ("flow", "widest", "direct", "lrp")
    edges = ("attention", "relevance", "removal")
    task = Task("verbs", "verbs", rows, edges, asked, ("unk",), False, 0, None, tmp_path)
    compute(task, "00000-00001", 0)
    found = join(task)
    keys = [(each.method, each.edges) for each in found.explainers]
    assert len(keys) == len(set(keys))
    assert {("flow", "relevance"), ("direct", "removal"), ("widest", "attention")} <= set(keys)
    assert not {("widest", "relevance"), ("flow", "removal")} & set(keys)
    alone = attnflow.evaluate(
        list(rows), "verbs", methods="direct", edges="removal", metrics="comprehensiveness"
    )
    at = [(each.method, each.edges) for each in alone.explainers].index(("direct", "removal"))
    values = found.values[keys.index(("direct", "removal")), found.columns.index(MAIN)]
    assert values == pytest.approx(alone.values[at, 0], abs=1e-6)


def test_the_page_is_written_from_the_file_and_what_is_new(monkeypatch, tmp_path):
    raw, page, work = tmp_path / "raw.parquet", tmp_path / "page.md", tmp_path / "work"
    kept = board(20)
    computed = (Explainer("integrated", baseline=True), *EXPLAINERS[1:])
    kept = replace(kept, explainers=computed, skipped=((7, "too long"),))
    kept = replace(kept, values=np.round(kept.values, 6))
    write_raw(raw, {"verbs": kept, "sst2": board(15)})
    assert write_page(read_raw(raw)) == write_page({"verbs": kept, "sst2": board(15)})
    work.mkdir()
    board(25, seed=1).save(work / "sst2.json")
    given = ["leaderboard", work, "--raw", raw, "--page", page]
    monkeypatch.setattr(sys, "argv", list(map(str, given)))
    command.main()
    first = page.read_text(encoding="utf-8")
    assert "20 texts: texts; here." in first
    assert "1 texts were left out, such as 7: too long." in first
    assert "25 texts: texts; here." in first
    (work / "sst2.json").unlink()
    command.main()
    assert page.read_text(encoding="utf-8") == first


def test_every_number_is_kept_and_intervals_are_judged_by_it(tmp_path):
    explainers = (Explainer("flow", "relevance", 6), Explainer("lrp"))
    values = np.random.default_rng(0).random((2, 1, 30))
    found = replace(board(30), explainers=explainers, columns=(MAIN,), values=values)
    write_raw(tmp_path / "raw.parquet", {"one": found, "two": found})
    assert pq.read_table(tmp_path / "raw.parquet").num_rows == 2 * 2 * 30
    read = coverage.read(tmp_path / "raw.parquet")
    assert read["two"][1] == pytest.approx(values[1, 0], abs=1e-6)
    assert coverage.held_mean(values[0, 0], 60, 300) == pytest.approx(0.95, abs=0.05)
    assert coverage.false_alarms(values[0, 0] - values[1, 0], 60, 300) < 0.1
    assert coverage.held_share(0.5, 60, 300) == pytest.approx(0.95, abs=0.05)
