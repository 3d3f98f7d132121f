"""What people try first: things that are shown, and plausible mistakes that are named."""

import attnflow

TEXT = "the keys to the cabinet"


def test_routes_are_shown_in_one_line():
    found = attnflow.routes(TEXT, to="keys")
    assert repr(found).startswith(f"<Routes: {found.trace.value:.4g} from [CLS] of layer 6 to keys")
    assert len(repr(found)) < 100
