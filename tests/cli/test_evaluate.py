"""``attnflow evaluate`` from end to end."""

import re

from rich.cells import cell_len

from attnflow.evaluation.result import Evaluation


def test_a_table_is_shown_and_everything_saved(run, folder, tmp_path):
    source = tmp_path / "texts.csv"
    source.write_text("text\nthe keys to the cabinet\na cat on the mat\n\nhere is a key\n")
    files = {name: tmp_path / name for name in ("r.json", "t.md", "c.svg", "k.png")}
    arguments = ["evaluate", source, "-m", folder, "--method", "rollout", "--metric", "aopc"]
    arguments += ["--result", files["r.json"], "--table", files["t.md"]]
    arguments += ["--curves", files["c.svg"], "--ranks", files["k.png"], "--replacement", "delete"]
    done = run(*arguments, columns=120)
    assert done.code == 0, done.err
    assert "with 3 of them and" in " ".join(done.out.split())  # too few to tell anything apart
    assert "AOPC" in done.out
    assert "rollout, layer 3" in done.out
    assert "last-layer attention" in done.out
    assert all(file.stat().st_size > 100 for file in files.values())
    assert Evaluation.load(files["r.json"]).texts == 3
    again = run(*arguments)
    assert (again.code, "exists; choose another name" in again.err) == (2, True)
    wrong = run("evaluate", source, "-m", folder, "--metric", "nothing")
    assert wrong.code == 2
    assert "metric='nothing' is unknown; allowed: comprehensiveness" in wrong.err


def test_tables_fit_the_terminal(run, folder, tmp_path):
    source = tmp_path / "texts.csv"
    source.write_text("text\nthe keys to the cabinet\na cat on the mat\nhere is a key\n")
    shown = run("evaluate", source, "-m", folder, "--method", "rollout", columns=80).out
    assert max(map(cell_len, shown.splitlines())) <= 80
    numbers = re.findall(r"^rollout, layer 3 .*\d\.\d{3} \[", shown, re.M)
    assert len(numbers) > 3  # as many tables as metrics need
    assert "…" not in shown
    # What is bold in a terminal has a mark of its own, since a pipe has no bold type.
    assert "In bold" not in shown
    assert " * the best; †" in " ".join(shown.split())
    assert len(re.findall(r"\d\] \*", shown)) >= 5
