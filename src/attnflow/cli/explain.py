"""``attnflow explain``: which tokens the output came from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnflow.cli import answer_options, method_options, model_options, options, parsing, running
from attnflow.cli.inputs import Item, pair_up, read_texts
from attnflow.cli.streams import echo, print_json
from attnflow.errors import InputError
from attnflow.io.files import check_target

if TYPE_CHECKING:
    from rich.console import Console

    from attnflow.pipeline.session import Session
    from attnflow.records import Attribution
    from attnflow.views.summary import Summary

Save = Annotated[
    Path | None,
    typer.Option(
        "--save",
        metavar="FILE",
        help="Save all scores as lines of JSON, for Attribution.load_all; answers, for "
        "Generation.load_all.",
        rich_help_panel="Output",
    ),
]
Html = Annotated[
    Path | None,
    typer.Option(
        "--html",
        metavar="FILE",
        help="Save the explorer's interactive view of the text as one HTML file.",
        rich_help_panel="Output",
    ),
]
Top = Annotated[
    int,
    typer.Option(
        "--top", metavar="N", min=0, help="How many tokens to list.", rich_help_panel="Output"
    ),
]


FEW = 20  # texts: of more, none is blanked out to check the methods


def explain(  # noqa: PLR0913 - one argument per option
    texts: options.Texts = None,
    *,
    file: options.File = None,
    pair: options.Pairs = None,
    model: options.Model = None,
    target: options.Target = None,
    contrast: options.Contrast = None,
    source: options.Source = "position",
    through: answer_options.Through = "tokens",
    answer: options.Answer = None,
    generate: answer_options.Generate = None,
    chat: answer_options.Chat = None,
    part: answer_options.PromptParts = None,
    temperature: answer_options.Temperature = None,
    top_p: answer_options.TopP = None,
    top_k: answer_options.TopK = None,
    seed: answer_options.Seed = None,
    truncate: options.Truncate = False,
    bos: options.Bos = False,
    strict: options.Strict = False,
    device: model_options.Device = None,
    dtype: model_options.Dtype = None,
    revision: model_options.Revision = None,
    trust_remote_code: model_options.Trust = False,
    method: method_options.Methods = None,
    edges: method_options.Edges = "auto",
    steps: options.Steps = None,
    layer: options.Layer = None,
    layers: options.Layers = None,
    query: options.Query = None,
    heads: options.Heads = "mean",
    residual: options.Residual = None,
    correction: options.Correction = "auto",
    words: options.Words = False,
    top: Top = 5,
    as_json: options.Json = False,
    save: Save = None,
    html: Html = None,
    force: options.Force = False,
    plugin: options.Plugins = None,
) -> None:
    """Show which tokens the model's output came from.

    Example: attnflow explain "The food was not good."
    """
    from attnflow.cli.answers import Asked, explain_answers, refuse_for_answers
    from attnflow.pipeline.request import Request

    drawn = {"temperature": temperature, "top_p": top_p, "top_k": top_k}
    sampling = {name: value for name, value in drawn.items() if value is not None}
    asked = Asked(generate, chat, part or (), answer, through, sampling, seed)
    inputs = [] if asked.given else pair_up(read_texts(texts, file), pair)
    _check_targets(save, html, force=force)
    if html is not None:
        _check_page(inputs, heads, source, edges)
    methods = parsing.parse_methods(method)
    config = Request(
        method=methods[0] if methods else Request.method,
        edges=edges,
        layer=layer,
        layers=parsing.parse_layers(layers),
        query=parsing.parse_query(query),
        heads=parsing.parse_heads(heads),
        residual=residual,
        correction=parsing.parse_correction(correction),
        words=words,
        target=target,
        contrast=contrast,
        source=source,
        steps=steps,
        methods=tuple(methods),
        truncate=truncate,
        bos=bos,
        strict=strict,
        execution=model_options.execution(device),
    )
    chosen = model_options.choose(model, device, dtype, revision, trust_remote_code)
    if asked.of(chosen):
        refuse_for_answers(pair)
        explain_answers(texts, file, chosen, config, asked, as_json=as_json, save=save, html=html)
        return
    asked.refuse_without()
    results_at: dict[int, list[Attribution]] = {}
    found_at: dict[int, Summary] = {}
    sessions_at: dict[int, Session] = {}
    for place, session in running.sessions(
        inputs, chosen, config, answer=answer, all_heads=html is not None
    ):
        results_at[place] = running.attributions(session, methods or [session.config.method])
        found_at[place] = running.summarize(
            session, results_at[place], few=len(inputs) <= FEW, page=html is not None
        )
        if html is not None:
            sessions_at[place] = session
    results = [results_at[place] for place in range(len(inputs))]
    if save is not None:
        _save([item for one in results for item in one], save)
    if html is not None:
        _save_page([sessions_at[place] for place in range(len(inputs))], html)
    found = [found_at[place] for place in range(len(inputs))]
    if as_json:
        for one, summary in zip(results, found, strict=True):
            print_json(as_data(one, summary))
        return
    _show_all(results, found, top, edges_named=edges != "auto" or not methods)


def _show_all(
    results: Sequence[Sequence[Attribution]],
    found: Sequence[Summary],
    top: int,
    *,
    edges_named: bool,
) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    for at, (one, summary) in enumerate(zip(results, found, strict=True)):
        if at:
            console.print()
        show(one, summary, console, top, about=not at, edges_named=edges_named)
    if len(found) > FEW:
        console.print()
        many = f"Answers are not checked by blanking where there are more than {FEW} texts at once."
        console.print(many, style="dim")


def show(
    attributions: Sequence[Attribution],
    found: Summary,
    console: Console,
    top: int,
    *,
    about: bool = True,
    edges_named: bool = True,
) -> None:
    """Print the scores of each method, token by token, and the highest ones.

    With ``about``, a line says what each method does. Edges that were not named are the method's.
    """
    from attnflow.views.terminal.header import header
    from attnflow.views.terminal.maps import ROWS, head_maps
    from attnflow.views.terminal.notes import method_lines, show_notes
    from attnflow.views.terminal.pieces import pieces
    from attnflow.views.terminal.tables import top_tables

    each_head = attributions[0].values.ndim == 2
    console.print(header(*attributions, finding=found.main, edges_named=edges_named))
    console.print()
    if each_head:
        console.print(head_maps(attributions, found.main, console, max(top, ROWS)))
    else:
        console.print(pieces(attributions, console))
    if about:
        console.print(method_lines(attributions))
    if top:
        console.print()
        if each_head:
            console.print("[dim]The mean of heads:[/]")
        console.print(top_tables(attributions, found.each, console, top))
    show_notes(found, console)


def as_data(attributions: Sequence[Attribution], found: Summary) -> dict[str, Any]:
    """What ``--json`` prints for one text: the selected scores of each method."""
    from dataclasses import asdict

    first = attributions[0]
    return {
        "text": first.text,
        "model": first.model,
        "prediction": asdict(first.prediction) if first.prediction else None,
        "tokens": list(first.tokens),
        "layer": first.layer,
        "query": first.query,
        "explained": first.explained,
        "warnings": list(first.warnings),
        "found": {each.method: each.sentence for each in found.each},
        "evidence": {each.method: each.evidence for each in found.each},
        "agreement": found.agreement,
        "scores": {item.method: item.values.tolist() for item in attributions},
        "options": {item.method: dict(item.options) for item in attributions},
    }


def _check_targets(save: Path | None, html: Path | None, *, force: bool) -> None:
    targets = [target for target in (save, html) if target is not None]
    for target in targets:
        check_target(target, overwrite=force)
    if len(targets) > len({target.absolute() for target in targets}):
        msg = f"--save and --html both name {save}; give each a file of its own"
        raise InputError(msg)


def _check_page(texts: Sequence[Item], heads: str, source: str, edges: str) -> None:
    from attnflow.pipeline.amounts import check_layered

    check_layered(edges)
    if len(texts) > 2:
        msg = f"--html shows one text, or two side by side; these are {len(texts)}"
        raise InputError(msg)
    if source != "position":
        msg = f"--html shows scores of positions, layer by layer; leave out --source {source}"
        raise InputError(msg)
    if heads not in ("mean", "each"):
        msg = f"--html shows the mean of heads and each of them; leave out --heads {heads}"
        raise InputError(msg)


def _save_page(sessions: Sequence[Session], file: Path) -> None:
    from attnflow.views.explorer.exploration import explore_sessions
    from attnflow.views.explorer.images import picture_of

    images = [picture_of(session.tokens.text, session.tokens.grid) for session in sessions]
    view = explore_sessions(sessions, images)
    view.save(file, overwrite=True)  # checked before any work
    echo(f"saved the interactive view to {file}", err=True)


def _save(attributions: Sequence[Attribution], file: Path) -> None:
    from attnflow.records.files.attributions import save_all

    save_all(attributions, file, overwrite=True)  # which was checked before any work
    echo(f"saved {len(attributions)} attributions to {file}", err=True)
