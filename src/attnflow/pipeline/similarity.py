"""The cosine of two texts, split over pairs of their tokens.

With x_i and y_j the last states of the two texts, w and v what they are pooled by and T the scores
of every position, rows summing to 1, what tokens a and b contribute is

    C_ab = Σ_ij T_ia · (w_i x_i · v_j y_j / ‖Σ w x‖ ‖Σ v y‖) · T'_jb ,

whose sum over all pairs is the cosine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.errors import AttnflowError, ModelError
from attnflow.models.text.pooling import check_embedder, embed, find_pooling, pooling_weights
from attnflow.pipeline.prepare import open_sessions, prepare
from attnflow.pipeline.request import AUTO, Request
from attnflow.records import Attribution, FloatArray
from attnflow.records.similarity import EmbeddedText, Similarity

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter, Tokens
    from attnflow.models.text.model import TextModel

Traced = tuple[Attribution, "Tokens"]  # where every position of a text came from
PREFERRED = "alti"  # edges that find the word that decided most often in encoders
ROUNDING = 1e-9


def compare_texts(
    firsts: Sequence[Any],
    seconds: Sequence[Any],
    adapter: ModelAdapter,
    config: Request,
    pooling: str,
) -> list[Similarity]:
    """The similarity of each first text with its second."""
    model = check_embedder(adapter)
    chosen = find_pooling(model, pooling)
    texts = [*firsts, *seconds]
    traced, notes = _trace(texts, model, config)
    count, found = len(firsts), []
    for (one, left), (other, right) in zip(traced[:count], traced[count:], strict=True):
        states, cosine = split_cosine(embed(model, left), embed(model, right), chosen)
        scores = one.scores[0].T @ states @ other.scores[0]
        options = {**one.options, "pooling": chosen}
        warnings = (*one.warnings, *other.warnings, *notes)
        found.append(
            Similarity(
                _text_of(one),
                _text_of(other),
                scores,
                states,
                cosine,
                chosen,
                one.method,
                options,
                model.name,
                tuple(dict.fromkeys(warnings)),
            )
        )
    return found


def split_cosine(one: FloatArray, other: FloatArray, pooling: str) -> tuple[FloatArray, float]:
    """The cosine over pairs of positions, ``[first, second]``, and the cosine itself."""
    sides = [pooling_weights(pooling, len(states))[:, None] * states for states in (one, other)]
    lengths = [float(np.linalg.norm(side.sum(0))) for side in sides]
    if not all(lengths):
        msg = "the embedding of a text is zero: there is no cosine"
        raise ModelError(msg)
    states = sides[0] @ sides[1].T / (lengths[0] * lengths[1])
    cosine = float(sides[0].sum(0) @ sides[1].sum(0) / (lengths[0] * lengths[1]))
    return states, cosine


def _trace(
    texts: Sequence[Any], model: TextModel, config: Request
) -> tuple[list[Traced], tuple[str, ...]]:
    """Where every position of every text came from; by attention where nothing else was named."""
    if config.edges != AUTO:
        return _attributions(texts, model, config), ()
    try:
        return _attributions(texts, model, replace(config, edges=PREFERRED)), ()
    except AttnflowError as error:
        found = _attributions(texts, model, replace(config, edges="attention"))
        return found, (f"attention edges are used: {error}",)


def _attributions(texts: Sequence[Any], model: TextModel, config: Request) -> list[Traced]:
    found: dict[int, Traced] = {}
    for place, session in open_sessions(prepare(config, model, texts)):
        traced = session.attribution()
        found[place] = traced, session.tokens
        if not np.allclose(traced.scores[0].sum(-1), 1.0, rtol=0, atol=ROUNDING):
            msg = (
                f"method={config.method!r} finds nothing for some positions of "
                f"{traced.text!r}, so that the contributions would not sum to the cosine; "
                "use method='rollout'"
            )
            raise ModelError(msg)
    return [found[place] for place in range(len(texts))]


def _text_of(traced: Attribution) -> EmbeddedText:
    return EmbeddedText(traced.text, traced.tokens, traced.word_ids, traced.word_texts)
