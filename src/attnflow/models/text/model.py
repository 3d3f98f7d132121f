"""Encoders and decoders of one sequence, such as BERT, GPT-2 and Llama."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attnflow.models.adapter import ForwardPass, Objective, Query, Tokens
from attnflow.models.capture import run as network
from attnflow.models.capture.backward import BackwardCapture
from attnflow.models.capture.mode import Capture
from attnflow.models.capture.spec import CaptureSpec
from attnflow.models.capture.towards import Aim, add_edges
from attnflow.models.checks.deciding import refuse_seeing_ahead
from attnflow.models.checks.memory import once
from attnflow.models.checks.mixing import last_states, mixing_warnings
from attnflow.models.checks.padding import batchable
from attnflow.models.checks.samples import lengthen, shorten
from attnflow.models.heads import CAUSAL, CLASSIFIER, MASKED, TAGGER
from attnflow.models.objectives import make_aim, output_index
from attnflow.models.outputs import is_multi_label, is_regression, predict, predict_label
from attnflow.models.readouts import make_readout
from attnflow.models.text.decisions import (
    SAMPLE,
    decision,
    explained_positions,
    masks_in,
    tagged_position,
)
from attnflow.models.text.sequence import SequenceModel
from attnflow.models.text.tokens import name_token
from attnflow.models.zeroing import measure_zeroing
from attnflow.records import Activations, Prediction

if TYPE_CHECKING:
    from attnflow.models.answers.interface import Answers


@dataclass(frozen=True, eq=False)
class PositionLogits:
    """The logits of some positions, ``[item, position]``, by the position."""

    logits: Tensor
    rows: dict[int, int]

    def __getitem__(self, place: Any) -> Tensor:
        """Those of an item at a position."""
        item, position = place
        return self.logits[item, self.rows[position]]


@dataclass(frozen=True, eq=False)
class SomeLogits:
    """A network's output of which nothing but logits was kept."""

    logits: PositionLogits


