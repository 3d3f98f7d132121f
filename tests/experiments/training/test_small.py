"""Distilling a classifier into a small one: it learns its teacher, from parts of it."""

import gzip
import itertools
import json
import random
import zipfile

import numpy as np
import pytest
import torch
import transformers as tf

import attnflow
import tiny
from attnflow.cli.app import run as command
from attnflow.views.wording.findings import find
from attnflow_experiments.training import distillation
from attnflow_experiments.training.cutting import cut_down
from attnflow_experiments.training.distillation import SmallRecipe, SmallRun, written_both_ways
from attnflow_experiments.training.labelled import read_lines
from attnflow_experiments.training.run import train_sentiment
from attnflow_experiments.training.sentiment import SentimentRecipe
from attnflow_experiments.training.subwords import choose_pieces, trim_tokenizer
from attnflow_experiments.training.variations import MASK, Lexicon, TextSampler

ROWS = [
    (f"{first} {noun} {verb} {last}", int(last == "here"))
    for first, noun, verb, last in itertools.product(
        ("the", "a", "the old", "a red"), ("key", "keys", "cat", "cabinet"), ("is", "are"),
        ("here", "playing"),
    )
]  # fmt: skip
QUICK = {"batch": 16, "vocabulary": 60, "embedding": 16, "layers": 2, "neurons": 40}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sst2")
    text = "sentence\tlabel\n" + "".join(f"{sentence}\t{label}\n" for sentence, label in ROWS)
    (folder / "train.tsv.gz").write_bytes(gzip.compress(text.encode()))
    (folder / "dev.tsv").write_text(text)
    (folder / "test-labeled.tsv").write_text(text)
    return folder


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpora")
    with zipfile.ZipFile(folder / "brown.zip", "w") as brown:
        brown.writestr("brown/ca01", "The/at cat/nn is/bez old/jj ./.\n")
    with zipfile.ZipFile(folder / "masc_tagged.zip", "w") as masc:
        masc.writestr("masc/a.txt", "A_DT red_JJ key_NN\n")
    row = "1\tkeys\tkey\tNOUN\tNNS\t_\t0\troot\t_\t_\n\n"
    (folder / "ud_english_ewt.conllu.gz").write_bytes(gzip.compress(row.encode()))
    return folder


@pytest.fixture(scope="module")
def teacher(data, tmp_path_factory):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    base, out = tmp_path_factory.mktemp("base"), tmp_path_factory.mktemp("out") / "teacher"
    tf.BertModel(tf.BertConfig(**tiny.USUAL | {"num_hidden_layers": 4})).save_pretrained(base)
    tiny.word_piece().save_pretrained(base)
    recipe = SentimentRecipe(epochs=40, batch=16, learning_rate=3e-3)
    scores = train_sentiment(
        data, base, out, labels=("absent", "present"), recipe=recipe, device="cpu"
    )
    assert scores["dev.tsv"]["accuracy"] == 1
    return out


def test_a_small_model_learns_its_teacher(data, corpora, teacher, tmp_path, monkeypatch, capsys):
    recipe = SmallRecipe(steps=120, learning_rate=3e-3, **QUICK)
    monkeypatch.setattr(distillation, "SmallRecipe", lambda **_: recipe)
    folders = ["--data", data, "--corpora", corpora, "--base", teacher, "-o", tmp_path / "small"]
    options = ["train", "sentiment", "--small", *map(str, folders), "--device", "cpu"]
    assert command(options) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "1.000  dev.tsv (64 rows)",
        "1.000  test-labeled.tsv (64 rows)",
    ]
    small = tf.AutoModelForSequenceClassification.from_pretrained(tmp_path / "small")
    assert (small.config.num_hidden_layers, small.config.embedding_size) == (2, 16)
    found = attnflow.explain("the key is here", str(tmp_path / "small"))
    assert found.prediction.label == "present"  # the teacher's labels
    assert found.options["edges"] == "relevance"
    assert find(found).sentence.startswith("Whether a text is absent or present: present; ")
    # What was written is the recipe that was used.
    assert json.loads((tmp_path / "small" / "scores.json").read_text())["recipe"]["steps"] == 120


def test_a_resumed_run_equals_an_uninterrupted_one(data, teacher, check_resuming):
    texts = [line.text for line in read_lines(data / "dev.tsv")]
    recipe = SmallRecipe(steps=24, **QUICK)
    check_resuming(lambda: SmallRun(str(teacher), texts, ["a red key"], recipe, "cpu"))


def test_with_all_parts_kept_the_start_is_close_to_the_teacher(teacher):
    network = tf.AutoModelForSequenceClassification.from_pretrained(teacher)
    with torch.no_grad():  # one component less: the rest holds the words exactly
        network.bert.embeddings.word_embeddings.weight[:, -1] = 0
    before = {name: value.clone() for name, value in network.state_dict().items()}
    size, width = network.config.vocab_size, network.config.hidden_size
    neurons = network.config.intermediate_size
    kept = torch.arange(size)
    whole = cut_down(network, kept, 16, embedding=width - 1, layers=4, neurons=neurons)
    ids = tiny.ids()["input_ids"]
    for old, new in zip(network.bert.encoder.layer, whole.electra.encoder.layer, strict=True):
        states = torch.randn(1, 5, width)
        torch.testing.assert_close(new.eval()(states)[0], old.eval()(states)[0])
    # All principal components: the embeddings before their norm, less the mean of the words.
    words = network.bert.embeddings.word_embeddings.weight
    table = whole.electra.embeddings.word_embeddings.weight
    near = torch.cdist(table, table)
    torch.testing.assert_close(near, torch.cdist(words, words), atol=1e-3, rtol=1e-3)
    assert whole(ids).logits.shape == (2, 2)
    # The teacher is left as it was.
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name])


