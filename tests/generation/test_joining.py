"""An answer that is given as text is read behind its prompt as the two texts together are.

The oracle is the tokenizer on the whole text, its decoding, and log-probabilities by transformers.
"""

import random

import numpy as np
import pytest
import torch
import transformers as tf
from starlette.testclient import TestClient

import attnflow
import spellers
import talkers
from attnflow.models.answers.interface import answers_of
from attnflow.models.text.writing import Writing
from attnflow.views.explorer.server.app import make_app

PROMPT = "The capital of France is"
FAST = {"edges": "attention", "method": "rollout"}
LLAMA2 = (
    "{% for m in messages %}{% if m['role'] == 'user' %}<s>[INST] {{ m['content'] }} [/INST]"
    "{% else %} {{ m['content'] }} </s>{% endif %}{% endfor %}"
)


def model_of(name):
    tokenizer = spellers.build(name)
    return talkers.llama(vocab_size=len(tokenizer))[0], tokenizer


def log_probabilities(network, ids, size):
    """Of the last ``size`` tokens, each given those before it."""
    with torch.no_grad():
        rows = network(torch.tensor([ids])).logits[0].double().log_softmax(-1)
    return [float(rows[at - 1, ids[at]]) for at in range(len(ids) - size, len(ids))]


def whole_ids(tokenizer, prompt, answer):
    """The prompt's tokens and the answer's, where the former begin those of the whole text."""
    first, both = (tokenizer(text)["input_ids"] for text in (prompt, prompt + answer))
    assert both[: len(first)] == first
    return both, len(both) - len(first)


@pytest.mark.parametrize("name", spellers.KINDS)
@pytest.mark.parametrize("answer", [" Paris", " Paris. It is old", ", Paris"])
def test_an_answer_is_read_as_in_the_whole_text(name, answer):
    network, tokenizer = model_of(name)
    ids, size = whole_ids(tokenizer, PROMPT, answer)
    found = attnflow.explain_answer(PROMPT, (network, tokenizer), answer=answer, **FAST)
    assert len(found.answer) == size
    expected = log_probabilities(network, ids, size)
    np.testing.assert_allclose(found.log_probabilities, expected, atol=1e-5)
    if name != "word-piece":
        assert found.answer_text == answer
        assert not found.warnings


def joined_ids(model, prompt, answer):
    """The tokens of prompt and answer as attnflow reads them, and what it says of them."""
    answers = answers_of(attnflow.load_model(model))
    read = answers.write(answers.read(prompt), Writing(text=answer))
    return read.inputs["input_ids"], read.notices


@pytest.mark.parametrize("name", spellers.KINDS)
def test_an_answer_within_a_word_goes_on_with_it(name):
    network, tokenizer = model_of(name)
    first = tokenizer("The capital is Par")["input_ids"]
    ids, notices = joined_ids((network, tokenizer), "The capital is Par", "is")
    assert ids[: len(first)] == first
    (last,) = ids[len(first) :]
    assert tokenizer.convert_ids_to_tokens(last) == ("##is" if name == "word-piece" else "is")
    assert tokenizer.decode(ids, skip_special_tokens=True).strip().lower() == "the capital is paris"
    assert ["reads “Paris”" in notice for notice in notices] == [True]
    found = attnflow.explain_answer("The capital is Par", (network, tokenizer), answer="is", **FAST)
    expected = log_probabilities(network, ids, 1)
    np.testing.assert_allclose(found.log_probabilities, expected, atol=1e-5)


PIECES = [
    "Par",
    "is",
    " is",
    "Paris",
    " Paris",
    " ",
    "\n",
    ". ",
    ":",
    "The",
    "été",
    " 東京",
    "🎉",
    "?",
]


@pytest.mark.parametrize("name", spellers.LOSSLESS)
def test_any_answer_behind_any_prompt_decodes_to_the_two_texts(name):
    network, tokenizer = model_of(name)
    drawn = random.Random(7)
    tried = 0
    for _ in range(60):
        prompt = "The" + "".join(drawn.choices(PIECES, k=drawn.randrange(4)))
        answer = "".join(drawn.choices(PIECES, k=drawn.randrange(1, 5)))
        if not answer.strip():
            continue
        ids, notices = joined_ids((network, tokenizer), prompt, answer)
        first = tokenizer(prompt)["input_ids"]
        assert ids[: len(first)] == first
        put_before = len(first) - len(tokenizer(prompt, add_special_tokens=False)["input_ids"])
        whole = tokenizer(prompt + answer, add_special_tokens=False)["input_ids"]
        read = tokenizer.decode(ids[put_before:])
        assert read == tokenizer.decode(whole), (prompt, answer)
        assert not [notice for notice in notices if "as it stands" in notice]
        tried += 1
    assert tried > 30


