"""Images in, scores of patches out, back on the image."""

import numpy as np
import pytest
import torch
import transformers as tf
from PIL import Image
from transformers import BitImageProcessorPil, ViTImageProcessorPil

import attnflow
import tiny
from attnflow.errors import InputError, ModelError
from attnflow.models.image.vision import seen_box

RESIZING = ViTImageProcessorPil(size={"height": 32, "width": 32})
CROPPING = BitImageProcessorPil(
    size={"shortest_edge": 40}, crop_size={"height": 32, "width": 32}, do_center_crop=True
)


DECIDING = {  # the positions that each head reads, by the code of transformers
    "vit": (0,),
    "deit": (0, 1),  # the mean of two heads
    "dinov2": tuple(range(17)),  # CLS, and the mean of patches
    "dinov2-registers": (0, *range(4, 20)),  # registers are not read
}


@pytest.fixture(scope="module")
def picture():
    return np.random.default_rng(0).integers(0, 255, (50, 80, 3), dtype=np.uint8)


@pytest.mark.parametrize("method", ["raw", "rollout", "flow"])
@pytest.mark.parametrize("name", tiny.VISION)
def test_patches_have_the_scores_of_eager_attention(name, method, picture):
    found = attnflow.explain(picture, (tiny.build(name), RESIZING), method=method)
    pixels = RESIZING(images=picture, return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        attentions = tiny.build(name, "eager")(pixels, output_attentions=True).attentions
    stacked = torch.stack(attentions)[:, 0].double().numpy()
    decides = DECIDING[name]
    assert found.pooled == (() if len(decides) == 1 else decides)
    expected = getattr(attnflow, method)(stacked)[-1, list(decides)].mean(0)
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found.patches().ravel(), expected[-16:], rtol=0, atol=1e-6)
    assert found.patches().shape == (4, 4)
    assert found.tokens[0] == "[CLS]"
    assert found.prediction.label.startswith("LABEL_")


def test_registers_and_the_distillation_token_are_no_patches(picture):
    names = {
        name: attnflow.explain(picture, (tiny.build(name), RESIZING), method="raw")
        for name in ("deit", "dinov2-registers")
    }
    assert names["deit"].tokens[:3] == ("[CLS]", "[DIST]", "0,0")
    registers = names["dinov2-registers"]
    assert registers.tokens[:5] == ("[CLS]", "[REG1]", "[REG2]", "[REG3]", "0,0")
    assert registers.segments[:5] == ("class", "register", "register", "register", "patch")


def test_a_patch_lies_where_it_was_cut_from(picture):
    found = attnflow.explain(picture, (tiny.build("vit"), RESIZING), method="raw", query="1,2")
    spread, patches = found.over_image(), found.patches()
    assert spread.shape == (50, 80)
    assert spread[0, 0] == patches[0, 0]
    assert spread[0, 79] == patches[0, 3]
    assert spread[49, 0] == patches[3, 0]
    assert spread[13, 41] == patches[1, 2]  # rows are 12.5 pixels high, columns 20 wide


def test_what_the_crop_cut_away_has_no_score(picture):
    found = attnflow.explain(picture, (tiny.build("dinov2"), CROPPING), method="raw")
    # 50 × 80 becomes 40 × 64, of which the middle 32 × 32 is seen: 40 × 40 pixels of the image
    assert found.grid.box == (20, 5, 60, 45)
    spread = found.over_image()
    assert not spread[:5].any()
    assert not spread[:, :20].any()
    assert not spread[:, 60:].any()
    assert (spread[5:45, 20:60] > 0).all()


def test_the_box_is_what_the_processor_keeps():
    """A white frame around what the box says is seen must not reach the model."""
    image = np.full((50, 80, 3), 255, dtype=np.uint8)
    left, top, right, bottom = (int(v) for v in seen_box(CROPPING, (50, 80)))
    image[top:bottom, left:right] = 0
    plain = CROPPING(images=image, return_tensors="pt", do_normalize=False)["pixel_values"]
    assert float(plain[..., 2:-2, 2:-2].max()) == 0
    image[top + 2 : bottom - 2, left + 2 : right - 2] = 255
    image[:top], image[bottom:], image[:, :left], image[:, right:] = 0, 0, 0, 0
    inner = CROPPING(images=image, return_tensors="pt", do_normalize=False)["pixel_values"]
    assert float(inner[..., 4:-4, 4:-4].min()) > 0.99


