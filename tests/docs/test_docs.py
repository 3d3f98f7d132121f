"""The documentation is true: its Python runs, its links lead somewhere, its names exist."""

import doctest
import importlib
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import transformers

import attnflow
import talkers
import tiny

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_readmes_python_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert len(blocks) >= 2
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert printed.startswith("positive [('wonderful', ")
    assert "Route(positions=(0, " in printed


def test_the_python_pages_python_runs(capsys):
    """All of it in one go: later blocks use what earlier ones made."""
    text = (ROOT / "docs" / "python.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) >= 5
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "python.md", "exec"), names)
    printed = capsys.readouterr().out
    assert printed.startswith("plural [('keys', ")
    assert abs(names["integrated"].statistics["completeness_gap"]) < 1e-3
    assert tuple(names["scores"].shape) == (1, 3, 1, 6)
    value, capacity = names["pair"].value, sum(edge.capacity for edge in names["pair"].cut)
    assert value == pytest.approx(capacity, abs=1e-9)
    alone = attnflow.explain(names["text"], names["model"], method="flow").row()
    assert value == pytest.approx(alone[2], abs=1e-6)


def test_the_page_of_data_sets_runs(capsys):
    text = (ROOT / "docs" / "datasets.md").read_text()
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(compile(block, "datasets.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "3 rows, 2 attributions, 1 errors" in printed
    assert "2 c text is empty" in printed
    assert list(names["frame"]["row"]) == [0, 1, 2]


def test_the_page_of_heads_runs(capsys):
    text = (ROOT / "docs" / "heads.md").read_text()
    names: dict[str, Any] = {"attnflow": attnflow, **small_heads()}
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(compile(block, "heads.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "the cat is on the mat / the mat is red" in printed


def test_the_page_of_answers_runs(capsys):
    text = (ROOT / "docs" / "answers.md").read_text()
    small = talkers.llama(max_position_embeddings=256, num_hidden_layers=2)
    names: dict[str, Any] = {"attnflow": attnflow, "model": attnflow.load_model(small)}
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(compile(block, "answers.md", "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    assert printed[-2:] == ["True", "rollout 0.0"]
    named = [line.split()[0] for line in printed]
    assert [name for name in named if name in ("system", "user", "keys", "cat", "rest")]
    assert names["one"].values.tolist() == names["found"].matrix()[0].tolist()


def test_the_page_of_knockouts_runs(capsys):
    text = (ROOT / "docs" / "knockouts.md").read_text()
    small = talkers.llama(max_position_embeddings=256, num_hidden_layers=2)
    names: dict[str, Any] = {"model": attnflow.load_model(small)}
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(compile(block, "knockouts.md", "exec"), names)
    printed = capsys.readouterr().out
    found = names["found"]
    sentence = re.search(r"edges · attnflow/sentiment\n(.*?)\.\n\n", text, flags=re.DOTALL)[1]
    assert " ".join(sentence.split()).lower() == found.summary  # what the page shows is so
    assert f"{found.removed} of {found.total} edges" in text
    assert "hidden from all others 72 negative" in printed
    assert "the cut between “wonderful” and “[CLS]”" in printed
    assert names["answer"].answer.strip() == "red"


def small_heads():
    """The models that the page of heads speaks of, small and not trained."""
    classifier = tiny.build("bert", head=transformers.BertForSequenceClassification)
    tagger = tiny.build("bert", head=transformers.BertForTokenClassification)
    tagger.config.id2label = {0: "O", 1: "B-THING"}
    answerer = tiny.build("bert", head=transformers.BertForQuestionAnswering)
    return {
        "tagger": attnflow.load_model((tagger, tiny.word_piece())),
        "answerer": attnflow.load_model((answerer, tiny.pair_piece())),
        "nli": attnflow.load_model((classifier, tiny.pair_piece())),
        "embedder": attnflow.load_model((tiny.build("bert"), tiny.word_piece())),
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = page.read_text()
    targets = re.findall(r"\]\(([^)#\s]+)", text)
    for target in targets + re.findall(r'(?:src|srcset)="([^"]+)"', text):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_the_readmes_commands_are_there():
    readme = (ROOT / "README.md").read_text()
    for script in re.findall(r"^(scripts/\w+)", readme, flags=re.MULTILINE):
        assert (ROOT / script).stat().st_mode & 0o100, script
    known = (ROOT / "docs" / "cli.md").read_text()
    commands = set(re.findall(r"^\$ attnflow (\w+)", readme, flags=re.MULTILINE))
    assert {"explain", "routes", "figure"} <= commands
    assert [name for name in commands if f"attnflow {name}" not in known] == []


@pytest.mark.parametrize("name", [name for name in attnflow.__all__ if name != "__version__"])
def test_public_names_are_documented(name):
    assert getattr(attnflow, name).__doc__


@pytest.mark.parametrize(
    "module",
    [
        "attnflow.api.arrays",
        "attnflow.api.explain",
        "attnflow.api.knockout",
        "attnflow.api.trace",
        "attnflow.evaluation.agreement",
        "attnflow.pipeline.edge_sets",
        "attnflow.records.knockout",
    ],
)
def test_examples_in_docstrings_run(module):
    found = doctest.testmod(importlib.import_module(module))
    assert found.attempted > 0
    assert found.failed == 0


def test_the_gallery_is_what_its_script_writes_and_has_its_pictures(pytestconfig):
    script = runpy.run_path(str(pytestconfig.rootpath / "scripts" / "write-gallery"))
    page = pytestconfig.rootpath / "docs" / "gallery.md"
    assert page.read_text(encoding="utf-8") == script["page"](), "run scripts/write-gallery"
    pictures = {file.stem: file.stat().st_size for file in script["FOLDER"].iterdir()}
    assert set(pictures) == {name for name, *_ in script["PICTURES"]}
    assert max(pictures.values()) <= script["MOST_BYTES"]
