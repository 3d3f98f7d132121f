"""The kinds of heads that models have, by the names of their classes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HeadKind:
    """A kind of head.

    Attributes:
        name: The name shown to users.
        endings: How class names of such models end.
        auto: The class of transformers that loads such models.
    """

    name: str
    endings: tuple[str, ...]
    auto: str


CLASSIFIER = HeadKind(
    "classifier", ("ForSequenceClassification",), "AutoModelForSequenceClassification"
)
TAGGER = HeadKind(
    "token classifier", ("ForTokenClassification",), "AutoModelForTokenClassification"
)
SPANS = HeadKind("question answering", ("ForQuestionAnswering",), "AutoModelForQuestionAnswering")
MASKED = HeadKind(
    "masked language model", ("ForMaskedLM", "WithLMHeadModel"), "AutoModelForMaskedLM"
)
CAUSAL = HeadKind("causal language model", ("ForCausalLM", "LMHeadModel"), "AutoModelForCausalLM")
SEQ2SEQ = HeadKind(
    "encoder–decoder language model",
    ("ForConditionalGeneration", "MTModel", "ForSpeechToText"),
    "AutoModelForSeq2SeqLM",
)
IMAGES = HeadKind(
    "image classifier",
    ("ForImageClassification", "ForImageClassificationWithTeacher"),
    "AutoModelForImageClassification",
)
AUDIO = HeadKind(
    "audio classifier",
    ("ForAudioClassification",),
    "AutoModelForAudioClassification",
)
XVECTOR = HeadKind("speaker vector", ("ForXVector",), "AutoModelForAudioXVector")
CTC = HeadKind("speech recogniser (CTC)", ("ForCTC",), "AutoModelForCTC")
BARE = HeadKind("no head", (), "AutoModel")
HEADS = (CLASSIFIER, TAGGER, SPANS, MASKED, CAUSAL, SEQ2SEQ, IMAGES, AUDIO, XVECTOR, CTC)


def head_of(class_name: str) -> HeadKind:
    """The head of a model class, by its name; `BARE` where the name tells of no other."""
    return next((kind for kind in HEADS if class_name.endswith(kind.endings)), BARE)
