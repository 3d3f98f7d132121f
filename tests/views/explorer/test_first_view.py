"""A saved page opens with the method, layer and words that were asked for."""

import numpy as np
import pytest

import attnflow
from attnflow.pipeline.prepare import open_session
from attnflow.pipeline.request import Request
from attnflow.records.selection import word_groups
from attnflow.views.explorer.exploration import exploration_of
from attnflow.views.wording.findings import find
from attnflow.views.wording.summaries import summarize
from seen import settle, slide, strip

pytestmark = pytest.mark.browser
TEXT = "the old cats playing on red mats"


def test_what_was_asked_is_shown_first(tab, classifier, tmp_path):
    view = attnflow.explore(TEXT, classifier, method="rollout", layer=2, words=True)
    address = view.save(tmp_path / "view.html").as_uri()
    tab.goto(address)
    tab.wait_for_selector(".token")
    assert tab.is_checked("#words")
    assert tab.is_checked("[name=method][value=rollout]")
    assert tab.input_value("#layer") == "2"
    expected = attnflow.explain(TEXT, classifier, method="rollout", layer=2, words=True)
    np.testing.assert_allclose(strip(tab), expected.values, atol=1e-6)
    flow = attnflow.explain(TEXT, classifier, layer=2, method="flow")
    assert not np.allclose(flow.words().values, expected.values, atol=1e-3)

    tab.uncheck("#words")
    changes = tab.eval_on_selector_all(".token", "all => all.map(t => t.dataset.change)")
    words = word_groups(attnflow.explain(TEXT, classifier, method="raw").word_ids)
    assert any(len(word) > 1 and changes[word[0]] for word in words)
    for word in words:  # of a word in pieces, what happens without all of it
        assert len({changes[at] for at in word}) == 1
    tab.check("[name=method][value=flow]")
    link = tab.url
    assert link != address
    tab.goto("about:blank")
    tab.goto(link)
    tab.wait_for_selector(".token")
    assert not tab.is_checked("#words")
    np.testing.assert_allclose(strip(tab), flow.values, atol=1e-6)


def test_what_was_found_is_said_first(tab, classifier, tmp_path):
    view = attnflow.explore(TEXT, classifier, method="rollout")
    tab.goto(view.save(tmp_path / "view.html").as_uri())
    tab.wait_for_selector(".token")
    model = attnflow.load_model(classifier)
    session = open_session(TEXT, model, Request(method="rollout"))
    expected = summarize(session, [session.attribution()], blank=True).main
    assert tab.inner_text(".finding") == expected.sentence
    assert tab.inner_text(".evidence") == expected.evidence != ""
    assert tab.is_hidden(".about .notes")  # how methods agree is for those who open it
    tab.click(".about summary")
    assert tab.inner_text(".about").endswith(view.document["views"][0]["agreement"])
    slide(tab, "layer", 1)  # what was found there is said, too; agreement is of the first view
    below = find(attnflow.explain(TEXT, classifier, method="rollout", layer=1))
    assert tab.inner_text(".finding") == below.sentence != expected.sentence
    assert "agrees" not in tab.inner_text(".about")
    assert tab.is_hidden(".evidence")
    slide(tab, "layer", 3)
    tab.check("[name=mode][value=explain]")
    tab.locator(".token").nth(2).click()
    other = find(attnflow.explain(TEXT, classifier, method="rollout", query=2))
    assert tab.inner_text(".finding") == other.sentence != expected.sentence


def test_a_full_stop_is_never_traced_first(classifier):
    view = attnflow.explore("the keys .", classifier).document["views"][0]
    assert view["tokens"][view["key"]] in ("the", "keys")


def test_repeated_tokens_are_told_apart(tab, classifier, tmp_path):
    view = attnflow.explore("the keys to the cabinet", classifier)
    tab.goto(view.save(tmp_path / "view.html").as_uri())
    tab.wait_for_selector(".token")
    settle(tab)
    rows = tab.eval_on_selector_all(".graph text[data-row]", "a => a.map(e => e.textContent)")
    assert rows == ["[CLS]", "the:1", "keys", "to", "the:4", "cabinet", "[SEP]"]
    names = tab.eval_on_selector_all("#table tbody th", "a => a.map(e => e.textContent)")
    assert sorted(names) == sorted(rows)


def test_wide_labels_are_not_cut_at_the_edge(tab, tmp_path):
    """Chinese letters and emoji are twice as wide as Latin ones."""
    tokens = ("[CLS]", "柜子的钥匙在桌子上", "👩‍👩‍👧🇩🇪👍🏽", "מפתח", "מפתח")
    scores = np.arange(1.0, 11.0).reshape(2, 1, 5) / 10
    of = attnflow.Attribution(tokens, scores, (1, 2), (0,), 2, 0, "rollout")
    tab.goto(exploration_of(of).save(tmp_path / "wide.html").as_uri())
    tab.wait_for_selector(".token.traced")
    settle(tab)
    for chart in (".graph", ".map"):
        starts = tab.eval_on_selector_all(
            f"{chart} text[data-row]",
            "a => a.map(e => e.getBoundingClientRect().left"
            " - e.ownerSVGElement.getBoundingClientRect().left)",
        )
        assert len(starts) == 5
        assert min(starts) >= 0
    names = tab.eval_on_selector_all("#table tbody th", "a => a.map(e => e.textContent)")
    # The position of a repeated token stands behind it, whatever the direction of its letters.
    assert "\u2068מפתח\u2069:3" in names
