"""The page shows the methods that the document describes, whatever they are."""

import copy
import re

import numpy as np
import pytest

import attnflow
from attnflow.views.colours import SLOTS, colour_of
from attnflow.views.explorer.exploration import exploration_of
from attnflow.views.explorer.schema import pack
from attnflow.views.wording.numbers import number
from seen import drawn, faded, settle, slide, strip

pytestmark = pytest.mark.browser
TEXT = "the old keys to the cabinets are here"
METHODS = ("flow", "raw", "rollout")  # the one that was asked for first


def css(colour):
    return "rgb({}, {}, {})".format(*bytes.fromhex(colour[1:]))


@pytest.fixture
def page(tab, classifier, tmp_path):
    tab.goto(
        attnflow.explore(TEXT, classifier, method="flow").save(tmp_path / "view.html").as_uri()
    )
    tab.wait_for_selector(".token.traced")
    return tab


def accent(page):
    selector = "#methods input:checked + span"
    return page.eval_on_selector(selector, "e => getComputedStyle(e).backgroundColor")


@pytest.mark.parametrize("at", range(3))
def test_a_digit_picks_that_method(page, at):
    page.keyboard.press("3" if at == 0 else "2" if at == 2 else "1")
    page.keyboard.press(str(at + 1))
    assert page.is_checked(f"[name=method][value={METHODS[at]}]")
    assert accent(page) == css(colour_of(METHODS[at]))
    settle(page)
    stroke = page.get_attribute(".graph [data-source]", "stroke")
    assert stroke == colour_of(METHODS[at])
    page.keyboard.press("9")
    assert page.is_checked(f"[name=method][value={METHODS[at]}]")


def test_the_keys_of_methods_are_listed(page):
    page.click(".help summary")
    assert page.inner_text("#method-keys") == "1 Flow 2 Raw 3 Rollout "


@pytest.fixture
def dummy(classifier):
    """A document with one method more, whose scores and traces no library method has."""
    document = copy.deepcopy(attnflow.explore(TEXT, classifier, method="flow").document)
    (view,) = document["views"]
    size = len(view["tokens"])
    values = np.arange(1.0, 3 * size + 1).reshape(3, 1, size)
    words = np.stack([values[..., group].sum(-1) for group in view["words"]["groups"]], -1)
    described = {"name": "dummy", "title": "Dummy method", "label": "Dum", "slot": 5}
    view["methods"].append({**described, "reaches_input": True, "traced": True})
    places = {"method": "dummy", "layers": [1, 2, 3], "queries": [0]}
    view["scores"].append({**places, "values": pack(values), "words": pack(words)})
    edges = [[3, 0, 2, 7.0], [2, 2, 2, 7.0], [1, 2, 4, 6.0]]
    asked = {"method": "dummy", "layer": 3, "query": 0, "key": view["key"]}
    trace = {"value": 7.0, "gap": 0.0, "edges": edges, "all_edges": 3}
    view["traces"].append({**asked, **trace, "cut": [], "routes": [], "all_routes": 0})
    return document, values[:, 0]


def test_a_method_that_nobody_knows_is_shown(tab, dummy, tmp_path):
    document, values = dummy
    tab.goto(attnflow.Exploration(document).save(tmp_path / "dummy.html").as_uri())
    tab.wait_for_selector(".token.traced")
    labels = tab.eval_on_selector_all("#methods span", "all => all.map(e => e.textContent)")
    assert labels == ["Flow", "Raw", "Rollout", "Dum"]
    tab.keyboard.press("4")
    assert tab.is_checked("[name=method][value=dummy]")
    np.testing.assert_allclose(strip(tab), values[2])
    assert accent(tab) == css(SLOTS[5].light)
    slide(tab, "carried", 100)
    assert drawn(tab, "carried") == {(3, 0, 2): 7.0, (2, 2, 2): 7.0, (1, 2, 4): 6.0}
    lines = tab.eval_on_selector_all(
        ".graph [data-carried]", "a => a.map(e => e.attributes.stroke.value)"
    )
    assert set(lines) == {SLOTS[5].light}
    assert tab.inner_text(".graph-card h2").startswith("Dummy method from ")
    assert "with Dum" in tab.inner_text("#compare")
    tab.check("#words")
    assert len(strip(tab)) == len(document["views"][0]["words"]["labels"])
    link = tab.url
    tab.goto("about:blank")
    tab.goto(link)
    tab.wait_for_selector(".token.traced")
    assert tab.is_checked("[name=method][value=dummy]")


def test_a_method_without_scores_cannot_be_chosen_in_a_file(tab, dummy, tmp_path):
    document, _ = dummy
    document["views"][0]["scores"].pop()
    tab.goto(attnflow.Exploration(document).save(tmp_path / "none.html").as_uri())
    tab.wait_for_selector(".token.traced")
    assert tab.is_disabled("[name=method][value=dummy]")
    tab.keyboard.press("4")
    assert tab.is_checked("[name=method][value=flow]")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_the_same_score_has_the_same_colour_everywhere(page, method, words, theme):
    page.emulate_media(color_scheme=theme)
    page.check(f"[name=method][value={method}]")
    page.set_checked("#words", words)
    for layer in (1, 3):
        slide(page, "layer", layer)
        faded(page)
        tokens = page.eval_on_selector_all(
            ".token", "all => all.map(t => getComputedStyle(t).backgroundColor)"
        )
        cells = page.eval_on_selector_all(
            f"[data-cell^='{layer}/']", "all => all.map(e => getComputedStyle(e).fill)"
        )
        assert tokens == cells
    page.check("[name=columns][value=heads]")
    faded(page)
    shades = page.eval_on_selector_all(
        ".token", "all => all.map(t => [+t.dataset.value, getComputedStyle(t).backgroundColor])"
    ) + page.eval_on_selector_all(
        "[data-cell]", "all => all.map(e => [+e.dataset.value, getComputedStyle(e).fill])"
    )
    shades.sort()
    light = [sum(map(int, re.findall(r"\d+", colour))) for _, colour in shades]
    falls = np.diff(light) * (1 if theme == "dark" else -1)
    assert (falls >= -2).all()  # a higher score is never paler, wherever it stands


def test_the_explained_position_sets_no_scale(page, classifier):
    of = attnflow.explain(TEXT, classifier, method="rollout", query=3)
    page.check("[name=method][value=rollout]")
    page.check("[name=mode][value=explain]")
    page.locator(".token").nth(3).click()
    others = [at for at, word in enumerate(of.word_ids) if word is not None and at != 3]
    assert f"{number(max(of.row()[others]))} or more" in page.inner_text(".legend")


@pytest.mark.parametrize("method", ["raw", "rollout", "flow"])
@pytest.mark.parametrize("layers", [None, "all"])
def test_a_lone_attribution_has_the_colours_of_the_explorer(
    tab, classifier, tmp_path, method, layers
):
    asked = {"method": method, "edges": "attention", "layer": 2}
    whole = attnflow.explore(TEXT, classifier, **asked)
    alone = exploration_of(attnflow.explain(TEXT, classifier, layers=layers, **asked))
    seen = []
    for at, view in enumerate((whole, alone)):
        tab.goto(view.save(tmp_path / f"{at}.html").as_uri())
        tab.wait_for_selector(".token.traced")
        faded(tab)
        fills = "all => all.map(t => [t.textContent, getComputedStyle(t).backgroundColor])"
        seen.append((tab.eval_on_selector_all(".token", fills), tab.inner_text(".legend .scale")))
    assert seen[0] == seen[1]
