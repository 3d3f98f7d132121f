"""Where the patches of an image, or the frames of a sound, lie."""

from __future__ import annotations

from dataclasses import dataclass

from attnflow.errors import InputError, shown
from attnflow.records import checks


@dataclass(frozen=True)
class PatchGrid:
    """How the patches of a vision model lie on the image, or frames in the time of a sound.

    A sound is an image as wide as it has samples, and as high as it has rows of frequencies.

    Attributes:
        rows: Patches from top to bottom.
        columns: Patches from left to right.
        image: The image's height and width in pixels.
        box: The part of the image that the model saw, in its pixels: left, top, right, bottom.
        seconds: For sounds, how long the image is; ``None`` for images.
    """

    rows: int
    columns: int
    image: tuple[int, int]
    box: tuple[float, float, float, float]
    seconds: float | None = None

    def __post_init__(self) -> None:
        sizes = ("rows", self.rows), ("columns", self.columns), *(("image", n) for n in self.image)
        for name, size in sizes:
            checks.check_number(f"grid.{name}", size, 1)
        box = [checks.check_real("grid.box", edge) for edge in self.box]
        if self.seconds is not None and not checks.check_real("grid.seconds", self.seconds) > 0:
            msg = f"grid.seconds={shown(self.seconds)} must be positive"
            raise InputError(msg)
        if len(self.image) != 2 or len(box) != 4 or not (box[0] < box[2] and box[1] < box[3]):
            msg = (
                f"grid.image={shown(self.image)} must be a height and a width, and "
                f"grid.box={shown(self.box)} left, top, right and bottom"
            )
            raise InputError(msg)
