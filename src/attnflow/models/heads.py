"""What a model's head says, and which position it says it at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnflow.records import Prediction

SHOWN = 5  # alternatives kept with a prediction


@dataclass(frozen=True)
class HeadKind:
    """A kind of head.

    Attributes:
        name: The name shown to users.
        endings: How class names of such models end.
        auto: The class of transformers that loads such models.
    """

    name: str
    endings: tuple[str, ...]
    auto: str


CLASSIFIER = HeadKind(
    "classifier", ("ForSequenceClassification",), "AutoModelForSequenceClassification"
)
TAGGER = HeadKind(
    "token classifier", ("ForTokenClassification",), "AutoModelForTokenClassification"
)
MASKED = HeadKind(
    "masked language model", ("ForMaskedLM", "WithLMHeadModel"), "AutoModelForMaskedLM"
)
CAUSAL = HeadKind("causal language model", ("ForCausalLM", "LMHeadModel"), "AutoModelForCausalLM")
SEQ2SEQ = HeadKind(
    "encoder–decoder language model",
    ("ForConditionalGeneration", "MTModel"),
    "AutoModelForSeq2SeqLM",
)
IMAGES = HeadKind(
    "image classifier",
    ("ForImageClassification", "ForImageClassificationWithTeacher"),
    "AutoModelForImageClassification",
)
BARE = HeadKind("no head", (), "AutoModel")
TASKS = (CLASSIFIER, TAGGER, MASKED, CAUSAL, SEQ2SEQ, IMAGES)


def head_of(class_name: str) -> HeadKind:
    """The task of a model class, by its name; no head where the name says none."""
    return next((task for task in TASKS if class_name.endswith(task.endings)), BARE)


def predict(logits: Tensor, name: Callable[[int], str], position: int | None) -> Prediction:
    """The most likely entry of ``logits`` (one axis), and those after it."""
    probabilities = logits.detach().float().softmax(-1)
    return _ranked(probabilities, name, position)


def predict_label(logits: Tensor, config: Any) -> Prediction | None:
    """The label of a whole input. A regression says a number and no label: ``None``."""
    kind = getattr(config, "problem_type", None)
    if logits.numel() == 1 or kind == "regression":
        return None
    values = logits.detach().float()
    probabilities = values.sigmoid() if kind == "multi_label_classification" else values.softmax(-1)
    return _ranked(probabilities, lambda label: str(config.id2label[label]), None)


def _ranked(probabilities: Tensor, name: Callable[[int], str], position: int | None) -> Prediction:
    best = torch.topk(probabilities, min(SHOWN, probabilities.numel()))
    ranked = tuple((name(int(i)), float(p)) for p, i in zip(best.values, best.indices, strict=True))
    return Prediction(*ranked[0], alternatives=ranked, position=position)
