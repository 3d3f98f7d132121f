"""``attnflow figure``: figures for print."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnflow.cli import figure_options, running
from attnflow.cli import options as own
from attnflow.cli.command import Given, command, make_request
from attnflow.cli.inputs import read_item
from attnflow.cli.streams import echo
from attnflow.errors import InputError
from attnflow.options.parsing import parse_position
from attnflow.options.tables import AnswerOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from attnflow.cli.answers import Asked
    from attnflow.pipeline.session import Session
    from attnflow.records import FlowTrace
    from attnflow.views.kinds import Kind

USUAL_PRONOUNS = ("his", "her")


@command(AnswerOptions, several=["method"], without=["layers", "heads", "seed"])
def figure(  # noqa: C901, PLR0913 - one argument per option of its own
    kind: figure_options.FigureKind,
    text: own.OneText = None,
    *,
    options: Given,
    model: Any,
    output: figure_options.Output,
    file: own.File = None,
    pair: own.Pair = None,
    chat: own.Chat = None,
    part: own.PromptParts = None,
    to: figure_options.To = None,
    candidate: figure_options.Candidates = None,
    pronoun: figure_options.Pronouns = None,
    threshold: figure_options.Threshold = None,
    values: figure_options.Values = False,
    relative: figure_options.Relative = False,
    theme: figure_options.Theme = figure_options.ThemeName.LIGHT,
    width: figure_options.Width = None,
    dpi: figure_options.Dpi = 200,
    force: own.Force = False,
    plugin: own.Plugins = None,
) -> None:
    """Draw a figure for print: one panel per method.

    graph: the edges that carry what the verdict names; with --method, for example raw, rollout and
    flow as in the paper, all edges between layers and tokens. heatmap: layers × tokens. heads: the
    heads of a layer × tokens. pronouns: layers × a few tokens. image: patches over the picture.
    sound: frames over time, below the waveform. generation: the tokens of an answer × its prompt.

    Example: attnflow figure heatmap "The food was not good." -o food.svg
    """
    from attnflow.cli.answers import Asked, make_answers
    from attnflow.methods import find_edge_method
    from attnflow.pipeline.choice import Shown, shown_together
    from attnflow.views.figures import check_start, save
    from attnflow.views.figures import figure as compose
    from attnflow.views.figures.files import check_file, check_width
    from attnflow.views.kinds import KINDS

    chosen = KINDS[kind]
    asked = Asked(options, chat, part or ())
    if not chosen.answers:
        _refuse_answers(asked, kind)
    item = "" if chosen.answers else read_item(text, file, pair)
    check_file(output, overwrite=force)
    check_width(width)
    check_start(kind, options.get("source", "position"))
    if chosen.needs and getattr(model, "name", model) is None:  # by whatever options it is loaded
        needed = f"figure {kind} needs {chosen.needs}"
        msg = f"{needed}, and the shipped one takes text: give --model NAME"
        raise InputError(msg)
    given = _drop_unset(
        threshold=threshold,
        to=to,
        candidate=candidate,
        pronoun=pronoun,
        values=values,
        relative=relative,
    )
    _check(chosen, given, words=options.get("words", False))
    look = {OPTIONS.get(name, name): value for name, value in given.items() if name not in PANELS}
    position = options.get("query")
    if kind == "graph" and not ALL_EDGES & {*given, *options}:
        session = running.one_session(item, model, make_request(options, answer=None))
        if session.starts_at_target(session.config.method):
            look |= _verdict(session)
            drawing = compose(kind, theme=str(theme), width=width, **look)
            save(drawing, output, overwrite=force, dpi=dpi)
            _tell(session.warnings, output)
            return
    # Edges of all positions, or of single heads, are those of attention unless others are named.
    if {"query", "heads"} & set(chosen.selection) and not {"edges", "method"} & set(options):
        options = {**options, "edges": "attention"}
    request = make_request(options, routes=to is not None, answer=None, **chosen.selection)
    methods = list(request.methods)
    if chosen.edges:
        for name in methods:
            find_edge_method(name)  # the others have no edges to draw
    if chosen.answers:
        texts = None if text is None else [text]
        (found,) = make_answers(texts, file, model, request, asked, live=False)
        drawing = compose(kind, found, theme=str(theme), width=width, **look)
        save(drawing, output, overwrite=force, dpi=dpi)
        _tell(found.warnings, output)
        return
    session = running.one_session(item, model, request, answer=options.get("answer"))
    named = [Shown(session, each) for each in methods]
    usual = shown_together(session, request.heads, edges=chosen.edges)
    results = running.together(named or usual)
    if request.query == "all" and position is not None:
        results = [item.at(query=position) for item in results]
    if to is not None:
        look["trace"] = _trace(session, to, position, methods)
    if "probabilities" in chosen.panels:
        look["probabilities"] = _probabilities(session, pronoun)
    else:
        look["caption"] = running.caption(session, results)
    drawing = compose(kind, *results, theme=str(theme), width=width, **look)
    save(drawing, output, overwrite=force, dpi=dpi)
    _tell(session.warnings, output)


ALL_EDGES = {"method", "edges", "query", "layer", "layers", "heads", "threshold", "to"}
"""Options of a graph for which all edges are drawn."""


def _verdict(session: Session) -> dict[str, Any]:
    """The routes of the word that the verdict names, and the verdict."""
    from attnflow.pipeline.choice import Shown
    from attnflow.views.explorer.document import STANDALONE, find_all

    method = session.config.method
    key = find_all(session, [Shown(session, method)], STANDALONE.blanks).key
    caption = running.caption(session, running.together([Shown(session, method)]))
    return {"trace": session.trace(method, session.depth, session.query, key), "caption": caption}


def _tell(warnings: Sequence[str], output: Path) -> None:
    """What a figure has no place for, and where it is."""
    for warning in warnings:
        echo(f"! {warning}", err=True)
    echo(f"saved {output}", err=True)


def _refuse_answers(asked: Asked, kind: str) -> None:
    if asked.given:
        msg = f"figure {kind} shows no answers; leave out --generate, --chat and --part"
        raise InputError(msg)
    asked.refuse_without()


PANELS = {"to": "trace", "pronoun": "probabilities"}  # what they add is computed first
OPTIONS = {"candidate": "candidates", **PANELS}  # names that differ from the library's


def _check(kind: Kind, given: dict[str, Any], *, words: bool) -> None:
    """Refuse options that the kind doesn't have, before any work."""
    from attnflow.views.kinds import KINDS

    for name in given:
        option = OPTIONS.get(name, name)
        having = [each.name for each in KINDS.members() if option in (*each.options, *each.panels)]
        if kind.name not in having:
            msg = f"--{name} is not for {kind.name}; it is for {', '.join(having)}"
            raise InputError(msg)
    if "to" in given and words:
        msg = "--to shows the routes between tokens; leave out --words"
        raise InputError(msg)
    if "candidates" in kind.required and len(given.get("candidate", ())) < 2:
        msg = f"figure {kind.name} needs --candidate TOKEN at least twice: the tokens to show"
        raise InputError(msg)


