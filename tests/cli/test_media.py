"""Images and sounds on the command line and at the server: right, or refused by name."""

import json
import re

import numpy as np
import pytest
import transformers as tf
from PIL import Image
from starlette.testclient import TestClient
from transformers import CLIPImageProcessorPil

import attnflow
import heard
import tiny
from attnflow.models.loading import load_model
from attnflow.models.weights import weights_digest
from attnflow.views.explorer.server.app import make_app

SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "projection_dim": 16,
}
WORDS = {"vocab_size": 100, "max_position_embeddings": 20, "eos_token_id": 3, "pad_token_id": 0}
EDGES = ("--edges", "attention", "--method", "rollout", "--json")


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """A small model of two towers of other depths, saved."""
    tf.set_seed(0)
    config = tf.CLIPConfig(
        text_config=SIZES | WORDS,
        vision_config=SIZES | {"image_size": 32, "patch_size": 8, "num_hidden_layers": 3},
    )
    size = {"height": 32, "width": 32}
    images = CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size=size)
    processor = tf.CLIPProcessor(image_processor=images, tokenizer=tiny.word_piece())
    folder = tmp_path_factory.mktemp("clip")
    tf.CLIPModel(config).save_pretrained(folder)
    processor.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    colours = np.random.default_rng(0).integers(0, 255, (2, 40, 50, 3), dtype=np.uint8)
    for name, each in zip("ab", colours, strict=True):
        Image.fromarray(each).save(folder / f"{name}.png")
    return folder


def test_the_name_of_an_image_is_that_image_to_a_model_that_sees(run, clip, pictures):
    file = str(pictures / "a.png")
    said = json.loads(run("explain", file, "-m", clip, *EDGES).out)
    expected = attnflow.explain(file, clip, edges="attention", method="rollout")
    assert expected.grid is not None
    assert said["scores"]["rollout"] == pytest.approx(expected.values.tolist())
    text = json.loads(run("explain", "the keys", "-m", clip, *EDGES).out)
    assert text["tokens"][1:3] == ["the", "keys"]
    assert run("explain", __file__, "-m", clip).code == 2  # a file that is no image


def test_of_many_patches_the_strongest_are_compared(run, clip, pictures):
    given = ("compare", str(pictures / "a.png"), "-m", clip, *EDGES[:4])
    found = attnflow.explain(str(pictures / "a.png"), clip, edges="attention", method="rollout")
    best = {name for name, _ in found.top(5)}
    shown = run(*given, "--top", "5").out.splitlines()
    assert {line.split()[0] for line in shown if re.match(r"\d,\d ", line)} == best
    assert "The 5 of 17 patches with the highest rollout scores; --top N lists more." in shown
    assert "--top" not in run(*given).out


def test_a_run_over_images_is_what_each_gives_alone(run, clip, pictures, tmp_path):
    rows = tmp_path / "rows.jsonl"
    names = [str(pictures / f"{name}.png") for name in "ab"]
    rows.write_text("".join(json.dumps({"text": name}) + "\n" for name in names))
    done = run("run", rows, "-m", clip, "-o", tmp_path / "out", "--method", "rollout")
    assert done.code == 0, done.err
    found = attnflow.read_run(tmp_path / "out")
    for row, name in zip(found, names, strict=True):
        alone = attnflow.explain(name, clip, method="rollout")
        np.testing.assert_allclose(row.values, alone.values, rtol=0, atol=1e-6)


def test_what_makes_the_input_is_part_of_the_digest():
    """A run that was stopped must not go on with images or sounds of another size or rate."""
    model, extractor = heard.build("ast")
    one = weights_digest(load_model((model, extractor)))
    assert one == weights_digest(load_model((model, extractor)))
    other = tf.ASTFeatureExtractor(max_length=100, num_mel_bins=32, mean=-3.0)
    assert one != weights_digest(load_model((model, other)))


def test_the_server_says_that_it_takes_no_image_of_a_model_for_both(clip):
    client = TestClient(make_app({"clip": load_model(clip)}), "http://localhost")
    answer = client.post("/api/explain", json={"model": "clip", "text": "the keys"})
    assert answer.is_success, answer.text
    for asked in ({"image": "AAAA"}, {"image": "AAAA", "text": "the keys"}):
        refused = client.post("/api/explain", json={"model": "clip", **asked})
        assert refused.status_code == 422
        assert "images are for" in refused.text


def test_the_sentence_of_a_sound_is_of_frames():
    from attnflow.views.wording.findings import find

    found = attnflow.explain(heard.sound(), heard.build("wav2vec2-label"), method="raw")
    assert "by raw no frame stands out: the highest score, of “" in find(found).sentence
    both = attnflow.explain(
        heard.sound(), heard.build("whisper"), edges="attention", method="rollout", answer="the"
    )
    assert "by rollout no position stands out" in find(both).sentence


@pytest.mark.parametrize(
    ("name", "meant"),
    [("a.png", "an image is for .* reads images"), ("a.wav", "a sound is for .* reads sounds")],
)
@pytest.mark.parametrize("command", [("explain",), ("similarity", "the keys")])
def test_a_model_of_texts_says_what_takes_a_file_of_another_kind(
    run, tmp_path, monkeypatch, command, name, meant
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(b"anything")
    ran = run(*command, name)
    assert ran.code == 2
    assert re.search(meant, ran.err)
    assert "-f" not in ran.err


def test_an_image_that_is_not_there_is_no_text(run, clip):
    ran = run("explain", "missing.png", "-m", clip)
    assert ran.code == 2
    assert "'missing.png' is not a file" in ran.err
