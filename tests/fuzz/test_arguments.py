"""Whatever is given to a call, the result is that of the plain value, or a library error.

Sampled are calls of the public functions and of an attribution's methods with one to three of their
arguments drawn: values in the guise of any library (NumPy and torch scalars, arrays big-endian,
strided or of objects, generators, fractions), whose result must be that of the plain value, and
values that mean nothing there, which must be refused.
"""

import sys
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from effort import examples

import attention as some
import attnflow
from attnflow.errors import AttnflowError

NONSENSE = object()  # what has no plain value, and must be refused


@dataclass(frozen=True)
class Drawn:
    """A value as it is given, made anew for every call, and what it plainly is."""

    make: Any
    plain: Any = NONSENSE

    def __repr__(self):
        return f"{self.make()!r:.100}"


# Each with the kinds of arguments that it does mean something to.
ODD = [
    (lambda: 1.5, "share"),
    (lambda: 1.0, "share"),
    (lambda: 0.5, "share"),
    (lambda: float("nan"), ""),
    (lambda: float("inf"), ""),
    (lambda: -0.5, ""),
    (lambda: 1j, ""),
    (lambda: Decimal(1), ""),
    (lambda: Fraction(1, 2), "share"),
    (lambda: True, "flag"),
    (lambda: np.True_, "flag"),
    (lambda: np.array(True), ""),
    (lambda: np.array([True, False]), ""),
    (lambda: torch.tensor(True), ""),
    (lambda: torch.tensor([True]), ""),
    (lambda: torch.tensor([1.5]), ""),
    (lambda: np.array([]), "indices texts"),
    (lambda: np.array([1.5]), ""),
    (lambda: np.array([[1]]), ""),
    (lambda: np.array([None]), "target"),
    (lambda: "", "token texts target name"),
    (lambda: "1", "token texts target name"),
    (lambda: "nothing of that kind", "token texts target name"),
    (lambda: "\ud800", "token name"),
    (lambda: "the:" + "9" * 5000, "token texts target name"),
    (lambda: b"", ""),
    (lambda: b"\1", ""),
    (lambda: bytearray(b"\1"), ""),
    (lambda: memoryview(b"\1"), ""),
    (list, "indices texts heads target"),
    (lambda: [[1]], ""),
    (lambda: [["the"]], ""),
    (lambda: ["the", 3], ""),
    (dict, ""),
    (lambda: {1}, "target"),
    (lambda: {1: 2}, ""),
    (lambda: slice(0, 2), ""),
    (lambda: object(), ""),
    (lambda: int, ""),
    (lambda: len, ""),
    (lambda: ..., ""),
    (lambda: NotImplemented, ""),
    (lambda: np.datetime64("2020-01-01"), ""),
    (lambda: np.ones((2, 2), complex), ""),
    (lambda: Path("nothing"), ""),
]


def nonsense(kind):
    return st.sampled_from([Drawn(make) for make, means in ODD if kind not in means.split()])


def guises(number):
    """An integer as other libraries have it."""
    small = [np.int8, np.uint8, np.int16] if 0 <= number < 100 else [np.int16]
    if abs(number) > 1000:
        return [number]
    kinds = [kind(number) for kind in (*small, np.int32, np.int64)]
    arrays = [np.array(number), np.array(number, ">i4"), torch.tensor(number)]
    return [number, *kinds, *arrays]


@st.composite
def integers(draw, low=-4, high=8):
    number = draw(st.integers(low, high) | st.sampled_from([10**30, -(10**30), 10**5000]))
    chosen = draw(st.sampled_from(guises(number)))
    return Drawn(lambda: chosen, number)


@st.composite
def indices(draw):
    """Integers in whatever holds several."""
    numbers = draw(st.lists(st.integers(-3, 4), max_size=3))
    form = draw(
        st.sampled_from(
            [
                list,
                tuple,
                iter,
                lambda given: (each for each in given),
                lambda given: np.array(given, int),
                lambda given: np.array(given, ">i2"),
                lambda given: np.array(given, object),
                lambda given: np.repeat(np.array(given, int), 2)[::2],
                lambda given: torch.tensor(given, dtype=torch.int32),
                lambda given: [np.int64(each) for each in given],
            ]
        )
    )
    return Drawn(lambda: form(numbers), numbers)


