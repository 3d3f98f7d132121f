"""From logits to probabilities and predictions: one softmax or sigmoid for all heads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnflow.errors import ModelError
from attnflow.records import Prediction

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

    ``alone`` says that labels are independent of each other: their mean says nothing then, and the
    logit itself, the label's log-odds, is what the model decides by.
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
