"""What a model writes are its most likely tokens, one by one, whatever its configuration says.

The oracle is the argmax of the model's logits, step by step, without `generate`.
"""

import copy
import threading

import pytest
import torch

import attnflow
import heard
import talkers
from attnflow.models.answers.interface import answers_of
from attnflow.models.text.writing import Writing, plain_decoding

TEXT = "the keys to the old cabinet"
FAST = {"edges": "attention", "method": "rollout"}
# Fields of a generation configuration that change what is written, one way or another.
SETTINGS = {
    "repetition_penalty": 1e6,
    "no_repeat_ngram_size": 1,
    "encoder_no_repeat_ngram_size": 1,
    "encoder_repetition_penalty": 1e6,
    "guidance_scale": 5.0,
    "forced_eos_token_id": 3,
    "max_time": 1e-9,
    "bad_words_ids": [[each] for each in range(4, 14)],
    "suppress_tokens": list(range(4, 14)),
    "begin_suppress_tokens": list(range(4, 24)),
    "min_length": 40,
    "min_new_tokens": 20,
    "exponential_decay_length_penalty": (0, 9.0),
    "sequence_bias": [[[each], -1e9] for each in range(4, 14)],
    "typical_p": 0.01,
    "epsilon_cutoff": 0.9,
    "eta_cutoff": 0.9,
    "top_k": 3,
    "top_p": 0.01,
    "min_p": 0.9,
    "temperature": 9.0,
    "do_sample": True,
    "num_beams": 4,
    "length_penalty": -9.0,
    "early_stopping": True,
    "stop_strings": ["the", "cat", "is"],
    "prompt_lookup_num_tokens": 2,
    "renormalize_logits": True,
    "watermarking_config": {"bias": 1e6, "greenlist_ratio": 0.1},
    "force_words_ids": [[7]],
    "penalty_alpha": 0.9,
    "num_return_sequences": 3,
    "return_dict_in_generate": True,
    "output_scores": True,
    "output_logits": True,
    "output_attentions": True,
    "output_hidden_states": True,
    "max_length": 7,
    "remove_invalid_values": True,
    "cache_implementation": "static",
    "token_healing": True,
    "assistant_early_exit": 1,
    "low_memory": True,
    "dola_layers": "high",
}


def by_hand(network, ids, length, ends=()):
    """The argmax of the last position's logits, again and again."""
    written = []
    for _ in range(length):
        with torch.no_grad():
            logits = network(torch.tensor([[*ids, *written]]), use_cache=False).logits[0, -1]
        written.append(int(logits.argmax()))
        if written[-1] in ends:
            break
    return written


def pair_by_hand(network, source, start, length):
    written = list(start)
    for _ in range(length):
        with torch.no_grad():
            output = network(
                input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([written])
            )
        written.append(int(output.logits[0, -1].argmax()))
    return written


@pytest.fixture(scope="module")
def most_likely(llama):
    ids = llama.tokenizer(TEXT)["input_ids"]
    return [*ids, *by_hand(llama.network, ids, 8)]


@pytest.fixture(scope="module")
def most_likely_pair(t5):
    return pair_by_hand(t5.network, t5.tokenizer(TEXT)["input_ids"], [0], 32)


@pytest.fixture
def configured(request, llama, t5):
    """A model whose generation configuration has one more setting, for one test."""

    def configure(name, setting):
        network = {"llama": llama, "t5": t5}[name].network
        changed = copy.deepcopy(network.generation_config)
        setattr(changed, setting, copy.deepcopy(SETTINGS[setting]))
        if setting == "num_return_sequences":  # which transformers refuses alone
            changed.do_sample = True
        before, network.generation_config = network.generation_config, changed
        request.addfinalizer(lambda: setattr(network, "generation_config", before))
        return {"llama": llama, "t5": t5}[name]

    return configure


@pytest.mark.parametrize("setting", SETTINGS)
def test_no_setting_changes_what_a_decoder_writes(setting, configured, most_likely):
    model = configured("llama", setting)
    stated = copy.deepcopy(vars(model.network.generation_config))
    answers = answers_of(model)
    written = answers.write(answers.read(TEXT), Writing(8)).inputs["input_ids"]
    assert written == most_likely
    assert vars(model.network.generation_config) == stated


@pytest.mark.parametrize("setting", SETTINGS)
def test_no_setting_changes_what_an_encoder_decoder_writes(setting, configured, most_likely_pair):
    model = configured("t5", setting)
    answers = answers_of(model)
    written = answers.write(answers.read(TEXT), Writing(8)).inputs["decoder_input_ids"]
    assert len(written) > 2
    assert written == most_likely_pair[: len(written)]
    assert set(most_likely_pair[len(written) : 9]) <= {0}  # padding, which ends an answer


