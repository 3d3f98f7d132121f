"""``attnflow run`` from end to end."""

import json

import transformers

import attnflow
import tiny


def test_a_file_is_explained(run, folder, tmp_path):
    source = tmp_path / "texts.tsv"
    source.write_text("sentence\tlabel\nthe keys\t1\na cat\t0\n\t1\n")
    place = tmp_path / "out"
    arguments = ["run", source, "-o", place, "-m", folder, "--text-column", "sentence"]
    arguments += ["--method", "flow", "--layers", "all", "--id-column", "label"]
    done = run(*arguments)
    assert done.code == 0, done.err
    counted = f"3 rows, 2 attributions (flow on attention) in {place}"
    assert done.out == f"{counted}\n"
    assert "1 row could not be explained; row 2: sentence is empty" in done.err
    made = attnflow.read_run(place)
    assert [one.text for one in made] == ["the keys", "a cat"]
    alone = attnflow.explain("the keys", folder, layers="all", method="flow")
    assert abs(next(iter(made)).row() - alone.row()).max() < 1e-6
    assert json.loads((place / "manifest.json").read_text())["source"] == str(source)
    again = run(*arguments)
    assert again.out == f"{counted}; all of them had been explained before\n"
    again = run(*arguments, "--strict")
    assert again.code == 2
    assert "options.strict was false, now true" in again.err


def test_it_says_what_was_used_where_nothing_was_named(run, tmp_path):
    network = tiny.build("gpt2", head=transformers.GPT2ForSequenceClassification)
    network.config.pad_token_id = 0
    network.save_pretrained(tmp_path / "model")
    tiny.plain().save_pretrained(tmp_path / "model")
    source = tmp_path / "texts.txt"
    source.write_text("the keys are here\n")
    done = run("run", source, "-o", tmp_path / "out", "-m", tmp_path / "model")
    assert "1 attributions (relevance flow, sink)" in done.out


def test_what_cannot_be_run_is_told_in_one_line(run, folder, tmp_path):
    source = tmp_path / "texts.jsonl"
    source.write_text('{"text": ""}\n')
    done = run("run", source, "-o", tmp_path / "a", "-m", folder)
    assert done.code == 1
    assert "1 row could not be explained; row 0: text is empty" in done.err
    done = run("run", source, "-o", tmp_path / "b", "--text-column", "body")
    assert done.code == 2
    assert "has no column 'body'; its columns: 'text'" in done.err
    done = run("run", tmp_path / "none.csv", "-o", tmp_path / "b")
    assert (done.code, "does not exist" in done.err) == (2, True)
    assert not (tmp_path / "b").exists()
