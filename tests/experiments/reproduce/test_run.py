"""`attnflow reproduce` on a small data set: tables, cases, figures, the page."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import agreement_data
import attnflow
from attnflow.cli.app import run as command
from attnflow.errors import InputError
from attnflow.shipped import folder_of
from attnflow_experiments.reproduce import results as result_files
from attnflow_experiments.reproduce import tables
from attnflow_experiments.reproduce.published import PUBLISHED
from attnflow_experiments.reproduce.report import END, START, insert_page, render_page
from attnflow_experiments.reproduce.request import DEPENDENCIES, Request
from attnflow_experiments.reproduce.run import TARGETS, run
from attnflow_experiments.training.data import held_out_rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return agreement_data.write(tmp_path_factory.mktemp("data"))[0]


@pytest.fixture(scope="module")
def results(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    targets = ("table1", "table2", "subjects", "flips", "errors", "figure2")
    return run(targets, Request(out, folder, count=6), progress=False), out


def test_table1_is_the_mean_of_each_sentences_correlation(results, folder):
    rows = held_out_rows(folder, 6)
    for method, layer in (("raw", 1), ("rollout", 6), ("flow", 4)):
        found = []
        for text, label in rows:
            scores = attnflow.explain(text, "verbs", method=method, layer=layer).row(layer)
            importance = attnflow.blank_out(text, "verbs", target=label).values
            rounded = np.round(scores / scores.max(), 9)  # flows of 1 are ties
            found.append(stats.spearmanr(rounded, importance).statistic)
        cell = results[0]["table1"]["unk"][method][layer - 1]
        assert cell["mean"] == pytest.approx(np.mean(found), abs=1e-6)
        assert cell["std"] == pytest.approx(np.std(found), abs=1e-6)
        assert (cell["count"], cell["undefined"]) == (6, 0)


def test_saved_results_are_not_computed_again(results, folder, monkeypatch):
    made, out = results
    monkeypatch.setattr(tables, "explanations", None)  # not called
    again = run(["table1", "subjects"], Request(out, folder, count=6), progress=False)
    assert again["table1"] == made["table1"]
    with pytest.raises(InputError, match=r"count was 6, now 7\. .*choose another folder"):
        run(["figure1", "table1"], Request(out, folder, count=7), progress=False)
    assert not (out / "figure1.json").exists()  # refused before any work


def test_an_interrupted_table_continues_where_it_stopped(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(result_files, "PIECE_SIZE", 2)
    request = Request(tmp_path / "stopped", folder, count=5)
    explained, original = [], tables.explanations

    def stop_at_the_third(texts, *arguments, **options):
        explained.append(texts)
        if len(explained) == 3:
            raise KeyboardInterrupt
        return original(texts, *arguments, **options)

    monkeypatch.setattr(tables, "explanations", stop_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        run(["table1"], request, progress=False)
    with pytest.raises(InputError, match=r"table1\.checkpoint was made with .*count was 5, now 4"):
        run(["table1"], Request(request.out, folder, count=4), progress=False)
    capsys.readouterr()
    found = run(["table1"], request)["table1"]
    assert "table1 continues where an earlier run stopped" in capsys.readouterr().err
    assert [len(texts) for texts in explained] == [2, 2, 1, 1]  # the interrupted one again
    assert {path.name for path in request.out.iterdir()} == {"table1.json"}
    whole = run(["table1"], Request(tmp_path / "whole", folder, count=5), progress=False)["table1"]
    assert found == whole


def test_another_models_tables(folder, results, tmp_path):
    """A copy of the shipped model, given by its folder, has the shipped model's table."""
    copy = shutil.copytree(folder_of("verbs"), tmp_path / "copy")
    request = Request(tmp_path / "out", folder, model=str(copy), count=6)
    found = run(["table1", "errors"], request, progress=False)
    assert found["table1"] == results[0]["table1"]
    saved = json.loads((tmp_path / "out" / "table1.json").read_text())
    assert saved["conditions"] == {"model": str(copy), "count": 6}
    (copy / "nouns.tsv").unlink()
    with pytest.raises(InputError, match=r"nouns\.tsv is missing"):
        run(["errors"], Request(tmp_path / "other", folder, model=str(copy)), progress=False)


