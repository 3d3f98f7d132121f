"""``attnflow serve``: the explorer in the browser."""

from __future__ import annotations

import math
import re
from typing import Annotated

import typer

from attnflow.cli import options
from attnflow.cli.errors import printable
from attnflow.errors import InputError

Host = Annotated[
    str,
    typer.Option(
        "--host",
        metavar="ADDRESS",
        help="Where to listen; 0.0.0.0 lets the whole network in, with a token.",
        rich_help_panel="Server",
    ),
]
Port = Annotated[
    int,
    typer.Option(
        "--port", metavar="N", min=1, max=65535, help="The port.", rich_help_panel="Server"
    ),
]
AllowHost = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-host",
        metavar="NAME",
        help="A host name to answer to; repeat it for several. [default: that of --host]",
        rich_help_panel="Server",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="TOKEN",
        help="What a browser must bring. [default: a new one beyond this machine, else none]",
        rich_help_panel="Server",
    ),
]
Memory = Annotated[
    float,
    typer.Option(
        "--max-memory",
        metavar="GIB",
        help="What all requests together may take beside the models; one takes at most half.",
        rich_help_panel="Server",
    ),
]
Workers = Annotated[
    int,
    typer.Option(
        "--workers",
        metavar="N",
        min=1,
        help="Requests processed at the same time.",
        rich_help_panel="Server",
    ),
]
Tokens = Annotated[
    int,
    typer.Option(
        "--max-tokens", metavar="N", min=1, help="The longest input.", rich_help_panel="Server"
    ),
]
Seconds = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        help="The longest that a request may take.",
        rich_help_panel="Server",
    ),
]


def serve(  # noqa: PLR0913 - one argument per option
    *,
    model: options.Models = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    allow_host: AllowHost = None,
    token: Token = None,
    workers: Workers = 2,
    max_tokens: Tokens = 512,
    timeout: Seconds = 60,
    max_memory: Memory = 4,
    plugin: options.Plugins = None,
) -> None:
    """Open the explorer: an interactive view in the browser.

    Give --model several times to choose between models; requests can name no others.

    Example: attnflow serve --port 8000
    """
    if not 0 < timeout < math.inf:
        msg = f"--timeout {timeout:g} must be more than 0 seconds"
        raise InputError(msg)
    if not 0 < max_memory < math.inf:
        msg = f"--max-memory {max_memory:g} must be more than 0 GiB"
        raise InputError(msg)
    if token is not None and not re.fullmatch(r"[A-Za-z0-9_-]{16,}", token):
        msg = "--token must be 16 or more letters, digits, - and _; leave it out to get a new one"
        raise InputError(msg)
    import errno
    import socket

    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (TypeError, ValueError) as error:  # a name that no host can have
            msg = f"--host {host!r} is no address: {error}; choose another --host"
            raise InputError(msg) from error
        except OSError as error:
            no_host = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
            other = "--host" if no_host else "--port"
            msg = f"cannot listen on {host} port {port}: {error.strerror}; choose another {other}"
            raise InputError(msg) from error
    from attnflow.views.explorer.server import access
    from attnflow.views.explorer.server.app import serve as run
    from attnflow.views.explorer.server.limits import GIB, Limits

    for name in allow_host or []:
        if access.host_name(access.bracketed(name)) is None:
            msg = f"--allow-host {name!r} is no host name; give one like explorer.example.org"
            raise InputError(msg)
    if token is None and not access.is_loopback(host):
        token = access.new_token()
    hosts = [access.bracketed(name) for name in allow_host or access.default_hosts(host)]
    typer.echo(printable(f"loading {', '.join(model or ['the shipped model'])} …"), err=True)
    memory = int(max_memory * GIB)
    limits = Limits(
        workers=workers,
        tokens=max_tokens,
        seconds=timeout,
        memory=memory,
        request_memory=memory // 2,
    )
    shown = hosts[0] if host in access.EVERYWHERE else access.bracketed(host)

    def ready() -> None:
        link = "" if token is None else f"/?token={token}"
        typer.echo(f"http://{shown}:{port}{link}")
        typer.echo("open this address in a browser; Ctrl-C stops the server", err=True)

    run(model or [], host, port, limits, access.Access(tuple(hosts), token), ready=ready)
    raise KeyboardInterrupt  # the server only ends when it is interrupted
