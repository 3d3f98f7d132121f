"""Fine-tuning on sentiment: it learns, can be resumed, and Table 3 reads its folder."""

import gzip
import itertools
import json

import pytest
import torch
import transformers as tf

import attnflow
import tiny
from attnflow.cli.app import run as command
from attnflow.errors import InputError
from attnflow_experiments.reproduce.run import Request, run
from attnflow_experiments.training import sentiment
from attnflow_experiments.training.run import train_sentiment
from attnflow_experiments.training.sentiment import (
    SST2,
    SentimentRecipe,
    SentimentRun,
    read_sentiment,
)

ROWS = [
    (f"{first} {noun} {verb} {last}", int(last == "here"))
    for first, noun, verb, last in itertools.product(
        ("the", "a", "the old", "a red"), ("key", "keys", "cat", "cabinet"), ("is", "are"),
        ("here", "playing"),
    )
]  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A small SST-2: `here` is positive, `playing` negative."""
    folder = tmp_path_factory.mktemp("sst2")
    text = "".join(f"{sentence}\t{label}\n" for sentence, label in ROWS)
    (folder / "train.tsv.gz").write_bytes(gzip.compress(f"sentence\tlabel\n{text * 4}".encode()))
    (folder / "dev.tsv").write_text(f"sentence\tlabel\n{text}")
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("base")
    config = tf.BertConfig(**tiny.USUAL | {"num_hidden_layers": 6})
    tf.BertModel(config).save_pretrained(folder)
    tiny.word_piece().save_pretrained(folder)
    return folder


def test_training_and_table_3(data, base, tmp_path, monkeypatch, capsys):
    options = ["--data", str(data), "--base", str(base), "-o", str(tmp_path / "model")]
    options += ["--labels", "negative,positive"]
    quick = SentimentRecipe(epochs=12, batch=16, learning_rate=3e-3)
    monkeypatch.setattr(sentiment, "SentimentRecipe", lambda **_: quick)
    assert command(["train", "sentiment", *options, "--device", "cpu"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["1.000  dev.tsv (64 rows)"]
    assert {p.name for p in (tmp_path / "model").iterdir()} == {
        "config.json", "model.safetensors", "scores.json", "tokenizer.json",
        "tokenizer_config.json",
    }  # fmt: skip
    written = json.loads((tmp_path / "model" / "scores.json").read_text())
    assert written["recipe"]["epochs"] == 12
    assert written["scores"]["dev.tsv"]["accuracy"] == 1
    assert command(["train", "sentiment", *options]) == 2
    assert "already holds a trained model" in capsys.readouterr().err

    request = Request(tmp_path / "out", sentiment=data, sentiment_model=str(tmp_path / "model"))
    table = run(["table3"], request, progress=False)["table3"]
    assert (table["rows"], table["accuracy"]) == (64, 1)
    found = attnflow.explain("the key is here", str(tmp_path / "model"), method="rollout")
    assert found.prediction.label == "positive"
    for kind in (*table["defined"].values(), table["published"]):
        assert {method: len(cells) for method, cells in kind.items()} == {
            "raw": 4, "rollout": 4, "flow": 4,
        }  # fmt: skip


def test_a_resumed_run_equals_an_uninterrupted_one(data, base, check_resuming):
    rows, recipe = read_sentiment(data / "dev.tsv"), SentimentRecipe(batch=16)
    check_resuming(lambda: SentimentRun(base, rows, SST2, recipe, "cpu"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["sentiment", "--base", "/nowhere"], "'/nowhere' does not exist"),
        (["sentiment", "--base", "x", "--steps", "5"], "--steps is not for sentiment"),
        (["sentiment", "--base", "x", "--learning-rate", "3"], "--learning-rate 3.0 must be above"),
        (["verbs", "--corpora", "nowhere", "--epochs", "2"], "--epochs is not for verbs"),
        (["verbs", "--corpora", "nowhere", "--base", "x"], "--base is not for verbs"),
        (["verbs", "--corpora", "nowhere", "--labels", "a,b"], "--labels is not for verbs"),
        (["sentiment", "--base", "x", "--labels", "a"], "labels='a' must be two or more"),
        (
            ["sentiment", "--base", "x", "--labels", "a,b,c"],
            "no text to train on has the label 'c'",
        ),
        (["verbs", "--corpora", "nowhere"], "nowhere has no brown.zip"),
        (["verbs", "--corpora", "nowhere", "--device", "foo"], "device='foo' can't be used"),
    ],
)
def test_bad_requests_are_one_line(options, message, data, tmp_path, capsys):
    command_line = ["train", *options, "--data", str(data), "-o", str(tmp_path / "model")]
    assert command(command_line) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in " ".join(printed.err.split())


def test_missing_data_is_named(base, tmp_path):
    with pytest.raises(InputError, match=r"train\.tsv is missing: give a folder with train\.tsv"):
        train_sentiment(tmp_path, base, tmp_path / "model")


def test_a_decoder_without_padding_is_fine_tuned(data, tmp_path, capsys):
    torch.manual_seed(0)
    tokenizer = tiny.plain()
    tokenizer.pad_token, tokenizer.eos_token = None, "!"
    config = tf.GPT2Config(vocab_size=100, n_positions=64, n_embd=32, n_layer=2, n_head=4)
    tf.GPT2LMHeadModel(config).save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    out = tmp_path / "model"
    options = ["--data", str(data), "--base", str(tmp_path / "base"), "-o", str(out)]
    more = ["--epochs", "20", "--learning-rate", "3e-3", "--device", "cpu"]
    assert command(["train", "sentiment", *options, *more]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["1.000  dev.tsv (64 rows)"]
    recipe = json.loads((out / "scores.json").read_text())["recipe"]
    assert (recipe["epochs"], recipe["learning_rate"]) == (20, 3e-3)
    texts = ["the key is here", "a red cat is playing"]
    found = attnflow.explain(texts, str(out), method="rollout")
    assert [each.prediction.label for each in found] == ["1", "0"]  # as in the data
