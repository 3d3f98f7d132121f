"""Distilling a fine-tuned classifier into a model small enough to ship."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnflow.errors import InputError
from attnflow.io.files import digest
from attnflow.models.locating import locate
from attnflow_experiments.training.cutting import cut_down
from attnflow_experiments.training.loop import TrainingRun
from attnflow_experiments.training.subwords import check_pieces, choose_pieces, trim_tokenizer
from attnflow_experiments.training.variations import Lexicon, TextSampler

MAX_LENGTH = 256


@dataclass(frozen=True)
class SmallRecipe:
    """The sizes of the small model and the hyperparameters of its training."""

    seed: int = 0
    steps: int = 700
    batch: int = 128
    learning_rate: float = 1e-4
    weight_decay: float = 0.05
    vocabulary: int = 8_000
    embedding: int = 384
    layers: int = 6
    neurons: int = 1_024
    """The width of the feed-forward layers."""
    states: float = 1.0
    """The weight of the teacher's states in the loss, beside its logits."""


class SmallRun(TrainingRun):
    """Trains a small encoder to give a teacher's logits, and its states for every token."""

    recipe: SmallRecipe

    def __init__(
        self, teacher: str, texts: Sequence[str], sentences: Sequence[str], recipe: SmallRecipe,
        device: str,
    ) -> None:  # fmt: skip
        torch.manual_seed(recipe.seed)
        self.recipe, self.device, self.steps = recipe, device, recipe.steps
        self.teacher_name = teacher
        phrases = [joined for text in texts for joined in written_both_ways(text)]
        self.data_digest = digest([*phrases, *sentences])
        network, larger = load_teacher(teacher)
        self.length = min(MAX_LENGTH, network.config.max_position_embeddings)
        pieces = choose_pieces(larger, [*phrases, *sentences], recipe.vocabulary)
        self.tokenizer = trim_tokenizer(larger, pieces, self.length)
        # The teacher reads the same pieces, under the numbers of its own vocabulary.
        numbers = larger.get_vocab()
        teacher_ids = torch.tensor([numbers[piece] for piece in pieces])
        table = network.get_input_embeddings().weight.detach()[teacher_ids]
        lexicon = Lexicon(self.tokenizer)
        phrase_words, sentence_words = lexicon.read(phrases), lexicon.read(list(sentences))
        lexicon.find_similar(table.numpy())
        self.texts = TextSampler(lexicon, phrase_words, sentence_words, recipe.seed)
        sizes = {name: getattr(recipe, name) for name in ("embedding", "layers", "neurons")}
        self.model = cut_down(network, teacher_ids, self.length, **sizes).to(device).train()
        self.teacher = network.to(device, torch.bfloat16).eval().requires_grad_(False)
        self.teacher_ids = teacher_ids.to(device)
        trained: list[nn.Parameter] = list(self.model.parameters())
        groups: list[dict[str, Any]] = [
            {"params": [p for p in trained if p.ndim > 1], "weight_decay": recipe.weight_decay},
            {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98), fused=True)

    @property
    def request(self) -> dict[str, Any]:
        """The recipe, the data and the teacher."""
        return {**super().request, "teacher": self.teacher_name}

    def learning_rate(self) -> float:
        """The learning rate of the present step: a linear warm-up, then a cosine to zero."""
        done = self.step / self.steps
        warm_up, cosine = 20 * (done + 1 / self.steps), 0.5 + 0.5 * math.cos(math.pi * done)
        return self.recipe.learning_rate * min(warm_up, cosine)

    def loss(self) -> Tensor:
        """The distance from the teacher on the texts of the present step."""
        ids, mask = self._batch()
        device_type = self.device.split(":")[0]
        with torch.autocast(device_type, torch.bfloat16):
            with torch.no_grad():
                taught = self.teacher(
                    self.teacher_ids[ids], attention_mask=mask, output_hidden_states=True
                )
            learnt = self.model(ids, attention_mask=mask, output_hidden_states=True)
        loss = nn.functional.mse_loss(learnt.logits.float(), taught.logits.float())
        last = (learnt.hidden_states[-1].float(), taught.hidden_states[-1].float())
        apart = nn.functional.mse_loss(*last, reduction="none").mean(-1)
        return loss + self.recipe.states * (apart * mask).sum() / mask.sum()

    def _batch(self) -> tuple[Tensor, Tensor]:
        """The pieces of the step's texts between CLS and SEP, padded; and where they stand."""
        first, last = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id
        texts = self.texts.draw(self.step, self.recipe.batch, self.length - 2)
        rows = [torch.tensor([first, *pieces, last]) for pieces in texts]
        padding = self.tokenizer.pad_token_id
        ids = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=padding)
        ids = ids.to(self.device)
        return ids, (ids != padding).long()


def written_both_ways(text: str) -> list[str]:
    """The text as the treebank writes it, and with contractions as people write them."""
    joined = text
    for ending in ("n't", "'s", "'re", "'ve", "'ll", "'d", "'m"):
        joined = joined.replace(f" {ending}", ending)
    return [text] if joined == text else [text, joined]


def load_teacher(name: str) -> tuple[Any, Any]:
    """The fine-tuned BERT classifier to learn from, and its tokenizer."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    where, options = locate(name)
    network = AutoModelForSequenceClassification.from_pretrained(
        where, dtype=torch.float32, **options
    )
    if network.config.model_type != "bert" or "BertForSequenceClassification" not in (
        network.config.architectures or ()
    ):
        msg = (
            f"--base {name!r} must be a BERT that was trained as a classifier; train one "
            "first: attnflow train sentiment --data TEXTS --base ENCODER -o TEACHER"
        )
        raise InputError(msg)
    tokenizer = AutoTokenizer.from_pretrained(where, **options)
    check_pieces(tokenizer)
    return network, tokenizer
