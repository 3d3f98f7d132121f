"""The sentence on what was found, the ranking behind it, and the last lines."""

from dataclasses import replace

import numpy as np
import pytest

import attnflow
from attnflow.records import Attribution, Edge, FlowTrace, PatchGrid, Prediction, Route
from attnflow.views.wording.findings import find, rank
from attnflow.views.wording.numbers import correlation, listed, number, power_for
from attnflow.views.wording.summaries import agreement_sentence
from attnflow.views.wording.traces import carried, place_of_cut, runs, trace_sentence

TOKENS = ("[CLS]", "the", "keys", "to", "the", "cabinet")


def made(values, method="rollout", **changes):
    given = {
        "tokens": TOKENS,
        "scores": np.array([[values]], dtype=float),
        "layers": (6,),
        "queries": (0,),
        "layer": 6,
        "query": 0,
        "method": method,
        "prediction": Prediction("plural", 0.9),
        "word_ids": (None, 0, 1, 2, 3, 4),
        "word_texts": TOKENS[1:],
    }
    return Attribution(**{**given, **changes})


def test_the_highest_word_is_named_and_special_tokens_are_not():
    found = find(made([0.9, 0.1, 0.5, 0.1, 0.1, 0.2]))
    assert found.sentence == "plural; rollout points to “keys”."
    assert [part.position for part in found.parts if part.role == "token"] == [2]


def test_a_negative_score_is_told_as_a_score():
    found = find(made([0, 0.1, 0.5, 0.1, 0.1, -0.3], "lrp"))
    against = "the highest score against it is that of “cabinet”"  # nothing was blanked
    assert found.sentence == f"plural; lrp points to “keys”; {against}."
    assert find(made([0, 0.1, 0.5, 0.1, 0.1, -0.05], "lrp")).sentence.endswith("“keys”.")


def test_close_ones_are_named_and_repeated_ones_numbered():
    found = find(made([0, 0.5, 0.45, 0.1, 0.1, 0.2]))
    assert found.sentence == "plural; rollout points to “the:1” and “keys”."
    assert "“the:1”: the number is its position, from 0" in found.notes[0]
    found = find(made([0, 0.5, 0.42, 0.42, 0.42, 0.01]))
    assert (
        found.sentence
        == "plural; rollout points to “the:1”, though 3 other tokens of 5 come close."
    )


def test_a_token_with_four_fifths_of_the_highest_score_is_named_too():
    for score, named in ((0.401, "“the:1” and “keys”"), (0.399, "“the:1”")):
        found = find(made([0, 0.5, score, 0.1, 0.1, 0.01]))
        assert found.sentence == f"plural; rollout points to {named}."


@pytest.mark.parametrize("values", [[0.5, 0.45, 0.45, 0.45, 0.41], [0.5, 0.3, 0.42, 0.42, 0.4]])
def test_where_scores_are_even_no_token_stands_out(values):
    found = find(made([0, *values], "flow"))
    times = number(0.5 / np.mean(values))
    most = f"special tokens aside, the highest score, of “the:1”, is {times} × the mean of all 5"
    assert found.sentence == f"plural; by flow no token stands out: {most}."
    assert found.alternative == "barrier"
    assert find(made([0, 0.5, 0.42, 0.42, 0.42, 0.01], "flow")).alternative == ""


def test_one_token_is_no_choice():
    alone = {"tokens": ("[CLS]", "keys"), "word_ids": (None, 0), "word_texts": ("keys",)}
    assert find(made([0, 1], **alone)).sentence == "plural; “keys” is the only token."
    causal = {"tokens": ("the", "keys"), "word_ids": (0, 1), "word_texts": ("the", "keys")}
    said = find(made([0.7, 0.3], query=1, queries=(1,), prediction=None, **causal)).sentence
    assert said == "“keys” at layer 6 of 6; “the” is the only other token."


