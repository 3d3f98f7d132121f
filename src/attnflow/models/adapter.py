"""A model that can be explained: what every kind of model offers to the rest of the library."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from attnflow.errors import InputError, ModelError
from attnflow.models.capture.spec import CaptureSpec
from attnflow.records import Activations, PatchGrid, Prediction
from attnflow.records.selection import find_position, words_of_tokens

if TYPE_CHECKING:
    from torch import Tensor

    from attnflow.models.answers.interface import Answers
    from attnflow.models.capture.towards import ItemRelevance

    Edit = Callable[[Tensor], Tensor]  # changes the word embeddings of a batch

Query = int | str | None


@dataclass(frozen=True, eq=False)
class Tokens:
    """One input as the model's tokens.

    Attributes:
        names: The tokens as they are displayed.
        text: The input as it is displayed.
        inputs: What the model is called with, without a batch axis.
        word_ids: For each token the index of its word; ``None`` for special tokens.
        word_texts: The words.
        segments: For each token what it is part of.
        grid: For images and sounds, how patches lie on the image, or frames in time.
        answer: What the model wrote, where that is explained.
        notices: Caveats about this input, such as that it was truncated.
        pair: The two texts, where a pair is read as one input.
        spans: For each token where it is in ``text``, or in ``answer``; ``None`` where that is
            not known.
        cut_at: How many tokens of an answer were written, where it was stopped before its end.
        decoding: What the model's generation configuration decided about an answer that it wrote;
            ``None`` where that is nothing.
        said: The logits by which a model wrote its answer, ``[token, vocabulary]``; ``None`` for
            an answer that was given, or where they were not kept.
    """

    names: tuple[str, ...]
    text: str
    inputs: dict[str, Any]
    word_ids: tuple[int | None, ...] | None = None
    word_texts: tuple[str, ...] = ()
    segments: tuple[str, ...] | None = None
    grid: PatchGrid | None = None
    answer: str | None = None
    notices: tuple[str, ...] = ()
    pair: tuple[str, str] | None = None
    spans: tuple[tuple[int, int], ...] | None = None
    cut_at: int | None = None
    decoding: Mapping[str, Any] | None = None
    said: Tensor | None = None

    def __len__(self) -> int:
        return len(self.names)

    def position(self, token: int | str, name: str = "query") -> int:
        """The position of a token; ``name`` is what the value is called in errors."""
        return find_position(
            token, self.names, name, words_of_tokens(self.word_ids, self.word_texts)
        )

    @property
    def about_input(self) -> dict[str, Any]:
        """What results say of their input, by the names of `attnflow.records.Input`."""
        same = ("text", "word_ids", "word_texts", "segments", "grid")
        return {"tokens": self.names, **{name: getattr(self, name) for name in same}}

    def select(self, positions: Sequence[int], inputs: dict[str, Any]) -> Tokens:
        """The tokens of these positions; ``inputs`` are what the model is called with then."""
        words, segments, spans = self.word_ids, self.segments, self.spans
        return replace(
            self,
            names=tuple(self.names[at] for at in positions),
            inputs=inputs,
            word_ids=None if words is None else tuple(words[at] for at in positions),
            segments=None if segments is None else tuple(segments[at] for at in positions),
            spans=None if spans is None else tuple(spans[at] for at in positions),
        )

    def after(self, name: str, inputs: dict[str, Any]) -> Tokens:
        """The tokens after a special one; ``inputs`` are what the model is called with then."""
        words, segments, spans = self.word_ids, self.segments, self.spans
        return replace(
            self,
            names=(name, *self.names),
            inputs=inputs,
            word_ids=None if words is None else (None, *words),
            segments=None if segments is None else (*segments[:1], *segments),
            spans=None if spans is None else ((0, 0), *spans),
        )

    def with_logit(self, name: str) -> Tokens:
        """The tokens and, as one more position behind them, a logit."""
        words, segments = self.word_ids, self.segments
        return replace(
            self,
            names=(*self.names, name),
            word_ids=None if words is None else (*words, None),
            segments=None if segments is None else (*segments, "logit"),
            spans=None,
        )


@dataclass(frozen=True, eq=False)
class ForwardPass:
    """What a model computed on one input, the position to explain, and the prediction.

    Attributes:
        tokens: The input.
        activations: What the model computed.
        query: The position to explain.
        prediction: What the model predicts.
        objective: What gradients are taken of, with names for what was resolved.
        pooled: Where the model decides from several positions, all of them, ``query`` first: their
            mean is explained.
        warnings: Caveats about the explanation.
    """

    tokens: Tokens
    activations: Activations
    query: int
    prediction: Prediction | None
    objective: Objective | None = None
    pooled: tuple[int, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Objective:
    """What is to be explained: a target, perhaps rather than another one.

    Alone it is the target's log-probability; with a contrast, how much larger its logit is.

    Attributes:
        target: A label or token, by name or number; ``None`` is the model's prediction.
        contrast: The label or token that the target is compared with.
    """

    target: str | int | None = None
    contrast: str | int | None = None


@dataclass(frozen=True, eq=False)
class Aim:
    """What a target is: a number, as a function of a network's output, and its names."""

    value: Callable[[Any], Tensor]
    named: Objective


