"""``attnflow serve``: the explorer in the browser."""

from __future__ import annotations

import math
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
        help="Where to listen; 0.0.0.0 lets the whole network in.",
        rich_help_panel="Server",
    ),
]
Port = Annotated[
    int,
    typer.Option(
        "--port", metavar="N", min=1, max=65535, help="The port.", rich_help_panel="Server"
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
    workers: Workers = 2,
    max_tokens: Tokens = 512,
    timeout: Seconds = 60,
    plugin: options.Plugins = None,
) -> None:
    """Open the explorer: an interactive view in the browser.

    Give --model several times to choose between models; requests can name no others.

    Example: attnflow serve --port 8000
    """
    if not 0 < timeout < math.inf:
        msg = f"--timeout {timeout:g} must be more than 0 seconds"
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
    from attnflow.views.explorer.server.app import serve as run
    from attnflow.views.explorer.server.limits import Limits

    typer.echo(printable(f"loading {', '.join(model or ['the shipped model'])} …"), err=True)
    limits = Limits(workers=workers, tokens=max_tokens, seconds=timeout)
    address = f"[{host}]" if ":" in host else host

    def ready() -> None:
        typer.echo(f"http://{address}:{port}")
        typer.echo("open this address in a browser; Ctrl-C stops the server", err=True)

    run(model or [], host, port, limits, ready=ready)
    raise KeyboardInterrupt  # the server only ends when it is interrupted
