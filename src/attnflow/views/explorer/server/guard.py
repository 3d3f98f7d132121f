"""Checks of every request (host, origin, token, size, time), and security headers of responses."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from attnflow.views.explorer.server.access import Access
from attnflow.views.explorer.server.limits import Limits

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
OPEN_TO_ALL = ("/health",)  # says nothing that a token protects


def error_response(status: int, code: str, message: str) -> JSONResponse:
    """An error in the shape of `ErrorResponse`."""
    later = {"Retry-After": "1"} if status == 503 else {}
    # A message may quote half a character, which is no UTF-8.
    readable = message.encode("utf-8", "backslashreplace").decode()
    content = {"error": {"code": code, "message": readable}}
    return JSONResponse(content, status_code=status, headers={**HEADERS, **later})


class Guard:
    """Middleware that refuses foreign hosts and origins, strangers, and what is large or slow."""

    def __init__(self, app: ASGIApp, access: Access, limits: Limits) -> None:
        self.app = app
        self.access = access
        self.limits = limits

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
        await self.app(scope, _limit_body(receive, self.limits), send_with_headers)

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
        if not length.isdigit() or int(length) > self.limits.body:
            return error_response(413, "too-large", _too_large(self.limits.body))
        return None

    def _locked(self, scope: Scope, headers: Headers) -> Response | None:
        """What a request gets that lacks the token, or brings it in a link."""
        port = (scope.get("server") or (None, None))[1]
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


def _limit_body(receive: Receive, limits: Limits) -> Receive:
    """The body of a request, as long as it is short and comes in time."""
    total = 0
    complete = False
    deadline = asyncio.get_running_loop().time() + limits.transfer_seconds

    async def receive_counted() -> Message:
        nonlocal total, complete
        if complete:  # what comes now is that the client leaves, at any time
            return await receive()
        try:
            async with asyncio.timeout_at(deadline):
                message: Any = await receive()
        except TimeoutError as error:
            msg = f"the request did not arrive within {limits.transfer_seconds:g} seconds"
            raise HTTPException(408, msg, {"Connection": "close"}) from error
        total += len(message.get("body", b""))
        complete = not message.get("more_body", False)
        if total > limits.body:
            raise HTTPException(413, _too_large(limits.body))
        return message  # type: ignore[no-any-return]

    return receive_counted


def _too_large(most: int) -> str:
    return f"a request has at most {most:,} bytes"