shares = (
    st.sampled_from([0, 0.0, 0.25, 0.5, 0.9, 1, -0.1])
    .flatmap(
        lambda share: st.sampled_from(
            [share, np.float64(share), Fraction(share), np.float16(share)]
        )
    )
    .map(lambda share: Drawn(lambda: share, float(share)))
)
flags = st.sampled_from([True, False]).flatmap(
    lambda flag: st.sampled_from([Drawn(lambda: flag, flag), Drawn(lambda: np.bool_(flag), flag)])
)
heads = st.one_of(
    st.sampled_from(["mean", "each", "median"]).map(lambda h: Drawn(lambda: h, h)),
    st.lists(st.integers(-2, 2), max_size=2).map(
        lambda h: Drawn(lambda: tuple(np.int8(each) for each in h), h)
    ),
    st.lists(st.sampled_from([0.0, 0.25, 1.5, float("nan"), -1.0]), max_size=2).map(
        lambda h: Drawn(lambda: [np.float64(each) for each in h], h)
    ),
)
ATTENTION = some.make("dense", 3, 5, seed=1, heads=2)
LAYOUTS = [
    lambda: ATTENTION.astype(">f8"),
    lambda: np.asfortranarray(ATTENTION),
    lambda: iter(ATTENTION),
    lambda: list(ATTENTION),
    lambda: torch.tensor(ATTENTION),
    lambda: [torch.tensor(layer, requires_grad=True) for layer in ATTENTION],
]
MASK = [[1, 1, 0]]
MASKS = [
    lambda: np.array(MASK, ">f4"),
    lambda: np.array(MASK) > 0,
    lambda: torch.tensor(MASK),
    lambda: tuple(map(tuple, MASK)),
]
TEXTS = ["the cat", "a key"]
nothing = st.just(Drawn(lambda: None, None))
KINDS = {
    "integer": integers(),
    "size": integers(-1, 5),
    "indices": indices() | integers() | nothing,
    "share": shares,
    "flag": flags,
    "heads": heads,
    "token": integers()
    | st.sampled_from(["the", "keys", "The:1", "Keys", "all", "[CLS]"]).map(
        lambda token: Drawn(lambda: np.str_(token), token)
    ),
    "name": st.sampled_from(["raw", "rollout", "flow", "attention", "auto", "none"]).map(
        lambda name: Drawn(lambda: np.str_(name), name)
    ),
    "target": integers(-1, 3)
    | nothing
    | st.sampled_from(["LABEL_0", "LABEL_1", "keys"]).map(lambda name: Drawn(lambda: name, name)),
}
KINDS |= {
    "attention": st.sampled_from([Drawn(make, ATTENTION) for make in LAYOUTS]),
    "mask": st.sampled_from([Drawn(make, MASK) for make in MASKS]) | nothing,
    "lengths": st.sampled_from(
        [Drawn(lambda: iter([2]), [2]), Drawn(lambda: np.array([2], ">u2"), [2])]
    )
    | indices(),
    "texts": st.sampled_from(
        [
            Drawn(lambda: np.str_(TEXTS[0]), TEXTS[0]),
            Drawn(lambda: iter(TEXTS), TEXTS),
            Drawn(lambda: np.array(TEXTS), TEXTS),
            Drawn(lambda: np.array(TEXTS, object), TEXTS),
        ]
    ),
    "attribution": nonsense("attribution"),
}


def drawn(kind):
    """A value of that kind, or one time in three nonsense."""
    odd = nonsense(kind)
    return st.integers(0, 2).flatmap(lambda third: odd if third == 0 else KINDS[kind])


@st.composite
def calls(draw, parameters):
    """Some arguments of a function by their names."""
    names = draw(st.lists(st.sampled_from(sorted(parameters)), min_size=1, max_size=3, unique=True))
    return {name: draw(drawn(parameters[name])) for name in names}


def outcome(call, arguments):
    try:
        return call(**arguments)
    except AttnflowError as error:
        if "\n" in str(error):
            raise
        return None


def numbers(found):
    """What a result says, as arrays and texts."""
    if isinstance(found, attnflow.Attribution):
        return [found.scores, found.layers, found.queries, found.layer, found.query, found.tokens]
    if isinstance(found, attnflow.FlowTrace):
        return [found.value, found.edges, found.layer, found.query, found.key]
    if isinstance(found, dict):
        return [found["pairs"]]
    if isinstance(found, list | tuple):
        return [part for each in found for part in numbers(each)]
    return [found.detach().numpy() if torch.is_tensor(found) else found]