@pytest.mark.parametrize("name", spellers.KINDS)
def test_what_was_written_can_be_given_as_the_answer(name):
    network, tokenizer = model_of(name)
    written = attnflow.explain_answer(PROMPT, (network, tokenizer), generate=5, **FAST)
    given = attnflow.explain_answer(
        PROMPT, (network, tokenizer), answer=written.answer_text, **FAST
    )
    ids = tokenizer(PROMPT + written.answer_text)["input_ids"]
    own = joined_ids((network, tokenizer), PROMPT, written.answer_text)[0]
    np.testing.assert_allclose(
        given.log_probabilities,
        log_probabilities(network, own, len(given.answer)),
        atol=1e-5,
    )
    assert given.answer_text.strip() == written.answer_text.strip()
    if ids == own and len(given.answer) == len(written.answer):  # tokens as a tokenizer has them
        np.testing.assert_allclose(given.log_probabilities, written.log_probabilities, atol=1e-6)


def test_every_byte_of_a_character_stands_where_it_does():
    answer = " a 🎉 b 東"
    found = attnflow.explain_answer(
        PROMPT, model_of("llama2"), answer=answer, each="tokens", **FAST
    )
    assert found.answer_text == answer
    assert [found.answer_tokens[row] for row in found.rows("🎉")] == [
        *("<0xF0>", "<0x9F>", "<0x8E>", "<0x89>")
    ]
    assert len(found.rows("東")) == 3
    assert set(found.rows("b")).isdisjoint(found.rows("🎉"))


def test_a_prompt_that_ends_in_a_space_says_so():
    for name in spellers.KINDS:
        model = model_of(name)
        seen = name != "word-piece"  # which reads no blanks
        answered = attnflow.explain_answer
        ways = (answered, {"generate": 2}), (answered, {"answer": "Paris"}), (attnflow.explain, {})
        for explain, options in ways:
            ended = explain(PROMPT + " ", model, **options, **FAST)
            plain = explain(PROMPT, model, **options, **FAST)
            assert any("ends in a space" in each for each in ended.warnings) == seen
            assert not any("ends in a space" in each for each in plain.warnings)
    network, tokenizer = model_of("byte-level")
    ids = [*tokenizer(PROMPT + " ")["input_ids"], *tokenizer("Paris")["input_ids"]]
    found = attnflow.explain_answer(PROMPT + " ", (network, tokenizer), answer="Paris", **FAST)
    expected = log_probabilities(network, ids, len(found.answer))
    np.testing.assert_allclose(found.log_probabilities, expected, atol=1e-5)


def test_words_that_run_into_each_other_say_so():
    for name in spellers.KINDS:
        found = attnflow.explain_answer(PROMPT, model_of(name), answer="Paris", **FAST)
        assert [each for each in found.warnings if "reads “isParis”" in each], name
    for answer in (" Paris", ", Paris", "\nParis"):
        assert not attnflow.explain_answer(
            PROMPT, model_of("llama2"), answer=answer, **FAST
        ).warnings
    assert not attnflow.explain_answer("The 東", model_of("llama2"), answer="京", **FAST).warnings
    assert not attnflow.explain_answer(
        "The ภาษา", model_of("llama2"), answer="ไทย", **FAST
    ).warnings


def test_what_a_tokenizer_can_not_write_or_changes_is_said(llama):
    found = attnflow.explain_answer("the old cat", llama, answer="keys", **FAST)
    (warning,) = found.warnings
    assert "reads “the old cat keys”, not “the old catkeys”" in warning
    assert warning.endswith("begin the answer with a space")
    (warning,) = attnflow.explain_answer(
        "the old cat", llama, answer=" purple keys", **FAST
    ).warnings
    assert "reads “ [UNK] keys”, not “ purple keys”" in warning
    (warning,) = attnflow.explain_answer(
        PROMPT, model_of("word-piece"), answer=" PARIS", **FAST
    ).warnings
    assert "reads “ paris”, not “ PARIS”" in warning
    (warning,) = attnflow.explain_answer(
        PROMPT, model_of("unigram"), answer=" Ｐａｒｉｓ", **FAST
    ).warnings
    assert "reads “ Paris”, not “ Ｐａｒｉｓ”" in warning


def test_a_space_that_was_cut_off_is_not_spoken_of():
    long = "The capital of France is " * 20
    network, tokenizer = model_of("llama2")
    found = attnflow.explain(long, (network, tokenizer), truncate=True, **FAST)
    assert len(found.tokens) == 64
    assert not any("ends in a space" in each for each in found.warnings)


