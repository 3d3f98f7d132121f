"""A BOS token in front of a text whose tokenizer adds none.

A causal decoder's first token collects attention, whatever it is: with BOS in front the sink has a
place of its own. That changes what the model reads, so that both predictions are told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnflow.errors import InputError

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter, Tokens
    from attnflow.records import Prediction


def put_bos(model: ModelAdapter, tokens: Tokens) -> Tokens:
    """The text with BOS in front, as a special token."""
    from attnflow.models.heads import CAUSAL
    from attnflow.models.sizes import limit
    from attnflow.models.text.model import TextModel  # torch takes its time
    from attnflow.models.text.tokens import name_token

    if not isinstance(model, TextModel) or model.head is not CAUSAL:
        msg = f"bos=True is for causal language models, and {model.name} is not one; leave it out"
        raise InputError(msg)
    if tokens.grid is not None:
        msg = "bos=True is for texts alone, and this input has an image; leave it out"
        raise InputError(msg)
    bos = model.tokenizer.bos_token_id
    if bos is None:
        msg = f"bos=True: the tokenizer of {model.name} has no BOS token; leave it out"
        raise InputError(msg)
    ids = tokens.inputs["input_ids"]
    if ids[0] == bos:
        msg = f"bos=True: the tokenizer of {model.name} puts BOS in front already; leave it out"
        raise InputError(msg)
    most = limit(model.network, model.tokenizer)
    if most and len(ids) + 1 > most:
        msg = (
            f"the text has {len(ids)} tokens and this model takes at most {most}: there is no "
            "room for BOS. Shorten the text, or leave bos out"
        )
        raise InputError(msg)
    first = {"input_ids": int(bos), "attention_mask": 1}
    inputs = {name: [first.get(name, values[0]), *values] for name, values in tokens.inputs.items()}
    return tokens.after(name_token(model.tokenizer, bos), inputs)


def drop_bos(tokens: Tokens) -> Tokens:
    """The text as it was before."""
    inputs = {name: values[1:] for name, values in tokens.inputs.items()}
    return tokens.select(range(1, len(tokens)), inputs)


def both_answers(with_bos: float, without: float) -> str:
    """What a reader must know: how likely the answer is with BOS, and without it."""
    return (
        f"BOS was put in front: the answer's log-probability is {with_bos:.3f}; without BOS it is "
        f"{without:.3f}"
    )


def both_predictions(with_bos: Prediction | None, without: Prediction | None) -> str:
    """What a reader must know: what the model predicts with BOS, and without it."""
    said = [
        "nothing" if each is None else f"{each.label!r} ({each.probability:.3f})"
        for each in (with_bos, without)
    ]
    return f"BOS was put in front: the model predicts {said[0]}; without BOS it predicts {said[1]}"
