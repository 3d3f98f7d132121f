"""A saved page opens with the method, layer and words that were asked for."""

import numpy as np
import pytest

import attnflow
from seen import strip

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
    tab.check("[name=method][value=flow]", force=True)
    link = tab.url
    assert link != address
    tab.goto("about:blank")
    tab.goto(link)
    tab.wait_for_selector(".token")
    assert not tab.is_checked("#words")
    np.testing.assert_allclose(strip(tab), flow.values, atol=1e-6)
