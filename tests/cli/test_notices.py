"""What must not be silent: cut texts, unknown words, files and tables given as texts."""

import json
import os
import pty
import subprocess
import sys

import pytest

import attnflow
from attnflow.errors import InputError

LONG = "the keys " * 40
VERBS = ("--model", "verbs")


def test_a_text_that_was_cut_says_so(run):
    assert "only the first 64 of its 81 tokens" in run("explain", LONG, *VERBS, "--truncate").out
    said = json.loads(run("explain", LONG, *VERBS, "--truncate", "--json").out)
    assert said["warnings"] == ["the text was cut: only the first 64 of its 81 tokens were read"]
    assert attnflow.explain("the keys", "verbs", truncate=True).warnings == ()


def test_unknown_words_are_named(run):
    shown = run("explain", "the xyzzy of the cabinet", *VERBS, columns=200).out
    assert "! The model does not know 1 of 5 tokens and reads [UNK]: “xyzzy”.\n" in shown
    assert shown.count("[UNK]") == 1  # where it stands among the others, it has its letters
    assert "most of the text" in run("explain", "xyzzy frob the", *VERBS, columns=200).out
    assert attnflow.explain("the [UNK] of the cabinet", "verbs").warnings == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Das Essen war nicht gut, aber die Musik ist wunderbar.", "7 of 10 words"),
        ("Der Film ist langweilig, aber die Musik ist wunderschön.", "6 of 9 words"),
        ("الطعام لم يكن جيدا", "4 of 4 words"),
        ("Еда была невкусной", "3 of 3 words"),
    ],
)
def test_texts_that_are_split_into_letters_are_warned_of(run, text, words):
    shown = " ".join(run("explain", text, columns=200).out.split())
    assert f"! The model splits {words} into pieces of at most three letters" in shown
    assert "so the answer says little." in shown


@pytest.mark.parametrize(
    "text",
    ["The unforgettable cinematography of Wachowski's Matrix", "Jalapeño quinoa", "음식이 좋다"],
)
def test_rare_words_of_a_known_language_are_not(text):
    assert not any("in pieces of" in each for each in attnflow.explain(text).warnings)


def test_strict_is_about_the_model_and_not_about_the_text():
    assert attnflow.explain("the xyzzy of the cabinet", "verbs", strict=True).warnings


def test_a_file_given_as_text_is_refused(run, tmp_path, monkeypatch):
    (tmp_path / "texts.txt").write_text("the keys\n")
    monkeypatch.chdir(tmp_path)
    for command in (["explain"], ["compare"], ["routes", "--to", "keys"]):
        ran = run(*command, "texts.txt")
        assert ran.code == 2
        assert "did you mean -f texts.txt?" in ran.err
    assert run("explain", "-f", "texts.txt").code == 0
    (tmp_path / "keys").write_text("")  # a word may be the name of a file by chance
    assert run("explain", "keys").code == 0


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["explain", "a film", "--target", "positve"], "positive"),
        (["explain", "a film", "--method", "flwo"], "flow"),
        (["explain", "a film", "--correction", "snk"], "sink"),
        (["routes", "a good film", "--to", "flim"], "film"),
    ],
)
def test_a_misspelled_value_is_answered_with_the_nearest_one(run, arguments, meant):
    ran = run(*arguments)
    assert ran.code == 2
    assert f"did you mean '{meant}'? " in ran.err


def test_a_sentence_without_quotation_marks_is_noticed(run):
    ran = run("explain", "the", "keys", "are", "--json")
    assert ran.code == 0
    assert len(ran.out.splitlines()) == 3
    assert 'these are 3 texts of one word each; for one text: "the keys are"' in ran.err
    assert run("explain", "the keys", "are", "--json").err == ""


@pytest.mark.parametrize(("reply", "texts"), [("\n", 1), ("y\n", 1), ("n\n", 3)])
def test_in_a_terminal_words_without_quotation_marks_are_asked_about(folder, reply, texts):
    """In a terminal of its own, as a person sees it."""
    main, other = pty.openpty()
    command = [sys.executable, "-m", "attnflow", "explain", "the", "keys", "are", "--json"]
    with subprocess.Popen(
        [*command, "-m", folder], stdin=other, stdout=subprocess.PIPE, stderr=other, text=True
    ) as program:
        os.close(other)
        asked = b""
        while b"?" not in asked:
            asked += os.read(main, 1024)
        os.write(main, reply.encode())
        shown = program.stdout.read()
    os.close(main)
    assert b'Explain one text, "the keys are"' in asked
    assert program.returncode == 0
    assert len(shown.splitlines()) == texts


def test_a_table_is_not_read_as_lines(run, tmp_path, stdin):
    table = tmp_path / "data.csv"
    table.write_text("text,label\nthe keys,1\n")
    ran = run("explain", "-f", table)
    assert ran.code == 2
    assert "is a table" in ran.err
    assert f"explain its rows by attnflow run {table} -o FOLDER" in " ".join(ran.err.split())
    stdin(table.read_bytes())
    assert len(run("explain", "-f", "-", "--json").out.splitlines()) == 2


def test_errors_say_which_text_of_a_list_they_are_about(run):
    with pytest.raises(InputError, match=r"input 2 of 3, .*: the text has 81 tokens"):
        attnflow.explain(["the keys", LONG, "the cabinet"], "verbs")
    with pytest.raises(InputError, match=r"one of the inputs 1, 2: query='keys' is not"):
        attnflow.explain(["the keys", "the cabinet"], "verbs", query="keys")
    with pytest.raises(InputError, match=r"^the text has 81 tokens"):
        attnflow.explain(LONG, "verbs")
    assert "text 2 of 2 is empty" in run("explain", "the keys", " ").err


def test_scores_that_are_ratios_say_so():
    from rich.console import Console

    from attnflow.records import Attribution
    from attnflow.views.terminal.attribution import top_tables
    from attnflow.views.wording.findings import find

    given = Attribution(
        ("a", "b"), [[[5.721, 1.0]]], (1,), (0,), 1, 0, "rollout", {"correction": "uniform"}
    )
    console = Console(width=40, record=True)
    console.print(top_tables([given], [find(given)], console, 3))
    shown = console.export_text()
    assert "5.72×" in shown
    assert "× chance" in shown