@pytest.mark.parametrize("name", spellers.KINDS)
def test_an_answer_in_a_chat_is_read_as_the_template_writes_it(name):
    network, tokenizer = model_of(name)
    tokenizer.chat_template = LLAMA2
    chat = [{"role": "user", "content": "Which city is the capital?"}]
    try:
        whole, prompt = (
            tokenizer(
                tokenizer.apply_chat_template(
                    [*chat, *more], tokenize=False, add_generation_prompt=True
                ),
                add_special_tokens=False,
            )["input_ids"]
            for more in ([{"role": "assistant", "content": "Paris, of France"}], [])
        )
        found = attnflow.explain_answer(
            chat, (network, tokenizer), answer="Paris, of France", **FAST
        )
        blank = attnflow.explain_answer(
            chat, (network, tokenizer), answer=" Paris, of France", **FAST
        )
    finally:
        tokenizer.chat_template = None
    ids = whole[: len(prompt) + len(found.answer)]
    assert whole[: len(prompt)] == prompt
    assert tokenizer.decode(ids).rstrip().endswith(("Paris, of France", "paris , of france"))
    expected = log_probabilities(network, ids, len(found.answer))
    np.testing.assert_allclose(found.log_probabilities, expected, atol=1e-5)
    np.testing.assert_array_equal(blank.log_probabilities, found.log_probabilities)
    said = [each for each in found.warnings if "joined" in each or "as it stands" in each]
    assert not said


def test_parts_are_deleted_before_the_same_answer():
    network, tokenizer = model_of("llama2")
    parts = {"document": "The capital of France is Paris.", "question": "Is it Paris?"}
    answer = " It is: Paris"
    found = attnflow.explain_answer(
        parts, (network, tokenizer), answer=answer, deletions=True, **FAST
    )
    text = "\n\n".join(parts.values())
    ids, size = whole_ids(tokenizer, text, answer)
    whole = np.array(log_probabilities(network, ids, size))
    for number, part in enumerate(found.parts[:2]):
        left = [each for at, each in enumerate(ids) if at not in part.positions]
        drop = whole - log_probabilities(network, left, size)
        np.testing.assert_allclose(found.drops[:, number], drop, atol=1e-5)


def test_many_answers_are_what_each_is_alone():
    model = model_of("metaspace-always")
    prompts, answers = [PROMPT, "It is Par", PROMPT + ":"], [" Paris", "is", " Rome, and Paris"]
    together = attnflow.explain_answer(prompts, model, answer=answers, **FAST)
    for prompt, answer, found in zip(prompts, answers, together, strict=True):
        alone = attnflow.explain_answer(prompt, model, answer=answer, **FAST)
        assert alone.tokens == found.tokens
        np.testing.assert_array_equal(alone.log_probabilities, found.log_probabilities)


def t5_of(tokenizer):
    torch.manual_seed(0)
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_decoder_layers": 2}
    config = tf.T5Config(
        vocab_size=len(tokenizer), **sizes, num_heads=4, decoder_start_token_id=3, eos_token_id=None
    )
    return talkers.seeded(tf.T5ForConditionalGeneration(config))


@pytest.mark.parametrize("name", ["unigram", "llama2", "byte-level", "metaspace-first"])
def test_the_answer_of_an_encoder_decoder_is_a_text_of_its_own(name):
    tokenizer = spellers.build(name)
    network = t5_of(tokenizer)
    ids = [3, *tokenizer("It is Paris")["input_ids"]]  # with BOS where the tokenizer puts it
    source = torch.tensor([tokenizer(PROMPT)["input_ids"]])
    with torch.no_grad():
        output = network(input_ids=source, decoder_input_ids=torch.tensor([ids]))
    rows = output.logits[0].double().log_softmax(-1)
    model = (network, tokenizer)
    found = attnflow.explain_answer(PROMPT, model, answer="It is Paris", **FAST)
    expected = [float(rows[at - 1, ids[at]]) for at in range(1, len(ids))]
    np.testing.assert_allclose(found.log_probabilities, expected, atol=1e-5)
    assert not found.warnings


def test_a_changed_answer_of_an_encoder_decoder_says_so():
    tokenizer = spellers.build("unigram")
    model = (t5_of(tokenizer), tokenizer)
    (warning,) = attnflow.explain_answer(PROMPT, model, answer="Ｐａｒ", **FAST).warnings
    assert "reads “Par”, not “Ｐａｒ”" in warning


def test_a_server_joins_prompt_and_answer_the_same_way():
    network, tokenizer = model_of("llama2")
    ids, size = whole_ids(tokenizer, PROMPT, " Paris")
    app = make_app({"tiny": attnflow.load_model((network, tokenizer))})
    with TestClient(app, "http://localhost") as client:
        asked = {"text": PROMPT, "answer": " Paris", "method": "rollout", "edges": "attention"}
        said = client.post("/api/answer", json=asked).json()["generation"]
        shared = client.post("/api/answer", json={**asked, "answer": "Paris"}).json()
    expected = log_probabilities(network, ids, size)
    np.testing.assert_allclose(np.log(said["probabilities"]), expected, atol=1e-4)
    assert "reads “isParis”" in str(shared)
