"""Checks of every request (host, origin, token, size, time), and security headers of responses."""

from __future__ import annotations

import asyncio
import re
from collections import Counter

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from attnflow.views.explorer.server.access import (
    Access,
    client_group,
    read_cookies,
    visitor_name,
)
from attnflow.views.explorer.server.limits import Limits
from attnflow.views.explorer.server.workers import Client

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
LOCKED = (
    "this server needs its token: open the link that attnflow serve printed, "
    "or send the header Authorization: Bearer TOKEN"
)
LENGTH = re.compile("[0-9]{1,18}")  # Python reads no number of thousands of digits
LONGEST_MESSAGE = 2000  # characters: it may quote what was sent
OPEN_TO_ALL = ("/health",)  # says nothing that a token protects


def error_response(
    status: int, code: str, message: str, retry_after: int | None = None
) -> JSONResponse:
    """An error in the shape of `ErrorResponse`."""
    later = {} if retry_after is None else {"Retry-After": str(retry_after)}
    short = message if len(message) <= LONGEST_MESSAGE else f"{message[:LONGEST_MESSAGE]} …"
    # A message may quote half a character, which is no UTF-8.
    readable = short.encode("utf-8", "backslashreplace").decode()
    content = {"error": {"code": code, "message": readable}}
    return JSONResponse(content, status_code=status, headers={**HEADERS, **later})


class Guard:
    """Middleware that refuses foreign hosts and origins, strangers, and what is large or slow."""

    def __init__(self, app: ASGIApp, access: Access, limits: Limits, most: int) -> None:
        self.app = app
        self.access = access
        self.limits = limits
        self.most = most  # bytes of a request
        self.held: Counter[str] = Counter()  # bytes of the requests of each client

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

        refusal = self._refusal(scope, Headers(scope=scope))
        if refusal is not None:
            await refusal(scope, receive, send_with_headers)
            return
        body = ReceivedBody(self, receive, address_of(scope))
        try:
            await self.app(scope, body.receive, send_with_headers)
        finally:
            self.held -= Counter({body.client: body.size})

    def hold(self, client: str, size: int) -> None:
        """More bytes of a request; refused where all requests, or those of a client, have many."""
        if self.held[client] + size > self.limits.bodies_each:
            msg = "requests of yours that are pending are large; try again in a second"
            raise HTTPException(429, msg, {"Connection": "close", "Retry-After": "1"})
        if self.held.total() + size > self.limits.bodies:
            msg = "the server holds many large requests; try again in a second"
            raise HTTPException(503, msg, {"Connection": "close", "Retry-After": "1"})
        self.held[client] += size

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        host = headers.get("host", "")
        if not self.access.allows_host(host):
            # DNS rebinding: a web site whose name leads here could otherwise use a local server.
            msg = "this server does not answer to that host name; attnflow serve --allow-host NAME"
            return error_response(403, "forbidden", msg)
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in _origins(host):
            return error_response(403, "forbidden", "pages of other sites may not use this server")
        locked = self._locked(scope, headers)
        if locked is not None:
            return locked
        length = headers.get("content-length", "0")
        if not LENGTH.fullmatch(length) or int(length) > self.most:
            return error_response(413, "too-large", _too_large(self.most))
        return None

    def _locked(self, scope: Scope, headers: Headers) -> Response | None:
        """What a request gets that lacks the token, or brings it in a link."""
        port = port_of(scope)
        if scope["path"] == "/":
            rest = self.access.without_token(scope["query_string"].decode("latin-1"))
            if rest is not None:
                # The token must not stay in the address, which is copied and bookmarked.
                link = RedirectResponse(f"/?{rest}" if rest else "/", status_code=303)
                link.headers["Set-Cookie"] = self.access.cookie(port)
                return link
        if scope["path"] in OPEN_TO_ALL or self.access.allows_token(headers, port):
            return None
        if "text/html" in headers.get("accept", ""):
            return HTMLResponse(_locked_page(), status_code=401)
        return error_response(401, "unauthorized", LOCKED)


def _origins(host: str) -> tuple[str, str]:
    return f"http://{host.lower()}", f"https://{host.lower()}"


def _locked_page() -> str:
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>attnflow</title>'
        '<meta name="viewport" content="width=device-width"><h1>attnflow</h1>'
        f"<p>{LOCKED[0].upper()}{LOCKED[1:]}.</p></html>"
    )


def address_of(scope: Scope) -> str:
    """Which client a request is of; behind a proxy on this machine, the one that this names."""
    client = scope.get("client")
    return client_group(client[0]) if client else ""


def port_of(scope: Scope) -> int | None:
    """Where the server listens, whatever a proxy in front of it says."""
    server = scope.get("server")
    return server[1] if server else None


def client_of(request: Request) -> Client:
    """Who sent a request."""
    visitors = read_cookies(request.headers, visitor_name(port_of(request.scope)))
    return Client(address_of(request.scope), visitors[0] if visitors else "")


class ReceivedBody:
    """The body of a request, as long as it is short and comes in time."""

    def __init__(self, guard: Guard, receive: Receive, client: str) -> None:
        self.guard = guard
        self.client = client
        self.size = 0
        self._receive = receive
        self._complete = False
        limits = guard.limits
        self._deadline = asyncio.get_running_loop().time() + limits.transfer_seconds

    async def receive(self) -> Message:
        """The next part of it; after the last one, that the client leaves."""
        if self._complete:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError as error:
            most = self.guard.limits.transfer_seconds
            msg = f"the request did not arrive within {most:g} seconds"
            raise HTTPException(408, msg, {"Connection": "close"}) from error
        size = len(message.get("body", b""))
        if self.size + size > self.guard.most:
            raise HTTPException(413, _too_large(self.guard.most))
        self.guard.hold(self.client, size)
        self.size += size
        self._complete = not message.get("more_body", False)
        return message


def _too_large(most: int) -> str:
    return f"a request has at most {most:,} bytes"
