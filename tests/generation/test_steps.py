"""A chain of thought as steps: what is measured, by an eager model whose scores are masked."""

import copy
import json
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

import attnflow
import knocked
import talkers
from attnflow.cli.app import run
from attnflow.errors import InputError, Interrupted, ModelError
from attnflow.pipeline import steps as tracing
from attnflow.records.reasoning import NEEDED, Reasoning, Step
from attnflow.views.explorer.render import hash_of
from attnflow.views.terminal.steps import draw_arrows
from attnflow.views.wording.steps import summarize

PROMPT = {"keys": "the keys are red .", "cat": "the cat is old , here"}
ANSWER = " the key is old . a cat is here ! the mat is red . the cat is old !"
NAMES = ["keys", "cat", "step 1", "step 2", "step 3", "conclusion"]


@pytest.fixture(scope="module")
def pair():
    """With still larger weights, so that a chain of steps depend on each other."""
    network, tokenizer = talkers.llama()
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() > 1:
                parameter.mul_(3)
    return network, tokenizer


@pytest.fixture(scope="module")
def found(pair):
    return attnflow.steps(PROMPT, pair, answer=ANSWER)


class Oracle:
    """Log-probabilities of steps from an eager model, with edges removed and tokens deleted."""

    def __init__(self, pair, found):
        network, tokenizer = pair
        self.network = copy.deepcopy(network)
        self.network.set_attn_implementation("eager")
        self.steps = found.steps
        self.size = len(found.tokens)
        text = "\n\n".join(PROMPT.values()) + ANSWER
        self.ids = tokenizer(text, return_tensors="pt")["input_ids"]
        assert self.ids.shape[1] == self.size
        self.before = self.without_edges([])

    def token(self, logits, position):
        row = logits[0, position - 1].double().log_softmax(-1)
        return float(row[self.ids[0, position]])

    def without_edges(self, pairs):
        """``[token]``: the log-probabilities where each (query, key) is removed everywhere."""
        config = self.network.config
        one = np.zeros((config.num_attention_heads, self.size, self.size), bool)
        for query, key in pairs:
            if key < query:
                one[:, query, key] = True
        logits = knocked.eager_without(
            self.network, {"input_ids": self.ids}, [one] * config.num_hidden_layers
        )
        return [math.nan, *(self.token(logits, at) for at in range(1, self.size))]

    def without_tokens(self, positions):
        left = [at for at in range(self.size) if at not in positions]
        with torch.no_grad():
            logits = self.network(input_ids=self.ids[:, left]).logits[0].double().log_softmax(-1)
        values = [math.nan] * self.size
        for row, at in enumerate(left[1:]):
            values[at] = float(logits[row, self.ids[0, at]])
        return values

    def drop(self, values, positions):
        return sum(self.before[at] - values[at] for at in positions)

    def keys(self, positions):
        return [at for at in positions if at > 0]  # attention is parked at the first token

    def hidden_from_one(self, target, positions):
        readers = [at - 1 for at in self.steps[target].positions]
        return [(q, k) for q in readers for k in self.keys(positions)]

    def hidden_from_all(self, source):
        own = self.steps[source].positions
        readers = [at for at in range(self.size) if at not in own or at == own[-1]]
        return [(q, k) for q in readers for k in self.keys(own)]


@pytest.fixture(scope="module")
def oracle(pair, found):
    return Oracle(pair, found)


def test_steps_are_the_parts_the_thoughts_and_the_conclusion(found):
    assert [step.name for step in found.steps] == NAMES
    assert [step.kind for step in found.steps] == ["part"] * 2 + ["thought"] * 3 + ["conclusion"]
    assert "".join(step.text for step in found.steps[2:]) == found.answer_text == ANSWER
    assert found.steps[3].text == "a cat is here ! "
    assert found.steps[3].positions == (16, 17, 18, 19, 20)
    assert found.conclusion == 5
    assert found.sources == (0, 1, 2, 3, 4)


def test_log_probabilities_are_those_of_an_eager_model(found, oracle):
    expected = [
        math.nan if step.kind == "part" else sum(oracle.before[at] for at in step.positions)
        for step in found.steps
    ]
    np.testing.assert_allclose(found.log_probabilities, expected, atol=1e-3)


