"""The leaderboard's page says what the results say."""

import numpy as np
import pytest

from attnflow.evaluation.result import Column, Evaluation, Explainer
from attnflow_experiments.leaderboard.page import write_page
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
    beside = "worse than rollout and raw, not to be told apart from random order."
    assert beside in page
    assert "significantly worse" in page
    assert "Not measured yet: Another board." in page
    assert "| `alti` | – | **" in page


def test_an_order_that_reads_nothing_and_is_as_good_is_named():
    page = write_page({"one": board(40)})
    assert "`rollout` on `alti` (most faithful on 1 of 1)" in page
    assert "it is not significantly better than random order" in page
    assert "reads nothing" not in page
    found = board(40)
    found.values[5] = found.values[2] - np.random.default_rng(1).normal(1e-4, 1e-2, (3, 40))
    page = write_page({"one": found})
    assert "among them random order, which reads nothing of the model" in page
    assert "(A board), this measure can't recommend a method" in page
    assert "ask for the best" not in page


def test_few_texts_tell_nothing():
    page = write_page({"one": board(5)})
    assert "with so few texts, nothing can be told apart from it" in page
