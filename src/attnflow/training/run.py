"""`attnflow train`: from data to a folder that loads like any Hugging Face model."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress, TextColumn

from attnflow.errors import InputError
from attnflow.models.verbs.tokenizer import build_tokenizer
from attnflow.training import sentiment
from attnflow.training.batches import Batches
from attnflow.training.data import load
from attnflow.training.loop import Trainer, fit
from attnflow.training.recipe import Recipe
from attnflow.training.scores import Scores, score

POSITIONS = 64


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
    recipe, device = recipe or Recipe(), device or _best_device()
    _refuse_finished(out)
    console = Console(stderr=True)
    with console.status("reading data"):
        found = load(data, corpora)
    tokenizer = build_tokenizer(found.vocabulary, POSITIONS)
    trainer = Trainer(Batches(found, tokenizer, recipe, device), recipe, device)
    out.mkdir(parents=True, exist_ok=True)
    checkpoint = out / "checkpoint.pt"
    with _progress(console) as progress:
        task = progress.add_task(f"training on {device}", total=recipe.steps, loss=float("nan"))
        model = fit(
            trainer,
            checkpoint,
            lambda step, loss: progress.update(task, completed=step, loss=loss),
        )
    scores = score(model, tokenizer, found.held_out, found.lexicon)
    _save(model, tokenizer, out)
    nouns = "".join(f"{word}\t{number}\n" for word, number in found.lexicon.number.items())
    (out / "nouns.tsv").write_text(nouns, encoding="utf-8")
    facts = {"recipe": asdict(recipe), "device": device, "scores": scores}
    (out / "scores.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    checkpoint.unlink(missing_ok=True)
    return scores


def train_sentiment(
    data: Path,
    base: str | Path,
    out: Path,
    *,
    recipe: sentiment.SentimentRecipe | None = None,
    device: str | None = None,
) -> Scores:
    """Fine-tune an encoder on SST-2 for Table 3; accuracy on the development rows."""
    recipe, device = recipe or sentiment.SentimentRecipe(), device or _best_device()
    _refuse_finished(out)
    packed = data / "train.tsv.gz"
    rows = sentiment.read_sentiment(packed if packed.exists() else data / "train.tsv")
    held = sentiment.read_sentiment(data / "dev.tsv")
    with _progress(Console(stderr=True)) as progress:
        task = progress.add_task(f"training on {device}", total=None, loss=float("nan"))
        model, tokenizer = sentiment.fine_tune(
            base,
            rows,
            recipe,
            device,
            lambda step, total, loss: progress.update(task, completed=step, total=total, loss=loss),
        )
    right = sentiment.accuracy(model, tokenizer, held, device)
    out.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    return {"dev.tsv": {"accuracy": right, "rows": len(held)}}


def _save(model: Any, tokenizer: Any, out: Path) -> None:
    """Weights as float16 (half the size, the same answers), to be computed with as float32."""
    from safetensors.torch import load_file, save_file

    model.config.dtype = "float32"
    model.save_pretrained(out)
    weights = load_file(out / "model.safetensors")
    halved = {name: tensor.half() for name, tensor in weights.items()}
    save_file(halved, out / "model.safetensors", metadata={"format": "pt"})
    tokenizer.save_pretrained(out)
    path = out / "tokenizer_config.json"
    facts = json.loads(path.read_text(encoding="utf-8"))
    facts.pop("backend", None)
    facts["tokenizer_class"] = "PreTrainedTokenizerFast"  # the name that every version knows
    path.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def _progress(console: Console) -> Progress:
    return Progress(
        *Progress.get_default_columns(), TextColumn("loss {task.fields[loss]:.3f}"), console=console
    )


def _refuse_finished(out: Path) -> None:
    if (out / "model.safetensors").exists():
        msg = f"{out} already holds a trained model: choose another folder, or remove that one"
        raise InputError(msg)


def _best_device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"
