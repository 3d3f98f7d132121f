"""The wheel holds the whole package: weights, pages and texts too."""

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_nothing_is_forgotten(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("attnflow/")}
    tracked = subprocess.run(
        ["git", "ls-files", "src/attnflow"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert {name.removeprefix("src/") for name in tracked} - packed == set()
    assert {"attnflow/py.typed", "attnflow/shipped/verbs/model.safetensors"} <= packed


def test_the_version_is_the_same_everywhere():
    from attnflow.version import VERSION

    cited = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {VERSION}\n" in cited
    assert f"\n## {VERSION}\n" in (ROOT / "CHANGELOG.md").read_text()
