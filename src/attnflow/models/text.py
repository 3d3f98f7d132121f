"""Encoders and decoders of one sequence: BERT, GPT-2, Llama and their kin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from attnflow.errors import ModelError
from attnflow.models.adapter import ForwardPass, Query, Tokens, Wish, refuse_target
from attnflow.models.capture import run as network
from attnflow.models.heads import (
    CAUSAL,
    CLASSIFIER,
    MASKED,
    TAGGER,
    HeadKind,
    predict,
    predict_label,
)
from attnflow.models.tokens import check_text, name_token, tokenize
from attnflow.records import Prediction

UNLIMITED = 1_000_000  # tokenizers that know no limit say 1e30


@dataclass(frozen=True, eq=False)
class TextModel:
    """A model of one sequence with its tokenizer."""

    network: Any
    tokenizer: Any
    name: str
    head: HeadKind

    @property
    def description(self) -> dict[str, Any]:
        """What was loaded."""
        return describe(self.network, self.head)

    @property
    def depth(self) -> int:
        """The number of layers."""
        return int(self.network.config.get_text_config().num_hidden_layers)

    @property
    def batchable(self) -> bool:
        """Whether inputs of different lengths can run together.

        A decoder's classifier finds the last token by its padding, so it needs a padding token.
        """
        return self.head is not CLASSIFIER or self.network.config.pad_token_id is not None

    def tokenize(self, item: Any, *, truncate: bool = False, target: str | None = None) -> Tokens:
        """One text as tokens."""
        refuse_target(self.name, target)
        check_text(self.name, item)
        return tokenize(
            self.tokenizer, item, limit(self.network, self.tokenizer), truncate=truncate
        )

    def read(self, batch: Sequence[Tokens], query: Query, wish: Wish) -> list[ForwardPass]:
        """Run the network once on a batch."""
        inputs = self.batch(batch)
        output, capture = network.run(self.network, self._call(inputs), wish)
        width = inputs["input_ids"].shape[1]
        network.expect(capture.sites, self.depth, (width, width))
        records = [network.square_activations(capture, i, len(t)) for i, t in enumerate(batch)]
        queries = [
            self._position(query, tokens, causal=record.causal)
            for tokens, record in zip(batch, records, strict=True)
        ]
        if wish.gradients:
            target = torch.stack([self._target(output, i, q) for i, q in enumerate(queries)]).sum()
            records = network.with_gradients(records, capture, target)
        said = [self._prediction(output, i, q, batch[i]) for i, q in enumerate(queries)]
        return [ForwardPass(*parts) for parts in zip(batch, records, queries, said, strict=True)]

    def batch(self, batch: Sequence[Tokens]) -> dict[str, torch.Tensor]:
        """The inputs of several texts as padded tensors, where the network is."""
        padding = self.tokenizer.pad_token_id
        inputs = network.pad([t.inputs for t in batch], {"input_ids": padding or 0})
        device = network.device_of(self.network)
        return {name: tensor.to(device) for name, tensor in inputs.items()}

    def _call(self, inputs: dict[str, Any]) -> dict[str, Any]:
        return (
            {**inputs, "use_cache": False} if hasattr(self.network.config, "use_cache") else inputs
        )

    def _position(self, query: Query, tokens: Tokens, *, causal: bool) -> int:
        if query is not None and query != "all":
            return tokens.position(query)
        if self.head is MASKED:
            ids = tokens.inputs["input_ids"]
            masks = [i for i, token in enumerate(ids) if token == self.tokenizer.mask_token_id]
            if len(masks) > 1:
                return tokens.position(self.tokenizer.mask_token)  # an error that lists them
            if masks:
                return masks[0]
        return len(tokens) - 1 if causal or self.head is CAUSAL else 0

    def _logits(self, output: Any, item: int, query: int) -> torch.Tensor | None:
        logits = getattr(output, "logits", None)
        if logits is None:
            return None
        if self.head is CLASSIFIER:
            return logits[item]  # type: ignore[no-any-return]
        return logits[item, query] if self.head in (MASKED, CAUSAL, TAGGER) else None

    def _target(self, output: Any, item: int, query: int) -> torch.Tensor:
        logits = self._logits(output, item, query)
        if logits is None:
            msg = f"{self.name} has no head that predicts, so there is nothing to differentiate"
            raise ModelError(msg)
        return logits.max()

    def _prediction(self, output: Any, item: int, query: int, tokens: Tokens) -> Prediction | None:
        logits = self._logits(output, item, query)
        if logits is None:
            return None
        if self.head is CLASSIFIER:
            return predict_label(logits, self.network.config)
        if self.head is TAGGER:
            labels = self.network.config.id2label
            return predict(logits, lambda label: str(labels[label]), query)
        if (
            self.head is MASKED
            and tokens.inputs["input_ids"][query] != self.tokenizer.mask_token_id
        ):
            return None  # without a mask the model repeats what it was given
        return predict(logits, lambda token: name_token(self.tokenizer, token), query)


def limit(net: Any, tokenizer: Any) -> int | None:
    """How many tokens the model takes, special ones included; ``None`` where nothing limits it."""
    config = net.config.get_text_config()
    positions = getattr(config, "max_position_embeddings", None)
    for name, module in net.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding):
            # RoBERTa and its kin count positions from after the padding token's.
            positions = module.num_embeddings - (module.padding_idx or -1) - 1
            break
    said = getattr(tokenizer, "model_max_length", None)
    known = [n for n in (positions, said) if n is not None and 0 < n < UNLIMITED]
    return min(known, default=None)


def describe(net: Any, task: HeadKind) -> dict[str, Any]:
    """What was loaded, for people and for the record."""
    parameter = next(net.parameters())
    return {
        "class": type(net).__name__,
        "head": task.name,
        "device": str(parameter.device),
        "precision": str(parameter.dtype).removeprefix("torch."),
    }
