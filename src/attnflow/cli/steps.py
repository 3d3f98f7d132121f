"""``attnflow steps``: what the conclusion of a chain of thought depends on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from attnflow.cli import options as own
from attnflow.cli.command import Given, command
from attnflow.cli.streams import echo, print_json, show_status
from attnflow.errors import InputError, Interrupted
from attnflow.io.files import check_target
from attnflow.options.tables import StepsOptions

Save = Annotated[
    Path | None, own.flag("--save FILE", "Save the result as JSON, for Reasoning.load.")
]
Html = Annotated[
    Path | None, own.flag("--html FILE", "Save a page that shows the steps and what each reads.")
]


@command(StepsOptions)
def steps(  # noqa: PLR0913 - one argument per option of its own
    text: own.OneText = None,
    *,
    options: Given,
    model: Any,
    file: own.File = None,
    chat: own.Chat = None,
    part: own.PromptParts = None,
    temperature: own.Temperature = None,
    top_p: own.TopP = None,
    top_k: own.TopK = None,
    as_json: own.Json = False,
    save: Save = None,
    html: Html = None,
    force: own.Force = False,
    plugin: own.Plugins = None,
) -> None:
    """Show which steps of a chain of thought its conclusion depends on.

    Example: attnflow steps "3 keys and 4 more are how many?" --answer "3 + 4 = 7. So 7." -m FOLDER
    """
    from attnflow.cli.answers import Asked, prompts_of

    prompts, parts = prompts_of(
        None if text is None else [text], file, Asked(options, chat, part or ())
    )
    if len(prompts) > 1:
        msg = (
            f"this command takes one prompt; there are {len(prompts)}, one per line: give one line"
        )
        raise InputError(msg)
    for target in (save, html):
        if target is not None:
            check_target(target, overwrite=force)
    drawn = {"temperature": temperature, "top_p": top_p, "top_k": top_k}
    sampling = {name: value for name, value in drawn.items() if value is not None}
    options |= {"parts": parts} | ({"sampling": sampling} if sampling else {})
    from attnflow.api.steps import steps as trace
    from attnflow.models.loading import load_model

    with show_status("loading the model"):
        loaded = load_model(model)
    stopped = False
    try:
        found = trace(prompts[0], loaded, progress=sys.stderr.isatty(), **options)
    except Interrupted as interrupted:
        found, stopped = interrupted.found[0], True
    if save is not None:
        found.save(save, overwrite=True)  # which was checked before any work
        echo(f"saved the steps to {save}", err=True)
    if html is not None:
        found.explore().save(html, overwrite=True)
        echo(f"saved the page to {html}", err=True)
    if as_json:
        from attnflow.views.wording.steps import summarize

        table = [row._asdict() for row in found.table()]
        print_json({**found.to_dict(), "found": summarize(found), "table": table})
    else:
        from rich.console import Console

        from attnflow.views.terminal.steps import show_steps

        show_steps(found, Console(highlight=False))
    if stopped:
        raise KeyboardInterrupt
