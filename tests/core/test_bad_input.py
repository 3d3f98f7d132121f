"""Bad input is refused before any work, with the argument, the place and the rule."""

from types import SimpleNamespace

import numpy as np
import pytest

import attention as some
import attnflow
from attnflow.errors import InputError

METHODS = (attnflow.raw, attnflow.rollout, attnflow.flow)


def spoiled(value, place=(1, 0, 2, 3)):
    attention = some.make("dense", 3, 5, seed=1, heads=2)
    attention[place] = value
    return attention


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("attention", "message"),
    [
        (spoiled(np.nan), r"attention\[1\] at \[0, 2, 3\] is nan; every weight must be finite"),
        (spoiled(np.inf), r"attention\[1\] at \[0, 2, 3\] is inf"),
        (spoiled(-0.1), r"attention\[1\] at \[0, 2, 3\] is -0.1; no weight may be negative"),
        (spoiled(0.9), r"row sum of attention\[1\] at \[0, 2\] is 1\.\d+; every row must sum to 1"),
        (np.ones((3, 4)), "has 1 axes"),
        (np.ones(3), "has 0 axes"),
        (np.full((2, 3, 4), 0.25), "query and key must be equal"),
        (np.ones((0, 3, 3)), "needs at least one layer"),
        (np.ones((2, 0, 0)), "no axis may be empty"),
        ([np.eye(3), np.eye(4)], r"attention\[1\] has shape \(4, 4\)"),
        (np.ones((2, 2, 2), int), "int64; it must be an array of"),
        ([[[1.0]]], "list; it must be an array of"),
        (None, "attention is None; .*output_attentions=True"),
        (SimpleNamespace(attentions=()), r"SimpleNamespace; pass its \.attentions"),
        (SimpleNamespace(encoder_attentions=()), r"pass its \.encoder_attentions"),
        (3, "attention is int; give an array"),
    ],
)
def test_bad_attention_is_refused(method, attention, message):
    with pytest.raises(InputError, match=message):
        method(attention)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"residual": 1.0}, "residual=1.0"),
        ({"residual": -0.1}, "residual=-0.1"),
        ({"discard": 1}, "discard=1"),
        (
            {"heads": "median"},
            "heads='median' is unknown; did you mean 'mean'",
        ),
        ({"heads": [2]}, "head 2 does not exist; there are 0 to 1"),
        ({"heads": [0, 0]}, "names a head twice"),
        ({"heads": []}, "picks no head"),
        ({"heads": 0}, r"heads=0 must be a list: heads=\[0\] picks this head"),
        ({"heads": ["a"]}, r"heads=\['a'\] is unknown; allowed: mean"),
        (
            {"heads": np.array([0, 1])},
            r"heads=array\(\[0, 1\]\) is unknown; .*a list of integers or of weights",
        ),
        ({"heads": [np.int64(2)]}, "head 2 does not exist"),
        ({"heads": None}, "heads=None is unknown; allowed: mean"),
        ({"heads": [0.5]}, "must be 2 finite weights"),
        ({"heads": [-0.5, 1.5]}, "none negative"),
        ({"heads": [float("nan"), 1.0]}, "finite weights"),
        ({"heads": [float("inf"), 1.0]}, "finite weights"),
        ({"to_layer": 3}, "to_layer=3 does not exist here; allowed: 0 to 2"),
        ({"layers": 4}, "layers=4 does not exist here; allowed: 1 to 3"),
        ({"layers": 0}, "layers=0"),
        ({"layers": [1, 1.5]}, r"layers must be an integer from 1 to 3, got 1\.5"),
        ({"layers": []}, "layers is empty"),
        ({"layers": True}, "layers must be an integer from 1 to 3, got True"),
        ({"queries": [0, False]}, "queries must be an integer from 0 to 4, got False"),
        ({"keys": np.True_}, r"keys must be an integer from 0 to 4, got (np\.)?True"),
        ({"to_layer": False}, "to_layer must be an integer from 0 to 2, got False"),
        ({"heads": [True, False]}, r"heads=.* is unknown; allowed: mean"),
        ({"queries": 5}, "queries=5 does not exist here; allowed: 0 to 4"),
        ({"keys": [-6]}, "keys=-6"),
        ({"threads": 0}, "threads=0 must be an integer from 1, or None for one per core"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        attnflow.flow(some.make("dense", 3, 5, seed=1, heads=2), **options)


def test_single_heads_need_heads():
    with pytest.raises(InputError, match="heads are fused"):
        attnflow.rollout(some.make("dense", 3, 5, seed=1), heads="each")


@pytest.mark.parametrize(("kind", "off"), [("float16", 1e-2), ("float64", 5e-4)])
def test_rows_may_be_off_by_the_stated_tolerance(kind, off):
    attention = some.make("dense", 2, 4, seed=2)
    attention[0, 1] *= 1 + off
    found = attnflow.rollout(attention.astype(kind))
    np.testing.assert_allclose(found.astype(float).sum(axis=-1), 1, atol=2e-3)
    with pytest.raises(InputError, match="row sum"):
        attnflow.rollout((attention * (1 + 5 * off)).astype(kind))


def test_attention_that_is_not_square_is_refused():
    for shape in ((2, 3, 4, 5), (2, 3, 5, 4), (2, 4, 5)):
        with pytest.raises(InputError, match="query and key must be equal"):
            attnflow.flow(np.full(shape, 1 / shape[-1]))
