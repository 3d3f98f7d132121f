"""Models of two towers, one for texts and one for images, such as CLIP and SigLIP.

The towers meet only after their last layers, so each is explained by itself: a text by the tower
that reads texts, an image by the one that sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from attnflow.errors import InputError, shown, unknown
from attnflow.io.pictures import PICTURES, names_image
from attnflow.models.adapter import (
    Filler,
    ForwardPass,
    ModelAdapter,
    Objective,
    Query,
    Tokens,
)
from attnflow.models.capture.spec import CaptureSpec
from attnflow.models.image.vision import VisionModel
from attnflow.models.kinds import BARE
from attnflow.models.text.model import TextModel
from attnflow.models.text.tokens import is_encoded, name_token
from attnflow.records import Prediction

if TYPE_CHECKING:
    from attnflow.models.adapter import Edit
    from attnflow.models.capture.towards import ItemRelevance

TOWERS = ("text", "vision")


class FilledTextModel(TextModel):
    """A tower that was trained on texts filled up to its length, and reads the last position."""

    @property
    def reads_pairs(self) -> bool:
        """It reads one text."""
        return False

    def tokenize(self, item: Any, *, truncate: bool = False, answer: str | None = None) -> Tokens:
        """One text as tokens, filled up with padding that the model reads like any token."""
        tokens = super().tokenize(item, truncate=truncate, answer=answer)
        missing = int(self.network.config.max_position_embeddings) - len(tokens)
        number = self.tokenizer.pad_token_id
        if missing <= 0 or number is None:
            return tokens
        inputs = {
            "input_ids": [*tokens.inputs["input_ids"], *[int(number)] * missing],
            "attention_mask": [*tokens.inputs["attention_mask"], *[1] * missing],
        }
        words, spans = tokens.word_ids, tokens.spans
        end = (len(tokens.text), len(tokens.text))
        return replace(
            tokens,
            names=(*tokens.names, *[name_token(self.tokenizer, number)] * missing),
            inputs=inputs,
            word_ids=None if words is None else (*words, *[None] * missing),
            spans=None if spans is None else (*spans, *[end] * missing),
        )


def make_towers(found: tuple[Any, Any], processor: Any, name: str) -> ModelAdapter:
    """Both towers with their parts of the processor, or the one that its only part is for."""
    reader, viewer = (getattr(processor, part, None) for part in ("tokenizer", "image_processor"))
    if reader is None and viewer is None:
        alone = hasattr(processor, "image_mean")
        reader, viewer = (None, processor) if alone else (processor, None)
    filled = str(getattr(found[0].config, "model_type", "")).startswith("siglip")
    kind = FilledTextModel if filled else TextModel
    if viewer is None:
        return kind(found[0], reader, name, BARE)
    vision = VisionModel(found[1], viewer, name, BARE)
    return (
        vision if reader is None else TowersModel(kind(found[0], reader, name, BARE), vision, name)
    )


@dataclass(frozen=True, eq=False)
class TowersModel(ModelAdapter):
    """Two towers, each for the inputs that it reads."""

    text: TextModel
    vision: VisionModel
    name: str

    kind = "text"
    reads_images = "alone"
    edits_words = True
    estimates_memory = True

    def tower(self, name: str) -> ModelAdapter:
        """One tower by itself."""
        if name not in TOWERS:
            raise InputError(unknown("tower", name, TOWERS))
        return self.text if name == "text" else self.vision

    def _of(self, item: Any) -> TextModel | VisionModel:
        """A text that names an image file is that image; one that is not there is a slip."""
        if is_encoded(item):
            return self.text
        if not isinstance(item, str) or names_image(item):
            return self.vision
        if item.lower().endswith(PICTURES) and not any(map(str.isspace, item)):
            msg = (
                f"{shown(item)} is not a file; give the path of an image, or a text. If this is "
                'the text: load_model(…, tower="text")'
            )
            raise InputError(msg)
        return self.text

    def _for(self, batch: Sequence[Tokens]) -> TextModel | VisionModel:
        return self.vision if "pixel_values" in batch[0].inputs else self.text

    @property
    def reads_pairs(self) -> bool:
        """Whether its texts can be pairs."""
        return self.text.reads_pairs

    @property
    def predicts(self) -> bool:
        """It has no head."""
        return False

    @property
    def text_reader(self) -> ModelAdapter:
        """The tower for texts."""
        return self.text

    @property
    def description(self) -> dict[str, Any]:
        """What was loaded."""
        towers = f"{self.text.description['class']} and {self.vision.description['class']}"
        return {**self.text.description, "class": towers}

    @property
    def depth(self) -> int:
        """The most layers that a tower has."""
        return max(self.text.depth, self.vision.depth)

    @property
    def heads(self) -> int:
        """The most heads that a layer has."""
        return max(self.text.heads, self.vision.heads)

    def tokenize(self, item: Any, *, truncate: bool = False, answer: str | None = None) -> Tokens:
        """A text as tokens, an image as patches."""
        return self._of(item).tokenize(item, truncate=truncate, answer=answer)

    def is_decoder(self, tokens: Tokens) -> bool:
        """Whether no position attends to a later one, in the tower that reads this."""
        return self._for([tokens]).is_decoder(tokens)

    def batchable(self, inputs: Sequence[Tokens]) -> bool:
        """Whether these inputs are of one tower, which batching leaves unchanged."""
        kinds = {"pixel_values" in tokens.inputs for tokens in inputs}
        return len(kinds) == 1 and self._for(inputs).batchable(inputs)

    def run(
        self,
        batch: Sequence[Tokens],
        query: Query,
        spec: CaptureSpec,
        objectives: Sequence[Objective] = (),
    ) -> list[ForwardPass]:
        """Run the tower that reads these inputs."""
        return self._for(batch).run(batch, query, spec, objectives)

    def predict(self, batch: Sequence[Tokens], positions: Sequence[int]) -> list[Prediction | None]:
        """Nothing: a tower has no head that predicts."""
        return [None] * len(batch)

    def decision(self, tokens: Tokens) -> int:
        """Not defined: it has no head."""
        return self._for([tokens]).decision(tokens)

    def logits(
        self, batch: Sequence[Tokens], positions: Sequence[int], edit: Edit | None = None
    ) -> Tensor:
        """Not defined: it has no head."""
        return self._for(batch).logits(batch, positions, edit)

    def relevance(
        self, tokens: Tokens, position: int, target: int, contrast: int | None = None
    ) -> ItemRelevance:
        """Not defined: it has no head."""
        return self._for([tokens]).relevance(tokens, position, target, contrast)

    def row_bytes(self, length: int, *, gradients: bool = False) -> int:
        """About how much memory one text takes."""
        return self.text.row_bytes(length, gradients=gradients)

    def output_indices(self, target: str | int) -> tuple[int, ...]:
        """Not defined: it has no head."""
        return self.vision.output_indices(target)

    def output_name(self, index: int) -> str:
        """A token as displayed."""
        return self.text.output_name(index)

    def filler(self, name: str | None = None) -> Filler:
        """What replaces a blanked token."""
        return self.text.filler(name)

    def blankable(self, tokens: Tokens, query: int) -> list[int]:
        """Which positions can be blanked."""
        return self._for([tokens]).blankable(tokens, query)

    def blank(self, tokens: Tokens, positions: Sequence[int], filler: Filler) -> Tokens:
        """The input with fillers."""
        return self._for([tokens]).blank(tokens, positions, filler)

    def inputs(self, batch: Sequence[Tokens]) -> dict[str, Any]:
        """What the tower that reads these inputs is called with."""
        return self._for(batch).inputs(batch)
