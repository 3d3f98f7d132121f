"""From a name, a folder, a GGUF file or objects to a model that can be explained.

A model that is shipped has its weights as 8-bit integers with a scale per row, a quarter of
float32's size. Loading gives float32 weights again, which differ from the original ones by at most
half a step of a row's scale.
"""

from __future__ import annotations

import functools
import importlib
import logging
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from safetensors import SafetensorError

from attnflow.errors import InputError, ModelError, shown, unknown
from attnflow.io.keywords import known_keywords
from attnflow.io.progress import import_tqdm
from attnflow.models import locating
from attnflow.models.adapter import ModelAdapter
from attnflow.models.kinds import BARE, CAUSAL, SEQ2SEQ, HeadKind, adapt, head_of, kind_of
from attnflow.models.locating import ADAPTER, exists, locate, why_not_here, why_not_loaded
from attnflow.shipped import DEFAULT, OWNER, find_shipped, full_name

PACKED = "model.int8.safetensors"
"""The file of a packed model, in place of ``model.safetensors``."""
SCALE = ".scale"
STEPS = 127


def pack(weights: dict[str, Any]) -> dict[str, Any]:
    """Matrices as integers from -127 to 127 and the scales of their rows, the rest in float32."""
    import torch

    packed = {}
    for name, weight in weights.items():
        if weight.ndim != 2:
            packed[name] = weight.float()
            continue
        scale = weight.float().abs().amax(1) / STEPS
        scale[scale == 0] = 1.0
        packed[name] = (weight.float() / scale[:, None]).round().to(torch.int8)
        packed[name + SCALE] = scale
    return packed


def unpack(path: Path) -> dict[str, Any]:
    """The weights of a packed model, in float32."""
    from safetensors.torch import load_file

    packed = load_file(path)
    weights = {}
    for name, weight in packed.items():
        if name.endswith(SCALE):
            continue
        scale = packed.get(name + SCALE)
        weights[name] = weight if scale is None else weight.float() * scale[:, None]
    return weights


SPARE = ("pooler", "masked_spec_embed")  # what many checkpoints lack, and no explanation reads
DTYPES = ("float32", "float16", "bfloat16", "auto")


@dataclass(frozen=True)
class LoadOptions:
    """How a model is loaded; what is ``None`` is left to transformers.

    Attributes:
        device: Where to put it, e.g. ``"cuda"``.
        dtype: ``"float32"``, ``"float16"``, ``"bfloat16"`` or ``"auto"``, the checkpoint's own.
        revision: A branch, tag or commit on the hub.
        trust_remote_code: Whether code that comes with the model may run.
        device_map: How to spread it over devices, as accelerate does.
        quantization_config: How to quantize it, one of transformers' configurations.
    """

    device: str | None = None
    dtype: Any = None
    revision: str | None = None
    trust_remote_code: bool = False
    device_map: Any = None
    quantization_config: Any = None

    def __post_init__(self) -> None:
        check_device(self.device)
        name = str(self.dtype).removeprefix("torch.")
        if self.dtype is not None and name not in DTYPES:
            raise InputError(unknown("dtype", self.dtype, DTYPES))
        if self.device is not None and self.device_map is not None:
            msg = "device and device_map both say where the model goes; give one of them"
            raise InputError(msg)

    def on(self, device: str | None) -> LoadOptions:
        """The same, on a device that is decided elsewhere, if it is."""
        return self if device is None else replace(self, device=device)

    @property
    def is_hashable(self) -> bool:
        """Whether a model that was loaded with these options can be found again by them."""
        try:
            hash(self)
        except TypeError:
            return False
        return True

    def to_find(self, where: str) -> dict[str, Any]:
        """The options with which every file of a checkpoint is found."""
        found: dict[str, Any] = {}
        if self.trust_remote_code:
            found["trust_remote_code"] = True
        if not exists(Path(where)):
            if self.revision is not None:
                found["revision"] = self.revision
            if locating.is_unavailable():
                found["local_files_only"] = True
        return found

    def to_build(self) -> dict[str, Any]:
        """The options with which the network is built."""
        given = {
            "dtype": self.dtype,
            "device_map": self.device_map,
            "quantization_config": self.quantization_config,
        }
        if self.quantization_config is not None and self.device is not None:
            given["device_map"] = self.device  # a quantized model can't be moved afterwards
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class ModelReference:
    """A model by its name and how it is loaded, which can be sent to other processes.

    Attributes:
        name: A hub name, a folder or a GGUF file; ``None`` is the model shipped with attnflow.
        options: How it is loaded.
    """

    name: str | None
    options: LoadOptions


