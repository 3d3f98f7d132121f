"""A text with some of its tokens blanked out or deleted, or with BOS in front."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from attnflow.errors import InputError
from attnflow.models.adapter import Filler, Tokens

if TYPE_CHECKING:
    from attnflow.models.adapter import ForwardPass, ModelAdapter, Tokens
    from attnflow.models.answers.interface import Answers


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


class Beginning(Protocol):
    """What is said about how texts begin."""

    @property
    def bos(self) -> bool:
        """Whether BOS is put in front."""


def begin(model: ModelAdapter, tokens: Tokens, options: Beginning) -> Tokens:
    """The text with BOS in front, as a special token, where that was asked for.

    A causal decoder's first token collects attention, whatever it is: with BOS in front the sink
    has a position of its own. That changes what the model reads, so both predictions are reported.
    """
    if not options.bos:
        return tokens
    from attnflow.models.kinds import CAUSAL
    from attnflow.models.sizes import limit
    from attnflow.models.text.model import TextModel  # torch takes its time
    from attnflow.models.text.tokens import name_token

    if not isinstance(model, TextModel) or model.head is not CAUSAL:
        msg = f"bos=True is for causal language models, and {model.name} is not one; leave it out"
        raise InputError(msg)
    if tokens.grid is not None:
        msg = "bos=True is for texts, and this input has an image; leave it out"
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
            "space left for BOS. Shorten the text, or leave bos out"
        )
        raise InputError(msg)
    first = {"input_ids": int(bos), "attention_mask": 1}
    inputs = {name: [first.get(name, values[0]), *values] for name, values in tokens.inputs.items()}
    return tokens.after(name_token(model.tokenizer, bos), inputs)


def _without_start(tokens: Tokens) -> Tokens:
    inputs = {name: values[1:] for name, values in tokens.inputs.items()}
    return tokens.select(range(1, len(tokens)), inputs)


def answer_notices(answers: Answers, whole: Tokens, options: Beginning) -> tuple[str, ...]:
    """How likely an answer is with BOS and without it, where BOS was put in front."""
    if not options.bos:
        return ()
    both = (
        answers.log_probabilities([whole])[0],
        answers.log_probabilities([_without_start(whole)])[0],
    )
    given, without = (float(each.sum()) for each in both)
    return (
        f"BOS was put in front: the answer's log-probability is {given:.3f}; without BOS it is "
        f"{without:.3f}",
    )


def prediction_notices(
    model: ModelAdapter, forward: ForwardPass, options: Beginning
) -> tuple[str, ...]:
    """What the model predicts with BOS and without it, where BOS was put in front."""
    if not options.bos:
        return ()
    without = None  # at BOS itself: there is nothing before the first token without it
    if forward.query:
        (without,) = model.predict([_without_start(forward.tokens)], [forward.query - 1])
    first, second = (
        "nothing" if each is None else f"{each.label!r} ({each.probability:.3f})"
        for each in (forward.prediction, without)
    )
    return (f"BOS was put in front: the model predicts {first}; without BOS it predicts {second}",)
