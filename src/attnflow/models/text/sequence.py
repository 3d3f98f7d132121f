"""A network that reads one sequence of tokens, and what can be asked of it without its maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attnflow.errors import InputError, ModelError
from attnflow.models.adapter import Filler, ModelAdapter, Tokens, refuse_answer
from attnflow.models.capture import run as network
from attnflow.models.capture.towards import ItemRelevance, hand_back
from attnflow.models.heads import BARE, CAUSAL, CLASSIFIER, MASKED, TAGGER, HeadKind
from attnflow.models.objectives import label_indices, token_indices
from attnflow.models.outputs import is_multi_label, no_probability, objective_value
from attnflow.models.sizes import depth_of, describe, heads_in, limit
from attnflow.models.text.blanking import blank_tokens, find_filler
from attnflow.models.text.embeddings import EmbeddingEdit
from attnflow.models.text.joining import with_space_notice
from attnflow.models.text.tokens import check_text, check_texts, name_token, tokenize

if TYPE_CHECKING:
    from attnflow.models.adapter import Edit

MEASURED = (CLASSIFIER, TAGGER, MASKED, CAUSAL)  # heads with a probability of a target


@dataclass(frozen=True, eq=False)
class SequenceModel(ModelAdapter):
    """A network of one sequence with its tokenizer and its head."""

    network: Any
    tokenizer: Any
    name: str
    head: HeadKind

    kind = "text"
    edits_words = True
    estimates_memory = True

    @property
    def reads_pairs(self) -> bool:
        """Whether an input can be a pair of texts: causal language models continue one."""
        return self.head is not CAUSAL

    @property
    def predicts(self) -> bool:
        """Whether it has a head."""
        return self.head is not BARE

    @property
    def labels_tokens(self) -> bool:
        """Whether its head labels single tokens."""
        return self.head is TAGGER

    @property
    def description(self) -> dict[str, Any]:
        """What was loaded."""
        return describe(self.network, self.head)

    @property
    def depth(self) -> int:
        """The number of layers."""
        return depth_of(self.network)

    @property
    def heads(self) -> int:
        """The most heads that a layer has."""
        return heads_in(self.network)

    @property
    def mask_token(self) -> str | None:
        """The mask of a masked language model."""
        return str(self.tokenizer.mask_token) if self.head is MASKED else None

    @property
    def labels_of(self) -> Any:
        """The network's configuration where outputs are labels of a whole input; else ``None``."""
        return self.network.config if self.head is CLASSIFIER else None

    @property
    def keeps_some_logits(self) -> bool:
        """Whether the network can be asked for the logits of some positions only."""
        return "logits_to_keep" in signature(type(self.network).forward).parameters

    @property
    def padding(self) -> tuple[int | None, int | None]:
        """The padding token's number, as the tokenizer and as the model know it."""
        config = self.network.config.get_text_config()
        return self.tokenizer.pad_token_id, getattr(config, "pad_token_id", None)

    def tokenize(self, item: Any, *, truncate: bool = False, answer: str | None = None) -> Tokens:
        """One text as tokens."""
        refuse_answer(self.name, answer)
        (check_text if self.head is CAUSAL else check_texts)(self.name, item)
        most = limit(self.network, self.tokenizer)
        read = tokenize(self.tokenizer, item, most, truncate=truncate)
        return with_space_notice(self.tokenizer, read) if self.head is CAUSAL else read

    def inputs(self, batch: Sequence[Tokens]) -> dict[str, Any]:
        """What the network is called with: padded tensors, where the network is."""
        padding = self.tokenizer.pad_token_id
        inputs = network.pad([t.inputs for t in batch], {"input_ids": padding or 0})
        device = network.device_of(self.network)
        tensors: dict[str, Any] = {name: tensor.to(device) for name, tensor in inputs.items()}
        if hasattr(self.network.config, "use_cache"):
            tensors["use_cache"] = False
        return tensors

    def logits(
        self, batch: Sequence[Tokens], positions: Sequence[int], edit: Edit | None = None
    ) -> Tensor:
        """For each input the logits of all labels, or of all tokens at its position."""
        if self.head not in MEASURED:
            raise no_probability(self.name)
        return self._logits_of(network.in_eval_mode(self.network), batch, positions, edit)

    def _logits_of(
        self,
        evaluated: Any,
        batch: Sequence[Tokens],
        positions: Sequence[int],
        edit: Edit | None = None,
    ) -> Tensor:
        """The same of the network as it is, or of a copy of it."""
        inputs = self.inputs(batch)
        chosen = list(positions)
        if self.head is CAUSAL and self.keeps_some_logits:
            # A vocabulary is wide: the logits of all positions may be larger than the model.
            wanted = sorted(set(chosen))
            inputs["logits_to_keep"] = torch.tensor(wanted, device=network.device_of(self.network))
            chosen = [wanted.index(position) for position in chosen]
        if edit is None:
            logits: Tensor = network.called(evaluated, inputs).logits
        else:
            table = self.network.get_input_embeddings()
            with EmbeddingEdit(table, inputs["input_ids"], edit) as mode:
                logits = network.called(evaluated, inputs).logits
            if mode.count != 1:
                msg = (
                    f"{self.name} looks its word embeddings up {mode.count} times instead of once: "
                    "gradients by them can't be taken"
                )
                raise ModelError(msg)
        if self.head is not CLASSIFIER:
            logits = logits[torch.arange(len(logits)), chosen]
        return logits.double()

    def relevance(
        self, tokens: Tokens, position: int, target: int, contrast: int | None = None
    ) -> ItemRelevance:
        """The layer-wise relevance of a text's tokens for a label, or a token at a position."""
        several = is_multi_label(self.labels_of)

        def value(net: Any) -> Tensor:
            logits = self._logits_of(net, [tokens], [position])[0]
            return objective_value(logits, target, contrast, multi_label=several, centred=True)

        return hand_back(self.network, self.inputs([tokens]), value, self.name)

    def row_bytes(self, length: int, *, gradients: bool = False) -> int:
        """About how much memory one input of that length takes, to choose batches that fit."""
        config = self.network.config.get_text_config()
        width, heads = int(config.hidden_size), int(getattr(config, "num_attention_heads", 1))
        layer = length * (24 * width) + 3 * heads * length**2
        outputs = 0 if self.head in (CLASSIFIER, TAGGER) else int(config.vocab_size)
        outputs *= 3 * (1 if self.head is CAUSAL and self.keeps_some_logits else length)
        return 4 * ((self.depth if gradients else 2) * layer + outputs)

    def output_indices(self, target: str | int) -> tuple[int, ...]:
        """The numbers of the labels or tokens of a name."""
        if self.head in (CLASSIFIER, TAGGER):
            return label_indices(self.network.config, target, self.name)
        size = self.network.config.get_text_config().vocab_size
        return token_indices(self.tokenizer, target, size, self.name)

    def output_name(self, index: int) -> str:
        """The name of a label, or a token as it is shown."""
        if self.head in (CLASSIFIER, TAGGER):
            return str(self.network.config.id2label[index])
        return name_token(self.tokenizer, index)

    def filler(self, name: str | None = None) -> Filler:
        """What replaces a blanked token."""
        if self.head is TAGGER and name == "delete":
            msg = (
                f"tokens can't be deleted for {self.name}, which labels tokens: the one that is "
                "explained would go, too; choose 'unk', 'mask' or 'pad'"
            )
            raise InputError(msg)
        return find_filler(self.tokenizer, name, self.name)

    def blankable(self, tokens: Tokens, query: int) -> list[int]:
        """All but special tokens and the mask; a causal model predicts *after* its last token."""
        special = tokens.word_ids or [0] * len(tokens)
        own = query if self.head in (MASKED, TAGGER) else None
        return [at for at, word in enumerate(special) if word is not None and at != own]

    def blank(self, tokens: Tokens, positions: Sequence[int], filler: Filler) -> Tokens:
        """The text with a filler at each of these positions."""
        return blank_tokens(tokens, positions, filler)

    def generate(self, tokens: Tokens, length: int) -> list[int]:
        """The most likely tokens that follow, one by one."""
        if self.head is not CAUSAL:
            msg = f"{self.name} is not a causal language model: it can't continue a text"
            raise ModelError(msg)
        inputs = self.inputs([tokens])
        inputs.pop("use_cache", None)
        return network.generate(self.network, inputs, length)[len(tokens) :]
