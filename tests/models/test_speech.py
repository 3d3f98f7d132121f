"""Models that write what they hear: scores of frames for what was written."""

import numpy as np
import pytest
import torch

import attnflow
import heard
from attnflow.errors import InputError, ModelError
from attnflow.models.pair.sides import make_steps


@pytest.mark.parametrize("name", heard.WRITERS)
def test_models_that_write_have_the_one_default(name, sound):
    found = attnflow.explain(sound, heard.build(name), answer="the keys")
    assert (found.options["edges"], found.method) == ("relevance", "flow")
    assert found.layers == (found.depth,)


@pytest.mark.parametrize("method", ["raw", "rollout", "flow"])
@pytest.mark.parametrize("name", heard.WRITERS)
def test_what_was_written_has_the_scores_of_eager_attention(name, method, sound):
    answer = "the keys"
    found = attnflow.explain(sound, heard.build(name), method=method, answer=answer)
    model, processor = heard.build(name, "eager")
    inputs = processor.feature_extractor(sound, sampling_rate=heard.RATE, return_tensors="pt")
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


def test_models_are_loaded_from_folders(tmp_path, sound):
    model, extractor = heard.build("wav2vec2-label")
    model.save_pretrained(tmp_path / "label")
    extractor.save_pretrained(tmp_path / "label")
    found = attnflow.explain(sound, tmp_path / "label", method="raw")
    same = attnflow.explain(sound, (model, extractor), method="raw")
    np.testing.assert_allclose(found.values, same.values, rtol=0, atol=1e-6)
    assert found.statistics["model"]["head"] == "audio classifier"


def test_speech_and_its_views(sound, tmp_path):
    path = heard.write(tmp_path / "sound.wav", sound.astype(np.float64), 2)
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


def test_an_answer_to_a_sound_is_not_explained_token_by_token(sound):
    model = heard.build("whisper")
    with pytest.raises(ModelError, match=r"explained at its last token.*leave out generate="):
        attnflow.explain_answer(sound, model, generate=3)
    found = attnflow.explain(sound, model, answer="the keys", query="the", method="rollout")
    assert found.tokens[found.query] == "the"
