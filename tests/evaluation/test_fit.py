"""Learned heads: the regression, what it is fed with, the file, and what explain makes of it."""

import copy
import itertools
import json
import math
from contextlib import contextmanager

import numpy as np
import pytest
import torch
import transformers as tf
from scipy.optimize import nnls
from scipy.stats import spearmanr

import attnflow
import tiny
from attnflow.errors import InputError
from attnflow.evaluation import fit as fitting
from attnflow.evaluation.fit import nonnegative_ridge, partial_spearman
from attnflow.io.checkpoint import alone_in
from full_disk import disk_of

TEXTS = [
    " ".join(words)
    for words in itertools.islice(
        itertools.product(
            ("the old", "a red", "the"), ("keys", "cat", "cabinet", "key"),
            ("is playing", "are here", "to the mat"), ("on a mat", "of the cat", "here !"),
        ), 0, None, 3,
    )
]  # fmt: skip
SHAPE = (3, 4)


@pytest.fixture(scope="module")
def model():
    """A classifier whose heads attend to different things."""
    torch.manual_seed(3)
    config = tf.BertConfig(**tiny.USUAL, initializer_range=0.4, num_labels=2)
    network = tf.BertForSequenceClassification._from_config(config, attn_implementation="eager")
    network.config._name_or_path = "hand-made"
    return network.eval().double(), tiny.word_piece()


@pytest.mark.parametrize("seed", range(6))
def test_the_regression_is_scipys(seed):
    chance = np.random.default_rng(seed)
    rows, width, ridge = 60, 25, 10.0 ** (seed - 3)
    x, y = chance.random((rows, width)), chance.normal(size=rows)
    found = nonnegative_ridge(x.T @ x, x.T @ y, ridge)
    augmented = np.vstack([x, np.sqrt(ridge) * np.eye(width)])
    expected, _ = nnls(augmented, np.concatenate([y, np.zeros(width)]))
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)
    assert (found == 0).any()
    assert (found > 0).any()


def test_planted_weights_are_found(model, monkeypatch):
    """Where blanking does just what some heads read, they are learned, and no other."""
    network, tokenizer = model
    planted = np.zeros(SHAPE)
    planted[0, 1], planted[1, 3], planted[2, 0] = 2.0, 0.5, 1.0

    def drops(text, _model, **_):
        with torch.no_grad():
            read = network(**tokenizer(text, return_tensors="pt"), output_attentions=True)
        rows = np.stack([layer[0, :, 0].numpy() for layer in read.attentions])
        drop = np.einsum("lh,lhk->k", planted, rows)
        tokens = tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"])
        scores = (1 - np.exp(-drop))[None, None]  # of a probability of 1
        statistics = {"probability": 1.0}
        ends = {"layers": (3,), "queries": (0,), "layer": 3, "query": 0}
        return attnflow.Attribution(
            tokens, scores, **ends, method="blank-out", statistics=statistics
        )

    monkeypatch.setattr(fitting, "blank_out", drops)
    learned = attnflow.fit(TEXTS, model, ridge=1e-12)
    np.testing.assert_allclose(np.array(learned.weights), planted, atol=1e-4)
    assert learned.figures["learned"]["agreement"] == pytest.approx(1)
    assert learned.figures["mean of heads"]["agreement"] < 0.95
    assert learned.figures["texts"] + learned.options["texts"] == len(TEXTS)


def test_what_is_measured_is_the_definition(model):
    """The features and drops of a text, written out."""
    network, tokenizer = model
    text = "the old keys to the mat"
    ids = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        output = network(**ids, output_attentions=True)
        before = output.logits[0].log_softmax(-1)
        best = int(before.argmax())
        expected = []
        for at in range(1, ids["input_ids"].shape[1] - 1):
            blanked = ids["input_ids"].clone()
            blanked[0, at] = tokenizer.unk_token_id
            after = network(input_ids=blanked).logits[0].log_softmax(-1)
            expected.append(float(before[best] - after[best]))
    piece = fitting._piece(text, attnflow.load_model(model), "attention", "unk")
    np.testing.assert_allclose(piece["drops"], np.clip(expected, -5, 10), rtol=1e-6, atol=1e-9)
    rows = np.concatenate([layer[0, :, 0, 1:-1].numpy() for layer in output.attentions])
    np.testing.assert_allclose(piece["features"], rows.T, atol=1e-9)


