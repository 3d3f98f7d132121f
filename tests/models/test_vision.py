"""Images in, scores of patches out, back on the image."""

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import BitImageProcessorPil, ViTImageProcessorPil

import attnflow
import tiny
from attnflow.errors import InputError
from attnflow.models.vision import seen_box

RESIZING = ViTImageProcessorPil(size={"height": 32, "width": 32})
CROPPING = BitImageProcessorPil(
    size={"shortest_edge": 40}, crop_size={"height": 32, "width": 32}, do_center_crop=True
)


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
    expected = getattr(attnflow, method)(stacked)[-1, 0]
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
