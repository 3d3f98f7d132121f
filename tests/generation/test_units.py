"""Sentences and paragraphs of a prompt are parts of their own, as if each had been named."""

import json
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

import attnflow
import talkers
from attnflow.cli.app import run
from attnflow.errors import InputError
from attnflow.views.terminal.answers import answer_view

DOCUMENT = "the keys are red ! they are old ! \n\nthe cat is on the mat !"
QUESTION = "is the cat old ?"
CHAT = [
    {"role": "system", "content": "you are here to play ! be red !"},
    {"role": "user", "content": f"{DOCUMENT}\n\n{QUESTION}"},
]


@pytest.fixture(scope="module")
def model():
    return attnflow.load_model(talkers.llama(max_position_embeddings=256, num_hidden_layers=2))


def named(found):
    return {part.name: part.positions for part in found.named}


@pytest.mark.parametrize(
    ("units", "expected"),
    [
        (
            "sentences",
            ["the keys are red !", "they are old !", "the cat is on the mat !"],
        ),
        ("paragraphs", ["the keys are red ! they are old !", "the cat is on the mat !"]),
    ],
)
def test_units_score_as_parts_that_are_named_by_hand(model, units, expected):
    text = f"{DOCUMENT}\n\n{QUESTION}"
    parts = {"manual": DOCUMENT, "question": QUESTION}
    found = attnflow.explain_answer(text, model, answer=" no", parts=parts, units=units)
    one = units.removesuffix("s")
    by_hand = {f"manual, {one} {n}": each for n, each in enumerate(expected, 1)}
    other = attnflow.explain_answer(
        text, model, answer=" no", parts={**by_hand, "question": QUESTION}
    )
    assert named(found) == named(other)
    np.testing.assert_array_equal(found.matrix("parts"), other.matrix("parts"))


def test_every_token_of_a_part_is_in_one_of_its_units(model):
    whole = attnflow.explain_answer(CHAT, model, answer="no", parts={"manual": DOCUMENT})
    cut = attnflow.explain_answer(
        CHAT, model, answer="no", parts={"manual": DOCUMENT}, units="sentences"
    )
    for name, positions in named(whole).items():
        of_units = [
            at for each, places in named(cut).items() if each.split(",")[0] == name for at in places
        ]
        assert sorted(of_units) == sorted(positions)
    assert named(cut).keys() >= {
        "system, sentence 1",
        "system, sentence 2",
        "manual, sentence 3",
        "user",
    }


def test_unknown_units_are_refused_before_the_model_runs(model):
    with pytest.raises(InputError, match="units='words' is unknown; allowed: sentences, para"):
        attnflow.explain_answer("the cat", model, answer=" no", units="words")


def test_units_on_the_command_line(tmp_path, capsys):
    network, tokenizer = talkers.llama(max_position_embeddings=256, num_hidden_layers=2)
    network.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    (tmp_path / "manual.txt").write_text(DOCUMENT)
    arguments = [QUESTION, "--part", f"manual={tmp_path / 'manual.txt'}", "--answer", " no"]
    arguments += ["--units", "sentences", "-m", str(tmp_path / "model"), "--json"]
    assert run(["explain", *arguments]) == 0
    rows = json.loads(capsys.readouterr().out)["parts"]
    assert [row["name"] for row in rows][:3] == [f"manual, sentence {n}" for n in (1, 2, 3)]


def test_of_many_units_the_terminal_shows_those_that_matter(model):
    prompt = {"manual": "the cat is on the red mat ! " * 30, "question": QUESTION}
    found = attnflow.explain_answer(prompt, model, answer=" cat", units="sentences")
    console = Console(file=StringIO(), width=80)
    console.print(answer_view(found, console))
    shown = console.file.getvalue()
    rows = [line for line in shown.splitlines() if line.startswith("manual, ")]
    others = [part.name for part in found.parts if part.role != "source"]
    assert len(rows) == 16 - len(others)
    assert f"and {30 - len(rows)} other parts" in shown
    best = sorted(found.table(), key=lambda row: -abs(row.score) * row.name.startswith("manual"))
    numbers = {row.name.split()[-1] for row in best[: len(rows)]}
    assert {line.split("source")[0].split()[-1] for line in rows} == numbers
    assert f"{len(found.parts) - 13} parts with less are left out" in " ".join(shown.split())
    (head,) = (line for line in shown.splitlines() if "likely" in line and ";" not in line)
    assert head.split()[:2] == ["answer", "likely"]  # no column is cut to nothing
