"""The models of the server, and a cache of the inputs requested last."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from attnflow.edges import EDGE_RULES
from attnflow.models.answers.interface import answers_of
from attnflow.models.pair.seq2seq import ANSWER
from attnflow.models.text.writing import Writing
from attnflow.pipeline.choice import Chosen
from attnflow.pipeline.prepare import Given, Prepared, Refused, prepare, run_batch
from attnflow.pipeline.request import Request
from attnflow.pipeline.session import Session
from attnflow.shipped import full_name
from attnflow.views.explorer.images import decode_image, pixels_of, to_data_url
from attnflow.views.explorer.server.limits import ApiError, Job, Limits
from attnflow.views.explorer.server.memory import PIXEL_BYTES, Memory, Shape
from attnflow.views.explorer.server.requests import AnswerRequest, InputRequest

if TYPE_CHECKING:
    from attnflow.edges import EdgeRule
    from attnflow.models.adapter import ModelAdapter, Tokens

EXAMPLE = "the keys to the cabinet"
EXAMPLES = {full_name("sentiment"): "The story is slow, but the music is wonderful."}
"""What is explained at first: by the model that is served first, or `EXAMPLE`."""
SHORTEST = 1  # tokens of an answer
Opened = tuple[Session, str | None]  # with the data URL of an image
Cost = Callable[[Shape], int]  # bytes of the work on a session, beside its forward pass


@dataclass(frozen=True)
class RequestedInput:
    """The input of a request: what is known before the model runs.

    ``image`` is the data URL of an image. ``falls_back`` says whether the model has refused the
    edges that are chosen for it before.
    """

    prepared: Prepared
    image: str | None
    falls_back: bool = False

    @property
    def adapter(self) -> ModelAdapter:
        """The model."""
        return self.prepared.model

    @property
    def tokens(self) -> Tokens:
        """The input as the model's tokens."""
        return self.prepared.tokens

    @property
    def chosen(self) -> Chosen:
        """The edges."""
        return self.prepared.chosen

    @property
    def shape(self) -> Shape:
        """What decides how much memory it takes."""
        config = self.chosen.config
        threads = config.threads or 1
        return Shape(self.adapter, config.rule, len(self.tokens), threads)

    @property
    def rules(self) -> tuple[EdgeRule, ...]:
        """What the edges may be made of."""
        other = self.chosen.fallback if self.falls_back else None
        return tuple(each.rule for each in (self.chosen.config, other) if each is not None)


