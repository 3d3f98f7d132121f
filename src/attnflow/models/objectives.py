"""What gradients are taken of, by the names that users give."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Protocol

from torch import Tensor

from attnflow.errors import InputError, ModelError
from attnflow.models.adapter import Objective
from attnflow.models.outputs import objective_value
from attnflow.models.text.tokens import name_token, without_marks


class Named(Protocol):
    """A model whose outputs have names."""

    @property
    def name(self) -> str:
        """The model's name."""

    def output_index(self, target: str | int) -> int:
        """The number of an output."""

    def output_name(self, index: int) -> str:
        """The name of an output."""


def resolve_objective(
    model: Named, logits: Tensor | None, objective: Objective, *, multi_label: bool = False
) -> tuple[Tensor, Objective]:
    """The value of an objective, and its target and contrast by their names."""
    if logits is None or logits.numel() == 1:
        msg = f"{model.name} has no head that predicts here, so there is nothing to differentiate"
        raise ModelError(msg)
    target, contrast = objective.target, objective.contrast
    index = int(logits.argmax()) if target is None else model.output_index(target)
    other = None if contrast is None else model.output_index(contrast)
    if index == other:
        msg = (
            f"contrast={contrast!r} is the target itself, {model.output_name(index)!r}; name "
            "another contrast, or another target"
        )
        raise InputError(msg)
    value = objective_value(logits, index, other, multi_label=multi_label)
    names = [None if each is None else model.output_name(each) for each in (index, other)]
    return value, Objective(*names)


def label_index(config: Any, target: str | int, name: str) -> int:
    """The number of a label."""
    labels = {str(label): index for index, label in config.id2label.items()}
    number = _number(target, len(labels))
    if number is not None:
        return number
    if target not in labels:
        msg = f"target={target!r} is not a label of {name}; allowed: {', '.join(labels)}"
        raise InputError(msg)
    return int(labels[str(target)])


def token_index(
    tokenizer: Any, target: str | int, size: int, name: str, *, as_target: bool = False
) -> int:
    """The number of a word that is one token, or of a blank as it is displayed."""
    number = _number(target, size)
    if number is not None:
        return number
    for spelled in (f" {target}", target, without_marks(str(target))):
        text = {"text_target" if as_target else "text": spelled}
        ids = tokenizer(**text, add_special_tokens=False)["input_ids"]
        if len(ids) == 1 and ids[0] != tokenizer.unk_token_id:
            return int(ids[0])
    # Some tokens can't be written: parts of characters, say. They are found by their names.
    found = [token for token in range(size) if name_token(tokenizer, token) == target]
    if len(found) == 1:
        return found[0]
    msg = f"target={target!r} is not one token of {name}; choose a word that is"
    if found:
        numbers = ", ".join(map(str, found[:3])) + (" …" if len(found) > 3 else "")
        msg = f"target={target!r} is the name of several tokens of {name}; give a number: {numbers}"
    raise InputError(msg)


def _number(target: str | int, size: int) -> int | None:
    """A target that is given by its number, checked."""
    if not isinstance(target, Integral) or isinstance(target, bool):
        return None
    if not 0 <= target < size:
        msg = f"target={target} does not exist; allowed: 0 to {size - 1}"
        raise InputError(msg)
    return int(target)
