"""Embeddings of texts: the last states of a model without a head, and how they are pooled."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from attnflow.errors import InputError, ModelError, unknown
from attnflow.models.capture import run as network
from attnflow.models.kinds import BARE
from attnflow.models.text.model import TextModel
from attnflow.records import FloatArray
from attnflow.records.arrays import to_numpy

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter, Tokens

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
