"""Vision transformers: an image in, a token for each patch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from attnflow.errors import ModelError
from attnflow.io.pictures import open_image
from attnflow.models.adapter import Filler, Tokens, refuse_answer
from attnflow.models.grids import GridModel, Layout, find_layout
from attnflow.models.kinds import IMAGES
from attnflow.records import PatchGrid


class VisionModel(GridModel):
    """A vision transformer with its image processor."""

    kind = "image"
    reads_images = "alone"
    labels = IMAGES
    reads = "pixel_values"
    pieces = ("patch", "its row and column")

    def check(self) -> None:
        """Refuse what has no patches."""
        self._patch_size()

    @property
    def config(self) -> Any:
        """The configuration of what reads the image: in CLIP it is a part."""
        config = self.network.config
        return getattr(config, "vision_config", config)

    def tokenize(self, item: Any, *, truncate: bool = False, answer: str | None = None) -> Tokens:
        """One image as patches, named by row and column."""
        refuse_answer(self.name, answer)
        image, notices = open_image(item)
        pixels = self.processor(images=image, return_tensors="pt")["pixel_values"][0]
        height, width = self._patch_size()
        rows, columns = pixels.shape[-2] // height, pixels.shape[-1] // width
        size = (image.height, image.width)
        grid = PatchGrid(rows, columns, size, seen_box(self.processor, size))
        patches = tuple(f"{r},{c}" for r in range(rows) for c in range(columns))
        segments = ("patch",) * len(patches)
        text = item if isinstance(item, str | Path) else f"image {image.width}×{image.height}"
        inputs = {"pixel_values": pixels}
        return Tokens(patches, str(text), inputs, segments=segments, grid=grid, notices=notices)

    def filler(self, name: str | None = None) -> Filler:
        """Pixels are normalised: 0 is the mean colour of the data the model was trained on."""
        return Filler("mean", "the mean colour")

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

    def find_layout(self, tokens: Tokens, grid: PatchGrid, size: int) -> Layout:
        """Where the patches are, measured."""
        pixels = self.inputs([tokens])["pixel_values"]
        return find_layout(self.network, pixels, (grid.rows, grid.columns), size)

    def _patch_size(self) -> tuple[int, int]:
        size = getattr(self.config, "patch_size", None)
        sizes = (size, size) if isinstance(size, int) else tuple(size or ())
        if len(sizes) != 2 or not all(isinstance(side, int) for side in sizes):
            msg = (
                f"{type(self.network).__name__} has no patches of one size (patch_size={size!r}); "
                "vision transformers whose every layer attends to all patches can be explained"
            )
            raise ModelError(msg)
        return sizes


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
