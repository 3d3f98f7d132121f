"""Sounds in, scores of frames over time out."""

import json
import wave

import numpy as np
import pytest
import scipy.signal
import torch
import transformers as tf

import attnflow
import heard
from attnflow.errors import InputError, ModelError
from attnflow.models.audio.sounds import Sound
from attnflow.models.pair.sides import make_steps

RATE = 16_000


@pytest.fixture(scope="module")
def sound():
    return heard.sound()


def eager_rows(name, sound, method):
    """What the method gives on eager attention, for every position."""
    model, processor = heard.build(name, "eager")
    extractor = getattr(processor, "feature_extractor", processor)
    inputs = extractor(sound, sampling_rate=RATE, return_tensors="pt")
    with torch.no_grad():
        maps = model(**inputs, output_attentions=True).attentions
    return getattr(attnflow, method)(torch.stack(maps)[:, 0].double().numpy())[-1]


@pytest.mark.parametrize("method", ["raw", "rollout", "flow"])
@pytest.mark.parametrize("name", heard.LISTENERS)
def test_frames_have_the_scores_of_eager_attention(name, method, sound):
    found = attnflow.explain(sound, heard.build(name), method=method)
    rows = eager_rows(name, sound, method)
    decides = list(found.pooled or (found.query,))
    np.testing.assert_allclose(found.values, rows[decides].mean(0), rtol=0, atol=1e-5)
    assert found.prediction is not None


def test_frames_are_named_by_their_time(sound):
    found = attnflow.explain(sound, heard.build("wav2vec2-label"), method="raw")
    assert found.tokens[:2] == ("0.00–0.02 s", "0.02–0.04 s")
    assert found.tokens[-1] == "0.96–0.98 s"  # 49 frames: the last one would be cut
    assert found.pooled == tuple(range(49))
    assert found.patches().shape == (1, 49)
    spread = found.over_image()
    assert spread.shape == (1, RATE)
    assert spread[0, 320 * 7 + 5] == found.values[7]
    assert not spread[0, 320 * 49 :].any()


def test_patches_of_a_spectrogram_are_named_by_time_and_bands(sound):
    found = attnflow.explain(sound, heard.build("ast"), method="raw")
    assert found.tokens[:4] == (
        "[CLS]",
        "[DIST]",
        "0.00–0.16 s, bands 0–15",
        "0.10–0.26 s, bands 0–15",
    )
    assert found.tokens[-1] == "0.80–0.96 s, bands 10–25"
    assert found.pooled == (0, 1)
    assert found.patches().shape == (2, 9)
    np.testing.assert_array_equal(found.patches().ravel(), found.values[2:])


@pytest.mark.parametrize("name", ["wav2vec2-label", "ast"])
def test_a_frame_is_where_its_time_says(name, sound):
    """Silence in a frame changes the state of that position most where nothing mixes frames."""
    model, extractor = heard.build(name)
    adapter = attnflow.load_model((model, extractor))
    (forward,) = adapter.run([adapter.tokenize(sound)], None, heard.NOTHING)
    tokens = forward.tokens
    at = tokens.segments.index("patch") + 5
    silent = adapter.blank(tokens, [at], adapter.filler())
    features = tokens.inputs[adapter.reads]
    changed = (silent.inputs[adapter.reads] != features).nonzero()
    if name == "ast":  # [time, band]: 5 steps of 10 rows of the spectrogram, the lowest bands
        assert changed[:, 0].min() >= 50
        assert changed[:, 0].max() < 60
        assert changed[:, 1].max() < 10
    else:
        assert changed.min() >= 5 * 320
        assert changed.max() < 6 * 320


def test_a_recogniser_is_asked_where_it_says_something_first(sound):
    model, processor = heard.build("wav2vec2-ctc")
    found = attnflow.explain(sound, (model, processor), method="raw")
    inputs = processor.feature_extractor(sound, sampling_rate=RATE, return_tensors="pt")
    with torch.no_grad():
        said = model(**inputs).logits[0].argmax(-1)
    first = int((said != model.config.pad_token_id).nonzero()[0])
    assert found.query == first
    assert found.prediction.label == processor.tokenizer.convert_ids_to_tokens(int(said[first]))
    other = attnflow.explain(sound, (model, processor), method="raw", query="0.50–0.52 s")
    assert other.query == 25


