"""Every bit of a saved file that flips is noticed, or changes nothing that is read.

Results without a checksum, which 0.2 saved and people write by hand, are read as they are.
"""

import json
import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from attnflow import Attribution, Generation, LearnedHeads
from attnflow.errors import InputError
from attnflow.evaluation.result import Column, Evaluation, Explainer
from attnflow.io.checkpoint import Checkpoint
from attnflow.records import Prediction
from attnflow.records.parts import Part
from attnflow.records.similarity import EmbeddedText, Similarity
from attnflow_experiments.reproduce import results

CHANCE = np.random.default_rng(0)
MOST = 800  # bits of a file that are tried; of smaller files, all


def attribution():
    return Attribution(
        tokens=("[CLS]", "naïve", "Katze \ud800"),
        scores=CHANCE.random((2, 1, 3)),
        layers=(1, 3),
        queries=(0,),
        layer=3,
        query=0,
        method="flow",
        options={"heads": "mean", "residual": 0.5},
        model="a model",
        text="naïve Katze",
        prediction=Prediction("x", 0.75, (("x", 0.75), ("y", float("nan"))), 0),
        statistics={"largest_gap": 1e-17, "odd": float("inf")},
        depth=4,
    )


def generation():
    tokens = ("what", "is", "it", "a", "key")
    return Generation(
        tokens=tokens,
        answer=(3, 4),
        scores=np.tril(CHANCE.random((2, 5)), 2),
        part_scores=CHANCE.random((2, 2)),
        log_probabilities=-CHANCE.random(2),
        predictions=(Prediction("a", 0.5), Prediction("key", 0.25)),
        parts=(Part("user", (0, 1, 2)), Part("answer", (3, 4), "answer")),
        method="rollout",
        layer=2,
        depth=2,
        drops=CHANCE.random((2, 1)),
        text="what is it",
        answer_text="a key",
    )


def similarity():
    sides = EmbeddedText("a ké\ud800", ("a", "ké\ud800")), EmbeddedText("b", ("b",))
    scores = CHANCE.random((2, 1))
    return Similarity(*sides, scores, scores, float(scores.sum()), "mean")


def evaluation():
    explainers = (Explainer("flow", "attention"), Explainer("random", baseline=True))
    values = CHANCE.random((2, 1, 3))
    values[0, 0, 1] = np.nan
    curves = {"unk": CHANCE.random((2, 2, 3, 2))}
    return Evaluation(
        explainers, (Column("aopc", "unk"),), values, curves, (0, 1), ((4, "é"),), {"m": "x"}
    )


def learned():
    return LearnedHeads(CHANCE.random((2, 3)).tolist(), "a model", figures={"texts": 4, "ρ": 0.5})


def everything(record):
    """All that a record holds, as text, in which NaN equals NaN."""
    if isinstance(record, LearnedHeads):
        return repr((record.weights, record.model, record.edges, record.options, record.figures))
    return repr(record.to_dict())


CASES = {
    "attribution": (attribution, Attribution.load, ".json"),
    "attribution, compressed": (attribution, Attribution.load, ".json.gz"),
    "generation": (generation, Generation.load, ".json"),
    "similarity": (similarity, Similarity.load, ".json"),
    "evaluation": (evaluation, Evaluation.load, ".json"),
    "learned heads": (learned, LearnedHeads.load, ".json"),
}


