"""Importance as a record: the scores of one input's tokens for a target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.methods.question import Target
from attnflow.records import Attribution, FloatArray

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter, Tokens


def make_attribution(  # noqa: PLR0913 - the parts of a record
    model: ModelAdapter,
    tokens: Tokens,
    target: Target,
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
        queries=(target.position,),
        layer=model.depth,
        query=target.position,
        method=method,
        options={
            **options,
            "target": target.label,
            **_named_contrast(model, target),
            **({} if tokens.pair is None else {"pair": list(tokens.pair)}),
        },
        model=model.name,
        text=tokens.text,
        prediction=target.prediction,
        statistics=statistics,
        word_ids=tokens.word_ids,
        word_texts=tokens.word_texts,
        segments=tokens.segments,
        grid=tokens.grid,
    )


def _named_contrast(model: ModelAdapter, target: Target) -> dict[str, str]:
    return {} if target.contrast is None else {"contrast": model.output_name(target.contrast)}
