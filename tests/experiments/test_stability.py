"""Whether explanations stay the same, and whether learned heads help: what tables say of it."""

from itertools import islice

import numpy as np
import pytest

import attnflow
from attnflow_experiments.evidence import learned, made, stability
from attnflow_experiments.known_answers.cases import Case


def test_first_words_of_paraphrases_are_compared_in_pairs(monkeypatch):
    model = attnflow.load_model("sentiment")
    monkeypatch.setattr(stability, "PARAPHRASES", 3)
    (case,) = islice(stability.paraphrases(model, 0), 1)
    assert len({one.text for one in case.cases}) == 3
    words = {model.tokenize(one.text).names[at] for one in case.cases for at in one.deciding}
    found = stability.first_words("relevance flow")(case, model)
    for one, first, right in zip(case.cases, found["first"], found["right"], strict=True):
        scores = attnflow.explain(one.text, model)
        inner = range(1, len(scores.tokens) - 1)
        best = max(inner, key=lambda at: scores.values[at])
        assert scores.word_texts[scores.word_ids[best]] == first
        assert right == (best in one.deciding) == (scores.tokens[best] in words)
    pairs = [found["first"][a] != found["first"][b] for a, b in ((0, 1), (0, 2), (1, 2))]
    assert found["changed"] == np.mean(pairs)


def test_models_of_several_seeds_are_asked_the_same(monkeypatch, tmp_path):
    monkeypatch.setattr(made, "SEEN_STEPS", 2)
    monkeypatch.setattr(stability, "SEEDS", 2)
    monkeypatch.setattr(stability, "_said", lambda *_: "alike")
    (case,) = islice(stability.seeds(made.watcher, made.pictures, tmp_path / "watcher"), 1)
    assert [each.name for each in case.models] == ["watcher-0", "watcher-1"]
    found = stability.first_words("ALTI rollout")(case, None)
    for folder, first in zip(case.models, found["first"], strict=True):
        alone = attnflow.explain(case.cases[0].text, str(folder), edges="alti", method="rollout")
        assert first == str(1 + int(np.argmax(alone.values[1:])))


def test_a_table_says_how_often_the_first_word_changes():
    one = {"lrp": {"first": ["a", "a", "b"], "right": [1.0, 1.0, 0.0], "changed": 2 / 3}}
    other = {"lrp": {"first": ["a", "a", "a"], "right": [1.0, 1.0, 1.0], "changed": 0.0}}
    refused = {"lrp": {"refused": "no"}}
    *_, row = stability.rows({"a board": [one, other, refused], "none": [refused]})
    assert row == "| lrp | .33, right .83 | – |"


def test_heads_are_learned_from_some_texts_and_judged_on_others():
    chance = np.random.default_rng(0)

    def piece():
        made_of = {name: chance.random((6, 4)) for name in ("attention", "read", "all")}
        plain = {name: chance.random(6) for name in learned.PLAIN}
        return {**made_of, **plain, "drops": 5 * made_of["read"][:, 2]}

    found = learned.figures([piece() for _ in range(60)])
    assert found["relevance, read, heads learned"] > 0.97
    assert found["relevance, read, heads alike"] < 0.8
    assert abs(found["attention, read, heads learned"]) < 0.4


def test_what_heads_gave_adds_up_to_relevance():
    model = attnflow.load_model("sentiment")
    text = "the music is wonderful ."
    found = learned.features(Case(text), model)
    whole = attnflow.explain(text, model)
    assert found["flow"] == pytest.approx(whole.values[1:-1], abs=1e-6)
    edges = attnflow.explain(
        text, model, edges="relevance", method="raw", layers="all", query="all"
    ).scores
    assert found["all"].sum(1) == pytest.approx(edges.sum((0, 1))[1:-1], abs=1e-5)
    assert found["read"].sum(1) == pytest.approx(edges[:, whole.query].sum(0)[1:-1], abs=1e-5)
