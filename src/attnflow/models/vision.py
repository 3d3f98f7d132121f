"""Vision transformers: an image in, a token for each patch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnflow.errors import InputError, ModelError
from attnflow.models.adapter import (
    Filler,
    ForwardPass,
    Kind,
    Objective,
    Query,
    Tokens,
    refuse_answer,
)
from attnflow.models.capture import run as network
from attnflow.models.capture.spec import CaptureSpec
from attnflow.models.checks.deciding import deciding_positions
from attnflow.models.checks.layout import Layout, find_layout
from attnflow.models.checks.memory import once
from attnflow.models.heads import IMAGES, HeadKind
from attnflow.models.outputs import predict_label
from attnflow.models.sizes import depth_of, describe, heads_in
from attnflow.models.unmeasured import UnmeasuredModel
from attnflow.models.zeroing import measure_zeroing
from attnflow.records import PatchGrid, Prediction


@dataclass(frozen=True, eq=False)
class VisionModel(UnmeasuredModel):
    """A vision transformer with its image processor."""

    network: Any
    processor: Any
    name: str
    head: HeadKind

    def __post_init__(self) -> None:
        self._patch_size()  # refuse what has no patches before anything else

    @property
    def kind(self) -> Kind:
        """It takes an image."""
        return "image"

    @property
    def description(self) -> dict[str, Any]:
        """What was loaded."""
        return describe(self.network, self.head)

    @property
    def depth(self) -> int:
        """The number of layers."""
        return depth_of(self.network, self._config())

    @property
    def heads(self) -> int:
        """The most heads that a layer has."""
        return heads_in(self.network)

    @property
    def mask_token(self) -> None:
        """It predicts no masked words."""

    def tokenize(self, item: Any, *, truncate: bool = False, answer: str | None = None) -> Tokens:
        """One image as patches, named by row and column."""
        refuse_answer(self.name, answer)
        image = _open(item)
        pixels = self.processor(images=image, return_tensors="pt")["pixel_values"][0]
        height, width = self._patch_size()
        rows, columns = pixels.shape[-2] // height, pixels.shape[-1] // width
        size = (image.height, image.width)
        grid = PatchGrid(rows, columns, size, seen_box(self.processor, size))
        patches = tuple(f"{r},{c}" for r in range(rows) for c in range(columns))
        segments = ("patch",) * len(patches)
        text = item if isinstance(item, str | Path) else f"image {image.width}×{image.height}"
        return Tokens(patches, str(text), {"pixel_values": pixels}, segments=segments, grid=grid)

    def run(
        self,
        batch: Sequence[Tokens],
        query: Query,
        spec: CaptureSpec,
        objectives: Sequence[Objective] = (),
    ) -> list[ForwardPass]:
        """Run the network once on a batch."""
        if spec.gradients:
            msg = "gradients are captured for text models only; choose other edges"
            raise InputError(msg)
        output, capture = network.run(self.network, self._inputs(batch), spec)
        size = capture.sites[0].probabilities.shape[-1] if capture.sites else 0
        network.expect(capture.sites, self.depth, (size, size), self.network)
        layout = self._layout(batch[0], size)
        passes = []
        for item, patches in enumerate(batch):
            tokens = self._with_extra(patches, layout.before, layout.after)
            positions = self._positions(query, tokens, patches)
            activations = replace(network.square_activations(capture, item, size), model=self.name)
            if spec.zeroing:
                inputs, keys = self._inputs([patches]), [[size]] * self.depth
                found = measure_zeroing(self.network, inputs, keys, spec.progress)
                activations = replace(activations, zeroed=tuple(layer[0] for layer in found))
            said = self._prediction(output, item)
            passes.append(
                ForwardPass(
                    tokens,
                    activations,
                    positions[0],
                    said,
                    pooled=positions if len(positions) > 1 else (),
                    warnings=layout.warnings,
                )
            )
        return passes

    def batchable(self, inputs: Sequence[Tokens]) -> bool:
        """Whether these images have one size, as most processors make them."""
        return len({tokens.inputs["pixel_values"].shape for tokens in inputs}) == 1

    def predict(self, batch: Sequence[Tokens], positions: Sequence[int]) -> list[Prediction | None]:
        """The labels of images."""
        with torch.no_grad():
            output = network.called(network.in_eval_mode(self.network), self._inputs(batch))
        return [self._prediction(output, item) for item in range(len(batch))]

    def output_name(self, index: int) -> str:
        """The name of a label."""
        return str(self.network.config.id2label[index])

    def filler(self, name: str | None = None) -> Filler:
        """Pixels are normalised: 0 is the mean colour of the data the model was trained on."""
        return Filler("mean", "the mean colour")

    def blankable(self, tokens: Tokens, query: int) -> list[int]:
        """The patches."""
        return [at for at, segment in enumerate(tokens.segments or ()) if segment == "patch"]

    def blank(self, tokens: Tokens, positions: Sequence[int], filler: Filler) -> Tokens:
        """The image with the mean colour in each of these patches."""
        patches = self.blankable(tokens, 0)
        pixels = tokens.inputs["pixel_values"].clone()
        if tokens.grid is not None:
            rows, columns = tokens.grid.rows, tokens.grid.columns
            height, width = pixels.shape[-2] // rows, pixels.shape[-1] // columns
            for at in positions:
                top, left = divmod(patches.index(at), columns)
                top, left = top * height, left * width
                pixels[:, top : top + height, left : left + width] = 0
        return replace(tokens, inputs={"pixel_values": pixels})

    def generate(self, tokens: Tokens, length: int) -> list[int]:
        """Not defined: it writes no text."""
        msg = f"{self.name} takes images and can't write text"
        raise ModelError(msg)

    def _inputs(self, batch: Sequence[Tokens]) -> dict[str, Tensor]:
        pixels = torch.stack([tokens.inputs["pixel_values"] for tokens in batch])
        parameter = next(self.network.parameters())
        return {"pixel_values": pixels.to(parameter.device, parameter.dtype)}

    def _config(self) -> Any:
        """The configuration of what reads the image: in CLIP it is a part."""
        config = self.network.config
        return getattr(config, "vision_config", config)

    def _patch_size(self) -> tuple[int, int]:
        size = getattr(self._config(), "patch_size", None)
        sizes = (size, size) if isinstance(size, int) else tuple(size or ())
        if len(sizes) != 2 or not all(isinstance(side, int) for side in sizes):
            msg = (
                f"{type(self.network).__name__} has no patches of one size (patch_size={size!r}); "
                "vision transformers whose every layer attends to all patches can be explained"
            )
            raise ModelError(msg)
        return sizes

    def _layout(self, patches: Tokens, size: int) -> Layout:
        """Where the patches stand among the tokens, measured once for a size of images."""
        if patches.grid is None or size < len(patches):
            msg = (
                f"{type(self.network).__name__} attends over {size} positions, and the image has "
                f"{len(patches)} patches: it pools or leaves out patches, which is not supported"
            )
            raise ModelError(msg)
        pixels, grid = patches.inputs["pixel_values"], patches.grid
        return once(
            self.network,
            ("layout", tuple(pixels.shape)),
            lambda: find_layout(
                self.network,
                self._inputs([patches])["pixel_values"],
                (grid.rows, grid.columns),
                size,
            ),
        )

    def _positions(self, query: Query, tokens: Tokens, patches: Tokens) -> tuple[int, ...]:
        """The position to explain; several where the head decides from several."""
        if query is not None and query != "all":
            return (tokens.position(query),)
        if self.head is IMAGES:
            key = ("deciding", tuple(patches.inputs["pixel_values"].shape))
            return once(
                self.network, key, lambda: deciding_positions(self.network, self._inputs([patches]))
            )
        if (tokens.segments or ())[0] == "class" or query == "all":
            return (0,)
        msg = (
            f"{type(self.network).__name__} has no CLS token and no head that decides; give the "
            'patch to explain with query="0,0" (its row and column), or query="all"'
        )
        raise ModelError(msg)

    def _with_extra(self, patches: Tokens, before: int, after: int) -> Tokens:
        """With the tokens that are no patches: CLS, DeiT's second one, registers; detections."""
        registers = min(before, int(getattr(self.network.config, "num_register_tokens", 0) or 0))
        classes = min(1, before - registers)
        distilled = before - classes - registers
        first = [
            *[("[CLS]", "class")] * classes,
            *[("[DIST]", "distillation")] * distilled,
            *((f"[REG{i + 1}]", "register") for i in range(registers)),
        ]
        last = [(f"[DET{i + 1}]", "detection") for i in range(after)]
        both = [*first, *zip(patches.names, patches.segments or (), strict=True), *last]
        return replace(
            patches,
            names=tuple(name for name, _ in both),
            segments=tuple(segment for _, segment in both),
        )

    def _prediction(self, output: Any, item: int) -> Prediction | None:
        if self.head is not IMAGES:
            return None
        return predict_label(output.logits[item], self.network.config)


