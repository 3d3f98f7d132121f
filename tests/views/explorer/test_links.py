"""Links to a view, keys, screen readers and small screens."""

import numpy as np
import pytest

import attnflow
from attnflow.views.wording.numbers import number
from seen import TEXT, drawn, found_token, settle, slide, strip

pytestmark = pytest.mark.browser


def test_the_link_is_copied_or_shown(page):
    page.click("#link")
    page.wait_for_function("() => document.querySelector('#status').textContent.includes('link')")


def test_a_link_restores_the_view(page, browser):
    page.check("[name=method][value=rollout]")
    slide(page, "layer", 2)
    slide(page, "carried", 70)
    page.check("[name=columns][value=heads]")
    page.locator(".token").nth(5).click()
    page.check("[name=mode][value=blank]")
    page.locator(".token").nth(6).click()
    settle(page)
    seen = (strip(page), drawn(page, "carried"), page.inner_text("#map-title"))
    other = browser.new_page()
    other.goto(page.url)
    other.wait_for_selector("#view:not([hidden])")
    np.testing.assert_array_equal(strip(other), seen[0])
    assert drawn(other, "carried") == seen[1]
    assert other.inner_text("#map-title") == seen[2]
    assert other.locator(".token.blanked").count() == 1
    other.close()


def test_a_broken_link_shows_the_view_all_the_same(tab, file):
    tab.goto(
        file + "#layer=99&pane=7777.-3.0-9999-x&pane=x&pane=&pane=.....&panes=1&toString=2"
        "&method=magic&compare=nonsense&q=%00"
    )
    tab.wait_for_selector(".token.traced")
    assert tab.inner_text("#layer-shown") == "3 of 3"
    assert tab.locator(".pane").count() == 1
    assert tab.locator(".token.explained").text_content() == "[CLS]"
    assert tab.locator(".token.blanked").count() == 0


def test_an_older_link_shows_what_is_still_known_of_it(tab, file):
    tab.goto(file + "#method=rollout&layer=2&query=4&key=5&blank=2&query2=1&compare=")
    tab.wait_for_selector(".token.traced")
    assert tab.is_checked("[name=method][value=rollout]")
    assert tab.inner_text("#layer-shown") == "2 of 3"
    assert tab.locator(".token.explained").text_content() == "[CLS]"
    assert "query2" not in tab.url


def test_each_pane_of_a_link_is_restored(tab, file):
    tab.goto(file + "#pane=2.3.4&pane=4.5.6")
    tab.wait_for_selector(".pane >> nth=1")
    for mark, places in {"explained": (2, 4), "traced": (3, 5), "blanked": (4, 6)}.items():
        for pane, place in enumerate(places):
            tokens = tab.locator(".pane").nth(pane).locator(".token")
            assert mark in tokens.nth(place).get_attribute("class")
    tab.check("[name=mode][value=trace]")
    tab.locator(".pane").nth(1).locator(".token").nth(1).click()
    assert "pane=2.3.4&pane=4.1.6" in tab.url


def test_the_keyboard_is_enough(page):
    page.locator(".token[tabindex='0']").focus()
    page.keyboard.press("Home")
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert page.locator(".token.traced").text_content() == found_token(page, 2)
    page.keyboard.press("e")
    assert page.locator(".token.explained").text_content() == found_token(page, 2)
    page.keyboard.press("b")
    assert page.locator(".token.blanked").text_content() == found_token(page, 2)
    page.keyboard.press("3")
    assert page.is_checked("[name=method][value=rollout]")
    page.keyboard.press("[")
    assert page.input_value("#layer") == "2"
    page.keyboard.press("End")
    page.keyboard.press("t")
    assert page.locator(".token.traced").text_content() == found_token(
        page, page.locator(".token").count() - 1
    )


def test_screen_readers_are_told(page, classifier):
    of = attnflow.explain(TEXT, classifier, method="flow")
    label = page.locator(".token").nth(1).get_attribute("aria-label")
    assert label.startswith(f"the, Attention flow {number(of.values[1])}")
    assert "explained" in page.locator(".token").nth(0).get_attribute("aria-label")
    settle(page)
    graph = page.get_attribute(".graph svg", "aria-label")
    assert " to “\u2068[CLS]\u2069” at layer 3: " in graph
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("button, select, textarea, input, a")].filter(e =>
            e.checkVisibility() && !e.labels?.length && !e.textContent.trim()
            && !e.getAttribute("aria-label") && !e.title).map(e => e.outerHTML)"""
    )
    assert unnamed == []


def test_dark_is_dark_and_can_be_chosen(page):
    def background():
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    assert background() == "rgb(245, 246, 248)"
    page.click("#theme")
    page.click("#theme")
    assert background() == "rgb(15, 18, 22)"
    page.click("#theme")
    page.emulate_media(color_scheme="dark")
    assert background() == "rgb(15, 18, 22)"


@pytest.mark.parametrize("width", [320, 390, 768])
def test_nothing_sticks_out_on_a_phone(page, width):
    page.set_viewport_size({"width": width, "height": 800})
    page.select_option("#compare", "text")
    page.wait_for_function(  # canvases are drawn anew a moment after the window changed
        """width => document.documentElement.scrollWidth <= width
            && ![...document.querySelectorAll("body *")].some(e =>
            e.checkVisibility() && e.getBoundingClientRect().right > width + 1
            && !e.closest(".scroller"))""",
        arg=width,
    )
