import pytest
from rich.cells import cell_len

from attnflow.views.wording.labels import clip, clusters, distinct_labels, printable, word_labels


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        ("keys", "keys"),
        (" keys", "keys"),
        ("", "∅"),
        ("  ", "␣"),
        ("\n", "⏎"),
        ("a\tb", "a⇥b"),
        ("\u202eevil", "⟨202E⟩evil"),
        ("\x00", "⟨0000⟩"),
        ("\ud800", "⟨D800⟩"),
        ("\u00a0x", "x"),
        ("👩\u200d🚀", "👩\u200d🚀"),
        ("\u200d", "⟨200D⟩"),
        ("\u200d👩", "⟨200D⟩👩"),
        ("می\u200c", "می⟨200C⟩"),
    ],
)
def test_printable(token, shown):
    assert printable(token) == shown


def test_marks_stay_with_their_letter():
    assert clusters("e\u0301q\u0323\u0307x") == ["e\u0301", "q\u0323\u0307", "x"]
    assert clusters("👩\u200d👩\u200d👧🏽!") == ["👩\u200d👩\u200d👧🏽", "!"]


@pytest.mark.parametrize("token", ["international" * 4, "钥匙橱柜" * 8, "e\u0301" * 40, "😀" * 20])
@pytest.mark.parametrize("width", [1, 2, 5, 8, 21])
def test_clip_keeps_to_the_width_and_says_so(token, width):
    short = clip(token, width)
    assert cell_len(short) <= width
    assert "…" in short
    start, end = short.split("…")
    assert token.startswith(start)
    assert token.endswith(end)


def test_what_fits_is_left_alone():
    assert clip("cabinet", 7) == "cabinet"


def test_labels_are_made_once_for_an_input_however_often_they_are_needed(monkeypatch):
    import attnflow
    from attnflow.views.wording import labels
    from attnflow.views.wording.findings import find

    made = []
    monkeypatch.setattr(labels, "label", lambda token, width: made.append(token) or token)
    text = f"a text of which no other test makes labels, {made!r}"
    found = [
        attnflow.explain(text, "verbs", edges="attention", method=each) for each in ("raw", "flow")
    ]
    for each in found * 3:
        find(each)
        word_labels(each, labels.LONGEST)
        distinct_labels(list(each.tokens), labels.LONGEST)
    assert made == list(found[0].tokens)
