"""Samples of .wav files: whole numbers of 8 to 32 bits, or floats of 32 and 64."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from attnflow.errors import InputError
from attnflow.records.types import FloatArray

WHOLE, FLOATS, EXTENSIBLE = 1, 3, 0xFFFE  # what a format is called in the file
WIDTHS = {WHOLE: (1, 2, 3, 4), FLOATS: (4, 8)}  # bytes of a sample
MOST_BYTES = 1 << 30
UNKNOWN = 0x7FFF0000  # programs that write into a pipe state at least this size
CONVERT = "convert it first: ffmpeg -i IN -c:a pcm_s16le out.wav"


def read_wav(path: Path) -> tuple[FloatArray, int]:
    """The samples, from −1 to 1 with channels mixed, and how many there are per second."""
    try:
        if path.stat().st_size > MOST_BYTES:
            msg = f"{str(path)!r} is larger than 1 GiB; cut it first"
            raise InputError(msg)
        with path.open("rb") as file:
            return _read(file)
    except (OSError, _Damaged) as error:
        msg = f"{str(path)!r} is not a .wav file that can be read ({error}); {CONVERT}"
        raise InputError(msg) from None


class _Damaged(Exception):  # noqa: N818 - a finding
    """What is wrong with a file."""


def _read(file: BinaryIO) -> tuple[FloatArray, int]:
    head = file.read(12)
    if head[:4] != b"RIFF" or head[8:] != b"WAVE":
        raise _Damaged("it does not begin as one" if head else "it is empty")
    form = None
    for name, size in _chunks(file):
        if name == b"fmt ":
            form = _form(file.read(min(size, 40)))
        elif name == b"data":
            if form is None:
                msg = "its sound comes before its format"
                raise _Damaged(msg)
            return _samples(file, size, *form)
    msg = "it ends before its sound begins"
    raise _Damaged(msg)


def _chunks(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """The names and sizes of a file's parts, each read from its start."""
    while len(head := file.read(8)) == 8:
        name, size = struct.unpack("<4sI", head)
        start = file.tell()
        yield name, size
        file.seek(start + size + size % 2)


def _form(content: bytes) -> tuple[int, int, int, int]:
    """The kind of numbers, how many bytes one has, channels, and samples per second."""
    if len(content) < 16:
        msg = "its format is cut short"
        raise _Damaged(msg)
    kind, channels, rate, _, block, bits = struct.unpack("<HHIIHH", content[:16])
    if kind == EXTENSIBLE and len(content) >= 26:
        (kind,) = struct.unpack("<H", content[24:26])
    width = (bits + 7) // 8
    if width not in WIDTHS.get(kind, ()):
        msg = f"its samples have {bits} bits in format {kind}"
        raise _Damaged(msg)
    if not channels or not rate or block != channels * width:
        what = f"{channels} channels, {rate} samples a second, {block} bytes for all channels"
        msg = f"its format can't be: {what}"
        raise _Damaged(msg)
    return kind, width, channels, rate


def _samples(
    file: BinaryIO, size: int, kind: int, width: int, channels: int, rate: int
) -> tuple[FloatArray, int]:
    content = file.read(min(size, MOST_BYTES))  # which no file exceeds
    if len(content) < size < UNKNOWN:
        msg = f"it was cut: {len(content):,} of the {size:,} bytes it states are there"
        raise _Damaged(msg)
    whole = len(content) // (width * channels) * width * channels
    if not whole:
        msg = "it holds no samples"
        raise _Damaged(msg)
    read = _floats if kind == FLOATS else _integers
    return read(content[:whole], width).reshape(-1, channels).mean(1), rate


def _floats(content: bytes, width: int) -> FloatArray:
    return np.frombuffer(content, f"<f{width}").astype(np.float64)


def _integers(content: bytes, width: int) -> FloatArray:
    """Samples of 8 (unsigned), 16, 24 or 32 bits, from −1 to 1."""
    if width == 1:
        return np.frombuffer(content, "u1").astype(np.float64) / 128 - 1
    if width == 3:  # the lowest byte of 32 bits is zero
        parts = np.frombuffer(content, "u1").reshape(-1, 3)
        content = np.pad(parts, ((0, 0), (1, 0))).tobytes()
        width = 4
    return np.frombuffer(content, f"<i{width}").astype(np.float64) / 2.0 ** (8 * width - 1)
