"""The models of the server, and a cache of the inputs requested last."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attnflow.pipeline.config import ExplainConfig
from attnflow.pipeline.session import Session
from attnflow.solvers.execution import Execution
from attnflow.views.explorer.images import decode_image, pixels_of, to_data_url
from attnflow.views.explorer.server.limits import ApiError, Job, Limits
from attnflow.views.explorer.server.memory import PIXEL_BYTES, Memory, Shape
from attnflow.views.explorer.server.requests import InputRequest

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter, Tokens

EXAMPLE = "the keys to the cabinet"
Opened = tuple[Session, str | None]  # with the data URL of an image
Cost = Callable[[Shape], int]  # bytes of the work on a session, beside its forward pass


@dataclass(frozen=True)
class Prepared:
    """An input as tokens: what is known before the model runs."""

    adapter: ModelAdapter
    tokens: Tokens
    config: ExplainConfig
    image: str | None

    @property
    def shape(self) -> Shape:
        """What decides how much memory it takes."""
        threads = self.config.execution.threads or 1
        return Shape(self.adapter, self.config.rule, len(self.tokens), threads)


class SessionCache:
    """Sessions of inputs, opened by the first request and cached for the next."""

    def __init__(self, models: Mapping[str, ModelAdapter], limits: Limits, threads: int) -> None:
        self.models = {name: _reader(adapter) for name, adapter in models.items()}
        self.limits = limits
        self.memory = Memory(limits)
        self.execution = Execution(threads)
        self._cached: OrderedDict[str, Opened] = OrderedDict()
        self._lock = threading.Lock()

    def describe_models(self) -> list[dict[str, Any]]:
        """The models to choose from."""
        return [
            {
                "name": name,
                "kind": adapter.kind,
                "head": str(adapter.description["head"]),
                "layers": adapter.depth,
            }
            for name, adapter in self.models.items()
        ]

    @contextmanager
    def open(self, request: InputRequest, job: Job, cost: Cost) -> Iterator[Opened]:
        """The session of an input and, for images, its data URL; inside, memory is reserved."""
        name = self._check(request)
        given = (name, request.text, request.image, request.answer)
        parts = (*given, request.edges, request.target_at)
        key = hashlib.sha256(repr(parts).encode("utf-8", "backslashreplace")).hexdigest()
        with self._lock:
            opened = self._cached.get(key)
            if opened is not None:
                self._cached.move_to_end(key)
        job.check()
        prepared = self._prepare(name, request, job) if opened is None else _of(opened)
        request.check_against(prepared.adapter.depth, _size(prepared))
        needed = cost(prepared.shape) + (prepared.shape.forward if opened is None else 0)
        with self.memory.reserve(needed, job):
            if opened is None:
                opened = self._run(prepared)
                self._store(key, opened)
            try:
                yield opened
            finally:
                self._trim()  # its graphs have grown

    def _prepare(self, name: str, request: InputRequest, job: Job) -> Prepared:
        adapter = self.models[name]
        config = ExplainConfig(
            edges=request.edges, query=request.target_at, execution=self.execution
        )
        url = None
        if request.image is None:
            tokens = self._tokenize(adapter, config, request, job)
        else:
            pixels = pixels_of(request.image, self.limits.pixels)
            with self.memory.reserve(PIXEL_BYTES * pixels, job):
                image = decode_image(request.image, self.limits.pixels)
                tokens, url = adapter.tokenize(image), to_data_url(image)
        self._check_size(tokens)
        return Prepared(adapter, tokens, config, url)

    def _tokenize(
        self, adapter: ModelAdapter, config: ExplainConfig, request: InputRequest, job: Job
    ) -> Tokens:
        if adapter.kind != "pair" or request.answer is not None:
            return adapter.tokenize(request.text, answer=request.answer)
        # The model's own answer takes runs of the model: the text alone must be within the limits.
        alone = adapter.tokenize(request.text, answer="")
        self._check_size(alone)
        with self.memory.reserve(Prepared(adapter, alone, config, None).shape.forward, job):
            return adapter.tokenize(request.text)

    def _check_size(self, tokens: Tokens) -> None:
        if len(tokens) > self.limits.tokens:
            most = self.limits.tokens
            msg = f"the input has {len(tokens)} tokens; at most {most} are explained here"
            raise ApiError(413, "too-large", msg)

    def _run(self, prepared: Prepared) -> Opened:
        adapter, config = prepared.adapter, prepared.config
        (forward,) = adapter.run([prepared.tokens], config.query, config.capture(all_heads=True))
        return Session(adapter, forward, config), prepared.image

    def _check(self, request: InputRequest) -> str:
        name = next(iter(self.models)) if request.model is None else request.model
        if name not in self.models:
            msg = f"model={name!r} is not served here; allowed: {', '.join(self.models)}"
            raise ApiError(404, "unknown-model", msg)
        kind = self.models[name].kind
        wanted, other = ("image", "text") if kind == "image" else ("text", "image")
        if getattr(request, wanted) is None or getattr(request, other) is not None:
            takes = "an image" if kind == "image" else "text"
            msg = f"{name} takes {takes}; send {wanted!r} alone"
            raise ApiError(422, "invalid", msg)
        if request.answer is not None and kind != "pair":
            msg = f"{name} writes no answer; send none"
            raise ApiError(422, "invalid", msg)
        for field in ("text", "answer"):
            length = len(getattr(request, field) or "")
            if length > self.limits.characters:
                msg = f"{field} has {length:,} characters; at most {self.limits.characters:,}"
                raise ApiError(413, "too-large", msg)
        return str(name)

    def _store(self, key: str, opened: Opened) -> None:
        with self._lock:
            self._cached[key] = opened
        self._trim()

    def _trim(self) -> None:
        """Drop the oldest inputs until the others are within the limits."""
        with self._lock:
            sizes = {key: session.nbytes for key, (session, _) in self._cached.items()}
            while self._cached and (
                sum(sizes.values()) > self.limits.cached_bytes
                or len(self._cached) > self.limits.cached_inputs
            ):
                key, _ = self._cached.popitem(last=False)
                del sizes[key]


def _reader(adapter: ModelAdapter) -> ModelAdapter:
    """Of two towers the one that reads text: for both, a text that names an image file is read."""
    from attnflow.models.towers import TowersModel

    return adapter.tower("text") if isinstance(adapter, TowersModel) else adapter


def _of(opened: Opened) -> Prepared:
    session, image = opened
    return Prepared(session.adapter, session.tokens, session.config, image)


def _size(prepared: Prepared) -> int | None:
    """How many positions there are; a vision model adds some to its patches as it runs."""
    return None if prepared.adapter.kind == "image" else len(prepared.tokens)


def distinct_names(names: Sequence[str]) -> list[str]:
    """The names, with a number behind one that was there before."""
    found: list[str] = []
    for name in names:
        number = 2
        distinct = name
        while distinct in found:
            distinct = f"{name} ({number})"
            number += 1
        found.append(distinct)
    return found
