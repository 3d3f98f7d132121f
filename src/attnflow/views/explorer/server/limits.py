"""How much a server does for its clients, and the errors where that is exceeded."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from attnflow.errors import AttnflowError

GIB = 1024**3


@dataclass(frozen=True)
class Limits:
    """The limits of one server.

    A *client* is an address; of IPv6, where one machine has many, a network of 64 bits.

    Attributes:
        characters: Of a text.
        tokens: Of an input, special ones included.
        image: Bytes of an image, as base64.
        pixels: Of an image; looked up before it is decoded.
        workers: Requests that are processed at the same time. One more is, where all these are of
            other clients.
        waiting: Requests that wait for a worker; one more gets the error "busy".
        waiting_each: Requests of one client that wait.
        seconds: That a request may take, waiting included.
        cached_inputs: Inputs cached for further requests.
        cached_bytes: Bytes of attention of all cached inputs together.
        memory: Bytes that all requests together may take, beside models and cache; estimated from
            shapes before anything is allocated.
        request_memory: Bytes that one request may take.
        bodies: Bytes of all requests that are received, wait or are processed.
        bodies_each: The same of one client.
        connections: Open at the same time. One more takes the place of one whose client is waited
            for; where there is none, it gets the error "busy".
        connections_each: The same of one client.
        head_seconds: In which the head of a request must have arrived.
        transfer_seconds: In which a whole request must have arrived; as long may a client leave its
            response unread.
        closing_seconds: That running requests get when the server stops.
    """

    characters: int = 20_000
    tokens: int = 512
    image: int = 8 * 1024 * 1024
    pixels: int = 16_000_000
    workers: int = 2
    waiting: int = 512
    waiting_each: int = 256
    seconds: float = 60.0
    cached_inputs: int = 64
    cached_bytes: int = 256 * 1024 * 1024
    memory: int = 4 * GIB
    request_memory: int = 2 * GIB
    bodies: int = 128 * 1024 * 1024
    bodies_each: int = 64 * 1024 * 1024
    connections: int = 512
    connections_each: int = 256
    head_seconds: float = 5.0
    transfer_seconds: float = 15.0
    closing_seconds: float = 4.0


class ApiError(AttnflowError):
    """A request without a result: a code for programs, a message for people.

    ``retry_after`` is in how many seconds the same request may have one.
    """

    def __init__(
        self, status: int, code: str, message: str, *, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after = retry_after


class Cancelled(BaseException):
    """Work that was cancelled: its client left, or its time is up.

    No error, as in asyncio: code that tries something else after an error must not do so then.
    """


@dataclass
class Job:
    """One piece of work: `check` is called between its steps, and ends it when it is stopped."""

    deadline: float = field(default_factory=lambda: time.monotonic() + 60.0)
    stopped: threading.Event = field(default_factory=threading.Event)

    def check(self) -> None:
        """Stop here if the client has left or time is up."""
        if self.stopped.is_set() or time.monotonic() > self.deadline:
            msg = "the work was stopped"
            raise Cancelled(msg)
