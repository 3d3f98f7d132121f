"""Images on the page."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from attnflow.errors import InputError
from attnflow.io.pictures import in_colours, open_image
from attnflow.records import PatchGrid

WAVEFORM = (1280, 180)  # pixels of a drawing of a sound
LONGEST_SIDE = 640  # pixels of an image inside a document


def to_data_url(item: Any) -> str:
    """An image as a data URL, small enough for a document."""
    image, _ = open_image(item)
    image.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    return _encode(image, "JPEG", quality=88)


def _encode(image: Any, kind: str, **options: Any) -> str:
    content = io.BytesIO()
    image.save(content, kind, **options)
    encoded = base64.b64encode(content.getvalue()).decode("ascii")
    return f"data:image/{kind.lower()};base64,{encoded}"


def picture_of(item: Any, grid: PatchGrid) -> str:
    """What stands behind the patches of an input, as a data URL: the image, or the waveform."""
    if grid.seconds is not None:
        return waveform(item, grid)
    return to_data_url(item["image"] if isinstance(item, Mapping) else item)


def waveform(item: Any, grid: PatchGrid) -> str:
    """A drawing of a sound, as a data URL."""
    from PIL import Image, ImageDraw

    from attnflow.views.figures.sound import envelope

    _, lowest, highest = envelope(item, grid)
    wide, high = WAVEFORM
    image = Image.new("RGB", WAVEFORM, "#f3f4f6")
    pen = ImageDraw.Draw(image)
    for x in range(wide):
        start, end = x * len(lowest) // wide, max(x + 1, (x + 1) * len(lowest) // wide)
        if start < len(lowest):
            top, bottom = highest[start : max(end, start + 1)], lowest[start : max(end, start + 1)]
            ends = [high * (1 - 0.95 * float(value)) / 2 for value in (top.max(), bottom.min())]
            pen.line([(x, ends[0]), (x, ends[1])], fill="#6b7280")
    return _encode(image, "PNG")


def pixels_of(encoded: str, most: int) -> int:
    """How many pixels the image of a request has, at most this many; nothing is decoded for it."""
    image = _open(encoded, most)
    return int(image.width * image.height)


def decode_image(encoded: str, most: int) -> Any:
    """The image of a request: base64, with or without the prefix of a data URL."""
    with _named():
        return in_colours(_open(encoded, most))


def _open(encoded: str, most: int) -> Any:
    from PIL import Image

    with _named():
        content = base64.b64decode(encoded.rpartition(",")[2], validate=True)
        image = Image.open(io.BytesIO(content), formats=("PNG", "JPEG", "WEBP"))
        if image.width * image.height > most:
            msg = f"the image has {image.width} × {image.height} pixels; at most {most:,}"
            raise InputError(msg)
        return image


@contextmanager
def _named() -> Iterator[None]:
    """What goes wrong with an image, as an error that says what to send."""
    from PIL import Image, UnidentifiedImageError

    try:
        yield
    except InputError:
        raise
    # Broken PNG files raise SyntaxError.
    except (
        ValueError,
        SyntaxError,
        UnidentifiedImageError,
        OSError,
        Image.DecompressionBombError,
    ) as error:
        msg = "the image could not be read; send a PNG, JPEG or WebP file as base64"
        raise InputError(msg) from error
