"""What a page says of the check by blanking."""

from dataclasses import replace

import pytest

import attnflow
import heard
from attnflow.pipeline.choice import Shown
from attnflow.pipeline.prepare import open_session
from attnflow.pipeline.request import Request
from attnflow.views.explorer.document import SERVED, STANDALONE, find_all, make_view
from attnflow.views.explorer.exploration import exploration_of

SIZES = {"short": 20, "long": 60, "longer": 130}


@pytest.mark.parametrize(
    ("text", "traced"),
    [
        ("The actors are splendid, yet I could not wait for it to end.", "not"),
        ("الفيلم رائع لكن النهاية مملة جدا.", "ج"),  # of “جدا”: all its pieces are single letters
        ("The room was clean and quiet.", "room"),
    ],
)
def test_the_word_that_the_verdict_names_first_is_traced(text, traced):
    session = open_session(text, attnflow.load_model("sentiment"), Request(), all_heads=True)
    shown = [Shown(session, session.config.method)]
    found = find_all(session, shown, STANDALONE.blanks)
    assert session.tokens.names[found.key] == traced
    parts = [part for part in found.findings[0]["parts"] if part["role"] == "for"]
    (group,) = (group for group in session.groups if found.key in group)
    assert parts[0]["at"] in group


def test_where_removing_edges_does_more_than_blanking_the_word_it_is_said():
    text = "The room was neither clean nor quiet."
    session = open_session(text, attnflow.load_model("sentiment"), Request(), all_heads=True)
    view = make_view(session, replace(STANDALONE, verified=1))
    said = view["traces"][0]["verified"]
    assert "the prediction becomes “positive”" in said
    assert "Blanking “neither” changes it by −0.1 points: the model then reads the other" in said


def test_a_page_says_why_it_has_no_check_by_blanking(monkeypatch):
    """A file has it for up to 128 tokens, whatever that costs; a server, where it is cheap."""
    model = attnflow.load_model("sentiment")
    config = Request(edges="attention", method="rollout")
    sizes = {
        name: open_session("slow " * many, model, config, all_heads=True)
        for name, many in SIZES.items()
    }
    for name, extent, note in (
        ("short", SERVED, ""),
        ("long", SERVED, "the method Blank-out does it."),
        ("long", STANDALONE, ""),
        (
            "longer",
            STANDALONE,
            "(a page does that for up to 128); made with the method Blank-out, ",
        ),
    ):
        view = make_view(sizes[name], replace(extent, solved=8, pairs=1))
        said = " ".join(view["notes"])
        assert ("Not checked by blanking" in said) is bool(note)
        assert note in said
        assert "--" not in said
        assert bool(view["findings"][0]["evidence"]) is not bool(note)


def test_words_of_several_tokens_are_blanked_as_words(classifier):
    view = attnflow.explore("the cats playing", classifier).document["views"][0]
    sets = [each["positions"] for each in view["blanked"]]
    assert [2, 3] in sets
    assert [4, 5] in sets


def test_what_blank_out_can_not_measure_is_not_offered():
    """A saved page of many frames has no model to ask."""
    for size, where in ((16_000, ""), (48_000, " with attnflow serve")):
        page = attnflow.explore(heard.sound(size), heard.build("wav2vec2-label"))
        (view,) = page.document["views"]
        (note,) = (note for note in view["notes"] if "Not checked by blanking" in note)
        assert note.endswith(f"; “blank it out”{where} shows it of one token.")
        assert "Blank-out" not in note
        assert "because of" not in str(view["findings"])


def test_an_encoder_decoder_is_checked(models):
    view = attnflow.explore("the keys", models["tiny/t5"], answer="the cat").document["views"][0]
    assert not any("Not checked by blanking" in note for note in view["notes"])
    assert any("ithout " in found["evidence"] for found in view["findings"])


def test_an_attribution_says_that_it_was_not_checked(classifier):
    said = "Not checked by blanking, for which the model runs again: attnflow.explore does it."
    for method, expected in (("rollout", [said]), ("blank-out", [])):
        (view,) = exploration_of(
            attnflow.explain("the cats playing", classifier, method=method, words=True)
        ).document["views"]
        assert [note for note in view["notes"] if "blanking" in note] == expected
