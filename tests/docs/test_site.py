"""The documentation site builds without a warning, and finds its pages without a network."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={"PATH": "", "NO_MKDOCS_2_WARNING": "1", "HOME": str(folder)},
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder


def test_every_page_is_in_the_site(site):
    docs = ROOT / "docs"
    pages = {path.relative_to(docs).with_suffix("") for path in docs.rglob("*.md")}
    assert pages <= {path.relative_to(site).with_suffix("") for path in site.rglob("*.html")}


def test_the_reference_has_every_option_of_explain(site):
    import inspect

    import attnflow

    text = re.sub(r"<[^>]+>", "", (site / "api.html").read_text())
    for name in inspect.signature(attnflow.explain).parameters:
        assert name in text


def test_the_reference_has_every_public_name(site):
    import attnflow

    text = re.sub(r"<[^>]+>", "", (site / "api.html").read_text())
    names = [name for name in attnflow.__all__ if name != "__version__"]
    assert [name for name in names if not re.search(rf"\b{name}\b", text)] == []


def test_nothing_is_fetched_from_elsewhere(site):
    for page in site.rglob("*.html"):
        fetched = re.findall(r'<(?:script|img)[^>]*\ssrc="(https?:[^"]+)"', page.read_text())
        fetched += re.findall(
            r'<link[^>]*rel="stylesheet"[^>]*href="(https?:[^"]+)"', page.read_text()
        )
        assert fetched == [], page.name


def test_search_needs_no_service_of_others(site):
    assert (site / "search" / "search_index.json").stat().st_size > 10_000


@pytest.mark.browser
def test_a_site_that_is_opened_from_the_disk_can_be_searched(site, browser):
    page = browser.new_page()
    page.goto((site / "tutorials" / "dataset.html").as_uri())
    page.get_by_placeholder("Search").click()
    page.keyboard.type("bottleneck")
    first = page.locator(".md-search-result__item a").first
    first.wait_for(timeout=30_000)
    assert Path(first.get_attribute("href").split("?")[0].removeprefix("file://")).exists()
    page.close()
