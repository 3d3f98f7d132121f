"""Every page's Python runs somewhere, and every command on a page is one that the program knows.

Models of the hub are stood in for by small ones of the same kind.
"""

import re
import shlex
import wave
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import transformers
import typer
from PIL import Image

import attnflow
import heard
import pictured
import tiny
from attnflow.cli.app import app, run

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ELSEWHERE = {
    *("README.md", "python.md", "datasets.md", "heads.md", "answers.md"),  # test_docs
    "knockouts.md",  # test_docs
    *("index.md", "methods/*", "rules/*"),  # test_method_pages
    *("howto/*", "tour.md", "extending.md"),  # test_howto, test_tour, tests/test_extending
}
RUN = ("README.md", "figures.md")
"""Whose commands on shipped models and texts run here; others run where their Python does."""


def short(page):
    return str(page.relative_to(ROOT)).removeprefix("docs/")


def python(page):
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def commands(page):
    """The commands in a page's blocks, without what follows them in a comment."""
    blocks = re.findall(r"```(?:sh|console)?\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    typed = [line.strip().removeprefix("$ ") for line in lines]
    return [shlex.split(line, comments=True) for line in typed if line.startswith("attnflow ")]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with what the pages speak of."""
    monkeypatch.chdir(tmp_path)
    pixels = np.random.default_rng(0).integers(0, 255, (40, 30, 3), dtype=np.uint8)
    Image.fromarray(pixels).save("cat.jpg")
    with wave.open("speech.wav", "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes((heard.sound() * 32_000).astype(np.int16).tobytes())
    return tmp_path


def stand_ins():
    """By the name on a page, a small model of the same kind."""
    classifier = tiny.build("bert", head=transformers.BertForSequenceClassification)
    texts = (classifier, tiny.word_piece())
    images = tiny.build("vit"), pictured.processor().image_processor
    return {
        "textattack/bert-base-uncased-SST-2": texts,
        "path/to/a/folder": texts,
        "google/vit-base-patch16-224": images,
        "llava-hf/llava-1.5-7b-hf": pictured.llava(),
        "openai/whisper-tiny": heard.build("whisper"),
        "superb/wav2vec2-base-superb-ks": heard.build("wav2vec2-label"),
    }


def test_the_page_of_models_runs(place):
    models = stand_ins()
    network, tokenizer = models["path/to/a/folder"]
    names = {"MODELS": models, "model": network, "tokenizer": tokenizer, "samples": heard.sound()}
    for block in python(ROOT / "docs" / "models.md"):
        for name in models:
            block = block.replace(f'"{name}"', f'MODELS["{name}"]')
        exec(compile(block, "models.md", "exec"), names)
    assert (place / "it.json").exists()
    assert names["attribution"].grid.seconds is not None  # the last one is of a sound


def test_the_page_of_figures_runs(place):
    names = {"some_axes": matplotlib.figure.Figure().subplots()}
    for block in python(ROOT / "docs" / "figures.md"):
        exec(compile(block, "figures.md", "exec"), names)
    assert names["some_axes"].has_data()
    assert (place / "keys.svg").exists()


def test_the_page_of_methods_runs(capsys):
    for block in python(ROOT / "docs" / "methods.md"):
        exec(compile(block, "methods.md", "exec"), {"attnflow": attnflow})
    assert capsys.readouterr().out.count("'agreement'") == 2


def test_the_page_of_flow_runs():
    names = {}
    for block in python(ROOT / "docs" / "flow.md"):
        exec(compile(block, "flow.md", "exec"), names)


def test_no_page_has_python_that_nothing_runs():
    here = {"models.md", "figures.md", "methods.md", "flow.md"}
    left = [page for page in PAGES if python(page) and short(page) not in here | ELSEWHERE]
    assert [short(page) for page in left if f"{page.parent.name}/*" not in ELSEWHERE] == []


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=short)
def test_commands_are_those_of_the_program(page):
    """Names and options are known; what stands for a reader's own is not looked at."""
    program = typer.main.get_command(app)
    for _, name, *arguments in commands(page):
        command = program.commands[name]
        context = command.context_class(command, info_name=name)
        command.make_parser(context).parse_args(args=list(arguments))


@pytest.mark.parametrize("page", RUN)
def test_commands_on_shipped_models_run(page, place, capsys):
    (found,) = [each for each in PAGES if short(each) == page]
    shipped = [
        arguments
        for _, *arguments in commands(found)
        if not {"--model", "--chat"} & set(arguments) and arguments[0] not in ("tour", "serve")
    ]
    assert len(shipped) >= 3
    for arguments in shipped:
        assert run(arguments) == 0, f"{arguments}: {capsys.readouterr().err}"
