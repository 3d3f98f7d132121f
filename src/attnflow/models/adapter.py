"""What comes out of running a model on one input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from attnflow.errors import InputError
from attnflow.models.capture.sites import Fusion
from attnflow.records import Activations, PatchGrid, Prediction
from attnflow.records.positions import find, words_of_tokens

Query = int | str | None


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
        target: For pairs of texts, the second one.
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
    """A model's attention on one input, the position asked about, and what the model said."""

    tokens: Tokens
    record: Activations
    query: int
    prediction: Prediction | None


@dataclass(frozen=True)
class Wish:
    """What to read: fused heads or all (``fuse=None``), and values and gradients if wanted."""

    fuse: Fusion | None = None
    values: bool = False
    gradients: bool = False


def refuse_target(name: str, target: str | None) -> None:
    """For models that write no answer."""
    if target is not None:
        msg = f"target={target!r} is for encoder–decoders, and {name} is none; leave target out"
        raise InputError(msg)


class ModelAdapter(Protocol):
    """A model that can be read. Texts, images and pairs of texts differ only behind this."""

    @property
    def name(self) -> str:
        """The model's name."""

    @property
    def description(self) -> dict[str, Any]:
        """What was loaded: class, head, device, precision."""

    @property
    def depth(self) -> int:
        """The number of layers."""

    @property
    def batchable(self) -> bool:
        """Whether inputs of different lengths can run together."""

    def tokenize(self, item: Any, *, truncate: bool = False, target: str | None = None) -> Tokens:
        """One input as tokens; too long a one is an error unless it may be cut.

        ``target`` is the answer that an encoder–decoder is asked about.
        """

    def read(self, batch: Sequence[Tokens], query: Query, wish: Wish) -> list[ForwardPass]:
        """Run the model once on a batch."""