def check_device(device: Any) -> None:
    """Refuse an unknown or missing device before anything is loaded."""
    if device is None:
        return
    import torch

    count = torch.cuda.device_count()
    here = ["cpu", *["cuda"] * (count > 0), *(f"cuda:{at}" for at in range(count))]
    here += ["mps"] * torch.backends.mps.is_available()
    if str(device) not in here:
        msg = f"device={shown(device)} is not here; allowed: {', '.join(map(repr, here))}"
        raise InputError(msg)


class ModelCheckpoint:
    """A checkpoint on this machine or on the hub, and how to load it."""

    def __init__(self, source: str, options: LoadOptions) -> None:
        import_tqdm()
        name, _, revision = source.partition("@")
        if revision and not exists(Path(source)):
            if options.revision not in (None, revision):
                msg = f"{source!r} names a revision, and revision={options.revision!r} another"
                raise InputError(msg)
            source, options = name, replace(options, revision=revision)
        if options.revision is not None and find_shipped(source) is not None:
            msg = (
                f"{source} is shipped with attnflow and has no revision {options.revision!r}: "
                f"leave it out, or give OWNER/{source.removeprefix(OWNER)} for one on the hub"
            )
            raise InputError(msg)
        self.source = source
        self.where, self.gguf = locate(source)
        if options.revision is not None and exists(Path(self.where)):
            msg = f"revision={options.revision!r} is for the hub, and {source!r} is on this machine"
            raise InputError(msg)
        self.find = {**self.gguf, **options.to_find(self.where)}
        if "local_files_only" in self.find and not locating.is_cached(self.where, options.revision):
            # Raised before anything heavy is imported: often a name was mistyped.
            raise ModelError(why_not_here(self.source))
        import transformers

        self.transformers: Any = transformers
        self.build = options.to_build()

    def load(self) -> tuple[Any, Any]:
        """The network, and its tokenizer, image processor or whatever reads its inputs."""
        if self.gguf:
            log.warning(UNPACKED, next(iter(self.gguf.values())))
        try:
            with no_bars():
                network = self._network(self._head())
                if self.gguf:
                    unmark(network)
                return network, self._processor(network)
        except (
            *(OSError, ValueError, ImportError, KeyError, EOFError),
            *(
                RuntimeError,
                TypeError,
                UnpicklingError,
                SafetensorError,
            ),  # of files that are damaged
        ) as error:
            raise ModelError(why_not_loaded(self.source, self.where, error)) from error

    def _get(self, auto: str) -> Any:
        return getattr(self.transformers, auto).from_pretrained(self.where, **self.find)

    def _head(self) -> HeadKind:
        # Parsing a GGUF file takes seconds, and it holds nothing but causal language models.
        if self.gguf:
            return CAUSAL
        config = self._get("AutoConfig")
        named = head_of((config.architectures or [""])[0])
        if getattr(config, "is_encoder_decoder", False) and named is BARE:
            return SEQ2SEQ
        return named

    def _network(self, head: HeadKind) -> Any:
        if exists(Path(self.where) / PACKED):
            return self._packed()
        network, missing = self._read(self._loader(head))
        if missing and head is not BARE:
            log.warning(
                "%s: weights of its head are missing (%s …); loaded without",
                self.where,
                min(missing),
            )
            network, missing = self._read(self.transformers.AutoModel)
        # Where weights are missing, transformers initializes them at random.
        if lacking := sorted(name for name in missing if not any(map(name.__contains__, SPARE))):
            msg = f"{len(lacking)} weights of the model are missing: {', '.join(lacking[:3])}"
            raise ValueError(msg + " …" * (len(lacking) > 3))
        return network

    def _read(self, loader: Any) -> tuple[Any, Collection[str]]:
        """The network, and the names of its weights that the checkpoint does not have."""
        options = {**self.find, **self.build}
        network, report = loader.from_pretrained(self.where, output_loading_info=True, **options)
        left_out = sorted(report["unexpected_keys"])
        if left_out and exists(Path(self.where) / ADAPTER):
            names = ", ".join(left_out[:3]) + " …" * (len(left_out) > 3)
            msg = (
                f"it holds an adapter, and {len(left_out)} weights fit nowhere in the model: "
                f"{names}; load both with peft, which says more, and give (model, tokenizer)"
            )
            raise ValueError(msg)
        return network, report["missing_keys"]

    def _packed(self) -> Any:
        """The network of a folder whose weights are 8-bit integers, all of them."""
        config = self._get("AutoConfig")
        weights = unpack(Path(self.where) / PACKED)
        # Auto classes want a folder with weights as they know them, the model's own class does not.
        network, report = getattr(self.transformers, config.architectures[0]).from_pretrained(
            None, config=config, state_dict=weights, output_loading_info=True, **self.build
        )
        if report["missing_keys"]:
            msg = (
                f"{PACKED} lacks weights of the model: {', '.join(sorted(report['missing_keys']))}"
            )
            raise ValueError(msg)
        return network

    def _loader(self, head: HeadKind) -> Any:
        """The class that the checkpoint names, where it has a head that attnflow knows."""
        loader = getattr(self.transformers, head.auto)
        if head is BARE or self.gguf:
            return loader
        config = self._get("AutoConfig")
        # Some classes are listed under another task: Whisper's, and classifiers of sounds.
        named = getattr(self.transformers, (config.architectures or [""])[0], None)
        return loader if named is None or type(config) in loader._model_mapping else named

    def _processor(self, network: Any) -> Any:
        auto = kind_of(network).processor(network)
        return None if auto is None else self._get(auto)


