"""One palette: figures, the terminal and the explorer's page show a method in the same colour."""

import re
from itertools import combinations

import pytest

from attnflow.views.explorer.render import static
from attnflow.views.figures.axes import contrast
from attnflow.views.figures.style import THEMES
from attnflow.views.palette import SLOTS, colour_of, slot_of
from attnflow.views.terminal import paint

METHODS = ("raw", "rollout", "flow")


def rgb(colour):
    return tuple(bytes.fromhex(colour[1:]))


def test_methods_have_slots_of_their_own():
    assert [slot_of(method) for method in METHODS] == [0, 1, 2]
    others = ("blank-out", "gradient", "gradient (norm)", "gradient (integrated)")
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
def test_colours_can_be_seen_and_told_apart(theme):
    colours = [getattr(slot, theme) for slot in SLOTS]
    for colour in colours:
        paper = [part / 255 for part in rgb(THEMES[theme].paper)]
        assert contrast(colour, paper) >= 3, colour
    for one, other in combinations(colours, 2):
        assert sum((a - b) ** 2 for a, b in zip(rgb(one), rgb(other), strict=True)) > 40**2


def test_the_page_has_the_same_colours():
    style = static("style.css")
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
