"""A training run, whole: it learns, repeats itself, resumes, and its folder loads."""

import functools
import json

import pytest
import torch

import agreement_data
import attnflow
from attnflow.errors import InputError
from attnflow.paper.training import data, run, verbs
from attnflow.paper.training.batches import Batches
from attnflow.paper.training.recipe import Recipe
from attnflow.paper.verbs import architecture
from attnflow.paper.verbs.tokenizer import build_tokenizer
from resuming import check_resuming

MIXTURE = {"natural": 24, "attractors": 12, "cut": 4, "corpora": 4, "flipped": 4}
RECIPE = Recipe(steps=90, mixture=MIXTURE, learning_rate=3e-3, average=0.9, masked=0.1, shift=4)


@pytest.fixture
def folders(tmp_path, monkeypatch):
    torch.set_num_threads(1)
    monkeypatch.setattr(data, "HELD_ATTRACTORS", {1: 3, 2: 3, 3: 2, 4: 2, 5: 2})
    original = data.split
    monkeypatch.setattr(data, "split", lambda f, development=0: original(f, 30, development))
    small = functools.partial(architecture.VerbsConfig, hidden_size=32, num_hidden_layers=2)
    monkeypatch.setattr(verbs, "VerbsConfig", small)
    return agreement_data.write(tmp_path)


def test_a_run_learns_and_its_folder_loads_like_any_model(folders, tmp_path):
    scores = run.train_verbs(*folders, tmp_path / "model", recipe=RECIPE, device="cpu")
    assert scores["numpred.val"]["accuracy"] > 0.9
    written = json.loads((tmp_path / "model" / "scores.json").read_text())
    assert written["scores"] == scores
    assert written["recipe"]["steps"] == 90
    assert not (tmp_path / "model" / "checkpoint.pt").exists()
    assert "kings\t1\n" in (tmp_path / "model" / "nouns.tsv").read_text()
    said = attnflow.explain("the old kings", str(tmp_path / "model"), method="rollout")
    assert said.tokens == ("[CLS]", "the", "old", "kings")
    assert said.prediction.label == "plural"
    with pytest.raises(InputError, match="already holds a trained model"):
        run.train_verbs(*folders, tmp_path / "model", recipe=RECIPE)


def trainer(folders, recipe=RECIPE):
    found = data.load(*folders)
    batches = Batches(found, build_tokenizer(found.vocabulary, 64), recipe, "cpu")
    return verbs.VerbsRun(batches, recipe, "cpu")


def test_a_resumed_run_equals_an_uninterrupted_one(folders, tmp_path, monkeypatch):
    recipe = Recipe(steps=13, mixture=MIXTURE, unknown=0.1)
    check_resuming(lambda: trainer(folders, recipe), tmp_path, monkeypatch)


def test_a_checkpoint_of_another_recipe_is_refused(folders, tmp_path):
    trainer(folders).save(tmp_path / "checkpoint.pt")
    with pytest.raises(InputError, match="belongs to another recipe"):
        trainer(folders, Recipe(steps=7, mixture=MIXTURE)).resume(tmp_path / "checkpoint.pt")


def test_substituted_rows_never_show_a_held_out_prefix(folders):
    recipe = Recipe(mixture=MIXTURE, substitute=1.0)
    found = data.load(*folders)
    tokenizer = build_tokenizer(found.vocabulary, 64)
    batches = Batches(found, tokenizer, recipe, "cpu")
    held = found.held_out.prefixes
    long = tuple(prefix + " " for prefix in held if len(prefix.split()) >= 4)
    seen, changed = 0, 0
    known = {prefix for rows in found.sources.values() for prefix, _ in rows}
    for step in range(40):
        for part in batches.draw(step):
            for row in tokenizer.batch_decode(part.ids, skip_special_tokens=True):
                assert row not in held
                assert not row.startswith(long)
                seen += 1
                changed += row not in known
    assert seen == 40 * 48
    assert changed > 100


def test_positions_are_shifted_and_words_forgotten(folders):
    recipe = Recipe(mixture=MIXTURE, unknown=0.5, shift=4)
    found = data.load(*folders)
    tokenizer = build_tokenizer(found.vocabulary, 64)
    part = Batches(found, tokenizer, recipe, "cpu").draw(0)[0]
    assert set(part.positions[:, 0].tolist()) == {0, 1, 2, 3, 4}
    assert bool((part.ids[:, 0] == tokenizer.cls_token_id).all())
    lost = (part.ids == tokenizer.unk_token_id).sum() / (part.mask.sum() - len(part.ids))
    assert 0.3 < float(lost) < 0.7
    assert not bool((part.ids == tokenizer.unk_token_id)[~part.mask].any())
