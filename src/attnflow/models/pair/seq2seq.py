"""Encoder–decoders: one graph through encoder, decoder and cross-attention (`sides`).

Of classifiers, such as BART for natural language inference, the decoder reads the same text as the
encoder, one position later, and the head reads its state at the last end of the text. So the graph
is that of an encoder–decoder, and its answer is the text.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attnflow.errors import InputError, ModelError
from attnflow.models.adapter import (
    Aim,
    Filler,
    ForwardPass,
    ModelAdapter,
    Objective,
    Query,
    Tokens,
    refuse_answer,
)
from attnflow.models.capture import run as network
from attnflow.models.capture.mode import Capture
from attnflow.models.capture.spec import CaptureSpec
from attnflow.models.checks.deciding import deciding_positions
from attnflow.models.checks.mixing import answer_mixing_warnings, last_states, mixing_warnings
from attnflow.models.checks.padding import batchable, is_close, once
from attnflow.models.kinds import CLASSIFIER, SEQ2SEQ, HeadKind
from attnflow.models.outputs import label_indices, make_aim, predict, predict_label, token_indices
from attnflow.models.pair.sides import add_edges, add_zeroed, check_sites, pair_activations
from attnflow.models.sizes import depths_of_sides, describe, heads_in, limit, vocabulary_of
from attnflow.models.text.answers import (
    changed_notice,
    cut_answer,
    decode,
    first_tokens,
    join_answer,
    put_before,
    read_answer,
    source_size,
    start_token,
    without_end,
)
from attnflow.models.text.edits import blank_tokens, find_filler
from attnflow.models.text.encoded import read_encoded
from attnflow.models.text.tokens import check_text, check_texts, is_encoded, name_token, tokenize
from attnflow.models.text.writing import FORCED, Writing, kept_decoding
from attnflow.models.zeroing import measure_zeroing
from attnflow.records import Activations, Prediction

if TYPE_CHECKING:
    from attnflow.models.answers.interface import Answers


ANSWER = 32  # the most tokens of the model's own answer
SOURCE = {name: name for name in ("input_ids", "attention_mask")}  # what every encoder takes


@dataclass(frozen=True, eq=False)
class Seq2SeqModel(ModelAdapter):
    """An encoder–decoder language model with its tokenizer."""

    network: Any
    tokenizer: Any
    name: str
    head: HeadKind

    kind = "pair"
    has_source = True

    def __post_init__(self) -> None:
        if self.head not in (SEQ2SEQ, CLASSIFIER):
            msg = (
                f"{type(self.network).__name__}: of encoder–decoder models, those that generate "
                "text (…ForConditionalGeneration) and classifiers of texts "
                "(…ForSequenceClassification) can be explained"
            )
            raise ModelError(msg)

    @property
    def reads_pairs(self) -> bool:
        """Classifiers do; what is translated or summarised is one text."""
        return self.head is CLASSIFIER

    @property
    def description(self) -> dict[str, Any]:
        """What was loaded."""
        return describe(self.network, self.head)

    @property
    def depth(self) -> int:
        """Encoder layers, then decoder layers."""
        return sum(self._depths)

    @property
    def _depths(self) -> tuple[int, int]:
        return depths_of_sides(self.network)

    @property
    def heads(self) -> int:
        """The most heads that a layer has."""
        return heads_in(self.network)

    @property
    def steps(self) -> int:
        """One per encoder layer, two per decoder layer."""
        encoder, decoder = self._depths
        return encoder + 2 * decoder

    @property
    def labels_of(self) -> Any:
        """The network's configuration where outputs are labels of a whole input; else ``None``."""
        return self.network.config if self.head is CLASSIFIER else None

    def answers(self) -> Answers | None:
        """The target side, token by token."""
        from attnflow.models.answers.pair import PairAnswers

        return PairAnswers(self) if self.head is SEQ2SEQ else None

    def tokenize(self, item: Any, *, truncate: bool = False, answer: str | None = None) -> Tokens:
        """Source and target as one list of tokens."""
        source = self.read_source(item, truncate=truncate)
        most = limit(self.network, self.tokenizer)
        return self.join(source, self._answer(source, answer, most, truncate=truncate))

    def read_source(
        self, item: Any, *, truncate: bool | None = False, special: bool = True
    ) -> Tokens:
        """The source; without ``special``, the text has its special tokens already."""
        most = limit(self.network, self.tokenizer)
        if is_encoded(item):
            size = vocabulary_of(self.network)
            source = read_encoded(self.tokenizer, item, most, size, truncate=truncate)
            check_text(self.name, source.text if source.segments is None else ("", ""))
        else:
            check_text(self.name, item)
            cut = bool(truncate)
            source = tokenize(self.tokenizer, item, most, truncate=cut, special=special)
        return replace(source, segments=("source",) * len(source))

    def write_target(self, source: Tokens, writing: Writing) -> Tokens:
        """The answer that the model writes, or a text, after the token that starts it."""
        if writing.text is not None:
            most = limit(self.network, self.tokenizer)
            return self._answer(source, writing.text, most, truncate=False)
        options = writing.options(self.tokenizer, skip_prompt=False)
        ids = network.generate(self.network, {**self._sources([source]), **options}, writing.length)
        return self._own_answer(ids, writing.ends, writing.length)

    def _own_answer(
        self, ids: Sequence[int], ends: Set[int] = frozenset(), length: int | None = None
    ) -> Tokens:
        """What the model wrote, and what its generation configuration decided of that."""
        stated = self.network.generation_config
        read = read_answer(self.tokenizer, ids, stated, ends, length)
        return replace(read, decoding=kept_decoding(self.network, self.keeps))

    @property
    def keeps(self) -> tuple[str, ...]:
        """What of its generation configuration counts where it writes."""
        return (FORCED,)

    def _answer(self, source: Tokens, answer: Any, most: int | None, *, truncate: bool) -> Tokens:
        """The answer's tokens with the one that starts it: those given, or the model's own."""
        if answer is None:
            written = self._own_answer(self.generate(source, ANSWER))
        elif isinstance(answer, str):
            # Cut below, at its end, wherever the tokenizer would: nothing follows what was cut off.
            written = tokenize(self.tokenizer, answer, None, truncate=False, as_target=True)
            start = start_token(self.network, self.name, written.inputs["input_ids"])
            written = without_end(written, self.tokenizer)
            if not written.notices:  # a notice about unknown words covers it
                read = decode(self.tokenizer, written.inputs["input_ids"], special=False)
                written = replace(written, notices=changed_notice(read, answer))
            if written.inputs["input_ids"][:1] != [start] or not self.starts_itself:
                written = put_before(start, self.tokenizer, written)
        else:
            msg = f"answer={answer!r} is {type(answer).__name__}; give the answer as text"
            raise InputError(msg)
        if most and len(written) > most:  # the token that starts the answer takes a position, too
            written = cut_answer(written, most, truncate=truncate)
        return written

    starts_itself = False  # whether the tokenizer puts the token before answers that starts them

    def join(self, source: Tokens, written: Tokens) -> Tokens:
        """Source and answer as one list of tokens."""
        written = replace(written, segments=("target",) * len(written))
        return join_answer(source, written, decoder_input_ids=written.inputs["input_ids"])

    def generate(self, tokens: Tokens, length: int) -> list[int]:
        """The model's own answer, most likely token by most likely token."""
        return network.generate(self.network, self._sources([tokens]), length)

    def run(
        self,
        batch: Sequence[Tokens],
        query: Query,
        spec: CaptureSpec,
        objectives: Sequence[Objective] = (),
    ) -> list[ForwardPass]:
        """Run encoder and decoder once on a batch."""
        output, capture = self.run_captured(batch, spec)
        warnings = self.warnings(batch[0])
        positions = [self._position(query, tokens) for tokens in batch]
        seen = [self.activations(capture, item, tokens) for item, tokens in enumerate(batch)]
        wanted: list[Objective | None] = [None] * len(batch)
        if spec.towards_target:
            objectives = objectives or [Objective()] * len(batch)
            aims = [
                self._aim(output, item, *of, objectives[item], centred=spec.relevance)
                for item, of in enumerate(zip(batch, positions, strict=True))
            ]
            seen = add_edges(seen, capture, output, aims)
            wanted = [aim.named for aim in aims]
        if spec.zeroing:
            seen = [self.zeroed(*pair, spec) for pair in zip(batch, seen, strict=True)]
        predictions = [
            self._prediction(output, item, *of)
            for item, of in enumerate(zip(batch, positions, strict=True))
        ]
        parts = zip(batch, seen, positions, predictions, wanted, strict=True)
        return [ForwardPass(*each, warnings=warnings) for each in parts]

    def run_captured(self, batch: Sequence[Tokens], spec: CaptureSpec) -> tuple[Any, Capture]:
        """What the model returns, and its attention, checked."""
        inputs = self.inputs(batch)
        encoder, decoder = self._depths
        attends = [1] * encoder + [2] * decoder
        output, capture = network.run(self.network, inputs, spec, attends)
        lengths = (max(map(source_size, batch)), inputs["decoder_input_ids"].shape[1])
        check_sites(capture.sites, lengths, self._depths, self.network)
        return output, capture

    def activations(self, capture: Capture, item: int, tokens: Tokens) -> Activations:
        """What the model computed on one item."""
        source = source_size(tokens)
        sizes = (source, len(tokens) - source)
        return pair_activations(capture, item, sizes, self._depths, self.network, self.name)

    def zeroed(self, tokens: Tokens, seen: Activations, spec: CaptureSpec) -> Activations:
        """With how every layer's output changes without single values."""

        def measure(layers: list[list[Tensor]]) -> list[list[Tensor]]:
            return measure_zeroing(self.network, self.inputs([tokens]), layers, spec.progress)

        return add_zeroed(seen, measure)

    def _position(self, query: Query, tokens: Tokens) -> int:
        return len(tokens) - 1 if query is None or query == "all" else tokens.position(query)

    def output_indices(self, target: str | int) -> tuple[int, ...]:
        """The numbers of the tokens of answers of a name."""
        size = int(self.network.get_output_embeddings().weight.shape[0])
        return token_indices(self.tokenizer, target, size, self.name, as_target=True)

    def output_name(self, index: int) -> str:
        """A token as displayed."""
        return name_token(self.tokenizer, index)

    def filler(self, name: str | None = None) -> Filler:
        """What replaces a blanked token of the source."""
        return find_filler(self.tokenizer, name, self.name)

    def blankable(self, tokens: Tokens, query: int) -> list[int]:
        """The tokens of the source, without special ones."""
        words = tokens.word_ids or [0] * len(tokens)
        return [
            at
            for at, segment in enumerate(tokens.segments or ())
            if segment == "source" and words[at] is not None
        ]

    def blank(self, tokens: Tokens, positions: Sequence[int], filler: Filler) -> Tokens:
        """The pair with a filler at each of these positions of the source."""
        return blank_tokens(tokens, positions, filler)

    def inputs(self, batch: Sequence[Tokens]) -> dict[str, Any]:
        """What the network is called with: padded tensors of both sides, where it is."""
        target = self._batch(batch, {"decoder_input_ids": "input_ids"})
        return {
            **self._sources(batch),
            "decoder_input_ids": target["input_ids"],
            "decoder_attention_mask": target["attention_mask"],
            "use_cache": False,
        }

    def _sources(self, batch: Sequence[Tokens]) -> dict[str, Tensor]:
        """What the encoder is called with."""
        return self._batch(batch, SOURCE)

    def warnings(self, tokens: Tokens) -> tuple[str, ...]:
        """Warnings where tokens reach each other past attention."""
        found = (*mixing_warnings(self, tokens), *answer_mixing_warnings(self, tokens))
        return tuple(dict.fromkeys(found))

    def _batch(self, batch: Sequence[Tokens], names: dict[str, str]) -> dict[str, Tensor]:
        items = [{to: t.inputs[of] for of, to in names.items()} for t in batch]
        for item in items:
            item.setdefault("attention_mask", [1] * len(item["input_ids"]))
        inputs = network.pad(items, {"input_ids": self.tokenizer.pad_token_id or 0})
        device = network.device_of(self.network)
        return {name: tensor.to(device) for name, tensor in inputs.items()}

    def batchable(self, inputs: Sequence[Tokens]) -> bool:
        """Whether batching these inputs leaves their results unchanged."""
        return batchable(self.network, inputs, self._outcomes, self.tokenizer.pad_token_id)

    def _outcomes(self, batch: Sequence[Tokens]) -> list[list[Tensor]]:
        """For each input what must not depend on the others: outputs and attention."""
        output, capture = self.run_captured(batch, CaptureSpec())
        found = []
        for item, tokens in enumerate(batch):
            length = len(tokens.inputs["decoder_input_ids"])
            maps = self.activations(capture, item, tokens).attention
            found.append([output.logits[item, :length], *maps])
        return found

    def states(self, tokens: Tokens, ids: str = "input_ids") -> Tensor | None:
        """The last states of a side in which every position attends only to itself."""
        if ids == "decoder_input_ids":
            found = last_states(self.network, self.inputs([tokens]))
        else:
            encoder = network.in_eval_mode(self.network).get_encoder()
            found = last_states(encoder, self._sources([tokens]))
        return None if found is None or found.shape[1] != len(tokens.inputs[ids]) else found[0]

    def _logits(self, output: Any, item: int, tokens: Tokens, at: int) -> Tensor | None:
        """Of what follows a position of the answer; positions of the source predict nothing."""
        source = source_size(tokens)
        logits: Tensor | None = None if at < source else output.logits[item, at - source]
        return logits

    def _aim(
        self,
        output: Any,
        item: int,
        tokens: Tokens,
        at: int,
        objective: Objective,
        *,
        centred: bool,
    ) -> Aim:
        """What an objective is about, with the names of its target and its contrast."""

        def read(output: Any) -> Tensor | None:
            return self._logits(output, item, tokens, at)

        return make_aim(self, read, output, objective, self.labels_of, centred=centred)

    def _prediction(self, output: Any, item: int, tokens: Tokens, at: int) -> Prediction | None:
        logits = self._logits(output, item, tokens, at)
        if logits is None:
            return None
        return predict(logits, lambda token: name_token(self.tokenizer, token), at)


class Seq2SeqClassifier(Seq2SeqModel):
    """A classifier whose decoder reads the text again."""

    def tokenize(self, item: Any, *, truncate: bool = False, answer: str | None = None) -> Tokens:
        """The text, or a pair, as the encoder reads it and as the decoder does."""
        refuse_answer(self.name, answer)
        most = limit(self.network, self.tokenizer)
        if is_encoded(item):
            size = vocabulary_of(self.network)
            source = read_encoded(self.tokenizer, item, most, size, truncate=truncate)
        else:
            check_texts(self.name, item)
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
        """The text, then what the decoder reads: the same, one position later."""
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
        """Whether batching leaves results unchanged; pairs have more ends than texts."""
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
