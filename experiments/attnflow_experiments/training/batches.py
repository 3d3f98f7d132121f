"""Batches of token ids, sampled from the sources and augmented on the training device."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnflow.io.files import digest
from attnflow_experiments.training.data import MIN_CONTINUED, TrainingData
from attnflow_experiments.training.lexicon import QUANTITIES
from attnflow_experiments.training.recipe import Recipe

POOL_SIZE = 1 << 18
"""Nouns drawn in advance for each number: indexing them is faster than weighted drawing."""
PARTS = (0.6, 0.9, 1.0)
"""Where a batch, sorted by length, is cut into parts."""
NOT_A_NOUN = 2


@dataclass(frozen=True)
class Batch:
    """Token ids ``[row, position]``, the padding mask, position numbers and labels."""

    ids: Tensor
    mask: Tensor
    positions: Tensor
    labels: Tensor


class BatchSampler:
    """Samples batches; the n-th batch depends only on the data, the recipe and n.

    Attributes:
        digest: The SHA-256 of the training rows.
        vocabulary: Word → token id.
    """

    def __init__(self, data: TrainingData, tokenizer: Any, recipe: Recipe, device: str) -> None:
        self.recipe, self.device = recipe, device
        self.digest = digest(data.sources)
        self.vocabulary: Mapping[str, int] = tokenizer.get_vocab()
        self._max_length = tokenizer.model_max_length
        self._unknown, self._mask = tokenizer.unk_token_id, tokenizer.mask_token_id
        self._width = 1 + max(len(p.split()) for rows in data.sources.values() for p, _ in rows)
        self._sources = {
            name: (
                *self._encode([p for p, _ in rows]),
                torch.tensor([label for _, label in rows]).to(device),
            )
            for name, rows in data.sources.items()
        }
        self._prepare_nouns(data)
        self._prepare_held_out(data)

    def _encode(self, prefixes: list[str]) -> tuple[Tensor, Tensor]:
        """Rows of token ids, with CLS first and padded; and their lengths."""
        ids = torch.zeros(len(prefixes), self._width, dtype=torch.long)
        lengths = torch.zeros(len(prefixes), dtype=torch.long)
        for row, prefix in enumerate(prefixes):
            words = ["[CLS]", *prefix.split()][: self._width]
            lengths[row] = len(words)
            ids[row, : len(words)] = torch.tensor(
                [self.vocabulary.get(word, self._unknown) for word in words]
            )
        return ids.to(self.device), lengths.to(self.device)

    def _prepare_nouns(self, data: TrainingData) -> None:
        """Look-up tables: the number of every token, and a pool of nouns of each number."""
        number, counts = data.lexicon.number, data.lexicon.counts
        numbers = torch.full((len(self.vocabulary),), NOT_A_NOUN)
        rng = random.Random(self.recipe.seed)
        pools = []
        for current in (0, 1):
            nouns = [w for w in number if number[w] == current and w not in QUANTITIES]
            numbers[[self.vocabulary[word] for word in nouns]] = current
            weights = [counts[word] ** 0.5 for word in nouns]
            drawn = rng.choices(nouns, weights, k=POOL_SIZE)
            pools.append(torch.tensor([self.vocabulary[word] for word in drawn]))
        self._numbers, self._pools = numbers.to(self.device), torch.stack(pools).to(self.device)

    def _prepare_held_out(self, data: TrainingData) -> None:
        """Hashes of all held-out prefixes: a random linear function of their ids."""
        generator = torch.Generator().manual_seed(1)
        factors = torch.randint(1, 1 << 61, (self._width,), generator=generator)
        self._factors = factors.to(self.device)
        ids, lengths = self._encode(sorted(data.held_out.prefixes))
        hashes = (ids * self._factors).cumsum(1)
        self._held_out = hashes.gather(1, lengths[:, None] - 1).flatten()

    def _shows_held_out(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Which rows equal a held-out prefix, or continue one of four words or more."""
        found = torch.isin((ids * self._factors).cumsum(1), self._held_out)
        at = torch.arange(ids.shape[1], device=ids.device)
        relevant = (at == lengths[:, None] - 1) | ((at >= MIN_CONTINUED) & (at < lengths[:, None]))
        return (found & relevant).any(1)

    def draw(self, step: int) -> list[Batch]:
        """The batch of a step, in parts of similar length: most rows are short."""
        generator = torch.Generator(self.device).manual_seed(self.recipe.seed * 1_000_003 + step)
        drawn = []
        for name, count in self.recipe.mixture.items():
            ids, lengths, labels = self._sources[name]
            rows = torch.randint(len(ids), (count,), generator=generator, device=self.device)
            drawn.append((ids[rows], lengths[rows], labels[rows]))
        ids, lengths, labels = (torch.cat(part) for part in zip(*drawn, strict=True))
        substituted = self._substitute_nouns(ids, generator)
        ids = torch.where(self._shows_held_out(substituted, lengths)[:, None], ids, substituted)
        ids = self._replace_by_unknown(ids, lengths, generator)
        lengths, order = lengths.sort()
        ends = [round(share * len(order)) for share in PARTS]
        sizes = lengths[[end - 1 for end in ends]].tolist()
        return [
            self._shift(ids[rows, :size], lengths[start:end], labels[rows], generator)
            for start, end, size in zip([0, *ends], ends, sizes, strict=False)
            for rows in [order[start:end]]
        ]

    def _shift(
        self, ids: Tensor, lengths: Tensor, labels: Tensor, generator: torch.Generator
    ) -> Batch:
        """The batch, each row starting at a random position up to the recipe's shift."""
        size = ids.shape[1]
        at = torch.arange(size, device=self.device)
        choices = min(self.recipe.shift, self._max_length - size) + 1
        start = torch.randint(choices, (len(ids), 1), generator=generator, device=self.device)
        return Batch(ids, at < lengths[:, None], at + start, labels)

    def _substitute_nouns(self, ids: Tensor, generator: torch.Generator) -> Tensor:
        """Replace a fraction of the nouns by others of the same number."""
        numbers = self._numbers[ids]
        chance = torch.rand(ids.shape, generator=generator, device=self.device)
        at = torch.randint(POOL_SIZE, ids.shape, generator=generator, device=self.device)
        nouns = torch.where(numbers == 0, self._pools[0, at], self._pools[1, at])
        chosen = (numbers != NOT_A_NOUN) & (chance < self.recipe.substitute)
        return torch.where(chosen, nouns, ids)

    def _replace_by_unknown(
        self, ids: Tensor, lengths: Tensor, generator: torch.Generator
    ) -> Tensor:
        """Replace a fraction of the words by UNK; never CLS or padding."""
        if not self.recipe.unknown:
            return ids
        chance = torch.rand(ids.shape, generator=generator, device=self.device)
        at = torch.arange(ids.shape[1], device=self.device)
        chosen = (at > 0) & (at < lengths[:, None]) & (chance < self.recipe.unknown)
        return ids.masked_fill(chosen, self._unknown)

    def mask_words(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Mask up to two words per row: the ids, the masked positions, and the words there."""
        lengths = batch.mask.sum(1, keepdim=True)
        chance = torch.rand((len(lengths), 2), device=self.device)
        masked = 1 + (chance * (lengths - 1)).long().clamp(max=batch.ids.shape[1] - 2)
        return batch.ids.scatter(1, masked, self._mask), masked, batch.ids.gather(1, masked)
