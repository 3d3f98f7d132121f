"""``attnflow explain``: which tokens the output came from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from attnflow.cli import options as own
from attnflow.cli import running
from attnflow.cli.command import Given, command, make_request
from attnflow.cli.estimate import estimate, foretell_texts
from attnflow.cli.inputs import Item, check_targets, pair_up, read_texts
from attnflow.cli.streams import echo, print_json
from attnflow.errors import InputError
from attnflow.options.tables import AnswerOptions

if TYPE_CHECKING:
    from attnflow.pipeline.session import Session
    from attnflow.records import Attribution
    from attnflow.views.wording.summaries import Summary

Save = Annotated[
    Path | None,
    own.flag(
        "--save FILE",
        "Save all scores as lines of JSON, for Attribution.load_all; answers, for "
        "Generation.load_all.",
    ),
]
Html = Annotated[
    Path | None,
    own.flag("--html FILE", "Save the explorer's interactive view of the text as one HTML file."),
]
Top = Annotated[int, own.flag("--top N", "How many tokens to list.", min=0)]


FEW = 20  # texts: of more, none is blanked out to check the methods


@command(AnswerOptions, several=["method"])
def explain(  # noqa: PLR0913 - one argument per option of its own
    texts: own.Texts = None,
    *,
    options: Given,
    model: Any,
    file: own.File = None,
    pair: own.Pairs = None,
    chat: own.Chat = None,
    part: own.PromptParts = None,
    role: own.PartRoles = None,
    temperature: own.Temperature = None,
    top_p: own.TopP = None,
    top_k: own.TopK = None,
    top: Top = 5,
    verbose: own.Verbose = False,
    as_json: own.Json = False,
    save: Save = None,
    html: Html = None,
    force: own.Force = False,
    dry_run: own.DryRun = False,
    plugin: own.Plugins = None,
) -> None:
    """Show which tokens the model's output came from.

    With --generate, --chat or --part, and with --answer on causal models, the tokens of an answer
    are explained, as by attnflow.explain_answer in Python.

    Example: attnflow explain "The food was not good."
    """
    from attnflow.cli.answers import Asked, explain_answers, read_roles, refuse_for_answers

    drawn = {"temperature": temperature, "top_p": top_p, "top_k": top_k}
    sampling = {name: value for name, value in drawn.items() if value is not None}
    given = {"sampling": sampling, "roles": read_roles(role or ())}
    asked = Asked(options | {name: each for name, each in given.items() if each}, chat, part or ())
    inputs = [] if asked.given else pair_up(read_texts(texts, file), pair)
    check_targets(save, html, force=force)
    if html is not None:
        _check_page(inputs, options)
    request = make_request(options, answer=None)
    if dry_run:
        refuse_for_answers(pair if asked.of(model) else None)
        estimate(texts, file, inputs, model, request, asked)
        return
    if asked.of(model):
        refuse_for_answers(pair)
        explain_answers(texts, file, model, request, asked, as_json=as_json, save=save, html=html)
        return
    asked.refuse_without()
    answer, methods = options.get("answer"), request.methods
    model = foretell_texts(inputs, model, request, asked)
    results_at: dict[int, list[Attribution]] = {}
    found_at: dict[int, Summary] = {}
    sessions_at: dict[int, Session] = {}
    for place, session in running.sessions(
        inputs, model, request, answer=answer, all_heads=html is not None
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
    edges_named = request.edges != "auto" or not methods
    _show_all(results, found, top, verbose=verbose, edges_named=edges_named)


def _show_all(
    results: Sequence[Sequence[Attribution]],
    found: Sequence[Summary],
    top: int,
    *,
    verbose: bool,
    edges_named: bool,
) -> None:
    from rich.console import Console

    from attnflow.views.terminal.attribution import show

    console = Console(highlight=False)
    for at, (one, summary) in enumerate(zip(results, found, strict=True)):
        if at:
            console.print()
        show(one, summary, console, top, verbose=verbose, edges_named=edges_named)
    if len(found) > FEW:
        console.print()
        many = f"Answers are not checked by blanking where there are more than {FEW} texts at once."
        console.print(many, style="dim")


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
        "verdict": {each.method: each.verdict and asdict(each.verdict) for each in found.each},
        "agreement": found.agreement,
        "scores": {item.method: item.values.tolist() for item in attributions},
        "options": {item.method: dict(item.options) for item in attributions},
    }


def _check_page(texts: Sequence[Item], options: Given) -> None:
    if len(texts) > 2:
        msg = f"--html shows one text, or two side by side; these are {len(texts)}"
        raise InputError(msg)
    source, heads = options.get("source", "position"), options.get("heads", "mean")
    if source != "position":
        msg = f"--html shows scores of positions, layer by layer; leave out --source {source}"
        raise InputError(msg)
    if heads not in ("mean", "each"):
        msg = f"--html shows the mean of heads and each of them; leave out --heads {heads}"
        raise InputError(msg)


def _save_page(sessions: Sequence[Session], file: Path) -> None:
    from attnflow.views.explorer.exploration import explore_sessions
    from attnflow.views.explorer.images import picture_of

    read = [session.tokens for session in sessions]
    images = [None if of.grid is None else picture_of(of.text, of.grid) for of in read]
    view = explore_sessions(sessions, images)
    view.save(file, overwrite=True)  # checked before any work
    echo(f"saved the interactive view to {file}", err=True)


def _save(attributions: Sequence[Attribution], file: Path) -> None:
    from attnflow.records.files import save_all

    save_all(attributions, file, overwrite=True)  # which was checked before any work
    echo(f"saved {len(attributions)} attributions to {file}", err=True)
