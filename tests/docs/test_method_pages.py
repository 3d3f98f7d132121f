"""Every edge rule and method has its page: a picture, and an example that prints what it says."""

import re
import runpy
from pathlib import Path

import pytest

import attnflow
from attnflow.cli.app import run

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted((DOCS / "rules").glob("*.md")), *sorted((DOCS / "methods").glob("*.md"))]
NUMBER = re.compile(r"-?\d+\.\d+")


def shipped(family):
    """The names of the members that attnflow itself defines, whatever tests have registered."""
    made_by = ("maps", "score", "measure")
    makers = {
        member.name: next(getattr(member, name) for name in made_by if hasattr(member, name))
        for member in family.members()
    }
    return {name for name, maker in makers.items() if maker.__module__.startswith("attnflow.")}


def same_output(printed, written):
    """The same words, and the same numbers but for their last digit."""
    assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", written).split()
    numbers = [[float(each) for each in NUMBER.findall(text)] for text in (printed, written)]
    assert numbers[0] == pytest.approx(numbers[1], abs=0.011)


@pytest.mark.parametrize(
    ("folder", "family"), [("rules", attnflow.EDGE_RULES), ("methods", attnflow.METHODS)]
)
def test_every_member_has_a_page_and_a_picture_and_the_overview_leads_there(folder, family):
    names = shipped(family)
    assert {page.stem for page in (DOCS / folder).glob("*.md")} == names
    pictures = {file.stem: file.stat().st_size for file in (DOCS / "images" / folder).iterdir()}
    script = runpy.run_path(str(ROOT / "scripts" / "write-method-pictures"))
    assert set(pictures) == names, "run scripts/write-method-pictures"
    assert max(pictures.values()) <= script["MOST_BYTES"]
    overview = (DOCS / "methods.md").read_text(encoding="utf-8")
    for name in names:
        assert f"]({folder}/{name}.md)" in overview


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_a_page_has_its_parts_and_its_example_prints_what_it_says(page, capsys):
    text = page.read_text(encoding="utf-8")
    option = "edges" if page.parent.name == "rules" else "method"
    assert text.splitlines()[0].endswith(f': `{option}="{page.stem}"`')
    assert f"](../images/{page.parent.name}/{page.stem}.svg)" in text
    for part in ("**Reference**: ", "**Cost**: ", "**Use it**", "**Don't use it**"):
        assert text.count(part) == 1, part
    ((code, written),) = examples(text)
    assert f'{option}="{page.stem}"' in code
    exec(compile(code, page.name, "exec"), {})
    same_output(capsys.readouterr().out, written)


def test_the_first_pages_command_and_python_print_what_it_says(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    command = re.search(
        r"```sh\nattnflow explain \"(.*?)\"\n```\n\n```text\n(.*?)```", text, re.DOTALL
    )
    assert command is not None
    assert run(["explain", command[1]]) == 0
    same_output(capsys.readouterr().out, command[2])
    ((code, written),) = examples(text)
    exec(compile(code, "index.md", "exec"), {})
    same_output(capsys.readouterr().out, written)


def examples(text):
    """The Python of a page, each with the output written below it."""
    return re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, flags=re.DOTALL)
