"""Encoders and decoders of one sequence, such as BERT, GPT-2 and Llama."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import Tensor
from torch.overrides import TorchFunctionMode

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
from attnflow.models.capture.backward import BackwardCapture, check_table
from attnflow.models.capture.blocks import make_readout
from attnflow.models.capture.mode import Capture
from attnflow.models.capture.spec import CaptureSpec
from attnflow.models.capture.towards import ItemRelevance, add_edges, hand_back
from attnflow.models.checks.deciding import (
    MEASURED,
    SAMPLE,
    decision,
    explained_positions,
    masks_in,
    refuse_looking_ahead,
    tagged_position,
)
from attnflow.models.checks.mixing import last_states, mixing_warnings
from attnflow.models.checks.padding import batchable, lengthen, once, shorten
from attnflow.models.kinds import BARE, CAUSAL, CLASSIFIER, MASKED, TAGGER, HeadKind
from attnflow.models.outputs import (
    is_multi_label,
    is_regression,
    label_indices,
    make_aim,
    no_probability,
    objective_value,
    output_index,
    predict,
    predict_label,
    token_indices,
)
from attnflow.models.sizes import depth_of, describe, heads_in, limit, vocabulary_of
from attnflow.models.text.answers import with_space_notice
from attnflow.models.text.edits import blank_tokens, find_filler
from attnflow.models.text.encoded import read_encoded
from attnflow.models.text.tokens import check_text, check_texts, is_encoded, name_token, tokenize
from attnflow.models.zeroing import measure_zeroing
from attnflow.records import Activations, Prediction

if TYPE_CHECKING:
    from attnflow.models.adapter import Edit
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


class EmbeddingEdit(TorchFunctionMode):
    """A context in which a function changes the word embeddings that a module has for ``ids``.

    The function gets ``[batch, position, dimension]``, also where a model looks the words up with
    its positions first. Only the thread that entered the mode sees it: other threads that run the
    same network at the same time get their own embeddings.
    """

    def __init__(self, module: Any, ids: Tensor, edit: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        check_table(module, ids)
        self.module = module
        self.ids = ids
        self.edit = edit
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Change what is looked up in the table; leave all other calls as they are."""
        result = func(*args, **(kwargs or {}))
        # An offloaded table is another tensor whenever the module runs, and maybe elsewhere.
        if func is F.embedding and _table(args, kwargs or {}) is self.module.weight:
            looked_up = args[0] if args else (kwargs or {})["input"]
            ids = self.ids.to(looked_up.device)
            if looked_up.shape == ids.shape and torch.equal(looked_up, ids):
                self.count += 1
                return self.edit(result)
            if looked_up.shape == ids.T.shape and torch.equal(looked_up, ids.T):
                self.count += 1
                return self.edit(result.transpose(0, 1)).transpose(0, 1)
        return result


def _table(args: Any, kwargs: Any) -> Any:
    return args[1] if len(args) > 1 else kwargs.get("weight")


@dataclass(frozen=True, eq=False)
class TextModel(ModelAdapter):
    """A model of one sequence with its tokenizer and its head."""

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
        """Whether the network can compute the logits of some positions only."""
        return "logits_to_keep" in signature(type(self.network).forward).parameters

    @property
    def padding(self) -> tuple[int | None, int | None]:
        """The padding token's number, as the tokenizer and as the model know it."""
        config = self.network.config.get_text_config()
        return self.tokenizer.pad_token_id, getattr(config, "pad_token_id", None)

    def tokenize(self, item: Any, *, truncate: bool = False, answer: str | None = None) -> Tokens:
        """One text, given as text or as token ids, as tokens."""
        refuse_answer(self.name, answer)
        most = limit(self.network, self.tokenizer)
        if is_encoded(item):
            size = vocabulary_of(self.network)
            read = read_encoded(self.tokenizer, item, most, size, truncate=truncate)
            if read.segments is not None and not self.reads_pairs:
                check_text(self.name, read.pair or ("", ""))
        else:
            (check_texts if self.reads_pairs else check_text)(self.name, item)
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
        """The same for the network itself, or for a copy of it."""
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
        """The name of a label, or a token as displayed."""
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

    # -- what it computes, and where it decides

    def answers(self) -> Answers | None:
        """Causal language models continue a prompt."""
        from attnflow.models.answers.text import TextAnswers

        return TextAnswers(self) if self.head is CAUSAL else None

    def batchable(self, inputs: Sequence[Tokens]) -> bool:
        """Whether batching these inputs leaves their results unchanged."""
        return batchable(self.network, inputs, self._outcomes, self.padding)

    def is_decoder(self, tokens: Tokens) -> bool:
        """Whether no position attends to a later one; measured once, unless the head implies it."""
        if self.head is CAUSAL:
            return True

        def find() -> bool:
            inputs = self.inputs([shorten(lengthen(tokens), SAMPLE)])
            _, capture = network.run(self.network, inputs, CaptureSpec())
            return bool(capture.sites) and network.is_causal(
                [site.probabilities[0] for site in capture.sites]
            )

        return once(self.network, "decoder", find)

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
        refuse_looking_ahead(self.network, [layer for each in passes for layer in each.attention])
        aims = list(objectives) or [Objective()] * len(batch)
        items = [
            (tokens, output, item, aim)
            for item, (tokens, aim) in enumerate(zip(batch, aims, strict=True))
        ]
        positions: list[tuple[int, ...]]
        if query is not None and query != "all":
            positions = [(tokens.position(query),) for tokens in batch]
        else:
            positions = [
                self._positions(*each, causal=seen.causal)
                for each, seen in zip(items, passes, strict=True)
            ]
        batch = [
            replace(tokens, notices=tokens.notices + self._notices(query, *each))
            for tokens, each in zip(batch, items, strict=True)
        ]
        if spec.zeroing:
            passes = [self.zeroed(*pair, spec) for pair in zip(passes, batch, strict=True)]
        queries = [first for first, *_ in positions]
        predictions = self._predictions(output, batch, queries)
        wanted = [self._objective(each) for each in aims]
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
        parts = zip(batch, passes, queries, predictions, wanted, pooled, warnings, strict=True)
        return [ForwardPass(*each) for each in parts]

    def _keep_logits(
        self, inputs: dict[str, Any], batch: Sequence[Tokens], query: Query
    ) -> Callable[[Any], SomeLogits] | None:
        """Have the network compute the logits of the explained positions only, if it can.

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
        """With how every layer's output changes without single values."""
        maps = [[layer] for layer in activations.attention]
        found = measure_zeroing(self.network, self.inputs([tokens]), maps, spec.progress)
        return replace(activations, zeroed=tuple(layer[0] for layer in found))

    def decision(self, tokens: Tokens) -> int:
        """Where the head predicts: the mask, the last token, a token with a label, or the start."""
        return decision(self, tokens)

    def predicted(self, tokens: Tokens) -> frozenset[int]:
        """The masks: where a masked language model predicts, nothing is blanked."""
        return frozenset(masks_in(self, tokens) if self.head is MASKED else ())

    def states(self, tokens: Tokens, ids: str = "input_ids") -> Tensor | None:
        """The last states of one input where every position attends only to itself."""
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
        """Notices about how the position was chosen."""
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
        """What the head, or the last layer, gives for one input of a batch."""
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

    def _objective(self, objective: Objective) -> Objective | None:
        """The objective that applies whatever the edges are; here none: targets are for edges."""
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
