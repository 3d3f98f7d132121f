"""Classifiers on encoder–decoders, such as BART for natural language inference.

The decoder reads the same text as the encoder, one position later, and the head reads its state at
the last end of the text. So the graph is that of an encoder–decoder, and its answer is the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnflow.errors import InputError, ModelError
from attnflow.models.adapter import Filler, Query, Tokens, refuse_answer
from attnflow.models.capture import run as network
from attnflow.models.capture.spec import CaptureSpec
from attnflow.models.checks.deciding import deciding_positions
from attnflow.models.checks.memory import once
from attnflow.models.checks.mixing import last_states
from attnflow.models.checks.padding import is_close
from attnflow.models.objectives import label_indices
from attnflow.models.outputs import predict_label
from attnflow.models.pair.seq2seq import Seq2SeqModel
from attnflow.models.sizes import limit
from attnflow.models.text.answers import first_tokens, put_before, source_size, start_token
from attnflow.models.text.blanking import blank_tokens
from attnflow.models.text.tokens import check_texts, tokenize
from attnflow.records import Prediction


class Seq2SeqClassifier(Seq2SeqModel):
    """A classifier whose decoder reads the text again."""

    def tokenize(self, item: Any, *, truncate: bool = False, answer: str | None = None) -> Tokens:
        """The text, or a pair, as the encoder reads it and as the decoder does."""
        refuse_answer(self.name, answer)
        check_texts(self.name, item)
        most = limit(self.network, self.tokenizer)
        source = tokenize(self.tokenizer, item, most, truncate=truncate)
        if source.segments is None:
            source = replace(source, segments=("source",) * len(source))
        end = self._end()
        if source.inputs["input_ids"].count(end) == 0:
            msg = (
                f"{self.name} decides where the text ends, and its tokenizer puts no end there "
                f"(token {end}); use the tokenizer that it was trained with"
            )
            raise ModelError(msg)
        tokens = self._twice(source)
        once(self.network, "shifted", lambda: self._check_shift(tokens))
        return tokens

    def _twice(self, source: Tokens) -> Tokens:
        """The text, and behind it what the decoder reads: the same, one position later."""
        ids = list(source.inputs["input_ids"])
        cut = first_tokens(source, len(ids) - 1)
        start = start_token(self.network, self.name, ids)
        written = put_before(start, self.tokenizer, cut)
        return replace(self.join(source, written), answer=None)

    def _check_shift(self, tokens: Tokens) -> bool:
        """Refuse a model whose decoder reads something else than the text moved by one."""
        inputs = self.inputs([tokens])
        own = {name: inputs[name] for name in ("input_ids", "attention_mask")}
        with torch.no_grad():
            evaluated = network.in_eval_mode(self.network)
            ours, its = (network.called(evaluated, each).logits for each in (inputs, own))
        if not is_close(ours, its):
            msg = (
                f"{type(self.network).__name__}: the decoder of this classifier reads something "
                "else than the text moved by one position, and can't be explained"
            )
            raise ModelError(msg)
        return True

    def _end(self) -> int:
        return int(self.network.config.eos_token_id)

    def _position(self, query: Query, tokens: Tokens) -> int:
        """Where the head reads: at the last end of the text."""
        if query is not None and query != "all":
            return tokens.position(query)
        found = deciding_positions(self.network, self.inputs([tokens]))
        if len(found) != 1:
            msg = (
                f"{self.name} decides from {len(found)} positions of its decoder; name the one to "
                "explain with query="
            )
            raise ModelError(msg)
        return source_size(tokens) + found[0]

    def output_indices(self, target: str | int) -> tuple[int, ...]:
        """The numbers of the labels of a name."""
        return label_indices(self.network.config, target, self.name)

    def output_name(self, index: int) -> str:
        """The name of a label."""
        return str(self.network.config.id2label[index])

    def filler(self, name: str | None = None) -> Filler:
        """What replaces a blanked token; none may be the end, where the head reads."""
        found = super().filler(name)
        if found.token == self._end():
            msg = f"the filler {found.label!r} is where {self.name} decides; choose another"
            raise InputError(msg)
        return found

    def blankable(self, tokens: Tokens, query: int) -> list[int]:
        """The tokens of the text, without special ones."""
        words = tokens.word_ids or [0] * len(tokens)
        ends = [token == self._end() for token in tokens.inputs["input_ids"]]
        return [at for at, end in enumerate(ends) if not end and words[at] is not None]

    def blank(self, tokens: Tokens, positions: Sequence[int], filler: Filler) -> Tokens:
        """The text with a filler at each of these positions, for the encoder and the decoder."""
        size = source_size(tokens)
        inputs = {n: v for n, v in tokens.inputs.items() if n != "decoder_input_ids"}
        source = tokens.select(range(size), inputs)
        return self._twice(blank_tokens(source, positions, filler))

    def batchable(self, inputs: Sequence[Tokens]) -> bool:
        """Whether these give together what each gives alone; pairs have more ends than texts."""
        ends = {tokens.inputs["input_ids"].count(self._end()) for tokens in inputs}
        return len(ends) == 1 and super().batchable(inputs)

    def _outcomes(self, batch: Sequence[Tokens]) -> list[list[Tensor]]:
        output, capture = self.run_captured(batch, CaptureSpec())
        return [
            [output.logits[item], *self.activations(capture, item, tokens).attention]
            for item, tokens in enumerate(batch)
        ]

    def states(self, tokens: Tokens, ids: str = "input_ids") -> Tensor | None:
        """The last states of a side, without the head, which reads both."""
        whole = network.in_eval_mode(self.network).base_model
        decoder = ids == "decoder_input_ids"
        inputs = self.inputs([tokens]) if decoder else self._sources([tokens])
        found = last_states(whole if decoder else whole.get_encoder(), inputs)
        return None if found is None or found.shape[1] != len(tokens.inputs[ids]) else found[0]

    def _logits(self, output: Any, item: int, tokens: Tokens, at: int) -> Tensor | None:
        logits: Tensor = output.logits[item]
        return logits

    def _prediction(self, output: Any, item: int, tokens: Tokens, at: int) -> Prediction | None:
        return predict_label(output.logits[item], self.network.config)
