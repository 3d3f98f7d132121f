"""A saved page opens with the method, layer and words that were asked for."""

import numpy as np
import pytest

import attnflow
from seen import strip

pytestmark = pytest.mark.browser
TEXT = "the old cats playing on red mats"


def test_what_was_asked_is_shown_first(tab, classifier, tmp_path):
    view = attnflow.explore(TEXT, classifier, method="rollout", layer=1, words=True)
    tab.goto(view.save(tmp_path / "view.html").as_uri())
    tab.wait_for_selector(".token")
    assert tab.is_checked("#words")
    assert tab.input_value("#layer") == "1"
    expected = attnflow.explain(TEXT, classifier, method="rollout", layer=1, words=True)
    np.testing.assert_allclose(strip(tab), expected.values, atol=1e-6)
