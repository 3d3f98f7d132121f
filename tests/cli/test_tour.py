"""The tour: every step runs, its sentences are true of the shipped weights, and it can be left."""

import re

import numpy as np
import pytest
import torch
import typer

import attnflow
from attnflow import tour as steps
from attnflow.cli import tour
from attnflow.shipped import DEFAULT, NAMES
from attnflow.tour import TEXTS, make_steps, written
from attnflow.views.wording.findings import find
from attnflow.views.wording.labels import distinct_labels
from attnflow.views.wording.names import name_of
from attnflow.views.wording.numbers import number, percent

STEPS = make_steps()
MARGIN = 0.15  # of a probability, from the one half at which an answer turns


@pytest.fixture(params=NAMES)
def texts(request):
    return TEXTS[request.param]


def explained(texts, text, **options):
    """What is said of a text, by a model that is sure of its answer."""
    found = attnflow.explain(text, texts.model, **options)
    assert found.prediction.probability > 0.5 + MARGIN
    return found


def test_there_are_texts_for_every_shipped_model():
    assert set(NAMES) <= set(TEXTS)
    assert [step.commands for step in STEPS] == [
        step.commands for step in make_steps(TEXTS[DEFAULT])
    ]


def test_the_first_sentence_is_decided_by_the_word_that_it_names(texts):
    found = explained(texts, texts.mixed)
    assert found.prediction.label == texts.answer
    assert found.top(1)[0][0] == texts.strong
    said = steps.of_scores(texts)
    assert said.startswith(f"The model says {texts.answer} (")
    assert "the answer came from the word that speaks for it" in said


def test_the_bottleneck_is_as_wide_as_the_flow(texts):
    trace = attnflow.routes(texts.mixed, texts.model, to=texts.strong)
    assert sum(edge.capacity for edge in trace.cut) == pytest.approx(trace.value, abs=1e-9)
    assert sum(route.amount for route in trace.routes) == pytest.approx(trace.value, abs=1e-9)
    said = steps.of_routes(texts)
    assert said.startswith(f"{len(trace.routes)} routes bring {number(trace.value)} logits from")
    assert f"The {len(trace.cut)} edges of the bottleneck let {number(trace.value)} pass" in said


def test_one_word_turns_the_answer(texts):
    plain, changed = (explained(texts, text) for text in (texts.plain, texts.changed))
    assert plain.prediction.label != changed.prediction.label
    one, other = texts.plain.split(), texts.changed.split()
    assert texts.word in other
    assert len([word for word in other if word not in one]) == 1
    said = steps.of_pair(texts)
    assert said.startswith(f"“{texts.word}” turns the answer: {plain.prediction.label} (")


def test_methods_disagree_and_blanking_decides(texts):
    main = explained(texts, texts.disputed)
    asked = (texts.disputed, texts.model)
    raw = attnflow.explain(*asked, method="raw")
    names = distinct_labels(main.tokens, 40)
    first = {name_of(each): names[find(each).order[0]] for each in (main, raw)}
    decisive = [
        names[at] for at in find(main).order if without(texts, at)[0] != main.prediction.label
    ]
    said = steps.of_dispute(texts)
    for method in ("raw", "relevance flow"):
        assert f"{method} puts “{first[method]}” first" in said
    assert decisive
    words, trusted, doubted = re.search(
        r"\). (“[^()]*”) (?:each turn|turns) the answer(.*)rather than (.*)\. One caution", said
    ).groups()
    assert set(re.findall("“([^”]+)”", words)) == set(decisive)
    for method in ("raw", "relevance flow"):
        assert (method in trusted) == (first[method] in decisive)
        assert (method in doubted) == (first[method] not in decisive)
    told = dict(re.findall(r"without “(\S+)” (\w+ \([\d.]+ %\))", said))
    assert {*first.values(), *decisive} <= set(told)
    for name, answer in told.items():
        label, chance = without(texts, names.index(name))
        assert answer == f"{label} ({percent(chance)})"
        assert (label != main.prediction.label) == (name in decisive)
        assert chance > 0.5 + MARGIN


