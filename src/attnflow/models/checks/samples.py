"""Short samples of real inputs, for checks that run a network."""

from __future__ import annotations

from dataclasses import replace

from attnflow.models.adapter import Tokens
from attnflow.models.text.blanking import per_token


def shorten(tokens: Tokens, size: int) -> Tokens:
    """At most ``size`` tokens of the (source) text, from both of its ends.

    Both ends are kept, since that is where special tokens stand.
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
    """One token, which tells nothing of what attends to what, twice; other inputs as they are."""
    if len(tokens) > 1:
        return tokens
    names = per_token(tokens)
    inputs = {name: each * 2 if name in names else each for name, each in tokens.inputs.items()}
    return replace(
        tokens, names=tokens.names * 2, inputs=inputs, word_ids=None, segments=None, spans=None
    )