def test_paths_and_pil_images_are_read_too(picture, tmp_path):
    path = tmp_path / "picture.png"
    Image.fromarray(picture).save(path)
    model = (tiny.build("vit"), RESIZING)
    expected = attnflow.explain(picture, model, method="rollout").values
    for given in (path, str(path), Image.fromarray(picture)):
        found = attnflow.explain(given, model, method="rollout")
        assert np.array_equal(found.values, expected)
    both = attnflow.explain([picture, path], model, method="rollout")
    np.testing.assert_allclose(both[1].values, expected, atol=1e-6)


@pytest.mark.parametrize("bad", ["no/such/file.png", __file__, 3])
def test_what_is_no_image_is_refused(bad):
    with pytest.raises(InputError, match="image"):
        attnflow.explain(bad, (tiny.build("vit"), RESIZING))


def test_texts_have_no_patches():
    found = attnflow.explain("the cat", (tiny.build("bert"), tiny.word_piece()), method="raw")
    with pytest.raises(InputError, match="not of an image"):
        found.patches()


SIZES = tiny.PICTURE | {"num_attention_heads": 4, "intermediate_size": 64}


def built(model_class, config):
    torch.manual_seed(0)
    return model_class._from_config(config, attn_implementation="eager").eval()


def rows_of(model, picture):
    """All rows of rollout in the last layer, of eager attention."""
    pixels = RESIZING(images=picture, return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        attentions = model(pixels, output_attentions=True).attentions
    return attnflow.rollout(torch.stack(attentions)[:, 0].double().numpy())[-1]


def test_detection_tokens_stand_behind_the_patches(picture):
    config = tf.YolosConfig(**SIZES | {"image_size": [32, 32]}, num_detection_tokens=5)
    model = built(tf.YolosModel, config)
    found = attnflow.explain(picture, (model, RESIZING), method="rollout")
    assert found.tokens[:2] == ("[CLS]", "0,0")
    assert found.tokens[-6:] == ("3,3", "[DET1]", "[DET2]", "[DET3]", "[DET4]", "[DET5]")
    rows = rows_of(model, picture)
    np.testing.assert_allclose(found.patches().ravel(), rows[0, 1:17], rtol=0, atol=1e-6)


@pytest.mark.parametrize("ratio", [0.0, 0.75])
def test_shuffled_patches_are_refused(picture, ratio):
    config = tf.ViTMAEConfig(**SIZES, mask_ratio=ratio)
    model = built(tf.ViTMAEModel, config)
    with pytest.raises(ModelError, match=r"ViTMAEModel .*(at random|leaves out patches)"):
        attnflow.explain(picture, (model, RESIZING), method="raw")


@pytest.mark.parametrize("name", ["Beit", "Data2VecVision"])
@pytest.mark.parametrize("mean", [True, False])
def test_the_mean_of_patches_is_explained_where_the_head_takes_it(picture, name, mean):
    config = getattr(tf, f"{name}Config")(**SIZES, use_mean_pooling=mean)
    model = built(getattr(tf, f"{name}ForImageClassification"), config)
    found = attnflow.explain(picture, (model, RESIZING), method="rollout")
    decides = list(range(1, 17)) if mean else [0]
    rows = rows_of(model, picture)
    np.testing.assert_allclose(found.values, rows[decides].mean(0), rtol=0, atol=1e-6)


def test_a_model_without_cls_needs_a_patch_to_explain(picture):
    model = built(tf.IJepaModel, tf.IJepaConfig(**SIZES))
    with pytest.raises(ModelError, match=r'IJepaModel has no CLS token.*query="0,0"'):
        attnflow.explain(picture, (model, RESIZING))
    found = attnflow.explain(picture, (model, RESIZING), query="1,2", method="raw")
    assert found.tokens[found.query] == "1,2"


def test_images_of_different_sizes_run_alone(picture):
    keeping = ViTImageProcessorPil(do_resize=False)
    model = tiny.build("dinov2")
    both = [picture[:32, :32], picture[:32, :64]]
    found = attnflow.explain(both, (model, keeping), method="raw")
    assert [each.patches().shape for each in found] == [(4, 4), (4, 8)]


def test_what_is_no_vision_transformer_is_told_so(picture):
    torch.manual_seed(0)
    config = tf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 8], depths=[1, 1])
    model = tf.ResNetForImageClassification(config).eval()
    with pytest.raises(ModelError, match="ResNetForImageClassification has no patches"):
        attnflow.explain(picture, (model, RESIZING))
