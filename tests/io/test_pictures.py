"""Images of every mode and form as colours of 8 bits, or refused by what they are."""

import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from attnflow.errors import InputError
from attnflow.io.pictures import open_image
from attnflow.views.explorer.images import to_data_url
from attnflow.views.figures.image import pixels

COLOURS = np.random.default_rng(0).integers(0, 255, (20, 30, 3), dtype=np.uint8)
GREY = COLOURS[..., 0]


def seen(item):
    image, _ = open_image(item)
    assert image.mode == "RGB"
    return np.asarray(image)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (COLOURS, COLOURS),
        (COLOURS[::-1, ::2], COLOURS[::-1, ::2]),
        (torch.tensor(COLOURS), COLOURS),
        (GREY, np.stack([GREY] * 3, -1)),
        (GREY > 100, np.stack([(GREY > 100) * np.uint8(255)] * 3, -1)),
        (np.dstack([COLOURS, GREY]), COLOURS),
        (Image.fromarray(COLOURS).convert("RGBA"), COLOURS),
        (Image.fromarray(GREY).convert("P"), np.stack([GREY] * 3, -1)),
        (Image.fromarray(GREY.astype(np.uint16) * 257), np.stack([GREY] * 3, -1)),
    ],
)
def test_usual_forms_are_seen_as_they_are(item, expected):
    np.testing.assert_array_equal(seen(item), expected)


def test_cmyk_is_made_colours():
    image = Image.fromarray(COLOURS).convert("CMYK")
    np.testing.assert_allclose(seen(image), COLOURS, atol=2)


def test_an_image_is_turned_as_its_file_says(tmp_path):
    """Cameras store a picture as the sensor lay, and how to turn it."""
    turned = Image.Exif()
    turned[0x112] = 6
    file = tmp_path / "turned.png"
    Image.fromarray(COLOURS).save(file, exif=turned)
    with Image.open(file) as opened:
        expected = np.asarray(ImageOps.exif_transpose(opened))
    assert expected.shape == (30, 20, 3)
    np.testing.assert_array_equal(seen(file), expected)
    # So is what stands behind the scores, or they would lie on other places.
    assert pixels(file, (30, 20)).shape == (30, 20)
    assert to_data_url(file) == to_data_url(Image.fromarray(expected))


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "TIFF"])
def test_of_a_moving_image_the_first_is_seen_and_told_of(kind, tmp_path):
    frames = [Image.fromarray(np.roll(COLOURS, at, axis=1)) for at in range(3)]
    frames[0].save(tmp_path / "moving", kind, save_all=True, append_images=frames[1:])
    _, notices = open_image(tmp_path / "moving")
    assert notices == ("the image has 3 frames or pages: only the first was read",)


@pytest.mark.parametrize(
    ("item", "match"),
    [
        (COLOURS / 255, "float64 and the shape"),
        (GREY / 255, "float64 and the shape"),  # PIL would make it black
        (GREY.astype(np.int32), "int32 and the shape"),
        (COLOURS.transpose(2, 0, 1), r"shape \(3, 20, 30\)"),
        (COLOURS[None], r"shape \(1, 20, 30, 3\)"),
        (COLOURS[:0], r"shape \(0, 30, 3\)"),
        (np.uint8(3), "this is uint8"),
        (np.zeros(9, np.uint8), r"shape \(9,\)"),
        (None, "NoneType"),
        ([COLOURS, COLOURS], "this is list"),
        (torch.zeros(2, 2, device="meta"), "this is Tensor"),
        (Image.fromarray(GREY).convert("F"), "mode 'F'"),
        (Image.fromarray(GREY).convert("I"), "mode 'I'"),
        (Image.fromarray(COLOURS).convert("LA").convert("La"), "mode 'La'"),
        ("a" * 5000 + ".png", "is not a file"),
        ("a\0b.png", "is not a file"),
        ("https://example.org/cat.png", "is not a file"),
    ],
)
def test_other_things_are_refused_by_what_they_are(item, match):
    with pytest.raises(InputError, match=match):
        open_image(item)


def chunk(name, content):
    whole = name + content
    return struct.pack(">I", len(content)) + whole + struct.pack(">I", zlib.crc32(whole))


@pytest.mark.parametrize("size", [(100_000, 100_000), (2**31 - 1, 2**31 - 1), (40_000, 10_000)])
def test_a_file_that_claims_to_be_huge_is_refused_before_it_is_read(size, tmp_path):
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", *size, 8, 2, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(b"\0" * 99)) + chunk(b"IEND", b"")
    file = tmp_path / "huge.png"
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + head + body)
    with pytest.raises(InputError, match=r"huge.png' is not an image that can be read.*limit"):
        open_image(file)
