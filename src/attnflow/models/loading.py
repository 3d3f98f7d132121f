"""From a name, a folder, a GGUF file or objects to a model that can be explained."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attnflow.errors import InputError, ModelError, shown
from attnflow.io.keywords import known_keywords
from attnflow.models.adapter import ModelAdapter
from attnflow.models.fetching import Checkpoint, LoadOptions, ModelReference
from attnflow.models.kinds import adapt
from attnflow.models.locating import exists
from attnflow.shipped import DEFAULT, find_shipped, full_name

log = logging.getLogger("attnflow")
Source = str | Path | tuple[Any, Any] | list[Any] | ModelAdapter | ModelReference | None
_load_lock = threading.Lock()


@known_keywords()
def load_model(  # noqa: PLR0913 - one argument per option
    source: Source = None,
    *,
    device: str | None = None,
    tower: str | None = None,
    revision: str | None = None,
    dtype: Any = None,
    trust_remote_code: bool = False,
    device_map: Any = None,
    quantization_config: Any = None,
) -> ModelAdapter:
    """Load a model once, to explain many texts with it.

    Args:
        source: A hub name (with a revision: ``"name@revision"``), a folder, a GGUF file or folder,
            ``(model, tokenizer)`` objects (an image processor for vision models), or the name of
            a model shipped with attnflow: ``"sentiment"``, also the one for ``None``, or
            ``"verbs"``. Such a name wins over a folder here that is called so, ``"./verbs"``.
        device: Where to put a model loaded here, e.g. ``"cuda"``; objects stay where they are.
        tower: Of a model like CLIP, the tower alone: ``"text"`` or ``"vision"``. By default each
            input goes to the one that reads it.
        revision: A branch, tag or commit on the hub.
        dtype: ``"float32"``, ``"float16"``, ``"bfloat16"`` or ``"auto"``, the checkpoint's own.
        trust_remote_code: Whether code that comes with the model may run; read it first.
        device_map: How to spread the model over devices, as in transformers.
        quantization_config: How to quantize it, one of transformers' configurations.

    The checkpoint's own head is loaded where it has one: see ``.description``. A hub that does not
    answer within some seconds is not asked again: files that are on this machine are used.
    """
    options = LoadOptions(
        device, dtype, revision, trust_remote_code, device_map, quantization_config
    )
    if tower is not None:
        both = _load_any(source, options)
        if not hasattr(both, "tower"):
            msg = f"tower={shown(tower)} is for models like CLIP, and {both.name} has one tower"
            raise InputError(msg)
        chosen: ModelAdapter = both.tower(tower)
        return chosen
    return _load_any(source, options)


def _load_any(source: Source, options: LoadOptions) -> ModelAdapter:
    if isinstance(source, ModelReference):
        return _load_any(source.name, source.options.on(options.device))
    is_default = source is None
    source = DEFAULT if source is None else source
    if isinstance(source, str):
        shipped = find_shipped(source) if options.revision is None else None
        if shipped is not None:
            if not is_default:
                warn_of_folder(source)
            return _load(str(shipped), options, full_name(source))
    if isinstance(source, str | Path):
        return _load(str(source), options, str(source))
    if options != LoadOptions(device=options.device):
        msg = "a model that is loaded already is used as it is: leave dtype, revision and such out"
        raise InputError(msg)
    return adapt(*_pair(source)) if isinstance(source, tuple | list) else _adapter(source)


def warn_of_folder(name: str) -> None:
    """Say which model is meant where a folder here has the name of a shipped one."""
    if exists(Path(name) / "config.json"):
        log.warning("%s is the model shipped with attnflow; the folder here is ./%s", name, name)


def _adapter(source: Any) -> ModelAdapter:
    """What `load_model` returned before; anything else is an error that says what it lacks."""
    if isinstance(source, ModelAdapter):
        return source
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


def _load(source: str, options: LoadOptions, name: str) -> ModelAdapter:
    with _load_lock:
        load = _load_once if options.is_hashable else _load_once.__wrapped__
        return load(source, options, name)


@functools.lru_cache(maxsize=4)
def _load_once(source: str, options: LoadOptions, name: str) -> ModelAdapter:
    checkpoint = Checkpoint(source, options)  # which refuses what is not here before heavy imports
    from attnflow.models import verbs

    verbs.register()
    network, processor = checkpoint.load()
    if options.device is not None and options.quantization_config is None:
        network.to(options.device)
    adapter = adapt(network.eval(), processor, name)
    log.info("loaded %s: %s", name, adapter.description)
    return adapter
