import zlib

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from attnflow.errors import InputError
from attnflow.views.figures import emoji, figure, fonts, save
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
    monkeypatch.setattr(emoji, "picture_of", lambda symbol: None)
    made = figure("heatmap", attribution(TOKENS))
    assert "👩\u200d🚀" in save(made, tmp_path / "map.svg").read_text()
    with fonts.replace_missing_emoji(made):
        names = [label.get_text() for label in made.axes[0].get_yticklabels()]
    assert names[2] == "⟨woman⟩⟨rocket⟩"
    assert made.axes[0].get_yticklabels()[2].get_text() == "👩\u200d🚀"


def test_emoji_and_flags_are_pictures_where_a_font_has_them(tmp_path, monkeypatch):
    asked = []

    def picture_of(symbol):
        asked.append(symbol)
        return Image.new("RGBA", (136, 128), (255, 0, 255, 255))

    monkeypatch.setattr(fonts, "_candidates", lambda text: [])
    monkeypatch.setattr(emoji, "picture_of", picture_of)
    tokens = ("[CLS]", "ab 🇩🇪 cd", "👩\u200d🚀", "keys", "מפתח 🇩🇪")
    made = figure("heatmap", attribution(tokens))
    pixels = np.asarray(Image.open(save(made, tmp_path / "map.png")).convert("RGB")).astype(int)
    assert set(asked) == {"🇩🇪", "👩\u200d🚀"}  # each as one symbol
    seen = (pixels[..., 0] > 250) & (pixels[..., 1] < 5) & (pixels[..., 2] > 250)
    rows = np.flatnonzero(seen.any(1))
    blocks = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)
    assert len(blocks) == 2  # right-to-left texts have names
    size = 9 * 200 / 72
    for block in blocks:
        across = np.flatnonzero(seen[block].any(0))
        assert np.ptp(across) + 1 == pytest.approx(size, abs=2)
        assert len(block) == pytest.approx(size, abs=3)
    names = [label.get_text() for label in made.axes[0].get_yticklabels()]
    assert names[1] == "ab 🇩🇪 cd"  # as before
    save(made, tmp_path / "map.pdf")
    assert b"/Image" in (tmp_path / "map.pdf").read_bytes()


def test_the_font_that_is_installed_is_used():
    if emoji._font() is None:
        pytest.skip("no colour font is installed")
    flag = np.asarray(emoji.picture_of("🇩🇪"))
    assert flag[..., :3][flag[..., 3] > 200].std(0).max() > 40  # black, red and gold
    assert emoji.picture_of("字") is None


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