def flipped(content):
    """The content with one bit flipped, for many bits."""
    bits = range(len(content) * 8)
    for at in bits if len(bits) <= MOST else random.Random(1).sample(bits, MOST):
        changed = bytearray(content)
        changed[at // 8] ^= 1 << (at % 8)
        yield bytes(changed)


def check_every_bit(path, read):
    """Whatever flips in a file, what is read is what was saved, or an error names the file."""
    content, expected, messages = path.read_bytes(), read(), []
    for changed in flipped(content):
        path.write_bytes(changed)
        try:
            found = read()
        except InputError as error:
            messages.append(str(error))
        else:
            assert found == expected, changed
    path.write_bytes(content)
    assert read() == expected
    assert all(str(path.parent) in message for message in messages)
    assert len(messages) > MOST / 2  # it is no accident that nothing differs


@pytest.mark.parametrize("case", CASES)
def test_saved_results(case, tmp_path):
    make, load, ending = CASES[case]
    made = make()
    path = made.save(tmp_path / f"it{ending}")
    first = everything(load(path))
    assert everything(load(load(path).save(tmp_path / f"again{ending}"))) == first
    check_every_bit(path, lambda: everything(load(path)))


@pytest.mark.parametrize("case", [case for case in CASES if "compressed" not in case])
def test_what_was_edited_is_refused_and_read_without_its_checksum(case, tmp_path):
    make, load, _ = CASES[case]
    path = make().save(tmp_path / "it.json")
    saved = json.loads(path.read_text())
    name = "about" if case == "evaluation" else "model"
    edited = saved | {name: {"m": "other"} if case == "evaluation" else "other"}
    path.write_text(json.dumps(edited))
    with pytest.raises(InputError, match=r"it\.json .*does not match its checksum.*edited after"):
        load(path)
    del edited["sha256"]
    path.write_text(json.dumps(edited))
    assert "other" in everything(load(path))
    # The order of fields and the layout say nothing.
    path.write_text(json.dumps(dict(reversed(saved.items())), indent=3))
    assert everything(load(path))


WRONG = [
    ("generation", ("text",), -1),
    ("generation", ("answer_text",), {"a": 1}),
    ("generation", ("model",), None),
    ("generation", ("method",), 1e308),
    ("generation", ("layer",), 9),
    ("generation", ("word_ids",), []),
    ("similarity", ("cosine",), [1]),
    ("similarity", ("options",), "x"),
    ("similarity", ("first", "word_ids"), 3),
    ("similarity", ("first", "tokens", 0), {}),
    ("evaluation", ("columns", 0, "against"), [1]),
    ("evaluation", ("explainers", 0, "method"), -1),
    ("evaluation", ("tied", 1), ["a"]),
    ("evaluation", ("tied",), []),
    ("evaluation", ("explainers",), [{"method": "flow"}]),  # of two: whose values are these?
]


@pytest.mark.parametrize(("case", "place", "value"), WRONG)
def test_what_was_edited_by_hand_must_make_sense(case, place, value, tmp_path):
    make, load, _ = CASES[case]
    path = make().save(tmp_path / "it.json")
    saved = json.loads(path.read_text())
    del saved["sha256"]
    holder = saved
    for part in place[:-1]:
        holder = holder[part]
    holder[place[-1]] = value
    path.write_text(json.dumps(saved))
    with pytest.raises(InputError, match=r"it\.json"):
        load(path)


@pytest.mark.parametrize(
    "value",
    [{"a": [1.5, 2, "é"]}, {"b": CHANCE.random(6)}, {"c": torch.arange(5.0), "d": 1}],
    ids=["plain", "arrays", "tensors"],
)
def test_pieces_of_a_checkpoint(value, tmp_path):
    request = {"model": "x", "count": 6}
    Checkpoint(tmp_path, request).put("piece", value)

    def read():
        found = Checkpoint(tmp_path, request).get("piece")
        return repr({name: np.asarray(each).tolist() for name, each in found.items()})

    check_every_bit(tmp_path / "piece.piece", read)


def test_requests_of_a_checkpoint(tmp_path):
    request = {"model": "x", "count": 6, "options": dict.fromkeys("abcdef", 0.5)}
    Checkpoint(tmp_path, request).put("piece", 1)
    check_every_bit(tmp_path / "request.json", lambda: Checkpoint(tmp_path, request).get("piece"))


def test_results_of_a_reproduction(tmp_path):
    request = SimpleNamespace(out=tmp_path, conditions=lambda _: {"model": None, "count": 20})
    results.write_result("table1", request, {"rows": CHANCE.random((5, 4)).tolist()})
    path = results.result_path("table1", request)
    check_every_bit(path, lambda: results.read_result("table1", request))
