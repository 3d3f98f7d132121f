"""``attnflow train``: the models of the reproduction."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from attnflow.errors import InputError


class Which(StrEnum):
    """The models that can be trained."""

    VERBS = "verbs"
    SENTIMENT = "sentiment"


Model = Annotated[
    Which, typer.Argument(metavar="MODEL", help="verbs or sentiment.", show_default=False)
]
Data = Annotated[
    Path,
    typer.Option(
        "--data",
        metavar="FOLDER",
        help="The folder with the agreement data, numpred.val and its kin; for sentiment, SST-2.",
    ),
]
Out = Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="The folder to write.")]
Corpora = Annotated[
    Path | None,
    typer.Option(
        "--corpora",
        metavar="FOLDER",
        help="For verbs: brown.zip, masc_tagged.zip and ud_english_ewt.conllu.gz.",
        show_default=False,
    ),
]
Base = Annotated[
    str | None,
    typer.Option(
        "--base",
        metavar="NAME",
        help="For sentiment: the pretrained encoder, a hub name or a folder.",
        show_default=False,
    ),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Of the run.")]
Steps = Annotated[
    int | None,
    typer.Option("--steps", metavar="N", min=1, help="For verbs: how long.", show_default="6000"),
]
Device = Annotated[
    str | None,
    typer.Option(
        "--device", metavar="NAME", help="cpu, cuda …", show_default="the GPU where there is one"
    ),
]


def train(  # noqa: PLR0913 - one argument an option
    model: Model,
    *,
    data: Data,
    out: Out,
    corpora: Corpora = None,
    base: Base = None,
    seed: Seed = 0,
    steps: Steps = None,
    device: Device = None,
) -> None:
    """Train the shipped model anew, or the sentiment model of Table 3.

    A run that was stopped goes on where it was.

    Example: attnflow train verbs --data sva --corpora corpora -o my-verbs
    """
    needed = ("--corpora", corpora) if model is Which.VERBS else ("--base", base)
    if needed[1] is None:
        msg = f"training {model} needs {needed[0]}; see attnflow train --help"
        raise InputError(msg)
    others = {"--base": base} if model is Which.VERBS else {"--corpora": corpora, "--steps": steps}
    for name, value in others.items():
        if value is not None:
            msg = f"{name} is not for {model}; leave it out"
            raise InputError(msg)
    from attnflow.paper.training.recipe import Recipe
    from attnflow.paper.training.run import train_sentiment, train_verbs
    from attnflow.paper.training.sentiment import SentimentRecipe

    if corpora is not None and model is Which.VERBS:
        recipe = Recipe(seed=seed) if steps is None else Recipe(seed=seed, steps=steps)
        scores = train_verbs(data, corpora, out, recipe=recipe, device=device)
    else:
        tuned = SentimentRecipe(seed=seed)
        scores = train_sentiment(data, str(base), out, recipe=tuned, device=device)
    typer.echo(f"accuracy of the model in {out}")
    for name, facts in scores.items():
        right = "–" if facts["accuracy"] is None else f"{facts['accuracy']:.3f}"
        typer.echo(f"{right}  {name} ({facts['rows']} rows)")
