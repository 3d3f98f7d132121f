"""``attnflow knockout``: what the model says without some of its attention edges."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from attnflow.cli import options as own
from attnflow.cli import running
from attnflow.cli.command import Given, command, make_request
from attnflow.cli.inputs import Item, check_texts, pair_up, read_text
from attnflow.cli.streams import echo, print_json, show_status
from attnflow.errors import InputError
from attnflow.io.files import check_target
from attnflow.options.option import SELECTION
from attnflow.options.parsing import parse_position
from attnflow.options.tables import OWN_OR_BEST, KnockoutOptions

if TYPE_CHECKING:
    from attnflow.models.loading import Source
    from attnflow.pipeline.request import Request
    from attnflow.records import FlowTrace

_EDGES = "Edges"


def _edges(name: str, metavar: str, about: str) -> Any:
    return own.flag(f"{name} {metavar}", about, panel=_EDGES, show_default=False)


Hide = Annotated[
    list[str] | None,
    _edges(
        "--hide",
        "TOKEN",
        "Hide a token from all others: its text or number, a word, a part of the prompt, or a "
        "stretch of the text; repeat for several.",
    ),
]
From = Annotated[
    list[str] | None,
    _edges("--from", "TOKEN", "Hide it from these readers alone; without --hide, all others."),
]
Layers = Annotated[str | None, _edges("--layers", "LAYERS", "Only in these layers: 3-5, or 1,3.")]
Head = Annotated[
    list[str] | None,
    _edges(
        "--head", "HEAD", "Only in this head: 5.2 is head 2 of layer 5, 2 is that of all layers."
    ),
]
Own = Annotated[
    bool,
    own.flag(
        "--own",
        "Remove tokens' edges to themselves, too; the default for whole heads and layers.",
        panel=_EDGES,
    ),
]
Cut = Annotated[
    str | None,
    _edges(
        "--cut", "TOKEN", "Remove the bottleneck of the flow from this token (attnflow routes)."
    ),
]
RouteOf = Annotated[
    str | None, _edges("--route", "TOKEN", "Remove the largest route of the flow from this token.")
]
FlowMethod = Annotated[
    str,
    own.flag(
        "--method METHOD",
        "The method: {methods}.",
        panel=SELECTION,
        show_default="flow, on the edges that answer best",
    ),
]
FlowEdges = Annotated[
    str,
    own.flag(
        "--edges RULE",
        "What the edges are made of: {edges}.",
        panel=SELECTION,
        show_default=OWN_OR_BEST,
    ),
]
Save = Annotated[
    Path | None, own.flag("--save FILE", "Save the result as JSON, for Knockout.load.")
]


@command(KnockoutOptions)
def knockout(  # noqa: PLR0913 - one argument per option of its own
    text: own.OneText = None,
    *,
    options: Given,
    model: Any,
    file: own.File = None,
    pair: own.Pair = None,
    chat: own.Chat = None,
    part: own.PromptParts = None,
    hide: Hide = None,
    reader: From = None,
    layers: Layers = None,
    head: Head = None,
    itself: Own = False,
    cut: Cut = None,
    route: RouteOf = None,
    method: FlowMethod = "auto",
    edges: FlowEdges = "auto",
    as_json: own.Json = False,
    save: Save = None,
    force: own.Force = False,
    plugin: own.Plugins = None,
) -> None:
    """Show what the model says without some of its attention edges.

    Example: attnflow knockout "The food was not good." --hide not --from CLS --layers 3-6
    """
    from attnflow.cli.answers import Asked, prompts_of

    asked = Asked(options, chat, part or ())
    sets = _parse_edges(hide or (), reader or (), layers, head or (), own=itself)
    of_flow = _Flow(cut, route)
    if not sets and not of_flow.asked:
        msg = (
            "no edges are named; hide a token (--hide not), a head (--head 5.2), layers "
            "(--layers 3-5), or remove what a flow passes (--cut not)"
        )
        raise InputError(msg)
    item, parts = _read(text, file, pair, asked, prompts_of)
    if of_flow.asked and asked.given:
        msg = (
            "--cut and --route are of the flow to one prediction, and this is a prompt with an "
            "answer or parts; name edges by --hide, --from, --layers or --head"
        )
        raise InputError(msg)
    if save is not None:
        check_target(save, overwrite=force)
    if of_flow.asked:
        from attnflow.api.routes import check_routes

        check_routes(method)  # before any work
        request = make_request(
            options, method=method, edges=edges, correction=None, routes=True, answer=None
        )
        sets += of_flow.find(item, model, request, options.get("answer"))
    from attnflow.api.knockout import knockout as remove
    from attnflow.models.loading import load_model

    with show_status("loading the model"):
        loaded = load_model(model)
    if isinstance(item, str | tuple):
        check_texts([item], loaded)
    with show_status("removing edges"):
        found = remove(item, loaded, edges=sets, parts=parts, **options)
    if save is not None:
        found.save(save, overwrite=True)  # which was checked before any work
        echo(f"saved the knockout to {save}", err=True)
    if as_json:
        print_json({**found.to_dict(), "summary": found.summary})
        return
    from rich.console import Console

    from attnflow.views.terminal.knockouts import show_knockout

    show_knockout(found, Console(highlight=False))


@dataclass(frozen=True)
class _Flow:
    """The cut or the route of a flow from a token that is to be removed."""

    cut: str | None
    route: str | None

    @property
    def asked(self) -> bool:
        """Whether there is any."""
        return self.cut is not None or self.route is not None

    def find(self, item: Item, model: Source, request: Request, answer: str | None) -> list[Any]:
        """Their edges."""
        from attnflow.api.routes import trace_to

        session = running.one_session(item, model, request, answer=answer)
        found: list[Any] = []
        if self.cut is not None:
            found.append(trace_to(session, parse_position(self.cut)))
        if self.route is not None:
            trace = trace_to(session, parse_position(self.route))
            found.append(_first_route(trace))
        return found


def _first_route(trace: FlowTrace) -> Any:
    if not trace.routes:
        msg = f"method={trace.method!r} finds no routes from {trace.tokens[trace.key]!r}"
        raise InputError(msg)
    return trace.routes[0]


def _read(
    text: str | None, file: Path | None, pair: str | None, asked: Any, prompts_of: Any
) -> tuple[Any, dict[str, str] | None]:
    """The one input, and the parts that are to be found in it."""
    if not asked.parts and asked.chat is None:
        (item,) = pair_up([read_text(text, file)], None if pair is None else [pair])
        return item, None
    if pair is not None:
        msg = "--pair is not for prompts with parts or messages; leave it out"
        raise InputError(msg)
    prompts, parts = prompts_of(None if text is None else [text], file, asked)
    if len(prompts) > 1:
        msg = f"this command takes one text; there are {len(prompts)}, one per line: give one line"
        raise InputError(msg)
    from attnflow.models.answers.logged import prompts_alone

    return prompts_alone(prompts)[0], parts


def _parse_edges(
    hide: Sequence[str],
    readers: Sequence[str],
    layers: str | None,
    heads: Sequence[str],
    *,
    own: bool,
) -> list[Any]:
    """The edges between tokens, of each head that is named."""
    from attnflow.records.knockout import Edges

    if not (hide or readers or layers or heads):
        if own:
            msg = "--own goes with --hide or --from; name the tokens whose own edges are meant"
            raise InputError(msg)
        return []
    places: dict[str, Any] = {
        "keys": [parse_position(each) for each in hide] or None,
        "queries": [parse_position(each) for each in readers] or None,
        "own": True if own else None,
    }
    chosen = _parse_layers(layers)
    if not heads:
        return [Edges(layers=chosen, **places)]
    found = []
    for head in heads:
        match = re.fullmatch(r"(?:(\d+)\.)?(\d+)", head)
        if match is None:
            msg = f"--head {head!r} is unknown; give 5.2 for head 2 of layer 5, or 2 for all layers"
            raise InputError(msg)
        if match[1] is not None and layers is not None:
            msg = f"--head {head} names its layer; leave out --layers {layers}, or give {match[2]}"
            raise InputError(msg)
        layer = chosen if match[1] is None else [int(match[1])]
        found.append(Edges(layers=layer, heads=int(match[2]), **places))
    return found


def _parse_layers(given: str | None) -> list[int] | None:
    """``3-5`` and ``1,3`` as numbers."""
    if given is None:
        return None
    found: list[int] = []
    for part in given.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:\s*[-–]\s*(\d+))?\s*", part)
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if low > high:
            msg = f"--layers {given!r} is unknown; give numbers such as 3-5 or 1,3"
            raise InputError(msg)
        found += range(low, high + 1)
    return found
