"""The how-to pages are true: their Python runs, and so do their commands, as a reader would."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import transformers
from PIL import Image

import attnflow
import pictured
import tiny
from attnflow.cli.app import run

PAGES = Path(__file__).parents[2] / "docs" / "howto"
SERVERS = ("attnflow serve",)  # which would never end


def code(page, language):
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.DOTALL)


def commands(page):
    lines = [line for block in code(page, "sh") for line in block.splitlines()]
    return [line for line in lines if not line.startswith(SERVERS)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with what the pages speak of, small."""
    folder = tmp_path_factory.mktemp("reader")
    network = tiny.build("bert", head=transformers.BertForSequenceClassification)
    network.save_pretrained(folder / "my-classifier")
    tiny.word_piece().save_pretrained(folder / "my-classifier")
    tiny.build("vit").save_pretrained(folder / "my-vit")
    pictured.processor().save_pretrained(folder / "my-vit")
    pixels = np.random.default_rng(0).integers(0, 255, (40, 30, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "photo.png")
    rows = ("the keys to the cabinet", "the man with the cats", "the dogs near the house", "a key")
    (folder / "reviews.csv").write_text("text\n" + "".join(f"{row}\n" for row in rows))
    (folder / "my-texts").mkdir()
    for name in ("train.tsv", "dev.tsv"):
        lines = [f"{row}\t{label}\n" for row in rows for label in ("short", "long")]
        (folder / "my-texts" / name).write_text("".join(["text\tlabel\n", *lines]))
    tiny.build("bert").save_pretrained(folder / "my-encoder")
    tiny.word_piece().save_pretrained(folder / "my-encoder")
    return folder


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_a_pages_commands_and_python_run(page, place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    for line in commands(page):
        program, *arguments = shlex.split(line.replace("-m NAME", "-m my-vit"))
        assert program == "attnflow", line
        assert run(arguments) == 0, f"{line}: {capsys.readouterr().err}"
    names = {"model": attnflow.load_model("my-vit")} if page.stem == "image" else {}
    for block in code(page, "python"):
        exec(compile(block, page.name, "exec"), names)
    assert capsys.readouterr().out


def test_the_page_of_reliability_names_tests_that_are_there():
    text = (PAGES.parent / "reliability.md").read_text()
    named = set(re.findall(r"`(tests/[\w/.]+)`", text))
    assert len(named) > 20
    assert [name for name in named if not (PAGES.parents[1] / name).exists()] == []
