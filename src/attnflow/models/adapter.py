"""A model that can be explained: what every kind of model offers to the rest of the library."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from attnflow.errors import InputError
from attnflow.models.capture.spec import CaptureSpec
from attnflow.records import Activations, PatchGrid, Prediction
from attnflow.records.selection import find_position, words_of_tokens

if TYPE_CHECKING:
    from torch import Tensor

    from attnflow.models.capture.towards import ItemRelevance

    Edit = Callable[[Tensor], Tensor]  # what becomes of the word embeddings of a batch

Query = int | str | None
Kind = Literal["text", "pair", "image", "audio", "speech"]


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
        answer: What was made of the input, where that is explained.
        notices: What a reader must know of this input, e.g. that it was cut.
        pair: The two texts, where a pair is read as one input.
        spans: For each token where it stands in ``text``, or in ``answer``; ``None`` where that is
            not known.
        cut_at: How many tokens of an answer were written where it had not come to its end.
        decoding: What the model's generation configuration decided of an answer that it wrote;
            ``None`` where that is nothing.
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

    def __len__(self) -> int:
        return len(self.names)

    def position(self, token: int | str, name: str = "query") -> int:
        """The position of a token; ``name`` is what the value is called in errors."""
        return find_position(
            token, self.names, name, words_of_tokens(self.word_ids, self.word_texts)
        )

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
        warnings: What a reader of the explanation must know.
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
    """What a model is asked to account for: a target, perhaps rather than another one.

    Alone it is the target's log-probability; with a contrast, how much larger its logit is.

    Attributes:
        target: A label or token, by name or number; ``None`` is the model's prediction.
        contrast: The label or token that the target is compared with.
    """

    target: str | int | None = None
    contrast: str | int | None = None


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


class ModelAdapter(Protocol):
    """A model that can be explained. Texts, images and pairs of texts differ only behind this.

    Nothing here changes the model: it may be used from several threads.
    """

    @property
    def name(self) -> str:
        """The model's name."""

    @property
    def kind(self) -> Kind:
        """What the model takes: a text, an image, a sound; a text or a sound to write a text of."""

    @property
    def description(self) -> dict[str, Any]:
        """What was loaded: class, head, device, precision."""

    @property
    def depth(self) -> int:
        """The number of layers."""

    @property
    def heads(self) -> int:
        """The most heads that a layer has."""

    @property
    def mask_token(self) -> str | None:
        """What a masked language model predicts the word for; ``None`` for other models."""

    def tokenize(self, item: Any, *, truncate: bool = False, answer: str | None = None) -> Tokens:
        """One input as tokens; one that is too long is an error unless it may be truncated.

        ``answer`` is the answer of an encoder–decoder that is explained; ``None`` is its own.
        """

    def batchable(self, inputs: Sequence[Tokens]) -> bool:
        """Whether these inputs give together what each of them gives alone."""

    def is_decoder(self, tokens: Tokens) -> bool:
        """Whether positions attend to none behind them; ``tokens`` are an input to try."""

    def run(
        self,
        batch: Sequence[Tokens],
        query: Query,
        spec: CaptureSpec,
        objectives: Sequence[Objective] = (),
    ) -> list[ForwardPass]:
        """Run the model once on a batch, and keep what the spec asks for.

        ``objectives`` are those of gradients, one per input; by default the predictions.
        """

    def predict(self, batch: Sequence[Tokens], positions: Sequence[int]) -> list[Prediction | None]:
        """The model's predictions at positions, without capturing anything."""

    def decision(self, tokens: Tokens) -> int:
        """The position at which the head makes its one prediction of the whole input."""

    def predicts_at(self, tokens: Tokens, position: int) -> bool:
        """Whether this position is what is predicted, so that it can't be blanked."""

    def logits(
        self, batch: Sequence[Tokens], positions: Sequence[int], edit: Edit | None = None
    ) -> Tensor:
        """For each input the logits of all labels, or of all tokens at its position, in float64.

        ``edit`` changes the word embeddings before the model uses them. Differentiable where
        gradients are enabled.
        """

    def probabilities(
        self, batch: Sequence[Tokens], positions: Sequence[int], edit: Edit | None = None
    ) -> Tensor:
        """The logits as probabilities."""

    def relevance(
        self, tokens: Tokens, position: int, target: int, contrast: int | None = None
    ) -> ItemRelevance:
        """The layer-wise relevance of one input's tokens for a label, or a token at a position."""

    @property
    def labels_of(self) -> Any:
        """The network's configuration where outputs are labels of a whole input; else ``None``."""

    def row_bytes(self, length: int, *, gradients: bool = False) -> int:
        """About how much memory one input of that length takes in `logits`."""

    def output_indices(self, target: str | int) -> tuple[int, ...]:
        """The numbers of the labels or tokens of a name, or this number; an error if there is none.

        `attnflow.models.objectives.output_index` says which of several is meant.
        """

    def output_name(self, index: int) -> str:
        """The name of the label or token of that number."""

    def filler(self, name: str | None = None) -> Filler:
        """A filler by its name; by default the first usual one that the model has.

        Images have a single filler, whatever the name.
        """

    def blankable(self, tokens: Tokens, query: int) -> list[int]:
        """The positions that can be blanked: not special tokens, the mask or the answer itself."""

    def blank(self, tokens: Tokens, positions: Sequence[int], filler: Filler) -> Tokens:
        """The input with a filler at each of these positions."""

    def generate(self, tokens: Tokens, length: int) -> list[int]:
        """The numbers of the most likely tokens that follow, at most ``length``."""


def refuse_answer(name: str, answer: str | None) -> None:
    """For models that write no answer."""
    if answer is not None:
        msg = f"answer={answer!r} is for encoder–decoders, and {name} is not one; leave answer out"
        raise InputError(msg)
