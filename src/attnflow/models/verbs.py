"""The paper's verb-number model: GPT-2 blocks without a causal mask, read at a CLS token.

The blocks are GPT-2's (layer norm before each part, one projection for queries, keys and values,
the tanh form of GELU), implemented here so that they do not depend on the version of transformers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    PretrainedConfig,
    PreTrainedModel,
)
from transformers.modeling_outputs import BaseModelOutput, SequenceClassifierOutput


class VerbsConfig(PretrainedConfig):
    """Sizes of the verb-number model; the paper's are the defaults."""

    model_type = "attnflow-verbs"

    def __init__(
        self,
        vocab_size: int = 10_000,
        hidden_size: int = 128,
        num_hidden_layers: int = 6,
        num_attention_heads: int = 8,
        max_position_embeddings: int = 64,
        dropout: float = 0.1,
        **kwargs: Any,
    ) -> None:
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.max_position_embeddings = max_position_embeddings
        self.dropout = dropout
        kwargs.setdefault("id2label", {0: "singular", 1: "plural"})
        kwargs.setdefault("label2id", {"singular": 0, "plural": 1})
        kwargs.setdefault("pad_token_id", 0)
        super().__init__(**kwargs)


class SelfAttention(nn.Module):
    """Every position attends to every position that is not padding."""

    def __init__(self, config: VerbsConfig) -> None:
        super().__init__()
        self.heads = config.num_attention_heads
        self.project = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.output = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, hidden: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """The new states and the attention, ``[batch, head, query, key]``."""
        batch, size, width = hidden.shape
        parts = self.project(hidden).view(batch, size, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5 + bias
        attention = scores.softmax(-1)
        mixed = self.dropout(attention) @ value
        return self.output(mixed.transpose(1, 2).reshape(batch, size, width)), attention


class VerbsBlock(nn.Module):
    """One GPT-2 block."""

    def __init__(self, config: VerbsConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.norm_attention = nn.LayerNorm(width)
        self.attention = SelfAttention(config)
        self.norm_mlp = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, hidden: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """The new states and the attention."""
        change, attention = self.attention(self.norm_attention(hidden), bias)
        hidden = hidden + self.dropout(change)
        return hidden + self.dropout(self.mlp(self.norm_mlp(hidden))), attention


class VerbsPreTrainedModel(PreTrainedModel):
    """Loading and initialization."""

    config_class = VerbsConfig
    base_model_prefix = "encoder"

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)


class VerbsModel(VerbsPreTrainedModel):
    """The encoder: word and position embeddings, the blocks, a last layer norm."""

    def __init__(self, config: VerbsConfig) -> None:
        super().__init__(config)
        self.words = nn.Embedding(config.vocab_size, config.hidden_size)
        self.positions = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(VerbsBlock(config) for _ in range(config.num_hidden_layers))
        self.norm = nn.LayerNorm(config.hidden_size)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """The word embeddings, without positions."""
        return self.words

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the word embeddings."""
        self.words = value  # type: ignore[assignment] # transformers gives an Embedding

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_attentions: bool | None = None,
        position_ids: Tensor | None = None,
        output_hidden_states: bool | None = None,
        **_: Any,
    ) -> BaseModelOutput:
        """The last states, ``[batch, position, width]``."""
        words = self.words(input_ids) if inputs_embeds is None else inputs_embeds
        size = words.shape[1]
        if size > self.config.max_position_embeddings:
            limit = self.config.max_position_embeddings
            msg = f"{size} tokens are too many; the model takes at most {limit}"
            raise ValueError(msg)
        if attention_mask is None:
            attention_mask = words.new_ones(words.shape[:2])
        bias = (1.0 - attention_mask[:, None, None, :].to(words.dtype)) * torch.finfo(
            words.dtype
        ).min
        if position_ids is None:
            position_ids = torch.arange(size, device=words.device)
        hidden = self.dropout(words + self.positions(position_ids))
        attentions, states = [], [hidden]
        for block in self.blocks:
            hidden, attention = block(hidden, bias)
            attentions.append(attention)
            states.append(hidden)
        last = self.norm(hidden)
        return BaseModelOutput(
            last_hidden_state=last,
            hidden_states=(*states[:-1], last) if output_hidden_states else None,
            attentions=tuple(attentions) if output_attentions else None,
        )


class VerbsForSequenceClassification(VerbsPreTrainedModel):
    """Singular or plural, read from the last state of the first token, CLS."""

    decides = "the number of the verb that comes next"

    def __init__(self, config: VerbsConfig) -> None:
        super().__init__(config)
        self.encoder = VerbsModel(config)
        self.classifier = nn.Linear(config.hidden_size, len(config.id2label or ()))
        self.post_init()

    def forward(  # noqa: PLR0913 - the keywords of transformers
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_attentions: bool | None = None,
        position_ids: Tensor | None = None,
        labels: Tensor | None = None,
        output_hidden_states: bool | None = None,
        **_: Any,
    ) -> SequenceClassifierOutput:
        """Logits, ``[batch, label]``, and the cross-entropy where labels are given."""
        encoded = self.encoder(
            input_ids,
            attention_mask,
            inputs_embeds,
            output_attentions,
            position_ids,
            output_hidden_states,
        )
        logits = self.classifier(encoded.last_hidden_state[:, 0])
        loss: Any = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return SequenceClassifierOutput(
            loss=loss,
            logits=logits,
            hidden_states=encoded.hidden_states,
            attentions=encoded.attentions,
        )


def register() -> None:
    """Register the architecture with transformers' Auto classes, so that its folders load."""
    AutoConfig.register(VerbsConfig.model_type, VerbsConfig, exist_ok=True)
    AutoModel.register(VerbsConfig, VerbsModel, exist_ok=True)
    AutoModelForSequenceClassification.register(
        VerbsConfig, VerbsForSequenceClassification, exist_ok=True
    )
