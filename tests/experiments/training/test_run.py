"""A whole training run: it learns, can be resumed, and its folder loads."""

import functools
import json

import pytest
import torch

import agreement_data
import attnflow
from attnflow.errors import InputError
from attnflow.io.checkpoint import Checkpoint
from attnflow.models import verbs as architecture
from attnflow_experiments.training import data, run, verbs
from attnflow_experiments.training.batches import BatchSampler
from attnflow_experiments.training.recipe import Recipe
from attnflow_experiments.training.tokenizer import build_tokenizer

MIXTURE = {"natural": 24, "attractors": 12, "cut": 4, "corpora": 4, "flipped": 4}
RECIPE = Recipe(steps=90, mixture=MIXTURE, learning_rate=3e-3, average=0.9, masked=0.1, shift=4)


@pytest.fixture
def folders(tmp_path, monkeypatch):
    torch.set_num_threads(1)
    monkeypatch.setattr(data, "HELD_ATTRACTORS", {1: 3, 2: 3, 3: 2, 4: 2, 5: 2})
    original = data.split_rows
    monkeypatch.setattr(data, "split_rows", lambda f, development=0: original(f, 30, development))
    small = functools.partial(architecture.VerbsConfig, hidden_size=32, num_hidden_layers=2)
    monkeypatch.setattr(verbs, "VerbsConfig", small)
    return agreement_data.write(tmp_path)


def test_a_run_learns_and_its_folder_loads_like_any_model(folders, tmp_path):
    scores = run.train_verbs(*folders, tmp_path / "model", recipe=RECIPE, device="cpu")
    assert scores["numpred.val"]["accuracy"] > 0.9
    written = json.loads((tmp_path / "model" / "scores.json").read_text())
    assert written["scores"] == scores
    assert written["recipe"]["steps"] == 90
    assert not (tmp_path / "model" / "checkpoint").exists()
    assert "kings\t1\n" in (tmp_path / "model" / "nouns.tsv").read_text()
    found = attnflow.explain("the old kings", str(tmp_path / "model"), method="rollout")
    assert found.tokens == ("[CLS]", "the", "old", "kings")
    assert found.prediction.label == "plural"
    with pytest.raises(InputError, match="already holds a trained model"):
        run.train_verbs(*folders, tmp_path / "model", recipe=RECIPE)


def trainer(folders, recipe=RECIPE):
    found = data.load_training_data(*folders)
    batches = BatchSampler(found, build_tokenizer(found.vocabulary, 64), recipe, "cpu")
    return verbs.VerbsRun(batches, recipe, "cpu")


def test_a_resumed_run_equals_an_uninterrupted_one(folders, check_resuming):
    recipe = Recipe(steps=13, mixture=MIXTURE, unknown=0.1)
    check_resuming(lambda: trainer(folders, recipe))


def test_a_checkpoint_of_another_recipe_is_refused(folders, tmp_path):
    out, run_90 = tmp_path / "model", trainer(folders)
    run_90.save(Checkpoint(out / "checkpoint", run_90.request))
    other = Recipe(steps=7, mixture=MIXTURE)
    with pytest.raises(InputError, match=r"recipe\.steps was 90, now 7; .*choose another folder"):
        run.train_verbs(*folders, out, recipe=other, device="cpu")


def test_a_checkpoint_of_other_data_is_refused(folders, tmp_path):
    before = trainer(folders)
    before.save(Checkpoint(tmp_path / "checkpoint", before.request))
    path = folders[0] / "numpred.val"
    path.write_text(path.read_text() + "VBZ\tthe blue dog\n")
    with pytest.raises(InputError, match=r"checkpoint was made with other options: data was"):
        Checkpoint(tmp_path / "checkpoint", trainer(folders).request)


def test_a_run_that_was_killed_after_training_finishes(folders, tmp_path, monkeypatch, capsys):
    def crash(*_):
        raise MemoryError

    arguments = {"recipe": Recipe(steps=3, mixture=MIXTURE), "device": "cpu"}
    with monkeypatch.context() as patch:
        patch.setattr(run, "score_verbs", crash)
        with pytest.raises(MemoryError):
            run.train_verbs(*folders, tmp_path / "model", **arguments)
    (tmp_path / "model" / "model.safetensors").write_bytes(b"")  # as if killed while saving it
    run.train_verbs(*folders, tmp_path / "model", **arguments)
    assert "continuing from" in capsys.readouterr().err
    assert attnflow.explain("the dog", str(tmp_path / "model")).prediction is not None
    assert not (tmp_path / "model" / "checkpoint").exists()


def test_substituted_rows_never_show_a_held_out_prefix(folders):
    recipe = Recipe(mixture=MIXTURE, substitute=1.0)
    found = data.load_training_data(*folders)
    tokenizer = build_tokenizer(found.vocabulary, 64)
    batches = BatchSampler(found, tokenizer, recipe, "cpu")
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


def test_positions_are_shifted_and_words_replaced_by_unk(folders):
    recipe = Recipe(mixture=MIXTURE, unknown=0.5, shift=4)
    found = data.load_training_data(*folders)
    tokenizer = build_tokenizer(found.vocabulary, 64)
    part = BatchSampler(found, tokenizer, recipe, "cpu").draw(0)[0]
    assert set(part.positions[:, 0].tolist()) == {0, 1, 2, 3, 4}
    assert bool((part.ids[:, 0] == tokenizer.cls_token_id).all())
    unknown = (part.ids == tokenizer.unk_token_id).sum() / (part.mask.sum() - len(part.ids))
    assert 0.3 < float(unknown) < 0.7
    assert not bool((part.ids == tokenizer.unk_token_id)[~part.mask].any())
