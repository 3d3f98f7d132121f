"""What is concluded about an answer: sources against each other, deletions before scores."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnflow import Generation
from attnflow.cli.answers import as_data
from attnflow.options.tables import CiteOptions
from attnflow.pipeline.citing import CitingConfig
from attnflow.records.citations import LEAST
from attnflow.records.parts import Part
from attnflow.records.prediction import Prediction
from attnflow.views.wording.answers import asked_text, judge

TEXT = "<|u|> hotel garden train be brief where ? <|e|>"
NAMES = ("<|u|>", "hotel", "garden", "train", "be", "brief", "where", "?", "<|e|>", "here", "now")
ROLES = {"hotel": "source", "garden": "source", "train": "source", "system": "instructions"}


def answered(drops=None, joint=None, probability=0.4, scores=(5, 1, 1, 1, 2), tokens=2, **more):
    """An answer about three documents; ``drops`` are those of the whole answer."""
    spans, at = [], 0
    for name in NAMES[:9]:
        at = TEXT.index(name, at)
        spans.append((at, at + len(name)))
    answer = tuple(range(9, 9 + tokens))
    roles = more.pop("roles", ROLES)
    places = {"hotel": (1,), "garden": (2,), "train": (3,), "system": (4, 5), "user": (6, 7)}
    parts = [Part(name, at, roles.get(name, "question")) for name, at in places.items()]
    parts += [Part("rest", (0, 8), "template"), Part("answer", answer, "answer")]
    each = None if drops is None else np.tile(np.array(drops) / tokens, (tokens, 1))
    return Generation(
        tokens=NAMES[:9] + ("so",) * tokens,
        answer=answer,
        scores=np.zeros((tokens, 9 + tokens)),
        part_scores=np.tile([*scores, 0, 0], (tokens, 1)).astype(float),
        log_probabilities=np.full(tokens, math.log(probability) / tokens),
        predictions=(Prediction("so", 0.5),) * tokens,
        parts=tuple(parts),
        drops=each,
        without_sources=None if joint is None else np.full(tokens, joint / tokens),
        method="rollout",
        layer=1,
        depth=1,
        text=TEXT,
        spans=(*spans, *((2 * at, 2 * at + 2) for at in range(tokens))),
        answer_text="so" * tokens,
        **more,
    )


@pytest.mark.parametrize(
    ("drops", "joint", "rests_on", "text"),
    [
        (
            (3.0, 0.1, -0.2, 1.0, 5.0),
            3.2,
            ("hotel",),
            "The answer rests on “hotel”: without it its probability falls from 40 % to 2 %; the "
            "other two hardly matter. Without the instructions (“system”) its probability falls "
            "from 40 % to 15 %.",
        ),
        (
            (0.1, 3.0, 0.9, 0.0, 5.0),
            3.2,
            ("garden",),
            "The scores point to “hotel”, but the answer rests on “garden”: without “garden” its "
            "probability falls from 40 % to 2 %, without “hotel” to 36 %; “train” matters less. "
            "The instructions hardly matter.",
        ),
        (
            (3.0, 2.0, -0.8, 0.0, 0.0),
            6.0,
            ("hotel", "garden"),
            "The answer rests on “hotel” and “garden”: without “hotel” its probability falls from "
            "40 % to 2 %, without “garden” to 5 %. Without “train” its probability rises from 40 % "
            "to 89 %. The instructions hardly matter.",
        ),
        (
            (0.2, 0.1, -0.1, 0.0, 9.0),
            0.3,
            (),
            "The answer rests on none of the three sources: without all of them its probability "
            "falls from 40 % to 30 %. The model knew it, made it up, or has it from the rest of "
            "the prompt. The question decides: without “user” its probability falls from 40 % to "
            "<0.01 %. The instructions hardly matter.",
        ),
        (
            (0.2, 0.4, 0.0, 0.0, 0.0),
            5.0,
            (),
            "The answer rests on no one source alone: without all of them its probability falls "
            "from 40 % to 0.3 %, without “garden”, the one that matters most, only to 27 %. They "
            "stand in for one another: attnflow cite tells which. The instructions hardly matter.",
        ),
        (
            (1.2, 1.1, -0.3, 0.0, 0.0),
            3.1,
            (),
            "The answer rests on no one source alone: without all of them its probability falls "
            "from 40 % to 2 %, without “hotel”, the one that matters most, only to 12 %. Each of "
            "them adds a little. The instructions hardly matter.",
        ),
        (  # 7 times less likely: too little for `cite`, and so for “they stand in”
            (0.2, 0.4, 0.0, 0.0, 2.0),
            2.0,
            (),
            "The answer rests on no source clearly: without all of them its probability falls "
            "from 40 % to 5 %, without “garden”, the one that matters most, only to 27 %. The "
            "question decides: without “user” its probability falls from 40 % to 5 %. The "
            "instructions hardly matter.",
        ),
        (
            (0.2, 0.9, 0.0, 0.0, 0.0),
            1.1,
            (),
            "The answer rests little on the three sources: without “garden”, the one that matters "
            "most, its probability falls from 40 % to 16 %, without all of them to 13 %. The "
            "instructions hardly matter.",
        ),
        (
            (0.2, 0.9, 0.0, 0.0, 0.0),
            -0.5,
            (),
            "The answer rests little on the three sources: without “garden”, the one that matters "
            "most, its probability falls from 40 % to 16 %, without all of them it rises to 66 %. "
            "The instructions hardly matter.",
        ),
        (
            (0.2, 2.0, 0.1, 0.0, 0.0),
            9.0,
            ("garden",),
            "The scores point to “hotel”, but the answer rests on “garden”: without “garden” its "
            "probability falls from 40 % to 5 %, without “hotel” to 33 %, without all sources to "
            "<0.01 %: others stand in for it. The instructions hardly matter.",
        ),
        (
            (-0.1, 3.0, 0.0, 0.0, 0.0),
            3.2,
            ("garden",),
            "The scores point to “hotel”, but the answer rests on “garden”: without “garden” its "
            "probability falls from 40 % to 2 %, without “hotel” it rises to 44 %; “train” hardly "
            "matters. The instructions hardly matter.",
        ),
    ],
)
def test_deletions_decide(drops, joint, rests_on, text):
    verdict = judge(answered(drops, joint))
    assert (verdict.text, verdict.rests_on) == (text, rests_on)
    assert verdict.together == (joint in (3.1, 5.0))


def test_units_and_messages_are_quoted():
    """Nobody counts sentences, or knows which message “user” is."""
    names = {
        "hotel": "manual, sentence 1",
        "garden": "tool weather 2",
        "train": "pass, or sentence 1",
    }
    found = answered((3.0, 2.0, 0.0, 0.0, 0.0), 6.0)
    parts = [replace(part, name=names.get(part.name, part.name)) for part in found.parts[:4]]
    text = judge(replace(found, parts=(*parts, *found.parts[4:]))).text
    assert text.startswith(
        "The answer rests on “manual, sentence 1” (“hotel”) and “tool weather 2” (“garden”): "
        "without “manual, sentence 1” its probability falls from 40 % to 2 %, without “tool "
        "weather 2” to 5 %; “pass, or sentence 1” hardly matters."
    )


def test_every_source_is_accounted_for():
    """Those that hardly matter are not all others where some make the answer less likely."""
    names = ("hotel", "garden", "train", "system", "user")
    roles = dict.fromkeys(names, "source")
    said = judge(answered((3.0, 0.1, 0.2, -0.9, -0.8), 3.0, roles=roles)).text
    assert said == (
        "The answer rests on “hotel”: without it its probability falls from 40 % to 2 %; two "
        "others hardly matter. Without “system” its probability rises from 40 % to 98 %, and "
        "without one other it rises, too."
    )
    many = judge(answered((6.0, 1.0, 0.9, 0.8, 0.75), 6.0, roles=roles)).text
    assert "“garden”, “train”, “system” and one more matter less" in many


def test_what_misleads_and_stands_against_it_is_told_once():
    said = judge(answered((-0.8, 3.0, 0.0, 0.0, 0.0), 3.2)).text
    assert said.count("hotel") == 2
    assert "without “hotel” it rises to 89 %" in said


def test_an_unlikely_answer_is_told_by_its_mean_token():
    found = answered((8.0, 1.5, 0.0, 0.0, 0.0), 8.0, probability=0.5**20, tokens=20)
    assert judge(found).text.startswith(
        "The answer rests on “hotel”: without it the typical probability of its tokens (their "
        "geometric mean) falls from 50 % to 34 %; the other two hardly matter."
    )
    told = judge(answered((8.0, 1.5, 0.0, 9.0, 0.0), 8.0, probability=0.5**20, tokens=20)).text
    assert told.count("the typical probability of its tokens") == 2
    assert told.count("geometric") == 1
    # A fall to a quarter is much for two tokens, and little for twenty.
    drops = (1.5, 0.0, 0.0, 0.0, 0.0)
    assert judge(answered(drops, 1.5)).rests_on == ("hotel",)
    assert judge(answered(drops, 1.5, probability=0.5**20, tokens=20)).rests_on == ()


def test_sources_stand_in_only_where_cite_names_some():
    """One rule: `cite` judges each sentence, and wants it 20 times less likely."""
    assert CiteOptions().least == CitingConfig().least == LEAST
    # Two sentences of 2.6 each are 180 times less likely together, and neither alone is cited.
    text = "The so. The so."
    spans = ((0, 3), (4, 7), (8, 11), (12, 15))
    found = answered((0.1, 0.2, 0.0, 0.0, 0.0), 5.2, tokens=4)
    found = replace(found, answer_text=text, spans=(*found.spans[:9], *spans))
    said = judge(found)
    assert "rests on no source clearly: without all of them" in said.text
    assert not said.together
    assert judge(replace(found, without_sources=np.array([1.5, 1.6, 0.0, 2.1]))).together


def test_what_was_interrupted_is_told_of_what_was_finished():
    whole = answered((3.0, 0.1, -0.2, 1.0, 5.0), 3.2, tokens=4)
    drops = whole.drops.copy()
    drops[2:] = [0.0, 9.0, 0.0, 0.0, 0.0]  # of the rest, which the verdict is not about
    begun = replace(
        whole,
        drops=drops,
        part_scores=whole.part_scores[:1],
        scores=whole.scores[:1],
        pieces=((0, 2),),
        options={"each": "sentences"},
        statistics={"all_pieces": 14},
    )
    said = judge(begun)
    assert said.text == (
        "Of the first sentence (1 of 14; interrupted): this part of the answer rests on “hotel”: "
        "without it its probability falls from 63 % to 14 %; the other two hardly matter. The "
        "instructions hardly matter."
    )
    assert said.rests_on is None
    assert as_data(begun)["complete"] is False
    # One word says nothing of what the model knew.
    none = replace(begun, drops=0 * drops, without_sources=np.zeros(4), pieces=((0, 1),))
    text = judge(replace(none, options={"each": "tokens"}, statistics={})).text
    assert text.startswith("Of the first token (interrupted): this part of the answer rests on")
    assert "knew" not in text
    scored = judge(replace(begun, drops=None, without_sources=None)).text
    assert scored.startswith("Of the first sentence (1 of 14; interrupted): of the sources, this")
    # A piece of it is told of as ever.
    assert judge(begun, 0).text.startswith("“soso” rests on “hotel”")


def test_two_sources_are_neither():
    roles = dict(ROLES, train="question")
    assert judge(answered((0.0,) * 5, 0.0, roles=roles)).text.startswith(
        "The answer rests on neither of the two sources: without all of them its probability "
        "stays at 40 %."
    )


def test_percentages_next_to_one_are_told_alike():
    said = judge(answered((0.0,) * 5, 0.04, probability=0.01, tokens=1)).text
    assert "stays at 1 %" in said


def test_scores_alone_compare_sources_too():
    verdict = judge(answered())
    assert verdict.rests_on is None
    assert verdict.text == (
        "Of the sources, the answer comes most from “hotel” (50 % of all scores); 10 % are of "
        "the instructions. No part was deleted to test this; --deletions (deletions=True) and "
        "attnflow cite do so."
    )
    tied = judge(answered(scores=(3, 3, 1, 1, 9)))
    assert "rollout can't tell “hotel” and “garden” apart" in tied.text


def test_without_sources_all_parts_are_compared():
    roles = dict.fromkeys(ROLES, "question") | {"system": "instructions"}
    verdict = judge(answered((0.0, 0.0, 3.0, 2.0, 0.0), roles=roles))
    assert verdict.text == (
        "The scores point to “hotel”, but the answer rests on “train” and “system”: without "
        "“train” its probability falls from 40 % to 2 %, without “system” to 5 %, without “hotel” "
        "it stays at 40 %; the other two hardly matter."
    )


def test_the_prompt_is_shown_without_its_template():
    assert asked_text(answered()) == "where ?"


PERCENT = r"<?([\d.e−-]+) %"


@given(
    drops=st.lists(st.floats(-3, 6), min_size=5, max_size=5),
    joint=st.floats(-3, 8),
    probability=st.sampled_from([0.9, 0.4, 0.01]),
    scores=st.permutations((5, 4, 3, 1, 2)),
    tokens=st.sampled_from([1, 2, 9]),
)
def test_no_sentence_says_that_something_falls_to_more(drops, joint, probability, scores, tokens):
    """What falls, falls to less, also where several cases are told in one breath."""
    said = judge(answered(drops, joint, probability, scores, tokens)).text
    for sentence in re.split(r"\.(?= |$)", said):
        told = re.search(rf"(falls|rises) from {PERCENT} to {PERCENT}(.*)", sentence)
        if told is None:
            continue
        way, before, after, rest = told.groups()
        others = re.findall(rf"(?:only |it (falls|rises) )?to {PERCENT}", rest)
        for how, value in [(way, after), *((how or way, value) for how, value in others)]:
            sign = 1 if how == "rises" else -1
            assert sign * (float(value) - float(before)) > 0, sentence
