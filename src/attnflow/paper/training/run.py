"""`attnflow train`: from data to a folder that loads like any Hugging Face model."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress, TextColumn

from attnflow.errors import InputError, ModelError
from attnflow.models.loading import no_bars, why_not_loaded
from attnflow.paper.training.batches import Batches
from attnflow.paper.training.data import load
from attnflow.paper.training.loop import Run, fit
from attnflow.paper.training.recipe import Recipe
from attnflow.paper.training.scores import Scores, is_right, score
from attnflow.paper.training.sentiment import SentimentRecipe, SentimentRun, read_sentiment
from attnflow.paper.training.verbs import VerbsRun
from attnflow.paper.verbs.tokenizer import build_tokenizer

POSITIONS = 64
CHECKPOINT, WEIGHTS = "checkpoint.pt", "model.safetensors"


def train_verbs(
    data: Path, corpora: Path, out: Path, *, recipe: Recipe | None = None, device: str | None = None
) -> Scores:
    """Train the verb-number model; an interrupted run continues where it stopped.

    Args:
        data: The agreement data: numpred.val, numpred.test.1 … 5, full_sentences/wiki-dev.txt.
        corpora: The folder with brown.zip, masc_tagged.zip and ud_english_ewt.conllu.gz.
        out: The folder to write: configuration, weights, tokenizer, its nouns and scores.json.
        recipe: Every number of the run; the default is the shipped model's.
        device: ``"cpu"``, ``"cuda"`` …; the GPU where there is one.

    Returns:
        Accuracy on everything held out.
    """
    recipe, device = recipe or Recipe(), _device(device)
    _refuse_finished(out)
    with Console(stderr=True).status("reading data"):
        found = load(data, corpora)
    tokenizer = build_tokenizer(found.vocabulary, POSITIONS)
    run = VerbsRun(Batches(found, tokenizer, recipe, device), recipe, device)
    _fit(run, out, device)
    scores = score(run.average, tokenizer, found.held_out, found.lexicon)
    nouns = "".join(f"{word}\t{number}\n" for word, number in found.lexicon.number.items())
    (out / "nouns.tsv").write_text(nouns, encoding="utf-8")
    facts = {"recipe": asdict(recipe), "device": device, "scores": scores}
    _save(run.average, tokenizer, out, facts)
    return scores


def train_sentiment(
    data: Path,
    base: str | Path,
    out: Path,
    *,
    recipe: SentimentRecipe | None = None,
    device: str | None = None,
) -> Scores:
    """Fine-tune an encoder on SST-2 for Table 3; an interrupted run continues where it stopped.

    Args:
        data: GLUE's SST-2 folder, with train.tsv (or train.tsv.gz) and dev.tsv.
        base: The pretrained encoder, a hub name or a folder.
        out: The folder to write: configuration, weights, tokenizer and scores.json.
        recipe: Every number of the run.
        device: ``"cpu"``, ``"cuda"`` …; the GPU where there is one.

    Returns:
        Accuracy on the development rows.
    """
    recipe, device = recipe or SentimentRecipe(), _device(device)
    _refuse_finished(out)
    packed = data / "train.tsv.gz"
    rows = read_sentiment(packed if packed.exists() else data / "train.tsv")
    held = read_sentiment(data / "dev.tsv")
    try:
        with no_bars():
            run = SentimentRun(base, rows, recipe, device)
    except (OSError, ValueError) as error:
        raise ModelError(why_not_loaded(str(base), str(base), error)) from error
    _fit(run, out, device)
    right = is_right(run.model.eval(), run.tokenizer, held)
    scores: Scores = {"dev.tsv": {"accuracy": sum(right) / len(held), "rows": len(held)}}
    facts = {"base": str(base), "recipe": asdict(recipe), "device": device, "scores": scores}
    _save(run.model, run.tokenizer, out, facts)
    return scores


def _fit(run: Run, out: Path, device: str) -> None:
    out.mkdir(parents=True, exist_ok=True)
    checkpoint, console = out / CHECKPOINT, Console(stderr=True, highlight=False)
    if checkpoint.exists():
        console.print(f"continuing from {checkpoint}", markup=False)
    columns = (*Progress.get_default_columns(), TextColumn("{task.fields[loss]}"))
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(f"training on {device}", total=run.steps, loss="")
        try:
            fit(
                run,
                checkpoint,
                lambda step, loss: progress.update(task, completed=step, loss=f"loss {loss:.3f}"),
            )
        except KeyboardInterrupt:
            progress.update(task, completed=run.step)
            console.print("what was learnt is kept: the same command goes on from here")
            raise


def _save(model: Any, tokenizer: Any, out: Path, facts: dict[str, Any]) -> None:
    """Weights as float16 (half the size, the same answers), to be computed with as float32."""
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
        settings["tokenizer_class"] = "PreTrainedTokenizerFast"  # the name that every version knows
    path.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    (out / "scores.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    (out / CHECKPOINT).unlink(missing_ok=True)


def _refuse_finished(out: Path) -> None:
    if (out / WEIGHTS).exists() and not (out / CHECKPOINT).exists():
        msg = f"{out} already holds a trained model: choose another folder, or remove that one"
        raise InputError(msg)


def _device(given: str | None) -> str:
    """The device to train on, checked: the GPU where there is one."""
    if given is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=given)
    except (RuntimeError, AssertionError):
        msg = f"device={given!r} can't be used here; give cpu, or cuda where there is one"
        raise InputError(msg) from None
    return given