UNPACKED = """%s: a GGUF file is unpacked every time it is loaded, which is slow.
To unpack it only once, run this in Python:
    model = attnflow.load_model(THE_FILE)
    model.network.save_pretrained("unpacked")
    model.tokenizer.save_pretrained("unpacked")
and use the folder "unpacked" in place of the file."""


def unmark(network: Any) -> None:
    """Say of an unpacked network that it is not quantized; transformers would not save it."""
    network.hf_quantizer = None
    network.is_quantized = False
    if hasattr(network.config, "quantization_config"):
        del network.config.quantization_config


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
        tower: Of a model like CLIP, only this tower: ``"text"`` or ``"vision"``. By default each
            input goes to the one that reads it.
        revision: A branch, tag or commit on the hub.
        dtype: ``"float32"``, ``"float16"``, ``"bfloat16"`` or ``"auto"``, the checkpoint's own.
        trust_remote_code: Whether code that comes with the model may run; read it first.
        device_map: How to spread the model over devices, as in transformers.
        quantization_config: How to quantize it, one of transformers' configurations.

    The checkpoint's own head is loaded where it has one: see ``.description``. A hub that does not
    answer within some seconds is not tried again: files on this machine are used.

    Examples:
        >>> import attnflow
        >>> model = attnflow.load_model("verbs")
        >>> model.depth
        6
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
        msg = (
            "a model that is already loaded is used unchanged: leave out dtype, revision and so on"
        )
        raise InputError(msg)
    return adapt(*_pair(source)) if isinstance(source, tuple | list) else _adapter(source)


def warn_of_folder(name: str) -> None:
    """Say which model is meant where a folder here has the name of a shipped one."""
    if exists(Path(name) / "config.json"):
        log.warning("%s is the model shipped with attnflow; the folder here is ./%s", name, name)


def _adapter(source: Any) -> ModelAdapter:
    """What `load_model` returned before; anything else is an error that names what is missing."""
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
    # This refuses what is missing before heavy imports.
    checkpoint = ModelCheckpoint(source, options)
    from attnflow.models import verbs

    verbs.register()
    network, processor = checkpoint.load()
    if options.device is not None and options.quantization_config is None:
        network.to(options.device)
    adapter = adapt(network.eval(), processor, name)
    log.info("loaded %s: %s", name, adapter.description)
    return adapter
