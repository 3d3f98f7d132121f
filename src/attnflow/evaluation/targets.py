"""Which probability an importance is about: a label's, or a token's at one position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnflow.errors import InputError, ModelError
from attnflow.io.inputs import each_target
from attnflow.models.adapter import ModelAdapter, Tokens
from attnflow.models.capture.run import quiet
from attnflow.models.heads import CAUSAL, CLASSIFIER, MASKED
from attnflow.models.text import TextModel
from attnflow.models.tokens import name_token
from attnflow.records import Attribution, FloatArray, Prediction

Target = str | int | None


@dataclass(frozen=True)
class Aim:
    """One number a model gives: the probability of ``index`` at ``position``.

    Attributes:
        index: Of the label, or of the token in the vocabulary.
        label: Its name.
        position: Where a language model says it; 0 for classifiers, whose label has no position.
        prediction: What the model says of the whole input.
    """

    index: int
    label: str
    position: int
    prediction: Prediction | None


def text_model(adapter: ModelAdapter) -> TextModel:
    """The adapter, where it is of a model whose words can be taken away."""
    if not isinstance(adapter, TextModel) or adapter.head not in (CLASSIFIER, MASKED, CAUSAL):
        msg = (
            f"{adapter.name} is no text classifier, masked or causal language model, so there is "
            "no probability to measure importance by"
        )
        raise ModelError(msg)
    return adapter


def take_aims(
    model: TextModel, inputs: Sequence[Tokens], targets: Target | Sequence[Target]
) -> list[Aim]:
    """Resolve what is asked: a label or token by name or number; ``None`` is the model's answer."""
    positions = [default_position(model, tokens) for tokens in inputs]
    wanted = each_target(targets, len(inputs))
    aims: dict[int, Aim] = {}
    for places in alike(inputs, 64):
        with torch.no_grad():
            rows = model.batch([inputs[i] for i in places])
            chances = probabilities(model, rows, [positions[i] for i in places])
        for place, row in zip(places, chances, strict=True):
            best, target = int(row.argmax()), wanted[place]
            index = best if target is None else resolve(model, target, len(row))
            said = Prediction(_name(model, best), float(row[best]))
            aims[place] = Aim(index, _name(model, index), positions[place], said)
    return [aims[place] for place in range(len(inputs))]


def alike(inputs: Sequence[Tokens], size: int) -> Iterator[list[int]]:
    """Places of inputs that run together: of similar length, so that little is padding."""
    order = sorted(range(len(inputs)), key=lambda place: len(inputs[place]))
    for start in range(0, len(order), size):
        yield order[start : start + size]


def default_position(model: TextModel, tokens: Tokens) -> int:
    """Where the model's head says something: the mask, the last token, or the start."""
    ids = tokens.inputs["input_ids"]
    if model.head is MASKED:
        masks = [i for i, token in enumerate(ids) if token == model.tokenizer.mask_token_id]
        if len(masks) != 1:
            msg = (
                f"{tokens.text!r} has {len(masks)} masks; a masked language model needs exactly "
                f"one {model.tokenizer.mask_token} to say something at"
            )
            raise InputError(msg)
        return masks[0]
    return len(ids) - 1 if model.head is CAUSAL else 0


def probabilities(model: TextModel, inputs: dict[str, Tensor], positions: Sequence[int]) -> Tensor:
    """For each row the probabilities of all labels, or of all tokens at its position."""
    with quiet(model.network):
        logits: Tensor = model.network(**model._call(inputs)).logits.double()
    if model.head is not CLASSIFIER:
        logits = logits[torch.arange(len(logits)), list(positions)]
    if logits.shape[-1] == 1:
        msg = f"{model.name} gives one number and no probabilities: a regression has no labels"
        raise ModelError(msg)
    several = getattr(model.network.config, "problem_type", None) == "multi_label_classification"
    return logits.sigmoid() if several else logits.softmax(-1)


def attribution(  # noqa: PLR0913 - the parts of a record
    model: TextModel,
    tokens: Tokens,
    aim: Aim,
    scores: FloatArray,
    method: str,
    options: dict[str, Any],
    statistics: dict[str, Any],
) -> Attribution:
    """Scores of the input tokens as a record; they belong to the model's last layer."""
    return Attribution(
        tokens=tokens.names,
        scores=np.asarray(scores)[None, None],
        layers=(model.depth,),
        queries=(aim.position,),
        layer=model.depth,
        query=aim.position,
        method=method,
        options={**options, "target": aim.label},
        model=model.name,
        text=tokens.text,
        prediction=aim.prediction,
        statistics=statistics,
        word_ids=tokens.word_ids,
        word_texts=tokens.word_texts,
    )


def resolve(model: TextModel, target: str | int, size: int) -> int:
    """The number of a label or a token, by its name or number."""
    if isinstance(target, Integral) and not isinstance(target, bool):
        if not 0 <= target < size:
            msg = f"target={target} does not exist; allowed: 0 to {size - 1}"
            raise InputError(msg)
        return int(target)
    if model.head is CLASSIFIER:
        labels = {str(name): index for index, name in model.network.config.id2label.items()}
        if target not in labels:
            msg = f"target={target!r} is no label of {model.name}; allowed: {', '.join(labels)}"
            raise InputError(msg)
        return int(labels[target])
    for spelled in (f" {target}", target):
        ids = model.tokenizer(spelled, add_special_tokens=False)["input_ids"]
        if len(ids) == 1 and ids[0] != model.tokenizer.unk_token_id:
            return int(ids[0])
    msg = f"target={target!r} is not one token of {model.name}; choose a word that is"
    raise InputError(msg)


def _name(model: TextModel, index: int) -> str:
    if model.head is CLASSIFIER:
        return str(model.network.config.id2label[index])
    return name_token(model.tokenizer, index)
