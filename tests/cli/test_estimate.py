"""``--dry-run``: what work would take, and nothing of the work."""

import json
import re

import pytest

import talkers
from attnflow.cli import estimate, evaluate
from attnflow.cli import run as run_command

TEXTS = "text\nthe cat\nthe keys to the cabinet are here\nthe old mat is red\n"


@pytest.fixture(scope="module")
def talker(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "talker"
    for part in talkers.llama():
        part.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def data(tmp_path):
    file = tmp_path / "texts.csv"
    file.write_text(TEXTS)
    return file


def test_texts_are_estimated_and_not_explained(run):
    found = run("explain", "The food was not good.", "It was.", "-m", "sentiment", "--dry-run")
    assert found.code == 0
    assert re.search(r"^2 texts, \d+ tokens on average", found.out)
    assert re.search(r"as long as [\d.]+ forward passes", found.out)
    assert "negative" not in found.out


@pytest.mark.parametrize("name", ["run", "evaluate"])
def test_rows_are_estimated_by_the_one_of_middling_length(run, data, tmp_path, name, monkeypatch):
    seen = []
    kept = estimate.tell_estimate

    def told(adapter, items, work, what):
        kept(adapter, items, lambda item: seen.append(item) or work(item), what)

    monkeypatch.setattr(estimate, "tell_estimate", told)
    folder = tmp_path / "out"
    output = ("-o", folder) if name == "run" else ("--result", folder)
    found = run(name, data, "-m", "sentiment", *output, "--dry-run")
    assert found.code == 0
    assert found.out.startswith("3 rows, ")
    assert seen == ["the old mat is red"] * 2
    assert not folder.exists()


def test_work_is_scaled_by_tokens(run, data, monkeypatch):
    monkeypatch.setattr(estimate, "measured", lambda _, work: (work(), (2.0, 2**20))[1])
    found = run("run", data, "-m", "sentiment", "-o", "unused", "--dry-run").out
    average, most, own = map(
        float, re.search(r"(\d+) tokens on .*, (\d+) at most\nOne of (\d+)", found).groups()
    )
    total = 2.0 * 3 * average / own
    assert abs(float(re.search(r"All: about (\d+) s", found)[1]) - total) <= 1
    assert f"about {(most / own) ** 2:.0f} MiB for the longest" in found
    assert "as long as 1.0 forward passes" in found


def test_answers_are_estimated_by_their_prompt(run, talker):
    found = run("explain", "the keys to the cabinet", "-m", talker, "--generate", 30, "--dry-run")
    assert found.code == 0
    assert "To explain an answer of 30 tokens in 2 rows: about 6 passes" in found.out
    assert "once it is written" in found.out
    asked = ("--answer", "is here", "--each", "tokens", "--dry-run")
    given = run("explain", "the keys to the cabinet", "-m", talker, *asked)
    assert "the answer of 2 tokens in 2 rows: about 6 passes" in given.out


def test_the_answer_of_a_logged_chat_is_estimated_as_given(run, talker, tmp_path):
    chat = [{"role": "user", "content": "the keys"}, {"role": "assistant", "content": "is here"}]
    (tmp_path / "chat.json").write_text(json.dumps(chat))
    found = run("explain", "--chat", tmp_path / "chat.json", "-m", talker, "--dry-run")
    assert "the answer of 2 tokens in 1 row" in found.out, found.err
    assert "once it is written" not in found.out


def test_nothing_to_read_is_an_error(run, tmp_path):
    file = tmp_path / "texts.csv"
    file.write_text("text\n")
    found = run("run", file, "-m", "sentiment", "-o", "unused", "--dry-run")
    assert found.code != 0
    assert "there is no row" in found.err


LONG_WORK = {
    "explain": (estimate, "MANY", ("--file", "texts.txt")),
    "evaluate": (evaluate, "MANY", ("texts.csv", "--method", "raw", "--metric", "spearman")),
    "run": (run_command, "MANY_ROWS", ("texts.csv", "-o", "out")),
}


CASES = [(name, 3, 50.0, True) for name in LONG_WORK]


@pytest.mark.parametrize(
    ("name", "rows", "each", "told"), [*CASES, ("run", 3, 1.0, False), ("explain", 2, 50.0, False)]
)
def test_long_work_is_foretold_and_done(run, data, tmp_path, monkeypatch, name, rows, each, told):
    """What one text takes is given here, so that all of them take long, or do not."""
    owner, number, given = LONG_WORK[name]
    monkeypatch.setattr(owner, number, 3)
    monkeypatch.setattr(estimate, "measured", lambda _, work: (work(), (each, 2**20))[1])
    monkeypatch.chdir(tmp_path)
    header, *texts = TEXTS.splitlines()
    data.write_text("\n".join([header, *texts[:rows]]))
    (tmp_path / "texts.txt").write_text("\n".join(texts[:rows]))
    found = run(name, *given, "-m", "sentiment")
    assert found.code == 0, found.err
    assert found.out
    foretold = re.search(r"^about \d+ \w+, \d+ forward passes, and about \d+ MiB", found.err, re.M)
    assert bool(foretold) == told, found.err


def test_processes_share_the_time_and_not_the_passes():
    alone = estimate.Estimate([10, 20], 10, 50.0, 4.0, 2**20, 1.0)
    shared = alone._replace(workers=2)
    assert (alone.total, shared.total) == (150.0, 75.0)
    assert ", 12 forward passes" in alone.all
    assert ", 12 forward passes" in shared.all
