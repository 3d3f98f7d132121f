"""``attnflow fit`` from texts to an explanation with what was learned."""

import pytest

import attnflow
from attnflow.evaluation import fit as fitting

TEXTS = [f"the {noun} to the {other} is here" for noun in ("keys", "cat", "mat") for other in
         ("cabinet", "cat", "red mat")]  # fmt: skip


@pytest.fixture
def texts(tmp_path):
    file = tmp_path / "texts.txt"
    file.write_text("\n".join(TEXTS) + "\n")
    return file


def test_learned_heads_end_to_end(run, folder, texts, tmp_path):
    file = tmp_path / "heads.json"
    ran = run("fit", folder, texts, "-o", file)
    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    assert lines[0].startswith("On 2 held-out texts")
    assert [line.split(maxsplit=2)[2] for line in lines[2:5]] == [
        "learned", "mean of heads", "position",
    ]  # fmt: skip
    figures = attnflow.LearnedHeads.load(file).figures
    better = figures["learned"]["agreement"] > figures["mean of heads"]["agreement"]
    assert lines[5].startswith("The weights do better" if better else "The weights do no better")
    shown = run("explain", TEXTS[0], "-m", folder, "--heads", file, "--method", "flow", "-v")
    assert shown.code == 0, shown.err
    assert "learned (12 weights" in " ".join(shown.out.split())
    again = run("fit", folder, texts, "-o", file)
    assert again.code == 2
    assert "exists; choose another name" in again.err
    other = run("explain", TEXTS[0], "--heads", file)
    assert other.code == 2
    assert "heads were learned on the model" in " ".join(other.err.split())


def test_a_file_must_be_known_as_one(run, folder, texts, tmp_path):
    ran = run("fit", folder, texts, "-o", tmp_path / "heads")
    assert ran.code == 2
    assert "must end in .json" in ran.err


def test_control_c_says_how_to_go_on(run, folder, texts, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(fitting, "_piece", stop)
    ran = run("fit", folder, texts, "-o", tmp_path / "heads.json")
    assert ran.code == 130
    assert "run the same command again to continue" in ran.err
