"""LLaVA-like models: patches and text in one sequence."""

import numpy as np
import pytest
import torch
from PIL import Image

import attnflow
from attnflow.errors import AttnflowError, InputError, ModelError
from pictured import llava, paligemma, processor
from zoo.build import small_model

TEXT = "the keys to the"
PROMPT = "the red <image> keys to the"


@pytest.fixture(scope="module")
def picture():
    return np.random.default_rng(0).integers(0, 255, (50, 80, 3), dtype=np.uint8)


@pytest.mark.parametrize("method", ["raw", "rollout", "flow"])
def test_patches_and_tokens_have_the_scores_of_eager_attention(method, picture):
    item = {"image": picture, "text": PROMPT}
    found = attnflow.explain(item, llava(), method=method, correction=None)
    model, reader = llava("eager")
    inputs = reader(images=picture, text=PROMPT, return_tensors="pt")
    with torch.no_grad():
        output = model(**inputs, output_attentions=True)
    maps = torch.stack(output.attentions)[:, 0].double().numpy()
    expected = getattr(attnflow, method)(maps)[-1, -1]
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-5)
    assert found.tokens[:4] == ("the", "red", "0,0", "0,1")
    assert found.tokens[-4:] == ("3,3", "keys", "to", "the")
    np.testing.assert_array_equal(found.patches().ravel(), found.values[2:18])
    said = int(output.logits[0, -1].argmax())
    assert found.prediction.label in (
        reader.tokenizer.convert_ids_to_tokens(said),
        f"[{said}]",
    )
    assert found.statistics["model"]["causal"]


def test_what_the_vision_tower_did_before_is_told(picture):
    found = attnflow.explain({"image": picture, "text": PROMPT}, llava(), method="raw")
    assert "what the vision tower" in found.warnings[-1]


def test_a_list_gives_what_each_gives_alone(picture):
    items = [
        {"image": picture, "text": PROMPT},
        {"image": picture[::-1].copy(), "text": "a <image> cat"},
        "the keys to",
    ]
    model = llava()
    together = attnflow.explain(items, model, method="rollout")
    for item, each in zip(items, together, strict=True):
        alone = attnflow.explain(item, model, method="rollout")
        assert alone.tokens == each.tokens
        np.testing.assert_allclose(alone.values, each.values, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("item", "match"),
    [
        ({"image": 1}, "reads images and text"),
        ({"image": np.zeros((8, 8, 3), np.uint8), "text": 3}, "the text is int"),
        ({"image": np.zeros((8, 8, 3), np.uint8), "text": "the keys"}, "no placeholder"),
        (np.zeros((8, 8, 3), np.uint8), "This is ndarray"),
        ({"image": np.zeros((8, 8, 3), np.uint8), "text": "<image> a <image>"}, "several placeh"),
        ({"image": np.zeros((8, 8, 3), np.uint8), "text": "<image> \udc80"}, "not Unicode"),
        ({"image": np.zeros((8, 8, 3), np.uint8), "text": "<image>" + " a" * 99}, "115 tokens, 16"),
        ({"image": np.zeros((8, 8, 3)), "text": "<image> a"}, "float64"),
        ("<image> a", "placeholder, and there is no image"),
    ],
)
def test_other_inputs_are_refused(item, match):
    with pytest.raises(InputError, match=match):
        attnflow.explain(item, llava())