@pytest.mark.parametrize("source", range(5))
def test_a_step_is_hidden_from_all_that_follow_it_and_deleted(source, found, oracle):
    hidden = oracle.without_edges(oracle.hidden_from_all(source))
    deleted = oracle.without_tokens(found.steps[source].positions)
    for target in range(6):
        if target <= source or target < 2:
            assert np.isnan(found.hidden[target, source])
            assert np.isnan(found.deleted[target, source])
            continue
        own = found.steps[target].positions
        assert found.hidden[target, source] == pytest.approx(oracle.drop(hidden, own), abs=1e-3)
        assert found.deleted[target, source] == pytest.approx(oracle.drop(deleted, own), abs=1e-3)
    assert (
        found.hidden[5, source] != pytest.approx(found.direct[5, source], abs=1e-3) or source == 4
    )


def test_steps_are_followed_back_by_the_words_that_are_read(found, oracle):
    """The whole search by hand: who is asked about what, which words are read, what that costs."""
    asked, direct = {5: found.steps[5].positions}, np.full((6, 6), np.nan)
    for target in (5, 4, 3, 2):
        readers = [at for at in asked if direct[at, target] >= NEEDED]
        if readers:
            # every token of these texts is a word
            falls = {}
            for word in found.steps[target].positions:
                pairs = [p for at in readers for p in oracle.hidden_from_one(at, [word])]
                values = oracle.without_edges(pairs)
                falls[word] = sum(oracle.drop(values, asked[at]) for at in readers)
            top = max(falls.values())
            asked[target] = [at for at, fall in falls.items() if fall >= max(top / 2, 0.1)]
            asked[target] = asked[target] or found.steps[target].positions
        for source in range(target if target in asked else 0):
            values = oracle.without_edges(
                oracle.hidden_from_one(target, found.steps[source].positions)
            )
            direct[target, source] = oracle.drop(values, asked[target])
    assert len(asked) > 2, "a chain of two at least"
    np.testing.assert_allclose(found.direct, direct, atol=1e-3)
    thoughts = [at for target, own in asked.items() if target != 5 for at in own]
    assert list(found.carriers) == sorted(thoughts)
    expected = {(s, t) for t, s in zip(*np.nonzero(np.nan_to_num(direct) >= NEEDED), strict=True)}
    assert {(edge.source, edge.target) for edge in found.edges} == expected


def test_what_is_spared_is_taken_away_all_together():
    pair = talkers.llama()
    found = attnflow.steps(PROMPT, pair, answer=ANSWER, conclusion="old !")
    oracle = Oracle(pair, found)
    assert len(found.spared) > 1
    assert all(row.role == "spared" for row in map(found.row, found.spared))
    pairs = [pair for at in found.spared for pair in oracle.hidden_from_all(at)]
    end = found.steps[found.conclusion].positions
    drop = oracle.drop(oracle.without_edges(pairs), end)
    assert found.spared_hidden == pytest.approx(drop, abs=1e-3)
    gone = [at for number in found.spared for at in found.steps[number].positions]
    deleted = oracle.without_tokens(gone)
    assert found.spared_deleted == pytest.approx(oracle.drop(deleted, end), abs=1e-3)


def test_scores_are_those_of_the_answer_by_its_steps(pair, found):
    parts = {step.name: step.text.strip() for step in found.steps[:2]}
    whole = attnflow.explain_answer("\n\n".join(PROMPT.values()), pair, parts=parts, answer=ANSWER)
    assert found.method == whole.method
    assert len(whole.pieces) == 4
    np.testing.assert_allclose(found.scores[2:, :2], whole.part_scores[:, :2], rtol=1e-5)
    assert np.isnan(found.scores[0]).all()
    assert np.isnan(found.scores[2, 3:]).all()


