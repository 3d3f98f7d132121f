"""Sounds in, scores of frames over time out."""

import json

import numpy as np
import pytest
import torch
import transformers as tf

import attnflow
import heard
from attnflow.errors import InputError, ModelError


def eager_rows(name, sound, method):
    """What the method gives on eager attention, for every position."""
    model, processor = heard.build(name, "eager")
    extractor = getattr(processor, "feature_extractor", processor)
    inputs = extractor(sound, sampling_rate=heard.RATE, return_tensors="pt")
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
    assert spread.shape == (1, heard.RATE)
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
    inputs = processor.feature_extractor(sound, sampling_rate=heard.RATE, return_tensors="pt")
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
    inputs = processor.feature_extractor(sound, sampling_rate=heard.RATE, return_tensors="pt")
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
    with pytest.raises(InputError, match="has no words: an image or a sound consists of pieces"):
        attnflow.explain(sound, heard.build("ast"), words=True, edges="attention")


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


def test_characters_of_a_recogniser_are_named_as_its_tokenizer_writes_them(sound, tmp_path):
    letters = ["<pad>", "<s>", "</s>", "<unk>", "|", *"abcdefghijklmnopqrstu"]
    (tmp_path / "vocab.json").write_text(json.dumps({each: at for at, each in enumerate(letters)}))
    network, reader = heard.build("wav2vec2-ctc")
    reader.tokenizer = tf.Wav2Vec2CTCTokenizer(str(tmp_path / "vocab.json"))
    said = attnflow.explain(sound, (network, reader)).prediction
    labels = {label for label, _ in said.alternatives}
    assert said.label in labels
    assert labels <= {"␣" if each == "|" else each for each in letters}
