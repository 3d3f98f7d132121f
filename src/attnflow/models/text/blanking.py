"""Blanking tokens out of a text: what replaces them, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from attnflow.errors import InputError
from attnflow.models.adapter import Filler, Tokens

USUAL = ("unk", "mask", "pad", "eos")  # UNK as in the paper; then what a tokenizer has instead


def find_filler(tokenizer: Any, name: str | None, model: str) -> Filler:
    """The filler of that name; by default the first usual one that the tokenizer has."""
    if name == "delete":
        return Filler("delete", "nothing")
    if name is None:
        found = (_token_filler(tokenizer, each) for each in USUAL)
        return next((filler for filler in found if filler), find_filler(tokenizer, "pad", model))
    filler = _token_filler(tokenizer, name)
    if filler is None and name == "pad":
        return Filler("pad", "padding", 0, hidden=True)  # no position attends to it, so any will do
    if filler is None:
        known = [each for each in ("unk", "mask") if _token_filler(tokenizer, each)]
        msg = (
            f"the tokenizer of {model} has no {name} token; choose one of: "
            f"{', '.join([*known, 'pad', 'delete'])}"
        )
        raise InputError(msg)
    return replace(filler, hidden=True) if name == "pad" else filler


def _token_filler(tokenizer: Any, name: str) -> Filler | None:
    number = getattr(tokenizer, f"{name}_token_id", None)
    return (
        None
        if number is None
        else Filler(name, str(getattr(tokenizer, f"{name}_token")), int(number))
    )


def blank_tokens(tokens: Tokens, positions: Sequence[int], filler: Filler) -> Tokens:
    """The tokens with a filler at these positions of the (source) text; or without them.

    Which positions are hidden is decided by the filler, never by a token's number: a filler may
    happen to be the padding token, too.
    """
    inputs = {
        name: list(values) if name in per_token(tokens) else values
        for name, values in tokens.inputs.items()
    }
    if filler.token is None:
        for name in per_token(tokens):
            for at in sorted(positions, reverse=True):
                del inputs[name][at]
        remaining = [at for at in range(len(tokens)) if at not in set(positions)]
        return tokens.select(remaining, inputs)
    for at in positions:
        inputs["input_ids"][at] = filler.token
        if filler.hidden:
            inputs["attention_mask"][at] = 0
    return replace(tokens, inputs=inputs)


def per_token(tokens: Tokens) -> list[str]:
    """The inputs that have one entry per token of the text."""
    size = len(tokens.inputs["input_ids"])
    return [
        name
        for name, values in tokens.inputs.items()
        if isinstance(values, list) and len(values) == size and not name.startswith("decoder_")
    ]


def first_positions(tokens: Tokens, size: int) -> Tokens:
    """The first tokens of a text."""
    names = per_token(tokens)
    inputs = {
        name: values[:size] if name in names else values for name, values in tokens.inputs.items()
    }
    return tokens.select(range(size), inputs)