@pytest.mark.parametrize("setting", ["repetition_penalty", "max_time", "bad_words_ids"])
def test_an_answer_that_was_not_asked_for_is_greedy_too(setting, configured, most_likely_pair):
    own = configured("t5", setting).tokenize(TEXT).inputs["decoder_input_ids"]
    assert len(own) > 9
    assert own == most_likely_pair[: len(own)]


def test_all_settings_together_and_from_several_threads():
    network, tokenizer = talkers.llama()
    expected = by_hand(network, tokenizer(TEXT)["input_ids"], 8)
    for name in ("repetition_penalty", "no_repeat_ngram_size", "suppress_tokens", "max_time"):
        setattr(network.generation_config, name, SETTINGS[name])
    model, found = attnflow.load_model((network, tokenizer)), {}

    def work(name):
        found[name] = attnflow.explain_answer([TEXT, "a cat"], model, generate=8, **FAST)[
            0
        ].answer_tokens

    workers = [threading.Thread(target=work, args=(name,)) for name in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for tokens in found.values():
        assert tokenizer.convert_tokens_to_ids(list(tokens)) == expected


def test_what_is_asked_for_counts_all_the_same():
    network, tokenizer = talkers.llama()
    network.generation_config.suppress_tokens = list(range(4, 14))
    first = by_hand(network, tokenizer(TEXT)["input_ids"], 1)
    found = attnflow.explain_answer(
        TEXT, (network, tokenizer), generate=4, sampling={"suppress_tokens": first}, **FAST
    )
    assert not set(first) & set(tokenizer.convert_tokens_to_ids(list(found.answer_tokens)))
    assert found.options["sampling"] == {"suppress_tokens": first}


def test_the_configured_end_ends_an_answer():
    network, tokenizer = talkers.llama()
    ids = tokenizer(TEXT)["input_ids"]
    whole = by_hand(network, ids, 8)
    at = next(at for at in range(1, 8) if whole[at] not in whole[:at])
    network.generation_config.eos_token_id = whole[at]
    found = attnflow.explain_answer(TEXT, (network, tokenizer), generate=8, **FAST)
    assert tokenizer.convert_tokens_to_ids(list(found.answer_tokens)) == whole[:at]


def test_a_forced_first_token_is_kept_and_told():
    network, tokenizer = talkers.t5()
    network.generation_config.forced_bos_token_id = 9
    source = tokenizer(TEXT)["input_ids"]
    expected = pair_by_hand(network, source, [0, 9], 5)
    found = attnflow.explain_answer(TEXT, (network, tokenizer), generate=6, **FAST)
    written = tokenizer.convert_tokens_to_ids(list(found.answer_tokens))
    assert written == expected[1 : len(written) + 1]
    assert found.options["decoding"] == {"forced_bos_token_id": 9}
    own = attnflow.explain_answer(TEXT, (network, tokenizer), **FAST)
    assert own.options["decoding"] == {"forced_bos_token_id": 9}
    given = attnflow.explain_answer(TEXT, (network, tokenizer), answer="the cat", **FAST)
    assert "decoding" not in given.options


def test_what_is_undone():
    network, _ = talkers.llama()
    network.generation_config.repetition_penalty = 1.3
    network.generation_config.eos_token_id = 5
    network.generation_config.forced_eos_token_id = 0
    network.generation_config.some_entry_of_its_own = 7
    expected = {"repetition_penalty": 1.0, "forced_eos_token_id": None}
    assert plain_decoding(network) == expected
    assert plain_decoding(network, expected) == {}
    assert plain_decoding(network, kept=expected) == {}


def test_whisper_writes_its_most_likely_tokens_but_for_those_it_never_writes():
    network, processor = heard.build("whisper")
    stated = network.generation_config
    options = {"method": "rollout", "edges": "attention"}
    plain = attnflow.explain(heard.sound(), (network, processor), **options)
    stated.repetition_penalty, stated.num_beams, stated.no_repeat_ngram_size = 1e6, 3, 1
    same = attnflow.explain(heard.sound(), (network, processor), **options)
    assert same.tokens == plain.tokens
    assert same.options["decoding"] == plain.options["decoding"]
    assert set(plain.options["decoding"]) == {"begin_suppress_tokens"}
    last = processor.tokenizer.convert_tokens_to_ids(plain.tokens[-1])
    stated.suppress_tokens = [last]
    told = attnflow.explain(heard.sound(), (network, processor), **options)
    assert told.options["decoding"]["suppress_tokens"] == [last]
    assert plain.tokens[-1] not in told.tokens