def test_with_embeddings_of_full_width_the_start_is_the_teacher(teacher):
    network = tf.AutoModelForSequenceClassification.from_pretrained(teacher).eval()
    kept = torch.randperm(network.config.vocab_size, generator=torch.Generator().manual_seed(1))
    whole = cut_down(
        network, kept, 16, embedding=network.config.hidden_size, layers=4,
        neurons=network.config.intermediate_size,
    ).eval()  # fmt: skip
    ids = torch.arange(12).reshape(2, 6)
    found = whole.electra(ids).last_hidden_state
    torch.testing.assert_close(found, network.bert(kept[ids]).last_hidden_state)


def test_neurons_with_the_largest_weights_are_kept(teacher):
    network = tf.AutoModelForSequenceClassification.from_pretrained(teacher)
    last = network.bert.encoder.layer[-1]
    with torch.no_grad():
        last.intermediate.dense.weight[3:] *= 1e-3
    small = cut_down(network, torch.arange(30), 16, embedding=8, layers=1, neurons=3)
    kept = small.electra.encoder.layer[0].intermediate.dense.weight
    assert torch.equal(kept, last.intermediate.dense.weight[:3])


def test_a_trimmed_tokenizer_writes_every_word_of_known_characters():
    larger = tiny.word_piece()
    whole = choose_pieces(larger, [], 10**6)
    same = trim_tokenizer(larger, whole, 64)
    text = "the old keys are playing [MASK] here"
    assert same.tokenize(text) == larger.tokenize(text)
    assert same(text)["input_ids"] == [
        whole.index(piece) for piece in larger.convert_ids_to_tokens(larger(text)["input_ids"])
    ]
    fewest = choose_pieces(larger, ["keys keys cat"], 0)
    assert set(fewest) >= set(larger.all_special_tokens)
    assert all(p in larger.all_special_tokens or len(p.removeprefix("##")) == 1 for p in fewest)
    more = choose_pieces(larger, ["keys keys cat"], len(fewest) + 1)
    (added,) = set(more) - set(fewest)
    assert added in larger.tokenize("keys")


def test_texts_depend_on_seed_and_step_alone():
    lexicon = Lexicon(tiny.word_piece())
    phrases = lexicon.read([text for text, _ in ROWS])
    lexicon.find_similar(np.random.default_rng(0).normal(size=(100, 8)), neighbours=3)
    assert MASK not in lexicon.similar
    assert all(len(found) == 3 and word not in found for word, found in lexicon.similar.items())
    sampler = TextSampler(lexicon, phrases, phrases[:3], seed=0)
    random.seed(1)
    first = sampler.draw(5, 64, 30)
    random.seed(2)
    assert sampler.draw(5, 64, 30) == first
    assert sampler.draw(6, 64, 30) != first
    assert TextSampler(lexicon, phrases, phrases[:3], seed=0).draw(5, 64, 30) == first
    assert TextSampler(lexicon, phrases, phrases[:3], seed=1).draw(5, 64, 30) != first
    assert max(map(len, sampler.draw(7, 64, 30))) == 30
    assert len(sampler.draw(7, 64, 30)) == 8
    assert min(map(len, first)) > 0
    # The seven steps between share their texts by length: from one batch to the next none is lost.
    spans = sorted(sorted(map(len, sampler.draw(step, 64, 30))) for step in range(7))
    assert all(low[-1] <= high[0] for low, high in itertools.pairwise(spans))


def test_contractions_are_written_both_ways():
    assert written_both_ways("it 's not fun") == ["it 's not fun", "it's not fun"]
    assert written_both_ways("a film") == ["a film"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["verbs", "--small", "--corpora", "x"], "--small is not for verbs"),
        (["sentiment", "--small", "--base", "x"], "sentiment --small needs --corpora"),
        (["sentiment", "--small", "--corpora", "x"], "sentiment --small needs --base"),
        (["sentiment", "--corpora", "x", "--base", "x"], "--corpora is not for sentiment"),
        (
            ["sentiment", "--small", "--corpora", "x", "--base", "x", "--epochs", "2"],
            "--epochs is not for sentiment --small",
        ),
        (["sentiment", "--small", "--corpora", "nowhere", "--base", "x"], "has no brown.zip"),
    ],
)
def test_bad_requests_are_one_line(options, message, data, tmp_path, capsys):
    command_line = ["train", *options, "--data", str(data), "-o", str(tmp_path / "model")]
    assert command(command_line) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in " ".join(printed.err.split())


def test_a_teacher_must_be_a_classifier(data, corpora, tmp_path, capsys):
    tiny.build("bert").save_pretrained(tmp_path / "bare")
    tiny.word_piece().save_pretrained(tmp_path / "bare")
    folders = ["--data", data, "--corpora", corpora, "--base", tmp_path / "bare", "-o", "out"]
    assert command(["train", "sentiment", "--small", *map(str, folders)]) == 2
    assert "must be a BERT that was trained as a classifier" in " ".join(
        capsys.readouterr().err.split()
    )
