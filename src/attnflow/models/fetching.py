"""From a name to a network and what reads its inputs: folders, GGUF files, the hub."""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from safetensors import SafetensorError

from attnflow.errors import InputError, ModelError, shown
from attnflow.io.progress import import_tqdm
from attnflow.models import hub
from attnflow.models.heads import BARE, CAUSAL, SEQ2SEQ, HeadKind, head_of
from attnflow.models.kinds import kind_of
from attnflow.models.locating import exists, locate, why_not_here, why_not_loaded
from attnflow.models.packing import PACKED, unpack
from attnflow.shipped import OWNER, find_shipped

log = logging.getLogger("attnflow")
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
            msg = f"dtype={shown(self.dtype)} is unknown; allowed: {', '.join(map(repr, DTYPES))}"
            raise InputError(msg)
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
            if hub.is_unavailable():
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
    """A model by its name and how it is loaded, which travels to other processes as it is.

    Attributes:
        name: A hub name, a folder or a GGUF file; ``None`` is the model shipped with attnflow.
        options: How it is loaded.
    """

    name: str | None
    options: LoadOptions


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


class Checkpoint:
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
        if "local_files_only" in self.find and not hub.is_cached(self.where, options.revision):
            # Said before anything heavy is imported: it is often a name that was mistyped.
            raise ModelError(why_not_here(self.source))
        import transformers

        self.transformers: Any = transformers
        self.build = options.to_build()

    def load(self) -> tuple[Any, Any]:
        """The network, and its tokenizer, image processor or whatever reads its inputs."""
        try:
            with no_bars():
                network = self._network(self._head())
                return network, self._processor(network)
        except (
            *(OSError, ValueError, ImportError, KeyError, EOFError),
            *(RuntimeError, UnpicklingError, SafetensorError),  # of files that are damaged
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
        # Where weights are missing, transformers draws them at random.
        if lacking := sorted(name for name in missing if not any(map(name.__contains__, SPARE))):
            msg = f"{len(lacking)} weights of the model are missing: {', '.join(lacking[:3])}"
            raise ValueError(msg + " …" * (len(lacking) > 3))
        return network

    def _read(self, loader: Any) -> tuple[Any, Collection[str]]:
        """The network, and the names of its weights that the checkpoint does not have."""
        options = {**self.find, **self.build}
        network, report = loader.from_pretrained(self.where, output_loading_info=True, **options)
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