def agree(call, arguments):
    """Given and plain give the same; nonsense gives an error."""
    found = outcome(call, {name: each.make() for name, each in arguments.items()})
    if any(each.plain is NONSENSE for each in arguments.values()):
        assert found is None, f"accepted as {found!r}"
        return
    expected = outcome(call, {name: each.plain for name, each in arguments.items()})
    assert (found is None) == (expected is None)
    if found is not None:
        for one, other in zip(numbers(found), numbers(expected), strict=True):
            if np.asarray(other).dtype.kind == "f":  # torch's sums round differently
                np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)
            else:
                np.testing.assert_array_equal(one, other)


SHARED = {
    "attention": "attention",
    "residual": "share",
    "discard": "share",
    "heads": "heads",
    "edges": "name",
}
ON_ARRAYS = {
    "raw": SHARED,
    "rollout": SHARED | {"to_layer": "integer"},
    "flow": SHARED
    | dict.fromkeys(("layers", "queries", "keys"), "indices")
    | dict.fromkeys(("normalize", "statistics"), "flag")
    | {"to_layer": "integer", "threads": "size"},
    "trace": SHARED
    | dict.fromkeys(("key", "query", "layer", "to_layer", "head"), "integer")
    | {"method": "name"},
}


@pytest.mark.parametrize("name", ON_ARRAYS)
@examples(100)
@given(data=st.data())
def test_functions_of_arrays(name, data):
    usual = {"attention": ATTENTION} | ({"key": 1} if name == "trace" else {})
    function = getattr(attnflow, name)
    agree(lambda **options: function(**(usual | options)), data.draw(calls(ON_ARRAYS[name])))


@examples(100)
@given(arguments=calls({"mask": "mask", "lengths": "lengths"}))
def test_masks_and_lengths(arguments):
    batch = np.full((2, 1, 3, 3), 1 / 3)
    batch[:, :, :2, :2] = 0.5
    agree(lambda **options: attnflow.rollout(batch, **options), arguments)


TEXT = "the keys to the cabinet"
OF_TEXTS = {
    "explain": {
        "text": "texts",
        "method": "name",
        "edges": "name",
        "layer": "integer",
        "layers": "indices",
        "query": "token",
        "heads": "heads",
        "residual": "share",
        "discard": "share",
        "correction": "name",
        "normalize": "flag",
        "words": "flag",
        "truncate": "flag",
        "batch_size": "size",
        "threads": "size",
    },
    "routes": {
        "text": "texts",
        "to": "token",
        "method": "name",
        "layer": "integer",
        "query": "token",
        "heads": "heads",
        "residual": "share",
    },
    "blank_out": {
        "text": "texts",
        "target": "target",
        "contrast": "target",
        "replacement": "name",
        "signed": "flag",
        "batch_size": "size",
    },
    "gradients": {
        "text": "texts",
        "target": "target",
        "contrast": "target",
        "kind": "name",
        "steps": "size",
    },
}
USUAL = {"explain": {"method": "raw"}, "routes": {"to": 2}}


@pytest.mark.parametrize("name", OF_TEXTS)
@examples(40)
@given(data=st.data())
def test_functions_of_texts(name, data, classifier):
    usual = {"text": TEXT, "model": classifier} | USUAL.get(name, {})
    function = getattr(attnflow, name)
    agree(lambda **options: function(**(usual | options)), data.draw(calls(OF_TEXTS[name])))


@pytest.fixture(scope="module")
def found(encoder):
    return attnflow.explain(TEXT, encoder, method="rollout", layers="all")


METHODS = {
    "row": {"layer": "integer", "query": "token"},
    "at": {"layer": "integer", "query": "token"},
    "top": {"k": "size"},
    "position": {"token": "token"},
}


@pytest.mark.parametrize("name", METHODS)
@examples(60)
@given(data=st.data())
def test_methods_of_an_attribution(name, data, found):
    agree(getattr(found, name), data.draw(calls(METHODS[name])))


@examples(60)
@given(arguments=calls({"first": "attribution", "second": "attribution", "layer": "integer"}))
def test_agreement(arguments, found):
    usual = {"first": found, "second": found}
    agree(lambda **options: attnflow.agreement(**(usual | options)), arguments)