def test_a_saved_graph_is_read_back_without_loss(found, tmp_path):
    for again in (
        Reasoning.load(found.save(tmp_path / "steps.json.gz")),
        pickle.loads(pickle.dumps(found)),
        Reasoning.from_dict(json.loads(json.dumps(found.to_dict()))),
    ):
        assert again.steps == found.steps
        assert again.edges == found.edges
        assert again.summary == found.summary
        for name in ("scores", "direct", "hidden", "deleted", "log_probabilities"):
            np.testing.assert_array_equal(getattr(again, name), getattr(found, name))
    with pytest.raises(InputError, match="every token must be in one of them"):
        Reasoning.from_dict({**found.to_dict(), "tokens": [*found.tokens, "more"]})
    with pytest.raises(InputError, match=r"direct has shape \(1, 1\); these steps need \(6, 6\)"):
        Reasoning.from_dict({**found.to_dict(), "direct": [[1.0]]})


def interrupt_at(monkeypatch, name, number, of=tracing):
    """Ctrl+C when something is called for the n-th time, from 0."""
    own, calls = getattr(of, name), []

    def stops(*given):
        calls.append(given)
        if len(calls) > number:
            raise KeyboardInterrupt
        return own(*given)

    monkeypatch.setattr(of, name, stops)


def test_what_was_finished_is_kept(pair, found, monkeypatch, tmp_path):
    interrupt_at(monkeypatch, "deleting", 2, tracing._Runs)
    with pytest.raises(Interrupted) as stopped:
        attnflow.steps(PROMPT, pair, answer=ANSWER)
    (part,) = stopped.value.found
    assert [part.steps[at].name for at in part.unmeasured] == ["keys", "cat", "step 1"]
    assert [row.name for row in part.table()] == ["step 2", "step 3"], "the nearest come first"
    for name in ("direct", "hidden", "deleted"):
        kept = getattr(part, name)[5, 3:5]
        np.testing.assert_array_equal(kept, getattr(found, name)[5, 3:5])
        assert np.isnan(getattr(part, name)[:, :3]).all()
    np.testing.assert_array_equal(part.scores, found.scores)
    assert part.warnings[0] == "interrupted: 2 of 5 steps were taken away"
    assert part.summary.startswith("Interrupted: nothing is known but of step 2 and step 3. The c")
    assert "need" not in part.summary.removeprefix("The conclusion depends")
    with pytest.raises(InputError, match="'cat' was not measured"):
        part.row("cat")
    again = Reasoning.load(part.save(tmp_path / "part.json"))
    assert again.unmeasured == part.unmeasured
    assert part.explore().html.count(">not measured<") == 3


def test_arrows_that_are_not_traced_yet_are_missing(pair, found, monkeypatch):
    interrupt_at(monkeypatch, "_read_back", 0)
    with pytest.raises(Interrupted) as stopped:
        attnflow.steps(PROMPT, pair, answer=ANSWER)
    (part,) = stopped.value.found
    assert part.edges == tuple(each for each in found.edges if each.target == part.conclusion)
    assert not part.unmeasured
    assert "arrows may be missing" in part.warnings[0]


def test_nothing_is_kept_of_work_that_has_not_begun(pair, monkeypatch):
    interrupt_at(monkeypatch, "deleting", 0, tracing._Runs)
    with pytest.raises(KeyboardInterrupt) as stopped:
        attnflow.steps(PROMPT, pair, answer=ANSWER)
    assert not isinstance(stopped.value, Interrupted)


# -- roles and sentences, of numbers by hand


def chain(direct, hidden=(), deleted=(), **more):
    """Parts a and b, thoughts 1 to 3, a conclusion of probability one half; drops by place."""
    names = [("a", "part"), ("b", "part"), *((f"step {n}", "thought") for n in (1, 2, 3))]
    steps = [*(Step(n, k, f"{n}! ", (at,)) for at, (n, k) in enumerate(names))]
    steps.append(Step("conclusion", "conclusion", "end", (5,)))
    arrays = {}
    for name, given in (("direct", direct), ("hidden", hidden), ("deleted", deleted)):
        arrays[name] = np.full((6, 6), np.nan)
        arrays[name][5, :5] = 0.0
        for (target, source), drop in dict(given).items():
            arrays[name][target, source] = drop
    spans = ((0, 3), (3, 6), (0, 8), (8, 16), (16, 24), (24, 27))
    return Reasoning(
        tokens=tuple("ab123e"),
        steps=tuple(steps),
        scores=more.pop("scores", np.ones((6, 6))),
        log_probabilities=[math.nan] * 2 + [-3.0] * 3 + [math.log(0.5)],
        method="rollout",
        layer=2,
        depth=2,
        spans=spans,
        answer_text="step 1! step 2! step 3! end",
        **arrays,
        **more,
    )