def test_gradients_of_a_recogniser_are_those_of_the_character_at_the_frame(sound):
    """(α ⊙ ∂ log p / ∂α)⁺ by autograd on eager attention; summed over layers."""
    model, processor = heard.build("wav2vec2-ctc", "eager")
    inputs = processor.feature_extractor(sound, sampling_rate=RATE, return_tensors="pt")
    output = model(**inputs, output_attentions=True)
    for target in (None, 7):
        row = output.logits[0, 25].double().log_softmax(-1)
        value = row.max() if target is None else row[target]
        gradients = torch.autograd.grad(value, output.attentions, retain_graph=True)
        expected = sum(
            (each * gradient).clamp_min(0)[0, :, 25].mean(0).double()
            for each, gradient in zip(output.attentions, gradients, strict=True)
        )
        found = attnflow.explain(
            sound, heard.build("wav2vec2-ctc"), edges="gradient", query=25, target=target
        )
        expected = expected.detach().numpy()
        np.testing.assert_allclose(found.values, expected, rtol=1e-3, atol=1e-5 * expected.max())


def test_a_head_that_reads_all_layers_is_told_of(sound):
    torch.manual_seed(0)
    config = tf.Wav2Vec2Config(**heard.WAVES, use_weighted_layer_sum=True)
    model = tf.Wav2Vec2ForSequenceClassification(config).eval()
    found = attnflow.explain(sound, (model, heard.waves()), method="raw")
    assert any("reads a weighted sum of all layers" in each for each in found.warnings)


def masking():
    """Sounds of an odd number of frames are padded, and their last frame is masked."""
    torch.manual_seed(0)
    config = tf.Wav2Vec2BertConfig(
        **heard.USUAL, vocab_size=26, feature_projection_input_dim=32,
        position_embeddings_type="relative_key",
    )  # fmt: skip
    model = tf.Wav2Vec2BertForSequenceClassification(config).eval()
    return model, tf.SeamlessM4TFeatureExtractor(feature_size=16, num_mel_bins=16)


def test_sounds_of_one_size_may_end_elsewhere():
    """What was found out of one must not be taken for another with more frames to hear."""
    whole = heard.sound(16_400)
    sounds, model = [whole[:16_160], whole[:16_320]], masking()
    together = attnflow.explain(sounds, model, edges="attention", method="rollout")
    assert [len(each.tokens) for each in together] == [50, 50]
    assert [len(each.pooled) for each in together] == [49, 50]
    for one, each in zip(sounds, together, strict=True):
        alone = attnflow.explain(one, masking(), edges="attention", method="rollout")
        assert alone.pooled == each.pooled
        np.testing.assert_allclose(alone.values, each.values, rtol=0, atol=1e-6)


def test_a_short_sound_whose_end_is_masked_is_explained():
    found = attnflow.explain(heard.sound(720), masking(), edges="attention", method="raw")
    assert (len(found.tokens), found.query, found.pooled) == (2, 0, ())


@pytest.mark.parametrize("name", heard.WRITERS)
def test_models_that_write_have_the_default_of_encoder_decoders(name, sound):
    found = attnflow.explain(sound, heard.build(name), answer="the keys")
    assert (found.options["edges"], found.method) == ("attention", "flow")
    assert "attention edges are used" in found.warnings[-1]


@pytest.mark.parametrize("name", ["wav2vec2-label", "hubert", "wavlm"])
def test_models_with_parametrized_weights_can_be_copied(name, sound):
    """Their positional convolution has its weight in two parts, which copy.copy refuses."""
    model, processor = heard.build(name)
    options = {"edges": "attention", "method": "rollout"}
    found = attnflow.explain(sound, (model, processor), **options)
    zeroed = attnflow.explain(
        sound, (model, processor), edges="value-zeroing", method="rollout", query="all"
    )
    np.testing.assert_allclose(zeroed.scores.sum(-1), 1)
    model.train()
    again = attnflow.explain(sound, (model, processor), **options)
    np.testing.assert_array_equal(again.values, found.values)
    assert model.training


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", [*heard.LISTENERS, *heard.WRITERS])
def test_half_precision_is_near_to_single(name, kind, sound):
    model, processor = heard.build(name)
    options = {"edges": "attention", "method": "rollout"}
    options |= {"answer": "the keys"} if name in heard.WRITERS else {"query": 3}
    whole = attnflow.explain(sound, (model, processor), **options)
    half = attnflow.explain(sound, (model.to(kind), processor), **options)
    assert half.warnings == whole.warnings
    np.testing.assert_allclose(half.values, whole.values, rtol=0, atol=0.1 * whole.values.max())


def test_frames_have_no_words(sound):
    with pytest.raises(InputError, match="pieces of an image or a sound are none"):
        attnflow.explain(sound, heard.build("ast"), words=True, edges="attention")


