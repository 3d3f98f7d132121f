"""An answer in pieces: a sentence is explained by the target of all its tokens together."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import attnflow
import relevance_oracle
import talkers
import temporal_oracle
from attnflow.cli.app import run
from attnflow.errors import InputError, Interrupted
from attnflow.models.adapter import Tokens
from attnflow.models.answers.pieces import cut_answer
from attnflow.models.capture.backward import EdgeReading
from attnflow.pipeline.answers import AnswerSession

TEXT = "the keys to the old cabinet are here"
ANSWER = " the cat is old ! the keys are red ! the mat"
PARTS = {"keys": "the keys", "cabinet": "old cabinet are here"}
RELEVANCE = {"edges": "relevance", "correction": None}


def handed_down(name, model, ids, positions):
    """What an oracle hands down from some tokens, each read where it was predicted."""
    edges, inputs, value = 0.0, 0.0, 0.0
    for at in positions:
        with torch.no_grad():
            logits = model.network(ids[:, :at]).logits[0, -1]
            one = relevance_oracle.ORACLES[name](model.network, ids[:, :at], int(ids[0, at]))
        missing = ids.shape[1] - at
        edges = edges + np.pad(one.edges.numpy(), ((0, 0), (0, missing), (0, missing)))
        inputs = inputs + np.pad(one.inputs.numpy(), (0, missing))
        value += float(logits[ids[0, at]] - logits.mean())
    return edges, inputs, value


def flow_from(edges, inputs, sources, group):
    """For minus against to some tokens, of which sources have what arrived there."""
    others = sorted(set(group) - set(sources))
    own = sum(inputs[at] for at in set(group) & set(sources))
    if not others:
        return own
    for_it, against = (
        temporal_oracle.max_flow(np.maximum(sign * edges, 0), sources, others) for sign in (1, -1)
    )
    return own + for_it - against


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_a_sentence_is_the_target_of_all_its_tokens(name):
    model = relevance_oracle.build(name)
    options = {"answer": ANSWER, "parts": PARTS, **RELEVANCE}
    found = attnflow.explain_answer(TEXT, model, **options)
    arrived = attnflow.explain_answer(TEXT, model, method="rollout", **options)
    assert found.piece_texts == ("the cat is old !", "the keys are red !", "the mat")
    ids = torch.tensor([model.tokenizer(TEXT + ANSWER).input_ids])
    total = 0.0
    for row, (first, last) in enumerate(found.pieces):
        positions = found.answer[first:last]
        sources = [at - 1 for at in positions]
        edges, inputs, value = handed_down(name, model, ids, positions)
        total += value
        wanted = [flow_from(edges, inputs, sources, [at]) for at in range(len(found.tokens))]
        count = last - first
        np.testing.assert_allclose(found.matrix()[row] * count, wanted, atol=1e-6)
        parts = [flow_from(edges, inputs, sources, part.positions) for part in found.parts]
        np.testing.assert_allclose(found.matrix("parts")[row] * count, parts, atol=1e-6)
        np.testing.assert_allclose(arrived.matrix()[row] * count, inputs, atol=1e-6)
    # Nothing is lost: what arrived, and what biases kept, is the sum of all targets.
    lengths = [last - first for first, last in found.pieces]
    kept = arrived.statistics["biases"]
    assert lengths @ arrived.matrix().sum(-1) + kept == pytest.approx(total, abs=1e-5)
    assert arrived.statistics["value"] == pytest.approx(total, abs=1e-5)


def test_a_sentence_of_an_encoder_decoder_starts_at_all_its_tokens(t5):
    options = {"answer": "the cat is old ! the keys", **RELEVANCE}
    found = attnflow.explain_answer(TEXT, t5, **options)
    rolled, each = (
        attnflow.explain_answer(TEXT, t5, method="rollout", each=pieces, **options).matrix()
        for pieces in ("sentences", "tokens")
    )
    assert found.pieces == ((0, 5), (5, 7))
    for row, piece in enumerate(found.pieces):
        np.testing.assert_allclose(rolled[row], each[slice(*piece)].mean(0), atol=1e-6)
        assert not rolled[row, found.answer[piece[1] - 1] :].any()
    # Of the source no token is where a target is read: it has the flow from all that read one.
    source = [at for at, segment in enumerate(found.segments) if segment == "source"]
    whole = attnflow.explain_answer(TEXT, t5, each="answer", parts_only=True, **options)
    assert whole.parts[0].positions == tuple(source)
    assert found.matrix("parts").shape == (2, 2)
    alone = attnflow.explain_answer(TEXT, t5, each="tokens", **options)
    assert np.abs(found.matrix()[0] - alone.matrix()[:5].mean(0)).max() > 1e-4  # no mean of flows


@pytest.mark.parametrize(
    "options",
    [
        {"edges": "attention", "method": "flow"},
        {"edges": "attention", "method": "rollout", "correction": "uniform"},
        {"edges": "gradient", "method": "direct"},
        {"edges": "attention", "method": "rollout", "through": "prompt"},
        {"method": "blank-out"},
    ],
    ids=str,
)
def test_scores_of_single_tokens_are_averaged(options, llama):
    tokens, sentences, whole = (
        attnflow.explain_answer(TEXT, llama, answer=ANSWER, each=each, **options)
        for each in ("tokens", "sentences", "answer")
    )
    assert sentences.pieces == ((0, 5), (5, 10), (10, 12))
    for of in ("tokens", "parts"):
        rows = [tokens.matrix(of)[slice(*piece)].mean(0) for piece in sentences.pieces]
        np.testing.assert_allclose(sentences.matrix(of), rows, atol=1e-12)
        np.testing.assert_allclose(whole.matrix(of), [tokens.matrix(of).mean(0)], atol=1e-12)
    np.testing.assert_allclose(sentences.mean().values, tokens.mean().values, atol=1e-12)


def test_a_sentence_is_one_backward_pass(llama, monkeypatch):
    passes, backward = [], EdgeReading.backward
    monkeypatch.setattr(
        EdgeReading, "backward", lambda *a, **k: (passes.append(k), backward(*a, **k))[1]
    )
    for each, count in (("sentences", 3), ("answer", 1), ("tokens", 12)):
        passes.clear()
        found = attnflow.explain_answer(TEXT, llama, answer=ANSWER, each=each)
        assert (len(passes), len(found.pieces)) == (count, count)
        assert [made["keep"] for made in passes] == [True] * (count - 1) + [False]


# -- where pieces end


def tokens_of(answer, cuts, *, spans=True):
    """An answer behind a prompt of one token, cut before these characters."""
    places = list(zip([0, *cuts], [*cuts, len(answer)], strict=True))
    places += [(len(answer), len(answer))]  # a special token at the end
    names = tuple(answer[slice(*each)] for each in places)
    return Tokens(
        ("p", *names),
        "p",
        {},
        segments=("prompt", *["answer"] * len(names)),
        spans=((0, 1), *places) if spans else None,
        answer=answer,
    )


LIST = "Two things:\n- red keys\n- one cat. It sleeps"
CODE = "Run it:\n```\na = 1\nb = 2\n```\nDone"


@pytest.mark.parametrize(
    ("answer", "cuts", "each", "pieces"),
    [
        ("One. Two three! Four", (3, 4, 8, 14, 15), "sentences", ["One.", " Two three!", " Four"]),
        ("one two", (3,), "sentences", ["one two"]),
        ("One. Two", (3, 4), "tokens", ["One", ".", " Two", ""]),
        ("One. Two", (3, 4), "answer", ["One. Two"]),
        ("One. Two\n\nThree", (4, 9, 10), "paragraphs", ["One. Two\n\n", "Three"]),
        (LIST, (10, 11, 13, 23, 25, 33), "sentences", [*LIST[:33].splitlines(), " It sleeps"]),
        (CODE, (8, 12, 17, 18, 24, 28), "sentences", CODE.splitlines()),
        # A token that holds the end of one sentence and more of it belongs to the first.
        ("One.\nTwo", (3, 5), "sentences", ["One.\n", "Two"]),
        ("東京は雨。傘を持つ。", (2, 5, 7), "sentences", ["東京は雨。", "傘を持つ。"]),
        (" . . .", (2, 4), "sentences", [" .", " .", " ."]),
    ],
)
def test_an_answer_is_cut_where_its_units_end(answer, cuts, each, pieces):
    tokens = tokens_of(answer, cuts)
    found = cut_answer(tokens, each)
    texts = ["".join(tokens.names[1:][first:last]) for first, last in found]
    assert [text.strip("\n") for text in texts] == [text.strip("\n") for text in pieces]
    assert [first for first, _ in found] == [0, *(last for _, last in found[:-1])]
    assert found[-1][1] == len(tokens) - 1


def test_without_offsets_the_answer_is_one_piece(llama):
    assert cut_answer(tokens_of("One. Two", (4,), spans=False), "sentences") == ((0, 3),)


# -- the record


def test_pieces_are_asked_for_by_number_and_text(llama, tmp_path):
    found = attnflow.explain_answer(TEXT, llama, answer=ANSWER, parts=PARTS, deletions=True)
    second = found.at(answer="keys")
    np.testing.assert_allclose(second.values, found.matrix()[1], atol=1e-15)
    assert second.options["target"] == "the keys are red !"
    assert second.explained == "the mean of 5 positions"
    assert found.rows("the keys are red ! the mat") == [1, 2]
    weights = np.array([5, 5, 2]) / 12
    np.testing.assert_allclose(found.mean().values, weights @ found.matrix(), atol=1e-12)
    row = found.table("the mat")[0]
    assert row.score == found.part_scores[2, 0]
    assert row.drop == pytest.approx(found.drops[10:, 0].sum())
    assert found.probability(2) == pytest.approx(np.sqrt(found.probabilities[10:].prod()))
    read = attnflow.Generation.load(found.save(tmp_path / "answer.json"))
    assert read.to_dict() == found.to_dict()
    assert read.pieces == found.pieces
    with pytest.raises(InputError, match=r"is a part of .the keys are red !., which was expl"):
        found.mean("keys are")
    with pytest.raises(InputError, match="is in several pieces of the answer"):
        found.at(answer="red ! the")
    with pytest.raises(InputError, match="answer=3 does not exist; the answer has 3 pieces, 0 to"):
        found.at(answer=3)
    for wrong in (((0, 5), (6, 12)), ((1, 12),), ((0, 13),), ((0, 5), (5, 5))):
        with pytest.raises(InputError, match="pieces"):
            replace(found, pieces=wrong)


def test_unknown_pieces_are_refused_before_the_model_runs(llama, monkeypatch):
    monkeypatch.setattr(llama.network, "forward", None)
    with pytest.raises(InputError, match="each='words' is unknown; allowed: 'sentences', 'para"):
        attnflow.explain_answer(TEXT, llama, generate=2, each="words")


# -- long work


def interrupt_at(monkeypatch, number):
    at = AnswerSession.at

    def stops(session, asked):
        if asked == number:
            raise KeyboardInterrupt
        return at(session, asked)

    monkeypatch.setattr(AnswerSession, "at", stops)


def test_what_was_finished_is_kept(llama, monkeypatch):
    whole = attnflow.explain_answer(TEXT, llama, answer=ANSWER, parts=PARTS, deletions=True)
    interrupt_at(monkeypatch, 2)
    with pytest.raises(Interrupted) as stopped:
        attnflow.explain_answer([TEXT, TEXT], llama, answer=ANSWER, parts=PARTS, deletions=True)
    (found,) = stopped.value.found
    assert not found.complete
    assert found.pieces == whole.pieces[:2]
    np.testing.assert_array_equal(found.matrix(), whole.matrix()[:2])
    np.testing.assert_array_equal(found.drops, whole.drops)
    assert found.warnings[0] == "interrupted: 2 of 3 sentences of the answer are explained"
    said = found.explore().document["generation"]
    assert said["found"].startswith("Of the first two sentences (2 of 3; interrupted): ")
    assert found.answer_text == whole.answer_text
    assert attnflow.Generation.from_dict(found.to_dict()).pieces == found.pieces


def test_nothing_is_made_of_nothing(llama, monkeypatch):
    interrupt_at(monkeypatch, 0)
    with pytest.raises(KeyboardInterrupt) as stopped:
        attnflow.explain_answer(TEXT, llama, answer=ANSWER)
    assert not isinstance(stopped.value, Interrupted)


def test_the_command_shows_what_was_finished(tmp_path, capsys, monkeypatch, llama):
    llama.network.save_pretrained(tmp_path / "model")
    llama.tokenizer.save_pretrained(tmp_path / "model")
    interrupt_at(monkeypatch, 1)
    asked = ["explain", TEXT, "--answer", ANSWER, "-m", str(tmp_path / "model")]
    assert run(asked) == 130
    said = capsys.readouterr()
    assert "nterrupted: 1 of 3 sentences of the answer are explained" in " ".join(said.out.split())
    assert "Of the first sentence (1 of 3; interrupted): this part of" in " ".join(said.out.split())
    assert "the cat is old !" in said.out
    assert "stopped" in said.err


def test_progress_only_rises_and_counts_deletions(llama, monkeypatch):
    from attnflow.api.explain import answer_each
    from attnflow.options.tables import AnswerOptions
    from attnflow.pipeline.request import Request

    options = AnswerOptions(answer=ANSWER, parts=PARTS, deletions=True)
    shares = []
    request = Request.of(options, answer=None)
    (found,) = answer_each([TEXT], llama, request, options, shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1
    # One for the answer as it is, one for each deletion and for that of all sources, two to open,
    # two for each of three pieces.
    start = 1 + len(found.named) + (found.without_sources is not None) + 2
    done = [round(share * (start + 6), 9) for share in shares]
    assert set(done) >= {start - 2, start, start + 2, start + 4, start + 6}


def test_an_answer_that_the_model_wrote_takes_one_pass_less(monkeypatch):
    """What the model said when it wrote is its own output; where it differs, it runs again."""
    from attnflow.models.capture import run as network

    model = attnflow.load_model(talkers.llama())
    written = attnflow.explain_answer(TEXT, model, generate=5)
    calls, called = [], network.called
    monkeypatch.setattr(
        network, "called", lambda *a, **k: (calls.append(a[2:]), called(*a, **k))[1]
    )
    again = attnflow.explain_answer(TEXT, model, generate=5)
    assert calls == [("generate",), ()]
    calls.clear()
    given = attnflow.explain_answer(TEXT, model, answer=written.answer_text)
    assert calls == [(), ()]
    np.testing.assert_allclose(again.matrix(), given.matrix(), atol=1e-9)
    np.testing.assert_allclose(again.log_probabilities, given.log_probabilities, atol=1e-5)
    other = network.generate_with_logits

    def garbled(*args):
        ids, said = other(*args)
        return ids, said.flip(-1)

    monkeypatch.setattr(network, "generate_with_logits", garbled)
    calls.clear()
    own = attnflow.explain_answer(TEXT, model, generate=5)
    assert calls == [("generate",), (), ()]
    np.testing.assert_array_equal(own.log_probabilities, given.log_probabilities)