def test_a_sequence_as_long_as_that_of_the_vision_tower_is_told_from_it(picture):
    """16 patches and CLS there, 16 patches and a word here: the tower's maps are not taken."""
    item = {"image": picture, "text": "<image> a"}
    found = attnflow.explain(item, llava(), edges="attention", method="rollout", correction=None)
    model, reader = llava("eager")
    with torch.no_grad():
        inputs = reader(images=picture, text="<image> a", return_tensors="pt")
        maps = torch.stack(model(**inputs, output_attentions=True).attentions)[:, 0]
    assert maps.shape[-1] == 17
    expected = attnflow.rollout(maps.double().numpy())[-1, -1]
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-5)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_bos_is_refused_with_an_image(picture):
    with pytest.raises(InputError, match="bos=True is for texts"):
        attnflow.explain({"image": picture, "text": "<image> a"}, paligemma(), bos=True)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_with_a_tokenizer_alone_it_is_a_causal_language_model(attention):
    model, reader = llava(attention)
    alone = attnflow.explain(TEXT, (model, reader.tokenizer), method="rollout")
    assert alone.statistics["model"]["head"] == "causal language model"
    ids = reader.tokenizer(TEXT, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        said = model(input_ids=ids).logits[0, -1].double().softmax(-1)
    assert alone.prediction.probability == pytest.approx(float(said.max()), abs=1e-5)
    both = attnflow.explain(TEXT, (model, reader), method="rollout")
    np.testing.assert_array_equal(alone.values, both.values)
    assert attnflow.blank_out(TEXT, (model, reader.tokenizer)).values.shape == (4,)


def test_a_model_that_is_uncertain_on_texts_alone_is_refused_by_name():
    """Its tokens attend to later ones with one kernel of transformers and not with the other."""
    said = []
    for attention in ("eager", "sdpa"):
        model, reader = paligemma(attention)
        ids = reader.tokenizer(TEXT, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            said.append(model(input_ids=ids).logits)
        for given in (reader, reader.tokenizer):
            with pytest.raises(
                ModelError, match=r"PaliGemma\w+ can't be explained on a text without an image"
            ):
                attnflow.explain(TEXT, (model, given))
    apart = float((said[0] - said[1]).abs().max())
    assert apart > 1e-3, "transformers repaired it: explain texts alone"


def test_what_runs_the_model_again_is_refused_with_an_image(picture):
    item, model = {"image": picture, "text": PROMPT}, llava()
    for again in (
        lambda: attnflow.blank_out(item, model),
        lambda: attnflow.gradients(item, model),
        lambda: attnflow.explain(item, model, method="blank-out"),
        lambda: attnflow.explain(item, model, method="gradient-norm"),
        lambda: attnflow.explain(item, model, edges="norms"),
    ):
        with pytest.raises(AttnflowError, match=r"only attention can be read|reads patches that"):
            again()
    assert attnflow.blank_out("the keys to", model).values.shape == (3,)


def test_a_page_shows_the_image(picture):
    page = attnflow.explore({"image": picture, "text": PROMPT}, llava())
    assert "data:image/jpeg;base64" in page.html


def test_a_folder_is_loaded_with_its_processor(picture, tmp_path):
    model, reader = llava()
    model.save_pretrained(tmp_path)
    reader.save_pretrained(tmp_path)
    item = {"image": picture, "text": PROMPT}
    found = attnflow.explain(item, tmp_path, method="raw")
    np.testing.assert_allclose(
        found.values, attnflow.explain(item, (model, reader), method="raw").values, atol=1e-6
    )


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@pytest.mark.parametrize("method", ["raw", "rollout", "flow"])
def test_a_prompt_that_sees_all_of_itself_has_the_scores_of_eager_attention(method, picture):
    model, reader = paligemma("eager")
    text = "<image>the keys to"
    inputs = reader(images=Image.fromarray(picture), text=text, return_tensors="pt")
    with torch.no_grad():
        output = model(**inputs, output_attentions=True)
    maps = torch.stack(output.attentions)[:, 0].double().numpy()
    assert maps[:, :, 0, -1].min() > 0  # the first patch sees the last token
    expected = getattr(attnflow, method)(maps)[-1, -1]
    for attention in ("eager", "sdpa"):
        item = {"image": picture, "text": text}
        options = {"method": method, "edges": "attention", "correction": None}
        found = attnflow.explain(item, paligemma(attention), **options)
        np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-5)
        assert found.tokens[:2] == ("0,0", "0,1")
        assert found.patches().shape == (4, 4)


class Flat:
    """A processor whose images are cut into patches before, as Qwen2-VL's."""

    def __init__(self, inner):
        self.inner, self.tokenizer = inner, inner.tokenizer
        self.image_processor = inner.image_processor

    def __call__(self, **inputs):
        made = self.inner(**inputs)
        made["pixel_values"] = made["pixel_values"].flatten(2)
        return made


def test_patches_whose_order_cannot_be_tried_are_refused(picture, monkeypatch):
    model, reader = llava()
    tower = model.model.vision_tower.__class__.forward

    def forward(self, pixel_values, **more):
        return tower(self, pixel_values=pixel_values.unflatten(-1, (32, 32)), **more)

    monkeypatch.setattr(model.model.vision_tower.__class__, "forward", forward)
    item = {"image": picture, "text": PROMPT}
    with pytest.raises(ModelError, match="can't be tried"):
        attnflow.explain(item, (model, Flat(reader)), edges="attention")


@pytest.mark.parametrize(
    ("kind", "name", "match"),
    [
        ("mllama", "MllamaForConditionalGeneration", "reads images by cross-attention"),
        ("idefics", "IdeficsForVisionText2Text", "takes text; this is dict"),
    ],
)
def test_images_that_stand_beside_the_text_are_refused_by_name(kind, name, match, picture):
    item = {"image": picture, "text": PROMPT}
    with pytest.raises(AttnflowError, match=f"{name}.*{match}"):
        attnflow.explain(item, (small_model(kind, name), processor()))


def test_the_name_of_an_image_alone_is_refused(picture, tmp_path):
    file = str(tmp_path / "cat.png")
    Image.fromarray(picture).save(file)
    with pytest.raises(InputError, match=r"is an image.*\"image\": …"):
        attnflow.explain(file, llava())
