"""All code on the pages runs: Python in order, commands as typed, and they print what is shown.

Models that the pages take from the hub are replaced by small ones of the same kind.
"""

import re
import shlex
import wave
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
import transformers
import typer
from PIL import Image

import attnflow
import heard
import pictured
import talkers
import tiny
from attnflow.cli.app import app, run

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ELSEWHERE = {"tour.md", "extending.md"}  # test_tour, tests/test_plugins
RUN = (
    *("README.md", "index.md", "knockouts.md", "howto/image.md", "howto/own-model.md"),
    *("tutorials/classifier.md", "tutorials/dataset.md", "tutorials/figure.md"),
)
"""Pages whose commands run here. On all others they are parsed."""

OWN = {"NAME", "TEXT", "FOLDER", "--chat"}
"""What stands for something of the reader's own."""

NUMBER = re.compile(r"-?\d+\.\d+")


def short(page: Path) -> str:
    return str(page.relative_to(ROOT)).removeprefix("docs/")


def blocks(page: Path) -> list[tuple[str, str, str]]:
    """Language and code of each block, and the output shown directly below it."""
    pattern = r"```(\w*)\n(.*?)```(?:\n\n```text\n(.*?)```)?"
    return re.findall(pattern, page.read_text(encoding="utf-8"), flags=re.DOTALL)


def python(page: Path) -> list[tuple[str, str]]:
    return [(code, shown) for language, code, shown in blocks(page) if language == "python"]


def commands(page: Path) -> list[tuple[list[str], str]]:
    """The commands of a page, without comments; of a block of one, what it prints."""
    found = []
    for language, code, shown in blocks(page):
        if language in ("", "sh", "console"):
            lines = [line.strip() for line in code.replace("\\\n", " ").splitlines()]
            typed = [line.removeprefix("$ ") for line in lines]
            typed = [line for line in typed if line.startswith("attnflow ")]
            found += [(shlex.split(line, comments=True)[1:], shown) for line in typed]
    return found


def same_output(printed: str, shown: str) -> None:
    """The same words, and the same numbers but for their last digit."""
    assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", shown).split()
    numbers = [[float(each) for each in NUMBER.findall(text)] for text in (printed, shown)]
    assert numbers[0] == pytest.approx(numbers[1], abs=0.011)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the pages mention, small."""
    place = tmp_path_factory.mktemp("reader")
    network = tiny.build("bert", head=transformers.BertForSequenceClassification)
    network.save_pretrained(place / "my-classifier")
    tiny.word_piece().save_pretrained(place / "my-classifier")
    tiny.build("vit").save_pretrained(place / "my-vit")
    pictured.processor().save_pretrained(place / "my-vit")
    tiny.build("bert").save_pretrained(place / "my-encoder")
    tiny.word_piece().save_pretrained(place / "my-encoder")
    pixels = np.random.default_rng(0).integers(0, 255, (40, 30, 3), dtype=np.uint8)
    for name in ("cat.jpg", "photo.png"):
        Image.fromarray(pixels).save(place / name)
    with wave.open(str(place / "speech.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes((heard.sound() * 32_000).astype(np.int16).tobytes())
    rows = ("the keys to the cabinet", "the man with the cats", "the dogs near the house", "a key")
    (place / "reviews.csv").write_text("text\n" + "".join(f"{row}\n" for row in rows))
    (place / "my-texts").mkdir()
    for name in ("train.tsv", "dev.tsv"):
        lines = [f"{row}\t{label}\n" for row in rows for label in ("short", "long")]
        (place / "my-texts" / name).write_text("".join(["text\tlabel\n", *lines]))
    return place


@pytest.fixture
def reader(folder, monkeypatch):
    """A reader in that folder, with a terminal of 80 columns."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    return folder


def from_the_hub() -> dict[str, Any]:
    """By the name on a page, a small model of the same kind."""
    classifier = tiny.build("bert", head=transformers.BertForSequenceClassification)
    texts = (classifier, tiny.word_piece())
    return {
        "textattack/bert-base-uncased-SST-2": texts,
        "path/to/a/folder": texts,
        "google/vit-base-patch16-224": (tiny.build("vit"), pictured.processor().image_processor),
        "llava-hf/llava-1.5-7b-hf": pictured.llava(),
        "openai/whisper-tiny": heard.build("whisper"),
        "superb/wav2vec2-base-superb-ks": heard.build("wav2vec2-label"),
    }


def heads() -> dict[str, Any]:
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


def objects() -> dict[str, Any]:
    network, tokenizer = from_the_hub()["path/to/a/folder"]
    return {"model": network, "tokenizer": tokenizer, "samples": heard.sound()}


def writer() -> dict[str, Any]:
    small = talkers.llama(max_position_embeddings=256, num_hidden_layers=2)
    return {"model": attnflow.load_model(small)}