def _drop_unset(**choices: Any) -> dict[str, Any]:
    """The options that were given."""
    # Identity, not equality: a threshold of 0 equals False, and was given.
    return {
        name: value
        for name, value in choices.items()
        if value is not None and value is not False and value != []
    }


def _trace(session: Session, to: str, query: int | str | None, methods: Sequence[str]) -> FlowTrace:
    """The routes from the position that is explained to a token.

    Of several methods, those of the one that has routes and a bottleneck.
    """
    from attnflow.pipeline.choice import WITH_ROUTES

    tokens, config = session.tokens, session.config
    method = WITH_ROUTES if WITH_ROUTES in methods else config.method
    key = tokens.position(parse_position(to), name="to")
    if query is None:
        session.check_one_position()
    source = session.query if query is None else tokens.position(query)
    return session.trace(method, config.resolve_layers(session.depth)[1], source, key)


def _probabilities(session: Session, pronouns: list[str] | None) -> dict[str, float] | None:
    """The probability of each pronoun, whatever its rank; by default of his and her.

    ``None`` where the model predicts no words, or does not know the usual ones.
    """
    if session.prediction is None or session.prediction.position is None:
        if pronouns:
            msg = f"--pronoun {pronouns[0]}: {session.adapter.name} predicts no words"
            raise InputError(msg)
        return None
    from torch import no_grad

    from attnflow.models.outputs import output_index

    # Of two tokens that are displayed alike the likelier one, which comes first.
    chances = dict(reversed(session.prediction.alternatives))
    words = pronouns or USUAL_PRONOUNS
    if any(word not in chances for word in words):
        with no_grad():
            (found,) = session.adapter.probabilities([session.tokens], [session.query])
        try:
            rest = {word: output_index(session.adapter, word, found) for word in words}
        except InputError:
            if pronouns:
                raise
            return None
        chances |= {word: float(found[number]) for word, number in rest.items()}
    return {word: chances[word] for word in words}
