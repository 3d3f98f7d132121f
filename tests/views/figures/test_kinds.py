"""Every kind: all tokens are there as text, nothing is swapped, and what is drawn is the scores."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image

from attnflow.errors import InputError
from attnflow.records import Edge, FlowTrace, PatchGrid, Prediction, Route
from attnflow.views.colours import sign_colour
from attnflow.views.figures import KINDS, draw, figure
from attnflow.views.figures.graph import BUDGET
from attnflow.views.figures.maps import scale_columns
from drawn import attribution, svg_texts

SHORT = ["[CLS]", "the", "keys", "to", "cabinets"]
LONG = [f"word{number}" for number in range(60)]
FOREIGN = ["[CLS]", "钥匙", "مفتاح", "ve\u0301rite\u0301", "नमस्ते", "😀", "$x_1$", "<b>&", "a]]>b"]


@pytest.mark.parametrize("kind", ["graph", "heatmap", "heads"])
@pytest.mark.parametrize("tokens", [SHORT, LONG, FOREIGN], ids=["short", "long", "foreign"])
def test_every_token_is_there_once_and_as_text(kind, tokens, tmp_path):
    drawn = [
        attribution(tokens, method, heads=4 if kind == "heads" else None)
        for method in ("raw", "rollout")
    ]
    texts = svg_texts(figure(kind, *drawn), tmp_path)
    assert [text for text in texts if text in tokens] == tokens
    assert "Raw attention" in texts
    assert "Attention rollout" in texts


@pytest.mark.parametrize(("kind", "names"), [("heatmap", "L1 L2 L3"), ("heads", "H0 H1 H2 H3")])
def test_columns_are_named(kind, names, tmp_path):
    texts = svg_texts(
        figure(kind, attribution(SHORT, heads=4 if kind == "heads" else None)), tmp_path
    )
    assert [text for text in texts if text in names.split()] == names.split()


def test_repeated_tokens_have_their_positions():
    tokens = ["[CLS]", "the", "key", "to", "the", "مفتاح", "مفتاح"]
    ax = draw("heatmap", attribution(tokens), Figure().add_subplot())
    shown = [tick.get_text() for tick in ax.get_yticklabels()]
    assert shown == ["[CLS]", "the:1", "key", "to", "the:4", "مفتاح:5", "مفتاح:6"]


@pytest.mark.parametrize("width", [None, "single"])
@pytest.mark.parametrize("heads", [12, 16, 32])
def test_every_head_has_its_name(heads, width):
    ax = figure("heads", attribution(SHORT, heads=heads), width=width).axes[0]
    ax.figure.draw_without_rendering()
    shown = [tick for tick in ax.get_xticklabels() if tick.get_text()]
    assert [tick.get_text() for tick in shown] == [f"H{head}" for head in range(heads)]
    ends = np.array([tick.get_window_extent().intervalx for tick in shown])
    assert (ends[1:, 0] - ends[:-1, 1] > -1.5).all()  # they hardly touch


def test_the_caption_is_what_was_found_or_the_callers_own():
    of = replace(attribution(SHORT, "rollout"), prediction=Prediction("plural", 0.987))
    made = figure("heatmap", of)
    assert made.get_suptitle().replace("\n", " ").startswith("plural (98.7 %); ")
    assert figure("heatmap", of, of).get_suptitle() == "The model says plural 98.7 %"
    assert figure("heatmap", of, caption="Mine").get_suptitle() == "Mine"
    assert figure("heatmap", of, caption="").get_suptitle() == ""


def test_signs_have_two_colours_in_every_kind():
    of = attribution(SHORT, "raw", heads=None)
    signed = replace(of, scores=of.scores * np.where(np.arange(5) % 2, -1, 1))
    lines = [
        tuple(np.round(colour[:3], 3))
        for each in draw("graph", signed, Figure().add_subplot()).collections
        if isinstance(each, LineCollection)
        for colour in each.get_colors()
    ]
    assert {tuple(np.round(to_rgb(sign_colour(sign)), 3)) for sign in (-1, 1)} <= set(lines)
    many = attribution(SHORT, "raw", heads=4)
    mesh = draw("heads", replace(many, scores=-many.scores), Figure().add_subplot()).collections[0]
    assert mesh.get_clim()[0] == -mesh.get_clim()[1]


def test_heat_map_shows_tokens_down_and_layers_across():
    of = attribution(SHORT, query=2)
    ax = draw("heatmap", of, Figure().add_subplot())
    shown = ax.collections[0].get_array()
    assert shown.shape == (5, 3)
    for layer in (1, 2, 3):
        np.testing.assert_array_equal(shown[:, layer - 1], of.row(layer))


def test_relative_heat_map_stretches_each_layer():
    of = attribution(SHORT)
    shown = draw("heatmap", of, Figure().add_subplot(), relative=True).collections[0].get_array()
    assert shown[1:].min(axis=0).tolist() == [0, 0, 0]
    assert shown[1:].max(axis=0).tolist() == [1, 1, 1]
    assert (shown[1:].argmax(axis=0) == of.scores[:, 0, 1:].argmax(axis=1)).all()


def test_relative_without_differences_is_zero():
    assert scale_columns(np.full((3, 2), 0.2), [0]).tolist() == [[0, 0]] * 3
    assert scale_columns(np.full((1, 2), 0.2), [0]).tolist() == [[0, 0]]


def test_colours_are_scaled_without_the_own_row_and_special_tokens():
    words = {"word_ids": (None, 0, 1, 2, None), "word_texts": ("a", "b", "c")}
    of = attribution(SHORT, "rollout", **words)
    mesh = draw("heatmap", of, Figure().add_subplot()).collections[0]
    assert mesh.norm.vmax == of.scores[:, 0, 1:4].max()


def test_heads_are_across_for_the_layer_that_is_explained():
    of = attribution(SHORT, "rollout", heads=4)
    shown = draw("heads", of, Figure().add_subplot()).collections[0].get_array()
    np.testing.assert_array_equal(shown, of.scores[-1, :, 0, :].T)


def test_values_are_written_into_their_cells():
    of = attribution(SHORT, "raw")
    ax = draw("heatmap", of, Figure().add_subplot(), values=True)
    for text in ax.texts:
        layer, token = (int(place) for place in text.get_position())
        assert float(text.get_text()) == pytest.approx(of.row(layer + 1)[token], abs=0.0051)
    assert len(ax.texts) == 15


def edges_of(ax):
    """{((layer, query), (layer below, key)): width} of all lines."""
    return {
        tuple(tuple(int(n) for n in end) for end in line): width
        for lines in ax.collections
        if isinstance(lines, LineCollection)
        for line, width in zip(lines.get_segments(), lines.get_linewidths(), strict=True)
    }


def test_graph_draws_the_edges_from_the_threshold_up():
    of = attribution(SHORT, "raw", query=1)
    drawn = edges_of(draw("graph", of, Figure().add_subplot(), threshold=0.2))
    expected = {
        ((layer, query), (layer - 1, key))
        for layer in (1, 2, 3)
        for query in range(5)
        for key in range(5)
        if of.scores[layer - 1, query, key] >= 0.2
    }
    assert set(drawn) == expected
    assert len(expected) > 5


def test_graph_edges_are_as_wide_as_their_weight():
    of = attribution(SHORT, "rollout")
    drawn = edges_of(draw("graph", of, Figure().add_subplot(), threshold=0.0, focus=False))
    assert len(drawn) == 75
    scores = [of.scores[upper[0] - 1, upper[1], lower[1]] for upper, lower in drawn]
    assert np.argsort(list(drawn.values())).tolist() == np.argsort(scores).tolist()


def test_graph_keeps_the_strongest_edges_of_each_position():
    of = attribution(LONG, "raw", query=7)
    drawn = edges_of(draw("graph", of, Figure().add_subplot()))
    others = {ends for ends in drawn if ends[0][1] != 7}
    assert len(others) == BUDGET  # of all other positions, the strongest of their two strongest
    two = np.sort(np.delete(of.scores, 7, axis=1), axis=-1)[..., -2:]
    weakest = min(of.scores[up[0] - 1, up[1], low[1]] for up, low in others)
    assert weakest == pytest.approx(np.sort(two.ravel())[-BUDGET])
    for layer in (1, 2, 3):
        strongest = np.argsort(-of.row(layer))[:6]
        kept = {low[1] for up, low in drawn if up == (layer, 7)}
        assert kept == set(strongest.tolist())


def test_graph_shows_routes_and_the_cut(tmp_path):
    flows = np.zeros((2, 5, 5))
    flows[1, 0, 3] = flows[0, 3, 2] = 0.25
    flows[1, 0, 0] = flows[0, 0, 2] = 0.125
    routes = (Route((0, 3, 2), 0.25), Route((0, 0, 2), 0.125))
    cut = (Edge(1, 3, 2, 0.25), Edge(1, 0, 2, 0.125))
    trace = FlowTrace(2, 0, 2, 0, 0.375, flows, cut, 0.0, routes)
    made = figure("graph", attribution(SHORT, layers=2), trace=trace)
    ax = made.axes[-1]
    assert set(edges_of(ax)) == {
        ((2, 0), (1, 3)),
        ((1, 3), (0, 2)),
        ((2, 0), (1, 0)),
        ((1, 0), (0, 2)),
    }
    dashed = [c for c in ax.collections if isinstance(c, LineCollection)][-1]
    ends = {tuple(map(tuple, line.astype(int).tolist())) for line in dashed.get_segments()}
    assert ends == {((1, 3), (0, 2)), ((1, 0), (0, 2))}
    assert "Routes from keys" in svg_texts(made, tmp_path)


def test_pronouns_has_bars_and_one_column_a_candidate(tmp_path):
    tokens = ["The", "author", "talked", "to", "Sara", "about", "[MASK]", "book"]
    of = attribution(tokens, query=6)
    made = figure(
        "pronouns", of, candidates=("author", "Sara"), probabilities={"his": 0.6, "her": 0.2}
    )
    bars, panel = made.axes
    assert [bar.get_height() for bar in bars.patches] == pytest.approx([0.75, 0.25])
    np.testing.assert_array_equal(
        panel.collections[0].get_array(), of.scores[::-1, 6, :][:, [1, 4]]
    )
    texts = svg_texts(made, tmp_path)
    assert {"his", "her", "author", "Sara", "L1", "L3"} <= set(texts)


@pytest.mark.parametrize(("length", "turned"), [(5, 0), (15, 35)])
def test_long_candidates_are_turned_so_that_none_covers_another(length, turned):
    tokens = ["[CLS]", *(letter * length for letter in "abcd")]
    panel = figure("pronouns", attribution(tokens), candidates=(1, 2, 3, 4)).axes[0]
    assert {label.get_rotation() for label in panel.get_xticklabels()} == {turned}


@pytest.mark.parametrize(("scale", "written"), [(1.0, ".50"), (0.1, ".050")])
def test_small_values_are_written_with_more_digits(scale, written):
    of = attribution(SHORT)
    of = replace(of, scores=np.full_like(of.scores, 0.5 * scale))
    panel = figure("heatmap", of, values=True).axes[0]
    assert {text.get_text() for text in panel.texts} == {written}


def test_pronouns_names_the_tokens_when_a_candidate_is_missing():
    with pytest.raises(InputError, match=r"candidate='Bob'.*1:the 2:keys"):
        figure("pronouns", attribution(SHORT), candidates=("keys", "Bob"))


def vision(method="raw"):
    names = ["[CLS]", *(f"{row},{column}" for row in range(2) for column in range(3))]
    grid = PatchGrid(2, 3, image=(40, 60), box=(0.0, 0.0, 60.0, 40.0))
    return attribution(names, method, segments=("class", *["patch"] * 6), grid=grid)


def test_image_lays_the_patches_over_the_picture(tmp_path):
    of = vision()
    picture = np.zeros((40, 60, 3), dtype=np.uint8)
    picture[:20] = 255
    Image.fromarray(picture).save(tmp_path / "half.png")
    for given in (picture, tmp_path / "half.png"):
        below, above = draw("image", of, Figure().add_subplot(), picture=given).images
        assert below.get_array()[0, 0] == 1
        assert below.get_array()[-1, 0] == 0
        np.testing.assert_array_equal(above.get_array(), of.values[1:].reshape(2, 3))
        assert above.get_extent() == [0, 60, 40, 0]
        assert above.get_clim() == (of.values[1:].min(), of.values[1:].max())
        assert above.get_alpha().argmax() == of.values[1:].argmax()


def test_a_tall_picture_leaves_no_gaps_beside_it():
    tall = vision()
    tall = replace(tall, grid=replace(tall.grid, image=(500, 200)))
    assert KINDS["image"].size(vision()) == (2.8, pytest.approx(1.6))
    assert KINDS["image"].size(tall) == (pytest.approx(2.0), 4.0)


def test_image_of_another_size_is_refused():
    with pytest.raises(InputError, match="40 × 60"):
        draw("image", vision(), Figure().add_subplot(), picture=np.zeros((50, 60)))


@pytest.mark.parametrize("kind", ["graph", "heatmap", "pronouns"])
def test_single_heads_are_refused_where_layers_are_shown(kind):
    with pytest.raises(InputError, match="single heads"):
        figure(kind, attribution(SHORT, heads=2))


def test_merged_heads_are_refused_where_heads_are_shown():
    with pytest.raises(InputError, match="heads='each'"):
        figure("heads", attribution(SHORT))


def test_unknown_names_list_the_known_ones():
    with pytest.raises(InputError, match=", ".join(KINDS)):
        figure("map", attribution(SHORT))
    with pytest.raises(InputError, match="light, dark"):
        figure("heatmap", attribution(SHORT), theme="blue")


@pytest.mark.parametrize(
    ("kind", "option", "allowed"),
    [
        ("heatmap", "threshold", "values, relative, theme"),
        ("graph", "trace", "threshold, focus, theme"),
    ],
)
def test_unknown_options_name_those_of_the_kind(kind, option, allowed):
    with pytest.raises(
        InputError, match=f"{option}= is not an option of kind '{kind}'; .*{allowed}"
    ):
        attribution(SHORT).figure(kind, **{option: 1})
    with pytest.raises(InputError, match=f"valeus= is not an option of kind '{kind}'; allowed"):
        figure(kind, attribution(SHORT), valeus=True)
    with pytest.raises(InputError, match="allowed: threshold, focus, trace, theme"):
        figure("graph", attribution(SHORT), probabilities={})


def test_attribution_draws_itself_on_given_and_on_new_axes():
    from matplotlib import pyplot

    of = attribution(SHORT)
    ax = Figure().add_subplot()
    assert of.figure("graph", ax=ax) is ax
    fresh = of.figure(theme="dark")
    assert fresh.figure.get_facecolor()[:3] != (1, 1, 1)
    pyplot.close(fresh.figure)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_stand_out_from_the_background(theme):
    from matplotlib.colors import to_rgb
    from matplotlib.text import Text

    made = figure("heatmap", attribution(SHORT), theme=theme, values=True)
    paper = np.mean(to_rgb(made.get_facecolor()))
    labels = [text for text in made.axes[0].get_yticklabels() if isinstance(text, Text)]
    assert all(abs(np.mean(to_rgb(text.get_color())) - paper) > 0.5 for text in labels)
