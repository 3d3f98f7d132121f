"""Erasing tokens: what the model says is that of a run of its own, and no run is made twice."""

import pytest
import torch

import attnflow
import tiny
from attnflow.errors import InputError
from attnflow.methods.erasing import (
    DELETE,
    MEAN,
    Eraser,
    erase,
    read_probabilities,
    read_target,
    removable,
)
from attnflow.methods.question import resolve_targets

SETS = [(), (1,), (2, 3), (1, 2, 3), (1,)]


@pytest.fixture(scope="module", params=["classifier", "decoder"])
def input_of(request):
    model = attnflow.load_model(request.getfixturevalue(request.param))
    return model, model.tokenize(tiny.TEXT)


@pytest.mark.parametrize("replacement", ["usual", "delete", "mean"])
def test_each_set_gives_what_it_gives_alone(input_of, replacement):
    model, tokens = input_of
    filler = {"usual": model.filler(), "delete": DELETE, "mean": MEAN}[replacement]
    (target,) = resolve_targets(model, [tokens], None)
    read = read_target(model, tokens, target)
    together = Eraser(model, tokens, filler, read).without(SETS)
    alone = [Eraser(model, tokens, filler, read).without([each])[0] for each in SETS]
    assert together == pytest.approx(alone, abs=1e-6)
    assert together[1] == together[4]
    assert len({round(each, 9) for each in together}) == 4  # each set changes something
    with torch.no_grad():
        whole = model.probabilities([tokens], [target.position])[0, target.index]
    assert together[0] == pytest.approx(float(whole), abs=1e-6)


def test_nothing_is_run_twice(input_of):
    model, tokens = input_of
    runs = []

    def read(places, erased, _):
        runs.extend(erased)
        return places

    eraser = Eraser(model, tokens, model.filler(), read)
    eraser.without(SETS)
    assert len(runs) == 4
    eraser.without([(3, 2), (1,), (4,)])
    assert len(runs) == 5


def test_work_ends_between_batches(input_of):
    model, tokens = input_of
    shares = []

    def advance(share):
        shares.append(share)
        if len(shares) == 2:
            raise KeyboardInterrupt

    sets = [(tokens, [at]) for at in range(1, 5)]
    read = read_probabilities(model, 0)
    with pytest.raises(KeyboardInterrupt):
        erase(model, sets, model.filler(), read, batch_size=1, advance=advance)
    assert shares == [0.25, 0.5]


def test_a_text_of_which_nothing_is_left_is_refused(input_of):
    model, tokens = input_of
    everything = [(tokens, range(len(tokens)))]
    with pytest.raises(InputError, match="without it there is no input"):
        erase(model, everything, DELETE, read_probabilities(model, 0))


def test_what_is_predicted_stays_in_place(masked):
    model = attnflow.load_model(masked)
    tokens = model.tokenize("the [MASK] is here")
    at = tokens.names.index("[MASK]")
    assert removable(model, tokens, [1, at]) == [1]
