"""``attnflow serve``: the explorer in the browser."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from attnflow.cli import options as own
from attnflow.cli.command import Given, ModelOptions, command
from attnflow.cli.command import choose as choose_model
from attnflow.cli.streams import echo
from attnflow.errors import InputError
from attnflow.options.tables import DeviceOptions
from attnflow.shipped import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Callable

    from attnflow.models.adapter import ModelAdapter
    from attnflow.models.loading import Source
    from attnflow.views.explorer.listing import Listing

Host = Annotated[
    str,
    own.flag(
        "--host ADDRESS",
        "The address to listen on; 0.0.0.0 lets the whole network in, with a token.",
        panel="Server",
    ),
]
Port = Annotated[int, own.flag("--port N", "The port.", panel="Server", min=1, max=65535)]
AllowHost = Annotated[
    list[str] | None,
    own.flag(
        "--allow-host NAME",
        "A host name to answer to; repeat for several. [default: that of --host]",
        panel="Server",
    ),
]
Token = Annotated[
    str | None,
    own.flag(
        "--token TOKEN",
        "The token a browser must send. [default: a random one unless --host is local]",
        panel="Server",
    ),
]
Memory = Annotated[
    float,
    own.flag(
        "--max-memory GIB",
        "Memory for all requests together, without the models; one may take half of it.",
        panel="Server",
    ),
]
Workers = Annotated[
    int,
    own.flag(
        "--workers N", "How many requests are processed at the same time.", panel="Server", min=1
    ),
]
Tokens = Annotated[
    int, own.flag("--max-tokens N", "The longest input, in tokens.", panel="Server", min=1)
]
Seconds = Annotated[
    float,
    own.flag("--timeout SECONDS", "The longest time that a request may take.", panel="Server"),
]
RunFolder = Annotated[
    Path | None,
    own.flag(
        "--run DIR",
        "List the texts of a finished run, starting where methods disagree most.",
        panel="Server",
        show_default=False,
    ),
]


@dataclass(frozen=True, kw_only=True)
class ServedModels(ModelOptions, DeviceOptions):
    """The models, and how all of them are loaded."""


@command(ServedModels, several=["model"])
def serve(  # noqa: PLR0913 - one argument per option of its own
    *,
    options: Given,
    run: RunFolder = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    allow_host: AllowHost = None,
    token: Token = None,
    workers: Workers = 2,
    max_tokens: Tokens = 512,
    timeout: Seconds = 60,
    max_memory: Memory = 4,
    plugin: own.Plugins = None,
) -> None:
    """Open the explorer: an interactive view in the browser.

    Repeat --model to offer several models; the page can use no others. The loading options apply
    to all of them.

    With --run, the texts of a data set are listed at /run, and each opens in the view.

    Example: attnflow serve --port 8000
    """
    _check_options(timeout, max_memory, token)
    model, revision = options.pop("model", []), options.get("revision")
    if revision is not None and len(model) > 1:
        msg = f"--revision {revision} is for one --model; for several, write NAME@REVISION"
        raise InputError(msg)

    def choose(name: str | None) -> Source:
        return choose_model(name, **options)

    named = [choose(each) for each in model or (() if run is not None else (None,))]
    import errno
    import socket

    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (TypeError, ValueError) as error:  # a name that no host can have
            msg = f"--host {host!r} is not an address: {error}; choose another --host"
            raise InputError(msg) from error
        except OSError as error:
            no_host = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
            other = "--host" if no_host else "--port"
            msg = f"cannot listen on {host} port {port}: {error.strerror}; choose another {other}"
            raise InputError(msg) from error
    from attnflow.views.explorer.server import access
    from attnflow.views.explorer.server.app import serve as start
    from attnflow.views.explorer.server.limits import GIB, Limits

    for name in allow_host or []:
        if access.host_name(access.bracketed(name)) is None:
            msg = f"--allow-host {name!r} is not a host name; give one such as explorer.example.org"
            raise InputError(msg)
    if token is None and not access.is_loopback(host):
        token = access.new_token()
    hosts = [access.bracketed(name) for name in allow_host or access.default_hosts(host)]
    listing: Listing | None = None
    sources: list[Source] = named
    if run is not None:
        listing, adapter = _read_run(run, model, choose)
        sources = [adapter]
    else:
        echo(f"loading {', '.join(model or [DEFAULT])} …", err=True)
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
        first = "" if listing is None else "/run"
        link = first if token is None else f"/?token={token}"
        echo(f"http://{shown}:{port}{link}")
        echo("open this address in a browser; Ctrl-C stops the server", err=True)

    start(sources, host, port, limits, access.Access(tuple(hosts), token), listing, ready=ready)
    raise KeyboardInterrupt  # the server only ends when it is interrupted


def _check_options(timeout: float, max_memory: float, token: str | None) -> None:
    """Refuse what no server can be started with."""
    if not 0 < timeout < math.inf:
        msg = f"--timeout {timeout:g} must be more than 0 seconds"
        raise InputError(msg)
    if not 0 < max_memory < math.inf:
        msg = f"--max-memory {max_memory:g} must be more than 0 GiB"
        raise InputError(msg)
    if token is not None and not re.fullmatch(r"[A-Za-z0-9_-]{16,}", token):
        msg = "--token must be 16 or more letters, digits, - and _; leave it out to get a new one"
        raise InputError(msg)


def _read_run(
    folder: Path, models: list[str], choose: Callable[[str | None], Source]
) -> tuple[Listing, ModelAdapter]:
    """What is listed of a run, and its model: that of its manifest, or the one that is named."""
    if len(models) > 1:
        msg = f"--run {folder} is of one model; give --model once at most"
        raise InputError(msg)
    import sys

    from attnflow.io.progress import progress_bar
    from attnflow.models.loading import load_model
    from attnflow.models.weights import settings_digest, weights_digest
    from attnflow.runs.reading import read_run
    from attnflow.views.explorer.listing import make_listing

    made = read_run(folder)
    about = made.manifest["request"]["model"]
    named = models[0] if models else about["name"]
    echo(f"loading {named} …", err=True)
    adapter = load_model(choose(named))
    settings = settings_digest(adapter)
    if weights_digest(adapter) != about["sha256"] or about.get("settings", settings) != settings:
        msg = (
            f"--run {folder} is of {about['name']} with other weights, settings or another "
            f"tokenizer than {named} has; give the model that it was made with by --model"
        )
        raise InputError(msg)
    with progress_bar("reading", made.rows, shown=sys.stderr.isatty(), unit="rows") as show:
        return make_listing(made, show), adapter
