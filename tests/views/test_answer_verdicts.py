"""What is concluded about an answer: sources against each other, deletions before scores."""

import math

import numpy as np
import pytest

from attnflow import Generation
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
            "the prompt. The instructions hardly matter.",
        ),
        (
            (0.2, 0.4, 0.0, 0.0, 0.0),
            5.0,
            (),
            "The answer rests on no one source alone: without all of them its probability falls "
            "from 40 % to 0.3 %, without “garden”, the one that matters most, only to 27 %. They "
            "stand in for one another. The instructions hardly matter.",
        ),
        (
            (0.2, 0.9, 0.0, 0.0, 0.0),
            1.1,
            (),
            "The answer rests little on the three sources: without “garden”, the one that matters "
            "most, its probability falls from 40 % to 16 %, without all of them to 13 %. The "
            "instructions hardly matter.",
        ),
    ],
)
def test_deletions_decide(drops, joint, rests_on, text):
    verdict = judge(answered(drops, joint))
    assert (verdict.text, verdict.rests_on) == (text, rests_on)
    assert verdict.together == (joint == 5.0)


def test_an_unlikely_answer_is_told_by_its_mean_token():
    found = answered((8.0, 1.5, 0.0, 0.0, 0.0), 8.0, probability=0.5**20, tokens=20)
    assert judge(found).text.startswith(
        "The answer rests on “hotel”: without it the mean probability of its tokens falls from "
        "50 % to 34 %; the other two hardly matter."
    )
    # A fall to a quarter is much for two tokens, and little for twenty.
    drops = (1.5, 0.0, 0.0, 0.0, 0.0)
    assert judge(answered(drops, 1.5)).rests_on == ("hotel",)
    assert judge(answered(drops, 1.5, probability=0.5**20, tokens=20)).rests_on == ()


def test_scores_alone_compare_sources_too():
    verdict = judge(answered())
    assert verdict.rests_on is None
    assert verdict.text == (
        "Of the sources, the answer comes most from “hotel” (50 % of all scores); 10 % are of "
        "the instructions."
    )
    tied = judge(answered(scores=(3, 3, 1, 1, 9)))
    assert "rollout can't tell “hotel” and “garden” apart" in tied.text


def test_without_sources_all_parts_are_compared():
    roles = dict.fromkeys(ROLES, "question") | {"system": "instructions"}
    verdict = judge(answered((0.0, 0.0, 3.0, 2.0, 0.0), roles=roles))
    assert verdict.text == (
        "The scores point to “hotel”, but the answer rests on “train” and “system”: without "
        "“train” its probability falls from 40 % to 2 %, without “system” to 5 %, without “hotel” "
        "to 40 %; the other two hardly matter."
    )


def test_the_prompt_is_shown_without_its_template():
    assert asked_text(answered()) == "where ?"
