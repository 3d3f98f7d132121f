"""The page's modules: those that draw nothing are tested by node itself; all keep the rules."""

import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from attnflow.views.explorer.render import read_static

TESTS = sorted((Path(__file__).parent / "js").glob("*.test.js"))
FILES = sorted(path.name for path in (files("attnflow.views.explorer") / "static").iterdir())


def test_modules_without_a_browser():
    node = shutil.which("node")
    assert node, "node is missing: install Node.js 20 or later to test the page's modules"
    command = [node, "--test", "--test-reporter=tap", *map(str, TESTS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = {name: int(n) for name, n in re.findall(r"^# (\w+) (\d+)$", done.stdout, re.M)}
    tested = {path.name.removesuffix(".test.js") for path in TESTS}
    assert tested >= {"align", "edges", "numbers", "state", "view"}
    written = sum(len(re.findall(r"^test\(", path.read_text(), re.M)) for path in TESTS)
    assert counts["tests"] == counts["pass"] == written > 20


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith((".js", ".css"))])
def test_no_method_is_named(name):
    """The document says which methods there are; the page knows none."""
    assert not re.findall(r"(?i)\b(?:raw|rollout|flow)\b", read_static(name))


@pytest.mark.parametrize("name", FILES)
def test_lines_and_modules_are_short(name):
    lines = read_static(name).splitlines()
    assert max(map(len, lines)) <= 100
    if name.endswith(".js"):
        assert len(lines) <= 200
