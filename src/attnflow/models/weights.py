"""Digests of what a model computes with: weights, tokenizer, processor, and their settings."""

from __future__ import annotations

import hashlib
import importlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch

ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # in the text of an object that has no other
# Where a model was, and with which versions it was saved, doesn't change what it computes.
IRRELEVANT = ("transformers_version", "_name_or_path", "base_model_name_or_path", "peft_version")
ADAPTER = ("active_adapters", "disable_adapters", "merged_adapters", "scaling")  # of a layer
CALLED = ("truncation_side", "model_max_length", "special_tokens_map")  # of a tokenizer


def weights_digest(adapter: Any) -> str:
    """The SHA-256 of all weights and buffers by name, type and shape, and of what makes inputs."""
    seen = hashlib.sha256()
    for part in _parts(adapter):
        _add(seen, part)
    return seen.hexdigest()


def settings_digest(adapter: Any) -> str:
    """The SHA-256 of the settings: of the model, of adapters in it, and of its tokenizer.

    The same weights with another activation, other labels or another scale of an adapter are
    another model.
    """
    settings = []
    for part in _parts(adapter):
        adapters = getattr(part.network, "peft_config", None)
        tokenizer = getattr(part, "tokenizer", None)
        settings.append(
            {
                "config": _settings(getattr(part.network, "config", None)),
                "adapters": _settings(adapters if isinstance(adapters, Mapping) else None),
                "used": _used(part.network),
                "tokenizer": {name: _settings(getattr(tokenizer, name, None)) for name in CALLED},
            }
        )
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def _parts(adapter: Any) -> Sequence[Any]:
    return (adapter.text, adapter.vision) if hasattr(adapter, "tower") else (adapter,)


def _used(network: Any) -> list[Any]:
    """Which adapters the layers that have some use, and how much; no configuration says it."""
    return [
        (name, *(_settings(getattr(layer, each, None)) for each in ADAPTER))
        for name, layer in network.named_modules()
        if isinstance(getattr(layer, "disable_adapters", None), bool)
    ]


def _settings(value: Any) -> Any:
    """Settings as plain values, the same for the same settings."""
    if hasattr(value, "to_dict"):
        value = value.to_dict()
    if isinstance(value, Mapping):
        return {
            str(name): _settings(each) for name, each in value.items() if name not in IRRELEVANT
        }
    if isinstance(value, list | tuple):
        return [_settings(each) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    plain = value is None or isinstance(value, bool | int | float | str)
    return value if plain else ADDRESS.sub("", str(value))


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
    """The rules and the vocabulary, as far as they can be distinguished."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        rules = json.loads(backend.to_str())
        for changing in ("truncation", "padding"):  # how it was last called
            rules.pop(changing, None)
        return json.dumps(rules, sort_keys=True).encode()
    if hasattr(tokenizer, "get_vocab"):
        return json.dumps(tokenizer.get_vocab(), sort_keys=True).encode()
    return b""
