"""A smaller subword vocabulary: the pieces of a larger one that the texts need most."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from attnflow.errors import InputError


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
    from transformers import BertTokenizerFast

    state = json.loads(tokenizer.backend_tokenizer.to_str())
    if state["model"]["type"] != "WordPiece":
        msg = f"--small needs a WordPiece tokenizer such as BERT's, not {state['model']['type']}"
        raise InputError(msg)
    numbers = {piece: at for at, piece in enumerate(pieces)}
    state["model"]["vocab"] = numbers
    state["truncation"] = state["padding"] = None
    for token in state["added_tokens"]:
        token["id"] = numbers[token["content"]]
    for name, token in state["post_processor"].get("special_tokens", {}).items():
        token["ids"] = [numbers[name]]
    return BertTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(state)), model_max_length=max_length
    )