GIVEN = {
    "answers.md": writer,
    "heads.md": heads,
    "howto/cite.md": writer,
    "howto/image.md": lambda: {"model": attnflow.load_model("my-vit")},
    "howto/reasoning.md": writer,
    "howto/elsewhere.md": writer,
    "knockouts.md": writer,
    "models.md": objects,
    "tutorials/documents.md": writer,
    "tutorials/figure.md": lambda: {"some_axes": matplotlib.figure.Figure().subplots()},
    "tutorials/language-model.md": writer,
}
"""By page, the names that its text introduces before the first block."""


def answers(names, printed):
    assert printed.splitlines()[-2:] == ["True", "rollout 0.0"]
    assert names["one"].values == pytest.approx(names["found"].matrix()[0], abs=1e-12)


def arrays(names, printed):
    assert printed.startswith("plural [('keys', ")
    assert abs(names["integrated"].statistics["completeness_gap"]) < 1e-3
    assert tuple(names["scores"].shape) == (1, 3, 1, 6)
    value, capacity = names["pair"].value, sum(edge.capacity for edge in names["pair"].cut)
    assert value == pytest.approx(capacity, abs=1e-9)
    alone = attnflow.explain(names["text"], names["model"], method="flow").row()
    assert value == pytest.approx(alone[2], abs=1e-6)


def data(names, printed):
    assert "3 rows, 2 attributions, 1 errors" in printed
    assert "2 c text is empty" in printed
    assert list(names["frame"]["row"]) == [0, 1, 2]


def without(names, printed):
    assert "hidden from all others 72 negative" in printed
    assert "the cut between “wonderful” and “[CLS]”" in printed
    assert names["answer"].answer.strip() == "red"


def kinds(names, printed):
    assert Path("it.json").exists()
    assert names["attribution"].grid.seconds is not None  # the last one is of a sound


CHECKS = {
    "answers.md": answers,
    "datasets.md": data,
    "knockouts.md": without,
    "models.md": kinds,
    "python.md": arrays,
}
"""By page, what must hold after its code ran, beyond the output that it shows."""


@pytest.mark.parametrize("page", [page for page in PAGES if python(page)], ids=short)
def test_the_python_of_a_page_runs_and_prints_what_is_shown(page, reader, capsys):
    if short(page) in ELSEWHERE:
        pytest.skip("runs in a test of its own")
    models = from_the_hub() if short(page) == "models.md" else {}
    names = {"attnflow": attnflow, "MODELS": models, **GIVEN.get(short(page), dict)()}
    if short(page) == "tutorials/dataset.md" and not Path("explained").exists():
        assert run(["run", "reviews.csv", "-o", "explained", "-m", "verbs"]) == 0
        capsys.readouterr()
    everything = ""
    for code, shown in python(page):
        for name in models:
            code = code.replace(f'"{name}"', f'MODELS["{name}"]')
        exec(compile(code, page.name, "exec"), names)
        printed = capsys.readouterr().out
        everything += printed
        if shown:
            same_output(printed, shown)
    CHECKS.get(short(page), lambda names, printed: None)(names, everything)


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=short)
def test_commands_have_names_and_options_that_exist(page):
    program = typer.main.get_command(app)
    for (name, *arguments), _ in commands(page):
        command = program.commands[name]
        context = command.context_class(command, info_name=name)
        command.make_parser(context).parse_args(args=list(arguments))


@pytest.mark.parametrize("page", RUN)
def test_commands_run_and_print_what_is_shown(page, reader, capsys):
    (found,) = [each for each in PAGES if short(each) == page]
    image = {"NAME": "my-vit"} if page == "howto/image.md" else {}
    ran = 0
    for typed, shown in commands(found):
        arguments = [image.get(argument, argument) for argument in typed]
        from_hub = any(name in arguments for name in from_the_hub())
        if arguments[0] in ("tour", "serve") or OWN & set(arguments) or from_hub:
            continue
        assert run(arguments) == 0, f"{arguments}: {capsys.readouterr().err}"
        printed = capsys.readouterr().out
        ran += 1
        if shown:
            same_output(printed, shown)
    assert ran


def test_the_page_of_reliability_names_tests_that_exist():
    named = re.findall(r"`(tests/[\w/.]+)`", (ROOT / "docs" / "reliability.md").read_text())
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize(
    ("page", "folder", "family"),
    [("edges", "rules", attnflow.EDGE_RULES), ("methods", "methods", attnflow.METHODS)],
)
def test_every_rule_and_method_has_a_section_and_a_picture(page, folder, family):
    text = (ROOT / "docs" / "reference" / f"{page}.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## ([\w-]+)\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE))
    for name in shipped(family):
        assert f"](../images/{folder}/{name}.svg)" in sections[name], name
        assert f"[`{name}`](#{name})" in text.split("\n## ")[0], f"{name} is not in the table"


def shipped(family):
    """The names of the members that attnflow itself defines, whatever tests have registered."""
    made_by = ("maps", "score", "measure")
    makers = {
        member.name: next(filter(None, (getattr(member, name, None) for name in made_by)))
        for member in family.members()
    }
    return {name for name, maker in makers.items() if maker.__module__.startswith("attnflow.")}
