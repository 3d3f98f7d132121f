"""Every control of the page does what it says, and what is drawn is what the library says."""

import json

import numpy as np
import pytest

import attnflow
from attnflow.views.wording.labels import distinct_labels
from attnflow.views.wording.numbers import number
from attnflow.views.wording.traces import runs
from seen import OTHER, TEXT, drawn, found_token, settle, slide, strip

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("method", ["raw", "rollout", "flow"])
def test_methods_and_layers_show_the_scores_of_the_library(page, classifier, method):
    of = attnflow.explain(TEXT, classifier, method=method, layers="all")
    page.check(f"[name=method][value={method}]")
    for layer in of.layers:
        slide(page, "layer", layer)
        np.testing.assert_allclose(strip(page), of.row(layer), atol=1e-6)
        assert page.inner_text("#layer-shown") == f"{layer} of 3"
    labels = page.eval_on_selector_all(".token", "all => all.map(t => t.textContent)")
    assert labels == list(of.tokens)


@pytest.mark.parametrize("method", ["rollout", "flow"])
def test_the_heat_map_shows_all_layers(page, classifier, method):
    of = attnflow.explain(TEXT, classifier, method=method, layers="all")
    page.check(f"[name=method][value={method}]")
    settle(page)
    cells = page.eval_on_selector_all(
        "[data-cell]", "a => a.map(e => [e.dataset.cell, +e.dataset.value])"
    )
    shown = {tuple(map(int, place.split("/"))): value for place, value in cells}
    assert len(shown) == 3 * len(of.tokens)
    for (layer, token), value in shown.items():
        assert value == pytest.approx(of.row(layer)[token], abs=1e-6)


def test_heads_are_those_of_the_library(page, classifier):
    of = attnflow.explain(TEXT, classifier, method="flow", heads="each", layers="all")
    page.check("[name=columns][value=heads]")
    settle(page)
    cells = page.eval_on_selector_all(
        "[data-cell]", "a => a.map(e => [e.dataset.cell, +e.dataset.value])"
    )
    assert len(cells) == 4 * len(of.tokens)
    names = page.eval_on_selector_all(".map [data-column]", "a => a.map(e => e.textContent)")
    assert names == ["H0", "H1", "H2", "H3"]  # from 0, as everywhere
    for place, value in cells:
        head, token = map(int, place.split("/"))
        assert value == pytest.approx(of.row(3)[head, token], abs=1e-6)


def test_the_graph_draws_the_flow_its_routes_and_its_bottleneck(page, classifier):
    found = attnflow.routes(TEXT, classifier, to=3, method="flow")
    page.locator(".token").nth(3).click()
    slide(page, "carried", 100)
    edges = drawn(page, "carried")
    for (step, query, key), amount in edges.items():
        assert amount == pytest.approx(found.edges[step - 1, query, key], abs=1e-6)
    assert sum(v for (step, *_), v in edges.items() if step == 3) == pytest.approx(
        found.value, rel=0.01
    )
    cut = {(e.layer, e.query, e.key): e.capacity for e in found.cut}
    assert drawn(page, "cut", "capacity") == pytest.approx(cut, abs=1e-6)
    routes = page.eval_on_selector_all(
        ".routes li[data-amount]", "a => a.map(e => +e.dataset.amount)"
    )
    assert routes == pytest.approx([r.amount for r in found.routes[: len(routes)]], abs=1e-6)
    path = page.eval_on_selector_all(
        ".routes li:first-child .path .name", "a => a.map(e => e.textContent)"
    )
    labels = distinct_labels(found.tokens, 40)
    assert path == [labels[run.position] for run in runs(found.routes[0])]
    spans = page.eval_on_selector_all(
        ".routes li:first-child .path small", "a => a.map(e => e.textContent.trim())"
    )
    assert spans == [run.span for run in runs(found.routes[0])]
    title = page.inner_text(".graph-card h2")
    assert f"{number(found.value)}" in title
    assert f"{len(found.routes)} routes" in title


def test_hovering_a_route_highlights_it(page):
    page.hover(".routes li:first-child")
    assert len(drawn(page, "route")) == 3
    page.mouse.move(2, 2)
    assert drawn(page, "route") == {}


