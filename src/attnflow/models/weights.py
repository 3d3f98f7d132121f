"""A digest of what a model computes with: its weights, its tokenizer and its processor."""

from __future__ import annotations

import hashlib
import importlib
import json
from typing import Any

import torch


def weights_digest(adapter: Any) -> str:
    """The SHA-256 of all weights and buffers by name, type and shape, and of what makes inputs."""
    seen = hashlib.sha256()
    for part in (adapter.text, adapter.vision) if hasattr(adapter, "tower") else (adapter,):
        _add(seen, part)
    return seen.hexdigest()


def _add(seen: Any, adapter: Any) -> None:
    for name, tensor in sorted(_state(adapter.network).items()):
        if not isinstance(tensor, torch.Tensor):  # such as a quantized layer's own state
            seen.update(f"{name} {tensor!r}\n".encode())
            continue
        seen.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        flat = tensor.detach().to("cpu").contiguous().reshape(-1)
        seen.update(flat.view(torch.uint8).numpy().data)
    seen.update(_tokenizer(getattr(adapter, "tokenizer", None)))
    for name in ("processor", "extractor"):
        seen.update(_processor(getattr(adapter, name, None)))


def _state(network: Any) -> dict[str, Any]:
    """The weights by name, also those that accelerate has put on a disk."""
    state: dict[str, Any] = network.state_dict()
    if not any(isinstance(each, torch.Tensor) and each.is_meta for each in state.values()):
        return state
    modeling: Any = importlib.import_module("accelerate.utils.modeling")
    whole: dict[str, Any] = modeling.get_state_dict_offloaded_model(network)
    return whole


def _processor(processor: Any) -> bytes:
    """The settings of what makes inputs of images and sounds: sizes, rates, scales."""
    processor = getattr(processor, "image_processor", processor)
    settings = (
        processor.to_dict()
        if hasattr(processor, "sampling_rate") or hasattr(processor, "image_mean")
        else None
    )
    return b"" if settings is None else json.dumps(settings, sort_keys=True, default=str).encode()


def _tokenizer(tokenizer: Any) -> bytes:
    """The rules and the vocabulary, as far as they can be told apart."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        rules = json.loads(backend.to_str())
        for changing in ("truncation", "padding"):  # how it was last called
            rules.pop(changing, None)
        return json.dumps(rules, sort_keys=True).encode()
    if hasattr(tokenizer, "get_vocab"):
        return json.dumps(tokenizer.get_vocab(), sort_keys=True).encode()
    return b""
