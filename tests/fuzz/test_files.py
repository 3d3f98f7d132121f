"""Whatever a file holds, it is read without loss or refused by a library error.

Sampled are saved attributions (merged and single heads, words, an image, several in a file; plain
and compressed) with bytes flipped, deleted, inserted, repeated or cut off, and with values of their
JSON replaced, removed or added at random places. Of what can be read, everything that attributions
offer must work, and it must be saved and loaded as it is.
"""

import copy
import gzip
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from effort import examples

from attnflow.errors import AttnflowError
from attnflow.records import Attribution, PatchGrid, Prediction


def attribution(heads=None, **changes):
    shape = (2, 3, 5) if heads is None else (2, heads, 3, 5)
    values = {
        "tokens": ("[CLS]", "un", "##known", "Katze", "[SEP]"),
        "scores": np.random.default_rng(0).random(shape),
        "layers": (1, 3),
        "queries": (0, 2, 3),
        "layer": 3,
        "query": 2,
        "method": "flow",
        "options": {"heads": "mean", "residual": 0.5, "query": None, "correction": "uniform"},
        "model": "a model",
        "text": "unknown Katze \u2028 \ud800",
        "prediction": Prediction("x", 0.75, (("x", 0.75), ("y", 0.25)), 3),
        "statistics": {"largest_gap": 1e-17, "model": {"class": "A", "causal": False}},
        "word_ids": (None, 0, 0, 1, None),
        "word_texts": ("unknown", "Katze"),
        "depth": 4,
    }
    return Attribution(**(values | changes))


IMAGE = attribution(
    segments=("cls", "patch", "patch", "patch", "patch"),
    grid=PatchGrid(2, 2, (10, 20), (0.0, 0.5, 20.0, 9.5)),
    word_ids=None,
    word_texts=(),
)
PLAIN = [attribution().to_dict(), attribution(heads=2).to_dict(), IMAGE.to_dict()]
SAVED = [json.dumps(plain).encode() for plain in PLAIN]
SAVED.append(b"\n".join(SAVED) + b"\n")
SAVED += [gzip.compress(content, mtime=0) for content in SAVED]

leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.sampled_from(
        [10**19, -(10**19), 10**400, 1e308, 5e-324, math.nan, math.inf, -math.inf, 0.5]
    ),
    st.text(max_size=3),
    st.sampled_from(["\ud800", "\udfff", "\0", "flow", "raw", "uniform", "patch", "all"]),
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@st.composite
def damaged(draw):
    """A saved file with some of its bytes changed."""
    content = bytearray(draw(st.sampled_from(SAVED)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(content)))
        size = draw(st.integers(1, 40))
        change = draw(st.sampled_from(["flip", "delete", "insert", "repeat", "cut"]))
        if change == "flip" and at < len(content):
            content[at] ^= draw(st.integers(1, 255))
        elif change == "delete":
            del content[at : at + size]
        elif change == "insert":
            content[at:at] = draw(st.binary(min_size=1, max_size=8))
        elif change == "repeat":
            content[at:at] = content[at : at + size] * draw(st.integers(1, 3))
        elif change == "cut":
            del content[at:]
    return bytes(content)


@st.composite
def places(draw, place):
    """A list or dict somewhere in there, its keys, and one of them."""
    while True:
        keys = sorted(place) if isinstance(place, dict) else list(range(len(place)))
        key = draw(st.sampled_from(keys)) if keys else None
        inner = place[key] if keys else None
        if not (isinstance(inner, dict | list) and inner) or draw(st.integers(0, 2)) == 0:
            return place, keys, key
        place = inner


@st.composite
def edited(draw):
    """A saved attribution with values of its JSON changed."""
    data = copy.deepcopy(draw(st.sampled_from(PLAIN)))
    for _ in range(draw(st.integers(1, 3))):
        place, keys, key = draw(places(data))
        change = draw(st.sampled_from(["replace", "replace", "remove", "swap", "add", "wrap"]))
        if change == "add" and isinstance(place, dict):
            place[draw(st.text(max_size=5))] = draw(values)
        elif change == "add":
            place.append(draw(values))
        elif not keys:
            continue
        elif change == "replace":
            place[key] = draw(values)
        elif change == "remove":
            del place[key]
        elif change == "swap":
            other = draw(st.sampled_from(keys))
            place[key], place[other] = place[other], place[key]
        elif change == "wrap":
            place[key] = [place[key]]
    return json.dumps(data).encode("utf-8", "surrogatepass")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


def read_and_used(content, folder):
    path = folder / "it.json"
    path.write_bytes(content)
    try:
        found = Attribution.load_all(path)
    except AttnflowError as error:
        message = str(error)
        if str(path) not in message or "\n" in message:
            raise
        return
    assert found
    for each in found:
        use(each, folder)


def use(found, folder):
    """Everything that is offered works, or says why not."""
    assert repr(found)
    assert len(found.top(3)) == min(3, len(found.tokens))
    for layer in found.layers:
        for query in found.queries:
            assert np.isfinite(found.row(layer, query)).all()
            assert found.at(layer, query).layer == layer
    for token in found.tokens:
        allowed(lambda token=token: found.position(token))
    for ask in (found.words, found.patches, found.over_image, found._repr_html_):
        allowed(ask)
    again = allowed(lambda: found.save(folder / "again.json", overwrite=True))
    if again is not None:
        loaded = Attribution.load(again)
        assert plain(loaded) == plain(found)
        assert np.array_equal(loaded.scores, found.scores)


def allowed(ask):
    try:
        return ask()
    except AttnflowError:
        return None


def plain(found):
    """All but the scores, with null for what JSON does not have."""
    data = found.to_dict()
    del data["scores"]
    text = json.dumps(data, sort_keys=True)
    return json.loads(text, parse_constant=lambda _: None)


@examples(400)
@given(content=damaged())
def test_bytes_that_were_changed(content, folder):
    read_and_used(content, folder)


@examples(500)
@given(content=edited())
def test_values_that_were_changed(content, folder):
    read_and_used(content, folder)


@examples(100)
@given(content=st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode()))
def test_files_of_anything(content, folder):
    read_and_used(content, folder)
    read_and_used(b"{" + content, folder)
    read_and_used(gzip.compress(content), folder)


@examples(100)
@given(data=values)
def test_dicts_of_anything(data):
    allowed(lambda: Attribution.from_dict(data))
    allowed(lambda: Attribution.from_dict({**PLAIN[0], "options": data, "statistics": data}))