def test_roles_follow_what_was_measured():
    low, high = NEEDED - 0.01, NEEDED + 0.01
    found = chain(
        {(5, 4): 3.0, (5, 1): 1.0, (4, 2): high, (4, 0): low},
        {(5, 4): 3.0, (5, 0): low, (5, 3): -low},
        {(5, 4): 2.0, (5, 1): low, (5, 0): -1.0, (5, 3): low},
    )
    roles = {row.name: (row.role, row.through) for row in found.table()}
    assert roles == {
        "a": ("against", ()),
        "b": ("read", ()),
        "step 1": ("passed on", (4,)),
        "step 2": ("spared", ()),
        "step 3": ("needed", ()),
    }
    assert [found.steps[at].name for at in found.needed] == ["step 1", "step 3"]
    assert found.edges == ((2, 4, high), (1, 5, 1.0), (4, 5, 3.0))
    # hiding and deleting disagree; both say that it matters, though nobody reads it
    assert chain({}, {(5, 0): 1.0}).row("a").role == "unclear"
    assert chain({}, {(5, 0): 1.0}, {(5, 0): 1.0}).row("a").role == "passed on"
    # where nothing would be left to delete it from, hiding decides
    assert chain({(5, 0): 1.0}, {(5, 0): 1.0}, {(5, 0): math.nan}).row("a").role == "needed"


def test_sentences_say_what_was_measured():
    scores = np.ones((6, 6))
    scores[5, 3] = 5.0
    found = chain(
        {(5, 4): math.log(50), (4, 2): math.log(3)},
        {(5, 4): math.log(50)},
        {(5, 4): math.log(5)},
        carriers=(4,),
        spared=(0, 1, 3),
        spared_hidden=0.0,
        spared_deleted=math.log(1.3),
        scores=scores,
    )
    assert summarize(found) == [
        "The conclusion depends on step 3: its probability falls from 50.0 % to 1.0 % if step 3 "
        "is hidden from it and to 10.0 % if step 3 is deleted.",
        "Step 1 matters through later steps alone: “step 3!” in step 3 is 3.0 times less likely "
        "without it.",
        "It needs none of “a”, “b” and step 2: without all of them it is 1.3 times less likely.",
        "By its scores it came most from step 2, which is no reason to think that it needs it.",
    ]
    twice = chain({}, spared=(0, 2), spared_hidden=math.log(40), spared_deleted=math.log(2))
    assert summarize(twice)[:2] == [
        "The conclusion depends on no single part of the prompt and no single thought.",
        "“a” and step 1 can each be spared, but not all at once: without all of them it is 40 "
        "times less likely.",
    ]


def test_what_else_is_needed_is_told_with_both_changes():
    drops = {(5, 4): math.log(50), (5, 0): math.log(8)}
    found = chain(drops, drops, {(5, 4): math.log(50), (5, 0): math.log(6)})
    assert summarize(found)[0].endswith(
        "It also depends on “a” (8.0 times less likely when hidden, 6.0 times when deleted)."
    )


def test_a_small_change_beside_a_large_one_is_called_small():
    drops = {(5, 4): math.log(300), (5, 0): math.log(20), (5, 1): math.log(2.4)}
    found = chain(drops, drops, drops)
    assert summarize(found)[0].endswith(
        "It also depends on “a” (20 times less likely). It depends much less on “b” (2.4 times "
        "less likely)."
    )
    logs = [*found.log_probabilities[:-1], -math.log(24_000)]
    assert (
        "It is unlikely in any case: its probability is 1 in 24,000."
        in summarize(replace(found, log_probabilities=logs))[0]
    )


