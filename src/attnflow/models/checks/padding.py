"""Whether a batch changes results, tried on short samples; `once` remembers what was tried.

Whether padding changes a result depends on the model: a decoder's classifier looks for the last
token that is not padding by its number, some heads read the last position, and convolutions read
the neighbours of a token. So a short batch is run, and compared.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from attnflow.errors import AttnflowError
from attnflow.models.adapter import Tokens
from attnflow.models.text.edits import per_token

Found = TypeVar("Found")
_known: WeakKeyDictionary[Any, dict[Hashable, Any]] = WeakKeyDictionary()
_lock = threading.Lock()


def once(network: Any, key: Hashable, find: Callable[[], Found]) -> Found:
    """What ``find`` returns, called once for a network and a key.

    Two threads that ask at the same time may both find out: they find the same.
    """
    with _lock:
        known = _known.setdefault(network, {})
    if key not in known:
        known[key] = find()
    found: Found = known[key]
    return found


def shorten(tokens: Tokens, size: int) -> Tokens:
    """At most ``size`` tokens of the (source) text, from both of its ends.

    Both ends are kept, since that is where special tokens are.
    """
    length = len(tokens.inputs["input_ids"])
    if length <= size:
        return tokens
    first = (size + 1) // 2
    kept = [*range(first), *range(length - (size - first), length)]
    names = per_token(tokens)
    inputs = {
        name: [values[at] for at in kept] if name in names else values
        for name, values in tokens.inputs.items()
    }
    after = range(length, len(tokens))  # the target of an encoder–decoder
    return replace(tokens.select([*kept, *after], inputs), word_ids=None)


def lengthen(tokens: Tokens) -> Tokens:
    """An input of one token, which shows nothing about attention, twice; others unchanged."""
    if len(tokens) > 1:
        return tokens
    names = per_token(tokens)
    inputs = {name: each * 2 if name in names else each for name, each in tokens.inputs.items()}
    return replace(
        tokens, names=tokens.names * 2, inputs=inputs, word_ids=None, segments=None, spans=None
    )


Outcomes = Callable[[Sequence[Tokens]], list[list[Tensor]]]  # per input, what is compared
SAMPLE = 10  # tokens of the longer input that is tried
CLOSE = 2e-5  # in float32, of the largest number


def batchable(
    network: Any, inputs: Sequence[Tokens], outcomes: Outcomes, padding: Hashable
) -> bool:
    """Whether batching these inputs leaves their results unchanged.

    Tried once for a network and its padding tokens, with and without padding, on short samples.
    """
    if len(inputs) < 2:
        return True
    by_length = lambda each: len(each.names)  # noqa: E731
    longest = max(inputs, key=by_length)
    sizes = {tuple(len(values) for values in _lists(tokens)) for tokens in inputs}
    sample = [
        shorten(longest, SAMPLE),
        shorten(longest, SAMPLE if len(sizes) == 1 else SAMPLE // 2),
    ]
    if len(sizes) > 1 and len(sample[0]) == len(sample[1]):
        sample = [longest, min(inputs, key=by_length)]  # too short to be cut
    return once(
        network, ("together", len(sizes) > 1, padding), lambda: same_together(outcomes, sample)
    )


def _lists(tokens: Tokens) -> list[list[int]]:
    return [values for values in tokens.inputs.values() if isinstance(values, list)]


def same_together(outcomes: Outcomes, sample: Sequence[Tokens]) -> bool:
    """Whether a batch gives the results of its inputs; one that can't be run does not."""
    try:
        together = outcomes(sample)
        alone = [outcomes([tokens])[0] for tokens in sample]
    except (AttnflowError, ValueError, RuntimeError):  # a single input raises it again
        return False
    return all(
        len(one) == len(other) and all(map(is_close, one, other))
        for one, other in zip(together, alone, strict=True)
    )


def is_close(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are equal up to rounding."""
    if one.shape != other.shape:
        return False
    rounding = 4 * torch.finfo(one.dtype).eps if one.is_floating_point() else 0.0
    one, other = one.detach().double(), other.detach().double()
    scale = max(1.0, float(other.abs().max()) if other.numel() else 1.0)
    return bool(((one - other).abs() <= max(CLOSE, rounding) * scale).all())
