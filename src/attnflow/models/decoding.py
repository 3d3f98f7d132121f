"""What a model's generation configuration may say of the answers that it writes.

Checkpoints come with penalties, beams, forbidden tokens, limits of time and much else, which
`generate` of transformers obeys. Here the most likely token is written, one after the other: all of
it is overridden, but for the tokens that start and end an answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

FORCED = "forced_bos_token_id"  # of many translators: the language that is written
ENDS = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id", FORCED)
# What decides how fast tokens are computed, and not which; how many is always given.
INDIFFERENT = ("use_cache", "compile_config", "disable_compile", "max_length")
SUPPRESSED = ("suppress_tokens", "begin_suppress_tokens")


def plain_decoding(
    network: Any, given: Collection[str] = (), kept: Collection[str] = ()
) -> dict[str, Any]:
    """The options of `generate` that undo what a network's generation configuration asks for.

    Options that are ``given`` are left to whoever gives them, those that are ``kept`` as they are.
    Every field is undone that a configuration of this version of transformers has, so that
    one that is new changes nothing unnoticed.
    """
    from transformers import GenerationConfig

    stated = getattr(network, "generation_config", None)
    plain = vars(GenerationConfig())  # type: ignore[no-untyped-call]
    usual: dict[str, Any] = getattr(GenerationConfig, "_get_default_generation_params", dict)()
    left = {*ENDS, *INDIFFERENT, *given, *kept, "transformers_version"}
    found = {}
    for name, value in plain.items():
        neutral = usual.get(name) if value is None else value
        asked = getattr(stated, name, None)
        off = asked is None or asked is False or asked == neutral  # 0 may be a token
        if not off and name not in left and not name.startswith("_"):
            found[name] = neutral
    return found


def kept_decoding(network: Any, kept: Collection[str] = (FORCED,)) -> Mapping[str, Any] | None:
    """What a generation configuration decides of an answer all the same, to be told with it."""
    stated = getattr(network, "generation_config", None)
    found = {name: getattr(stated, name, None) for name in kept}
    return {name: value for name, value in found.items() if value is not None} or None
