"""Every row of an answer is what explaining the text up to that token gives."""

import math
import threading

import numpy as np
import pytest
import torch

import attnflow
import talkers
import tiny
from attnflow.errors import InputError, ModelError
from attnflow.models.checks import memory
from attnflow.models.text.writing import Writing

TEXT = "the keys to the old cabinet"
WAYS = [
    ("attention", "flow"),
    ("attention", "rollout"),
    ("attention", "raw"),
    ("attention", "barrier"),
    ("norms", "widest"),
    ("alti", "rollout"),
    ("gradient", "direct"),
    ("gradient", "direct-all"),
    ("gradient", "flow"),
    ("value-zeroing", "rollout"),
    (None, "blank-out"),
    (None, "integrated"),
    (None, "lrp"),
]


PLAIN = {
    "suppress_tokens": [*range(5), *(at for at, word in enumerate(tiny.VOCABULARY) if "#" in word)]
}


def number_of(model, token):
    return int(model.tokenizer.convert_tokens_to_ids(token))


@pytest.mark.parametrize(("edges", "method"), WAYS)
def test_a_row_is_the_plain_explanation_of_the_text_before(edges, method, llama):
    options = {"method": method, **({"edges": edges} if edges else {})}
    found = attnflow.explain_answer(TEXT, llama, generate=4, each="tokens", **options)
    assert found.tokens[:6] == tuple(TEXT.split())
    assert found.answer == (6, 7, 8, 9)
    towards = edges in (None, "gradient")
    for row, at in enumerate(found.answer):
        target = {"target": number_of(llama, found.tokens[at])} if towards else {}
        alone = attnflow.explain(" ".join(found.tokens[:at]), llama, **options, **target)
        np.testing.assert_allclose(found.matrix()[row, :at], alone.values, atol=1e-6)
        assert not found.matrix()[row, at:].any()
        assert found.predictions[row].label == alone.prediction.label


@pytest.mark.parametrize("method", ["flow", "rollout"])
def test_an_encoder_decoder_answers_as_before(method, t5):
    options = {"method": method, "each": "tokens"}
    found = attnflow.explain_answer(TEXT, t5, generate=4, sampling=PLAIN, **options)
    source = len(TEXT.split())
    assert found.answer == tuple(range(source + 1, source + 5))
    own = attnflow.explain_answer(TEXT, t5, answer=found.answer_text, **options)
    np.testing.assert_allclose(own.matrix(), found.matrix(), atol=1e-9)
    for row, at in enumerate(found.answer[1:], 1):
        written = " ".join(found.tokens[source + 1 : at])
        alone = attnflow.explain(TEXT, t5, answer=written, method=method)
        assert isinstance(alone, attnflow.Attribution)
        np.testing.assert_allclose(found.matrix()[row, :at], alone.values, atol=1e-6)
        assert found.predictions[row].label == alone.prediction.label
        probability = alone.prediction.probability
        assert found.predictions[row].probability == pytest.approx(probability, rel=1e-5)


def test_gradients_of_an_encoder_decoder_are_of_each_token(t5):
    found = attnflow.explain_answer(
        TEXT, t5, generate=3, edges="gradient", method="rollout", sampling=PLAIN, each="tokens"
    )
    at = found.answer[2]
    written = " ".join(found.tokens[7:at])
    target = number_of(t5, found.tokens[at])
    options = {"edges": "gradient", "method": "rollout", "target": target}
    alone = attnflow.explain(TEXT, t5, answer=written, **options)
    np.testing.assert_allclose(found.matrix()[2, :at], alone.values, atol=1e-5)


def test_probabilities_are_the_models_own(llama):
    found = attnflow.explain_answer(TEXT, llama, generate=5)
    ids = torch.tensor([[number_of(llama, token) for token in found.tokens]])
    with torch.no_grad():
        rows = llama.network(ids).logits[0].double().log_softmax(-1)
    expected = [float(rows[at - 1, ids[0, at]]) for at in found.answer]
    np.testing.assert_allclose(found.log_probabilities, expected, atol=1e-5)
    assert [float(rows[at - 1].argmax()) for at in found.answer] == ids[0, 6:].tolist()


def test_a_given_answer_is_not_another_one(llama):
    written = attnflow.explain_answer(TEXT, llama, generate=4)
    given = attnflow.explain_answer(TEXT, llama, answer=written.answer_text)
    other = attnflow.explain_answer(TEXT, llama, answer="a red cat")
    assert given.answer_text == written.answer_text
    np.testing.assert_allclose(given.matrix(), written.matrix(), atol=1e-12)
    assert other.answer_tokens == ("a", "red", "cat")
    assert other.log_probabilities.sum() < written.log_probabilities[:3].sum()


def test_many_prompts_are_what_each_is_alone(llama):
    texts = [TEXT, "a cat", "the old red mat of the cat"]
    together = attnflow.explain_answer(texts, llama, generate=3)
    for text, found in zip(texts, together, strict=True):
        alone = attnflow.explain_answer(text, llama, generate=3)
        assert alone.tokens == found.tokens
        assert np.array_equal(alone.matrix(), found.matrix())


