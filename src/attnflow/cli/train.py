"""``attnflow train``: the models of the reproduction."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from attnflow.errors import InputError


class TrainableModel(StrEnum):
    """The models that can be trained."""

    VERBS = "verbs"
    SENTIMENT = "sentiment"


Model = Annotated[
    TrainableModel, typer.Argument(metavar="MODEL", help="verbs or sentiment.", show_default=False)
]
Data = Annotated[
    Path,
    typer.Option(
        "--data",
        metavar="FOLDER",
        help="The folder with the agreement data (numpred.val, …); for sentiment, GLUE's SST-2.",
    ),
]
Out = Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="The folder to write.")]
Corpora = Annotated[
    Path | None,
    typer.Option(
        "--corpora",
        metavar="FOLDER",
        help="For verbs: the folder with brown.zip, masc_tagged.zip, ud_english_ewt.conllu.gz.",
        show_default=False,
    ),
]
Base = Annotated[
    str | None,
    typer.Option(
        "--base",
        metavar="NAME",
        help="For sentiment: the pretrained encoder or decoder: a hub name, a folder, a GGUF file.",
        show_default=False,
    ),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="The random seed.")]
Steps = Annotated[
    int | None,
    typer.Option(
        "--steps", metavar="N", min=1, help="For verbs: the number of steps.", show_default="6000"
    ),
]
Epochs = Annotated[
    int | None,
    typer.Option(
        "--epochs",
        metavar="N",
        min=1,
        help="For sentiment: how often all texts are seen.",
        show_default="3",
    ),
]
LearningRate = Annotated[
    float | None,
    typer.Option(
        "--learning-rate",
        metavar="RATE",
        help="For sentiment: the highest learning rate.",
        show_default="5e-5, for pretrained weights",
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        "--device", metavar="NAME", help="cpu, cuda …", show_default="the GPU if there is one"
    ),
]


def train(  # noqa: PLR0913 - one argument per option
    model: Model,
    *,
    data: Data,
    out: Out,
    corpora: Corpora = None,
    base: Base = None,
    seed: Seed = 0,
    steps: Steps = None,
    epochs: Epochs = None,
    learning_rate: LearningRate = None,
    device: Device = None,
) -> None:
    """Train the shipped model again, or a classifier of texts: Table 3's, or your own.

    For a classifier of your own, --data is a folder with train.tsv and dev.tsv, each a header and
    lines of text, tab, 0 or 1. Run the same command again to continue an interrupted run.

    Example: attnflow train verbs --data sva --corpora corpora -o my-verbs
    """
    verbs = {"--corpora": corpora, "--steps": steps}
    sentiment = {"--base": base, "--epochs": epochs, "--learning-rate": learning_rate}
    required, unused = (
        ("--corpora", sentiment) if model is TrainableModel.VERBS else ("--base", verbs)
    )
    if {**verbs, **sentiment}[required] is None:
        msg = f"training {model} needs {required}; see attnflow train --help"
        raise InputError(msg)
    for name, value in unused.items():
        if value is not None:
            msg = f"{name} is not for {model}; leave it out"
            raise InputError(msg)
    if learning_rate is not None and not 0 < learning_rate < 1:
        msg = f"--learning-rate {learning_rate} must be above 0 and below 1, such as 5e-5"
        raise InputError(msg)
    from attnflow.paper.training.recipe import Recipe
    from attnflow.paper.training.run import train_sentiment, train_verbs
    from attnflow.paper.training.sentiment import SentimentRecipe

    if corpora is not None and model is TrainableModel.VERBS:
        recipe = Recipe(seed=seed) if steps is None else Recipe(seed=seed, steps=steps)
        scores = train_verbs(data, corpora, out, recipe=recipe, device=device)
    else:
        chosen = {"epochs": epochs, "learning_rate": learning_rate}
        given: dict[str, Any] = {name: each for name, each in chosen.items() if each is not None}
        fine_tuning = SentimentRecipe(seed=seed, **given)
        scores = train_sentiment(data, str(base), out, recipe=fine_tuning, device=device)
    typer.echo(f"accuracy of the model in {out}")
    for name, score in scores.items():
        accuracy = "–" if score["accuracy"] is None else f"{score['accuracy']:.3f}"
        typer.echo(f"{accuracy}  {name} ({score['rows']} rows)")
