"""Sounds in the forms that callers give: .wav files, arrays, and arrays with their sampling rate.

Samples of .wav files are integers of 8 to 32 bits, or floats of 32 and 64.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from attnflow.errors import InputError, shown
from attnflow.io.files import is_file
from attnflow.records.selection import is_integer
from attnflow.records.types import FloatArray

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter


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
            return _read_chunks(file)
    except (OSError, _Damaged) as error:
        msg = f"{str(path)!r} is not a .wav file that can be read ({error}); {CONVERT}"
        raise InputError(msg) from None


class _Damaged(Exception):  # noqa: N818 - a finding
    """What is wrong with a file."""


def _read_chunks(file: BinaryIO) -> tuple[FloatArray, int]:
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
            return _decode(file, size, *form)
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


def _decode(
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


ENCODED = (".mp3", ".flac", ".ogg", ".opus", ".m4a", ".aac", ".wma", ".webm", ".mp4", ".aiff")
SOUNDS = (".wav", *ENCODED)
LOUDEST = 32.0  # no recording goes far beyond 1
HOW = "a sound is a .wav file, or an array of samples [time] with its sampling_rate"


@dataclass(frozen=True, eq=False)
class Sound:
    """Samples from −1 to 1, and how many there are per second."""

    samples: FloatArray
    rate: int

    @property
    def seconds(self) -> float:
        """How long it is."""
        return len(self.samples) / self.rate

    def at_rate(self, rate: int) -> Sound:
        """The same sound with another number of samples per second, resampled by its spectrum."""
        if rate == self.rate:
            return self
        size = max(1, round(len(self.samples) * rate / self.rate))
        spectrum = np.fft.rfft(self.samples)
        kept = np.zeros(size // 2 + 1, dtype=spectrum.dtype)
        shared = min(len(kept), len(spectrum))
        kept[:shared] = spectrum[:shared]
        if min(size, len(self.samples)) % 2 == 0 and size != len(self.samples):
            # The highest frequency stands for two of the longer spectrum.
            kept[shared - 1] *= 2 if size < len(self.samples) else 0.5
        return Sound(np.fft.irfft(kept, size) * (size / len(self.samples)), rate)


def with_rates(items: Sequence[Any], adapter: ModelAdapter, rate: int | None) -> list[Any]:
    """The inputs of a model, arrays with the sampling rate that their caller named."""
    if rate is not None and not adapter.reads_sound:
        msg = f"sampling_rate={shown(rate)} is for sounds, and {adapter.name} reads none"
        raise InputError(msg)
    return [with_rate(item, rate) for item in items]


def with_rate(item: Any, rate: int | None) -> Any:
    """An array with the sampling rate that its caller named; files state their own."""
    if rate is None:
        return item
    rate = _check_rate(rate)
    if isinstance(item, str | PathLike | Mapping) or not hasattr(item, "__array__"):
        msg = (
            f"sampling_rate={rate} is for an array of samples; this is {type(item).__name__} "
            "(a file states its own rate): leave sampling_rate out"
        )
        raise InputError(msg)
    return {"array": item, "sampling_rate": rate}


def _check_rate(rate: Any) -> int:
    if not is_integer(rate) or not 0 < rate < 1 << 31:
        msg = f"sampling_rate={shown(rate)} must be a whole number of samples per second"
        raise InputError(msg)
    return int(rate)


def read_sound(item: Any, rate: int) -> Sound:
    """A sound at a sampling rate; a plain array is assumed to have that rate."""
    return given_sound(item, rate).at_rate(rate)


def given_sound(item: Any, rate: int) -> Sound:
    """A sound as it was given, not resampled; a plain array is assumed to have that rate."""
    if isinstance(item, str | PathLike):
        return _read_file(Path(item))
    if isinstance(item, tuple) and any(isinstance(part, str) for part in item):
        msg = f"pairs are for models of texts; {HOW}; give many as a list"
        raise InputError(msg)
    if not isinstance(item, Mapping):
        return Sound(_samples(item), rate)
    if not {"array", "sampling_rate"} <= set(item):
        msg = f"{HOW}; this is a dict with {', '.join(map(shown, item)) or 'nothing'}"
        raise InputError(msg)
    return Sound(_samples(item["array"]), _check_rate(item["sampling_rate"]))


def _samples(given: Any) -> FloatArray:
    try:
        array = np.asarray(given.detach().cpu() if hasattr(given, "detach") else given)
    except (ValueError, TypeError, NotImplementedError) as error:
        msg = f"{HOW}; this is {type(given).__name__}: {error}"
        raise InputError(msg) from None
    if array.ndim == 2:
        msg = f"the sound has the shape {array.shape}; mix its channels first: array.mean(axis=…)"
        raise InputError(msg)
    if array.ndim != 1 or array.dtype.kind not in "fiu":
        msg = f"{HOW}; this is {type(given).__name__} of the shape {array.shape}"
        raise InputError(msg)
    if array.dtype.kind != "f":
        most = np.iinfo(array.dtype).max
        msg = f"the samples are of {array.dtype}; make them −1 … 1: array / {most}"
        raise InputError(msg)
    return _checked(array.astype(np.float64))


def _checked(samples: FloatArray) -> FloatArray:
    """Samples from −1 to 1, or a little beyond."""
    if not len(samples) or not np.isfinite(samples).all():
        what = "holds NaN or infinity" if len(samples) else "has no samples"
        msg = f"the sound {what}; {HOW}"
        raise InputError(msg)
    loudest = float(np.abs(samples).max())
    if loudest > LOUDEST:  # integers stored as floats: to a model they are noise
        msg = f"the samples reach {loudest:g}; make them −1 … 1, of 16 bits by array / 32768"
        raise InputError(msg)
    return samples


def _read_file(path: Path) -> Sound:
    if path.suffix.lower() in ENCODED:
        msg = (
            f"{str(path)!r} is a {path.suffix} file, which is not read here; convert it first "
            "(ffmpeg -i IN out.wav), or give its samples as an array with sampling_rate="
        )
        raise InputError(msg)
    if not is_file(path):
        msg = f"{shown(str(path))} is not a file; this model takes sound: {HOW}"
        raise InputError(msg)
    samples, rate = read_wav(path)
    return Sound(_checked(samples), rate)