def test_routes_take_a_sampling_rate():
    tone = np.sin(2 * np.pi * 440 * np.arange(8000) / 8000)
    options = {"edges": "attention", "query": 0, "sampling_rate": 8000}
    found = attnflow.explain(tone, heard.build("ast"), **options)
    trace = attnflow.routes(tone, heard.build("ast"), to=5, **options)
    assert trace.value == pytest.approx(found.values[5], abs=1e-9)
    with pytest.raises(InputError, match="sampling_rate=8000 is for sounds"):
        attnflow.routes("the keys", to=1, sampling_rate=8000)


def test_convolutions_over_frames_are_warned_about(sound):
    found = attnflow.explain(sound, heard.build("wav2vec2-label"), method="raw")
    assert "mixes tokens outside attention" in found.warnings[0]
    assert not attnflow.explain(sound, heard.build("ast"), method="raw").warnings
    with pytest.raises(ModelError, match="strict=True"):
        attnflow.explain(sound, heard.build("wav2vec2-label"), method="raw", strict=True)


def test_a_speaker_vector_has_no_label_and_reads_all_frames(sound):
    torch.manual_seed(0)
    model = tf.Wav2Vec2ForXVector(tf.Wav2Vec2Config(**heard.WAVES)).eval()
    found = attnflow.explain(sound, (model, heard.waves()), method="raw")
    assert found.prediction is None
    assert len(found.pooled) == 49


def test_a_model_without_a_head_needs_a_frame(sound):
    model, extractor = heard.build("wav2vec2-label")
    with pytest.raises(ModelError, match=r'no head that decides.*query="0.00–0.02 s"'):
        attnflow.explain(sound, (model.wav2vec2, extractor))


@pytest.mark.parametrize("method", ["raw", "rollout", "flow"])
@pytest.mark.parametrize("name", heard.WRITERS)
def test_what_was_written_has_the_scores_of_eager_attention(name, method, sound):
    answer = "the keys"
    found = attnflow.explain(sound, heard.build(name), method=method, answer=answer)
    model, processor = heard.build(name, "eager")
    inputs = processor.feature_extractor(sound, sampling_rate=RATE, return_tensors="pt")
    ids = [model.config.decoder_start_token_id, *processor.tokenizer(answer)["input_ids"][:-1]]
    if ids[0] == ids[1]:
        ids = ids[1:]
    assert found.tokens[-2:] == ("the", "keys")
    with torch.no_grad():
        output = model(**inputs, decoder_input_ids=torch.tensor([ids]), output_attentions=True)
    source, target = output.cross_attentions[0].shape[-1], len(ids)
    seen = list(output.encoder_attentions)
    depths = (len(seen), len(output.decoder_attentions))
    for own, cross in zip(output.decoder_attentions, output.cross_attentions, strict=True):
        seen += [own, cross]
    steps = make_steps((source, target), depths)
    maps = [step.place_attention(each[0]) for step, each in zip(steps, seen, strict=True)]
    expected = getattr(attnflow, method)(torch.stack(maps).double().numpy())[-1, -1]
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-5)
    assert found.patches().shape == (1, source)


@pytest.mark.parametrize("name", heard.WRITERS)
def test_the_answer_is_what_the_model_wrote(name, sound):
    model, processor = heard.build(name)
    adapter = attnflow.load_model((model, processor))
    tokens = adapter.tokenize(sound)
    ids = tokens.inputs["decoder_input_ids"]
    assert ids[0] == model.config.decoder_start_token_id
    first = len(tokens) - len(ids)
    said = [adapter.predict([tokens], [at])[0].label for at in range(first, len(tokens) - 1)]
    assert said == [adapter.output_name(number) for number in ids[1:]]


@pytest.mark.parametrize("name", [*heard.LISTENERS, *heard.WRITERS])
def test_sounds_in_a_list_give_what_they_give_alone(name, sound):
    sounds = [sound, sound[::-1].copy(), sound[:12_000]]
    together = attnflow.explain(sounds, heard.build(name), method="rollout")
    for one, each in zip(sounds, together, strict=True):
        alone = attnflow.explain(one, heard.build(name), method="rollout")
        assert alone.tokens == each.tokens
        np.testing.assert_allclose(alone.values, each.values, rtol=0, atol=1e-5)


