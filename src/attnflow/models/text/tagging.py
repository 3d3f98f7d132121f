"""Where a token classifier is asked when no token is named."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from attnflow.models.adapter import Tokens

OUTSIDE = "O"  # the label of tokens that are part of nothing
ALL_OUTSIDE = (
    "every token is labelled O, part of nothing; explained is the one whose next label is most "
    "likely. Name another with query="
)


def find_tagged(
    logits: Tensor, tokens: Tokens, labels: Mapping[int, str], target: int | None = None
) -> tuple[int, tuple[str, ...]]:
    """The token to explain, and what a reader must know of the choice.

    ``logits`` are ``[position, label]``. It is the token with the most likely label other than O;
    with a target, the one at which that is most likely. Special tokens have no label of their own.
    """
    words = tokens.word_ids or [0] * len(tokens)
    places = [at for at, word in enumerate(words) if word is not None] or list(range(len(tokens)))
    shares = logits.detach().double().softmax(-1)[places]
    if target is not None:
        return places[int(shares[:, target].argmax())], ()
    outside = [number for number, name in labels.items() if str(name) == OUTSIDE]
    inside = shares.clone()
    inside[:, outside] = -1.0
    best, likely = inside.max(-1).values, shares.max(-1).values
    labelled = best >= likely
    if bool(labelled.any()):
        return places[int(torch.where(labelled, best, -1.0).argmax())], ()
    return places[int(best.argmax())], (ALL_OUTSIDE,)