def test_many_at_the_highest_score_are_no_ranking():
    flow = made([1, 1, 1, 1, 0.2, 1], "flow")
    rollout = made([0.3, 0.1, 0.2, 0.1, 0.1, 0.4])
    found = find(flow, rollout)
    assert found.tied > 3
    assert (found.tied, found.alternative, found.ties) == (4, "barrier", "rollout")
    assert found.order == (5, 2, 1, 3, 4)
    said = "plural; flow can't tell which tokens matter: 4 of 5 tokens tie at 1.00"
    assert found.sentence == f"{said} (rollout puts “cabinet” first)."
    assert "4 of 5 tokens have exactly 1" in found.notes[0]
    assert "the cut lies at “[CLS]”" in found.notes[0]
    assert "order of rollout" in found.notes[1]


def test_ties_of_ratios_are_not_called_full():
    found = find(made([1, 1, 1, 1, 0.2, 1], "flow", options={"correction": "uniform"}))
    assert not any("exactly" in note for note in found.notes)
    assert any("× chance" in note for note in found.notes)
    assert "tie at 1.00×" in found.sentence


def test_ties_stay_in_the_order_of_the_text_without_a_second_method():
    assert rank(made([9, 1, 2, 1, 2, 1])) == [2, 4, 1, 3, 5]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"prediction": None}, "“[CLS]” at layer 6 of 6 comes most from “keys”."),
        ({"depth": 9}, "“[CLS]” at layer 6 of 9 comes most from “keys”."),
        ({"method": "raw"}, "“[CLS]” at layer 6 of 6 attends most to “keys”."),
        ({"options": {"query": 0}}, "“[CLS]” at layer 6 of 6 comes most from “keys”."),
        (
            {"options": {"target": "singular"}},
            "plural; for “singular”, rollout points to “keys”.",
        ),
        ({"options": {"words": True}}, "plural; rollout points to “keys”."),
    ],
)
def test_what_is_accounted_for_is_what_was_asked(changes, said):
    assert find(replace(made([0, 0, 1, 0, 0, 0]), **changes)).sentence == said


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([0, 1, 9, 1, 1, 1], "plural; rollout points to patch “0,1”."),
        ([0, 1, 9, 9, 1, 1], "plural; rollout points to patches “0,1” and “1,0”."),
        (
            [0, 8, 9, 8, 8, 1],
            "plural; rollout points to patch “0,1”, though 3 other patches of 5 come close.",
        ),
    ],
)
def test_patches_are_called_so(values, said):
    grid = PatchGrid(3, 2, (20, 30), (0.0, 0.0, 20.0, 30.0))
    tokens = ("[CLS]", "0,0", "0,1", "1,0", "1,1", "2,0")
    assert find(made(values, tokens=tokens, grid=grid)).sentence == said


def test_nothing_above_zero_is_no_reason():
    assert find(made([1, 0, 0, 0, 0, 0])).sentence == "plural; by rollout no token scores above 0."


def test_what_the_shipped_model_decides_is_said_once():
    said = find(attnflow.explain("the keys to the cabinet", "verbs", method="rollout")).sentence
    assert said == "The number of the verb that comes next: plural; rollout points to “keys”."


def test_right_to_left_words_are_isolated():
    tokens = ("[CLS]", "the", "مفاتيح", "to", "the", "cabinet")
    said = find(made([0, 0, 1, 0, 0, 0], tokens=tokens)).sentence
    assert "“\u2068مفاتيح\u2069”" in said


def test_agreement_names_methods_by_how_far_they_agree():
    one = made([0, 1, 2, 3, 4, 5], "blank-out")
    same, near = made([0, 1, 2, 3, 4, 9]), made([5, 4, 0, 1, 2, 3], "flow")
    said = agreement_sentence(one, [near, same], "blanking")
    assert said == "Blanking agrees with rollout (ρ 1), not with flow (ρ .00)."
    assert agreement_sentence(one, [made([1, 1, 1, 1, 1, 1])]) == ""


