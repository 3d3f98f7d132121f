"""Subjects found, errors and the nouns behind them, and the published script's correlation."""

import numpy as np
import pytest

import attnflow
from attnflow_experiments.reproduce import cases
from attnflow_experiments.reproduce.sentiment import dense_spearman
from attnflow_experiments.training.data import Sentence

NOUNS = {"keys": 1, "cabinet": 0}


def test_a_subject_is_found_if_it_has_the_highest_score():
    sentence = Sentence(("the", "keys", "to", "the", "cabinet", "are"), 1, 5, 1)
    alone = Sentence(("the", "keys", "are"), 1, 2, 1)  # skipped: only one noun
    rows = cases.find_subjects([sentence, alone], attnflow.load_model("verbs"), NOUNS)
    assert cases.find_subjects([alone], attnflow.load_model("verbs"), NOUNS) == []
    found = cases.summarize_subjects(rows)
    assert list(found) == ["1"]
    assert (found["1"]["sentences"], found["1"]["chance"]) == (1, 0.5)
    for method, by_layer in found["1"]["found"].items():
        one = attnflow.explain(sentence.prefix, method=method, layers="all")
        for layer, value in enumerate(by_layer, start=1):
            keys, cabinet = one.row(layer)[2], one.row(layer)[5]
            tied = abs(keys - cabinet) < 1e-9
            assert value == (0.5 if tied else float(keys > cabinet))
    twice = cases.summarize_subjects([*rows, {**rows[0], "attractors": 3, "nouns": 4}])
    assert {name: group["chance"] for name, group in twice.items()} == {"1": 0.5, "2 or more": 0.25}


def test_errors_are_wrong_predictions():
    rows = [("the keys to the cabinet", 1), ("the keys to the cabinet", 0)]
    listed = cases.find_errors(rows, attnflow.load_model("verbs"), NOUNS)
    found = cases.summarize_errors(listed, len(rows), NOUNS)
    assert (found["rows"], found["errors"], found["with_nouns"]) == (2, 1, 1)
    case = found["cases"][0]
    assert (case["right"], case["said"]) == ("singular", "plural")
    assert case["flow"]
    assert set(case["flow"]) <= {"keys", "cabinet"}
    assert found["flow_blames_other_number"] == int("keys" in case["flow"])


def test_dense_ranks_leave_no_gap():
    # Ranks 0 1 1 2 against 3 2 1 0: 1 − 6·(9 + 1 + 0 + 4) / 60
    value = dense_spearman(np.array([1.0, 2, 2, 3]), np.array([4.0, 3, 2, 1]))
    assert value == pytest.approx(1 - 6 * 14 / 60)
