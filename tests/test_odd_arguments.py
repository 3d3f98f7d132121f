"""Arguments of other libraries and kinds: the right number, or an error that names the value."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from matplotlib import pyplot

import attention as some
import attnflow
import tiny
from attnflow.errors import InputError
from attnflow.evaluation.agreement import spearman
from attnflow.records import Attribution, Prediction

ATTENTION = some.make("dense", 3, 5, seed=1, heads=2)
METHODS = (attnflow.raw, attnflow.rollout, attnflow.flow)
HUGE = 10**5000  # which Python refuses to write out


def layouts():
    return {
        "big-endian": ATTENTION.astype(">f8"),
        "big-endian layers": [ATTENTION[0], ATTENTION[1].astype(">f8"), ATTENTION[2]],
        "generator": (layer for layer in ATTENTION),
        "iterator": iter(ATTENTION),
        "values of a dict": dict(enumerate(ATTENTION)).values(),
        "fortran": np.asfortranarray(ATTENTION),
        "reversed": ATTENTION[:, :, ::-1][:, :, ::-1],
        "strided": np.repeat(ATTENTION, 2, -1)[..., ::2],
        "read-only": np.broadcast_to(ATTENTION, ATTENTION.shape),
        "masked nowhere": np.ma.array(ATTENTION),
        "transposed tensor": torch.tensor(ATTENTION.swapaxes(2, 3).copy()).transpose(2, 3),
        "negative view": torch._neg_view(torch.tensor(-ATTENTION)),
        "with gradients": torch.tensor(ATTENTION, requires_grad=True),
    }


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("layout", layouts())
def test_every_layout_gives_the_same(method, layout):
    found = method(layouts()[layout])
    np.testing.assert_array_equal(np.asarray(found), method(ATTENTION))


@pytest.mark.parametrize("layout", layouts())
def test_every_layout_gives_the_same_trace(layout):
    found = attnflow.trace(layouts()[layout], key=1, query=3)
    assert found.value == attnflow.trace(ATTENTION, key=1, query=3).value


@pytest.mark.parametrize(
    ("attention", "message"),
    [
        (np.array(1.0), "an array of no axes"),
        (torch.tensor(1.0), "an array of no axes"),
        (torch.tensor(ATTENTION).to_sparse(), "tensor sparse; give a dense one"),
        (torch.empty(3, 2, 5, 5, device="meta"), "tensor without data"),
        (np.ma.array(ATTENTION, mask=ATTENTION > 0.3), "masked array with hidden entries"),
        (ATTENTION.astype(object), "is object; it must be an array of"),
        ("abc", "is str"),
        (b"abc", "it must be an array of"),
    ],
    ids=range(8),
)
def test_what_is_no_attention_is_refused(attention, message):
    for method in (*METHODS, lambda given: attnflow.trace(given, key=0)):
        with pytest.raises(InputError, match=message):
            method(attention)


@pytest.mark.parametrize("name", ["layers", "queries", "keys"])
@pytest.mark.parametrize(
    "given",
    [
        lambda: (i for i in [2, 1]),
        lambda: np.array([2, 1], ">i4"),
        lambda: np.array([2, 9, 1])[::2],
        lambda: np.array([2, 1], object),
        lambda: torch.tensor([2, 1]),
        lambda: [np.int8(2), torch.tensor(1)],
    ],
    ids=range(6),
)
def test_indices_of_any_kind_are_taken_in_order(name, given):
    expected = attnflow.flow(ATTENTION, **{name: [2, 1]})
    np.testing.assert_array_equal(attnflow.flow(ATTENTION, **{name: given()}), expected)


@pytest.mark.parametrize("name", ["layers", "queries", "keys", "to_layer"])
@pytest.mark.parametrize(
    "given",
    [
        torch.tensor(True),
        torch.tensor([True]),
        np.array(True),
        {1, 2},
        {1: 2},
        b"\1",
        bytearray(b"\1"),
        "1",
        slice(0, 2),
        1.0,
        np.float32(1),
        [[1]],
        HUGE,
        -HUGE,
        float("nan"),
    ],
    ids=range(15),
)
def test_what_is_no_index_is_refused(name, given):
    with pytest.raises(InputError, match=f"{name}( must be an integer|=).*"):
        attnflow.flow(ATTENTION, **{name: given})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"residual": HUGE}, "residual=<int> is far too large"),
        ({"heads": HUGE}, "heads=<int> is far too large"),
        ({"heads": [HUGE]}, "heads=<list> is far too large"),
        ({"heads": [10**400, 0.5]}, "is far too large"),
        ({"heads": b"\0"}, r"heads=b'\\x00' is unknown; .* a list of integers"),
        ({"heads": bytearray(b"\0")}, "a list of integers or of weights"),
        ({"edges": HUGE}, "edges=<int> is unknown"),
        ({"device": ["cpu"]}, r"device=\['cpu'\] is unknown; allowed: auto, cpu"),
        ({"device": None}, "device=None"),
        ({"progress": "no"}, "progress='no' must be True or False"),
        ({"normalize": np.array([True, False])}, "normalize="),
        ({"normalize": 1}, "normalize=1 must be True or False"),
        ({"statistics": "all"}, "statistics='all'"),
        ({"threads": True}, "threads=True"),
        ({"threads": 1.0}, "threads=1.0"),
    ],
    ids=range(15),
)
def test_odd_options_are_named(options, message):
    with pytest.raises(InputError, match=message):
        attnflow.flow(ATTENTION, **options)


def test_fractions_are_shares():
    expected = attnflow.flow(ATTENTION, residual=0.5, discard=0.25, heads=[0.25, 0.75])
    shares = {"residual": Fraction(1, 2), "discard": np.float32(0.25)}
    weights = [Fraction(1, 4), np.float64(0.75)]
    found = attnflow.flow(ATTENTION, heads=weights, **shares)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-15)
    with pytest.raises(InputError, match="below 1"):
        attnflow.flow(ATTENTION, residual=Fraction(10**20 - 1, 10**20))


@pytest.mark.parametrize(
    "mask",
    [
        np.array([[1.0, np.nan]]),
        [[1, 2]],
        [[0, -10000]],
        [[True, None]],
        [["1", "0"]],
        [[1, 0], [1]],
        "all",
        {},
        object(),
        10**400,
        (row for row in [[1, 0]]),
        slice(0, 1),
        1j,
    ],
    ids=range(13),
)
def test_what_is_no_mask_is_refused(mask):
    for method in METHODS:
        with pytest.raises(InputError, match="mask"):
            method(np.full((2, 1, 2, 2), 0.5), mask=mask)


@pytest.mark.parametrize(
    "lengths",
    [[True], np.array([True]), [1.0], [2.5], "2", b"\2", 2, [], [[2]], [-1], [10**30], {2}, [None]],
    ids=range(13),
)
def test_what_are_no_lengths_is_refused(lengths):
    for method in METHODS:
        with pytest.raises(InputError, match="lengths="):
            method(np.full((2, 1, 2, 2), 0.5), lengths=lengths)


def test_lengths_and_masks_of_any_kind_are_right():
    batch = np.full((2, 2, 3, 3), 1 / 3)
    batch[:, 1, :2, :2] = 0.5
    expected = attnflow.rollout(batch, lengths=[3, 2])
    for lengths in (iter([3, 2]), np.array([3, 2], ">i8"), torch.tensor([3, 2]), (3, np.int8(2))):
        np.testing.assert_array_equal(attnflow.rollout(batch, lengths=lengths), expected)
    mask = np.array([[1, 1, 1], [1, 1, 0]])
    kinds = (mask.tolist(), mask > 0, mask.astype(">f4"), np.asfortranarray(mask))
    for given in (*kinds, torch.tensor(mask), torch.tensor(mask > 0)):
        np.testing.assert_array_equal(attnflow.rollout(batch, mask=given), expected)


@pytest.fixture(scope="module")
def found(encoder):
    return attnflow.explain(tiny.TEXT, encoder, method="rollout", layers="all")


@pytest.mark.parametrize("k", [1.5, 1.0, True, None, "3", [3], np.array([3]), float("nan"), -1])
def test_top_takes_an_integer(k, found):
    with pytest.raises(InputError, match=r"k=.* must be an integer of at least 0"):
        found.top(k)


def test_top_takes_integers_of_any_library(found):
    for k in (np.int8(2), np.array(2), torch.tensor(2)):
        assert found.top(k) == found.top(2)
    assert found.top(HUGE) == found.top(len(found.tokens))


@pytest.mark.parametrize(
    "given",
    [True, np.True_, torch.tensor(True), 1.0, [1], slice(1), b"1", HUGE, float("nan"), ()],
    ids=range(10),
)
def test_rows_are_of_integers(given, found):
    for ask in (found.row, found.at):
        with pytest.raises(InputError, match="layer"):
            ask(given)
        with pytest.raises(InputError, match="query"):
            ask(query=given)
    with pytest.raises(InputError, match="query="):
        found.position(given)


def test_rows_take_integers_of_any_library(found, tmp_path):
    for two in (np.int8(2), np.array(2), torch.tensor(2)):
        assert np.array_equal(found.row(two, two), found.row(2, 2))
        assert found.position(two) == 2
        other = found.at(two, two)
        assert (
            Attribution.load(other.save(tmp_path / "it.json", overwrite=True)).options["layer"] == 2
        )


def test_a_label_with_a_number_without_end_is_no_token(found):
    with pytest.raises(InputError, match="is not one of the tokens"):
        found.position("the:" + "9" * 5000)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"query": np.array([])}, "query=array"),
        ({"query": [1]}, r"query=\[1\] must be a position"),
        ({"query": 1.0}, "query=1.0"),
        ({"query": True}, "query=True"),
        ({"query": HUGE}, "query=<int>"),
        ({"layer": 1.0}, "layer must be an integer from 1 to 3, got 1.0"),
        ({"layer": HUGE}, "layer=<int>"),
        ({"layers": np.array(1.5)}, "layers="),
        ({"layers": {1: 2}}, "layers="),
        ({"layers": [1, True]}, "layers=True"),
        ({"layers": "top"}, "layers='top' is unknown"),
        ({"correction": np.array(["auto", "sink"])}, "correction="),
        ({"correction": HUGE}, "correction=<int>"),
        ({"method": None}, "method=None"),
        ({"words": "yes"}, "words='yes' must be True or False"),
        ({"truncate": 1}, "truncate=1"),
        ({"normalize": None}, "normalize=None"),
        ({"progress": 1}, "progress=1"),
        ({"batch_size": 1.5}, "batch_size=1.5"),
        ({"target": [["a"]]}, r"target=\['a'\] must be a text, a number or None"),
        ({"contrast": 1.5}, "contrast=1.5"),
        ({"answer": b"x"}, "answer=b'x'"),
    ],
    ids=range(22),
)
def test_odd_options_of_explain_are_named(options, message, encoder):
    with pytest.raises(InputError, match=message):
        attnflow.explain("the cat", encoder, **({"method": "raw"} | options))


@pytest.mark.parametrize("one", [1, np.int8(1), np.array(1), torch.tensor(1), [1], iter([1])])
def test_layers_of_any_kind_are_computed(one, encoder):
    assert attnflow.explain("the cat", encoder, method="raw", layers=one).layers == (1,)


@pytest.mark.parametrize("text", ["the \ud800 cat", "\udcff", "\ud83d\ude00"])
def test_lone_surrogates_are_no_text(text, classifier):
    asks = (
        lambda: attnflow.explain(text, classifier),
        lambda: attnflow.explain(["the cat", text], classifier),
        lambda: attnflow.routes(text, classifier, to=1),
        lambda: attnflow.explore(text, classifier),
        lambda: attnflow.blank_out(text, classifier),
        lambda: attnflow.gradients(text, classifier),
    )
    for ask in asks:
        with pytest.raises(InputError, match=r"is not Unicode text: character .* lone surrogate"):
            ask()
    with pytest.raises(InputError, match=r"target=.* is not Unicode text"):
        attnflow.blank_out("the cat", classifier, target=text)


@pytest.mark.parametrize(
    "target",
    [1.5, True, b"1", {}, [[1]], slice(1), np.array(1.5), HUGE, ["\ud800"], object()],
    ids=range(10),
)
def test_what_is_no_target_is_refused(target, classifier):
    for ask in (attnflow.blank_out, attnflow.gradients):
        with pytest.raises(InputError, match="target"):
            ask("the cat", classifier, target=target)


@pytest.mark.parametrize(
    ("ask", "options"),
    [
        (attnflow.blank_out, {"replacement": ["unk"]}),
        (attnflow.blank_out, {"replacement": np.array(["unk", "pad"])}),
        (attnflow.blank_out, {"signed": "no"}),
        (attnflow.blank_out, {"batch_size": True}),
        (attnflow.gradients, {"kind": ["norm"]}),
        (attnflow.gradients, {"kind": {}}),
        (attnflow.gradients, {"kind": "integrated", "steps": 10**6}),
        (attnflow.gradients, {"kind": "integrated", "steps": HUGE}),
        (attnflow.gradients, {"steps": 1.5}),
        (attnflow.gradients, {"progress": "no"}),
    ],
    ids=range(10),
)
def test_odd_options_of_importance_are_named(ask, options, classifier):
    name = list(options)[-1]
    with pytest.raises(InputError, match=f"{name}="):
        ask("the cat", classifier, **options)


def test_agreement_is_of_attributions(found):
    for other in (None, [1, 2], found.values, "x", HUGE):
        with pytest.raises(InputError, match="agreement compares two attributions"):
            attnflow.agreement(found, other)
        with pytest.raises(InputError, match="agreement compares two attributions"):
            attnflow.agreement(other, found)


def test_agreement_with_nan_or_a_constant_is_undefined():
    for other in ([np.nan, 1, 2], [3, 3, 3], [np.nan] * 3):
        assert np.isnan(spearman([1, 2, 3], other))
        assert np.isnan(spearman(other, [1, 2, 3]))
    assert spearman([1, 2, np.inf], [4, 5, 6]) == 1
    for other in (["a", "b", "c"], None, {}, [1, [2], 3], [10**400] * 3):
        with pytest.raises(InputError, match="agreement needs two lists"):
            spearman([1, 2, 3], other)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": ["heatmap"]}, "kind="),
        ({"kind": None}, "kind=None"),
        ({"theme": {}}, "theme="),
        ({"ax": 3}, "ax=3 must be axes of matplotlib"),
        ({"values": "no"}, "values='no' must be True or False"),
        ({"relative": np.array([True, False])}, "relative="),
        ({"kind": "graph", "threshold": "0.1"}, "threshold='0.1' must be a finite number"),
        ({"kind": "graph", "threshold": float("nan")}, "threshold=nan"),
        ({"kind": "graph", "threshold": np.array([0.1])}, "threshold="),
        ({"kind": "graph", "focus": 1}, "focus=1"),
        ({"kind": "pronouns", "candidates": 3}, "candidates=3 must be a list of tokens"),
        ({"kind": "pronouns", "candidates": "keys"}, "candidates='keys'"),
        ({"kind": "pronouns", "candidates": np.array(3)}, "candidates="),
        ({"kind": "pronouns", "candidates": [1.5, 2]}, "candidate=1.5"),
    ],
    ids=range(14),
)
def test_odd_options_of_figures_are_named(options, message, found):
    with pytest.raises(InputError, match=message):
        found.figure(**options)
    pyplot.close("all")


def test_candidates_may_come_from_a_generator(found):
    axes = found.figure("pronouns", candidates=(token for token in ("keys", "cabinet")))
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["keys", "cabinet"]
    pyplot.close("all")


def test_a_prediction_of_nan_is_named_where_it_cant_be_shown(found):
    from dataclasses import replace

    from attnflow.errors import AttnflowError

    broken = replace(found, prediction=Prediction("x", float("nan"), (("x", float("nan")),)))
    with pytest.raises(AttnflowError, match="NaN often comes of half precision"):
        broken._repr_html_()
