"""Prompts and answers as token ids, as vLLM returns them: the model reads exactly these.

The oracles are log-probabilities by transformers on the ids, and the same prompt as a text.
"""

import json

import numpy as np
import pytest
import torch

import attnflow
import spellers
import talkers
from attnflow.errors import InputError, ModelError
from attnflow.models.answers.interface import answers_of
from attnflow.models.text.writing import Writing

FAST = {"edges": "attention", "method": "rollout"}
PROMPT, ANSWER = "The capital of France is", " Paris. It is old"
CHAT = [{"role": "system", "content": "Rome is old"}, {"role": "user", "content": "Is it Paris?"}]
TEMPLATE = (
    "{% for m in messages %}<s>{{ m['role'] }}\n{{ m['content'] }}</s>\n{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)


def log_probabilities(network, prompt, answer):
    with torch.no_grad():
        rows = network(torch.tensor([[*prompt, *answer]])).logits[0].double().log_softmax(-1)
    return [float(rows[len(prompt) - 1 + at, number]) for at, number in enumerate(answer)]


@pytest.mark.parametrize("name", spellers.KINDS)
def test_the_model_reads_exactly_the_ids_that_are_given(name):
    """However they are cut: a sampled answer need not be what a tokenizer makes of its text."""
    tokenizer = spellers.build(name)
    network = talkers.llama(vocab_size=len(tokenizer))[0]
    model = attnflow.load_model((network, tokenizer))
    first = tokenizer(PROMPT)["input_ids"]
    rest = tokenizer(PROMPT + ANSWER, add_special_tokens=False)["input_ids"]
    letters = [i for each in "Paris" for i in tokenizer.encode(each, add_special_tokens=False)]
    for prompt, answer in [(first, rest[-4:]), (rest[1:-3], rest[-3:]), (rest[:2], letters)]:
        found = attnflow.explain_answer(prompt, model, answer=answer, **FAST)
        assert len(found.tokens) == len(prompt) + len(answer)
        expected = log_probabilities(network, prompt, answer)
        np.testing.assert_allclose(found.log_probabilities, expected, atol=1e-5)
    assert found.answer_text.replace(" ", "").casefold() == "paris"


@pytest.mark.parametrize("name", spellers.KINDS)
def test_canonical_ids_are_their_text(name):
    tokenizer = spellers.build(name)
    model = attnflow.load_model((talkers.llama(vocab_size=len(tokenizer))[0], tokenizer))
    # What the tokenizer changes in a text can't be seen in ids.
    text = tokenizer.decode(tokenizer(PROMPT)["input_ids"], skip_special_tokens=True)
    options = {"parts": {"land": text.split()[3]}, **FAST}
    expected = attnflow.explain_answer(text, model, answer=ANSWER, **options)
    answers = answers_of(model)
    tokens = answers.write(answers.read(text), Writing(text=ANSWER))
    ids, size = tokens.inputs["input_ids"], len(expected.answer)
    found = attnflow.explain_answer(ids[:-size], model, answer=ids[-size:], **options)
    assert (found.tokens, found.text, found.parts) == (
        expected.tokens,
        expected.text,
        expected.parts,
    )
    assert found.answer_text == expected.answer_text
    assert np.array_equal(found.scores, expected.scores)


@pytest.mark.parametrize("name", ["byte-level", "metaspace-first"])
def test_a_chat_in_ids_is_the_text_of_its_template(name):
    tokenizer = spellers.build(name)
    tokenizer.chat_template = TEMPLATE
    model = attnflow.load_model((talkers.llama(vocab_size=len(tokenizer))[0], tokenizer))
    expected = attnflow.explain_answer(CHAT, model, answer="Paris", **FAST)
    encoded = tokenizer.apply_chat_template(CHAT, add_generation_prompt=True)
    ids = list(encoded["input_ids"])
    whole = tokenizer(expected.text + "Paris", add_special_tokens=False)["input_ids"]
    assert whole[: len(ids)] == ids
    answer = torch.tensor(whole[len(ids) :])
    forms = (ids, tuple(ids), np.array(ids), torch.tensor([ids]), {"input_ids": ids}, encoded)
    for prompt in forms:
        found = attnflow.explain_answer(prompt, model, answer=answer, **FAST)
        assert found.text == expected.text
        assert found.text.startswith("<s>system\n")
        assert np.array_equal(found.log_probabilities, expected.log_probabilities)
        assert [part.name for part in found.named] == ["prompt"]
    parts = {each["role"]: each["content"] for each in CHAT}
    named = attnflow.explain_answer(ids, model, answer=answer, parts=parts, **FAST)
    assert named.parts[1:3] == expected.parts[:2]  # after what is in neither
    assert np.array_equal(named.part_scores[:, 1:3], expected.part_scores[:, :2])


def test_several_prompts_in_ids(llama):
    texts, answers = ["the cat is", "the keys to the"], [" old", " cabinet are"]
    prompts, given = (
        [llama.tokenizer(each)["input_ids"] for each in kind] for kind in (texts, answers)
    )
    expected = attnflow.explain_answer(texts, llama, answer=answers)
    for one, other in zip(
        attnflow.explain_answer(prompts, llama, answer=given), expected, strict=True
    ):
        assert np.array_equal(one.scores, other.scores)
    both = attnflow.explain_answer(prompts, llama, answer=given[0])  # one answer for both
    assert [each.answer_text for each in both] == [expected[0].answer_text] * 2
    (written,) = attnflow.explain_answer([prompts[0]], llama, generate=2)
    same = attnflow.explain_answer(texts[0], llama, generate=2)
    assert np.array_equal(written.scores, same.scores)


def test_the_token_that_ends_an_answer_is_left_out():
    """Servers return it; an answer that is written here is explained without it, too."""
    network, tokenizer = talkers.llama()
    ids = tokenizer("the cat is old")["input_ids"]
    network.generation_config.eos_token_id = 0
    found = attnflow.explain_answer(ids[:2], (network, tokenizer), answer=[*ids[2:], 0])
    assert found.answer_text.split() == ["is", "old"]
    with pytest.raises(ModelError, match="nothing to explain"):
        attnflow.explain_answer(ids, (network, tokenizer), answer=[0])


def test_records_of_a_server_are_read_as_they_are(llama):
    """vLLM's own outputs, its OpenAI-style responses with ids, and messages with a choice."""
    prompt, answer = (llama.tokenizer(each)["input_ids"] for each in ("the cat is old", "a mat"))
    expected = attnflow.explain_answer(prompt, llama, answer=answer)
    own = {"prompt_token_ids": prompt, "outputs": [{"text": "a mat", "token_ids": answer}]}
    api = {"prompt_token_ids": prompt, "choices": [{"message": {}, "token_ids": answer}]}
    flat = {"prompt_token_ids": prompt, "token_ids": answer, "messages": CHAT}
    for record in (own, api, flat, {"prompt_token_ids": prompt, "response": api}):
        for one in (record, json.loads(json.dumps(record))):
            found = attnflow.explain_answer(one, llama)
            assert np.array_equal(found.scores, expected.scores)
    (written,) = attnflow.explain_answer([own], llama, generate=2)
    alone = attnflow.explain_answer(prompt, llama, generate=2)
    assert np.array_equal(written.scores, alone.scores)
    said = {"messages": CHAT, "choices": [{"message": {"content": "a mat"}}]}
    texts = attnflow.explain_answer([said, own], llama)
    chat = attnflow.explain_answer(CHAT, llama, answer="a mat")
    assert np.array_equal(texts[0].scores, chat.scores)
    assert np.array_equal(texts[1].scores, expected.scores)


def test_records_that_say_too_much_or_too_little_are_refused(llama):
    ids = {"prompt_token_ids": [5, 6]}
    with pytest.raises(InputError, match="a record has 2 answers to its prompt"):
        attnflow.explain_answer({**ids, "outputs": [{"token_ids": [7]}, {"token_ids": [8]}]}, llama)
    with pytest.raises(InputError, match="an answer without token_ids; give the ids of both"):
        attnflow.explain_answer({**ids, "choices": [{"message": {"content": "a"}}]}, llama)


def test_what_reads_an_answer_takes_its_ids(llama):
    answer = " a red mat ! the keys are here ."
    prompt, ids = (llama.tokenizer(each)["input_ids"] for each in ("the cat is old", answer))
    for explain in (attnflow.cite, attnflow.steps):
        found = explain(prompt, llama, answer=ids, parts={"cat": "the cat"})
        given = explain("the cat is old", llama, answer=answer, parts={"cat": "the cat"})
        assert json.dumps(found.to_dict()) == json.dumps(given.to_dict())


@pytest.mark.parametrize(
    ("prompt", "answer", "message"),
    [
        ([1, 2, 9999], [3], "token id 9999 does not exist"),
        ([5, -1], [3], "token id -1 does not exist"),
        ([5, 6], [9999], "token id 9999 does not exist"),
        ([5, 6], [-1], "token id -1 does not exist"),
        ([[5, 6], [7]], [[8]], "1 answers and 2 texts"),
        ([5, 6], [], "0 answers and 1 texts"),
        ([5, 6], np.array([[5, 6], [7, 8]]), "answer"),
        (torch.tensor([[5, 6], [7, 8]]), [5], "or a list of token ids"),
        ([5] * 3000, [5], "Give fewer$"),
    ],
)
def test_ids_that_can_not_be_read_are_named(llama, prompt, answer, message):
    with pytest.raises(InputError, match=message):
        attnflow.explain_answer(prompt, llama, answer=answer, truncate=True)


def test_ids_of_an_encoder_decoder(t5):
    text = "the keys to the cabinet"
    expected = attnflow.explain_answer(text, t5, answer="are here", **FAST)
    ids = t5.tokenizer(text)["input_ids"]
    found = attnflow.explain_answer(ids, t5, answer="are here", **FAST)
    assert np.array_equal(found.scores, expected.scores)
    with pytest.raises(InputError, match="give the answer as text"):
        attnflow.explain_answer(ids, t5, answer=[5, 6])


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thinking"])
def test_the_thoughts_of_a_message_come_before_its_content(llama, name):
    last = {"role": "assistant", "content": "a mat", name: "the cat is red"}
    found = attnflow.explain_answer([*CHAT, last], llama, **FAST)
    written = "<think>\nthe cat is red\n</think>\n\na mat"
    expected = attnflow.explain_answer(CHAT, llama, answer=written, **FAST)
    assert found.answer_text == expected.answer_text
    assert np.array_equal(found.log_probabilities, expected.log_probabilities)
    cut = attnflow.explain_answer([*CHAT, {**last, "content": None}], llama, **FAST)
    begun = attnflow.explain_answer(CHAT, llama, answer="<think>\nthe cat is red", **FAST)
    assert cut.answer_text == begun.answer_text
    with pytest.raises(InputError, match=f"message 3 has {name} "):
        attnflow.explain_answer([*CHAT, {**last, name: {"effort": "high"}}], llama)


@pytest.mark.parametrize("end", ["<think>\n", "<think>"])
def test_thoughts_are_opened_once(end):
    """Templates of some models end in the mark that opens thoughts."""
    tokenizer = spellers.build("byte-level")
    network = talkers.llama(vocab_size=len(tokenizer))[0]
    tokenizer.chat_template = TEMPLATE.replace("{% endif %}", end + "{% endif %}")
    logged = [*CHAT, {"role": "assistant", "content": "\n\nParis", "reasoning": "Is it Rome?"}]
    found = attnflow.explain_answer(logged, (network, tokenizer), **FAST)
    assert (found.text + found.answer_text).count("<think>\nIs it Rome?\n</think>\n\nParis") == 1
    assert found.text.count("<think>") + found.answer_text.count("<think>") == 1