def test_a_few_large_drops_do_not_decide_everything(model, monkeypatch):
    """Falls of the log-probability by more than 10, and rises by more than 5, are cut."""
    before, wanted = 1e-6, np.array([0, 12.0, -7.0, 0.5, 0])

    def blanked(text, _model, **_):
        return attnflow.Attribution(
            ("[CLS]", *text.split(), "[SEP]"),
            (before * (1 - np.exp(-wanted)))[None, None],
            layers=(3,),
            queries=(0,),
            layer=3,
            query=0,
            method="blank-out",
            statistics={"probability": before},
        )

    monkeypatch.setattr(fitting, "blank_out", blanked)
    piece = fitting._piece("the old keys", attnflow.load_model(model), "attention", "unk")
    np.testing.assert_allclose(piece["drops"], [10, -5, 0.5])


def planted_pieces(monkeypatch, pieces):
    """Make ``fit`` read these pieces, one per text, instead of running a model."""
    by_text = dict(zip(TEXTS, pieces, strict=False))
    monkeypatch.setattr(fitting, "_piece", lambda text, *_: by_text[text])


def random_pieces(count, seed=0):
    chance = np.random.default_rng(seed)
    return [
        {
            "features": chance.random((9, 12)),
            "drops": chance.normal(size=9),
            "shape": np.array([4, 4, 4]),
        }
        for _ in range(count)
    ]


def test_a_text_is_either_learned_from_or_held_out(model, monkeypatch):
    """Other drops of one text change the weights or the figures' baselines, and never both."""
    pieces = random_pieces(10)
    loaded = attnflow.load_model(model)

    def fitted(of, seed=0):
        planted_pieces(monkeypatch, of)
        return attnflow.fit(TEXTS[:10], loaded, held_out=0.4, seed=seed)

    apart = {}
    for seed in (0, 1):
        before = fitted(pieces, seed)
        learned, judged = set(), set()
        for place, other in enumerate(random_pieces(10, seed=1)):
            changed = {**pieces[place], "drops": other["drops"]}
            after = fitted([*pieces[:place], changed, *pieces[place + 1 :]], seed)
            if after.weights != before.weights:
                learned.add(place)
            if after.figures["mean of heads"] != before.figures["mean of heads"]:
                judged.add(place)
        assert (len(learned), len(judged)) == (6, 4)
        assert learned | judged == set(range(10))
        assert (before.options["texts"], before.figures["texts"]) == (6, 4)
        apart[seed] = judged
    assert apart[0] != apart[1], "the seed draws the texts that are held out"


def test_copies_of_a_text_are_learned_from_or_held_out_together(model, monkeypatch):
    """Else the weights would be judged on texts that they were learned from."""
    pieces = random_pieces(10)
    loaded = attnflow.load_model(model)

    def fitted(of):
        planted_pieces(monkeypatch, of)
        return attnflow.fit(TEXTS[:10] * 3, loaded, held_out=0.4)

    before = fitted(pieces)
    assert (before.options["texts"], before.figures["texts"]) == (18, 12)
    for place, other in enumerate(random_pieces(10, seed=1)):
        changed = {**pieces[place], "drops": other["drops"]}
        after = fitted([*pieces[:place], changed, *pieces[place + 1 :]])
        learned = after.weights != before.weights
        judged = after.figures["mean of heads"] != before.figures["mean of heads"]
        assert learned != judged


def test_the_weights_are_those_of_the_texts_that_are_not_held_out(model, monkeypatch):
    """Non-negative ridge regression on centred texts, by SciPy, and the figures written out."""
    pieces = random_pieces(12, seed=4)
    planted_pieces(monkeypatch, pieces)
    learned = attnflow.fit(TEXTS[:12], model, held_out=0.25, ridge=0.3, seed=2)
    order = np.random.default_rng(2).permutation(12)
    apart, kept = order[:3], order[3:]
    x = np.concatenate([p["features"] - p["features"].mean(0) for p in (pieces[k] for k in kept)])
    y = np.concatenate([p["drops"] - p["drops"].mean() for p in (pieces[k] for k in kept)])
    ridge = 0.3 * (x**2).sum() / 12
    augmented = np.vstack([x, np.sqrt(ridge) * np.eye(12)])
    expected, _ = nnls(augmented, np.concatenate([y, np.zeros(12)]))
    np.testing.assert_allclose(np.concatenate(learned.weights), expected, rtol=1e-6, atol=1e-9)
    assert learned.options == {
        "replacement": "unk", "held_out": 0.25, "ridge": 0.3, "seed": 2, "texts": 9
    }  # fmt: skip
    for name, weights in (("learned", expected), ("mean of heads", np.ones(12))):
        agreement = [
            spearmanr(pieces[k]["features"] @ weights, pieces[k]["drops"]).statistic for k in apart
        ]
        assert learned.figures[name]["agreement"] == pytest.approx(np.mean(agreement))
    position = [spearmanr(np.arange(9), pieces[k]["drops"]).statistic for k in apart]
    assert learned.figures["position"] == {
        "agreement": pytest.approx(np.mean(position)),
        "given position": None,
    }


