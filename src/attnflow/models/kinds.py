"""The kinds of heads and of models: what a network reads and predicts, and which adapter it needs.

A kind of your own is a `ModelAdapter` in a file, and one line: ``MODEL_KINDS.register(…)``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attnflow.errors import ModelError
from attnflow.registry import Registry

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter


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
    """The head of a model class, by its name; `BARE` where the name implies no other."""
    return next((kind for kind in HEADS if class_name.endswith(kind.endings)), BARE)


def head_in(network: Any) -> HeadKind:
    """The head of a network, also of one in a ``PeftModel``, whose name says it only sometimes."""
    inner = network.get_base_model() if hasattr(network, "get_base_model") else network
    return head_of(type(inner).__name__)


SOUNDS = ("input_values", "input_features")
UNSUPPORTED = {
    "audio_values": "audio and video",
    "pixel_values_videos": "videos",
    "past_values": "time series",
    "flattened_patches": "images cut into patches beforehand",
    "inputs": "bytes of any kind into a latent array",
}


@dataclass(frozen=True)
class ModelKind:
    """A kind of model.

    Attributes:
        name: What it is called.
        applies: Whether a network is of this kind. Its processor is ``None`` while it is loaded.
        build: The adapter of a network, its processor and its name.
        processor: The class of transformers that loads the processor; ``None`` if there is none.
    """

    name: str
    applies: Callable[[Any, Any], bool]
    build: Callable[[Any, Any, str], ModelAdapter]
    processor: Callable[[Any], str | None] = lambda network: "AutoTokenizer"


def kind_of(network: Any, processor: Any = None) -> ModelKind:
    """The kind of a network: of those that apply, the last one that was registered."""
    kinds = reversed(MODEL_KINDS.members())
    return next(kind for kind in kinds if kind.applies(network, processor))


def adapt(network: Any, processor: Any, name: str) -> ModelAdapter:
    """Wrap a network and its tokenizer, image processor or whatever reads its inputs."""
    network = getattr(network, "_orig_mod", network)  # what torch.compile wrapped
    return kind_of(network, processor).build(network, processor, name)


# -- what a network reads, by its attributes


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


def reads_sound(network: Any) -> bool:
    """Whether a model reads sounds."""
    return _reads(network) in SOUNDS


def _reads(network: Any) -> str:
    reads = getattr(network, "main_input_name", "input_ids")
    return reads if isinstance(reads, str) else " and ".join(reads)


def _is_supported(network: Any) -> bool:
    return _reads(network) in ("input_ids", "pixel_values", "inputs_embeds", *SOUNDS)


def _has_source(network: Any) -> bool:
    return bool(getattr(network.config, "is_encoder_decoder", False))


def _reads_images(network: Any, processor: Any) -> bool:
    images = hasattr(processor, "image_mean") or _reads(network) == "pixel_values"
    return images and _is_supported(network)


# -- adapters, imported when they are needed


def _make_text(network: Any, processor: Any, name: str) -> ModelAdapter:
    from attnflow.models.text.model import TextModel
    from attnflow.models.text.spans import SpanModel

    if not _is_supported(network):
        reads = _reads(network)
        msg = (
            f"{type(network).__name__} reads {UNSUPPORTED.get(reads, repr(reads))}; models that "
            "read text, images or sounds can be explained"
        )
        raise ModelError(msg)
    head = head_in(network)
    if head is SPANS:
        return SpanModel(network, processor, name, head)
    # Others whose classes are named so write no text but, say, sounds.
    return TextModel(network, processor, name, BARE if head is SEQ2SEQ else head)


def _make_image(network: Any, processor: Any, name: str) -> ModelAdapter:
    from attnflow.models.image.vision import VisionModel

    return VisionModel(network, processor, name, head_in(network))


def _make_pair(network: Any, processor: Any, name: str) -> ModelAdapter:
    from attnflow.models.pair.seq2seq import Seq2SeqClassifier, Seq2SeqModel

    head = head_in(network)
    kind = Seq2SeqClassifier if head is CLASSIFIER else Seq2SeqModel
    return kind(network, processor, name, head)


def _make_image_text(network: Any, processor: Any, name: str) -> ModelAdapter:
    from attnflow.models.image.image_text import make_image_text

    return make_image_text(network, processor, name)


def _make_audio(network: Any, processor: Any, name: str) -> ModelAdapter:
    from attnflow.models.audio.model import AudioModel

    head = head_in(network)
    return AudioModel(network, processor, name, AUDIO if head is CLASSIFIER else head)


def _make_speech(network: Any, processor: Any, name: str) -> ModelAdapter:
    from attnflow.models.audio.speech import SpeechModel

    return SpeechModel(network, processor, name, SEQ2SEQ)


def _make_towers(network: Any, processor: Any, name: str) -> ModelAdapter:
    from attnflow.models.image.towers import make_towers

    found = two_towers(network)
    assert found is not None  # as `applies` has seen
    return make_towers(found, processor, name)


def _writes_speech(network: Any, processor: Any) -> bool:
    return reads_sound(network) and _has_source(network) and head_in(network) is SEQ2SEQ


MODEL_KINDS: Registry[ModelKind] = Registry("kind", "ModelKind", {})
for _kind in (
    ModelKind("text", lambda network, processor: True, _make_text),
    ModelKind("image", _reads_images, _make_image, lambda network: "AutoImageProcessor"),
    ModelKind(
        "pair",
        lambda network, processor: _is_supported(network) and _has_source(network),
        _make_pair,
    ),
    ModelKind(
        "image-text",
        lambda network, processor: _is_supported(network) and reads_both(network),
        _make_image_text,
        lambda network: "AutoProcessor",
    ),
    ModelKind(
        "audio",
        lambda network, processor: reads_sound(network),
        _make_audio,
        # CTC writes characters, which a tokenizer names.
        lambda network: "AutoProcessor" if head_in(network) is CTC else "AutoFeatureExtractor",
    ),
    ModelKind("speech", _writes_speech, _make_speech, lambda network: "AutoProcessor"),
    ModelKind(
        "towers",
        lambda network, processor: _is_supported(network) and two_towers(network) is not None,
        _make_towers,
        lambda network: "AutoProcessor",
    ),
):
    MODEL_KINDS.register(_kind)
