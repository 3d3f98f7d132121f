"""The cosine of two texts, split over pairs of their tokens.

With x_i and y_j the last states of the two texts, w and v what they are pooled by and T the scores
of every position, rows summing to 1, what tokens a and b contribute is

    C_ab = Σ_ij T_ia · (w_i x_i · v_j y_j / ‖Σ w x‖ ‖Σ v y‖) · T'_jb ,

whose sum over all pairs is the cosine.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from attnflow.errors import AttnflowError, InputError, ModelError, unknown
from attnflow.models.capture import run as network
from attnflow.models.kinds import BARE
from attnflow.models.text.model import TextModel
from attnflow.pipeline.prepare import open_sessions, prepare
from attnflow.pipeline.request import AUTO, Request
from attnflow.records import Attribution, FloatArray
from attnflow.records.arrays import to_numpy
from attnflow.records.similarity import EmbeddedText, Similarity

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter, Tokens

Traced = tuple[Attribution, "Tokens"]  # where every position of a text came from
PREFERRED = "alti"  # edges that find the word that decided most often in encoders
ROUNDING = 1e-9
POOLINGS = ("mean", "first", "last")
# What sentence-transformers calls them; the length's root changes no cosine.
NAMES = {
    "mean_tokens": "mean",
    "mean_sqrt_len_tokens": "mean",
    "cls_token": "first",
    "lasttoken": "last",
    "mean": "mean",
    "cls": "first",
    "last": "last",
}
HARMLESS = ("Transformer", "Pooling", "Normalize")  # modules that leave the cosine a plain sum


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


def check_embedder(adapter: ModelAdapter) -> TextModel:
    """The model, if its last states are what it has to say of a text."""
    if type(adapter) is not TextModel or adapter.head is not BARE:
        head = adapter.description.get("head", "another kind of model")
        msg = (
            f"{adapter.name} has no embeddings of texts to compare ({head}): give a model of texts "
            "without a head, such as sentence-transformers/all-MiniLM-L6-v2"
        )
        raise ModelError(msg)
    return adapter


def find_pooling(model: TextModel, requested: str) -> str:
    """How states are pooled: as requested, or as the model's own files state; else the mean."""
    if not isinstance(requested, str) or requested not in ("auto", *POOLINGS):
        raise InputError(unknown("pooling", requested, ("auto", *POOLINGS)))
    modules = _read(model, "modules.json") or []
    kinds = {str(each.get("type", "")).rpartition(".")[2]: each.get("path", "") for each in modules}
    other = next((kind for kind in kinds if kind not in HARMLESS), None)
    if requested != "auto":
        return requested
    if other is not None:
        msg = (
            f"{model.name} puts its pooled states through {other}, so that the cosine is not a sum "
            "over tokens; name a pooling to compare what it pools: pooling='mean'"
        )
        raise ModelError(msg)
    stated = _read(model, f"{kinds['Pooling']}/config.json") if "Pooling" in kinds else None
    return _named(model, stated) if stated else "mean"


def _named(model: TextModel, stated: dict[str, Any]) -> str:
    prefix = "pooling_mode_"
    modes = [
        name.removeprefix(prefix) for name, on in stated.items() if name.startswith(prefix) and on
    ]
    if isinstance(stated.get("pooling_mode"), str):
        modes = [stated["pooling_mode"]]
    if len(modes) != 1 or modes[0] not in NAMES:
        msg = (
            f"{model.name} pools its states by {' and '.join(modes) or 'nothing'}, which is not a "
            f"sum over tokens; allowed: {', '.join(POOLINGS)}"
        )
        raise ModelError(msg)
    return NAMES[modes[0]]


def _read(model: TextModel, name: str) -> Any:
    """A file that sentence-transformers stores next to a model; ``None`` if it is missing."""
    where = getattr(model.network.config, "_name_or_path", "")
    if not where:
        return None
    if (Path(where) / "config.json").exists():
        path = Path(where) / name
        return json.loads(path.read_bytes()) if path.exists() else None
    from transformers.utils.hub import cached_file

    with suppress(OSError, ValueError):
        found = cached_file(where, name, _raise_exceptions_for_missing_entries=False)
        return None if found is None else json.loads(Path(found).read_bytes())
    return None


def embed(model: TextModel, tokens: Tokens) -> FloatArray:
    """The last states of one text, ``[position, dimension]``, in float64."""
    with torch.no_grad():
        output = network.called(network.in_eval_mode(model.network), model.inputs([tokens]))
    states = getattr(output, "last_hidden_state", None)
    if states is None or tuple(states.shape[:2]) != (1, len(tokens)):
        msg = f"{type(model.network).__name__} has no last state for every token"
        raise ModelError(msg)
    found: FloatArray = to_numpy(states[0].double())
    return found


def pooling_weights(pooling: str, size: int) -> FloatArray:
    """What each position's state is multiplied by in the embedding."""
    weights = np.full(size, 1 / size)
    if pooling != "mean":
        weights[:] = 0.0
        weights[0 if pooling == "first" else -1] = 1.0
    return weights
