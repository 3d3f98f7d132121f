"""From a name, a folder, a GGUF file or objects to a model that can be explained."""

from __future__ import annotations

import functools
import importlib
import logging
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attnflow.errors import InputError, ModelError, shown
from attnflow.models.adapter import ModelAdapter
from attnflow.models.heads import (
    AUDIO,
    BARE,
    CAUSAL,
    CLASSIFIER,
    CTC,
    SEQ2SEQ,
    SPANS,
    HeadKind,
    head_of,
)

log = logging.getLogger("attnflow")
Source = str | Path | tuple[Any, Any] | list[Any] | ModelAdapter | None
_load_lock = threading.Lock()
HEARS = ("input_values", "input_features")
READS = {
    "audio_values": "audio and video",
    "pixel_values_videos": "videos",
    "past_values": "time series",
    "flattened_patches": "images cut into patches before",
    "inputs": "bytes of any kind into a latent array",
}


def load_model(
    source: Source = None, *, device: str | None = None, tower: str | None = None
) -> ModelAdapter:
    """Load a model once, to explain many texts with it.

    Args:
        source: A hub name, a folder, a GGUF file or folder, ``(model, tokenizer)`` objects (an
            image processor for vision models), or ``None`` for the model shipped with attnflow.
        device: Where to put a model loaded here, e.g. ``"cuda"``; objects stay where they are.
        tower: Of a model like CLIP, the tower alone: ``"text"`` or ``"vision"``. By default each
            input goes to the one that reads it.

    The checkpoint's own head is loaded where it has one: see ``.description``.
    """
    if tower is not None:
        both = load_model(source, device=device)
        if not hasattr(both, "tower"):
            msg = f"tower={shown(tower)} is for models like CLIP, and {both.name} has one tower"
            raise InputError(msg)
        chosen: ModelAdapter = both.tower(tower)
        return chosen
    check_device(device)
    if isinstance(source, tuple | list):
        return adapt(*_pair(source))
    if source is not None and not isinstance(source, str | Path):
        return _adapter(source)
    if source is None:
        from attnflow.paper import verbs

        return _load(str(verbs.FOLDER), device, name=verbs.NAME)
    return _load(str(source), device, name=str(source))


def check_device(device: Any) -> None:
    """Refuse what is no device of torch, or none that is here, before anything is loaded."""
    if device is None:
        return
    import torch

    count = torch.cuda.device_count()
    here = ["cpu", *["cuda"] * (count > 0), *(f"cuda:{at}" for at in range(count))]
    here += ["mps"] * torch.backends.mps.is_available()
    if str(device) not in here:
        msg = f"device={shown(device)} is not here; allowed: {', '.join(map(repr, here))}"
        raise InputError(msg)


def adapt(network: Any, processor: Any, name: str) -> ModelAdapter:
    """Wrap a network and its tokenizer or image processor."""
    network = getattr(network, "_orig_mod", network)  # what torch.compile wrapped
    head = head_of(type(network).__name__)
    refuse_other_inputs(network)
    if found := two_towers(network):
        from attnflow.models.towers import make_towers

        return make_towers(found, processor, name)
    if hears(network):
        from attnflow.models.audio import AudioModel
        from attnflow.models.speech import SpeechModel

        if getattr(network.config, "is_encoder_decoder", False) and head is SEQ2SEQ:
            return SpeechModel(network, processor, name, head)
        return AudioModel(network, processor, name, AUDIO if head is CLASSIFIER else head)
    if reads_both(network):
        from attnflow.models.image_text import make_image_text

        return make_image_text(network, processor, name)
    if getattr(network.config, "is_encoder_decoder", False):
        from attnflow.models.seq2seq import Seq2SeqModel
        from attnflow.models.seq2seq_classifier import Seq2SeqClassifier

        kind = Seq2SeqClassifier if head is CLASSIFIER else Seq2SeqModel
        return kind(network, processor, name, head)
    if (
        hasattr(processor, "image_mean")
        or getattr(network, "main_input_name", "") == "pixel_values"
    ):
        from attnflow.models.vision import VisionModel

        return VisionModel(network, processor, name, head)
    from attnflow.models.spans import SpanModel
    from attnflow.models.text import TextModel

    if head is SPANS:
        return SpanModel(network, processor, name, head)
    # Others that are named so write no text: sounds, say, after a text.
    return TextModel(network, processor, name, BARE if head is SEQ2SEQ else head)


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


def refuse_other_inputs(network: Any) -> None:
    """Refuse a model that reads neither text nor images, by what it reads."""
    reads = getattr(network, "main_input_name", "input_ids")
    reads = reads if isinstance(reads, str) else " and ".join(reads)
    if reads not in ("input_ids", "pixel_values", "inputs_embeds", *HEARS):
        msg = (
            f"{type(network).__name__} reads {READS.get(reads, repr(reads))}; models that read "
            "text, images or sounds can be explained"
        )
        raise ModelError(msg)


def _adapter(source: Any) -> ModelAdapter:
    """What `load_model` returned before; anything else is an error that says what it lacks."""
    if hasattr(source, "tokenize") and hasattr(source, "run"):
        adapter: ModelAdapter = source
        return adapter
    bare = hasattr(source, "config")
    what = "comes without its tokenizer or image processor" if bare else "is not a model"
    msg = (
        f"model={type(source).__name__} {what}; give (model, tokenizer), a hub name, a folder, or "
        "what load_model returned"
    )
    raise ModelError(msg)


