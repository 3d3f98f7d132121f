"""The trial of parts: its baseline solves what it states, and every way of scoring is scored."""

import json

import numpy as np
import pytest
import torch

import attnflow
import talkers
from attnflow.models.answers.interface import answers_of
from attnflow.views.wording.answers import judge
from attnflow_experiments.intervals import wilson
from attnflow_experiments.parts import __main__ as command
from attnflow_experiments.parts import headlines
from attnflow_experiments.parts.cases import DOCUMENTS, make_cases
from attnflow_experiments.parts.citing import lasso, logit, random_masks
from attnflow_experiments.parts.scoring import (
    Deletions,
    Ways,
    open_trial,
    rank_correlation,
    score_case,
)


def test_every_case_has_its_fact_in_one_document():
    cases = make_cases(60)
    assert len({case.question for case in cases}) == 60
    for case in cases:
        holding = [at for at, each in enumerate(case.documents) if case.answer in " ".join(each)]
        assert holding == [case.fact]
        assert len(set(case.documents)) == DOCUMENTS
    places = [case.fact for case in cases]
    assert [places.count(place) for place in range(DOCUMENTS)] == [20, 20, 20]


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


def test_a_deletion_is_what_is_left_of_the_prompt():
    model = attnflow.load_model(talkers.llama(max_position_embeddings=512, num_hidden_layers=2))
    answers, (case,) = answers_of(model), make_cases(1)
    trial = open_trial(case, answers, 3)
    deletions = Deletions(trial, {})
    assert deletions.drop([]) == 0
    gone = [*trial.sentences[1], *trial.sentences[4]]
    ids = trial.tokens.inputs["input_ids"]
    kept = torch.tensor([[each for at, each in enumerate(ids) if at not in gone]])
    with torch.no_grad():
        rows = model.network(kept).logits[0].double().log_softmax(-1)
    after = sum(float(rows[at - 1, kept[0, at]]) for at in range(kept.shape[1] - 3, kept.shape[1]))
    assert deletions.keeping([1, 0, 1, 1, 0, 1, 1, 1, 1]) == pytest.approx(after, abs=1e-4)
    assert set(deletions.known) == {"111111111", "101101111"}
    assert trial.inside.tolist() == np.kron(np.eye(3), np.ones(3)).tolist()


def test_a_case_is_scored_every_way():
    model = attnflow.load_model(talkers.llama(max_position_embeddings=512, num_hidden_layers=2))
    (case,) = make_cases(1)
    ways = Ways(["attention", "gradient"], ["flow", "rollout", "direct"], ["gradient-norm"])
    found = score_case(case, answers_of(model), 2, ways)
    known = {**found, "methods": {"gradient-norm": found["methods"]["gradient-norm"]}}
    again = score_case(case, answers_of(model), 2, ways, known)
    for name, each in found["methods"].items():
        assert {**each, "seconds": 0} == {**again["methods"][name], "seconds": 0}
    assert {"attention · flow", "gradient · direct", "gradient-norm"} <= set(found["methods"])
    assert all(len(each["documents"]) == DOCUMENTS for each in found["methods"].values())
    text = command.report([found, found])
    assert "| position (first) |" in text
    assert text.startswith("2 cases")
    low, high = wilson(15, 20)  # (0.531, 0.888), as in tables of it
    assert (round(low, 3), round(high, 3)) == (0.531, 0.888)
    assert command.leading([1, 1, 0]) is None
    assert command.leading([1, 2, 0]) == 1


def test_what_decides_is_known_from_drops():
    assert headlines.truth([9.0, 0.1, 9.0]) == headlines.ONE
    assert headlines.truth([0.1, 0.5, 9.0]) == headlines.TOGETHER
    assert headlines.truth([0.1, -3.0, 0.1]) == headlines.NONE
    assert headlines.truth([2.0, 0.1, 2.0]) == headlines.BETWEEN
    every = list(headlines.cases())
    assert len(every) == 40
    for case in every:
        assert len(case.documents) == 3 + (len(case.sources) > 1)
    fresh = list(headlines.fresh_cases())
    assert [len(case.sources) for case in fresh] == [1] * 10 + [2] * 4 + [0] * 6
    for case in fresh:
        assert set(case.sources) < set(range(len(case.documents)))
        assert not {*case.documents} & {text for old in every for text in old.documents}


def test_headlines_are_measured_once_and_judged_again(tmp_path, monkeypatch):
    network, tokenizer = talkers.llama(max_position_embeddings=512, num_hidden_layers=2)
    model = attnflow.load_model((network, tokenizer))
    documents = ("the keys are red", "a cat is here", "the mat is old")
    case = headlines.Known(documents, "is the cat old ?", "the cat is red", (1,))
    monkeypatch.setattr(headlines, "cases", lambda: iter([case]))
    monkeypatch.setattr(attnflow, "load_model", lambda _, device: model)
    monkeypatch.setattr("sys.argv", ["headlines", str(tmp_path), "--smollm", "FOLDER"])
    headlines.main()
    made = (tmp_path / "tables.md").read_text()
    assert "Terminal, page and JSON say the same in 1 of 1." in made
    found = attnflow.Generation.load(tmp_path / "case-00.npz")
    drops = json.loads((tmp_path / "case-00.json").read_text())
    measured = [row.drop for row in found.table() if row.name.startswith("document")]
    assert drops == pytest.approx([*measured, found.without_sources.sum()], abs=1e-5)
    monkeypatch.setattr(headlines, "explain", None)  # which is not asked again
    headlines.main()
    assert (tmp_path / "tables.md").read_text() == made
    first = judge(found).rests_on[:1]
    for at in range(3):
        decisive = [9.0 * (at == each) for each in range(3)]
        named = headlines.is_right(found, [*decisive, 9.0])
        assert named == (first == (f"document {at + 1}",))
