"""``attnflow cite``: an answer with the sources that each of its sentences rests on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from attnflow.cli import options as own
from attnflow.cli.command import Given, command
from attnflow.cli.errors import printable
from attnflow.cli.inputs import check_targets
from attnflow.cli.streams import echo, print_json, show_status
from attnflow.errors import InputError, Interrupted
from attnflow.options.tables import CiteOptions

Markdown = Annotated[
    bool, own.flag("--markdown", "Print Markdown, with a footnote for each citation.")
]
Save = Annotated[
    Path | None, own.flag("--save FILE", "Save the result as JSON, for Citations.load.")
]
Html = Annotated[
    Path | None, own.flag("--html FILE", "Save the answer beside its sources as one HTML file.")
]


@command(CiteOptions)
def cite(  # noqa: PLR0913 - one argument per option of its own
    text: own.OneText = None,
    *,
    options: Given,
    model: Any,
    file: own.File = None,
    chat: own.Chat = None,
    part: own.PromptParts = None,
    role: own.PartRoles = None,
    temperature: own.Temperature = None,
    top_p: own.TopP = None,
    top_k: own.TopK = None,
    as_json: own.Json = False,
    markdown: Markdown = False,
    save: Save = None,
    html: Html = None,
    force: own.Force = False,
    plugin: own.Plugins = None,
) -> None:
    """Show which sources each sentence of an answer rests on, tested by deleting them.

    Example: attnflow cite "Who built the harbour?" --part harbour=harbour.txt -m NAME
    """
    from attnflow.cli.answers import Asked, prompts_of, read_roles

    drawn = {"temperature": temperature, "top_p": top_p, "top_k": top_k}
    sampling = {name: value for name, value in drawn.items() if value is not None}
    given = {"sampling": sampling, "roles": read_roles(role or ())}
    options |= {name: value for name, value in given.items() if value}
    if as_json and markdown:
        msg = "give --json or --markdown, not both"
        raise InputError(msg)
    check_targets(save, html, force=force)
    asked = Asked(options, chat, part or ())
    prompts, parts = prompts_of(None if text is None else [text], file, asked)
    if len(prompts) > 1:
        msg = (
            f"this command takes one prompt; there are {len(prompts)}, one per line: give one line"
        )
        raise InputError(msg)
    from attnflow.api.cite import cite as find
    from attnflow.models.loading import load_model

    with show_status("loading the model"):
        loaded = load_model(model)
    stopped = False
    try:
        found = find(prompts[0], loaded, parts=parts, progress=sys.stderr.isatty(), **options)
    except Interrupted as interrupted:
        found, stopped = interrupted.found[0], True
    if save is not None:
        found.save(save, overwrite=True)  # which was checked before any work
        echo(f"saved the citations to {save}", err=True)
    if html is not None:
        found.explore().save(html, overwrite=True)
        echo(f"saved the interactive view to {html}", err=True)
    if as_json:
        print_json({**found.to_dict(), "summary": found.summary})
    elif markdown:
        echo(printable(found.markdown))
    else:
        from rich.console import Console

        from attnflow.views.terminal.citations import citations_view

        console = Console(highlight=False)
        console.print(citations_view(found, console))
    if stopped:
        raise KeyboardInterrupt
