"""axe-core finds nothing to complain about; the page is whole on paper and without JavaScript."""

import re

import numpy as np
import pytest
from PIL import Image

import attnflow
from attnflow.views.wording.numbers import number
from seen import settle, violations

pytestmark = pytest.mark.browser
TEXT = "the old keys to the cabinets are here"


@pytest.fixture(scope="module")
def file(classifier, tmp_path_factory):
    view = attnflow.explore(TEXT, classifier, compare="the old key is here", edges="attention")
    return view.save(tmp_path_factory.mktemp("page") / "view.html").as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "state",
    [
        "method=raw&compare=",
        "method=rollout&compare=&words=1",
        "method=flow&compare=&mode=blank&pane=0.3.2",
        "method=rollout&compare=&columns=heads",
        "method=rollout&compare=&columns=all",
        "method=flow&compare=text",
        "method=flow&compare=raw",
    ],
)
def test_nothing_is_violated_in_a_file(tab, file, scheme, state):
    tab.emulate_media(color_scheme=scheme)
    tab.goto(f"{file}#{state}")
    tab.wait_for_selector(".token.traced")
    assert violations(tab) == []


@pytest.fixture(scope="module")
def sizes(classifier, models, tmp_path_factory):
    """Pages of 10, 66 and 256 tokens."""
    folder = tmp_path_factory.mktemp("sizes")
    words = ["The", "keys", "to", "the", "old", "cabinet", "are", "here", "."] * 40
    reader = {10: classifier, 66: models["tiny/long"], 256: models["tiny/long"]}
    pages = {}
    for size, model in reader.items():
        text = " ".join(words[: size - 2])
        view = attnflow.explore(text, model, edges="attention", method="rollout")
        assert len(view.document["views"][0]["tokens"]) == size
        pages[size] = view.save(folder / f"{size}.html").as_uri()
    return pages


@pytest.mark.parametrize("width", [1440, 1024, 390])
@pytest.mark.parametrize("size", [10, 66, 256])
def test_nothing_is_violated_or_too_wide_at_any_length(tab, sizes, size, width):
    tab.set_viewport_size({"width": width, "height": 900})
    tab.goto(f"{sizes[size]}#compare=raw")
    tab.wait_for_selector(".token.traced")
    tab.evaluate("() => document.querySelectorAll('details').forEach((e) => { e.open = true; })")
    for fold in tab.locator(".fold button").all()[::-1]:
        fold.click()  # all rows
    assert tab.locator(".scroller.crowded").count() == (4 if size > 64 else 0)
    assert violations(tab) == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_violated_in_the_menu_of_methods(tab, address, scheme):
    tab.emulate_media(color_scheme=scheme)
    tab.goto(address)
    tab.wait_for_selector(".token.traced")
    tab.click("#more-methods summary")
    assert violations(tab) == []
    tab.check("[name=method][value=gradient-input]")
    tab.wait_for_selector(".finding:not([hidden])")
    assert violations(tab) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_violated_on_a_server(tab, address, scheme):
    tab.emulate_media(color_scheme=scheme)
    tab.goto(address)
    tab.wait_for_selector(".token.traced")
    tab.click("#downloads summary")
    assert violations(tab) == []
    tab.mouse.click(5, 300)
    assert not tab.eval_on_selector("#downloads", "e => e.open")


def test_a_printed_page_is_whole(tab, models, tmp_path):
    """All tokens and all scores; charts of a long text have the rows that matter, and say so."""
    asked = " ".join(["the keys to the old cabinet"] * 40), models["tiny/long"]
    view = attnflow.explore(*asked, edges="attention")
    tab.goto(view.save(tmp_path / "view.html").as_uri() + "#method=rollout")
    tab.wait_for_selector(".token.traced")
    settle(tab)
    size = len(view.document["views"][0]["tokens"])
    assert size > 200
    assert tab.locator(".graph text[data-row]").count() <= 40  # the others are folded
    theme = "() => [document.documentElement.dataset.theme, document.body.className]"
    tab.evaluate("() => window.dispatchEvent(new Event('beforeprint'))")
    tab.emulate_media(media="print")
    assert tab.evaluate(theme) == ["light", "printing"]  # whatever the screen's
    heights = "all => all.map(svg => svg.getBoundingClientRect().height)"
    pieces = tab.eval_on_selector_all(".graph svg", heights)
    assert max(pieces) < 900  # a chart that is higher than a page would stand apart from its title
    settle(tab)
    first = view.document["views"][0]
    shown = set(
        tab.eval_on_selector_all(".graph text[data-row]", "a => a.map(e => +e.dataset.row)")
    )
    scores = attnflow.explain(*asked, method="rollout", edges="attention").values
    highest = set(np.argsort(-scores, kind="stable")[:40].tolist())
    assert shown == highest | {first["query"], first["key"]}
    assert f"The {len(shown)} of {size} rows with the highest" in tab.inner_text(".graph")
    assert tab.locator("#table tbody tr").count() == size
    assert tab.locator(".strip .token").count() == size
    assert not tab.is_visible(".bar")
    fits = "e => e.scrollHeight <= e.clientHeight + 1"
    for part in (".strip", ".graph .scroller"):
        assert tab.eval_on_selector(part, fits)
    tab.evaluate("() => window.dispatchEvent(new Event('afterprint'))")
    settle(tab)
    assert tab.locator(".graph .fold button").count() == 1
    assert tab.evaluate(theme) == ["system", ""]
    assert len(re.findall(rb"/Type\s*/Page\b", tab.pdf(format="A4"))) <= 4


def test_a_picture_is_printed_with_its_charts_beside_each_other(tab, models, tmp_path):
    image = np.random.default_rng(0).integers(0, 255, (32, 32, 3), dtype=np.uint8)
    view = attnflow.explore(Image.fromarray(image), models["tiny/vit"])
    tab.goto(view.save(tmp_path / "view.html").as_uri())
    tab.wait_for_selector(".patch.traced")
    settle(tab)
    pages = len(re.findall(rb"/Type\s*/Page\b", tab.pdf(format="A4")))
    assert pages == 2


def test_without_javascript_there_is_a_table(browser, file, classifier):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file)
    rows = page.locator("noscript table, table").first.locator("tbody tr")
    of = attnflow.explain(TEXT, classifier, edges="attention")
    assert rows.count() == len(of.tokens)
    shown = rows.nth(3).inner_text().split()
    assert shown[0] == of.tokens[3]
    assert shown[1] == number(of.values[3])
    assert "; flow points to “" in page.inner_text("body")
    context.close()


def test_a_link_says_what_it_lacks(tab, file):
    tab.goto(f"{file}#compare=&method=magic&layer=77&pane=0.99&colour=red")
    tab.wait_for_selector(".token.traced")
    said = tab.inner_text("#status")
    for part in ("method=magic", "layer=77", "token 99", "colour=red"):
        assert part in said
    tab.goto("about:blank")
    tab.goto(f"{file}#compare=&method=rollout&layer=2")
    tab.wait_for_selector(".token.traced")
    assert tab.inner_text("#status") == ""


def test_all_heads_at_a_glance(tab, file):
    tab.goto(f"{file}#compare=&method=rollout&columns=all")
    tab.wait_for_selector(".thumb")
    assert tab.locator(".thumb").count() == 3 * 4
    tab.locator(".thumb").nth(5).click()
    assert tab.inner_text("#layer-shown") == "2 of 3"
    assert tab.is_checked("[name=columns][value=heads]")
