"""Models that are trained here to do a known thing, for kinds that no package carries.

An encoder–decoder writes the word that follows the sign ``>`` in a list of random words; a vision
transformer says of which colour the one patch is that is not grey; a classifier on a decoder reads
the last state of SmolLM2, whose own weights stay as they are.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from attnflow.models.locating import locate
from attnflow_experiments.known_answers.cases import Case, planted_sentence
from attnflow_experiments.known_answers.prepare import save_plain

WORDS = (
    *("apple", "bread", "chair", "door", "engine", "field", "garden", "house", "island", "jacket"),
    *("kitchen", "lamp", "mirror", "needle", "orange", "paper", "queen", "river", "stone", "table"),
)
SIGN = ">"
LIST = 8  # words
STEPS, BATCH = 1500, 64
COLOURS = ("red", "green", "blue")
GRID, PATCH = 4, 8  # patches a side, pixels a side
SEEN_STEPS = 200
PROBED = 120  # sentences


def list_with_sign(chance: random.Random) -> tuple[str, str, int]:
    """A list of words, the one behind the sign, and its place."""
    words = chance.sample(WORDS, LIST)
    at = chance.randrange(LIST)
    return " ".join([*words[:at], SIGN, *words[at:]]), words[at], at + 1


def copier(folder: Path, seed: int) -> Path:
    """A T5 of four and four layers that writes the word behind the sign, trained once."""
    if (folder / "config.json").exists():
        return folder
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

    torch.manual_seed(seed)
    chance = random.Random(seed)
    names = ["[PAD]", "[UNK]", SIGN, *WORDS]
    core = Tokenizer(models.WordLevel({name: at for at, name in enumerate(names)}, "[UNK]"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, pad_token="[PAD]", unk_token="[UNK]")
    sizes = {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 4, "num_heads": 4}
    network = T5ForConditionalGeneration(
        T5Config(
            vocab_size=len(names),
            dropout_rate=0.0,
            decoder_start_token_id=0,
            pad_token_id=0,
            eos_token_id=None,
            **sizes,
        )
    )
    optimizer = torch.optim.AdamW(network.parameters(), 1e-3)
    for _ in range(STEPS):
        rows = [list_with_sign(chance) for _ in range(BATCH)]
        ids = torch.tensor(tokenizer([text for text, _, _ in rows])["input_ids"])
        labels = torch.tensor([[names.index(word)] for _, word, _ in rows])
        network(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    tokenizer.save_pretrained(folder)
    network.eval().save_pretrained(folder)
    return folder


def lists(model: Any, seed: int) -> Iterator[Case]:
    """Lists of which the model copies the right word."""
    chance = random.Random(seed + 1)
    while True:
        text, word, at = list_with_sign(chance)
        tokens = model.tokenize(text)
        if model.predict([tokens], [len(tokens) - 1])[0].label == word:
            yield Case(text, frozenset([at]))


def picture(chance: np.random.Generator) -> tuple[npt.NDArray[np.uint8], int, int]:
    """Grey noise with one coloured patch, its colour, and its place."""
    size = GRID * PATCH
    image = np.repeat(chance.integers(60, 196, (size, size, 1)), 3, 2)
    colour, at = int(chance.integers(len(COLOURS))), int(chance.integers(GRID**2))
    row, column = divmod(at, GRID)
    rows = slice(row * PATCH, (row + 1) * PATCH)
    columns = slice(column * PATCH, (column + 1) * PATCH)
    image[rows, columns] //= 3
    image[rows, columns, colour] *= 3
    return image.astype(np.uint8), colour, at


def watcher(folder: Path, seed: int) -> Path:
    """A ViT of six layers that names the colour, trained once."""
    if (folder / "config.json").exists():
        return folder
    import torch
    from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor

    torch.manual_seed(seed)
    chance = np.random.default_rng(seed)
    size = GRID * PATCH
    processor = ViTImageProcessor(size={"height": size, "width": size})
    network = ViTForImageClassification(
        ViTConfig(
            hidden_size=64,
            num_hidden_layers=6,
            num_attention_heads=4,
            intermediate_size=128,
            image_size=size,
            patch_size=PATCH,
            hidden_dropout_prob=0.0,
            id2label=dict(enumerate(COLOURS)),
            label2id={name: at for at, name in enumerate(COLOURS)},
        )
    )
    optimizer = torch.optim.AdamW(network.parameters(), 1e-3)
    for _ in range(SEEN_STEPS):
        rows = [picture(chance) for _ in range(BATCH)]
        pixels = processor([image for image, _, _ in rows], return_tensors="pt")["pixel_values"]
        labels = torch.tensor([colour for _, colour, _ in rows])
        network(pixel_values=pixels, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    processor.save_pretrained(folder)
    network.eval().save_pretrained(folder)
    return folder


def pictures(_: Any, seed: int) -> Iterator[Case]:
    """Pictures; the patch that decides is counted behind the class token."""
    chance = np.random.default_rng(seed + 1)
    while True:
        image, _, at = picture(chance)
        yield Case(image, frozenset([at + 1]))  # type: ignore[arg-type] # an image for a text


def probe(folder: Path, base: Path, seed: int) -> Path:
    """A linear classifier of planted sentences on the last state of a decoder, fitted once."""
    if (folder / "config.json").exists():
        return folder
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    where, options = locate(str(base))
    tokenizer = AutoTokenizer.from_pretrained(where, **options)
    names = ("negative", "positive")
    network = AutoModelForSequenceClassification.from_pretrained(
        where,
        **options,
        id2label=dict(enumerate(names)),
        label2id={name: at for at, name in enumerate(names)},
        pad_token_id=tokenizer.pad_token_id,
    ).eval()
    chance = random.Random(seed)
    rows = [planted_sentence(chance, (0, 3)) for _ in range(PROBED)]
    with torch.no_grad():
        states = torch.stack(
            [
                network.model(torch.tensor([tokenizer(text)["input_ids"]])).last_hidden_state[0, -1]
                for text, _, _ in rows
            ]
        )
    labels = torch.tensor([label for _, _, label in rows])
    weights = torch.zeros(len(names), states.shape[1], requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=200)

    def loss() -> Any:
        optimizer.zero_grad()
        found = torch.nn.functional.cross_entropy(states @ weights.T, labels)
        found = found + 1e-3 * (weights**2).sum()
        found.backward()
        return found

    optimizer.step(loss)
    with torch.no_grad():
        network.score.weight.copy_(weights)
    tokenizer.save_pretrained(folder)
    save_plain(network, folder)
    return folder
