"""A model that can be explained: what every kind of model offers to the rest of the library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from attnflow.errors import InputError
from attnflow.models.capture.spec import CaptureSpec
from attnflow.records import Activations, PatchGrid, Prediction
from attnflow.records.positions import find, words_of_tokens

if TYPE_CHECKING:
    from torch import Tensor

    Edit = Callable[[Tensor], Tensor]  # what becomes of the word embeddings of a batch

Query = int | str | None
Kind = Literal["text", "pair", "image"]


@dataclass(frozen=True, eq=False)
class Tokens:
    """One input as the model's tokens.

    Attributes:
        names: The tokens as they are shown.
        text: The input as it is shown.
        inputs: What the model is called with, without a batch axis.
        word_ids: For each token the index of its word; ``None`` for special tokens.
        word_texts: The words.
        segments: For each token what it is part of.
        grid: For images, how patches lie on the image.
        target: For encoder–decoders, the answer.
    """

    names: tuple[str, ...]
    text: str
    inputs: dict[str, Any]
    word_ids: tuple[int | None, ...] | None = None
    word_texts: tuple[str, ...] = ()
    segments: tuple[str, ...] | None = None
    grid: PatchGrid | None = None
    target: str | None = None

    def __len__(self) -> int:
        return len(self.names)

    def position(self, token: int | str, name: str = "query") -> int:
        """Where a token stands; ``name`` is what the value is called in errors."""
        return find(token, self.names, name, words_of_tokens(self.word_ids, self.word_texts))


@dataclass(frozen=True, eq=False)
class ForwardPass:
    """What a model computed on one input, the position to explain, and the prediction.

    Attributes:
        tokens: The input.
        activations: What the model computed.
        query: The position to explain.
        prediction: What the model said.
        pooled: Where the model decides from several positions, all of them, ``query`` first: their
            mean is explained.
        warnings: What a reader of the explanation must know.
    """

    tokens: Tokens
    activations: Activations
    query: int
    prediction: Prediction | None
    pooled: tuple[int, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Filler:
    """What stands for a token that is blanked out.

    Attributes:
        name: ``"unk"``, ``"mask"``, ``"pad"``, ``"eos"``, ``"delete"`` or ``"mean"``.
        label: What people are shown.
        token: The token's number; ``None`` where no token is put in.
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
        """What the model reads: a text, a pair of texts, or an image."""

    @property
    def description(self) -> dict[str, Any]:
        """What was loaded: class, head, device, precision."""

    @property
    def depth(self) -> int:
        """The number of layers."""

    @property
    def mask_token(self) -> str | None:
        """What a masked language model predicts the word for; ``None`` for other models."""

    def tokenize(self, item: Any, *, truncate: bool = False, target: str | None = None) -> Tokens:
        """One input as tokens; one that is too long is an error unless it may be truncated.

        ``target`` is the answer of an encoder–decoder that is explained; ``None`` is its own.
        """

    def batchable(self, inputs: Sequence[Tokens]) -> bool:
        """Whether these inputs give together what each of them gives alone."""

    def run(self, batch: Sequence[Tokens], query: Query, spec: CaptureSpec) -> list[ForwardPass]:
        """Run the model once on a batch, and keep what the spec asks for."""

    def predict(self, batch: Sequence[Tokens], positions: Sequence[int]) -> list[Prediction | None]:
        """The model's predictions at positions, without keeping anything else."""

    def decision(self, tokens: Tokens) -> int:
        """The position at which the head makes its one prediction of the whole input."""

    def predicts_at(self, tokens: Tokens, position: int) -> bool:
        """Whether the prediction is made *of* this position, so that it can't be blanked."""

    def probabilities(
        self, batch: Sequence[Tokens], positions: Sequence[int], edit: Edit | None = None
    ) -> Tensor:
        """For each input the probabilities of all labels, or of all tokens at its position.

        ``edit`` changes the word embeddings before the model reads them. Differentiable where
        gradients are enabled.
        """

    def output_index(self, target: str | int) -> int:
        """The number of a label or token among the probabilities, by its name or number."""

    def output_name(self, index: int) -> str:
        """The name of the label or token of that number."""

    def filler(self, name: str | None = None) -> Filler:
        """A filler by its name; by default the first usual one that the model has.

        Images know one filler only, whatever the name.
        """

    def blankable(self, tokens: Tokens, query: int) -> list[int]:
        """The positions that can be blanked: not special tokens, the mask or the answer itself."""

    def blank(self, tokens: Tokens, positions: Sequence[int], filler: Filler) -> Tokens:
        """The input with a filler at each of these positions."""

    def generate(self, tokens: Tokens, length: int) -> list[int]:
        """The numbers of the most likely tokens that follow, at most ``length``."""


def refuse_target(name: str, target: str | None) -> None:
    """For models that write no answer."""
    if target is not None:
        msg = f"target={target!r} is for encoder–decoders, and {name} is none; leave target out"
        raise InputError(msg)
