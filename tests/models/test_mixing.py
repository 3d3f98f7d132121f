"""Tokens that reach each other past attention are told of, or refused."""

import pytest
import torch
import transformers as tf

import attnflow
import tiny
from attnflow.cli.app import run
from attnflow.errors import ModelError

CONVOLUTION = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "conv_kernel_size": 3}


def convbert():
    return tf.ConvBertModel(tf.ConvBertConfig(**tiny.USUAL, embedding_size=32, head_ratio=1))


def deberta():
    return tf.DebertaV2Model(tf.DebertaV2Config(**tiny.USUAL, **CONVOLUTION))


def mobilebert():
    return tf.MobileBertModel(
        tf.MobileBertConfig(
            **tiny.USUAL, embedding_size=16, intra_bottleneck_size=16, true_hidden_size=16
        )
    )


@pytest.mark.parametrize("build", [convbert, deberta, mobilebert])
def test_mixing_outside_attention_is_a_warning_and_an_error_with_strict(build):
    torch.manual_seed(0)
    model = (build().eval(), tiny.word_piece())
    found = attnflow.explain(tiny.TEXT, model, method="raw")
    (warning,) = found.warnings
    assert warning.startswith(f"{type(model[0]).__name__} mixes tokens outside attention")
    assert found.statistics["warnings"] == [warning]
    with pytest.raises(ModelError, match=r"mixes tokens.*strict=True"):
        attnflow.explain(tiny.TEXT, model, strict=True)


class Neighbours(torch.nn.Module):
    """A layer that adds a share of the position before."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, states):
        return self.inner(states + 0.5 * states.roll(1, 1))


def encoder_decoder(side):
    model, tokenizer = tiny.build("bart"), tiny.word_piece()
    tokenizer.eos_token = "[SEP]"
    if side is not None:
        layer = getattr(model.model, side).layers[0]
        layer.fc1 = Neighbours(layer.fc1)
    return model, tokenizer


@pytest.mark.parametrize("side", ["encoder", "decoder"])
@pytest.mark.parametrize("answer", ["a cat is on the mat", "a"])
def test_mixing_on_either_side_of_an_encoder_decoder_is_told(side, answer):
    model = encoder_decoder(side)
    found = attnflow.explain(tiny.TEXT, model, answer=answer, method="raw")
    (warning,) = found.warnings
    assert "mixes tokens outside attention" in warning
    with pytest.raises(ModelError, match=r"mixes tokens.*strict=True"):
        attnflow.explain(tiny.TEXT, model, answer=answer, strict=True)


def test_plain_encoder_decoders_are_not_warned_of():
    found = attnflow.explain(
        tiny.TEXT, encoder_decoder(None), answer="a cat", method="raw", strict=True
    )
    assert found.warnings == ()


@pytest.mark.parametrize("name", [*tiny.ENCODERS, *tiny.DECODERS])
def test_plain_transformers_are_not_warned_of(name):
    tokenizer = tiny.word_piece() if name in tiny.ENCODERS else tiny.plain()
    found = attnflow.explain(tiny.TEXT, (tiny.build(name), tokenizer), method="raw", strict=True)
    assert found.warnings == ()


def test_the_warning_is_shown_in_the_terminal_and_on_the_page(tmp_path, capsys):
    torch.manual_seed(0)
    model = deberta()
    model.save_pretrained(tmp_path)
    tiny.word_piece().save_pretrained(tmp_path)
    command = ["explain", tiny.TEXT, "--model", str(tmp_path)]
    page = tmp_path / "page.html"
    assert run([*command, "--html", str(page)]) == 0
    assert "mixes tokens outside attention" in " ".join(capsys.readouterr().out.split())
    assert "mixes tokens outside attention" in page.read_text(encoding="utf-8")
    assert run([*command, "--strict"]) == 2
    assert "strict=True" in capsys.readouterr().err
