"""The page of the default: one row of signed scores, its edges, its cut and the check of it."""

import numpy as np
import pytest

import attnflow
from attnflow.views.explorer.document import STANDALONE
from attnflow.views.wording.traces import carrying, main_edges
from seen import TEXT, drawn, settle, strip

pytestmark = pytest.mark.browser
LONG = (
    "I went to see this film with my sister last night, and although the story is slow in the "
    "first half and some of the jokes fall flat, the music is wonderful, the actors are charming, "
    "and the ending, which I will not give away here, moved both of us to tears more than "
    "anything else we saw this year."
)


@pytest.fixture
def page(tab, address):
    tab.goto(f"{address}/#text={TEXT.replace(' ', '+')}&model=tiny/verbs")
    tab.wait_for_selector(".graph [data-carried]", state="attached")
    return tab


def choose(page, at):
    page.locator(".token").nth(at).click()
    page.wait_for_selector(f".graph [data-sink='{at}']")
    page.wait_for_selector(".graph [data-carried]", state="attached")


def test_the_default_comes_first_and_the_papers_methods_beside_it(page, classifier):
    offered = page.eval_on_selector_all("#methods [name=method]", "all => all.map(e => e.value)")
    assert offered == ["relevance-flow", "raw", "rollout", "flow"]
    np.testing.assert_allclose(strip(page), attnflow.explain(TEXT, classifier).values, atol=1e-5)
    for hidden in ("#layer", "#map-card"):
        assert not page.is_visible(hidden)
    for method in offered[1:]:
        page.check(f"[name=method][value={method}]")
        expected = attnflow.explain(TEXT, classifier, method=method)
        page.wait_for_function(
            "() => document.querySelector('#model-name').innerText.includes('attention')"
        )
        np.testing.assert_allclose(strip(page), expected.values, atol=1e-6)
        assert page.is_visible("#map-card")


def test_the_graph_draws_the_edges_that_carry_the_word_in_the_colour_of_its_sign(page, classifier):
    style = "n => getComputedStyle(document.documentElement).getPropertyValue(n).trim()"
    signs = [page.evaluate(style, name) for name in ("--less", "--more")]
    for at in range(1, 6):
        choose(page, at)
        found = attnflow.routes(TEXT, classifier, to=at, verify=False)
        edges = {
            (int(step) + 1, int(query), int(key)): pytest.approx(
                found.edges[step, query, key], rel=1e-5
            )
            for step, query, key in np.argwhere(carrying(found))
        }
        assert drawn(page, "carried") == edges
        cut = {(e.layer, e.query, e.key): e.capacity for e in main_edges(found.cut)}
        assert drawn(page, "cut", "capacity") == pytest.approx(cut, rel=1e-5)
        stroke = page.get_attribute(".graph [data-carried]", "stroke")
        assert stroke == signs[int(found.value > 0)]
        assert page.inner_text(".sentence").replace("\u2068", "") == found.summary
    assert drawn(page, "edge") == {}
    page.check("#behind")
    behind = drawn(page, "edge")
    assert behind
    assert all(query != key for _, query, key in behind)  # what stays in place is not drawn
    assert {value > 0 for value in behind.values()} == {True, False}


def test_the_cut_is_removed_from_the_model_on_demand(page, classifier):
    choose(page, 2)
    assert not page.is_visible(".verified")
    page.click(".check-cut")
    page.wait_for_selector(".verified:visible")
    summary = attnflow.routes(TEXT, classifier, to=2, verify=True).knockout.summary
    assert page.inner_text(".verified")[1:] == f"{summary[1:]}."
    assert not page.is_visible(".check-cut")


def test_the_token_where_the_answer_is_read_has_no_routes(page):
    page.locator(".token").first.click()
    page.wait_for_selector(".graph [data-sink='0']")
    settle(page)
    assert drawn(page, "carried") == {}
    assert "The answer is read at this token." in page.inner_text(".graph-card")
    assert page.inner_text("#status") == ""


def test_a_click_can_trace_or_blank_and_explains_no_other_position(page):
    labels = page.locator("#modes label:visible").all_inner_texts()
    assert labels == ["trace it", "blank it out", "knock it out", "change it"]
    page.check("[name=method][value=flow]")
    assert page.locator("#modes label:visible").nth(1).inner_text() == "explain it"


def test_a_saved_page_of_a_review_is_small_and_shows_the_rows_that_matter(tab, tmp_path):
    view = attnflow.explore(LONG)
    (data,) = view.document["views"]
    assert len(data["tokens"]) > 65
    assert len(view.html) < 1_500_000
    traced = [trace for trace in data["traces"] if trace["method"] == "relevance-flow"]
    assert len(traced) == len(data["tokens"]) - len(data["sources"])
    assert sum("verified" in trace for trace in traced) == STANDALONE.verified
    tab.goto(view.save(tmp_path / "page.html").as_uri())
    tab.wait_for_selector(".graph svg [data-carried]", state="attached")
    rows = set(tab.eval_on_selector_all(".graph [data-row]", "a => a.map(e => +e.dataset.row)"))
    assert len(rows) <= 40
    assert {data["query"], data["key"]} <= rows
    assert f"The {len(rows)} of {len(data['tokens'])} rows" in tab.inner_text(".graph")
    assert tab.inner_text(".verified").startswith("Without these ")