def _pair(pair: Sequence[Any]) -> tuple[Any, Any, str]:
    if len(pair) != 2 or not hasattr(pair[0], "config") or not callable(pair[1]):
        msg = (
            "model=(model, tokenizer) needs a transformers model and its tokenizer or image "
            f"processor; this is {tuple(type(part).__name__ for part in pair)}"
        )
        raise ModelError(msg)
    name = getattr(pair[0].config, "_name_or_path", "") or type(pair[0]).__name__
    return pair[0], pair[1], name


def _load(source: str, device: str | None, *, name: str) -> ModelAdapter:
    with _load_lock:
        return _load_once(source, device, name)


@functools.lru_cache(maxsize=4)
def _load_once(source: str, device: str | None, name: str) -> ModelAdapter:
    import transformers

    from attnflow.paper import verbs

    verbs.register()
    where, options = locate(source)
    try:
        with no_bars():
            network, processor = _fetch(transformers, where, options)
    except (OSError, ValueError, ImportError, KeyError) as error:
        raise ModelError(why_not_loaded(source, where, error)) from error
    if device is not None:
        network.to(device)
    adapter = adapt(network.eval(), processor, name)
    log.info("loaded %s: %s", name, adapter.description)
    return adapter


def why_not_loaded(source: str, where: str, error: Exception) -> str:
    """What failed and what to do; of the message of transformers, only the first sentence."""
    if exists(Path(where)):
        return f"{source!r} could not be loaded: {error}"
    reason = str(error).strip()
    if "connect" in reason:
        what = "the hub can't be reached, and its files are not on this machine"
        return f"{source!r} is not a folder here; {what}. Check the connection, or give a folder"
    first = re.split(r"(?<=[^.]{2}\.)\s|\n", reason, maxsplit=1)[0].rstrip(".")
    return f"{source!r} is not a folder here, and not a model on the hub: {first}. Check the name"


@contextmanager
def no_bars() -> Iterator[None]:
    """Hide the progress bars that transformers shows while it reads and writes files."""
    import transformers

    bars: Any = transformers.utils.logging
    enabled = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    gguf: Any = importlib.import_module("transformers.modeling_gguf_pytorch_utils")
    tqdm = gguf.tqdm  # reading a GGUF file shows a bar that no setting turns off
    gguf.tqdm = functools.partial(tqdm, disable=True)
    try:
        yield
    finally:
        gguf.tqdm = tqdm
        if enabled:
            bars.enable_progress_bar()


def _fetch(transformers: Any, where: str, options: dict[str, str]) -> tuple[Any, Any]:
    # Parsing a GGUF file takes seconds, and it holds nothing but causal language models.
    head = CAUSAL if options else _head(transformers.AutoConfig.from_pretrained(where))
    network = _network(transformers, head, where, options)
    if hears(network):
        return network, _hearing(transformers, head, where)
    if two_towers(network) or reads_both(network):
        return network, transformers.AutoProcessor.from_pretrained(where)
    if network.main_input_name == "pixel_values":
        return network, transformers.AutoImageProcessor.from_pretrained(where)
    return network, transformers.AutoTokenizer.from_pretrained(where, **options)


def _hearing(transformers: Any, head: HeadKind, where: str) -> Any:
    """The feature extractor of a model that hears; for one that writes, with its tokenizer."""
    if head in (CTC, SEQ2SEQ):
        return transformers.AutoProcessor.from_pretrained(where)
    return transformers.AutoFeatureExtractor.from_pretrained(where)


def locate(source: str) -> tuple[str, dict[str, str]]:
    """The folder or hub name, and the GGUF file in it where that is what holds the weights."""
    path = Path(source).expanduser()
    if not exists(path):
        if path.is_absolute() or source.startswith("."):
            msg = (
                f"{source!r} does not exist; give a folder with a config.json, a GGUF file, or a "
                "name on the hub such as bert-base-uncased"
            )
            raise ModelError(msg)
        return source, {}
    if path.suffix == ".gguf" and path.is_file():
        return str(path.parent), {"gguf_file": path.name}
    if path.is_dir() and not (path / "config.json").exists():
        found = sorted(path.glob("*.gguf"))
        if len(found) != 1:
            msg = (
                f"{source!r} has no config.json and {len(found)} GGUF files; give a folder that "
                "has one of either, or the GGUF file itself"
            )
            raise ModelError(msg)
        return str(path), {"gguf_file": found[0].name}
    return str(path) if source else source, {}


def exists(path: Path) -> bool:
    """Whether such a file or folder exists; a name that is too long for one never does."""
    try:
        return path.exists()
    except OSError:
        return False


def _head(config: Any) -> HeadKind:
    named = head_of((config.architectures or [""])[0])
    if getattr(config, "is_encoder_decoder", False) and named is BARE:
        return SEQ2SEQ
    return named


def _loader(transformers: Any, head: HeadKind, where: str, options: dict[str, str]) -> Any:
    """The class that the checkpoint names, where it has a head that attnflow knows."""
    loader = getattr(transformers, head.auto)
    if head is BARE or options:
        return loader
    config = transformers.AutoConfig.from_pretrained(where)
    # Some classes are listed under another task: Whisper's, and classifiers of sounds.
    named = getattr(transformers, (config.architectures or [""])[0], None)
    return loader if named is None or type(config) in loader._model_mapping else named


def _network(transformers: Any, head: HeadKind, where: str, options: dict[str, str]) -> Any:
    loader = _loader(transformers, head, where, options)
    network, report = loader.from_pretrained(where, output_loading_info=True, **options)
    missing = report["missing_keys"]
    if head is BARE or not missing:
        return network
    log.warning("%s: weights of its head are missing (%s …); loaded without", where, min(missing))
    return transformers.AutoModel.from_pretrained(where, **options)
