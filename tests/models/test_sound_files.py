"""Sounds as files and arrays: what is read, resampled, cut and refused."""

import numpy as np
import pytest
import scipy.signal
import torch

import attnflow
import heard
from attnflow.errors import InputError, ModelError
from attnflow.models.audio.sounds import Sound


def test_routes_take_a_sampling_rate():
    tone = np.sin(2 * np.pi * 440 * np.arange(8000) / 8000)
    options = {"edges": "attention", "query": 0, "sampling_rate": 8000}
    found = attnflow.explain(tone, heard.build("ast"), **options)
    trace = attnflow.routes(tone, heard.build("ast"), to=5, **options)
    assert trace.value == pytest.approx(found.values[5], abs=1e-9)
    with pytest.raises(InputError, match="sampling_rate=8000 is for sounds"):
        attnflow.routes("the keys", to=1, sampling_rate=8000)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_files_of_every_width_are_read(width, sound, tmp_path):
    path = heard.write(tmp_path / "sound.wav", sound.astype(np.float64), width)
    from attnflow.models.audio.sounds import read_sound

    found = read_sound(path, heard.RATE)
    np.testing.assert_allclose(found.samples, sound, rtol=0, atol=2.0 ** (1 - 8 * width) + 1e-7)


def test_channels_are_mixed_and_files_explained(sound, tmp_path):
    both = np.stack([sound, np.zeros_like(sound)], axis=1).astype(np.float64)
    path = heard.write(tmp_path / "both.wav", both.ravel(), 2, channels=2)
    found = attnflow.explain(str(path), heard.build("ast"), method="raw")
    mixed = attnflow.explain(sound / 2, heard.build("ast"), method="raw")
    np.testing.assert_allclose(found.values, mixed.values, rtol=0, atol=1e-3)
    assert found.text == str(path)


@pytest.mark.parametrize(("size", "other"), [(1000, 600), (1000, 601), (999, 1500), (600, 1000)])
def test_resampling_is_that_of_scipy(size, other):
    samples = np.random.default_rng(0).normal(size=size)
    found = Sound(samples, size).at_rate(other)
    np.testing.assert_allclose(found.samples, scipy.signal.resample(samples, other), atol=1e-12)


def test_another_rate_is_resampled(sound):
    time = np.arange(8000) / 8000
    tone = np.sin(2 * np.pi * 440 * time)
    twice = np.sin(2 * np.pi * 440 * np.arange(16_000) / 16_000)
    given = attnflow.explain(tone, heard.build("ast"), method="raw", sampling_rate=8000)
    as_dict = {"array": tone, "sampling_rate": 8000}
    also = attnflow.explain(as_dict, heard.build("ast"), method="raw")
    fine = attnflow.explain(twice, heard.build("ast"), method="raw")
    np.testing.assert_array_equal(given.values, also.values)
    np.testing.assert_allclose(given.values, fine.values, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("item", "options", "match"),
    [
        ("song.mp3", {}, r"\.mp3 file.*ffmpeg"),
        ("nowhere.wav", {}, "not a file"),
        (np.zeros((2, 100)), {}, r"shape \(2, 100\); mix its channels"),
        (np.zeros(0), {}, "no samples"),
        (np.full(9000, np.nan), {}, "NaN"),
        (np.zeros(9000, dtype=np.int16), {}, "int16.*32767"),
        (np.zeros(20), {}, "longer"),
        ({"samples": [1.0]}, {}, "dict with 'samples'"),
        (np.zeros(9000), {"sampling_rate": 0.5}, "sampling_rate=0.5"),
        (np.zeros(9000), {"sampling_rate": -3}, "sampling_rate=-3"),
        ("a.wav", {"sampling_rate": 8000}, "file states its own rate"),
        (np.zeros(17_000), {}, r"reads at most 1 s.*truncate=True"),
        (np.zeros(9000), {"answer": "x"}, "answer="),
        (np.full(9000, 1e4), {}, "reach 10000; make them"),
        (torch.zeros(9000, device="meta"), {}, "this is Tensor"),
        ({"array": np.zeros(9000), "sampling_rate": None}, {}, "sampling_rate=None"),
        ("a" * 5000 + ".wav", {}, "not a file"),
        ({"array": np.zeros(9000), "sampling_rate": 1}, {}, "9000.00 s long"),
    ],
)
def test_what_can_not_be_heard_is_refused(item, options, match):
    with pytest.raises(InputError, match=match):
        attnflow.explain(item, heard.build("ast"), **options)


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "bad.wav"
    path.write_bytes(b"RIFF0000WAVEnothing")
    with pytest.raises(InputError, match=r"not a \.wav file that can be read"):
        attnflow.explain(path, heard.build("ast"))


def test_a_sound_that_is_cut_says_so(sound):
    twice = np.concatenate([sound, sound])
    found = attnflow.explain(twice, heard.build("ast"), method="raw", truncate=True)
    assert found.warnings == ("the sound was cut: only the first 1 of its 2.00 s were read",)
    whole = attnflow.explain(sound, heard.build("ast"), method="raw")
    np.testing.assert_array_equal(found.values, whole.values)
    slow = attnflow.explain(
        twice[::2], heard.build("ast"), method="raw", truncate=True, sampling_rate=4000
    )
    assert "the first 1 of its 4.00 s" in slow.warnings[0]


def test_a_sound_of_hours_is_refused_before_memory_is_taken():
    hours = {"array": np.zeros(10_000), "sampling_rate": 1}
    with pytest.raises(InputError, match=r"10000.00 s long; at most 200 s can be explained"):
        attnflow.explain(hours, heard.build("wav2vec2-label"))


def test_a_text_model_has_no_sampling_rate():
    with pytest.raises(InputError, match="sampling_rate=8000 is for sounds"):
        attnflow.explain("the keys", sampling_rate=8000)


def test_a_model_that_hears_needs_its_feature_extractor():
    model, _ = heard.build("whisper")
    with pytest.raises(ModelError, match="feature extractor and a tokenizer"):
        attnflow.explain(np.zeros(9000), (model, heard.tokenizer()))


def test_a_tokenizer_does_not_read_sounds():
    model, _ = heard.build("ast")
    with pytest.raises(ModelError, match=r"reads sounds, and .* does not"):
        attnflow.explain(np.zeros(9000), (model, heard.tokenizer()))


def test_a_pair_of_sounds_is_refused_as_a_pair():
    with pytest.raises(InputError, match="pairs are for models of texts"):
        attnflow.explain(("a.wav", "b.wav"), heard.build("ast"))
