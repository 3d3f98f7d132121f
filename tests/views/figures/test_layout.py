"""What makes a figure legible: room for numbers, round names, contrast, a fitting size."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

import attnflow
from attnflow.errors import InputError
from attnflow.records import Edge, FlowTrace, PatchGrid, Route
from attnflow.views.figures import KINDS, THEMES, draw, figure, save
from attnflow.views.figures.maps import contrast
from drawn import attribution

TOKENS = ["[CLS]", "the", "keys", "to", "cabinets"]


def deep(layers=30, **fields):
    return attribution(TOKENS, layers=layers, **fields)


def names_below(ax):
    ax.figure.draw_without_rendering()
    return [tick.get_text() for tick in ax.get_xticklabels()]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("heatmap", "L1 L5 L10 L15 L20 L25 L30"),
        ("graph", "input L5 L10 L15 L20 L25 L30"),
    ],
)
def test_of_many_layers_round_ones_are_named_where_they_stand(kind, expected):
    ax = draw(kind, deep(), Figure().add_subplot())
    assert names_below(ax) == expected.split()
    first = 0 if kind == "graph" else 1
    numbers = [int(name[1:]) if name != "input" else 0 for name in names_below(ax)]
    assert [place + first for place in ax.get_xticks()] == numbers


@pytest.mark.parametrize("kind", ["heatmap", "graph", "heads"])
def test_three_panels_of_a_deep_model_stay_on_the_page(kind):
    of = deep(heads=48 if kind == "heads" else None, layers=8 if kind == "heads" else 48)
    assert figure(kind, of, of, of).get_figwidth() < 18


@pytest.mark.parametrize("kind", ["heatmap", "heads"])
@pytest.mark.parametrize("many", [6, 30])
def test_numbers_in_cells_do_not_touch(kind, many):
    of = deep(many, options={}) if kind == "heatmap" else deep(3, heads=many)
    made = figure(kind, of, of, values=True)
    made.draw_without_rendering()
    for ax in (each for each in made.axes if each.texts):
        ends = np.array([text.get_window_extent().intervalx for text in ax.texts])
        rows = ends.reshape(len(TOKENS), many, 2)
        assert (rows[:, 1:, 0] > rows[:, :-1, 1]).all()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_numbers_can_be_read_on_every_colour(theme):
    of = deep(24)
    ax = draw("heatmap", of, Figure().add_subplot(), theme=theme, values=True)
    mesh = ax.collections[0]
    colours = mesh.cmap(mesh.norm(mesh.get_array())).reshape(-1, 4)
    worst = min(
        contrast(text.get_color(), cell) for text, cell in zip(ax.texts, colours, strict=True)
    )
    assert worst > 3.8


def test_contrast_is_the_wcags():
    assert contrast("#ffffff", (0, 0, 0, 1)) == pytest.approx(21)
    assert contrast("#777777", (1, 1, 1, 1)) == pytest.approx(4.48, abs=0.01)


def test_large_numbers_are_written_short():
    of = deep(3)
    large = replace(of, scores=of.scores * 99.9 / of.scores.max())
    ax = draw("heatmap", large, Figure().add_subplot(), values=True)
    assert max(len(text.get_text()) for text in ax.texts) <= 4


def test_a_correction_is_said():
    of = deep(3, options={"correction": "uniform"})
    for kind, options in (("heatmap", {}), ("pronouns", {"candidates": [1, 2]})):
        ax = draw(kind, of, Figure().add_subplot(), **options)
        assert ax.get_xlabel() == "for [CLS], corrected (uniform)"


@pytest.mark.parametrize(("layers", "tallest"), [(6, 1.8), (40, 3.3)])
def test_bars_beside_many_layers_stay_low(layers, tallest):
    options = {"candidates": [1, 2], "probabilities": {"his": 0.2, "her": 0.7}}
    made = figure("pronouns", deep(layers), **options)
    made.draw_without_rendering()
    bars, panel = made.axes[:2]
    assert bars.get_window_extent().height / made.dpi < tallest
    assert bars.get_window_extent().y1 == pytest.approx(panel.get_window_extent().y1, abs=2)


@pytest.mark.parametrize("size", [(100, 400), (400, 100), (300, 300)])
def test_the_scale_beside_a_picture_is_as_high_as_the_picture(size):
    names = ["[CLS]", *(f"{row},{column}" for row in range(3) for column in range(3))]
    segments = ("class", *["patch"] * 9)
    grid = PatchGrid(3, 3, size, (0, 0, size[1], size[0]))
    of = attribution(names, segments=segments, grid=grid)
    made = figure("image", of, of)
    made.draw_without_rendering()
    for ax in made.axes:
        (scale,) = ax.child_axes
        assert np.diff(scale.get_window_extent().intervaly) == pytest.approx(
            np.diff(ax.get_window_extent().intervaly), abs=1
        )
        assert ax.images[-1].get_clim()[1] == ax.images[-1].get_array().max()


def test_small_edges_of_a_bottleneck_are_fainter():
    cut = (Edge(1, 0, 1, 0.4), Edge(1, 0, 2, 0.01))
    edges = np.zeros((1, 5, 5))
    edges[0, 0, 1], edges[0, 0, 2] = 0.4, 0.01
    trace = FlowTrace(1, 0, 1, 0, 0.41, edges, cut, 0.0, (Route((0, 1), 0.4),))
    panel = figure("graph", attribution(TOKENS, layers=1), trace=trace).axes[-1]
    dotted = [lines for lines in panel.collections if isinstance(lines, LineCollection)][-1]
    strong, weak = dotted.get_colors()[:, 3]
    assert strong == pytest.approx(1)
    assert 0.2 < weak < 0.5


def test_every_kind_has_a_size_whatever_the_options():
    kinds = {"graph", "heatmap", "pronouns", "heads", "image", "sound", "generation"}
    assert set(KINDS) == kinds
    for name in ("graph", "heatmap", "pronouns"):
        assert all(side > 0 for side in KINDS[name].size(deep(3), values=True, threshold=0.1))
    assert set(THEMES) == {"light", "dark"}


@pytest.mark.parametrize("kind", ["heatmap", "graph"])
@pytest.mark.parametrize(("width", "inches"), [("single", 3.35), ("504pt", 7.0), (5, 5.0)])
def test_a_figure_is_as_wide_as_the_page_and_its_type_keeps_its_size(kind, width, inches, tmp_path):
    from PIL import Image

    of = attribution(["[CLS]", *"abcdefgh"], layers=6)
    made = figure(kind, of, of, of, width=width)
    saved = save(made, tmp_path / "figure.png", dpi=100)
    with Image.open(saved) as image:
        assert image.width == pytest.approx(inches * 100, abs=1)
    made.draw_without_rendering()
    panels = [ax for ax in made.axes if ax.get_title(loc="left")]
    assert len(panels) == 3
    assert {ax.title.get_fontsize() for ax in panels} == {
        ax.title.get_fontsize() for ax in figure(kind, of).axes
    }
    sides = [ax.get_window_extent() for ax in panels]
    assert min(side.width for side in sides) / made.dpi > 0.8  # legible
    for ax in panels:  # with all that belongs to it, it stays on the page
        box = ax.get_tightbbox()
        assert box.x0 >= -1
        assert box.x1 <= made.get_figwidth() * made.dpi + 1


@pytest.mark.parametrize("width", ["triple", 0.5, 99, True, "3cm", [3]])
def test_a_width_that_is_none_is_refused(width):
    with pytest.raises(InputError, match=r"width=.* must be single, double, or 2 to 40 inches"):
        figure("heatmap", deep(3), width=width)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("method", ["raw", "rollout", "flow"])
def test_heat_maps_have_the_colour_of_their_method_and_grow_evenly(theme, method):
    of = attribution(TOKENS, method, layers=3)
    mesh = draw("heatmap", of, Figure().add_subplot(), theme=theme).collections[0]
    colours = mesh.cmap(np.linspace(0, 1, 33))[:, :3]
    own = np.array(to_rgb(THEMES[theme].method(method)))
    assert np.abs(colours - own).sum(-1).min() < 0.06
    light = colours @ (0.2126, 0.7152, 0.0722)
    steps = np.diff(light if theme == "dark" else -light)
    assert (steps > 0).all()


def test_source_and_target_are_divided_and_said():
    segments = ("source", "source", "source", "target", "target")
    of = attribution(TOKENS, segments=segments, query=4)
    for kind in ("heatmap", "graph"):
        ax = draw(kind, of, Figure().add_subplot())
        assert 2.5 in [line.get_ydata()[0] for line in ax.lines]
        assert "source above the line, target below" in ax.get_xlabel().replace("\n", " ")
    assert not draw("heatmap", deep(3), Figure().add_subplot()).lines


def test_legends_say_what_colour_grey_and_width_mean():
    said = draw("graph", deep(3), Figure().add_subplot()).get_xlabel().replace("\n", " ")
    assert said == (
        "strongest edges from input tokens; coloured: into [CLS]; grey: into others; width: weight"
    )
    made = figure("heatmap", deep(3, options={"correction": "uniform"}))
    assert made.axes[1].get_ylabel() == "× chance"


@pytest.mark.parametrize("kind", ["heatmap", "graph"])
@pytest.mark.parametrize("width", [None, "double"])
def test_lines_below_panels_end_before_those_of_their_neighbours(kind, width):
    names = [f"{at}" for at in range(12)]
    of = attribution(names, layers=2, pooled=tuple(range(12)), options={"edges": "norms"})
    made = figure(kind, of, of, of, width=width)
    made.draw_without_rendering()
    labels = [ax.xaxis.label for ax in made.axes if ax.get_xlabel()]
    assert len(labels) == 3
    ends = [label.get_window_extent().intervalx for label in labels]
    assert all(left[1] < right[0] for left, right in pairwise(ends))


def test_small_scores_have_a_unit_beside_their_colours():
    found = attnflow.explain("the keys to the cabinet", "verbs", method="direct", layers="all")
    assert 0 < found.scores.max() < 1e-3
    drawn = figure("heatmap", found)
    (scale,) = [each for each in drawn.axes if each.get_ylabel().startswith("score")]
    drawn.canvas.draw()
    assert scale.get_ylabel() == "score × 10⁻⁶"
    written = [float(each.get_text()) for each in scale.get_yticklabels()]
    assert written == [round(1e6 * at, 6) for at in scale.get_yticks()]
    assert drawn.axes[0].get_title(loc="left") == "Direct contributions"
