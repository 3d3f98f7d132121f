"""Prompts and answers that are easily read wrong: odd chats, characters in pieces, odd models."""

import numpy as np
import pytest
import torch
import transformers as tf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import attnflow
import talkers
from attnflow.errors import InputError, ModelError


def tokens_of(found):
    return {part.name: [found.tokens[at] for at in part.positions] for part in found.parts}


def bytes_model():
    """A Llama whose tokens are bytes."""
    vocabulary = {letter: at for at, letter in enumerate(pre_tokenizers.ByteLevel.alphabet())}
    core = Tokenizer(models.BPE(vocabulary, []))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    tokenizer = tf.PreTrainedTokenizerFast(tokenizer_object=core)
    return talkers.llama(vocab_size=len(tokenizer))[0], tokenizer


def test_a_message_is_not_found_in_the_words_of_the_template(llama):
    chat = [{"role": "key", "content": "key"}, {"role": "cat", "content": ","}]
    found = attnflow.explain_answer(chat, llama, generate=1)
    spans = {part.name: part.positions for part in found.parts}
    # [CLS] key , key [SEP] [CLS] cat , , [SEP] [CLS] here ,
    assert spans["key"] == (3,)
    assert spans["cat"] == (8,)


def test_a_message_is_not_found_in_what_a_template_adds():
    network, tokenizer = talkers.llama()
    tokenizer.chat_template = (
        "[CLS] the old cat [SEP] {% for m in messages %}[CLS] {{ m['content'] | trim }} [SEP] "
        "{% endfor %}"
    )
    chat = [{"role": "user", "content": "  old cat\n"}, {"role": "user", "content": "cat"}]
    found = attnflow.explain_answer(chat, (network, tokenizer), generate=1)
    spans = {part.name: part.positions for part in found.parts}
    assert spans["user"] == (6, 7)
    assert spans["user 2"] == (10,)


@pytest.mark.parametrize(
    "template",
    [
        "{% for m in messages | reverse %}{{ m['content'][:-1] }} {% endfor %}",
        "{% for m in messages %}{{ m['content'] }} {{ m['content'] }} {% endfor %}",
        "{{ messages[0]['content'] }}",
    ],
)
def test_messages_that_are_cut_doubled_or_left_out_are_refused(template):
    network, tokenizer = talkers.llama()
    tokenizer.chat_template = template
    chat = [{"role": "user", "content": "the cat"}, {"role": "user", "content": "red keys"}]
    with pytest.raises(InputError, match="changes message"):
        attnflow.explain_answer(chat, (network, tokenizer), generate=1)


def test_a_role_has_no_name_that_means_something_else(llama):
    roles = ["answer", "rest", "user", "user 2", "user"]
    chat = [{"role": role, "content": "the cat"} for role in roles]
    found = attnflow.explain_answer(chat, llama, generate=1)
    names = [part.name for part in found.parts]
    assert names == ["answer 2", "rest 2", "user", "user 2", "user 3", "rest", "answer"]


def test_a_character_in_pieces_is_all_of_its_tokens():
    answer = "a😀b🎉"
    found = attnflow.explain_answer(
        "the 😀", bytes_model(), answer=answer, parts={"face": "😀"}, each="tokens"
    )
    assert found.answer_text == answer
    assert len(tokens_of(found)["face"]) == 4
    assert found.rows("😀") == [1, 2, 3, 4]
    assert found.rows("b") == [5]
    assert found.rows("🎉") == [6, 7, 8, 9]
    assert found.rows("a😀b") == list(range(6))


def test_parts_alone_are_no_way_around_what_is_refused(llama):
    options = {"generate": 3, "method": "direct-all", "edges": "attention"}
    for parts_only in (False, True):
        with pytest.raises(InputError, match="reads all positions"):
            attnflow.explain_answer("the keys", llama, **options, parts_only=parts_only)
    whole = attnflow.explain_answer("the keys", llama, generate=3, method="rollout")
    alone = attnflow.explain_answer(
        "the keys", llama, generate=3, method="rollout", parts_only=True
    )
    np.testing.assert_array_equal(whole.matrix("parts"), alone.matrix("parts"))


@pytest.mark.parametrize("method", ["blank-out", "integrated", "lrp"])
def test_what_needs_a_probability_is_refused_for_encoder_decoders(method, t5):
    for options in ({"generate": 2}, {"answer": "a cat"}):
        with pytest.raises(ModelError, match="no probability to measure importance by"):
            attnflow.explain_answer("the keys", t5, method=method, **options)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"stream": 5}, "stream=5 must be a function"),
        ({"sampling": []}, "must be a dict"),
        ({"sampling": {"eos_token_id": "cat"}}, "must be a token's number, or a list of them"),
    ],
)
def test_options_that_are_none_are_refused_first(option, message, llama):
    with pytest.raises(InputError, match=message):
        attnflow.explain_answer("the keys", llama, generate=2, **option)


def test_a_generation_configuration_changes_no_answer():
    network, tokenizer = talkers.llama()
    expected = attnflow.explain_answer("the keys", (network, tokenizer), generate=4)
    stated = network.generation_config
    stated.do_sample, stated.temperature, stated.num_beams = True, 9.0, 3
    stated.num_return_sequences, stated.return_dict_in_generate = 2, True
    state = torch.random.get_rng_state()
    found = attnflow.explain_answer("the keys", (network, tokenizer), generate=4)
    assert found.tokens == expected.tokens
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize("model", ["llama", "t5"])
def test_the_token_that_was_asked_to_end_an_answer_is_no_part_of_it(model, request):
    adapter = request.getfixturevalue(model)
    draws = {"temperature": 4.0}
    whole = attnflow.explain_answer("the keys", adapter, generate=12, sampling=draws, seed=2)
    last = next(
        at
        for at in range(2, 12)
        if whole.answer_tokens[at] not in (*whole.answer_tokens[:at], "[PAD]")
    )
    end = int(adapter.tokenizer.convert_tokens_to_ids(whole.answer_tokens[last]))
    for asked in (end, [end]):
        ended = {**draws, "eos_token_id": asked}
        found = attnflow.explain_answer("the keys", adapter, generate=12, sampling=ended, seed=2)
        assert found.answer_tokens == whole.answer_tokens[:last]


def test_a_given_answer_keeps_its_blanks():
    network, tokenizer = talkers.llama()
    tokenizer.clean_up_tokenization_spaces = True
    found = attnflow.explain_answer(
        "the cat", (network, tokenizer), answer=" a cat . , red", each="tokens"
    )
    assert found.answer_text == " a cat . , red"
    assert [found.rows(word) for word in ("cat", ".", ",", "red")] == [[1], [2], [3], [4]]


def test_parts_alone_are_solved_once(llama, monkeypatch):
    """Flow to parts of a long prompt takes minutes: what was solved is not solved again."""
    from attnflow.pipeline.session import Session

    asked, scores = [], Session.scores
    monkeypatch.setattr(Session, "scores", lambda *a, **k: (asked.append(a), scores(*a, **k))[1])
    attnflow.explain_answer(
        "the keys", llama, generate=3, edges="attention", method="flow", parts_only=True
    )
    assert len(asked) == 1
