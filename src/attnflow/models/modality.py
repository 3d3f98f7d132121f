"""What a network reads, told by its attributes."""

from __future__ import annotations

from typing import Any

HEARS = ("input_values", "input_features")


def two_towers(network: Any) -> tuple[Any, Any] | None:
    """The towers for texts and for images of a model like CLIP; ``None`` for other models."""
    if not hasattr(network, "get_text_features") or not hasattr(network, "get_image_features"):
        return None
    text, vision = (getattr(network, f"{name}_model", None) for name in ("text", "vision"))
    return None if text is None or vision is None else (text, vision)


def reads_both(network: Any) -> bool:
    """Whether a model reads images among the tokens of a text."""
    config = network.config
    marked = any(hasattr(config, name) for name in ("image_token_id", "image_token_index"))
    return marked and hasattr(config, "vision_config") and not config.is_encoder_decoder


def hears(network: Any) -> bool:
    """Whether a model reads sounds."""
    return getattr(network, "main_input_name", "") in HEARS
