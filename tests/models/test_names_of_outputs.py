"""A target by its name, where several outputs are displayed alike: the likeliest of them."""

import numpy as np
import pytest
import torch
import transformers as tf
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

import attnflow
import tiny
from attnflow.cli.app import run
from attnflow.errors import InputError
from attnflow.models.outputs import label_indices, output_index, token_indices

WORDS = ["the", "cat", "dog", "sat", "ran", "on", "mat"]
PIECES = ["<unk>", *WORDS, *(f"▁{word}" for word in WORDS)]
NUMBER = {piece: number for number, piece in enumerate(PIECES)}
BARE, START = NUMBER["cat"], NUMBER["▁cat"]


def blanks(normalizer=None):
    """A tokenizer whose words are tokens of their own with and without the blank before them."""
    core = Tokenizer(models.WordLevel(NUMBER, unk_token="<unk>"))
    core.decoder = decoders.Metaspace(prepend_scheme="never")
    if normalizer is None:
        core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    else:
        core.normalizer = normalizer
    return tf.PreTrainedTokenizerFast(
        tokenizer_object=core, unk_token="<unk>", clean_up_tokenization_spaces=False
    )


@pytest.fixture(scope="module")
def decoder():
    return attnflow.load_model((tiny.build("llama"), blanks()))


@pytest.fixture(scope="module")
def texts(decoder):
    """Two texts: after one a bare “cat” is likelier, after the other one with a blank."""
    found = {}
    for text in (f"{a} {b} {c}" for a in WORDS for b in WORDS for c in WORDS):
        tokens = decoder.tokenize(text)
        with torch.no_grad():
            logits = decoder.logits([tokens], [len(tokens) - 1])[0]
        found.setdefault(BARE if logits[BARE] > logits[START] else START, text)
    return found


def test_both_are_displayed_alike_and_a_blank_written_out_is_exact():
    tokenizer = blanks()
    assert token_indices(tokenizer, "cat", len(PIECES), "it") == (START, BARE)
    assert token_indices(tokenizer, " cat", len(PIECES), "it") == (START,)
    assert token_indices(tokenizer, BARE, len(PIECES), "it") == (BARE,)
    for unknown in ("bird", " bird", "cat "):
        with pytest.raises(InputError, match="is not a single token of it"):
            token_indices(tokenizer, unknown, len(PIECES), "it")


def test_a_tokenizer_that_puts_a_blank_before_every_text():
    before = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer = blanks(before)
    assert token_indices(tokenizer, "cat", len(PIECES), "it") == (START, BARE)
    assert token_indices(tokenizer, " cat", len(PIECES), "it") == (START,)


def test_what_is_spelled_otherwise_than_displayed_is_the_likelier_of_those():
    tokenizer = blanks()
    tokenizer.backend_tokenizer.normalizer = normalizers.Lowercase()
    assert token_indices(tokenizer, "CAT", len(PIECES), "it") == (START, BARE)


def test_labels_of_one_name():
    config = tf.BertConfig(id2label={0: "yes", 1: "no", 2: "yes"})
    assert label_indices(config, "yes", "it") == (0, 2)
    assert label_indices(config, 1, "it") == (1,)
    assert label_indices(config, " no ", "it") == (1,)


class Displayed:
    """Outputs that have these numbers."""

    name = "it"

    def output_indices(self, _):
        return (3, 1)

    def output_name(self, _):
        return "cat"


@pytest.mark.parametrize(("values", "expected"), [([0, 5, 9, 4], 1), ([0, 4, 9, 4], 3)])
def test_the_likeliest_is_meant_and_of_equals_the_start_of_a_word(values, expected):
    assert output_index(Displayed(), "cat", torch.tensor(values)) == expected


OPTIONS = [
    {"edges": "gradient", "method": "direct"},
    {"method": "gradient-norm"},
    {"method": "lrp"},
    {"source": "logit"},
    {"method": "blank-out"},
]


@pytest.mark.parametrize("likelier", [BARE, START])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda each: "-".join(each.values()))
def test_a_name_is_the_likelier_one_at_its_place(decoder, texts, likelier, options):
    text = texts[likelier]
    for role, other in (("target", "contrast"), ("contrast", "target")):
        given = {**options, other: "dog"} if role == "contrast" else options
        named = attnflow.explain(text, decoder, **given, **{role: "cat"})
        expected = attnflow.explain(text, decoder, **given, **{role: likelier})
        np.testing.assert_array_equal(named.scores, expected.scores)
        less = attnflow.explain(text, decoder, **given, **{role: BARE + START - likelier})
        assert not np.allclose(named.scores, less.scores)


