"""A smaller subword vocabulary: the pieces of a larger one that the texts need most."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from attnflow.errors import InputError

SPECIAL = ("unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


def choose_pieces(tokenizer: Any, texts: list[str], size: int) -> list[str]:
    """Choose the pieces to keep, in the order of the larger vocabulary.

    Special tokens and single characters are kept, so that any word can be written in what is left;
    then the pieces that are most frequent in the texts.
    """
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    special = set(tokenizer.all_special_tokens)
    kept = {piece for piece in vocabulary if piece in special or len(piece.removeprefix("##")) == 1}
    encoded = tokenizer.backend_tokenizer.encode_batch(texts, add_special_tokens=False)
    counts = Counter(piece for text in encoded for piece in text.tokens)
    # Among pieces of the same count, WordPiece lists the more frequent ones first.
    for piece in sorted(vocabulary, key=lambda piece: (-counts[piece], vocabulary[piece])):
        if len(kept) >= size:
            break
        if not piece.startswith("[unused"):
            kept.add(piece)
    return sorted(kept, key=lambda piece: vocabulary[piece])


def trim_tokenizer(tokenizer: Any, pieces: list[str], max_length: int) -> Any:
    """The same WordPiece tokenizer with these pieces only, numbered in this order."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    state = json.loads(tokenizer.backend_tokenizer.to_str())
    numbers = {piece: at for at, piece in enumerate(pieces)}
    state["model"]["vocab"] = numbers
    state["truncation"] = state["padding"] = None
    for token in state["added_tokens"]:
        token["id"] = numbers[token["content"]]
    processor = state["post_processor"]
    for name, token in processor.get("special_tokens", {}).items():
        token["ids"] = [numbers[name]]
    for name in ("cls", "sep"):
        if name in processor:
            processor[name][1] = numbers[processor[name][0]]
    build: Any = PreTrainedTokenizerFast
    return build(
        tokenizer_object=Tokenizer.from_str(json.dumps(state)),
        model_max_length=max_length,
        model_input_names=["input_ids", "attention_mask"],
        **{name: getattr(tokenizer, name) for name in SPECIAL},
    )


def check_pieces(tokenizer: Any) -> None:
    """Refuse a tokenizer that is not WordPiece with BERT's special tokens."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    kind = json.loads(backend.to_str())["model"]["type"] if backend else "no fast tokenizer"
    missing = [name for name in SPECIAL if getattr(tokenizer, name, None) is None]
    if kind != "WordPiece" or missing:
        what = f"without {missing[0]}" if missing else kind
        msg = f"--small needs a classifier with BERT's WordPiece tokenizer, not {what}"
        raise InputError(msg)
