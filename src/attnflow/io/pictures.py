"""Images in the forms that callers give: files, PIL images and arrays, as 8-bit RGB."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from attnflow.errors import InputError, shown
from attnflow.io.files import is_file

HOW = "an image is a path, a PIL image or an array [height, width, 3] of bytes"
PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")
Notices = tuple[str, ...]


def names_image(text: str) -> bool:
    """Whether a text is the name of an image file, one that is there."""
    return text.lower().endswith(PICTURES) and is_file(Path(text))


def open_image(item: Any) -> tuple[Any, Notices]:
    """An image in RGB, and what a reader must know of it."""
    from PIL import Image

    if isinstance(item, str | PathLike):
        if not is_file(Path(item)):
            msg = f"{shown(str(item))} is not a file; a vision model takes images"
            raise InputError(msg)
        try:
            with Image.open(item) as opened:
                return in_colours(opened), _first_of_many(opened)
        except InputError:
            raise
        # A decoder may raise anything on a damaged file: SyntaxError, ValueError, its own errors.
        except Exception as error:
            msg = (
                f"{str(item)!r} is not an image that can be read: {error}; give a whole image "
                "file, such as a PNG or JPEG"
            )
            raise InputError(msg) from error
    if isinstance(item, Image.Image):
        return in_colours(item), _first_of_many(item)
    return Image.fromarray(_bytes(item)).convert("RGB"), ()


def in_colours(image: Any) -> Any:
    """The image as it is meant to be seen: rotated as its file says, in 8-bit RGB."""
    from PIL import Image, ImageOps

    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image) // 257).astype(np.uint8))
    if image.mode in ("I", "F"):  # PIL would clip to 0 … 255
        msg = f"the image has mode {image.mode!r}, which has no fixed range; convert it to 8 bits"
        raise InputError(msg)
    try:
        return ImageOps.exif_transpose(image).convert("RGB")
    except ValueError as error:
        msg = f"the image of mode {image.mode!r} can't be converted to RGB: {error}"
        raise InputError(msg) from error


def _first_of_many(image: Any) -> Notices:
    count = int(getattr(image, "n_frames", 1))
    if count < 2:
        return ()
    return (f"the image has {count} frames or pages: only the first was read",)


def _bytes(item: Any) -> Any:
    """An array of bytes with the shape of an image."""
    try:
        array = np.asarray(item)
    except (ValueError, TypeError, RuntimeError) as error:
        msg = f"{HOW}; this is {type(item).__name__}: {error}"
        raise InputError(msg) from None
    if array.dtype.kind == "b":
        array = array.astype(np.uint8) * 255
    flat = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))
    if array.dtype != np.uint8 or not flat or not array.size:
        what = f" of {array.dtype} and the shape {array.shape}" if array.ndim else ""
        msg = f"{HOW}; this is {type(item).__name__}{what}"
        raise InputError(msg)
    return np.ascontiguousarray(array)
