"""Which models write answers that can be explained, and how each does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnflow.errors import ModelError
from attnflow.models.answers.interface import Answers
from attnflow.models.answers.pair import PairAnswers
from attnflow.models.answers.text import TextAnswers
from attnflow.models.audio.speech import SpeechModel
from attnflow.models.heads import CAUSAL, SEQ2SEQ
from attnflow.models.pair.seq2seq import Seq2SeqModel
from attnflow.models.text.model import TextModel

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter


def answers_of(model: ModelAdapter) -> Answers:
    """How this model answers; an error for one that writes nothing."""
    found = _answers(model)
    if found is not None:
        return found
    msg = (
        f"{model.name} writes no text that could be explained token by token; generate= and "
        "answer= are for causal language models and encoder–decoders of texts"
    )
    if isinstance(model, SpeechModel):
        msg = (
            f"what {model.name} writes is explained at its last token, not token by token: leave "
            "out generate= (--generate); the tokens before are positions for query= (--query)"
        )
    raise ModelError(msg)


def reads_prompts(model: ModelAdapter) -> bool:
    """Whether a dict is a prompt with named parts: others read images or sounds of it."""
    return _answers(model) is not None


def _answers(model: ModelAdapter) -> Answers | None:
    if isinstance(model, Seq2SeqModel) and not isinstance(model, SpeechModel):
        return PairAnswers(model) if model.head is SEQ2SEQ else None
    if type(model) is TextModel and model.head is CAUSAL:  # and reads no images
        return TextAnswers(model)
    return None