class TextModel(SequenceModel):
    """A model of one sequence: its maps, what it predicts, and where."""

    def answers(self) -> Answers | None:
        """Causal language models continue a prompt."""
        from attnflow.models.answers.text import TextAnswers

        return TextAnswers(self) if self.head is CAUSAL else None

    def batchable(self, inputs: Sequence[Tokens]) -> bool:
        """Whether these inputs give together what each gives alone."""
        return batchable(self.network, inputs, self._outcomes, self.padding)

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
        width = inputs["input_ids"].shape[1]
        some = self._keep_logits(inputs, batch, query) if spec.reads_backward else None
        output, capture = network.run(self.network, inputs, spec, [1] * self.depth)
        if some is not None and isinstance(capture, BackwardCapture):
            output, capture.output = some(output), some(capture.output)
        network.expect(capture.sites, self.depth, (width, width), self.network)
        passes = [
            replace(network.square_activations(capture, i, len(t)), model=self.name)
            for i, t in enumerate(batch)
        ]
        refuse_seeing_ahead(self.network, [layer for each in passes for layer in each.attention])
        aims = list(objectives) or [Objective()] * len(batch)
        asked = [
            (tokens, output, item, aim)
            for item, (tokens, aim) in enumerate(zip(batch, aims, strict=True))
        ]
        positions: list[tuple[int, ...]]
        if query is not None and query != "all":
            positions = [(tokens.position(query),) for tokens in batch]
        else:
            positions = [
                self._positions(*each, causal=seen.causal)
                for each, seen in zip(asked, passes, strict=True)
            ]
        batch = [
            replace(tokens, notices=tokens.notices + self._notices(query, *each))
            for tokens, each in zip(batch, asked, strict=True)
        ]
        if spec.zeroing:
            passes = [self.zeroed(*pair, spec) for pair in zip(passes, batch, strict=True)]
        queries = [first for first, *_ in positions]
        said = self._predictions(output, batch, queries)
        wanted = [self._asked(each) for each in aims]
        if spec.towards_target:
            found = [
                self._aim(output, item, at, each, tokens, centred=spec.relevance)
                for item, (each, at, tokens) in enumerate(zip(aims, queries, batch, strict=True))
            ]
            passes = add_edges(passes, capture, output, found)
            wanted = [each.named for each in found]
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

    def _keep_logits(
        self, inputs: dict[str, Any], batch: Sequence[Tokens], query: Query
    ) -> Callable[[Any], SomeLogits] | None:
        """Have the network give the logits of the explained positions alone, where it can.

        A vocabulary is wide: the logits of all positions may be larger than the model.
        """
        if self.head is not CAUSAL or not self.keeps_some_logits:
            return None
        last = query is None or query == "all"
        places = [len(each) - 1 if last else each.position(query or 0) for each in batch]
        kept = sorted(set(places))
        inputs["logits_to_keep"] = torch.tensor(kept, device=inputs["input_ids"].device)
        rows = {place: row for row, place in enumerate(kept)}
        return lambda output: SomeLogits(PositionLogits(output.logits, rows))

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
        logits = None if position is None else self._logits(output, item, tokens, position)
        labels = self.head is CLASSIFIER
        if position is None or logits is None:
            return activations, None
        if labels and is_regression(self.network.config, logits.numel()):
            return activations, None
        named = self._aim(output, item, position, objective, tokens).named
        target, other = (
            None if each is None else output_index(self, each, logits)
            for each in (objective.target, objective.contrast)
        )
        target = int(logits.argmax()) if target is None else target
        alone = labels and is_multi_label(self.network.config)
        found = make_readout(capture, item, position, logits, target, other, alone=alone)
        return replace(activations, readout=found), named

    def zeroed(self, activations: Activations, tokens: Tokens, spec: CaptureSpec) -> Activations:
        """With what becomes of every layer without single values."""
        maps = [[layer] for layer in activations.attention]
        found = measure_zeroing(self.network, self.inputs([tokens]), maps, spec.progress)
        return replace(activations, zeroed=tuple(layer[0] for layer in found))

    def decision(self, tokens: Tokens) -> int:
        """Where the head predicts: the mask, the last token, a token with a label, or the start."""
        return decision(self, tokens)

    def predicts_at(self, tokens: Tokens, position: int) -> bool:
        """Whether it is the mask: where a masked language model predicts, nothing is blanked."""
        return self.head is MASKED and position in masks_in(self, tokens)

    def states(self, tokens: Tokens, ids: str = "input_ids") -> Tensor | None:
        """The last states of one input where every position attends to itself alone."""
        found = last_states(self.network, self.inputs([tokens]))
        return None if found is None or found.shape[1] != len(tokens) else found[0]

    def _positions(
        self, tokens: Tokens, output: Any, item: int, objective: Objective, *, causal: bool
    ) -> tuple[int, ...]:
        """The positions to explain if none is named."""
        return explained_positions(self, tokens, output, item, objective, causal=causal)

    def _notices(
        self, query: Query, tokens: Tokens, output: Any, item: int, objective: Objective
    ) -> tuple[str, ...]:
        """What a reader must know of how the position was chosen."""
        if self.head is not TAGGER or query is not None:
            return ()
        return tagged_position(self, output, item, tokens, objective)[1]

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

    def _logits(self, output: Any, item: int, tokens: Tokens, at: int) -> Tensor | None:
        logits = getattr(output, "logits", None)
        if logits is None:
            return None
        if self.head is CLASSIFIER:
            return logits[item]  # type: ignore[no-any-return]
        return logits[item, at] if self.head in (MASKED, CAUSAL, TAGGER) else None

    def _asked(self, objective: Objective) -> Objective | None:
        """What is asked for whatever the edges are; nothing here, where targets are for edges."""
        return None

    def _aim(
        self,
        output: Any,
        item: int,
        query: int,
        objective: Objective,
        tokens: Tokens,
        *,
        centred: bool = False,
    ) -> Aim:
        """What an objective is about, with the names of its target and its contrast."""

        def read(output: Any) -> Tensor | None:
            return self._logits(output, item, tokens, query)

        return make_aim(self, read, output, objective, self.labels_of, centred=centred)

    def _predictions(
        self, output: Any, batch: Sequence[Tokens], positions: Sequence[int]
    ) -> list[Prediction | None]:
        pairs = enumerate(zip(batch, positions, strict=True))
        return [self._prediction(output, i, tokens, at) for i, (tokens, at) in pairs]

    def _prediction(self, output: Any, item: int, tokens: Tokens, at: int) -> Prediction | None:
        logits = self._logits(output, item, tokens, at)
        if logits is None:
            return None
        if self.head is CLASSIFIER:
            return predict_label(logits, self.network.config)
        if self.head is TAGGER:
            labels = self.network.config.id2label
            return predict(logits, lambda label: str(labels[label]), at)
        ids = tokens.inputs["input_ids"]
        if self.head is MASKED and ids[at] != self.tokenizer.mask_token_id:
            return None  # without a mask the model repeats its input
        return predict(logits, lambda token: name_token(self.tokenizer, token), at)