def test_the_graph_shows_what_carries_the_score_and_attention_when_it_is_asked_for(
    page, classifier
):
    attention = attnflow.explain(TEXT, classifier, method="raw", query="all", layers="all").scores
    found = attnflow.routes(TEXT, classifier, to=3, method="flow")
    page.locator(".token").nth(3).click()
    carried = drawn(page, "carried")
    for step, amounts in enumerate(found.edges, start=1):
        edges = np.sort(amounts[amounts > 1e-3 * found.value])[::-1]
        least = int(np.searchsorted(np.cumsum(edges), 0.9 * found.value)) + 1
        shown = sorted((value for (at, *_), value in carried.items() if at == step), reverse=True)
        assert shown == pytest.approx(list(edges[:least]), abs=1e-6)
    assert page.inner_text("#carried-shown") == "90 %"
    assert drawn(page, "edge") == {}
    page.check("#behind")
    behind = drawn(page, "edge")
    places = np.argwhere(attention >= 0.1 * attention.max())
    own = {(layer + 1, query, key) for layer, query, key in places.tolist() if query != key}
    assert set(behind) == own
    for (step, query, key), value in behind.items():
        assert value == pytest.approx(attention[step - 1, query, key], abs=1e-6)


def test_raw_attention_is_drawn_from_the_explained_position(page, classifier):
    of = attnflow.explain(TEXT, classifier, method="raw", query=2, layers="all")
    page.check("[name=method][value=raw]")
    page.check("[name=mode][value=explain]")
    page.locator(".token").nth(2).click()
    slide(page, "layer", 2)
    slide(page, "carried", 100)
    edges = drawn(page, "carried")
    assert {(step, query) for step, query, _ in edges} == {(2, 2)}
    assert {key: v for (_, _, key), v in edges.items()} == pytest.approx(
        dict(enumerate(of.row(2))), abs=1e-6
    )


def test_hovering_an_edge_tells_its_exact_values(page, classifier):
    found = attnflow.routes(TEXT, classifier, to=3, method="flow")
    page.locator(".token").nth(3).click()
    slide(page, "carried", 100)
    settle(page)
    step, query, key = max(
        ((s, q, k) for s, q, k in drawn(page, "carried") if q == k),
        key=lambda e: found.edges[e[0] - 1, e[1], e[2]],
    )
    middle = page.eval_on_selector(
        f'[data-carried="{step}/{query}/{key}"]',
        """e => { const p = e.getPointAtLength(e.getTotalLength() / 2), m = e.getScreenCTM();
            return [p.x * m.a + m.e, p.y * m.d + m.f]; }""",
    )
    page.mouse.move(*middle)
    tip = page.inner_text("#tip")
    amount = found.edges[step - 1, query, key]
    assert f"carries {number(amount)} of {number(found.value)}" in tip


def test_clicking_the_graph_traces_and_asks(page):
    settle(page)
    box = page.locator(".graph svg").bounding_box()
    label = page.locator('.graph text[data-row="5"]').bounding_box()
    page.mouse.click(label["x"] + 3, label["y"] + label["height"] / 2)
    assert page.locator(".token.traced").text_content() == found_token(page, 5)
    x = page.locator('.graph text[data-column="2"]').bounding_box()
    page.mouse.click(x["x"] + x["width"] / 2, label["y"] + label["height"] / 2)
    assert page.locator(".token.explained").text_content() == found_token(page, 5)
    assert page.input_value("#layer") == "2"
    assert box["width"] > 400


def test_asking_about_another_position_explains_it(page, classifier):
    of = attnflow.explain(TEXT, classifier, query=4, method="flow")
    page.check("[name=mode][value=explain]")
    page.locator(".token").nth(4).click()
    np.testing.assert_allclose(strip(page), of.values, atol=1e-6)
    assert page.locator(".token.explained").count() == 1


def test_blanking_shows_the_change_beside_the_score(page, classifier):
    before = attnflow.explain(TEXT, classifier, method="flow").prediction
    page.check("[name=mode][value=blank]")
    to = list(attnflow.explain(TEXT, classifier, method="flow").tokens).index("to")
    changed = attnflow.explain(
        "the old keys zebra the cabinets are here", classifier, method="flow"
    ).prediction
    page.locator(".token").nth(to).click()
    row = page.locator(f'.prediction li[data-label="{before.label}"]')
    assert float(row.get_attribute("data-probability")) == pytest.approx(
        before.probability, abs=1e-5
    )
    now = dict(changed.alternatives)[before.label]
    assert float(row.get_attribute("data-now")) == pytest.approx(now, abs=1e-5)
    assert page.locator(".token.blanked").count() == 1
    line = page.locator(f'#table tr[data-row="{to}"]')
    change = float(line.get_attribute("data-change"))
    assert change == pytest.approx(now - before.probability, abs=1e-5)
    page.locator(".token").nth(to).click()
    assert page.locator(".token.blanked").count() == 0