def without(texts, at):
    """What the model says with a token made unknown, written out."""
    model = attnflow.load_model(texts.model)
    ids = model.tokenizer(texts.disputed, return_tensors="pt").input_ids
    ids[0, at] = model.tokenizer.unk_token_id
    with torch.no_grad():
        chances = model.network(ids).logits[0].double().softmax(-1).numpy()
    best = int(np.argmax(chances))
    return model.network.config.id2label[best], chances[best]


def test_no_token_of_the_tour_is_part_of_a_word_or_unknown(texts):
    for text in (texts.mixed, texts.plain, texts.changed, texts.disputed):
        tokens = attnflow.explain(text, texts.model, method="raw").tokens
        assert [token for token in tokens if token.startswith("##") or token == "[UNK]"] == []


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_through_in_a_pipe(run, monkeypatch, tmp_path, name):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ran = run("tour", "--model", name, columns=100)
    assert ran.code == 0
    steps = make_steps(TEXTS[name])
    for place, step in enumerate(steps, start=1):
        assert f"{place} of {len(steps)} · {step.title}" in ran.out
        for command in step.commands:
            assert f"$ {written(command[:2])}" in ran.out
        assert " ".join(step.conclude().split()) in " ".join(ran.out.split())
    assert ran.out.count("What to conclude.") == len(steps)
    (page,) = tmp_path.rglob("tour.html")
    assert f"--html {page} --force" in ran.out
    assert TEXTS[name].disputed in page.read_text(encoding="utf-8")


def test_it_starts_at_a_step(run):
    ran = run("tour", len(STEPS) - 1, "--no-pause")
    assert ran.code == 0
    assert f"1 of {len(STEPS)} ·" not in ran.out
    assert f"{len(STEPS) - 1} of {len(STEPS)} ·" in ran.out


@pytest.mark.parametrize("step", [0, -1, len(STEPS) + 1])
def test_a_step_that_it_does_not_have_is_refused(run, step):
    ran = run("tour", "--", step)
    assert ran.code == 2
    assert f"the tour has no step {step}; it has 1 to {len(STEPS)}" in ran.err


def test_a_model_that_it_is_not_made_for_is_refused(run):
    ran = run("tour", "--model", "gpt2")
    assert ran.code == 2
    assert f"it is for {' and '.join(NAMES)}" in ran.err


def test_what_fails_ends_it(monkeypatch, capsys):
    monkeypatch.setattr("attnflow.cli.app.run", lambda arguments: 2)
    with pytest.raises(typer.Exit) as ended:
        tour.tour(1, no_pause=True)
    assert ended.value.exit_code == 2
    assert "What to conclude" not in capsys.readouterr().out


class Reader:
    """Someone at a terminal who presses keys when asked."""

    def __init__(self, *lines):
        self.lines = list(lines)

    def isatty(self):
        return True

    def readline(self):
        line = self.lines.pop(0)
        if line == "^C":
            raise KeyboardInterrupt
        return line


@pytest.mark.parametrize(
    ("lines", "code", "last"),
    [
        (["\n", "\n"], 0, 5),
        (["\n", "q\n"], 0, 4),
        ([""], 0, 3),
        (["^C"], 130, 3),
    ],
    ids=["through", "left", "end of input", "interrupted"],
)
def test_it_waits_in_a_terminal_and_can_be_left(run, monkeypatch, lines, code, last):
    reader = Reader(*lines)
    monkeypatch.setattr("sys.stdin", reader)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    ran = run("tour", "3")
    assert (ran.code, reader.lines) == (code, [])
    plain = re.sub(r"\x1b\[[0-9;]*m", "", ran.out)
    shown = [int(number) for number in re.findall(rf"^(\d) of {len(STEPS)} ·", plain, re.M)]
    assert shown == list(range(3, last + 1))
    assert ("Where to go from here" in plain) == (last == len(STEPS))


def test_no_pause_waits_for_nobody(run, monkeypatch):
    monkeypatch.setattr("sys.stdin", Reader())
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert run("tour", len(STEPS), "--no-pause").code == 0