@pytest.mark.parametrize("likelier", [BARE, START])
def test_a_blank_written_out_is_exact_whatever_is_likelier(decoder, texts, likelier):
    options = {"edges": "gradient", "method": "direct"}
    named = attnflow.explain(texts[likelier], decoder, target=" cat", **options)
    exact = attnflow.explain(texts[likelier], decoder, target=START, **options)
    np.testing.assert_array_equal(named.scores, exact.scores)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda each: "-".join(each.values()))
def test_of_many_texts_each_has_its_own(decoder, texts, options):
    both = list(texts.values())
    together = attnflow.explain(both, decoder, target="cat", **options)
    for text, found in zip(both, together, strict=True):
        alone = attnflow.explain(text, decoder, target="cat", **options)
        np.testing.assert_allclose(found.scores, alone.scores, rtol=1e-4, atol=1e-7)


def test_functions_with_more_options_and_routes(decoder, texts):
    for likelier, text in texts.items():
        for ask in (attnflow.blank_out, attnflow.gradients):
            named, exact = (ask(text, decoder, target=each) for each in ("cat", likelier))
            np.testing.assert_array_equal(named.scores, exact.scores)
        named, exact = (
            attnflow.routes(text, decoder, to=0, edges="gradient", target=each)
            for each in ("cat", likelier)
        )
        assert named.value == exact.value


def test_runs_and_evaluations(decoder, texts, tmp_path):
    def rows(name):
        return [
            {"text": text, "y": "cat" if name else likelier} for likelier, text in texts.items()
        ]

    options = {"edges": "gradient", "methods": "direct", "target_column": "y"}
    named, exact = (
        attnflow.run(rows(name), tmp_path / str(name), decoder, **options) for name in (True, False)
    )
    for one, other in zip(named, exact, strict=True):
        np.testing.assert_array_equal(one.scores, other.scores)
    named, exact = (
        attnflow.evaluate(
            rows(name), decoder, edges="gradient", methods="direct", target_column="y"
        )
        for name in (True, False)
    )
    np.testing.assert_array_equal(named.values, exact.values)


def test_target_and_contrast_of_one_name(decoder, texts):
    options = {"edges": "gradient", "method": "direct"}
    with pytest.raises(InputError, match="the same"):
        attnflow.explain(texts[BARE], decoder, target=" cat", contrast=START, **options)
    with pytest.raises(InputError, match="is the target itself"):
        attnflow.explain(texts[START], decoder, target=" cat", contrast="cat", **options)
    found = attnflow.explain(texts[BARE], decoder, target=" cat", contrast="cat", **options)
    exact = attnflow.explain(texts[BARE], decoder, target=START, contrast=BARE, **options)
    np.testing.assert_array_equal(found.scores, exact.scores)


def test_commands_and_pages(decoder, texts, tmp_path, capsys):
    folder = tmp_path / "model"
    decoder.network.save_pretrained(folder)
    decoder.tokenizer.save_pretrained(folder)

    def printed(command, text, target):
        asked = ["-m", str(folder), "--edges", "gradient", "--target", str(target)]
        assert run([*command, text, *asked]) == 0
        return capsys.readouterr().out

    def drawn(text, target):
        file = tmp_path / f"{target}.svg"
        printed(["figure", "heatmap", "-o", str(file), "--force"], text, target)
        return file.read_bytes()

    for likelier, text in texts.items():
        other = BARE + START - likelier
        for command in (["explain", "--json"], ["compare"], ["routes", "--to", "0"]):
            named, exact, less = (printed(command, text, each) for each in ("cat", likelier, other))
            assert named == exact
            assert named != less
        assert drawn(text, "cat") == drawn(text, likelier)
        pages = [
            attnflow.explore(text, decoder, edges="gradient", target=each).document["views"][0]
            for each in ("cat", likelier, other)
        ]
        scores = [str(page["scores"]) for page in pages]
        assert scores[0] == scores[1] != scores[2]