def traced(cut, routes):
    return FlowTrace(
        layer=3,
        query=0,
        key=2,
        to_layer=0,
        value=sum(route.amount for route in routes),
        edges=np.zeros((3, 6, 6)),
        cut=cut,
        routes=routes,
        tokens=TOKENS,
    )


ROUTES = (Route((0, 0, 2, 2), 0.6), Route((0, 5, 5, 2), 0.4))


def test_a_trace_says_through_what_it_came_and_where_it_is_narrow():
    trace = traced((Edge(3, 0, 0, 0.6), Edge(3, 0, 5, 0.4)), ROUTES)
    assert trace_sentence(trace) == (
        "From “keys” to “[CLS]”, 60 % goes directly and 40 % through “cabinet”; the bottleneck is "
        "at “[CLS]”: all edges into it that “keys” can reach are full."
    )
    assert place_of_cut(traced((Edge(1, 0, 2, 1.0), Edge(1, 5, 2, 1.0)), ROUTES)) == "input"
    assert place_of_cut(traced((Edge(1, 0, 2, 1.0), Edge(3, 0, 2, 1.0)), ROUTES)) == "between"
    assert place_of_cut(traced((), ROUTES)) == ""


def test_a_trace_without_routes_names_the_step_that_carries_most():
    found = attnflow.routes("the keys to the cabinet", "verbs", to="keys", method="rollout")
    edges = found.edges * (1 - np.eye(6))
    step, to, start = np.unravel_index(edges.argmax(), edges.shape)
    share = edges[step, to, start] / found.value
    names = ["[CLS]", "the:1", "keys", "to", "the:4", "cabinet"]
    assert trace_sentence(found) == (
        f"From “keys” to “[CLS]”, the step that carries most, {100 * share:.0f} %, goes from "
        f"“{names[start]}” to “{names[to]}” in layer {step + 1}."
    )


def test_a_step_between_the_ends_of_a_trace_is_not_named_twice():
    edges = np.zeros((3, 6, 6))
    edges[0, 2, 2], edges[1, 0, 2], edges[2, 0, 0] = 0.5, 0.5, 0.5
    trace = replace(traced((), ()), edges=edges, value=0.5)
    said = "From “keys” to “[CLS]”, the step that carries most, 100 %, is in layer 2."
    assert trace_sentence(trace) == said


def test_shares_of_routes_sum_to_one():
    """A route through two tokens is counted for one of them."""
    routes = (Route((0, 5, 3, 2), 0.5), Route((0, 3, 2, 2), 0.25), Route((0, 5, 4, 2), 0.25))
    said = trace_sentence(traced((), routes))
    assert said == "From “keys” to “[CLS]”, 75 % through “to” and another 25 % through “the:4”."
    assert carried(traced((), routes), 9) == (0, [(3, 0.75), (4, 0.25)])


def test_routes_are_written_as_runs():
    assert [(TOKENS[run.position], run.span) for run in runs(ROUTES[1])] == [
        ("keys", "input"),
        ("cabinet", "L1–2"),
        ("[CLS]", "L3"),
    ]
    assert [run[1:] for run in runs(Route((1,) * 31, 1.0))] == [(0, 30)]


def test_numbers_that_stand_together_share_a_unit():
    assert [power_for(each) for each in (0.7, 0.01, 0.0099999, 0.0042, 2e-8, 0)] == [
        *(0, 0, -3, -3, -9, 0)
    ]
    assert (listed(0.0042, -3), listed(2e-9), listed(5.721, ratio=True)) == (
        *("4.20", "<0.0001", "5.72×"),
    )


def test_numbers_have_three_digits():
    values = [1, 0.9999, 0.00037, 12.34, 123.4, 0, -0.5, 5.721e-6, 0.09996, float("nan")]
    assert [number(value) for value in values] == [
        *("1.00", "1.00", "0.000370", "12.3", "123", "0", "−0.500", "0.00000572", "0.100", "–")
    ]
    assert [correlation(value) for value in (0.812, -0.03, 1, 0.999)] == [".81", "−.03", "1", "1"]
