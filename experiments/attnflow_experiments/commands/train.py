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
        help="For verbs: the folder with the agreement data (numpred.val, …). For sentiment: a "
        "folder with train.tsv and dev.tsv, such as GLUE's SST-2.",
    ),
]
Out = Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="The folder to write.")]
Corpora = Annotated[
    Path | None,
    typer.Option(
        "--corpora",
        metavar="FOLDER",
        help="For verbs and --small: the folder with brown.zip, masc_tagged.zip, "
        "ud_english_ewt.conllu.gz.",
        show_default=False,
    ),
]
Base = Annotated[
    str | None,
    typer.Option(
        "--base",
        metavar="NAME",
        help="For sentiment: the pretrained encoder or decoder: a hub name, a folder, a GGUF "
        "file. With --small: the classifier to learn from.",
        show_default=False,
    ),
]
Labels = Annotated[
    str | None,
    typer.Option(
        "--labels",
        metavar="A,B,…",
        help="For sentiment: the names of the labels 0, 1, …; SST-2's are negative,positive.",
        show_default="as in train.tsv",
    ),
]
Small = Annotated[
    bool,
    typer.Option(
        "--small", help="For sentiment: distill --base into a model like the shipped one."
    ),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="The random seed.")]
Steps = Annotated[
    int | None,
    typer.Option(
        "--steps",
        metavar="N",
        min=1,
        help="For verbs and --small: the number of steps.",
        show_default="6000, with --small 700",
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
    labels: Labels = None,
    small: Small = False,
    seed: Seed = 0,
    steps: Steps = None,
    epochs: Epochs = None,
    learning_rate: LearningRate = None,
    device: Device = None,
) -> None:
    """Train a shipped model again, or a text classifier of your own.

    For a classifier of your own, --data is a folder with train.tsv and dev.tsv, each a header and
    lines of text, tab, label, and the task is sentiment whatever the labels are. Run the same
    command again to continue an interrupted run.

    Example: attnflow train verbs --data sva --corpora corpora -o my-verbs

    Example: attnflow train sentiment --data my-texts --base bert-base-uncased -o my-classifier

    Example: attnflow train sentiment --small --data sst2 --corpora corpora --base my-classifier
    -o my-small-classifier
    """
    _check_options(
        model, small=small,
        given={
            "--corpora": corpora, "--steps": steps, "--base": base, "--epochs": epochs,
            "--learning-rate": learning_rate, "--labels": labels,
        },
    )  # fmt: skip
    if learning_rate is not None and not 0 < learning_rate < 1:
        msg = f"--learning-rate {learning_rate} must be above 0 and below 1, such as 5e-5"
        raise InputError(msg)
    from attnflow_experiments.training import run
    from attnflow_experiments.training.distillation import SmallRecipe
    from attnflow_experiments.training.recipe import Recipe
    from attnflow_experiments.training.sentiment import SentimentRecipe

    chosen = {"steps": steps, "epochs": epochs, "learning_rate": learning_rate}
    given: dict[str, Any] = {name: each for name, each in chosen.items() if each is not None}
    if model is TrainableModel.VERBS:
        recipe = Recipe(seed=seed, **given)
        scores = run.train_verbs(data, Path(corpora or ""), out, recipe=recipe, device=device)
    elif small:
        small_recipe = SmallRecipe(seed=seed, **given)
        scores = run.train_small(
            data, Path(corpora or ""), str(base), out, recipe=small_recipe, device=device
        )
    else:
        fine_tuning = SentimentRecipe(seed=seed, **given)
        names = None if labels is None else labels.split(",")
        scores = run.train_sentiment(
            data, str(base), out, labels=names, recipe=fine_tuning, device=device
        )
    typer.echo(f"accuracy of the model in {out}")
    for name, score in scores.items():
        accuracy = "–" if score["accuracy"] is None else f"{score['accuracy']:.3f}"
        typer.echo(f"{accuracy}  {name} ({score['rows']} rows)")


REQUIRED = {"verbs": ("--corpora",), "sentiment": ("--base",), "--small": ("--base", "--corpora")}
ALLOWED = {
    "verbs": ("--corpora", "--steps"),
    "sentiment": ("--base", "--epochs", "--learning-rate", "--labels"),
    "--small": ("--base", "--corpora", "--steps", "--learning-rate"),
}


def _check_options(model: TrainableModel, *, small: bool, given: dict[str, Any]) -> None:
    """Refuse what a training needs and has not, and what it would ignore."""
    if small and model is TrainableModel.VERBS:
        msg = "--small is not for verbs, which is small; leave it out"
        raise InputError(msg)
    kind = "--small" if small else str(model)
    name = "sentiment --small" if small else kind
    for option in REQUIRED[kind]:
        if given[option] is None:
            msg = f"training {name} needs {option}; see attnflow train --help"
            raise InputError(msg)
    for option, value in given.items():
        if value is not None and option not in ALLOWED[kind]:
            msg = f"{option} is not for {name}; leave it out"
            raise InputError(msg)
