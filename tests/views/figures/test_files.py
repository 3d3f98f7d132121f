import zlib

import pytest
from matplotlib.figure import Figure

from attnflow.errors import InputError
from attnflow.views.figures import figure, fonts, save
from drawn import attribution

TOKENS = ["[CLS]", "keys", "👩\u200d🚀", "x"]


@pytest.mark.parametrize(
    ("ending", "start"), [("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG")]
)
def test_format_follows_the_ending(ending, start, tmp_path):
    path = save(figure("heatmap", attribution(TOKENS)), tmp_path / f"map.{ending}")
    assert path.read_bytes().startswith(start)


def test_the_same_figure_gives_the_same_bytes(tmp_path):
    for ending in ("svg", "pdf", "png"):
        first, second = (
            save(figure("graph", attribution(TOKENS)), tmp_path / f"{name}.{ending}").read_bytes()
            for name in "ab"
        )
        assert first == second


def test_pdf_text_stays_text(tmp_path):
    content = save(figure("heatmap", attribution(TOKENS)), tmp_path / "map.pdf").read_bytes()
    assert b"/Type3" not in content  # glyphs as drawings, which printers' checks refuse
    assert b"/FontFile2" in content
    streams = [
        part.split(b"endstream")[0].strip(b"\r\n") for part in content.split(b"stream\n")[1:]
    ]
    assert any(b"TJ" in _inflate(stream) for stream in streams)


def _inflate(stream):
    try:
        return zlib.decompress(stream)
    except zlib.error:
        return b""


def test_nothing_is_overwritten_unless_forced(tmp_path):
    file = tmp_path / "map.svg"
    file.write_text("mine")
    made = figure("heatmap", attribution(TOKENS))
    with pytest.raises(InputError, match=r"exists; .*overwrite=True"):
        save(made, file)
    assert file.read_text() == "mine"
    save(made, file, overwrite=True)
    assert file.read_text() != "mine"


def test_unknown_ending_and_missing_folder_are_errors(tmp_path):
    made = Figure()
    with pytest.raises(InputError, match=r"\.svg, \.pdf, \.png"):
        save(made, tmp_path / "map.gif")
    with pytest.raises(InputError, match="does not exist"):
        save(made, tmp_path / "no" / "map.svg")


def test_svg_keeps_emoji_and_other_formats_name_those_no_font_has(tmp_path, monkeypatch):
    monkeypatch.setattr(fonts, "_candidates", lambda text: [])
    made = figure("heatmap", attribution(TOKENS))
    assert "👩\u200d🚀" in save(made, tmp_path / "map.svg").read_text()
    with fonts.replace_missing_emoji(made):
        names = [label.get_text() for label in made.axes[0].get_yticklabels()]
    assert names[2] == "⟨woman⟩⟨rocket⟩"
    assert made.axes[0].get_yticklabels()[2].get_text() == "👩\u200d🚀"


def test_fonts_are_added_for_scripts_the_usual_one_lacks(monkeypatch):
    usual = fonts.families_for(["keys"])
    assert fonts.families_for(["keys", "été"]) == usual
    han = "钥"
    monkeypatch.setattr(fonts, "_candidates", lambda text: ["No Such Font", "Han Font"])
    known = {"Han Font": frozenset({ord(han)})}
    real = fonts._characters
    monkeypatch.setattr(fonts, "_characters", lambda name: known.get(name) or real(name))
    assert fonts.families_for([han]) == [*usual, "Han Font"]


def test_japanese_text_prefers_japanese_forms(monkeypatch):
    installed = [type("Font", (), {"name": name}) for name in fonts._HAN.values()]
    monkeypatch.setattr(fonts.font_manager.fontManager, "ttflist", installed)
    first = {text: next(iter(fonts._candidates(text))) for text in ("鍵の束", "열쇠", "钥匙")}
    assert [name[-2:] for name in first.values()] == ["JP", "KR", "SC"]
