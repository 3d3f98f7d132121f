"""A figure for a page fits on it, and says what the model answered."""

from dataclasses import replace
from itertools import pairwise

import pytest

from attnflow.records import Prediction
from attnflow.views.figures import figure
from attnflow.views.figures.maps import SMALLEST, numbers_in
from attnflow.views.figures.panels import NO_NUMBERS, PAGE_HEIGHT
from drawn import attribution


def of(tokens, **fields):
    names = [f"word{at}" for at in range(tokens)]
    return replace(attribution(names, layers=6, **fields), prediction=Prediction("plural", 0.934))


@pytest.mark.parametrize("kind", ["graph", "heatmap"])
@pytest.mark.parametrize("tokens", [3, 13, 32, 60])
@pytest.mark.parametrize("width", ["single", "double"])
def test_three_panels_fit_on_a_page(kind, tokens, width):
    made = figure(kind, *[of(tokens)] * 3, width=width)
    assert made.get_figheight() <= PAGE_HEIGHT + 0.3
    made.draw_without_rendering()
    page = made.bbox
    for ax in made.axes:
        labels = [tick for tick in ax.get_yticklabels() if tick.get_text()]
        assert all(tick.get_fontsize() >= 5 for tick in labels)
        ends = sorted(tick.get_window_extent().y0 for tick in labels)
        starts = sorted(tick.get_window_extent().y1 for tick in labels)
        overlap = [low - high for low, high in zip(ends[1:], starts[:-1], strict=True)]
        assert all(gap > -2.5 for gap in overlap)
        names = [tick.get_window_extent() for tick in ax.get_xticklabels() if tick.get_text()]
        names.sort(key=lambda box: box.x0)
        assert all(b.x0 >= a.x1 for a, b in pairwise(names))
        assert page.x0 - 1 <= ax.get_window_extent().x0 <= page.x1


def test_the_answer_stands_above():
    found = figure("heatmap", of(5)).get_suptitle().replace("\n", " ")
    assert found.startswith("plural (93.4 %); by flow no token stands out")
    assert figure("heatmap", of(5), of(5)).get_suptitle() == "The model says plural 93.4 %"
    decides = {"model": {"decides": "the number of the verb"}}
    known = replace(of(5), statistics=decides)
    found = figure("graph", known).get_suptitle()
    assert found.startswith("The number of the verb: plural (93.4 %); ")
    assert figure("graph", replace(of(5), prediction=None)).get_suptitle() == ""


@pytest.mark.parametrize("layers", [2, 6, 12])
@pytest.mark.parametrize("width", ["single", "double"])
@pytest.mark.parametrize("tokens", [5, 32])
def test_numbers_stay_in_their_cells(layers, width, tokens):
    names = [f"word{at}" for at in range(tokens)]
    made = figure("heatmap", *[attribution(names, layers=layers)] * 2, values=True, width=width)
    made.draw_without_rendering()
    drawn = [ax for ax in made.axes if ax.get_title("left")]  # without the scales
    assert len(drawn) == 2
    for ax in drawn:
        numbers = numbers_in(ax)
        left_out = NO_NUMBERS in ax.get_xlabel().replace("\n", " ")
        assert len(numbers) == (0 if left_out else layers * tokens)
        assert tokens == 32 or not left_out
        cell = ax.bbox.width / layers
        assert all(each.get_window_extent().width < 0.9 * cell for each in numbers)
    sizes = {each.get_fontsize() for ax in drawn for each in numbers_in(ax)}
    assert len(sizes) <= 1
    assert all(size >= SMALLEST for size in sizes)


def test_numbers_that_nobody_could_read_are_left_out_and_that_is_said():
    made = figure("heatmap", attribution(["a", "b"], layers=48), values=True, width="single")
    assert not numbers_in(made.axes[0])
    assert NO_NUMBERS in made.axes[0].get_xlabel().replace("\n", " ")
    roomy = figure("heatmap", attribution(["a", "b"], layers=48), values=True)
    assert len(numbers_in(roomy.axes[0])) == 96
