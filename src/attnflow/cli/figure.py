"""``attnflow figure``: figures for print."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnflow.cli import options, running
from attnflow.cli.errors import printable
from attnflow.cli.inputs import read_text
from attnflow.errors import InputError

if TYPE_CHECKING:
    from attnflow.pipeline.session import Session
    from attnflow.records import Attribution, FlowTrace

_LOOK = "Look"


class Kind(StrEnum):
    """The kinds of figures."""

    GRAPH = "graph"
    HEATMAP = "heatmap"
    PRONOUNS = "pronouns"
    HEADS = "heads"
    IMAGE = "image"
    SOUND = "sound"


Output = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="The file: .svg, .pdf or .png.",
        rich_help_panel="Output",
    ),
]
To = Annotated[
    str | None,
    typer.Option(
        "--to",
        "-t",
        metavar="TOKEN",
        help="For graph: add the routes and the bottleneck of the flow to this token.",
        rich_help_panel="Selection",
    ),
]
Candidates = Annotated[
    list[str] | None,
    typer.Option(
        "--candidate",
        metavar="TOKEN",
        help="For pronouns: a token of the text to show; repeat for each.",
        rich_help_panel="Selection",
    ),
]
Pronouns = Annotated[
    list[str] | None,
    typer.Option(
        "--pronoun",
        metavar="WORD",
        help="For pronouns: a word whose probability is shown; repeat for each.",
        rich_help_panel="Selection",
        show_default="his, her",
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option(
        "--threshold",
        metavar="WEIGHT",
        help="For graph: leave out edges below this.",
        rich_help_panel=_LOOK,
        show_default="the strongest edges of each position",
    ),
]
Values = Annotated[
    bool, typer.Option("--values", help="Write the numbers into cells.", rich_help_panel=_LOOK)
]
Relative = Annotated[
    bool,
    typer.Option(
        "--relative",
        help="For heatmap: stretch colours over each layer.",
        rich_help_panel=_LOOK,
    ),
]
Theme = Annotated[
    options.Theme,
    typer.Option("--theme", metavar="light|dark", help="The colours.", rich_help_panel=_LOOK),
]
Dpi = Annotated[
    int,
    typer.Option(
        "--dpi", min=20, max=1200, metavar="N", help="Of PNG files.", rich_help_panel=_LOOK
    ),
]


def figure(  # noqa: PLR0913 - one argument per option
    kind: Annotated[
        Kind,
        typer.Argument(
            metavar="KIND",
            help="graph, heatmap, pronouns, heads, image or sound.",
            show_default=False,
        ),
    ],
    text: options.OneText = None,
    *,
    output: Output,
    file: options.File = None,
    model: options.Model = None,
    target: options.Target = None,
    contrast: options.Contrast = None,
    answer: options.Answer = None,
    truncate: options.Truncate = False,
    method: options.Methods = None,
    edges: options.Edges = "auto",
    steps: options.Steps = None,
    layer: options.Layer = None,
    query: options.Query = None,
    residual: options.Residual = None,
    correction: options.Correction = "auto",
    to: To = None,
    candidate: Candidates = None,
    pronoun: Pronouns = None,
    words: options.Words = False,
    threshold: Threshold = None,
    values: Values = False,
    relative: Relative = False,
    theme: Theme = options.Theme.LIGHT,
    dpi: Dpi = 200,
    force: options.Force = False,
    plugin: options.Plugins = None,
) -> None:
    """Draw a figure for print: one panel per method.

    graph: layers, tokens and edges between them. heatmap: layers × tokens. heads: the heads of a
    layer × tokens. pronouns: layers × a few tokens. image: patches over the picture.
    sound: frames over time, below the waveform.

    Example: attnflow figure heatmap "the keys to the cabinet" -o keys.svg
    """
    from attnflow.aggregation import find_aggregator
    from attnflow.pipeline.choice import shown_methods
    from attnflow.pipeline.config import ExplainConfig
    from attnflow.views.figures import figure as compose
    from attnflow.views.figures import save
    from attnflow.views.figures.files import check_file

    source = read_text(text, file)
    check_file(output, overwrite=force)
    if kind in (Kind.IMAGE, Kind.SOUND) and model is None:
        needed = "a vision model" if kind is Kind.IMAGE else "a model that hears"
        msg = f"figure {kind} needs {needed}, and the shipped one takes text: give --model NAME"
        raise InputError(msg)
    given = {"threshold": threshold, "to": to, "candidate": candidate, "pronoun": pronoun}
    _check(kind, {**given, "values": values, "relative": relative}, words=words)
    look = _drop_unset(threshold=threshold, candidates=candidate, values=values, relative=relative)
    position = options.parse_query(query)
    methods = options.parse_methods(method)
    if kind is Kind.GRAPH:
        for name in methods:
            find_aggregator(name)  # the others have no edges to draw
    config = ExplainConfig(
        method=methods[0] if methods else ExplainConfig.method,
        edges=edges,
        layer=layer,
        layers=None if kind in ONE_LAYER else "all",
        query="all" if kind is Kind.GRAPH else position,
        heads="each" if kind is Kind.HEADS else "mean",
        residual=residual,
        correction=options.parse_correction(correction),
        words=words,
        target=options.parse_target(target),
        contrast=options.parse_target(contrast),
        steps=steps,
        methods=tuple(methods),
        routes=to is not None,
        truncate=truncate,
    )
    session = running.one_session(source, model, config, answer=answer)
    shown = methods or shown_methods(session.config.method)
    results = running.attributions(session, shown)
    if kind is Kind.GRAPH and position is not None:
        results = [item.at(query=position) for item in results]
    if to is not None:
        look["trace"] = _trace(session, to, position)
    if kind is Kind.PRONOUNS:
        look["probabilities"] = _probabilities(results[0], pronoun)
    drawing = compose(str(kind), *results, theme=str(theme), **look)
    save(drawing, output, overwrite=force, dpi=dpi)
    typer.echo(printable(f"saved {output}"), err=True)


ONE_LAYER = (Kind.HEADS, Kind.IMAGE, Kind.SOUND)
KINDS_WITH = {  # options that not every kind has
    "threshold": (Kind.GRAPH,),
    "to": (Kind.GRAPH,),
    "candidate": (Kind.PRONOUNS,),
    "pronoun": (Kind.PRONOUNS,),
    "values": (Kind.HEATMAP, Kind.HEADS, Kind.PRONOUNS),
    "relative": (Kind.HEATMAP,),
}


def _check(kind: Kind, given: dict[str, Any], *, words: bool) -> None:
    """Refuse options that the kind doesn't have, before any work."""
    for name in _drop_unset(**given):
        if kind not in KINDS_WITH[name]:
            msg = f"--{name} is not for {kind}; it is for {', '.join(KINDS_WITH[name])}"
            raise InputError(msg)
    if given["to"] is not None and words:
        msg = "--to shows the routes between tokens; leave out --words"
        raise InputError(msg)
    if kind is Kind.PRONOUNS and len(given["candidate"] or ()) < 2:
        msg = "figure pronouns needs --candidate TOKEN at least twice: the tokens to show"
        raise InputError(msg)


def _drop_unset(**choices: Any) -> dict[str, Any]:
    """The options that were given."""
    # Identity, not equality: a threshold of 0 equals False, and was given.
    return {
        name: value
        for name, value in choices.items()
        if value is not None and value is not False and value != []
    }


def _trace(session: Session, to: str, query: int | str | None) -> FlowTrace:
    """The routes from the position that is explained to a token."""
    tokens, config = session.tokens, session.config
    key = tokens.position(options.parse_position(to), name="to")
    if query is None:
        session.check_one_position()
    source = session.query if query is None else tokens.position(query)
    return session.trace(config.method, config.resolve_layers(session.depth)[1], source, key)


def _probabilities(of: Attribution, pronouns: list[str] | None) -> dict[str, float] | None:
    """The probability of each pronoun; by default his and her, if both are predicted."""
    predicted = dict(of.prediction.alternatives) if of.prediction else {}
    words = pronouns or ["his", "her"]
    missing = [word for word in words if word not in predicted]
    if missing and pronouns:
        known = ", ".join(predicted)
        msg = f"--pronoun {missing[0]} is not one of the model's predictions; allowed: {known}"
        raise InputError(msg)
    return None if missing else {word: predicted[word] for word in words}
