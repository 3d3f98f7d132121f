"""What a model's outputs mean: probabilities, predictions, and targets by the names users give.

A target is a name first: digits written as text are the label or token of that name where the model
has it, and otherwise its number. So they mean the same in a file of any format, in Python, on the
command line and to the server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attnflow.errors import InputError, ModelError, did_you_mean, shown
from attnflow.models.adapter import Aim, Objective
from attnflow.models.checks.padding import once
from attnflow.models.text.tokens import name_token, without_marks
from attnflow.records import Prediction

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter


ALTERNATIVES = 5  # the most likely labels or tokens reported with a prediction
HALF = 0.5  # from this probability on an input has a label that is independent of the others


def has_label(probability: float) -> bool:
    """Whether an input has a label that is independent of the others."""
    return probability >= HALF


def is_multi_label(config: Any) -> bool:
    """Whether an input may have several labels: each has a probability of its own, by a sigmoid."""
    return getattr(config, "problem_type", None) == "multi_label_classification"


def is_regression(config: Any, size: int) -> bool:
    """Whether ``size`` outputs for a whole input are numbers, and no labels with probabilities."""
    one = size == 1 and not is_multi_label(config)
    return one or getattr(config, "problem_type", None) == "regression"


def to_probabilities(logits: Tensor, labels_of: Any, name: str) -> Tensor:
    """Probabilities along the last axis; an error for a regression, which has none.

    ``labels_of`` is the model's configuration where logits are those of labels of the input.
    """
    if labels_of is not None and is_regression(labels_of, logits.shape[-1]):
        raise no_labels(name)
    return logits.sigmoid() if is_multi_label(labels_of) else logits.softmax(-1)


def no_labels(name: str) -> ModelError:
    """The error of models whose outputs are numbers."""
    return ModelError(f"{name} is a regression: it outputs numbers and no probabilities")


def objective_value(
    logits: Tensor, target: int, contrast: int | None, *, multi_label: bool, centred: bool = False
) -> Tensor:
    """The log-probability of the target, or how much larger its logit is than the contrast's.

    Never the bare logit: what raises all logits alike would seem to matter. With ``centred`` it is
    the logit less the mean of all logits, which is linear in them. Labels that are independent of
    each other have nothing in common: the target's probability depends on its own logit alone.
    """
    wide = logits.double()
    if centred or contrast is not None:
        return balanced_logit(wide, target, contrast, alone=multi_label)
    if multi_label:
        return torch.nn.functional.logsigmoid(wide[..., target])
    return wide.log_softmax(-1)[..., target]


def balanced_logit(logits: Tensor, target: int, contrast: int | None, *, alone: bool) -> Tensor:
    """A target's logit less the contrast's, or less the mean of all logits, along the last axis.

    ``alone`` means that labels are independent of each other: their mean has no meaning then, and
    the logit itself, the label's log-odds, is what the model decides by.
    """
    if contrast is not None:
        return logits[..., target] - logits[..., contrast]
    return logits[..., target] - (0.0 if alone else logits.mean(-1))


def no_probability(name: str) -> ModelError:
    """The error of models whose predictions importance can't be measured by."""
    return ModelError(
        f"{name} is not a classifier of texts or tokens, a masked or a causal language model, so "
        "there is no probability to measure importance by; methods that read edges, such as "
        "rollout, need none"
    )


def predict(logits: Tensor, name: Callable[[int], str], position: int | None) -> Prediction:
    """The most likely entry of ``logits`` (one axis), and those after it."""
    return rank_outputs(logits.detach().float().softmax(-1), name, position)


def predict_label(logits: Tensor, config: Any) -> Prediction | None:
    """The label of a whole input. ``None`` for a regression, which outputs a number."""
    if is_regression(config, logits.numel()):
        return None
    values = logits.detach().float()
    probabilities = values.sigmoid() if is_multi_label(config) else values.softmax(-1)
    return rank_outputs(probabilities, lambda label: str(config.id2label[label]), None)


def rank_outputs(
    probabilities: Tensor, name: Callable[[int], str], position: int | None
) -> Prediction:
    """The most likely entry of ``probabilities`` (one axis), and those after it."""
    best = torch.topk(probabilities, min(ALTERNATIVES, probabilities.numel()))
    ranked = tuple((name(int(i)), float(p)) for p, i in zip(best.values, best.indices, strict=True))
    return Prediction(*ranked[0], alternatives=ranked, position=position)


def output_index(model: ModelAdapter, target: str | int, values: Tensor) -> int:
    """The number of a label or token, by its name or number.

    Several outputs may be displayed alike (“ Paris” and “Paris”): their name is that of the
    likeliest by ``values``, the logits or probabilities of all outputs at the place in question.
    """
    found = model.output_indices(target)
    return found[0] if len(found) == 1 else found[int(values[list(found)].argmax())]


def find_outputs(
    model: ModelAdapter, objective: Objective, values: Tensor
) -> tuple[int, int | None]:
    """The numbers of an objective's target and contrast, by ``values`` as for `output_index`.

    Where no target is named, it is the prediction.
    """
    target, contrast = objective.target, objective.contrast
    index = int(values.argmax()) if target is None else output_index(model, target, values)
    other = None if contrast is None else output_index(model, contrast, values)
    if index == other:
        msg = (
            f"contrast={shown(contrast)} is the target itself, {model.output_name(index)!r}; name "
            "another contrast, or another target"
        )
        raise InputError(msg)
    return index, other


