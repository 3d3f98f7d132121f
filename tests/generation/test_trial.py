"""The trial of parts: its baseline solves what it states, and every way of scoring is scored."""

import sys
from pathlib import Path

import numpy as np
import pytest

import attnflow
import talkers
from attnflow.models.answers.finding import answers_of

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.parts import __main__ as command
from benchmarks.parts.cases import DOCUMENTS, make_cases
from benchmarks.parts.citing import lasso, logit, random_masks
from benchmarks.parts.scoring import Ways, rank_correlation, score_case


def test_every_case_has_its_fact_in_one_document():
    cases = make_cases(20)
    assert len(cases) == 20
    for case in cases:
        holding = [at for at, each in enumerate(case.documents) if case.answer in " ".join(each)]
        assert holding == [case.fact]
        assert len(set(case.documents)) == DOCUMENTS
    places = [case.fact for case in cases]
    assert [places.count(place) for place in range(DOCUMENTS)] == [7, 7, 6]


def test_the_lasso_meets_its_conditions():
    generator = np.random.default_rng(0)
    masks = random_masks(60, 7, seed=2)
    values = masks @ np.array([4.0, 0, 0, -2, 0, 0.01, 0]) + generator.normal(0, 0.1, 60)
    penalty = 0.05
    weights = lasso(masks, values, penalty)
    x = (masks - masks.mean(0)) / masks.std(0)
    y = (values - values.mean()) / values.std()
    scaled = weights * masks.std(0) / values.std()
    pull = x.T @ (y - x @ scaled) / len(y)
    for weight, each in zip(scaled, pull, strict=True):
        assert each == pytest.approx(np.sign(weight) * penalty, abs=1e-6) if weight else True
        assert abs(each) <= penalty + 1e-6
    assert list(np.flatnonzero(weights)) == [0, 3]


def test_logits_and_ranks():
    assert logit(np.log(0.8)) == pytest.approx(np.log(4))
    assert rank_correlation(np.array([1.0, 5, 2]), np.array([0.1, 9, 8])) == pytest.approx(1)
    assert rank_correlation(np.ones(3), np.arange(3.0)) == 0
    from scipy.stats import spearmanr

    ties = np.array([1.0, 2, 2, 3, 0])
    other = np.array([2.0, 1, 5, 4, 4])
    assert rank_correlation(ties, other) == pytest.approx(spearmanr(ties, other).statistic)


def test_a_case_is_scored_every_way():
    model = attnflow.load_model(talkers.llama(max_position_embeddings=512, num_hidden_layers=2))
    (case,) = make_cases(1)
    ways = Ways(["attention", "gradient"], ["flow", "rollout", "direct"], ["gradient-norm"])
    found = score_case(case, answers_of(model), 2, ways)
    assert {"attention · flow", "gradient · direct", "gradient-norm"} <= set(found["methods"])
    assert all(len(each["documents"]) == DOCUMENTS for each in found["methods"].values())
    text = command.report([found, found])
    assert "| position (first) |" in text
    assert text.startswith("2 cases")
    assert command.leading([1, 1, 0]) is None
    assert command.leading([1, 2, 0]) == 1
