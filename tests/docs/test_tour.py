"""The tour's notebook and page are those that the script makes, and say what the terminal says."""

import json
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(ROOT / "scripts" / "write-tour"))


@pytest.fixture(scope="module")
def kept(script):
    return json.loads(script["NOTEBOOK"].read_text(encoding="utf-8"))


def test_the_notebook_is_what_its_cells_print(script, kept):
    made = script["notebook"]()
    assert made["metadata"] == kept["metadata"]
    assert made["cells"] == kept["cells"], "run scripts/write-tour"


def test_the_page_is_the_notebook(script, kept):
    page = script["PAGE"].read_text(encoding="utf-8")
    assert page == script["page"](kept), "run scripts/write-tour"


def test_every_step_has_run(kept):
    ran = [cell for cell in kept["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in ran] == list(range(1, len(ran) + 1))
    assert all(output.get("name") == "stdout" for cell in ran for output in cell["outputs"])
