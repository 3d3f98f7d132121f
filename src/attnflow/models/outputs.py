"""From logits to probabilities and predictions: one softmax or sigmoid for all heads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnflow.errors import ModelError
from attnflow.records import Prediction

ALTERNATIVES = 5  # the most likely labels or tokens reported with a prediction


def is_multi_label(config: Any) -> bool:
    """Whether an input may have several labels."""
    return getattr(config, "problem_type", None) == "multi_label_classification"


def to_probabilities(logits: Tensor, *, several: bool, name: str) -> Tensor:
    """Probabilities along the last axis, of ``several`` labels each one; a regression has none."""
    if logits.shape[-1] == 1:
        msg = f"{name} is a regression: it outputs one number and no probabilities"
        raise ModelError(msg)
    return logits.sigmoid() if several else logits.softmax(-1)


def objective_value(
    logits: Tensor, target: int, contrast: int | None, *, multi_label: bool, centred: bool = False
) -> Tensor:
    """The log-probability of the target, or how much larger its logit is than the contrast's.

    Never the bare logit: what raises all logits alike would seem to matter. With ``centred`` it is
    the logit less the mean of all logits, which is linear in them; labels that don't exclude each
    other have nothing in common, and it is the label's own logit.
    """
    wide = logits.double()
    if contrast is not None:
        return wide[..., target] - wide[..., contrast]
    if centred:
        return wide[..., target] if multi_label else wide[..., target] - wide.mean(-1)
    if multi_label:
        return torch.nn.functional.logsigmoid(wide[..., target])
    return wide.log_softmax(-1)[..., target]


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
    if logits.numel() == 1 or getattr(config, "problem_type", None) == "regression":
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
