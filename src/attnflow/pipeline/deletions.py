"""What becomes of an answer without some of its prompt: the check of what scores claim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from attnflow.errors import InputError
from attnflow.models.adapter import Filler
from attnflow.models.answers.interface import answer_positions
from attnflow.models.text.edits import blank_tokens
from attnflow.pipeline.measured import Advance
from attnflow.records import FloatArray
from attnflow.records.arrays import to_numpy
from attnflow.records.parts import Part

if TYPE_CHECKING:
    from attnflow.models.adapter import Tokens
    from attnflow.models.answers.interface import Answers

DELETE = Filler("delete", "nothing")


def without(answers: Answers, tokens: Tokens, positions: Sequence[int]) -> FloatArray:
    """``[answer]``: the answer's log-probabilities after a prompt without these tokens."""
    answer = answer_positions(tokens)
    kept = len(tokens.inputs["input_ids"]) - len(positions)
    kept -= len(answer) if "decoder_input_ids" not in tokens.inputs else 0
    if kept < 1:
        msg = (
            "without this part nothing is left of the prompt, and no answer can be asked for; name "
            "parts of the prompt with parts=, or leave out deletions"
        )
        raise InputError(msg)
    (found,) = answers.log_probabilities([blank_tokens(tokens, positions, DELETE)])
    return to_numpy(found)  # type: ignore[no-any-return]


def measure_drops(
    answers: Answers, tokens: Tokens, parts: Sequence[Part], advance: Advance
) -> FloatArray:
    """``[answer, part]``: how much lower each token's log-probability is without each part.

    One forward pass per part. The answer stays what it was; what stood behind the part moves up.
    """
    whole = to_numpy(answers.log_probabilities([tokens])[0])
    found = []
    for number, part in enumerate(parts, 1):
        found.append(whole - without(answers, tokens, part.positions))
        advance(number / len(parts))
    return np.stack(found, axis=-1)
