"""A smaller encoder cut out of a BERT classifier: fewer pieces, layers and neurons."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn


def cut_down(
    network: Any, kept: Tensor, length: int, *, embedding: int, layers: int, neurons: int
) -> Any:
    """Make an ELECTRA classifier out of parts of a BERT classifier, as a start for training.

    Args:
        network: The BERT classifier.
        kept: The numbers of the pieces to keep.
        length: How many positions to keep.
        embedding: The width of the embeddings; less than the states', their principal components.
        layers: How many layers to keep, spread evenly, the last one included.
        neurons: How many neurons to keep in a feed-forward layer: those with the largest weights.
    """
    from transformers import ElectraConfig, ElectraForSequenceClassification

    old = network.config
    config: Any = ElectraConfig(
        vocab_size=len(kept), embedding_size=embedding, hidden_size=old.hidden_size,
        num_hidden_layers=layers, num_attention_heads=old.num_attention_heads,
        intermediate_size=neurons, max_position_embeddings=length,
        hidden_dropout_prob=old.hidden_dropout_prob, hidden_act=old.hidden_act,
        attention_probs_dropout_prob=old.attention_probs_dropout_prob,
        layer_norm_eps=old.layer_norm_eps, pad_token_id=int((kept == old.pad_token_id).nonzero()),
        id2label=old.id2label, label2id=old.label2id,
    )  # fmt: skip
    build: Any = ElectraForSequenceClassification
    model = build(config)
    with torch.no_grad():
        if embedding == old.hidden_size:
            _keep_embeddings(network.bert.embeddings, model.electra.embeddings, kept, length)
        else:
            _reduce_embeddings(network.bert.embeddings, model.electra, kept, length)
        blocks = network.bert.encoder.layer
        for at, new in enumerate(model.electra.encoder.layer):
            block = copy.deepcopy(blocks[round((at + 1) * len(blocks) / layers) - 1])
            _prune_neurons(block, neurons)
            new.load_state_dict(block.state_dict())
    return model


def _keep_embeddings(old: Any, new: Any, kept: Tensor, length: int) -> None:
    new.word_embeddings.weight.copy_(old.word_embeddings.weight[kept])
    new.position_embeddings.weight.copy_(old.position_embeddings.weight[:length])
    new.token_type_embeddings.load_state_dict(old.token_type_embeddings.state_dict())
    new.LayerNorm.load_state_dict(old.LayerNorm.state_dict())


def _reduce_embeddings(old: Any, new: Any, kept: Tensor, length: int) -> None:
    """Write embeddings in their principal components, and the way back as the projection."""
    words = old.word_embeddings.weight[kept]
    positions = old.position_embeddings.weight[:length]
    kinds = old.token_type_embeddings.weight
    middle = words.mean(0)
    _, _, directions = torch.linalg.svd(words - middle, full_matrices=False)
    size = new.config.embedding_size
    directions = directions[:size]
    new.embeddings.word_embeddings.weight.copy_((words - middle) @ directions.T)
    new.embeddings.position_embeddings.weight.copy_(positions @ directions.T)
    new.embeddings.token_type_embeddings.weight.copy_(kinds @ directions.T)
    new.embeddings_project.weight.copy_(old.LayerNorm.weight[:, None] * directions.T)
    new.embeddings_project.bias.copy_(old.LayerNorm.bias)


def _prune_neurons(block: Any, neurons: int) -> None:
    """Keep the neurons whose weights to and from are the largest."""
    into, out = block.intermediate.dense, block.output.dense
    size = into.weight.norm(dim=1) * out.weight.norm(dim=0)
    best = size.topk(neurons).indices.sort().values
    into.weight = nn.Parameter(into.weight[best])
    into.bias = nn.Parameter(into.bias[best])
    out.weight = nn.Parameter(out.weight[:, best])