def write(path, samples, width, channels=1, rate=RATE):
    whole = np.clip(
        samples * 2.0 ** (8 * width - 1), -(2 ** (8 * width - 1)), 2 ** (8 * width - 1) - 1
    )
    if width == 1:
        content = (whole + 128).astype("u1").tobytes()
    else:
        content = whole.astype("<i4").view("u1").reshape(-1, 4)[:, :width].tobytes()
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(content)
    return path


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_files_of_every_width_are_read(width, sound, tmp_path):
    path = write(tmp_path / "sound.wav", sound.astype(np.float64), width)
    from attnflow.models.audio.sounds import read_sound

    found = read_sound(path, RATE)
    np.testing.assert_allclose(found.samples, sound, rtol=0, atol=2.0 ** (1 - 8 * width) + 1e-7)


def test_channels_are_mixed_and_files_explained(sound, tmp_path):
    both = np.stack([sound, np.zeros_like(sound)], axis=1).astype(np.float64)
    path = write(tmp_path / "both.wav", both.ravel(), 2, channels=2)
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
        (np.zeros(17_000), {}, r"hears at most 1 s.*truncate=True"),
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
    assert found.warnings == ("the sound was cut: only the first 1 of its 2.00 s were heard",)
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
    with pytest.raises(ModelError, match="does not read sounds"):
        attnflow.explain(np.zeros(9000), (model, heard.tokenizer()))


def test_models_are_loaded_from_folders(tmp_path, sound):
    model, extractor = heard.build("wav2vec2-label")
    model.save_pretrained(tmp_path / "label")
    extractor.save_pretrained(tmp_path / "label")
    found = attnflow.explain(sound, tmp_path / "label", method="raw")
    same = attnflow.explain(sound, (model, extractor), method="raw")
    np.testing.assert_allclose(found.values, same.values, rtol=0, atol=1e-6)
    assert found.statistics["model"]["head"] == "audio classifier"


def test_speech_and_its_views(sound, tmp_path):
    path = write(tmp_path / "sound.wav", sound.astype(np.float64), 2)
    found = attnflow.explain(path, heard.build("whisper"), method="rollout", layers="all")
    assert found.segments.count("patch") == 50
    assert found.grid.seconds == 1.0
    axes = found.figure("sound")
    low, high = axes.get_xlim()
    assert (low, high) == (0, 1)
    assert axes.collections, "no waveform"
    drawn = axes.images[0].get_array()
    np.testing.assert_array_equal(drawn, found.patches())
    page = attnflow.explore(path, heard.build("whisper"))
    assert "data:image/png;base64" in page.html
    found.save(tmp_path / "it.json")
    assert attnflow.Attribution.load(tmp_path / "it.json").grid == found.grid


def test_the_figure_of_a_text_has_no_sound():
    with pytest.raises(InputError, match="not of a sound"):
        attnflow.explain("the keys", method="raw").figure("sound")


@pytest.mark.parametrize("name", heard.WRITERS)
@pytest.mark.parametrize("rule", ["norms", "alti", "gradient", "value-zeroing"])
def test_other_edges_lead_from_the_text_to_the_sound(name, rule, sound):
    found = attnflow.explain(
        sound, heard.build(name), edges=rule, method="rollout", answer="the keys"
    )
    assert found.values.sum() == pytest.approx(1)
    assert found.patches().sum() > 0


def test_characters_of_a_recogniser_are_named_as_its_tokenizer_writes_them(sound, tmp_path):
    letters = ["<pad>", "<s>", "</s>", "<unk>", "|", *"abcdefghijklmnopqrstu"]
    (tmp_path / "vocab.json").write_text(json.dumps({each: at for at, each in enumerate(letters)}))
    network, reader = heard.build("wav2vec2-ctc")
    reader.tokenizer = tf.Wav2Vec2CTCTokenizer(str(tmp_path / "vocab.json"))
    said = attnflow.explain(sound, (network, reader)).prediction
    labels = {label for label, _ in said.alternatives}
    assert said.label in labels
    assert labels <= {"␣" if each == "|" else each for each in letters}


def test_a_pair_of_sounds_is_refused_as_a_pair():
    with pytest.raises(InputError, match="pairs are for models of texts"):
        attnflow.explain(("a.wav", "b.wav"), heard.build("ast"))


def test_an_answer_to_a_sound_is_not_explained_token_by_token(sound):
    model = heard.build("whisper")
    with pytest.raises(ModelError, match=r"explained at its last token.*leave out generate="):
        attnflow.explain(sound, model, generate=3)
    found = attnflow.explain(sound, model, answer="the keys", query="the", method="rollout")
    assert found.tokens[found.query] == "the"
