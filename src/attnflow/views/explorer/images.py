"""Images on the page."""

from __future__ import annotations

import base64
import io
from typing import Any

from attnflow.errors import InputError

LONGEST_SIDE = 640  # pixels of an image inside a document
MOST_PIXELS = 40_000_000  # of an image in a request


def to_data_url(item: Any) -> str:
    """An image as a data URL, small enough for a document."""
    from PIL import Image

    if isinstance(item, Image.Image):
        opened = item
    elif hasattr(item, "shape"):
        opened = Image.fromarray(item)
    else:
        opened = Image.open(item)
    image = opened.convert("RGB")
    image.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    content = io.BytesIO()
    image.save(content, "JPEG", quality=88)
    return "data:image/jpeg;base64," + base64.b64encode(content.getvalue()).decode("ascii")


def decode_image(encoded: str) -> Any:
    """The image of a request: base64, with or without the prefix of a data URL."""
    from PIL import Image, UnidentifiedImageError

    try:
        content = base64.b64decode(encoded.rpartition(",")[2], validate=True)
        image = Image.open(io.BytesIO(content), formats=("PNG", "JPEG", "WEBP"))
        if image.width * image.height > MOST_PIXELS:
            msg = f"the image has {image.width} × {image.height} pixels; at most {MOST_PIXELS:,}"
            raise InputError(msg)
        return image.convert("RGB")
    except (ValueError, UnidentifiedImageError, OSError, Image.DecompressionBombError) as error:
        if isinstance(error, InputError):
            raise
        msg = "the image could not be read; send a PNG, JPEG or WebP file as base64"
        raise InputError(msg) from error
