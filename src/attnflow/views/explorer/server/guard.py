"""Checks of every request (host, origin, size), and security headers of every response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
}


def error_response(status: int, code: str, message: str) -> JSONResponse:
    """An error in the shape of `ErrorResponse`."""
    later = {"Retry-After": "1"} if status == 503 else {}
    content = {"error": {"code": code, "message": message}}
    return JSONResponse(content, status_code=status, headers={**HEADERS, **later})


class Guard:
    """Middleware that refuses foreign hosts, foreign origins and bodies that are too large."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str] | None, body: int) -> None:
        self.app = app
        self.hosts = hosts  # None: any, for servers that listen to the network
        self.body = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        refusal = self._refusal(Headers(scope=scope))
        if refusal is not None:
            await refusal(scope, receive, send_with_headers)
            return
        await self.app(scope, _limit_body(receive, self.body), send_with_headers)

    def _refusal(self, headers: Headers) -> JSONResponse | None:
        host = headers.get("host", "")
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if self.hosts is not None and name not in self.hosts:
            # DNS rebinding: a web site whose name leads here could otherwise use a local server.
            return error_response(403, "forbidden", "this server answers to local names only")
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            return error_response(403, "forbidden", "pages of other sites may not use this server")
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > self.body:
            return error_response(413, "too-large", _too_large(self.body))
        return None


def _limit_body(receive: Receive, most: int) -> Receive:
    total = 0

    async def receive_counted() -> Message:
        nonlocal total
        message: Any = await receive()
        total += len(message.get("body", b""))
        if total > most:
            raise HTTPException(413, _too_large(most))
        return message  # type: ignore[no-any-return]

    return receive_counted


def _too_large(most: int) -> str:
    return f"a request has at most {most:,} bytes"