@dataclass(frozen=True)
class Filler:
    """What replaces a token that is blanked out.

    Attributes:
        name: ``"unk"``, ``"mask"``, ``"pad"``, ``"eos"``, ``"delete"`` or ``"mean"``.
        label: How it is named on screen.
        token: The token's number; ``None`` where no token is inserted.
        hidden: Whether no position may attend to it.
    """

    name: str
    label: str
    token: int | None = None
    hidden: bool = False


class ModelAdapter(ABC):
    """A model that can be explained. Texts, images and pairs of texts differ only behind this.

    Nothing here changes the model: it may be used from several threads. What a model can do is
    declared by the attributes below; a kind of model overrides what differs. Methods that are not
    abstract have a default for models that lack what they are about.

    Attributes:
        name: The model's name.
        network: The network that runs.
        tokenizer: What cuts its texts into tokens; models that read no text have none.
        kind: What the model is called where models are listed; nothing depends on it.
        reads_text: Whether an input can be given as text.
        reads_images: Whether an input can be an image, ``"alone"`` or ``"with text"``.
        reads_sound: Whether inputs are sounds.
        has_source: Whether it is an encoder–decoder: positions of the source, then of the target.
        has_grid: Whether positions are pieces of a grid; a run may add others, such as CLS.
        erases: Whether explanations can be checked by erasing tokens.
        edits_words: Whether word embeddings can be changed on their way in (``edit`` of `logits`).
        estimates_memory: Whether `row_bytes` is known.
        finds_spans: Whether the answer is a span of the input, whose start or end can be a target.
    """

    name: str
    network: Any
    tokenizer: Any
    kind: str
    reads_text: bool = True
    reads_images: Literal["alone", "with text"] | None = None
    reads_sound: bool = False
    has_source: bool = False
    has_grid: bool = False
    erases: bool = True
    edits_words: bool = False
    estimates_memory: bool = False
    finds_spans: bool = False

    @property
    def reads_pairs(self) -> bool:
        """Whether an input can be a pair of texts."""
        return False

    @property
    def predicts(self) -> bool:
        """Whether it has a head that predicts anything."""
        return True

    @property
    def labels_tokens(self) -> bool:
        """Whether its head labels single tokens."""
        return False

    @property
    def writes(self) -> bool:
        """Whether it writes answers that can be explained token by token."""
        return self.answers() is not None

    @property
    def text_reader(self) -> ModelAdapter:
        """The part of the model that reads texts; usually all of it."""
        return self

    @property
    @abstractmethod
    def description(self) -> dict[str, Any]:
        """What was loaded: class, head, device, precision."""

    @property
    @abstractmethod
    def depth(self) -> int:
        """The number of layers."""

    @property
    @abstractmethod
    def heads(self) -> int:
        """The most heads that a layer has."""

    @property
    def steps(self) -> int:
        """The number of steps of the graph: a decoder layer with cross-attention has two."""
        return self.depth

    @property
    def mask_token(self) -> str | None:
        """What a masked language model predicts the word for; ``None`` for other models."""
        return None

    @property
    def labels_of(self) -> Any:
        """The network's configuration where outputs are labels of a whole input; else ``None``."""
        return None

    @abstractmethod
    def tokenize(self, item: Any, *, truncate: bool = False, answer: str | None = None) -> Tokens:
        """One input as tokens; one that is too long is an error unless it may be truncated.

        ``answer`` is the answer of an encoder–decoder that is explained; ``None`` is its own.
        """

    @abstractmethod
    def run(
        self,
        batch: Sequence[Tokens],
        query: Query,
        spec: CaptureSpec,
        objectives: Sequence[Objective] = (),
    ) -> list[ForwardPass]:
        """Run the model once on a batch, and keep what the spec requests.

        ``objectives`` are those of gradients, one per input; by default the predictions.
        """

    @abstractmethod
    def inputs(self, batch: Sequence[Tokens]) -> dict[str, Any]:
        """What the network is called with."""

    @abstractmethod
    def output_indices(self, target: str | int) -> tuple[int, ...]:
        """The numbers of the labels or tokens of a name, or this number; an error if there is none.

        `attnflow.models.outputs.output_index` decides which of several is meant.
        """

    @abstractmethod
    def output_name(self, index: int) -> str:
        """The name of the label or token of that number."""

    def _logits(self, output: Any, item: int, tokens: Tokens, at: int) -> Tensor | None:
        """The logits of all labels, or of all tokens at a position; ``None`` where there are none.

        ``output`` is what the network returned for a batch, and ``item`` one input of it.
        """
        return None

    def _prediction(self, output: Any, item: int, tokens: Tokens, at: int) -> Prediction | None:
        """What is predicted for one input of a batch, or at its position."""
        return None

    def batchable(self, inputs: Sequence[Tokens]) -> bool:
        """Whether batching these inputs leaves their results unchanged."""
        return len(inputs) < 2

    def is_decoder(self, tokens: Tokens) -> bool:
        """Whether no position attends to a later one; ``tokens`` are an input to try."""
        return False

    def predict(self, batch: Sequence[Tokens], positions: Sequence[int]) -> list[Prediction | None]:
        """The model's predictions at positions, without capturing anything."""
        output = self._output(batch)
        pairs = enumerate(zip(batch, positions, strict=True))
        return [self._prediction(output, item, tokens, at) for item, (tokens, at) in pairs]

    def _output(self, batch: Sequence[Tokens]) -> Any:
        """What the network returns for a batch."""
        import torch

        from attnflow.models.capture import run as network

        with torch.no_grad():
            return network.called(network.in_eval_mode(self.network), self.inputs(batch))

    def decision(self, tokens: Tokens) -> int:
        """The position at which the head makes its one prediction of the whole input.

        By default an error: there is no single position by which importance can be measured.
        """
        raise self._no_probability()

    def predicted(self, tokens: Tokens) -> frozenset[int]:
        """The positions that are what is predicted, so that they can't be blanked."""
        return frozenset()

    def logits(
        self, batch: Sequence[Tokens], positions: Sequence[int], edit: Edit | None = None
    ) -> Tensor:
        """For each input the logits of all labels, or of all tokens at its position, in float64.

        ``edit`` changes the word embeddings before the model uses them. Differentiable where
        gradients are enabled and ``edits_words`` is set.
        """
        import torch

        if edit is not None:
            raise self._no_probability()
        output = self._output(batch)
        rows = [
            self._logits(output, item, tokens, at)
            for item, (tokens, at) in enumerate(zip(batch, positions, strict=True))
        ]
        known = [row for row in rows if row is not None]
        if len(known) < len(rows):
            raise self._no_probability()
        return torch.stack(known).double()

    def probabilities(
        self, batch: Sequence[Tokens], positions: Sequence[int], edit: Edit | None = None
    ) -> Tensor:
        """The logits as probabilities."""
        from attnflow.models.outputs import to_probabilities

        return to_probabilities(self.logits(batch, positions, edit), self.labels_of, self.name)

    def relevance(
        self, tokens: Tokens, position: int, target: int, contrast: int | None = None
    ) -> ItemRelevance:
        """The layer-wise relevance of one input's tokens for a label, or a token at a position.

        By default an error, as for `decision`; `run` reads edges of relevance by itself.
        """
        raise self._no_probability()

    def row_bytes(self, length: int, *, gradients: bool = False) -> int:
        """About how much memory one input of that length takes in `logits`."""
        raise self._no_probability()

    def _no_probability(self) -> ModelError:
        from attnflow.models.outputs import no_probability

        return no_probability(self.name)

    def filler(self, name: str | None = None) -> Filler:
        """A filler by its name; by default the first usual one that the model has.

        Images have a single filler, whatever the name.
        """
        msg = f"{self.name} has no filler: its tokens can't be blanked out"
        raise InputError(msg)

    def blankable(self, tokens: Tokens, query: int) -> list[int]:
        """The positions that can be blanked: not special tokens, the mask or the answer itself."""
        return []

    def blank(self, tokens: Tokens, positions: Sequence[int], filler: Filler) -> Tokens:
        """The input with a filler at each of these positions."""
        msg = f"the tokens of {self.name} can't be blanked out"
        raise InputError(msg)

    def generate(self, tokens: Tokens, length: int) -> list[int]:
        """The numbers of the most likely tokens that follow, at most ``length``."""
        msg = f"{self.name} writes no text"
        raise ModelError(msg)

    def answers(self) -> Answers | None:
        """How the model writes answers that are explained token by token, if it does."""
        return None

    @property
    def why_no_answers(self) -> str:
        """The error where an answer is to be explained and there is none."""
        return (
            f"{self.name} writes no text that could be explained token by token; generate= and "
            "answer= are for causal language models and encoder–decoders of texts"
        )


def refuse_answer(name: str, answer: str | None) -> None:
    """For models that write no answer."""
    if answer is not None:
        msg = f"answer={answer!r} is for encoder–decoders, and {name} is not one; leave answer out"
        raise InputError(msg)