def _open(item: Any) -> Any:
    from PIL import Image

    if isinstance(item, str | Path):
        if not Path(item).is_file():
            msg = f"{str(item)!r} is not a file; a vision model takes images"
            raise InputError(msg)
        try:
            with Image.open(item) as opened:
                return opened.convert("RGB")
        except OSError as error:
            msg = f"{str(item)!r} is not an image that can be read: {error}"
            raise InputError(msg) from error
    try:
        image = item if isinstance(item, Image.Image) else Image.fromarray(item)
    except (AttributeError, TypeError) as error:
        msg = f"an image is a path, a PIL image or an array [height, width, 3] of bytes: {error}"
        raise InputError(msg) from error
    return image.convert("RGB")


def seen_box(processor: Any, size: tuple[int, int]) -> tuple[float, float, float, float]:
    """The part of an image that remains after the processor's crop: left, top, right, bottom."""
    height, width = size
    whole = (0.0, 0.0, float(width), float(height))
    if not getattr(processor, "do_center_crop", False):
        return whole
    scale_y, scale_x = _scales(processor, size)
    crop = processor.crop_size
    seen_y, seen_x = crop["height"] / scale_y, crop["width"] / scale_x
    left, top = (width - seen_x) / 2, (height - seen_y) / 2
    return (left, top, left + seen_x, top + seen_y)


def _scales(processor: Any, size: tuple[int, int]) -> tuple[float, float]:
    """By how much the processor's resizing stretches height and width."""
    if not getattr(processor, "do_resize", False):
        return 1.0, 1.0
    to = processor.size
    if "shortest_edge" in to:
        factor = to["shortest_edge"] / min(size)
        return factor, factor
    return to["height"] / size[0], to["width"] / size[1]
