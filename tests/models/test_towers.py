"""CLIP and SigLIP: a text by one tower, an image by the other."""

import copy

import numpy as np
import pytest
import torch
import transformers as tf
from PIL import Image
from transformers import ViTImageProcessorPil

import attnflow
import tiny
from attnflow.errors import InputError
from attnflow.models.loading import load_model

TEXT = tiny.TEXT
SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
WORDS = SIZES | {"vocab_size": 100, "max_position_embeddings": 20, "projection_dim": 16}
PIXELS = SIZES | {"image_size": 32, "patch_size": 8, "projection_dim": 16}


class Processor:
    def __init__(self):
        self.tokenizer = tiny.word_piece()
        self.image_processor = ViTImageProcessorPil(size={"height": 32, "width": 32})

    def __call__(self, *args, **options):
        raise AssertionError


def build(kind, attention="sdpa", **words):
    config = getattr(tf, f"{kind}Config")(
        text_config=WORDS | {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3} | words,
        vision_config=PIXELS,
    )
    torch.manual_seed(0)
    model_class = getattr(tf, f"{kind}Model")
    model = model_class._from_config(copy.deepcopy(config), attn_implementation=attention)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(4)
    return model.eval(), Processor()


@pytest.fixture(scope="module")
def picture():
    return np.random.default_rng(0).integers(0, 255, (50, 80, 3), dtype=np.uint8)


def rows_of(tower, inputs, method):
    with torch.no_grad():
        maps = tower(**inputs, output_attentions=True).attentions
    return getattr(attnflow, method)(torch.stack(maps)[:, 0].double().numpy())[-1]


@pytest.mark.parametrize("method", ["raw", "rollout", "flow"])
@pytest.mark.parametrize("kind", ["CLIP", "Siglip"])
def test_texts_have_the_scores_of_the_text_tower(kind, method):
    found = attnflow.explain(TEXT, build(kind), method=method, correction=None)
    model, processor = build(kind, "eager")
    options = {"padding": "max_length", "max_length": 20} if kind == "Siglip" else {}
    inputs = processor.tokenizer(TEXT, return_tensors="pt", **options)
    ids = inputs["input_ids"]
    rows = rows_of(model.text_model, {"input_ids": ids}, method)
    assert len(found.tokens) == ids.shape[1]
    # CLIP reads the end of the text, SigLIP the last position, which padding fills.
    assert (found.query, found.pooled) == (ids.shape[1] - 1, ())
    np.testing.assert_allclose(found.values, rows[-1], rtol=0, atol=1e-5)


def test_the_end_of_a_text_is_where_clip_decides():
    """By the number of its token, wherever it stands."""
    model, processor = build("CLIP", eos_token_id=5)  # the first "the" ends the text
    found = attnflow.explain(TEXT, (model, processor), method="raw")
    assert found.tokens[found.query] == "the"
    assert found.query == 1


@pytest.mark.parametrize("method", ["raw", "rollout", "flow"])
@pytest.mark.parametrize("kind", ["CLIP", "Siglip"])
def test_images_have_the_scores_of_the_vision_tower(kind, method, picture):
    found = attnflow.explain(picture, build(kind), method=method)
    model, processor = build(kind, "eager")
    pixels = processor.image_processor(images=picture, return_tensors="pt")["pixel_values"]
    rows = rows_of(model.vision_model, {"pixel_values": pixels}, method)
    decides = [0] if kind == "CLIP" else list(range(16))  # CLS; a head that pools all patches
    assert list(found.pooled or (found.query,)) == decides
    np.testing.assert_allclose(found.values, rows[decides].mean(0), rtol=0, atol=1e-5)
    assert found.patches().shape == (4, 4)


def test_the_kind_of_input_chooses_the_tower(picture, tmp_path):
    model = build("CLIP")
    Image.fromarray(picture).save(tmp_path / "a cat.png")
    by_file = attnflow.explain(str(tmp_path / "a cat.png"), model, method="raw")
    both = attnflow.explain([TEXT, picture], model, method="raw")
    assert by_file.grid is not None
    np.testing.assert_allclose(by_file.values, both[1].values, rtol=0, atol=1e-6)
    np.testing.assert_allclose(
        both[0].values, attnflow.explain(TEXT, model, method="raw").values, rtol=0, atol=1e-6
    )


def test_one_tower_can_be_asked_for(picture):
    model = build("CLIP")
    text = attnflow.load_model(model, tower="text")
    named = attnflow.explain("nothing.png", text, method="raw")
    assert named.grid is None
    vision = attnflow.load_model(model, tower="vision")
    assert attnflow.explain(picture, vision, method="raw").grid is not None
    with pytest.raises(InputError, match=r"tower='both' is unknown; allowed: text, vision"):
        attnflow.load_model(model, tower="both")
    with pytest.raises(InputError, match="has one tower"):
        attnflow.load_model(tower="text")


def test_a_tokenizer_or_an_image_processor_alone_is_for_its_tower(picture):
    model, processor = build("CLIP")
    text = attnflow.explain(TEXT, (model, processor.tokenizer), method="raw")
    image = attnflow.explain(picture, (model, processor.image_processor), method="raw")
    both = attnflow.explain([TEXT, picture], (model, processor), method="raw")
    np.testing.assert_array_equal(text.values, both[0].values)
    np.testing.assert_array_equal(image.values, both[1].values)


@pytest.mark.parametrize("device", ["gpu", "cuda:99", "", 3, "cpu0"])
def test_odd_devices_are_refused_by_name(device):
    with pytest.raises(InputError, match=r"device=.* is not here; allowed: 'cpu'"):
        attnflow.load_model(device=device)


def test_the_name_of_an_image_that_is_not_there_is_no_text():
    model = build("CLIP")
    with pytest.raises(InputError, match=r"'cat.png' is not a file.*tower=\"text\""):
        attnflow.explain("cat.png", model)
    alone = attnflow.explain("cat.png", attnflow.load_model(model, tower="text"))
    assert alone.grid is None
    assert attnflow.explain("see cat.png", model).grid is None  # a text about a file


@pytest.mark.parametrize("kind", ["CLIP", "Siglip"])
def test_token_ids_are_read_by_the_tower_for_texts(kind):
    model = load_model(build(kind))
    ids = model.text.tokenizer(TEXT)["input_ids"]
    expected = model.tokenize(TEXT)
    for given in (ids, np.array(ids), model.text.tokenizer(TEXT)):
        found = model.tokenize(given)
        assert found.inputs == expected.inputs
        assert found.names == expected.names
