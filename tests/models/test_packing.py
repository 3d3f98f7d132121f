"""Weights as 8-bit integers: loaded again, they are within half a step of what they were."""

import shutil

import numpy as np
import pytest
import torch
import transformers as tf
from safetensors.torch import load_file, save_file

import attnflow
import tiny
from attnflow.errors import ModelError
from attnflow.models.loading import PACKED, pack, unpack


@pytest.fixture
def folder(tmp_path):
    tiny.build("bert", head=tf.BertForSequenceClassification).save_pretrained(tmp_path)
    tiny.word_piece().save_pretrained(tmp_path)
    return tmp_path


def test_every_weight_is_within_half_a_step(tmp_path):
    chance = torch.Generator().manual_seed(0)
    matrix = torch.randn(5, 7, generator=chance) * torch.tensor([1e-6, 1.0, 1e4, 0.0, 3.0])[:, None]
    weights = {"matrix": matrix, "bias": torch.randn(4, generator=chance).half()}
    packed = pack(weights)
    assert packed["matrix"].dtype == torch.int8
    save_file(packed, tmp_path / PACKED)
    found = unpack(tmp_path / PACKED)
    assert set(found) == set(weights)
    steps = matrix.abs().amax(1, keepdim=True) / 127
    assert ((found["matrix"] - matrix).abs() <= 0.5001 * steps).all()
    assert torch.equal(found["bias"], weights["bias"].float())
    assert found["bias"].dtype == found["matrix"].dtype == torch.float32


def test_a_packed_folder_is_loaded_as_what_it_holds(folder, tmp_path_factory):
    text = "the old keys are here"
    weights = load_file(folder / "model.safetensors")
    # What the integers stand for, written out by hand, beside the folder that holds them.
    expected = {}
    for name, weight in weights.items():
        values = weight.numpy()
        if values.ndim == 2:
            step = np.abs(values).max(1, keepdims=True) / np.float32(127)
            step[step == 0] = 1
            values = np.rint(values / step).astype(np.float32) * step
        expected[name] = torch.from_numpy(values.copy())
    save_file(expected, folder / "model.safetensors", metadata={"format": "pt"})
    before = attnflow.explain(text, str(folder), method="rollout")
    packed = shutil.copytree(folder, tmp_path_factory.mktemp("packed") / "model")
    save_file(pack(weights), packed / PACKED)
    (packed / "model.safetensors").unlink()
    after = attnflow.explain(text, str(packed), method="rollout")
    assert after.prediction.label == before.prediction.label
    np.testing.assert_allclose(after.values, before.values, atol=1e-6)


def test_a_packed_folder_takes_the_options_of_loading(folder):
    save_file(pack(load_file(folder / "model.safetensors")), folder / PACKED)
    (folder / "model.safetensors").unlink()
    model = attnflow.load_model(str(folder), dtype="bfloat16", device="cpu")
    assert {each.dtype for each in model.network.parameters()} == {torch.bfloat16}


def test_a_packed_folder_that_lacks_weights_is_refused(folder):
    weights = load_file(folder / "model.safetensors")
    del weights["classifier.weight"]
    save_file(pack(weights), folder / PACKED)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"lacks weights of the model: classifier\.weight"):
        attnflow.load_model(str(folder))