def test_a_damaged_piece_is_named_and_can_be_computed_again(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(result_files, "PIECE_SIZE", 2)
    request = Request(tmp_path, folder, count=5)
    with monkeypatch.context() as patch:
        patch.setattr(tables, "summarize_pieces", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(["table1"], request, progress=False)
    piece = tmp_path / "table1.checkpoint" / "2-4.piece"
    piece.write_bytes(piece.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"2-4\.piece is damaged.*delete this file"):
        run(["table1"], request, progress=False)
    piece.unlink()
    assert run(["table1"], request, progress=False)["table1"]["unk"]["raw"][0]["count"] == 5


def _interrupt(*_):
    raise KeyboardInterrupt


def test_a_damaged_result_is_named(folder, tmp_path):
    (tmp_path / "flips.json").write_text('{"conditions"')
    with pytest.raises(InputError, match=r"flips\.json is damaged or not a result .*; delete it"):
        run(["flips"], Request(tmp_path, folder), progress=False)
    with pytest.raises(InputError, match="is a file; give a folder"):
        run(["flips"], Request(tmp_path / "flips.json", folder), progress=False)


def test_a_page_without_markers_is_refused_before_any_work(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        "attnflow_experiments.reproduce.run.run", None
    )  # would fail if it were called
    (tmp_path / "page.md").write_text("no markers")
    assert command(["reproduce", "flips", "--report", str(tmp_path / "page.md")]) == 2
    assert "has no lines" in capsys.readouterr().err


def test_every_target_has_its_dependencies():
    assert list(DEPENDENCIES) == list(TARGETS)


def test_missing_inputs_are_reported_before_any_work(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "explanations", None)  # would fail if it were called
    with pytest.raises(InputError, match="table3 needs a 6-layer encoder"):
        run((), Request(tmp_path, folder, count=3), progress=False)


def test_the_page_shows_our_numbers_next_to_the_papers(results):
    shown = render_page(results[0], "figures")
    cell = results[0]["table1"]["unk"]["flow"][5]
    assert f"{cell['mean']:.2f} ± {cell['std']:.2f}".replace("-", "−") in shown
    assert "| flow, the paper | 0.32 ± 0.26 | 0.44 ± 0.29 |" in shown
    assert "![figure2.svg](figures/figure2.svg)" in shown
    assert (results[1] / "figure2.svg").stat().st_size > 5_000
    widths = {line.count("|") for line in shown.split("## ")[1].splitlines() if "|" in line}
    assert widths == {8}


def test_the_papers_tables_have_one_cell_per_layer():
    assert {len(row) for name in ("table1", "table2") for row in PUBLISHED[name].values()} == {6}
    assert {len(row) for row in PUBLISHED["table3"].values()} == {4}


def test_flips(results):
    for pair in results[0]["flips"]:
        assert pair["answers"] == ["singular", "plural"], pair["texts"]


@pytest.mark.parametrize(
    ("targets", "options", "message"),
    [
        (["table9"], {}, "target='table9' is unknown; allowed: table1, table2"),
        (["table1"], {"count": 0}, "count=0"),
        (["table3"], {}, "attnflow train sentiment"),
        (["subjects"], {}, "wiki-dev.txt"),
    ],
)
def test_bad_requests_are_refused(tmp_path, targets, options, message):
    with pytest.raises(InputError, match=message):
        run(targets, Request(tmp_path, **options), progress=False)


def test_the_command(folder, tmp_path, capsys):
    out = tmp_path / "out"
    code = command(["reproduce", "table1", "--data", str(folder), "--count", "3", "-o", str(out)])
    assert code == 0
    assert "## Table 1" in capsys.readouterr().out
    assert json.loads((out / "table1.json").read_text())["conditions"]["count"] == 3


def test_training_names_a_missing_option(tmp_path, capsys):
    code = command(["train", "verbs", "--data", str(tmp_path), "-o", str(tmp_path / "m")])
    assert code == 2
    assert "needs --corpora" in capsys.readouterr().err


def test_the_report_keeps_the_text_around_it(results, tmp_path):
    file = tmp_path / "page.md"
    file.write_text(f"before\n{START}\nold\n{END}\nafter\n")
    insert_page({"flips": results[0]["flips"]}, results[1], file)
    text = file.read_text()
    assert text.startswith(f"before\n{START}\n## Changing")
    assert text.endswith(f"{END}\nafter\n")
    assert "old" not in text
    file.write_text("no markers")
    with pytest.raises(InputError, match="has no lines"):
        insert_page(results[0], results[1], file)
    assert file.read_text() == "no markers"


def test_the_committed_page_shows_the_committed_results():
    docs = Path(__file__).parents[3] / "docs"
    names = [name for name in TARGETS if (docs / "reproduction" / f"{name}.json").exists()]
    assert {"table1", "table2", "figure1"} <= set(names)
    saved = {
        name: json.loads((docs / "reproduction" / f"{name}.json").read_text("utf-8"))["result"]
        for name in names
    }
    text = (docs / "reproduction.md").read_text("utf-8")
    assert text.partition(START)[2].partition(END)[0] == "\n" + render_page(saved, "reproduction")