def test_partial_correlation_is_the_correlation_of_residuals():
    chance = np.random.default_rng(0)
    given = np.arange(12.0)
    first, second = chance.permutation(12) + 0.0, chance.permutation(12) + 0.3 * given
    ranks = [np.argsort(np.argsort(each)) for each in (first, second)]
    design = np.stack([np.ones(12), given], 1)
    residuals = [r - design @ np.linalg.lstsq(design, r, rcond=None)[0] for r in ranks]
    assert partial_spearman(first, second, given) == pytest.approx(np.corrcoef(*residuals)[0, 1])
    assert math.isnan(partial_spearman(first, given, given))


def test_the_file_holds_everything_and_is_used(model, tmp_path):
    file = tmp_path / "heads.json"
    learned = attnflow.fit(TEXTS[:10], model, save=file)
    assert [path.name for path in tmp_path.iterdir()] == ["heads.json"]
    assert attnflow.LearnedHeads.load(file) == learned
    assert json.loads(file.read_text())["figures"]["texts"] == len(TEXTS[:10]) // 4
    with pytest.raises(InputError, match="exists; choose another name"):
        attnflow.fit(TEXTS[:10], model, save=file)
    found = [attnflow.explain(TEXTS[0], model, heads=each) for each in (learned, file, str(file))]
    for each in found[1:]:
        np.testing.assert_array_equal(each.scores, found[0].scores)
    assert found[0].options["heads"] == "learned (12 weights of hand-made)"


def test_an_interrupted_run_continues(model, tmp_path, monkeypatch):
    file, measured, piece = tmp_path / "heads.json", [], fitting._piece

    def stop_after_five(text, *rest):
        if len(measured) == 5:
            raise KeyboardInterrupt
        measured.append(text)
        return piece(text, *rest)

    monkeypatch.setattr(fitting, "_piece", stop_after_five)
    with pytest.raises(KeyboardInterrupt):
        attnflow.fit(TEXTS[:9], model, save=file)
    assert not file.exists()
    with pytest.raises(InputError, match=r"made with other options: replacement was \"unk\""):
        attnflow.fit(TEXTS[:9], model, save=file, replacement="mask")
    other = copy.deepcopy(model[0])
    with torch.no_grad():
        next(other.parameters()).add_(0.1)  # trained on, and called the same
    with pytest.raises(InputError, match="made with other options: weights was"):
        attnflow.fit(TEXTS[:9], (other, model[1]), save=file)
    continued = []
    monkeypatch.setattr(fitting, "_piece", lambda *of: continued.append(of[0]) or piece(*of))
    learned = attnflow.fit(TEXTS[:9], model, save=file)
    assert continued == TEXTS[5:9]
    assert learned == attnflow.fit(TEXTS[:9], model)


def test_a_full_disk_keeps_what_is_finished(model, tmp_path):
    attnflow.fit(TEXTS[:9], model, save=tmp_path / "whole.json")
    place, refused = tmp_path / "full", []
    place.mkdir()
    for size in itertools.count(0, 400):  # less than what is written last
        with disk_of(place, size):
            try:
                attnflow.fit(TEXTS[:9], model, save=place / "heads.json")
            except InputError as error:
                refused.append(str(error))
            else:
                break
    assert (place / "heads.json").read_bytes() == (tmp_path / "whole.json").read_bytes()
    assert [each.name for each in place.iterdir()] == ["heads.json"]
    of_pieces = [each for each in refused if "heads.json.parts/" in each]
    assert len(set(of_pieces)) > 2
    assert any("heads.json can't be written" in each for each in refused)
    assert all("space left on device; what is finished is kept" in each for each in refused)


