"""`attnflow train`: from data to a folder that loads like any Hugging Face model."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress, TextColumn

from attnflow.errors import InputError, ModelError
from attnflow.io.checkpoint import Checkpoint, saved_names
from attnflow.models.loading import no_bars
from attnflow.models.locating import why_not_loaded
from attnflow_experiments.training.batches import BatchSampler
from attnflow_experiments.training.corpora import Row, read_sentences
from attnflow_experiments.training.data import load_training_data
from attnflow_experiments.training.distillation import SmallRecipe, SmallRun
from attnflow_experiments.training.labelled import (
    NAMED,
    check_labels,
    decided,
    find_labels,
    number,
    read_held_out_lines,
    read_training_lines,
)
from attnflow_experiments.training.loop import TrainingRun, fit
from attnflow_experiments.training.recipe import Recipe
from attnflow_experiments.training.scores import Scores, score_rows, score_verbs
from attnflow_experiments.training.sentiment import SentimentRecipe, SentimentRun
from attnflow_experiments.training.tokenizer import build_tokenizer
from attnflow_experiments.training.verbs import VerbsRun

MAX_LENGTH = 64
FEW_STEPS = 50  # fewer than these hardly move pretrained weights
CHECKPOINT, WEIGHTS = "checkpoint", "model.safetensors"


def train_verbs(
    data: Path, corpora: Path, out: Path, *, recipe: Recipe | None = None, device: str | None = None
) -> Scores:
    """Train the verb-number model; an interrupted run continues where it stopped.

    Args:
        data: The agreement data: numpred.val, numpred.test.1 … 5, full_sentences/wiki-dev.txt.
        corpora: The folder with brown.zip, masc_tagged.zip and ud_english_ewt.conllu.gz.
        out: The folder to write: configuration, weights, tokenizer, nouns.tsv and scores.json.
        recipe: The hyperparameters; by default those of the shipped model.
        device: ``"cpu"``, ``"cuda"`` …; by default the GPU if there is one.

    Returns:
        Accuracy on every held-out set.
    """
    recipe, device = recipe or Recipe(), _resolve_device(device)
    _refuse_finished(out)
    with Console(stderr=True).status("reading data"):
        loaded = load_training_data(data, corpora)
    tokenizer = build_tokenizer(loaded.vocabulary, MAX_LENGTH)
    run = VerbsRun(BatchSampler(loaded, tokenizer, recipe, device), recipe, device)
    checkpoint = _train(run, out, device)
    scores = score_verbs(run.average, tokenizer, loaded.held_out, loaded.lexicon)
    nouns = "".join(f"{word}\t{number}\n" for word, number in loaded.lexicon.number.items())
    (out / "nouns.tsv").write_text(nouns, encoding="utf-8")
    metadata = {"recipe": asdict(recipe), "device": device, "scores": scores}
    _save_model(run.average, tokenizer, out, metadata)
    checkpoint.done()
    return scores


def train_sentiment(
    data: Path,
    base: str | Path,
    out: Path,
    *,
    labels: Sequence[str] | None = None,
    recipe: SentimentRecipe | None = None,
    device: str | None = None,
) -> Scores:
    """Fine-tune a model on SST-2 or texts of one's own; an interrupted run continues.

    Args:
        data: A folder in the layout of GLUE's SST-2: train.tsv (or train.tsv.gz) and dev.tsv, each
            with a header line and lines of a text, a tab and a label, of which there may be any
            number.
        base: The pretrained encoder or decoder: a hub name, a folder or a GGUF file.
        out: The folder to write: configuration, weights, tokenizer and scores.json.
        labels: The names of the labels, in their order; by default as they are written. Where the
            data has 0, 1, … they name these: ``("negative", "positive")`` for SST-2.
        recipe: The hyperparameters.
        device: ``"cpu"``, ``"cuda"`` …; by default the GPU if there is one.

    Returns:
        Accuracy on the development rows.
    """
    recipe, device = recipe or SentimentRecipe(), _resolve_device(device)
    _refuse_finished(out)
    lines, held_out = read_training_lines(data), read_held_out_lines(data)
    names = find_labels(lines) if labels is None else check_labels(labels, lines)
    rows = number(lines, names, lines)
    scored = {name: number(each, names, lines) for name, each in held_out.items()}
    _tell_labels(names, rows)
    with _loading(base):
        run = SentimentRun(base, rows, names, recipe, device)
    run.model.config.decides = decided(names)
    _tell_few_steps(run)
    return _finish(run, base, scored, out)


def train_small(
    data: Path,
    corpora: Path,
    teacher: str | Path,
    out: Path,
    *,
    recipe: SmallRecipe | None = None,
    device: str | None = None,
) -> Scores:
    """Distill a fine-tuned classifier into a small one; an interrupted run continues.

    Args:
        data: What the teacher was trained on, GLUE's SST-2 for the shipped model: the texts of
            train.tsv are what the small model learns on.
        corpora: The folder with brown.zip, masc_tagged.zip and ud_english_ewt.conllu.gz, whose
            sentences have no labels: the teacher gives them.
        teacher: A classifier that `train_sentiment` made of an encoder with WordPiece tokens.
        out: The folder to write: configuration, weights, tokenizer and scores.json.
        recipe: The sizes and hyperparameters; by default those of the shipped model.
        device: ``"cpu"``, ``"cuda"`` …; by default the GPU if there is one.

    Returns:
        Accuracy on the development rows, and on the labelled test rows where the folder has them.
    """
    recipe, device = recipe or SmallRecipe(), _resolve_device(device)
    _refuse_finished(out)
    lines, held_out = read_training_lines(data), read_held_out_lines(data)
    with Console(stderr=True).status("reading data"):
        sentences = read_sentences(corpora)
        with _loading(teacher):
            texts = [line.text for line in lines]
            run = SmallRun(str(teacher), texts, sentences, recipe, device)
    names = list(run.model.config.id2label.values())
    scored = {name: number(each, names, lines) for name, each in held_out.items()}
    run.model.config.decides = getattr(run.teacher.config, "decides", decided(names))
    return _finish(run, teacher, scored, out)


def _finish(
    run: SentimentRun | SmallRun, base: str | Path, held_out: dict[str, list[Row]], out: Path
) -> Scores:
    """Train to the end, score what was held out and save."""
    checkpoint = _train(run, out, run.device)
    run.model.eval()
    scores = {name: score_rows(run.model, run.tokenizer, rows) for name, rows in held_out.items()}
    recipe = asdict(run.recipe)
    metadata = {"base": str(base), "recipe": recipe, "device": run.device, "scores": scores}
    _save_model(run.model, run.tokenizer, out, metadata)
    checkpoint.done()
    return scores


def _tell_labels(names: Sequence[str], rows: Sequence[Row]) -> None:
    """Say which labels there are, since a wrong column is seen there."""
    counts = Counter(label for _, label in rows)
    shown = ", ".join(f"{name} ({counts[at]})" for at, name in enumerate(names[:NAMED]))
    more = f", … {len(names)} in all" if len(names) > NAMED else ""
    line = f"labels of the texts to train on: {shown}{more}"
    Console(stderr=True).print(line, markup=False, highlight=False)


def _tell_few_steps(run: SentimentRun) -> None:
    """Say that so few texts teach little in so few epochs."""
    if run.steps < FEW_STEPS:
        epochs = -(-FEW_STEPS * run.recipe.epochs // run.steps)
        line = f"few steps, {run.steps} in all: it may learn little; --epochs {epochs} makes more"
        Console(stderr=True).print(line, markup=False, highlight=False)


@contextmanager
def _loading(base: str | Path) -> Iterator[None]:
    try:
        with no_bars():
            yield
    except (OSError, ValueError) as error:
        raise ModelError(why_not_loaded(str(base), str(base), error)) from error


def _train(run: TrainingRun, out: Path, device: str) -> Checkpoint:
    """Train to the end with a progress bar, and return the checkpoint, which has the last state."""
    checkpoint, console = Checkpoint(out / CHECKPOINT, run.request), Console(stderr=True)
    if checkpoint.names():
        console.print(f"continuing from {checkpoint.folder}", markup=False, highlight=False)
    columns = (*Progress.get_default_columns(), TextColumn("{task.fields[loss]}"))
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(f"training on {device}", total=run.steps, loss="")

        def report(step: int, loss: float) -> None:
            progress.update(task, completed=step, loss=f"loss {loss:.3f}")

        try:
            fit(run, checkpoint, report)
        except KeyboardInterrupt:
            progress.update(task, completed=run.step)
            console.print("progress is saved: run the same command again to continue")
            raise
    return checkpoint


def _save_model(model: Any, tokenizer: Any, out: Path, metadata: dict[str, Any]) -> None:
    """Save weights as float16 (half the size, the same predictions), to be loaded as float32."""
    from safetensors.torch import load_file, save_file

    model.config.dtype = "float32"
    with no_bars():
        model.save_pretrained(out)
    weights = load_file(out / WEIGHTS)
    halved = {name: tensor.half() for name, tensor in weights.items()}
    save_file(halved, out / WEIGHTS, metadata={"format": "pt"})
    tokenizer.save_pretrained(out)
    path = out / "tokenizer_config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings.pop("backend", None)
    if settings["tokenizer_class"] == "TokenizersBackend":
        settings["tokenizer_class"] = "PreTrainedTokenizerFast"  # known to every version
    path.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    (out / "scores.json").write_text(json.dumps(metadata, indent=2) + "\n", encoding="utf-8")


def _refuse_finished(out: Path) -> None:
    if (out / WEIGHTS).exists() and not saved_names(out / CHECKPOINT):
        msg = f"{out} already holds a trained model: choose another folder, or delete that one"
        raise InputError(msg)


def _resolve_device(device: str | None) -> str:
    """The device to train on: the one requested, or the GPU if there is one."""
    if device is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):
        msg = f"device={device!r} can't be used on this machine; give cpu, or cuda if it has a GPU"
        raise InputError(msg) from None
    return device