def test_words_are_the_librarys(page, classifier):
    words = attnflow.explain(TEXT, classifier, words=True, method="flow")
    assert words.tokens != attnflow.explain(TEXT, classifier, method="flow").tokens
    page.check("#words")
    np.testing.assert_allclose(strip(page), words.values, atol=1e-6)
    labels = page.eval_on_selector_all(".token", "all => all.map(t => t.textContent)")
    assert labels == list(words.tokens)


def test_the_table_lists_and_ranks(page, classifier):
    of = attnflow.explain(TEXT, classifier, method="flow")
    values = page.eval_on_selector_all("#table tbody tr", "a => a.map(e => +e.dataset.value)")
    assert values == pytest.approx(sorted(of.values, reverse=True)[: len(values)], abs=1e-6)
    page.uncheck("#ranked")
    values = page.eval_on_selector_all("#table tbody tr", "a => a.map(e => +e.dataset.value)")
    assert values == pytest.approx(list(of.values)[: len(values)], abs=1e-6)


def test_two_methods_are_compared_by_their_shares(page, classifier):
    flow, rollout = (
        attnflow.explain(TEXT, classifier, method=m).values for m in ("flow", "rollout")
    )
    page.select_option("#compare", "rollout")
    assert page.locator(".graph-card").count() == 2
    page.uncheck("#ranked")
    gaps = page.eval_on_selector_all("#table tbody tr", "a => a.map(e => +e.dataset.gap)")
    expected = rollout / rollout.sum() - flow / flow.sum()
    assert gaps == pytest.approx(list(expected)[: len(gaps)], abs=1e-5)
    page.select_option("#compare", "")
    assert page.locator(".graph-card").count() == 1


def test_two_sentences_are_aligned(page, classifier):
    one, two = (attnflow.explain(text, classifier, method="flow") for text in (TEXT, OTHER))
    page.select_option("#compare", "text")
    assert page.locator(".pane").count() == 2
    np.testing.assert_allclose(strip(page), [*one.values, *two.values], atol=1e-6)
    page.check("#words")
    page.uncheck("#ranked")
    rows = page.eval_on_selector_all(
        "#table tbody tr", "a => a.map(e => [e.querySelector('th').textContent, e.dataset.gap])"
    )
    worded = [
        attnflow.explain(text, classifier, words=True, method="flow").values
        for text in (TEXT, OTHER)
    ]
    shares = [values / values.sum() for values in worded]
    keys = next(float(gap) for label, gap in rows if label == "keys · key")
    assert keys == pytest.approx(shares[1][3] - shares[0][3], abs=1e-5)


def test_downloads_are_what_is_shown(page, classifier):
    def saved(button):
        page.click("#downloads summary")
        with page.expect_download() as waiting:
            page.click(button)
        page.keyboard.press("Escape")
        return waiting.value.path().read_bytes()

    document = json.loads(saved("#save-json"))
    assert document["format"] == "attnflow-view/3"
    assert document["views"][0]["tokens"] == list(
        attnflow.explain(TEXT, classifier, method="flow").tokens
    )
    svg = saved("#save-svg").decode()
    assert svg.startswith("<svg")
    assert "cabinet" in svg
    assert saved("#save-png").startswith(b"\x89PNG")


def test_clicking_the_heat_map_chooses_layer_and_token(page):
    settle(page)
    cell = page.locator('[data-cell="2/5"]').bounding_box()
    page.mouse.move(cell["x"] + 5, cell["y"] + 5)
    value = float(page.get_attribute('[data-cell="2/5"]', "data-value"))
    assert f"Attention flow {number(value)}" in page.inner_text("#tip")
    page.mouse.click(cell["x"] + 5, cell["y"] + 5)
    assert page.input_value("#layer") == "2"
    assert page.locator(".token.traced").text_content() == found_token(page, 5)


def test_a_table_of_many_tokens_opens_and_closes(tab, classifier, tmp_path):
    view = attnflow.explore(
        "the keys to the cabinet are here on the old red mat .", classifier, method="flow"
    )
    tab.goto("file://" + str(view.save(tmp_path / "many.html")))
    tab.wait_for_selector("#table tr")
    assert tab.locator("#table tbody tr").count() == 12
    tab.click("text=Show all 15")
    assert tab.locator("#table tbody tr").count() == 15
    tab.click("text=Show fewer")
    assert tab.locator("#table tbody tr").count() == 12