def test_two_calls_never_write_into_one_file(model, tmp_path, monkeypatch):
    """Nor over what came to be there while one worked."""
    file, measured, piece = tmp_path / "heads.json", [], fitting._piece

    def a_second_call(text, *rest):
        measured.append(text)
        if len(measured) == 1:
            with pytest.raises(InputError, match=r"parts is being written to already; wait until"):
                attnflow.fit(TEXTS[:9], model, save=file, overwrite=True)
            attnflow.fit(TEXTS[:9], model, save=tmp_path / "other.json")
        return piece(text, *rest)

    def another_program(text, *rest):
        file.write_text("mine")
        return piece(text, *rest)

    monkeypatch.setattr(fitting, "_piece", another_program)
    with pytest.raises(InputError, match=r"heads\.json exists; choose another name, or overwrite"):
        attnflow.fit(TEXTS[:9], model, save=file)
    assert file.read_text() == "mine"
    monkeypatch.setattr(fitting, "_piece", None)  # all was measured, and is kept
    learned = attnflow.fit(TEXTS[:9], model, save=file, overwrite=True)
    file.unlink()
    monkeypatch.setattr(fitting, "_piece", a_second_call)
    assert attnflow.fit(TEXTS[:9], model, save=file) == learned
    assert {each.name for each in tmp_path.iterdir()} == {"heads.json", "other.json"}


def test_a_file_that_another_call_has_just_finished_stays(model, tmp_path, monkeypatch):
    """It is written between the first look at the place and the lock."""
    file = tmp_path / "heads.json"

    @contextmanager
    def finished_by_another(folder):
        with alone_in(folder):
            file.write_text("the other's")
            yield

    monkeypatch.setattr(fitting, "alone_in", finished_by_another)
    monkeypatch.setattr(fitting, "load_model", None)
    with pytest.raises(InputError, match=r"heads\.json exists"):
        attnflow.fit(TEXTS[:9], model, save=file)
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [
        ("heads.json", "the other's")
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"edges": "alti"}, "edges='alti' takes all heads together"),
        ({"held_out": 1}, "held_out=1 must be a number above 0 and below 1"),
        ({"ridge": 0}, "ridge=0 must be a number above 0 and below inf"),
        ({"seed": -1}, "seed=-1 must be an integer of at least 0"),
        ({"seed": 1.5}, "seed=1.5 must be an integer of at least 0"),
        ({"replacement": "x"}, "replacement='x' is unknown"),
        ({"save": "/nowhere/x.json"}, "the folder /nowhere does not exist"),
    ],
)
def test_bad_options_are_refused(model, options, message):
    with pytest.raises(InputError, match=message):
        attnflow.fit(TEXTS, model, **options)


def test_too_few_texts_are_refused(model):
    for texts, count in ((TEXTS[:7], 7), (TEXTS[:7] * 3, 7), (TEXTS[0], 1)):
        with pytest.raises(InputError, match=f"at least 8 texts that differ.*, got {count}"):
            attnflow.fit(texts, model)


def test_texts_that_the_model_reads_alike_are_one(model):
    """Else the weights would be judged on what they were learned from."""
    with pytest.raises(InputError, match="at least 8 texts that differ for the model, got 1"):
        attnflow.fit(["the cat" + " " * spaces for spaces in range(9)], model)
    texts = [*TEXTS, TEXTS[0].upper(), f" {TEXTS[1]}"]
    loaded = attnflow.load_model(model)
    pieces = fitting._measure(texts, loaded, "attention", "unk", None, progress=False)
    sides = [fitting._split(pieces, 0.4, seed) for seed in range(6)]
    for place in (0, 1):
        held_out = [place in apart for _, apart in sides]
        assert held_out == [len(TEXTS) + place in apart for _, apart in sides]
        assert set(held_out) == {True, False}


@pytest.mark.parametrize("bad", [["a", "b"], {"a": 1}, b"a", 3, None, "", " "])
def test_what_is_no_text_is_refused_before_any_work(model, bad, monkeypatch):
    monkeypatch.setattr(fitting, "_piece", None)
    with pytest.raises(InputError, match=r"fit takes text; this is|no text; give one"):
        attnflow.fit([*TEXTS, bad], model)
