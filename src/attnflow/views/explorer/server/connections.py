"""Connections that cost a client little and the server much are closed: idle, slow, too many."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from attnflow.views.explorer.server.access import client_group
from attnflow.views.explorer.server.limits import Limits

if TYPE_CHECKING:
    from fastapi import FastAPI

HEAD_BYTES = 32 * 1024  # of a request's first line and headers


class BoundedProtocol(H11Protocol):
    """HTTP with clocks: on a request's head, and on a response that nobody reads.

    Connections are limited, in all and for each client. One more takes the place of the one whose
    client has been waited for longest, so that nobody is kept out by connections on which nothing
    is sent.
    """

    limits = Limits()

    def connection_made(self, transport: Any) -> None:
        """A new connection: its first request must come soon."""
        super().connection_made(transport)
        self.group = client_group(self.client[0]) if self.client else ""
        self.since = self.loop.time()  # how long its client has been waited for, if it is
        self._waiting: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        if self._makes_room():
            self._expect_head()
            return
        message = "too many connections; try again in a second"
        self._refuse("503 Service Unavailable\r\nRetry-After: 1", "busy", message)

    def _makes_room(self) -> bool:
        """Whether this connection is within the limits, if need be in place of another one."""
        of_client = Counter(each.group for each in self._others())
        replaced = []
        if of_client[self.group] >= self.limits.connections_each:
            replaced = [each for each in self._others() if each.group == self.group]
        elif of_client.total() >= self.limits.connections:
            replaced = list(self._others())
        else:
            return True
        idle = [each for each in replaced if each.awaits_client]
        if not idle:
            return False
        # Whoever has most connections loses one.
        oldest = min(idle, key=lambda each: (-of_client[each.group], each.since))
        oldest.transport.abort()
        self.connections.discard(oldest)
        return True

    def _others(self) -> Iterator[BoundedProtocol]:
        for each in self.connections:
            if isinstance(each, BoundedProtocol) and each is not self:
                yield each

    @property
    def awaits_client(self) -> bool:
        """Whether the client's turn is next: to send, or to read what was sent."""
        idle = self.cycle is None or self.cycle.response_complete
        return idle or self.cycle.more_body or self._unread is not None

    def data_received(self, data: bytes) -> None:
        """A part of a request: the clock runs until its head is complete."""
        super().data_received(data)
        self._expect_head()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP is refused in the same shape as everything else."""
        self._refuse("400 Bad Request", "invalid", msg)

    def _refuse(self, start: str, code: str, message: str) -> None:
        body = json.dumps({"error": {"code": code, "message": message}}).encode()
        head = (
            f"HTTP/1.1 {start}\r\nContent-Type: application/json\r\n"
            f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def on_response_complete(self) -> None:
        """The next request may come; while nothing arrives, uvicorn's own clock runs."""
        self.since = self.loop.time()
        super().on_response_complete()
        self._stop_waiting()

    def pause_writing(self) -> None:
        """The client does not read."""
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(self.limits.transfer_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The client reads again."""
        super().resume_writing()
        self._stop_unread()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end: no clock may run on."""
        self._stop_waiting()
        self._stop_unread()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._waiting is None:
            self._waiting = self.loop.call_later(self.limits.head_seconds, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _stop_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None


class BoundedServer(uvicorn.Server):
    """A server that tells its workers when it stops, so that running requests get an answer."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop: what runs may end within some seconds, and is answered in any case."""
        app: Any = self.config.app
        app.state.workers.stop()
        super().handle_exit(sig, frame)


def make_server(app: FastAPI, host: str, port: int, limits: Limits) -> BoundedServer:
    """The server of an application, ready to run."""
    protocol = type("Protocol", (BoundedProtocol,), {"limits": limits})
    return BoundedServer(
        uvicorn.Config(
            app,
            host=host,
            port=port,
            http=protocol,
            ws="none",
            log_level="warning",
            h11_max_incomplete_event_size=HEAD_BYTES,
            timeout_keep_alive=max(1, int(min(5, limits.head_seconds))),
            timeout_graceful_shutdown=int(limits.closing_seconds) + 2,
            server_header=False,
        )
    )
