"""Labels come from the data: any names, any number of them, or refused with the reason."""

import itertools
from dataclasses import replace

import pytest
import torch
import transformers as tf

import attnflow
import tiny
from attnflow.cli.app import run as command
from attnflow.errors import InputError
from attnflow_experiments.training import sentiment
from attnflow_experiments.training.labelled import (
    check_labels,
    decided,
    find_labels,
    number,
    read_lines,
)
from attnflow_experiments.training.run import train_sentiment
from attnflow_experiments.training.sentiment import SentimentRecipe

ENDS = {"here": "place", "playing": "game", "old": "age"}
ROWS = [
    (f"{first} {noun} is {last}", label)
    for first, noun, (last, label) in itertools.product(
        ("the", "a", "the red", "a red"), ("key", "cat"), ENDS.items()
    )
]
TEXTS = {label: f"the key is {last}" for last, label in ENDS.items()}
QUICK = SentimentRecipe(epochs=16, batch=16, learning_rate=2e-3)


def write(folder, rows, *, train="train.tsv", times=4):
    text = "".join(f"{text}\t{label}\n" for text, label in rows)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / train).write_text(f"text\tlabel\n{text * times}")
    (folder / "dev.tsv").write_text(f"text\tlabel\n{text}")
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("base")
    # A classifier with other labels than the data's: its head is made anew.
    tf.BertForSequenceClassification(tf.BertConfig(**tiny.USUAL)).save_pretrained(folder)
    tiny.word_piece().save_pretrained(folder)
    return folder


def predicted(model):
    return {label: attnflow.explain(text, model).prediction.label for label, text in TEXTS.items()}


def test_few_steps_are_told(base, tmp_path, capsys):
    recipe = replace(QUICK, epochs=1)
    train_sentiment(write(tmp_path / "data", ROWS), base, tmp_path / "out", recipe=recipe)
    told = "few steps, 6 in all: it may learn little; --epochs 9 makes more"
    assert told in capsys.readouterr().err


def test_three_labels_of_ones_own_on_the_command_line(base, tmp_path, monkeypatch, capsys):
    data, out = write(tmp_path / "data", ROWS), str(tmp_path / "model")
    monkeypatch.setattr(sentiment, "SentimentRecipe", lambda **_: QUICK)
    options = ["--data", str(data), "--base", str(base), "-o", out, "--device", "cpu"]
    assert command(["train", "sentiment", *options]) == 0
    printed = capsys.readouterr()
    assert "labels of the texts to train on: age (32), game (32), place (32)" in printed.err
    assert "few steps" not in printed.err
    assert printed.out.splitlines()[1:] == ["1.000  dev.tsv (24 rows)"]
    assert predicted(out) == {label: label for label in TEXTS}
    assert command(["explain", TEXTS["game"], "-m", out]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Whether a text is age, game or place: game" in shown
    assert "positive" not in shown


def test_numbers_are_named_in_python(base, tmp_path):
    numbers = {"game": 0, "place": 1, "age": 2}
    data = write(tmp_path / "data", [(text, numbers[label]) for text, label in ROWS])
    scores = train_sentiment(
        data, base, tmp_path / "model", labels=tuple(numbers), recipe=QUICK, device="cpu"
    )
    assert scores["dev.tsv"]["accuracy"] == 1
    assert predicted(str(tmp_path / "model")) == {label: label for label in TEXTS}
    found = attnflow.explain(TEXTS["age"], str(tmp_path / "model"))
    assert found.statistics["model"]["decides"] == "whether a text is game, place or age"


@pytest.mark.parametrize(
    ("written", "labels"),
    [
        (["b", "a", "b", "a"], ("a", "b")),
        (["10", "9", "10", "9"], ("9", "10")),  # numbers, not letters
        (["-1", "1", "0", "1", "0", "-1"], ("-1", "0", "1")),
        (["1", "x", "1", "x"], ("1", "x")),
    ],
)
def test_labels_are_those_in_the_data(written, labels, tmp_path):
    lines = read_lines(write(tmp_path, [("a text", one) for one in written]) / "dev.tsv")
    assert find_labels(lines) == labels
    assert [label for _, label in number(lines, labels, lines)] == [
        labels.index(one) for one in written
    ]


def test_what_another_file_has_is_read_as_the_training_texts_are(tmp_path):
    """Labels 1 and 2 are names there, so that a 0 elsewhere is none of them, not the first."""
    lines = read_lines(write(tmp_path / "a", [("x", "1"), ("y", "2")]) / "dev.tsv")
    other = read_lines(write(tmp_path / "b", [("x", "0")]) / "dev.tsv")
    with pytest.raises(InputError, match=r"line 2, has the label '0'; allowed: 1 or 2"):
        number(other, find_labels(lines), lines)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text\tlabel\n", "has no texts"),
        ("text\tlabel\nno label here\n", "line 2, is 'no label here'; it needs a text, a tab"),
        ("text\tlabel\na text\t\n", "it needs a text, a tab and a label"),
        ("text\tlabel\na\tx\n\nb\ty\n", "line 3, is ''"),
        ("a text\t1\nb\t1\nc\t0\n", "begins with a text of label '1': put a header in front"),
        (b"text\tlabel\n\xff\t1\n", "can't be read"),
    ],
)
def test_a_damaged_file_is_named(content, message, tmp_path):
    path = tmp_path / "train.tsv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=r"train\.tsv") as raised:
        read_lines(path)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["x"] * 4, "all texts have the label 'x'"),
        (["0.1", "0.2", "0.4", "0.5"], "4 texts have 4 different labels, such as '0.1'"),
    ],
)
def test_what_is_no_set_of_labels_is_refused(labels, message, tmp_path):
    lines = read_lines(write(tmp_path, [("a text", one) for one in labels], times=1) / "dev.tsv")
    with pytest.raises(InputError, match=message):
        find_labels(lines)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["x"], "two or more different names"),
        (["x", "x"], "two or more different names"),
        (["x", ""], "two or more different names"),
        (["ham", "eggs"], "has the label 'spam'; allowed: ham or eggs, or for all texts"),
        (["ham", "spam", "eggs"], "no text to train on has the label 'eggs'; there are ham and s"),
    ],
)
def test_labels_that_do_not_fit_are_refused(given, message, tmp_path):
    lines = read_lines(write(tmp_path, [("a", "ham"), ("b", "spam")]) / "train.tsv")
    with pytest.raises(InputError, match=message):
        check_labels(given, lines)


def test_what_is_decided_is_said_of_the_labels():
    assert decided(["0", "1"]) == "whether a text is 0 or 1"
    assert decided([str(at) for at in range(20)]) == "which of 20 labels a text has"
