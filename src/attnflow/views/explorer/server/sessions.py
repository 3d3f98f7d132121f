"""What the server knows: a fixed list of models, and the inputs it was asked about last."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attnflow.pipeline.session import Choices, Session, study
from attnflow.views.explorer.images import picture, received
from attnflow.views.explorer.server.limits import ApiError, Job, Limits

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter

EXAMPLE = "the keys to the cabinet"


class SessionCache:
    """Studies of inputs, made when asked for and kept for the next question about them."""

    def __init__(self, models: Mapping[str, ModelAdapter], limits: Limits, threads: int) -> None:
        self.models = dict(models)
        self.limits = limits
        self.choices = Choices(threads=threads)
        self._kept: OrderedDict[str, tuple[Session, str | None]] = OrderedDict()
        self._lock = threading.Lock()

    def kind(self, name: str) -> str:
        """What a model reads: a text, a pair of texts, or an image."""
        from attnflow.models.seq2seq import Seq2SeqModel
        from attnflow.models.vision import VisionModel

        kinds = {VisionModel: "image", Seq2SeqModel: "pair"}
        return kinds.get(type(self.models[name]), "text")

    def described(self) -> list[dict[str, Any]]:
        """The models, for people to choose from."""
        return [
            {
                "name": name,
                "kind": self.kind(name),
                "head": str(adapter.description["head"]),
                "layers": adapter.depth,
            }
            for name, adapter in self.models.items()
        ]

    def open(self, asked: Any, job: Job) -> tuple[Session, str | None]:
        """The study of an input and, for images, the picture of it."""
        name = self._check(asked)
        parts = (name, asked.text, asked.image, asked.target, asked.query_of())
        place = hashlib.sha256(repr(parts).encode("utf-8", "backslashreplace")).hexdigest()
        with self._lock:
            if place in self._kept:
                self._kept.move_to_end(place)
                return self._kept[place]
        job.check()
        image = received(asked.image) if self.kind(name) == "image" else None
        adapter = self.models[name]
        item = asked.text if image is None else image
        self._check_tokens(adapter, item, asked.target)
        made = study(
            item, adapter, query=asked.query_of(), target=asked.target, choices=self.choices
        )
        found = (made, None if image is None else picture(image))
        self._keep(place, found)
        return found

    def _check(self, asked: Any) -> str:
        name = next(iter(self.models)) if asked.model is None else asked.model
        if name not in self.models:
            msg = f"model={name!r} is not served here; allowed: {', '.join(self.models)}"
            raise ApiError(404, "unknown-model", msg)
        kind = self.kind(name)
        if (asked.image is None) == (kind == "image"):
            wanted = "image" if kind == "image" else "text"
            msg = f"{name} reads {'an image' if kind == 'image' else 'text'}; send {wanted!r}"
            raise ApiError(422, "invalid", msg)
        if asked.target is not None and kind != "pair":
            msg = f"{name} writes no answer; send no target"
            raise ApiError(422, "invalid", msg)
        for field in ("text", "target"):
            length = len(getattr(asked, field) or "")
            if length > self.limits.characters:
                msg = f"{field} has {length:,} characters; at most {self.limits.characters:,}"
                raise ApiError(413, "too-large", msg)
        return str(name)

    def _check_tokens(self, adapter: ModelAdapter, item: Any, target: str | None) -> None:
        count = len(adapter.tokenize(item, target=target))
        if count > self.limits.tokens:
            msg = f"the input has {count} tokens; at most {self.limits.tokens} are explained here"
            raise ApiError(413, "too-large", msg)

    def _keep(self, place: str, found: tuple[Session, str | None]) -> None:
        with self._lock:
            self._kept[place] = found
            total = sum(made.bytes for made, _ in self._kept.values())
            while self._kept and (total > self.limits.kept or len(self._kept) > self.limits.inputs):
                _, (oldest, _) = self._kept.popitem(last=False)
                total -= oldest.bytes
