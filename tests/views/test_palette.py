"""One palette: figures, the terminal and the explorer's page show a method in the same colour."""

import colorsys
import re
from itertools import combinations

import numpy as np
import pytest

from attnflow.views.colours import AGAINST, IN_FAVOUR, SLOTS, colour_of, slot_of
from attnflow.views.explorer.render import read_static
from attnflow.views.figures.axes import THEMES
from attnflow.views.figures.maps import contrast
from attnflow.views.terminal import paint

METHODS = ("raw", "rollout", "flow")


def rgb(colour):
    return tuple(bytes.fromhex(colour[1:]))


def test_methods_have_slots_of_their_own():
    assert [slot_of(method) for method in METHODS] == [0, 1, 2]
    others = ("blank-out", "gradient-input", "gradient-norm", "integrated")
    assert [slot_of(method) for method in others] == [3, 4, 5, 6]
    assert slot_of("something new") == 7


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("method", METHODS)
def test_figures_and_terminal_agree(method, theme, monkeypatch):
    monkeypatch.setattr(paint, "background", lambda: theme)
    expected = colour_of(method, dark=theme == "dark")
    assert THEMES[theme].method(method) == expected
    assert paint.ink(method).color.triplet == rgb(expected)
    assert paint.style(1.0, method).bgcolor.triplet == rgb(expected)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_can_be_seen_on_their_paper(theme):
    paper = [part / 255 for part in rgb(THEMES[theme].paper)]
    for slot in SLOTS:
        assert contrast(getattr(slot, theme), paper) >= 3, slot


# How linear RGB is seen (Machado, Oliveira and Fernandes 2009, severity 1).
VISION = {
    "usual": np.eye(3),
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(colour, vision):
    part = np.array(rgb(colour)) / 255
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    x, y, z = np.cbrt(XYZ @ np.clip(VISION[vision] @ linear, 0, 1) / XYZ.sum(1))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_can_be_told_apart(theme, vision):
    seen = [lab(getattr(slot, theme), vision) for slot in SLOTS]
    for (i, one), (j, other) in combinations(enumerate(seen), 2):
        assert np.linalg.norm(one - other) > 9, (i, j)


def test_the_page_has_the_same_colours():
    style = read_static("style.css")
    rules = re.findall(r"(:root[^{]*)\{([^{}]*)\}", style)
    found = {
        selector.strip(): re.findall(r"--slot-(\d+): (#[0-9a-f]{6});", body)
        for selector, body in rules
        if "--slot-" in body
    }
    light = [(str(at), slot.light) for at, slot in enumerate(SLOTS)]
    dark = [(str(at), slot.dark) for at, slot in enumerate(SLOTS)]
    assert found == {
        ":root": light,
        ':root:not([data-theme="light"])': dark,
        ':root[data-theme="dark"]': dark,
    }


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_method_has_the_hue_of_a_sign(theme):
    def hue(slot):
        red, green, blue = (part / 255 for part in rgb(getattr(slot, theme)))
        turn, _, saturation = colorsys.rgb_to_hls(red, green, blue)
        return 360 * turn if saturation > 0.1 else None  # grey has none

    signs = [hue(AGAINST), hue(IN_FAVOUR)]
    for slot in SLOTS:
        found = hue(slot)
        for sign in signs if found is not None else []:
            assert min(abs(found - sign), 360 - abs(found - sign)) > 20, slot