def make_aim(
    model: ModelAdapter,
    read: Callable[[Any], Tensor | None],
    output: Any,
    objective: Objective,
    labels_of: Any = None,
    *,
    centred: bool = False,
) -> Aim:
    """An objective as a function of a network's output, of which ``read`` gives the logits.

    Which target is meant is resolved on ``output``. ``labels_of`` is the model's configuration
    where logits are those of labels of the input. See `objective_value` for the rest.
    """
    several = is_multi_label(labels_of)
    logits = read(output)
    if logits is None:
        msg = (
            f"{model.name} has no head that predicts here, so there is nothing to differentiate; "
            "use edges='attention', without a target"
        )
        raise ModelError(msg)
    if labels_of is not None and is_regression(labels_of, logits.numel()):
        msg = (
            f"{model.name} predicts a number, and a target is a label or a token; use "
            "edges='attention', without a target"
        )
        raise ModelError(msg)
    index, other = find_outputs(model, objective, logits)

    def value(output: Any) -> Tensor:
        found = read(output)
        assert found is not None  # as it was above
        return objective_value(found, index, other, multi_label=several, centred=centred)

    names = [None if each is None else model.output_name(each) for each in (index, other)]
    return Aim(value, Objective(*names))


def label_indices(config: Any, target: str | int, name: str) -> tuple[int, ...]:
    """The numbers of the labels of a name; usually one."""
    labels = {int(index): str(label) for index, label in config.id2label.items()}
    number = _number(target, len(labels))
    if number is not None:
        _refuse_ambiguous(labels, number)
        return (number,)
    meant = target if target in labels.values() else str(target).strip()
    found = tuple(index for index, label in labels.items() if label == meant)
    if not found and is_number(target) and int(target) in labels:
        found = (int(target),)
    if not found:
        allowed = ", ".join(dict.fromkeys(labels.values()))
        msg = (
            f"target={target!r} is not a label of {name}; {did_you_mean(meant, labels.values())}"
            f"allowed: {allowed}, or a label's number, 0 to {len(labels) - 1}"
        )
        raise InputError(msg)
    return found


def is_number(target: str | int) -> bool:
    """Whether a text is written in digits, or something is a number anyway."""
    text = str(target).strip()
    return text.isascii() and text.isdigit()


def _refuse_ambiguous(labels: dict[int, str], number: int) -> None:
    """Refuse a number that is the name of another label: either might be meant."""
    if labels.get(number) != str(number) and str(number) in labels.values():
        named = next(index for index, label in labels.items() if label == str(number))
        msg = (
            f"target={number} may be the label named {str(number)!r}, which is number {named}, or "
            f"label number {number}, which is named {labels[number]!r}; give the name as text"
        )
        raise InputError(msg)


def token_indices(
    tokenizer: Any, target: str | int, size: int, name: str, *, as_target: bool = False
) -> tuple[int, ...]:
    """The numbers of all tokens that a name is displayed for, a word's start first.

    A text with a blank before or after it is exactly that token.
    """
    number = _number(target, size)
    if number is not None:
        return (number,)
    text = str(target)
    if text != text.strip():
        exact = _written(tokenizer, [text], as_target=as_target) or _piece(tokenizer, text)
        if exact is None:
            msg = (
                f"target={target!r} is not a single token of {name}, with its blanks; give a number"
            )
            raise InputError(msg)
        return (exact,)
    spellings = [f" {text}", text, without_marks(text)]
    written = _written(tokenizer, spellings, as_target=as_target)
    names = _names(tokenizer, size)
    # A name may be written differently from how it is displayed (with capitals, say).
    found = names.get(text) or ([] if written is None else names[name_token(tokenizer, written)])
    if not found and is_number(target) and int(text) < size:
        return (int(text),)
    if not found:
        msg = f"target={target!r} is not a single token of {name}; choose a word that is one"
        raise InputError(msg)
    return tuple(sorted(found, key=lambda token: token != written))


def _written(tokenizer: Any, spellings: Sequence[str], *, as_target: bool) -> int | None:
    """The first of these texts that is one token."""
    for spelled in spellings:
        text = {"text_target" if as_target else "text": spelled}
        ids = tokenizer(**text, add_special_tokens=False)["input_ids"]
        if len(ids) == 1 and ids[0] != tokenizer.unk_token_id:
            return int(ids[0])
    return None


def _piece(tokenizer: Any, text: str) -> int | None:
    """A token whose blank the tokenizer writes as a mark, and adds before every text itself."""
    vocabulary = tokenizer.get_vocab()
    found = (vocabulary.get(text.replace(" ", mark)) for mark in "▁Ġ")
    return next((int(token) for token in found if token is not None), None)


def _names(tokenizer: Any, size: int) -> dict[str, list[int]]:
    """All tokens by how they are displayed; computed once, since vocabularies are large."""

    def find() -> dict[str, list[int]]:
        names: dict[str, list[int]] = {}
        for token in range(size):
            names.setdefault(name_token(tokenizer, token), []).append(token)
        return names

    return once(tokenizer, ("names", size, len(tokenizer)), find)


def _number(target: str | int, size: int) -> int | None:
    """A target that is given by its number, checked."""
    if not isinstance(target, Integral) or isinstance(target, bool):
        return None
    if not 0 <= target < size:
        msg = f"target={target} does not exist; allowed: 0 to {size - 1}"
        raise InputError(msg)
    return int(target)
