"""The oracle of knockouts: an eager model, its scores masked where it calls softmax.

It knows nothing of torch-function modes. Which softmax is whose layer's is found by comparing what
each returns with the attention that the model itself declares (``output_attentions``); in a second
run these get scores of −∞, and rows that have nothing left give zeros.
"""

from contextlib import contextmanager
from unittest.mock import patch

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention

MASKED = -1e4  # small models have no scores as low, and mask by lower ones
PLACES = ((F, "softmax"), (torch, "softmax"), (torch.Tensor, "softmax"))


@contextmanager
def softmaxes(change):
    """Every outermost call of softmax goes through ``change(number, scores, softmax)``."""
    state = {"number": 0, "inside": False}

    def wrap(original):
        def softmax(scores, *args, **kwargs):
            if state["inside"]:
                return original(scores, *args, **kwargs)
            state["inside"] = True
            try:
                found = change(
                    state["number"], scores, lambda given: original(given, *args, **kwargs)
                )
            finally:
                state["inside"] = False
            state["number"] += 1
            return found

        return softmax

    patches = [patch.object(place, name, wrap(getattr(place, name))) for place, name in PLACES]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()


def declared(output):
    """The maps that a model returns, in the order in which it attends."""
    if getattr(output, "encoder_attentions", None) is None:
        return list(output.attentions)
    pairs = zip(output.decoder_attentions, output.cross_attentions, strict=True)
    return [*output.encoder_attentions, *(each for pair in pairs for each in pair)]


def find_layers(network, inputs):
    """For each declared map the number of its softmax, and which edges it has."""
    seen = []

    def note(number, scores, softmax):
        seen.append((softmax(scores), scores))
        return seen[-1][0]

    with torch.no_grad(), softmaxes(note):
        maps = declared(network(**inputs, output_attentions=True))
    numbers, has, at = [], [], 0
    for each in maps:
        while not _is(seen[at][0], each):
            at += 1
        columns = seen[at][1][..., : each.shape[-1]]
        numbers.append(at)
        has.append((columns > MASKED).reshape(each.shape)[0])
        at += 1
    return numbers, has


def _is(probabilities, attention):
    columns = probabilities[..., : attention.shape[-1]]
    if columns.numel() != attention.numel():
        return False
    columns = columns.reshape(attention.shape).to(attention)
    if attention.shape[1] > 1 and torch.equal(attention, attention[:, :1].expand_as(attention)):
        return torch.allclose(columns.mean(1), attention[:, 0], atol=1e-6)  # WavLM shows the mean
    return torch.equal(columns, attention)


def eager_without(network, inputs, removed):
    """The first output of one input without ``removed``: ``[head, query, key]`` of each map."""
    numbers, has = find_layers(network, inputs)
    by_number = {number: (removed[at], has[at]) for at, number in enumerate(numbers)}

    def change(number, scores, softmax):
        if number not in by_number:
            return softmax(scores)
        gone, there = (torch.as_tensor(each) for each in by_number[number])
        sinks = scores.shape[-1] - gone.shape[-1]
        lost = ~(there & ~gone).any(-1, keepdim=True) & gone.any(-1, keepdim=True)
        gone = F.pad(gone & ~lost, (0, sinks)).reshape(scores.shape)
        found = softmax(scores + torch.zeros_like(scores).masked_fill_(gone, -torch.inf))
        return found * ~lost.reshape(*scores.shape[:-1], 1)

    with torch.no_grad(), softmaxes(change):
        return network(**inputs)[0]
