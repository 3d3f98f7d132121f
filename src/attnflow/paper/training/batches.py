"""Batches of token ids, drawn from the sources and varied on the device that trains."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnflow.paper.training.data import CONTINUED, TrainingData
from attnflow.paper.training.lexicon import QUANTITIES
from attnflow.paper.training.recipe import Recipe

POOL = 1 << 18
"""Nouns drawn in advance for each number: indexing this is quicker than drawing."""
PARTS = (0.6, 0.9, 1.0)
"""Where a batch, sorted by length, is cut into parts."""


@dataclass(frozen=True)
class Batch:
    """Token ids ``[row, position]``, what is not padding, position numbers, and labels."""

    ids: Tensor
    mask: Tensor
    positions: Tensor
    labels: Tensor


class Batches:
    """Draws batches; the n-th batch depends on the recipe's seed and n alone."""

    def __init__(
        self,
        data: TrainingData,
        tokenizer: Any,
        recipe: Recipe,
        device: str,
    ) -> None:
        self.recipe, self.device = recipe, device
        self.positions = tokenizer.model_max_length
        self.vocabulary: Mapping[str, int] = tokenizer.get_vocab()
        self.unknown, self.masked = tokenizer.unk_token_id, tokenizer.mask_token_id
        self.width = 1 + max(len(p.split()) for rows in data.sources.values() for p, _ in rows)
        self.sources = {
            name: (
                *self._encode([p for p, _ in rows]),
                torch.tensor([label for _, label in rows]).to(device),
            )
            for name, rows in data.sources.items()
        }
        self._prepare_nouns(data)
        self._prepare_forbidden(data)

    def _encode(self, prefixes: list[str]) -> tuple[Tensor, Tensor]:
        """Rows of ids behind CLS, padded; and their lengths."""
        ids = torch.zeros(len(prefixes), self.width, dtype=torch.long)
        lengths = torch.zeros(len(prefixes), dtype=torch.long)
        for row, prefix in enumerate(prefixes):
            words = ["[CLS]", *prefix.split()][: self.width]
            lengths[row] = len(words)
            ids[row, : len(words)] = torch.tensor(
                [self.vocabulary.get(word, self.unknown) for word in words]
            )
        return ids.to(self.device), lengths.to(self.device)

    def _prepare_nouns(self, data: TrainingData) -> None:
        number, counts = data.lexicon.number, data.lexicon.counts
        kind = torch.full((len(self.vocabulary),), 2)
        draw = random.Random(self.recipe.seed)
        pools = []
        for wanted in (0, 1):
            nouns = [w for w in number if number[w] == wanted and w not in QUANTITIES]
            kind[[self.vocabulary[word] for word in nouns]] = wanted
            weights = [counts[word] ** 0.5 for word in nouns]
            chosen = draw.choices(nouns, weights, k=POOL)
            pools.append(torch.tensor([self.vocabulary[word] for word in chosen]))
        self.kind, self.pools = kind.to(self.device), torch.stack(pools).to(self.device)

    def _prepare_forbidden(self, data: TrainingData) -> None:
        generator = torch.Generator().manual_seed(1)
        self.factors = torch.randint(1, 1 << 61, (self.width,), generator=generator).to(self.device)
        ids, lengths = self._encode(sorted(data.held_out.prefixes))
        hashes = (ids * self.factors).cumsum(1)
        self.forbidden = hashes.gather(1, lengths[:, None] - 1).flatten()

    def shows_held_out(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Which rows equal a held-out prefix, or continue one of four words or more."""
        found = torch.isin((ids * self.factors).cumsum(1), self.forbidden)
        at = torch.arange(ids.shape[1], device=ids.device)
        relevant = (at == lengths[:, None] - 1) | ((at >= CONTINUED) & (at < lengths[:, None]))
        return (found & relevant).any(1)

    def draw(self, step: int) -> list[Batch]:
        """The batch of a step, in parts of similar length: most rows are short."""
        generator = torch.Generator(self.device).manual_seed(self.recipe.seed * 1_000_003 + step)
        drawn = []
        for name, count in self.recipe.mixture.items():
            ids, lengths, labels = self.sources[name]
            rows = torch.randint(len(ids), (count,), generator=generator, device=self.device)
            drawn.append((ids[rows], lengths[rows], labels[rows]))
        ids, lengths, labels = (torch.cat(part) for part in zip(*drawn, strict=True))
        varied = self._substitute(ids, generator)
        ids = torch.where(self.shows_held_out(varied, lengths)[:, None], ids, varied)
        ids = self._forget(ids, lengths, generator)
        lengths, order = lengths.sort()
        ends = [round(share * len(order)) for share in PARTS]
        sizes = lengths[[end - 1 for end in ends]].tolist()
        return [
            self._part(ids[rows, :size], lengths[start:end], labels[rows], generator)
            for start, end, size in zip([0, *ends], ends, sizes, strict=False)
            for rows in [order[start:end]]
        ]

    def _part(
        self, ids: Tensor, lengths: Tensor, labels: Tensor, generator: torch.Generator
    ) -> Batch:
        size = ids.shape[1]
        at = torch.arange(size, device=self.device)
        room = min(self.recipe.shift, self.positions - size) + 1
        start = torch.randint(room, (len(ids), 1), generator=generator, device=self.device)
        return Batch(ids, at < lengths[:, None], at + start, labels)

    def _substitute(self, ids: Tensor, generator: torch.Generator) -> Tensor:
        """Exchange a share of the nouns for others of the same number."""
        kind = self.kind[ids]
        chance = torch.rand(ids.shape, generator=generator, device=self.device)
        at = torch.randint(POOL, ids.shape, generator=generator, device=self.device)
        new = torch.where(kind == 0, self.pools[0, at], self.pools[1, at])
        return torch.where((kind < 2) & (chance < self.recipe.substitute), new, ids)

    def _forget(self, ids: Tensor, lengths: Tensor, generator: torch.Generator) -> Tensor:
        """Show a share of the words as UNK; never CLS or padding."""
        if not self.recipe.unknown:
            return ids
        chance = torch.rand(ids.shape, generator=generator, device=self.device)
        at = torch.arange(ids.shape[1], device=self.device)
        lost = (at > 0) & (at < lengths[:, None]) & (chance < self.recipe.unknown)
        return ids.masked_fill(lost, self.unknown)

    def hide(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """The batch with up to two words a row masked: ids, where, and the words."""
        lengths = batch.mask.sum(1, keepdim=True)
        chance = torch.rand((len(lengths), 2), device=self.device)
        where = 1 + (chance * (lengths - 1)).long().clamp(max=batch.ids.shape[1] - 2)
        return batch.ids.scatter(1, where, self.masked), where, batch.ids.gather(1, where)