def test_many_pairs_are_what_each_is_alone(t5):
    texts, answers = [TEXT, "a cat", {"a": "the old mat", "b": "the cat"}], ["cat", "the keys", "a"]
    options = {"method": "flow"}
    together = attnflow.explain_answer(texts, t5, answer=answers, **options)
    for text, answer, found in zip(texts, answers, together, strict=True):
        alone = attnflow.explain_answer(text, t5, answer=answer, **options)
        assert (alone.tokens, alone.parts) == (found.tokens, found.parts)
        assert np.array_equal(alone.matrix(), found.matrix())
        assert np.array_equal(alone.matrix("parts"), found.matrix("parts"))


def test_threads_do_not_disturb_each_other(llama):
    expected = attnflow.explain_answer(TEXT, llama, generate=4, method="flow").matrix()
    found = {}

    def work(name):
        found[name] = attnflow.explain_answer(TEXT, llama, generate=4, method="flow").matrix()

    workers = [threading.Thread(target=work, args=(name,)) for name in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(np.array_equal(found[name], expected) for name in range(3))


def test_half_precision_is_read_as_it_is():
    network, tokenizer = talkers.llama()
    found = attnflow.explain_answer(TEXT, (network.to(torch.bfloat16), tokenizer), generate=3)
    assert np.isfinite(found.matrix()).all()
    assert (found.log_probabilities < 0).all()


def test_a_seed_draws_the_same_answer_and_changes_no_state(llama):
    drawn = {"sampling": {"temperature": 5.0, "top_k": 20}}
    before = torch.random.get_rng_state()
    first = attnflow.explain_answer(TEXT, llama, generate=12, seed=7, **drawn)
    again = attnflow.explain_answer(TEXT, llama, generate=12, seed=7, **drawn)
    others = {
        attnflow.explain_answer(TEXT, llama, generate=12, seed=s, **drawn).tokens for s in range(4)
    }
    assert first.tokens == again.tokens
    assert len(others) > 1
    assert torch.equal(before, torch.random.get_rng_state())
    assert first.options["seed"] == 7
    assert first.options["sampling"] == drawn["sampling"]
    unnamed = attnflow.explain_answer(TEXT, llama, generate=12, **drawn)
    seed = unnamed.options["seed"]
    assert (
        attnflow.explain_answer(TEXT, llama, generate=12, seed=seed, **drawn).tokens
        == unnamed.tokens
    )


def test_tokens_are_drawn_from_the_distribution_that_is_asked_for():
    logits = torch.tensor([[0.3, 2.0, -1.0, 1.1, 0.0]])
    writing = Writing(sampling={"temperature": 0.8, "top_k": 4}, seed=3)
    (draw,) = writing.options(None, skip_prompt=True)["logits_processor"]
    counts = np.zeros(5)
    for _ in range(2000):
        counts[int(draw(torch.zeros(1, 1, dtype=torch.long), logits).argmax())] += 1
    expected = np.exp(logits[0].numpy() / 0.8)
    expected[2] = 0  # the least likely of five is not among the first four
    assert np.abs(counts / 2000 - expected / expected.sum()).max() < 4 * math.sqrt(0.25 / 2000)
    assert counts[2] == 0


def test_the_answer_is_streamed_while_it_is_made(llama, t5):
    for model in (llama, t5):
        pieces = []
        found = attnflow.explain_answer(TEXT, model, generate=4, stream=pieces.append)
        assert "".join(pieces).split() == found.answer_text.split()


def test_tokens_and_spans_of_the_answer_are_asked_for(llama):
    found = attnflow.explain_answer(TEXT, llama, answer="a red cat is here", each="tokens")
    one = found.at(answer="cat")
    assert isinstance(one, attnflow.Attribution)
    np.testing.assert_array_equal(one.values, found.matrix()[2])
    assert one.query == found.answer[2] - 1
    assert one.options["target"] == "cat"
    np.testing.assert_array_equal(found.at(answer=-1).values, found.matrix()[4])
    span = found.mean("red cat")
    np.testing.assert_allclose(span.values, found.matrix()[1:3].mean(0))
    np.testing.assert_allclose(found.mean(slice(1, 3)).values, span.values)
    np.testing.assert_allclose(found.mean().values, found.matrix().mean(0))
    assert found.table("red cat")[0].score == pytest.approx(found.part_scores[1:3, 0].mean())
    for wrong in ("blue", slice(5, 9)):
        with pytest.raises(InputError, match="span="):
            found.mean(wrong)
    with pytest.raises(InputError, match="answer=9 does not exist; the answer has 5 tokens"):
        found.at(answer=9)


def test_an_answer_is_saved_and_loaded_without_loss(llama, tmp_path):
    found = attnflow.explain_answer(TEXT, llama, generate=4, parts={"what": "keys"})
    path = found.save(tmp_path / "answer.json.gz")
    read = attnflow.Generation.load(path)
    assert read.to_dict() == found.to_dict()
    assert np.array_equal(read.matrix(), found.matrix())
    assert read.parts == found.parts
    with pytest.raises(InputError, match="not a saved attribution"):
        attnflow.Attribution.load(path)
    plain = attnflow.explain(TEXT).save(tmp_path / "plain.json")
    with pytest.raises(InputError, match="not a saved generation"):
        attnflow.Generation.load(plain)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"generate": 0}, "generate=0 must be a number of tokens"),
        ({"generate": 3, "target": "cat"}, "target='cat' does not apply to explain_answer"),
        ({"generate": 3, "query": 1}, "query=1 does not apply to explain_answer"),
        ({"generate": 3, "words": True}, "words=True does not apply to explain_answer"),
        ({"generate": 3, "seed": 1}, "seed=1 has no effect"),
        ({"generate": 3, "sampling": {"beams": 2}}, "sampling has 'beams', which is unknown"),
        ({"generate": 3, "sampling": {"temperature": 0}}, "must be a number above 0"),
        ({"answer": "a cat", "seed": 1}, "with answer= leave them out"),
        ({"answer": " "}, "must be a text that is not empty"),
        ({"generate": 3, "method": "direct-all", "edges": "attention"}, "reads all positions"),
        ({"answer": "cat " * 60}, "prompt and answer have 6 and 60 tokens"),
    ],
)
def test_what_has_no_meaning_is_refused(options, message, llama):
    with pytest.raises(InputError, match=message):
        attnflow.explain_answer(TEXT, llama, **options)


