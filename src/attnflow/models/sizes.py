"""What a network states about itself: number of layers, input limit, class and precision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from attnflow.errors import ModelError
from attnflow.models.kinds import AUDIO, CLASSIFIER, IMAGES, TAGGER, HeadKind
from attnflow.models.outputs import is_multi_label

INDEPENDENT = "independent_labels"  # in the description of a model
LABELLING = (CLASSIFIER, IMAGES, AUDIO)  # heads that say labels of whole inputs
UNLIMITED = 1_000_000  # tokenizers without a limit report 1e30


def depth_of(net: Any, config: Any = None) -> int:
    """The number of layers that a model's configuration states, or that of its part."""
    config = net.config.get_text_config() if config is None else config
    own = ("decoder_layers", "num_decoder_layers") if _is_half(config) else ()
    for name in (*own, "num_hidden_layers", "num_layers", "n_layers"):
        depth = getattr(config, name, None)
        if isinstance(depth, int):
            return depth
    msg = f"the configuration of {type(net).__name__} states no number of layers"
    raise ModelError(msg)


def depths_of_sides(net: Any) -> tuple[int, int]:
    """The numbers of layers of an encoder–decoder's two sides."""
    config = net.config
    sides = [getattr(config, side, None) for side in ("encoder", "decoder")]
    depths = [getattr(side, "num_hidden_layers", None) for side in sides]
    if None not in depths:  # both have a configuration of their own
        return int(depths[0] or 0), int(depths[1] or 0)
    first = ("encoder_layers", "encoder_num_hidden_layers")
    encoder = next((getattr(config, n) for n in first if getattr(config, n, None)), None)
    encoder = encoder or depth_of(net)
    names = ("decoder_layers", "num_decoder_layers", "decoder_num_hidden_layers")
    decoder = next((getattr(config, n) for n in names if getattr(config, n, None)), encoder)
    return int(encoder), int(decoder)


def _is_half(config: Any) -> bool:
    """Whether it is only the decoder of an encoder–decoder, whose sizes are for both sides."""
    alone = not getattr(config, "is_encoder_decoder", False)
    return alone and bool(getattr(config, "is_decoder", False))


def heads_in(net: Any) -> int:
    """The most heads that a layer of the model has, by its configurations; 1 if none states it."""
    whole = net.config
    half = getattr(whole, "decoder_attention_heads", None)
    if _is_half(whole) and isinstance(half, int):
        return half
    parts = [getattr(whole, name, None) for name in ("encoder", "decoder", "vision_config")]
    found = [1]
    for config in (whole, whole.get_text_config(), *parts):
        for name in ("num_attention_heads", "num_heads", "n_heads"):
            stated = getattr(config, name, None)
            counts = stated if isinstance(stated, list | tuple) else [stated]
            found += [count for count in counts if isinstance(count, int)]
    return max(found)


def limit(net: Any, tokenizer: Any) -> int | None:
    """How many tokens the model takes, special ones included; ``None`` where nothing limits it."""
    config = net.config.get_text_config()
    positions = getattr(config, "max_position_embeddings", None)
    for name, module in net.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding):
            # RoBERTa and related models count positions from after the padding token's.
            reserved = 0 if module.padding_idx is None else module.padding_idx + 1
            positions = module.num_embeddings - reserved
            break
    stated = getattr(tokenizer, "model_max_length", None)
    known = [n for n in (positions, stated) if n is not None and 0 < n < UNLIMITED]
    return min(known, default=None)


def vocabulary_of(net: Any) -> int:
    """How many tokens a network knows."""
    return int(net.config.get_text_config().vocab_size)


def describe(net: Any, head: HeadKind) -> dict[str, Any]:
    """What was loaded, for people and for the record; and what it decides, where that is stated.

    A class states it, or the checkpoint's configuration, as `attnflow train` writes it.
    """
    parameter = next(net.parameters())
    decides = getattr(net, "decides", getattr(net.config, "decides", None))
    return {
        "class": type(net).__name__,
        "head": head.name,
        "device": str(parameter.device),
        "parameters": sum(each.numel() for each in net.parameters()),
        "precision": str(parameter.dtype).removeprefix("torch."),
        **({"decides": decides} if isinstance(decides, str) else {}),
        **({INDEPENDENT: True} if head in LABELLING and is_multi_label(net.config) else {}),
    }


def labels_tokens(description: Any) -> bool:
    """Whether a model that was so described labels single tokens."""
    return isinstance(description, Mapping) and description.get("head") == TAGGER.name


def independent_labels(description: Any) -> bool:
    """Whether the labels of a model that was so described are independent of each other."""
    return isinstance(description, Mapping) and bool(description.get(INDEPENDENT))
