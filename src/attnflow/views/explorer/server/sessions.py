"""The models of the server, and a cache of the inputs requested last."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attnflow.pipeline.config import ExplainConfig
from attnflow.pipeline.session import Session
from attnflow.solvers.execution import Execution
from attnflow.views.explorer.images import decode_image, to_data_url
from attnflow.views.explorer.server.limits import ApiError, Job, Limits
from attnflow.views.explorer.server.requests import InputRequest

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter, Tokens

EXAMPLE = "the keys to the cabinet"
Opened = tuple[Session, str | None]  # with the data URL of an image


class SessionCache:
    """Sessions of inputs, opened by the first request and cached for the next."""

    def __init__(self, models: Mapping[str, ModelAdapter], limits: Limits, threads: int) -> None:
        self.models = dict(models)
        self.limits = limits
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

    def open(self, request: InputRequest, job: Job) -> Opened:
        """The session of an input and, for images, its data URL."""
        name = self._check(request)
        parts = (name, request.text, request.image, request.answer, request.edges)
        key = hashlib.sha256(repr(parts).encode("utf-8", "backslashreplace")).hexdigest()
        with self._lock:
            if key in self._cached:
                self._cached.move_to_end(key)
                return self._cached[key]
        job.check()
        adapter = self.models[name]
        image = None if request.image is None else decode_image(request.image)
        config = ExplainConfig(edges=request.edges, execution=self.execution)
        tokens = adapter.tokenize(request.text if image is None else image, answer=request.answer)
        self._check_size(tokens)
        (forward,) = adapter.run([tokens], None, config.capture(all_heads=True))
        opened = (Session(adapter, forward, config), None if image is None else to_data_url(image))
        self._store(key, opened)
        return opened

    def _check(self, request: InputRequest) -> str:
        name = next(iter(self.models)) if request.model is None else request.model
        if name not in self.models:
            msg = f"model={name!r} is not served here; allowed: {', '.join(self.models)}"
            raise ApiError(404, "unknown-model", msg)
        kind = self.models[name].kind
        if (request.image is None) == (kind == "image"):
            expected = "image" if kind == "image" else "text"
            msg = f"{name} takes {'an image' if kind == 'image' else 'text'}; send {expected!r}"
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

    def _check_size(self, tokens: Tokens) -> None:
        if len(tokens) > self.limits.tokens:
            most = self.limits.tokens
            msg = f"the input has {len(tokens)} tokens; at most {most} are explained here"
            raise ApiError(413, "too-large", msg)

    def _store(self, key: str, opened: Opened) -> None:
        with self._lock:
            self._cached[key] = opened
            total = sum(session.nbytes for session, _ in self._cached.values())
            while self._cached and (
                total > self.limits.cached_bytes or len(self._cached) > self.limits.cached_inputs
            ):
                _, (oldest, _) = self._cached.popitem(last=False)
                total -= oldest.nbytes
