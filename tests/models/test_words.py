"""Tokens to words, for the three kinds of subwords."""

import pytest
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerFast

import tiny
from attnflow.models.outputs import token_indices
from attnflow.models.text.tokens import assign_words, name_token, split_words, tokenize

TRAINING = ["the keys to the cabinet are here", "playing with the cat, and don't stop!", "été"] * 3


def word_piece():
    return tiny.word_piece()


def byte_level():
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.post_processor = processors.ByteLevel(trim_offsets=True)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    core.train_from_iterator(
        TRAINING, trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet)
    )
    return PreTrainedTokenizerFast(tokenizer_object=core, clean_up_tokenization_spaces=False)


def sentence_piece():
    core = Tokenizer(models.Unigram())
    core.normalizer = normalizers.NFKC()
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    core.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=60, unk_token="<unk>", special_tokens=["<unk>"])
    core.train_from_iterator(TRAINING, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=core, unk_token="<unk>", clean_up_tokenization_spaces=False
    )


KINDS = {"WordPiece": word_piece, "BPE": byte_level, "SentencePiece": sentence_piece}
TEXTS = {
    "the cat, playing!": ["the", "cat", ",", "playing", "!"],
    "don't  stop": ["don't", "stop"],
    "great 👩‍👩‍👧 day": ["great", "👩‍👩‍👧", "day"],
    "naïve été": ["naïve", "été"],
    "ok 👍🏽 !": ["ok", "👍🏽", "!"],
    "wait... what?": ["wait", "...", "what", "?"],
}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_subword_finds_the_words_of_the_text(kind, text):
    found = tokenize(KINDS[kind](), text, None, truncate=False)
    assert list(found.word_texts) == TEXTS[text]
    owners = [word for word in found.word_ids if word is not None]
    assert owners == sorted(owners)
    assert set(owners) == set(range(len(found.word_texts)))
    # only special tokens belong to no word
    if kind != "WordPiece":
        assert None not in found.word_ids
    else:
        assert [i for i, word in enumerate(found.word_ids) if word is None] == [0, len(found) - 1]


def test_byte_level_tokens_are_shown_as_text():
    found = tokenize(byte_level(), "the été 😀", None, truncate=False)
    assert "Ġ" not in "".join(found.names)
    assert found.names[0] == "the"
    assert "😀" in found.names
    assert found.word_texts == ("the", "été", "😀")


def test_bytes_that_are_no_character_are_shown_as_bytes():
    tokenizer = byte_level()
    first = tokenizer("😀")["input_ids"][0]
    assert tokenizer.convert_ids_to_tokens(first) == "ð"
    assert name_token(tokenizer, first) == r"\xf0"


def test_blanks_are_visible():
    tokenizer = byte_level()
    newline = tokenizer("\n")["input_ids"][0]
    assert name_token(tokenizer, newline) == "⏎"
    assert name_token(tokenizer, 10**6) == "[1000000]"


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_is_found_again_by_its_name(kind):
    """A predicted label can be a target: it is among the tokens that are displayed so."""
    tokenizer = KINDS[kind]()
    for token in range(len(tokenizer)):
        name = name_token(tokenizer, token)
        found = token_indices(tokenizer, name, len(tokenizer), "a model")
        assert token in found
        assert {name_token(tokenizer, each) for each in found} == {name}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("我爱猫 cats", ["我", "爱", "猫", "cats"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("مرحبا بالعالم", ["مرحبا", "بالعالم"]),
        ("well-known `code` x^2", ["well", "-", "known", "`", "code", "`", "x", "^", "2"]),
        ("'quoted' rock’n’roll", ["'", "quoted", "'", "rock’n’roll"]),
        ("snake_case 3.14", ["snake_case", "3", ".", "14"]),
        ("🇫🇷 é", ["🇫🇷", "é"]),
        ("", []),
    ],
)
def test_words_of_many_scripts(text, expected):
    assert [text[a:b] for a, b in split_words(text)] == expected


def test_a_token_over_several_words_makes_them_one():
    ids, texts = assign_words("a.b c", [(0, 3), (4, 5)], frozenset())
    assert ids == (0, 1)
    assert texts == ("a.b", "c")


def test_a_token_of_blanks_goes_with_what_follows():
    ids, _ = assign_words("a  b", [(0, 1), (1, 2), (2, 4)], frozenset())
    assert ids == (0, 1, 1)