class SessionCache:
    """Sessions of inputs, opened by the first request and cached for the next."""

    def __init__(self, models: Mapping[str, ModelAdapter], limits: Limits, threads: int) -> None:
        # Of two towers the one for texts: with both, the name of an image file would be read.
        self.models = {name: adapter.text_reader for name, adapter in models.items()}
        self.images = {name: each.reads_images for name, each in models.items()}
        self.limits = limits
        self.memory = Memory(limits)
        self.threads = threads
        self._cached: OrderedDict[str, Opened] = OrderedDict()
        self._falling_back: set[str] = set()  # models that refused the edges chosen for them
        self._lock = threading.Lock()

    def describe_models(self) -> list[dict[str, Any]]:
        """The models to choose from."""
        return [
            {
                "name": name,
                "kind": adapter.kind,
                "reads_text": adapter.reads_text,
                "reads_pairs": adapter.reads_pairs,
                "has_source": adapter.has_source,
                "writes": adapter.writes,
                "head": str(adapter.description["head"]),
                "layers": adapter.depth,
            }
            for name, adapter in self.models.items()
        ]

    @contextmanager
    def open(self, request: InputRequest, job: Job, cost: Cost) -> Iterator[Opened]:
        """The session of an input and, for images, its data URL; inside, memory is reserved."""
        name = self.check(request)
        given = (request.text, request.pair, request.image, request.answer)
        parts = (name, *given, *request.options.items())
        key = hashlib.sha256(repr(parts).encode("utf-8", "backslashreplace")).hexdigest()
        with self._open(key, lambda: self._prepare(name, request, job), request, job, cost) as here:
            session, at = here[0], request.explained
            if at is None or at == session.query or not session.towards_query:
                yield here
                return
        # Edges are towards what a position predicts, and another one is asked about.
        there = _of(here, replace(session.config, query=at))
        with self._open(f"{key}/{at}", lambda: there, request, job, cost) as opened:
            yield opened

    @contextmanager
    def _open(
        self,
        key: str,
        read: Callable[[], RequestedInput],
        request: InputRequest,
        job: Job,
        cost: Cost,
    ) -> Iterator[Opened]:
        """The session of that key: a cached one, or that of the input that is read for it."""
        with self._lock:
            opened = self._cached.get(key)
            if opened is not None:
                self._cached.move_to_end(key)
        job.check()
        asked = read() if opened is None else _of(opened)
        request.check_against(asked)
        needed = cost(asked.shape) + (asked.shape.forward if opened is None else 0)
        with self.memory.reserve(needed, job):
            if opened is None:
                opened = self._run(asked, job)
                if opened[0].config == asked.chosen.fallback:
                    self._falling_back.add(self.check(request))
                self._store(key, opened)
            try:
                yield opened
            finally:
                self._trim()  # its graphs have grown

    def _prepare(self, name: str, request: InputRequest, job: Job) -> RequestedInput:
        adapter = self.models[name]
        config = Request(**request.options, threads=self.threads)
        url = None

        def read(_: object) -> Tokens:
            nonlocal url
            if request.image is None:
                return self._read_text(adapter, request, job)
            pixels = pixels_of(request.image, self.limits.pixels)
            with self.memory.reserve(PIXEL_BYTES * pixels, job):
                image = decode_image(request.image, self.limits.pixels)
                url = to_data_url(image)
                return adapter.tokenize(image)

        (found,) = prepare(
            config,
            adapter,
            [request],
            read=read,
            check=lambda _, tokens: self.check_size(len(tokens)),
            refuse_unused=False,  # the page shows all methods, and some have a target anyway
        )
        if isinstance(found, Refused):
            raise found.error
        return RequestedInput(found, url, name in self._falling_back)

    def _read_text(self, adapter: ModelAdapter, request: InputRequest, job: Job) -> Tokens:
        if not (adapter.has_source and adapter.writes) or request.answer is not None:
            item = request.text if request.pair is None else (request.text, request.pair)
            return adapter.tokenize(item, answer=request.answer)
        if request.pair is not None:
            msg = f"{adapter.name} takes one text; send no 'pair'"
            raise ApiError(422, "invalid", msg)
        # The model writes its own answer, which takes a run for every token.
        answers = answers_of(adapter)
        source = answers.read(str(request.text))
        self.check_size(len(source) + SHORTEST)
        shape = Shape(adapter, EDGE_RULES["attention"], len(source), threads=1)
        with self.memory.reserve(shape.forward, job):
            return answers.write(source, Writing(ANSWER, check=job.check))

    def check_size(self, tokens: int) -> None:
        """Refuse an input of more tokens than are explained here."""
        if tokens > self.limits.tokens:
            most = self.limits.tokens
            msg = f"the input has {tokens} tokens; at most {most} are explained here"
            raise ApiError(413, "too-large", msg)

    def _run(self, asked: RequestedInput, job: Job) -> Opened:
        (session,) = run_batch([asked.prepared], all_heads=True, progress=lambda _: job.check())
        return session, asked.image

    def check(self, request: InputRequest | AnswerRequest) -> str:
        """The name of the model that a request is for, if it is one that this model takes."""
        name = next(iter(self.models)) if request.model is None else request.model
        if name not in self.models:
            msg = f"model={name!r} is not served here; allowed: {', '.join(self.models)}"
            raise ApiError(404, "unknown-model", msg)
        if isinstance(request, InputRequest):
            self._check_kind(request, name)
        for field in ("text", "pair", "answer"):
            length = len(getattr(request, field, None) or "")
            if length > self.limits.characters:
                msg = f"{field} has {length:,} characters; at most {self.limits.characters:,}"
                raise ApiError(413, "too-large", msg)
        return str(name)

    def _check_kind(self, request: InputRequest, name: str) -> None:
        """Refuse a text for a model of images, an image for one of texts, and an answer of none."""
        model = self.models[name]
        wanted, other = ("text", "image") if model.reads_text else ("image", "text")
        paired = request.pair is not None and not model.reads_text
        if getattr(request, wanted) is None or getattr(request, other) is not None or paired:
            takes = "text" if model.reads_text else "an image"
            msg = f"{name} takes {takes}; send {wanted!r} alone"
            images = self.images[name]
            if images is not None and request.image is not None:
                where = "Python" if images == "with text" else "Python and the command line"
                msg += f". Its images are for {where} (docs/models.md)"
            raise ApiError(422, "invalid", msg)
        if request.answer is not None and not model.has_source:
            msg = f"{name} writes no answer; send none"
            raise ApiError(422, "invalid", msg)

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


def _of(opened: Opened, config: Request | None = None) -> RequestedInput:
    """The input of a session, under its configuration or another."""
    session, image = opened
    chosen = Chosen(config or session.config)
    given = Given(0, 1, session.tokens.text)
    prepared = Prepared(session.adapter, session.tokens, session.objective, chosen, given)
    return RequestedInput(prepared, image)


def distinct_names(names: Sequence[str]) -> list[str]:
    """The names, with a number after one that was there before."""
    found: list[str] = []
    for name in names:
        number = 2
        distinct = name
        while distinct in found:
            distinct = f"{name} ({number})"
            number += 1
        found.append(distinct)
    return found