def test_models_that_write_nothing_are_refused(llama):
    with pytest.raises(ModelError, match="writes no text that could be explained token by token"):
        attnflow.explain_answer(TEXT, generate=4)
    full = " ".join(["cat"] * 64)
    with pytest.raises(InputError, match="there is no space left for an answer"):
        attnflow.explain_answer(full, llama, generate=4)


def test_an_answer_ends_where_the_model_ends_it():
    ends = talkers.llama(eos_token_id=list(range(talkers.SIZE)))
    with pytest.raises(ModelError, match="ends its answer immediately"):
        attnflow.explain_answer(TEXT, ends, generate=4)


def test_gradients_that_no_memory_is_for_are_refused_before_work(llama, monkeypatch):

    size = len(attnflow.explain_answer(TEXT, llama, generate=3, edges="gradient").tokens)
    needed = memory.TAPE_BYTES * 3 * 4 * size**2
    monkeypatch.setattr(memory, "memory_of", lambda _: needed)
    attnflow.explain_answer(TEXT, llama, generate=3, edges="gradient")
    monkeypatch.setattr(memory, "memory_of", lambda _: needed - 1)
    with pytest.raises(ModelError, match=rf"gradients by the attention of {size} tokens"):
        attnflow.explain_answer(TEXT, llama, generate=3, edges="gradient")
    found = attnflow.explain_answer(TEXT, llama, generate=3)
    assert (found.options["edges"], found.method) == ("attention", "flow")
    assert any("gradients by the attention" in each for each in found.warnings)
    with pytest.raises(ModelError, match="Use batch_size=1, a shorter text"):
        attnflow.explain([TEXT] * 4, llama, edges="gradient", batch_size=4)


@pytest.mark.parametrize("name", ["llama", "t5"])
def test_an_answer_that_was_cut_says_so(name, request):
    model = request.getfixturevalue(name)
    found = attnflow.explain_answer(TEXT, model, generate=3, edges="attention", method="rollout")
    assert found.cut_at == 3
    assert found.stopped == " … (stopped at 3 tokens)"
    assert repr(found).endswith(f"{found.answer_text!r} … (stopped at 3 tokens)>")
    assert attnflow.Generation.from_dict(found.to_dict()).cut_at == 3
    options = {"generate": 3, "edges": "attention", "method": "rollout"}
    last = model.tokenizer.convert_tokens_to_ids(found.answer_tokens[-1])
    if found.answer_tokens.count(found.answer_tokens[-1]) == 1:
        # Where the third token ends it, nothing was cut.
        ended = attnflow.explain_answer(TEXT, model, sampling={"eos_token_id": last}, **options)
        assert (len(ended.answer), ended.cut_at, ended.stopped) == (2, None, "")
    given = attnflow.explain_answer(TEXT, model, answer="the cat", **options)
    assert given.cut_at is None


def test_a_text_for_a_model_that_chats_says_that_no_template_was_applied(llama):
    found = attnflow.explain_answer(TEXT, llama, generate=2)
    assert [each for each in found.warnings if "no chat template was applied" in each]
    chat = [{"role": "cat", "content": TEXT}]
    assert not attnflow.explain_answer(chat, llama, generate=2).warnings
    assert not attnflow.explain_answer(TEXT, llama, answer=" the cat").warnings
