"""The steps of the benchmark of known answers: in order, each once, failures apart."""

from attnflow_experiments.known_answers import steps


def note(folder, name, *needed):
    """Write a file, once those of the steps before are there."""
    for other in needed:
        assert (folder / other).exists()
    with (folder / name).open("x", encoding="utf-8") as file:
        file.write(name)


def fail(folder, name):
    msg = f"{name} in {folder}"
    raise RuntimeError(msg)


def test_each_step_is_done_once_after_those_it_needs(tmp_path, capfd):
    todo = [
        steps.Step("c", frozenset("ab"), note, (tmp_path, "c", "a", "b")),
        steps.Step("a", frozenset(), note, (tmp_path, "a")),
        steps.Step("b", frozenset("a"), note, (tmp_path, "b", "a")),
        steps.Step("bad", frozenset("a"), fail, (tmp_path, "bad")),
        steps.Step("after", frozenset(["bad"]), note, (tmp_path, "after")),
    ]
    assert steps.do_all(todo, 2, 10) == ["bad", "after"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c"]
    assert "bad failed" in capfd.readouterr().err


def test_after_its_minutes_nothing_new_is_begun(tmp_path):
    todo = [steps.Step(name, frozenset(), note, (tmp_path, name)) for name in "ab"]
    todo += [steps.Step("c", frozenset("ab"), note, (tmp_path, "c"))]
    left = steps.do_all(todo, 1, 0)
    assert "c" in left
    assert {*left, *(path.name for path in tmp_path.iterdir())} == set("abc")
