"""Models that read images and text in one sequence, such as LLaVA, PaliGemma and Qwen2-VL.

The patches of an image take the place of its placeholder in the text. Every layer of the language
model attends over both, so that they are positions of one graph. What a vision tower did to the
patches before is not part of it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isqrt
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attnflow.errors import InputError, ModelError, shown
from attnflow.io.inputs import check_unicode
from attnflow.io.pictures import names_image, open_image
from attnflow.models.adapter import ForwardPass, Objective, Query, Tokens, refuse_answer
from attnflow.models.capture import run as network
from attnflow.models.capture.spec import CaptureSpec
from attnflow.models.checks.mixing import last_states
from attnflow.models.checks.padding import once
from attnflow.models.grids import change_patch
from attnflow.models.image.vision import seen_box
from attnflow.models.kinds import CAUSAL, SEQ2SEQ, HeadKind, head_in
from attnflow.models.sizes import limit
from attnflow.models.text.model import TextModel
from attnflow.models.text.tokens import is_encoded, name_token
from attnflow.records import PatchGrid

if TYPE_CHECKING:
    from attnflow.models.adapter import Edit

BEFORE = (
    "the patches are what the vision tower of {} made of the image, in which they attend to each "
    "other: scores show only the paths through the language model"
)
HOW = 'give {"image": …, "text": …}, with the placeholder of the image in the text'

_reading = threading.Lock()
NEED_IMAGES = {
    "paligemma": "without an image, transformers lets its tokens attend to later ones with sdpa "
    "and not with eager attention"
}


def make_image_text(net: Any, processor: Any, name: str) -> TextModel:
    """The model with its processor; with only a tokenizer, it reads only texts."""
    if hasattr(processor, "image_processor"):
        return ImageTextModel(net, processor, name)
    check_text_alone(net)
    head = head_in(net)
    return TextModel(net, processor, name, CAUSAL if head is SEQ2SEQ else head)


def check_text_alone(net: Any) -> None:
    """Refuse a model whose treatment of a text without an image is uncertain."""
    reason = NEED_IMAGES.get(str(net.config.model_type))
    if reason is not None:
        msg = (
            f"{type(net).__name__} can't be explained on a text without an image: {reason}. Load "
            f"it with its processor, and {HOW}"
        )
        raise ModelError(msg)


class ImageTextModel(TextModel):
    """A causal language model that reads patches among its tokens, with its processor."""

    processor: Any
    reads_images = "with text"

    def __init__(self, net: Any, processor: Any, name: str, head: HeadKind = CAUSAL) -> None:
        object.__setattr__(self, "processor", processor)
        super().__init__(net, processor.tokenizer, name, head)

    @property
    def reads_pairs(self) -> bool:
        """It reads one text, perhaps with an image."""
        return False

    def answers(self) -> None:
        """None: what it writes is explained at its last token."""

    @property
    def image_token(self) -> int:
        """The number of the token that patches stand for."""
        for name in ("image_token_id", "image_token_index"):
            number = getattr(self.network.config, name, None)
            if isinstance(number, int):
                return number
        msg = f"the configuration of {type(self.network).__name__} names no token for patches"
        raise ModelError(msg)

    def decision(self, tokens: Tokens) -> int:
        """Where the model decides, for methods that change the input: only without an image."""
        if tokens.grid is not None:
            msg = (
                f"{self.name} reads patches that its vision tower made, which can't be blanked or "
                "differentiated by their embeddings; use a method that reads edges"
            )
            raise ModelError(msg)
        return super().decision(tokens)

    def tokenize(self, item: Any, *, truncate: bool = False, answer: str | None = None) -> Tokens:
        """A text as tokens; an image with a text as patches and tokens."""
        if isinstance(item, str) or is_encoded(item):
            if isinstance(item, str) and names_image(item):
                msg = f"{shown(item)} is an image, and its name would be read as a text; {HOW}"
                raise InputError(msg)
            check_text_alone(self.network)
            tokens = super().tokenize(item, truncate=truncate, answer=answer)
            if self.image_token in tokens.inputs["input_ids"]:
                msg = f"the text has a placeholder, and there is no image; {HOW}"
                raise InputError(msg)
            return tokens
        refuse_answer(self.name, answer)
        if not isinstance(item, Mapping) or set(item) != {"image", "text"}:
            what = f"a dict with {', '.join(map(repr, item))}" if isinstance(item, Mapping) else ""
            msg = f"{self.name} reads images and text; {HOW}. This is {what or type(item).__name__}"
            raise InputError(msg)
        if not isinstance(item["text"], str):
            msg = f"the text is {type(item['text']).__name__}; {HOW}"
            raise InputError(msg)
        if getattr(self.network.config.get_text_config(), "cross_attention_layers", None):
            msg = (
                f"{type(self.network).__name__} reads images by cross-attention, not among its "
                "tokens: not supported; give only the text"
            )
            raise ModelError(msg)
        image, notices = open_image(item["image"])
        made = self._read(image, check_unicode("text", item["text"]))
        ids = [int(number) for number in made["input_ids"][0]]
        places = [at for at, number in enumerate(ids) if number == self.image_token]
        if not places:
            msg = f"the text has no placeholder for the image; {HOW}"
            raise InputError(msg)
        most = limit(self.network, self.tokenizer)
        if most and len(ids) > most:
            msg = (
                f"image and text have {len(ids)} tokens, {len(places)} of them patches; this model "
                f"takes at most {most}. Shorten the text: with an image it can't be truncated"
            )
            raise InputError(msg)
        grid = self._grid(len(places), made, (image.height, image.width))
        names = [name_token(self.tokenizer, number) for number in ids]
        words: list[int | None] = [None if n in self.tokenizer.all_special_ids else 0 for n in ids]
        for piece, at in enumerate(places):
            names[at] = "{},{}".format(*divmod(piece, grid.columns))
            words[at] = 0
        numbered = [None if word is None else at for at, word in enumerate(words)]
        return Tokens(
            tuple(names),
            item["text"],
            {**made, "input_ids": ids, "attention_mask": [1] * len(ids)},
            word_ids=tuple(numbered),
            word_texts=tuple(names),
            segments=tuple("patch" if at in set(places) else "text" for at in range(len(ids))),
            grid=grid,
            notices=notices,
        )

    def _read(self, image: Any, text: str) -> dict[str, Any]:
        """What the processor makes of an image and a text with one placeholder."""
        if text.count(str(name_token(self.tokenizer, self.image_token))) > 1:
            msg = f"the text has several placeholders, and there is one image; {HOW}"
            raise InputError(msg)
        try:
            # Each call sets how the tokenizer pads, which two threads must not do at once.
            with _reading:
                made = dict(self.processor(images=image, text=text, return_tensors="pt"))
        except (ValueError, TypeError, RuntimeError, LookupError, AttributeError) as error:
            msg = f"{type(self.processor).__name__} can't read this image and text: {error}; {HOW}"
            raise InputError(msg) from error
        made.pop("labels", None)  # PaliGemma's processor makes some, for training
        return made

    def _grid(self, count: int, made: Any, size: tuple[int, int]) -> PatchGrid:
        """How the patches lie on the image: as stated, or in a square."""
        rows = columns = isqrt(count)
        stated = made.get("image_grid_thw")
        if stated is not None and len(stated) == 1:
            _, high, wide = (int(side) for side in stated[0])
            factor = isqrt(high * wide // count)
            rows, columns = high // factor, wide // factor
        if rows * columns != count:
            msg = (
                f"{type(self.network).__name__} makes {count} positions of this image, which lie "
                "in no grid of rows and columns (it cuts the image into several): not supported"
            )
            raise ModelError(msg)
        return PatchGrid(rows, columns, size, seen_box(self.processor.image_processor, size))

    def blankable(self, tokens: Tokens, query: int) -> list[int]:
        """The tokens of the text, without special ones."""
        places = super().blankable(tokens, query)
        segments = tokens.segments or ("text",) * len(tokens)
        return [at for at in places if segments[at] != "patch"]

    def batchable(self, inputs: Sequence[Tokens]) -> bool:
        """Images run one by one; texts as those of other models."""
        if any(tokens.grid is not None for tokens in inputs):
            return len(inputs) < 2
        return super().batchable(inputs)

    def run(
        self,
        batch: Sequence[Tokens],
        query: Query,
        spec: CaptureSpec,
        objectives: Sequence[Objective] = (),
    ) -> list[ForwardPass]:
        """Run the network once; with an image, the layers of the language model are kept."""
        if batch[0].grid is None:
            return super().run(batch, query, spec, objectives)
        if spec.towards_target or spec.blocks or spec.zeroing:
            msg = "for images with text only attention can be read; choose edges='attention'"
            raise InputError(msg)
        (tokens,) = batch
        inputs = self.inputs(batch)
        output, capture = network.run(self.network, inputs, spec)
        size = len(tokens)
        # The vision tower runs first, or in between: its maps have other sizes.
        sites = [s for s in capture.sites if s.probabilities.shape[-2:] == (size, size)]
        if len(sites) > self.depth:  # by chance those of the tower have this size: they see ahead
            sites = [s for s in sites if network.is_causal([s.probabilities[0]])]
        network.expect(sites, self.depth, (size, size), self.network)
        capture.sites[:] = sites
        activations = replace(network.square_activations(capture, 0, size), model=self.name)
        at = size - 1 if query is None or query == "all" else tokens.position(query)
        shape = tuple(getattr(tokens.inputs.get("pixel_values"), "shape", ()))
        once(self.network, ("layout", shape), lambda: self._check_layout(tokens))
        warnings = (BEFORE.format(type(self.network).__name__),)
        (prediction,) = self._predictions(output, batch, [at])
        return [ForwardPass(tokens, activations, at, prediction, warnings=warnings)]

    def logits(
        self, batch: Sequence[Tokens], positions: Sequence[int], edit: Edit | None = None
    ) -> Tensor:
        """Those of texts, or of one image with its text; its embeddings can't be changed."""
        pictured = any(tokens.grid is not None for tokens in batch)
        if pictured and (edit is not None or len(batch) > 1):
            msg = (
                f"for images with text, only attention can be read: {self.name} can't be run again "
                "without parts of an image; give only the text, or another method"
            )
            raise InputError(msg)
        return super().logits(batch, positions, edit)

    def inputs(self, batch: Sequence[Tokens]) -> dict[str, Any]:
        """What the network is called with: texts, with their images where there are any."""
        if batch[0].grid is None:
            return super().inputs(batch)
        parameter = next(self.network.parameters())
        found: dict[str, Any] = {"use_cache": False}
        for name, values in batch[0].inputs.items():
            tensor = values if isinstance(values, Tensor) else torch.tensor([values])
            kind = parameter.dtype if tensor.is_floating_point() else tensor.dtype
            found[name] = tensor.to(parameter.device, kind)
        return dict(sorted(found.items(), key=lambda pair: pair[0] != "input_ids"))

    def _check_layout(self, tokens: Tokens) -> None:
        """Refuse patches that are not in the order in which they lie on the image.

        With every map the identity, in the vision tower too, a changed piece of the image changes
        its own position most. Where that can't be tried, an image is refused: patches in another
        order would have scores that look right.
        """
        pixels, grid = tokens.inputs.get("pixel_values"), tokens.grid
        name = type(self.network).__name__
        unknown = (
            f"whether {name} keeps patches in the order in which they lie on the image can't be "
            "tried: its processor gives no single image (Qwen2-VL's cuts it into patches before); "
            "give only the text"
        )
        if grid is None or not isinstance(pixels, Tensor) or pixels.dim() != 4 or len(pixels) > 1:
            raise ModelError(unknown)
        places = [at for at, segment in enumerate(tokens.segments or ()) if segment == "patch"]
        before = last_states(self.network, self.inputs([tokens]))
        for piece in sorted({0, grid.columns - 1, len(places) - 1}):
            changed = change_patch(pixels, piece, (grid.rows, grid.columns))
            other = replace(tokens, inputs={**tokens.inputs, "pixel_values": changed})
            after = last_states(self.network, self.inputs([other]))
            if before is None or after is None or after.shape[1] != len(tokens):
                raise ModelError(unknown)
            apart = (after[0] - before[0]).abs().amax(-1)
            if int(apart.argmax()) != places[piece] or not float(apart.max()):
                msg = f"{name} does not keep patches in the order in which they lie on the image"
                raise ModelError(msg)
