"""What a page says of the check by blanking."""

from dataclasses import replace

import attnflow
import heard
from attnflow.pipeline.prepare import open_session
from attnflow.pipeline.request import Request
from attnflow.views.explorer.document import SERVED, STANDALONE, make_view
from attnflow.views.explorer.exploration import exploration_of

SIZES = {"short": 20, "long": 60, "longer": 130}


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
