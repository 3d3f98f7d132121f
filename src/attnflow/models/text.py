"""Encoders and decoders of one sequence, such as BERT, GPT-2 and Llama."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from inspect import signature
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attnflow.errors import InputError, ModelError
from attnflow.models.adapter import (
    Filler,
    ForwardPass,
    Kind,
    Objective,
    Query,
    Tokens,
    refuse_answer,
)
from attnflow.models.blanking import blank_tokens, find_filler
from attnflow.models.capture import run as network
from attnflow.models.capture.mode import Capture
from attnflow.models.capture.spec import CaptureSpec
from attnflow.models.checks.deciding import (
    Rule,
    check_sight,
    deciding_positions,
    find_rule,
    refuse_seeing_ahead,
)
from attnflow.models.checks.memory import once
from attnflow.models.checks.mixing import last_states, mixing_warnings
from attnflow.models.checks.padding import batchable
from attnflow.models.checks.samples import lengthen, shorten
from attnflow.models.embeddings import EmbeddingEdit
from attnflow.models.heads import BARE, CAUSAL, CLASSIFIER, MASKED, TAGGER, HeadKind
from attnflow.models.objectives import label_index, resolve_objective, token_index
from attnflow.models.outputs import (
    is_multi_label,
    no_probability,
    predict,
    predict_label,
    to_probabilities,
)
from attnflow.models.readouts import make_readout
from attnflow.models.sizes import depth_of, describe, heads_in, limit
from attnflow.models.tagging import find_tagged
from attnflow.models.tokens import check_text, check_texts, name_token, tokenize
from attnflow.models.zeroing import measure_zeroing
from attnflow.records import Activations, Prediction

if TYPE_CHECKING:
    from attnflow.models.adapter import Edit

MEASURED = (CLASSIFIER, TAGGER, MASKED, CAUSAL)  # heads with a probability of a target
SAMPLE = 16  # tokens of an input that a check runs
DISTINCT = 3  # tokens that tell the first, the last and all of them apart


@dataclass(frozen=True, eq=False)
class TextModel:
    """A model of one sequence with its tokenizer."""

    network: Any
    tokenizer: Any
    name: str
    head: HeadKind

    @property
    def kind(self) -> Kind:
        """It takes a text."""
        return "text"

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

    def tokenize(self, item: Any, *, truncate: bool = False, answer: str | None = None) -> Tokens:
        """One text as tokens."""
        refuse_answer(self.name, answer)
        (check_text if self.head is CAUSAL else check_texts)(self.name, item)
        return tokenize(
            self.tokenizer, item, limit(self.network, self.tokenizer), truncate=truncate
        )

    def batchable(self, inputs: Sequence[Tokens]) -> bool:
        """Whether these inputs give together what each gives alone."""
        return batchable(self.network, inputs, self._outcomes, self._padding())

    def is_decoder(self, tokens: Tokens) -> bool:
        """Whether positions attend to none behind them; measured once, unless the head says so."""
        if self.head is CAUSAL:
            return True

        def find_out() -> bool:
            inputs = self.inputs([shorten(lengthen(tokens), SAMPLE)])
            _, capture = network.run(self.network, inputs, CaptureSpec())
            return bool(capture.sites) and network.is_causal(
                [site.probabilities[0] for site in capture.sites]
            )

        return once(self.network, "decoder", find_out)

    def run(
        self,
        batch: Sequence[Tokens],
        query: Query,
        spec: CaptureSpec,
        objectives: Sequence[Objective] = (),
    ) -> list[ForwardPass]:
        """Run the network once on a batch."""
        inputs = self.inputs(batch)
        output, capture = network.run(self.network, inputs, spec)
        width = inputs["input_ids"].shape[1]
        network.expect(capture.sites, self.depth, (width, width), self.network)
        passes = [
            replace(network.square_activations(capture, i, len(t)), model=self.name)
            for i, t in enumerate(batch)
        ]
        refuse_seeing_ahead(self.network, [layer for each in passes for layer in each.attention])
        aims = list(objectives) or [Objective()] * len(batch)
        asked = [
            (query, tokens, output, item, aim)
            for item, (tokens, aim) in enumerate(zip(batch, aims, strict=True))
        ]
        positions = [
            self._positions(*each, causal=seen.causal)
            for each, seen in zip(asked, passes, strict=True)
        ]
        batch = [
            replace(tokens, notices=tokens.notices + self._notices(*each))
            for tokens, each in zip(batch, asked, strict=True)
        ]
        if spec.zeroing:
            passes = [self.zeroed(*pair, spec) for pair in zip(passes, batch, strict=True)]
        queries = [first for first, *_ in positions]
        said = self._predictions(output, batch, queries)
        wanted = [self._asked(each) for each in aims]
        if spec.gradients:
            values = [
                self._objective(output, item, at, each, tokens)
                for item, (each, at, tokens) in enumerate(zip(aims, queries, batch, strict=True))
            ]
            passes = network.add_gradients(
                passes, capture, torch.stack([value for value, _ in values]).sum()
            )
            wanted = [named for _, named in values]
        if spec.readout:
            for item, (at, each) in enumerate(zip(positions, aims, strict=True)):
                alone = at[0] if len(at) == 1 else None
                passes[item], wanted[item] = self._with_readout(
                    passes[item], output, capture, item, alone, each, batch[item]
                )
        pooled = [each if len(each) > 1 else () for each in positions]
        warnings = [mixing_warnings(self, batch[0])] * len(batch)
        parts = zip(batch, passes, queries, said, wanted, pooled, warnings, strict=True)
        return [ForwardPass(*each) for each in parts]

    def _with_readout(  # noqa: PLR0913 - what one item of a run has
        self,
        activations: Activations,
        output: Any,
        capture: Capture,
        item: int,
        position: int | None,
        objective: Objective,
        tokens: Tokens,
    ) -> tuple[Activations, Objective | None]:
        """With how the target's logit is read, where one position decides."""
        logits = None if position is None else self._logits(output, item, position)
        if position is None or logits is None or logits.numel() == 1:
            return activations, None
        _, named = self._objective(output, item, position, objective, tokens)
        target = (
            logits.argmax() if objective.target is None else self.output_index(objective.target)
        )
        other = None if objective.contrast is None else self.output_index(objective.contrast)
        found = make_readout(capture, item, position, logits, int(target), other)
        return replace(activations, readout=found), named

    def zeroed(self, activations: Activations, tokens: Tokens, spec: CaptureSpec) -> Activations:
        """With what becomes of every layer without single values."""
        maps = [[layer] for layer in activations.attention]
        found = measure_zeroing(self.network, self.inputs([tokens]), maps, spec.progress)
        return replace(activations, zeroed=tuple(layer[0] for layer in found))

    def predict(self, batch: Sequence[Tokens], positions: Sequence[int]) -> list[Prediction | None]:
        """The predictions at positions."""
        with torch.no_grad():
            output = network.called(network.in_eval_mode(self.network), self.inputs(batch))
        return self._predictions(output, batch, positions)

    def decision(self, tokens: Tokens) -> int:
        """Where the head predicts: the mask, the last token, a token with a label, or the start."""
        if self.head not in MEASURED:
            raise no_probability(self.name)
        if self.head is TAGGER:
            with torch.no_grad():
                evaluated = network.in_eval_mode(self.network)
                output = network.called(evaluated, self.inputs([tokens]))
            return self._tagged(output, 0, tokens, Objective())[0]
        if self.head is MASKED:
            masks = self._masks(tokens)
            if len(masks) != 1:
                msg = (
                    f"{tokens.text!r} has {len(masks)} masks; a masked language model needs "
                    f"exactly one {self.tokenizer.mask_token} to predict"
                )
                raise InputError(msg)
            return masks[0]
        if self.head is CAUSAL:
            if len(tokens) > 1:
                once(
                    self.network, "sight", lambda: check_sight(self.network, self.inputs([tokens]))
                )
            return len(tokens) - 1
        return self._deciding(tokens)[0]

    def predicts_at(self, tokens: Tokens, position: int) -> bool:
        """Whether it is the mask: where a masked language model predicts, nothing is blanked."""
        return self.head is MASKED and position in self._masks(tokens)

    def logits(
        self, batch: Sequence[Tokens], positions: Sequence[int], edit: Edit | None = None
    ) -> Tensor:
        """For each input the logits of all labels, or of all tokens at its position."""
        if self.head not in MEASURED:
            raise no_probability(self.name)
        inputs, evaluated = self.inputs(batch), network.in_eval_mode(self.network)
        chosen = list(positions)
        if self.head is CAUSAL and self.keeps_some_logits:
            # A vocabulary is wide: the logits of all positions may be larger than the model.
            wanted = sorted(set(chosen))
            inputs["logits_to_keep"] = torch.tensor(wanted, device=network.device_of(self.network))
            chosen = [wanted.index(position) for position in chosen]
        if edit is None:
            logits: Tensor = network.called(evaluated, inputs).logits
        else:
            table = self.network.get_input_embeddings().weight
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

    @property
    def keeps_some_logits(self) -> bool:
        """Whether the network can be asked for the logits of some positions only."""
        return "logits_to_keep" in signature(type(self.network).forward).parameters

    def row_bytes(self, length: int, *, gradients: bool = False) -> int:
        """About how much memory one input of that length takes, to choose batches that fit."""
        config = self.network.config.get_text_config()
        width, heads = int(config.hidden_size), int(getattr(config, "num_attention_heads", 1))
        layer = length * (24 * width) + 3 * heads * length**2
        outputs = 0 if self.head in (CLASSIFIER, TAGGER) else int(config.vocab_size)
        outputs *= 3 * (1 if self.head is CAUSAL and self.keeps_some_logits else length)
        return 4 * ((self.depth if gradients else 2) * layer + outputs)

    def probabilities(
        self, batch: Sequence[Tokens], positions: Sequence[int], edit: Edit | None = None
    ) -> Tensor:
        """For each input the probabilities of all labels, or of all tokens at its position."""
        logits = self.logits(batch, positions, edit)
        labels = self.head is CLASSIFIER
        return to_probabilities(logits, self.network.config, labels=labels, name=self.name)

    def output_index(self, target: str | int) -> int:
        """The number of a label or a token, by its name or number."""
        if self.head in (CLASSIFIER, TAGGER):
            return label_index(self.network.config, target, self.name)
        size = self.network.config.get_text_config().vocab_size
        return token_index(self.tokenizer, target, size, self.name)

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

    def inputs(self, batch: Sequence[Tokens]) -> dict[str, Any]:
        """What the network is called with: padded tensors, where the network is."""
        padding = self.tokenizer.pad_token_id
        inputs = network.pad([t.inputs for t in batch], {"input_ids": padding or 0})
        device = network.device_of(self.network)
        tensors: dict[str, Any] = {name: tensor.to(device) for name, tensor in inputs.items()}
        if hasattr(self.network.config, "use_cache"):
            tensors["use_cache"] = False
        return tensors

    def _masks(self, tokens: Tokens) -> list[int]:
        ids = tokens.inputs["input_ids"]
        return [i for i, token in enumerate(ids) if token == self.tokenizer.mask_token_id]

    def _positions(
        self,
        query: Query,
        tokens: Tokens,
        output: Any,
        item: int,
        objective: Objective,
        *,
        causal: bool,
    ) -> tuple[int, ...]:
        """The position to explain; several where the head, or a model's pooling, reads several."""
        if query is not None and query != "all":
            return (tokens.position(query),)
        if self.head is CLASSIFIER:
            return self._deciding(tokens)
        if self.head is TAGGER:
            return (self._tagged(output, item, tokens, objective)[0],)
        if self.head is BARE and getattr(output, "pooler_output", None) is not None:
            # A pooler whose tanh is saturated depends on nothing: the start, as without a pooler.
            with suppress(ModelError):
                return self._deciding(tokens)
        masks = self._masks(tokens) if self.head is MASKED else []
        if len(masks) > 1:
            return (tokens.position(self.tokenizer.mask_token),)  # an error that lists them
        if masks:
            return (masks[0],)
        return (len(tokens) - 1 if causal or self.head is CAUSAL else 0,)

    def _notices(
        self, query: Query, tokens: Tokens, output: Any, item: int, objective: Objective
    ) -> tuple[str, ...]:
        """What a reader must know of how the position was chosen."""
        if self.head is not TAGGER or query is not None:
            return ()
        return self._tagged(output, item, tokens, objective)[1]

    def _tagged(
        self, output: Any, item: int, tokens: Tokens, objective: Objective
    ) -> tuple[int, tuple[str, ...]]:
        """The token whose label is explained where none is named."""
        target = None if objective.target is None else self.output_index(objective.target)
        logits = output.logits[item, : len(tokens)]
        return find_tagged(logits, tokens, self.network.config.id2label, target)

    def _deciding(self, tokens: Tokens) -> tuple[int, ...]:
        """Where a classifier decides, measured once; an input with padding in it has its own."""
        size = len(tokens)
        padded = 0 in tokens.inputs["attention_mask"] or any(
            number in tokens.inputs["input_ids"] for number in self._padding() if number is not None
        )
        if padded or size < DISTINCT:
            return deciding_positions(self.network, self.inputs([tokens]))

        def find_out() -> Rule | None:
            sample = shorten(tokens, SAMPLE)
            positions = deciding_positions(self.network, self.inputs([sample]))
            return find_rule(positions, len(sample))

        rule = once(self.network, ("deciding", self._padding()), find_out)
        return rule(size) if rule else deciding_positions(self.network, self.inputs([tokens]))

    def states(self, tokens: Tokens, ids: str = "input_ids") -> Tensor | None:
        """The last states of one input where every position attends to itself alone."""
        found = last_states(self.network, self.inputs([tokens]))
        return None if found is None or found.shape[1] != len(tokens) else found[0]

    def _padding(self) -> tuple[int | None, int | None]:
        """The padding token's number, as the tokenizer and as the model know it."""
        config = self.network.config.get_text_config()
        return self.tokenizer.pad_token_id, getattr(config, "pad_token_id", None)

    def _outcomes(self, batch: Sequence[Tokens]) -> list[list[Tensor]]:
        """For each input what must not depend on the others: outputs and attention."""
        output, capture = network.run(self.network, self.inputs(batch), CaptureSpec())
        return [
            [
                self._outcome(output, item, tokens),
                *(
                    site.probabilities[item, :, : len(tokens), : len(tokens)]
                    for site in capture.sites
                ),
            ]
            for item, tokens in enumerate(batch)
        ]

    def _outcome(self, output: Any, item: int, tokens: Tokens) -> Tensor:
        """What the head, or the last layer, says of one input of a batch."""
        logits = getattr(output, "logits", None)
        first = output[0] if logits is None else logits
        found: Tensor = first[item] if self.head is CLASSIFIER else first[item, : len(tokens)]
        return found

    def _logits(self, output: Any, item: int, query: int) -> Tensor | None:
        logits = getattr(output, "logits", None)
        if logits is None:
            return None
        if self.head is CLASSIFIER:
            return logits[item]  # type: ignore[no-any-return]
        return logits[item, query] if self.head in (MASKED, CAUSAL, TAGGER) else None

    def _asked(self, objective: Objective) -> Objective | None:
        """What is asked for whatever the edges are; nothing here, where targets are for edges."""
        return None

    def _objective(
        self, output: Any, item: int, query: int, objective: Objective, tokens: Tokens
    ) -> tuple[Tensor, Objective]:
        """The value of an objective, and its target and contrast by their names."""
        several = self.head is CLASSIFIER and is_multi_label(self.network.config)
        logits = self._logits(output, item, query)
        return resolve_objective(self, logits, objective, multi_label=several)

    def _predictions(
        self, output: Any, batch: Sequence[Tokens], positions: Sequence[int]
    ) -> list[Prediction | None]:
        pairs = enumerate(zip(batch, positions, strict=True))
        return [self._prediction(output, i, at, tokens) for i, (tokens, at) in pairs]

    def _prediction(self, output: Any, item: int, query: int, tokens: Tokens) -> Prediction | None:
        logits = self._logits(output, item, query)
        if logits is None:
            return None
        if self.head is CLASSIFIER:
            return predict_label(logits, self.network.config)
        if self.head is TAGGER:
            labels = self.network.config.id2label
            return predict(logits, lambda label: str(labels[label]), query)
        ids = tokens.inputs["input_ids"]
        if self.head is MASKED and ids[query] != self.tokenizer.mask_token_id:
            return None  # without a mask the model repeats its input
        return predict(logits, lambda token: name_token(self.tokenizer, token), query)
