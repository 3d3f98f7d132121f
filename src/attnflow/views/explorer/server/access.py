"""Who may use a server: under which names it answers, and the token that opens it to a network."""

from __future__ import annotations

import ipaddress
import re
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
EVERYWHERE = ("0.0.0.0", "::", "")
# Anything else, a user's name or a path for example, is no host.
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z_.-]+)(?::(\d{1,5}))?\Z")


@dataclass(frozen=True)
class Access:
    """The host names that a server answers to, and its token; without one everybody may use it.

    The names keep out web sites whose own name leads to this machine (DNS rebinding), the token
    everybody who was not given it.
    """

    hosts: Sequence[str] = LOOPBACK
    token: str | None = None

    def allows_host(self, host: str) -> bool:
        """Whether a ``Host`` header names this server."""
        name = host_name(host)
        return name is not None and name in {each.lower() for each in self.hosts}

    def allows_token(self, headers: Headers, port: int | None) -> bool:
        """Whether a request carries the token: as a bearer, or in the cookie of the link."""
        if self.token is None:
            return True
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(bearer.strip()):
            return True
        return any(map(self.is_token, read_cookies(headers, cookie_name(port))))

    def is_token(self, given: str) -> bool:
        """Whether this is the token, compared in constant time."""
        return self.token is not None and secrets.compare_digest(
            given.encode("utf-8", "replace"), self.token.encode()
        )

    def without_token(self, query: str) -> str | None:
        """The query of a link that opens the server, without its token; ``None`` for others."""
        pairs = parse_qsl(query, keep_blank_values=True)
        if self.token is None or not any(
            name == "token" and self.is_token(value) for name, value in pairs
        ):
            return None
        return urlencode([(name, value) for name, value in pairs if name != "token"])

    def cookie(self, port: int | None) -> str:
        """The cookie that a link sets: for this server alone, out of reach of scripts."""
        return f"{cookie_name(port)}={self.token}; Path=/; HttpOnly; SameSite=Lax"


def cookie_name(port: int | None) -> str:
    """Cookies know no ports: two servers of one machine need two names."""
    return f"attnflow-{port}"


def visitor_name(port: int | None) -> str:
    """The name of the cookie that tells the browsers of one address apart."""
    return f"{cookie_name(port)}-visitor"


def read_cookies(headers: Headers, name: str) -> list[str]:
    """The values of the cookies of that name, whatever else is sent.

    Other programs on this machine set cookies, too, of any form, and browsers send all of them.
    """
    pairs = [each.partition("=") for line in headers.getlist("cookie") for each in line.split(";")]
    return [value.strip().strip('"') for key, _, value in pairs if key.strip() == name]


def client_group(address: str) -> str:
    """The address by which clients are told apart: of IPv6, one has a network of 64 bits."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        plain = found.ipv4_mapped
        return str(plain or ipaddress.ip_network((found, 64), strict=False))
    return address


def host_name(host: str) -> str | None:
    """The name in a ``Host`` header, without its port; ``None`` for what is no host."""
    found = _HOST.match(host)
    if found is None or int(found[2] or 0) > 65535:
        return None
    return found[1].lower().rstrip(".")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def default_hosts(host: str) -> tuple[str, ...]:
    """The names under which a server that listens there is called."""
    if is_loopback(host):
        return (*LOOPBACK, bracketed(host))
    if host not in EVERYWHERE:
        return (bracketed(host),)
    own = socket.gethostname()
    try:
        found = {str(each[4][0]) for each in socket.getaddrinfo(own, None)}
    except OSError:
        found = set()
    return (own, *LOOPBACK, *sorted(bracketed(each) for each in found))


def bracketed(host: str) -> str:
    """An address as it stands in a URL."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def new_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(24)