def test_arrows_do_not_run_into_each_other():
    assert draw_arrows([(0, 3), (1, 2), (1, 3), (4, 5)], 6) == [
        "╭───",
        "│ ╭─",
        "│ ├▶",
        "╰─┴▶",
        "╭───",
        "╰──▶",
    ]
    # The first one's arrow into the third row crosses the second's line, which passes it.
    assert draw_arrows([(0, 2), (0, 4), (1, 4), (2, 4)], 5)[2] == "├─│─┬▶"
    assert draw_arrows([], 2) == ["", ""]


@pytest.mark.parametrize(
    ("prompt", "options", "error", "message"),
    [
        (PROMPT, {"answer": " the cat"}, InputError, "no thoughts before its conclusion"),
        ({"step 1": "a", "b": "a"}, {"answer": ANSWER}, InputError, r"parts hold \['step 1'\]"),
        (
            PROMPT,
            {"answer": ANSWER, "method": "direct-all", "edges": "attention"},
            InputError,
            "reads all positions",
        ),
        (["a", "b"], {"answer": ANSWER}, InputError, "takes one prompt; there are 2"),
        (PROMPT, {"answer": [ANSWER, ANSWER]}, InputError, "2 answers and 1 texts"),
        (PROMPT, {"answer": ANSWER, "batch_size": 0}, InputError, "batch_size=0"),
    ],
)
def test_what_has_no_steps_is_refused(pair, prompt, options, error, message):
    with pytest.raises(error, match=message):
        attnflow.steps(prompt, pair, **options)


def test_encoder_decoders_are_refused(t5):
    with pytest.raises(ModelError, match=r"steps are for causal language models"):
        attnflow.steps(PROMPT, t5, answer=ANSWER)


def test_the_page_has_every_step_and_runs_nothing(found, tmp_path):
    page = found.explore().save(tmp_path / "steps.html").read_text()
    assert page.count("<article") == len(found.steps)
    assert page.count('class="arc') == page.count('class="arrow') == len(found.edges)
    assert "<script" not in page
    style = page.partition("<style>")[2].partition("</style>")[0]
    assert hash_of(style) in page  # what its policy allows
    marked = chain({(5, 4): 3.0}, carriers=(4,)).explore().html
    assert "<mark>step 3!</mark>" in marked
    steps = [Step("<a>", "thought", "<b>!\n", (0,)), Step("conclusion", "conclusion", "c", (1,))]
    empty = np.full((2, 2), 0.0)
    odd = Reasoning(
        tokens=("a", "c"),
        steps=tuple(steps),
        scores=empty,
        direct=empty,
        hidden=empty,
        deleted=empty,
        log_probabilities=[-1.0, -1.0],
        method="flow",
        layer=1,
        depth=1,
        spans=((0, 5), (5, 6)),
        answer_text="<b>!\nc",
    )
    assert "<b>!" not in odd.explore().html
    assert "&lt;a&gt;" in odd.explore().html


def test_the_command_says_what_the_function_finds(pair, found, tmp_path, capsys, monkeypatch):
    for part in pair:
        part.save_pretrained(tmp_path / "model")
    text = "\n\n".join(PROMPT.values())
    given = ["steps", text, "-m", str(tmp_path / "model"), "--answer", ANSWER]
    assert run([*given, "--save", str(tmp_path / "steps.json")]) == 0
    shown = capsys.readouterr().out
    assert "step 3" in shown
    assert "╭" in shown
    saved = Reasoning.load(tmp_path / "steps.json")
    assert [step.text for step in saved.steps[1:]] == [step.text for step in found.steps[2:]]
    np.testing.assert_allclose(saved.direct[4, 1:], found.direct[5, 2:], atol=1e-3)
    interrupt_at(monkeypatch, "deleting", 1, tracing._Runs)
    assert run([*given, "--html", str(tmp_path / "part.html")]) == 130
    shown = capsys.readouterr().out
    assert shown.count("not measured") == len(saved.sources) - 1
    assert "nothing is known but of step 3" in " ".join(shown.split())
    assert ">not measured<" in (tmp_path / "part.html").read_text()
    assert run([*given, "--by", "lines"]) == 2
    assert "by='lines' is unknown" in capsys.readouterr().err
