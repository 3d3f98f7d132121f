"""Files of sound: every usual format is read as it is, and every damage is refused by name."""

import struct

import numpy as np
import pytest

from attnflow.errors import InputError
from attnflow.models.audio.sounds import read_sound

RATE = 16_000
WHOLE, FLOATS, EXTENSIBLE = 1, 3, 0xFFFE


def wav(content, kind=WHOLE, bits=16, channels=1, rate=RATE, stated=None, before=b""):
    """A file, written out from the description of the format."""
    block = channels * bits // 8
    form = struct.pack("<HHIIHH", kind, channels, rate, rate * block % 2**32, block % 2**16, bits)
    size = len(content) if stated is None else stated
    parts = b"fmt " + struct.pack("<I", len(form)) + form + before
    parts += b"data" + struct.pack("<I", size) + content
    return b"RIFF" + struct.pack("<I", 4 + len(parts)) + b"WAVE" + parts


def extensible(content, bits, channels=1):
    """The longer header that programs write for 24 bits and for many channels."""
    block = channels * bits // 8
    form = struct.pack("<HHIIHH", EXTENSIBLE, channels, RATE, RATE * block, block, bits)
    form += struct.pack("<HHIH", 22, bits, 0, WHOLE) + bytes.fromhex("000000001000800000aa00389b71")
    parts = b"fmt " + struct.pack("<I", len(form)) + form
    parts += b"data" + struct.pack("<I", len(content)) + content
    return b"RIFF" + struct.pack("<I", 4 + len(parts)) + b"WAVE" + parts


@pytest.fixture
def read(tmp_path):
    def read(content):
        path = tmp_path / "sound.wav"
        path.write_bytes(content)
        return read_sound(path, RATE)

    return read


SAMPLES = np.sin(np.arange(500) / 7) * np.linspace(0.1, 0.9, 500)
WHOLE_16 = (SAMPLES * 2**15).astype("<i2").tobytes()


@pytest.mark.parametrize(
    ("content", "tolerance"),
    [
        (wav(WHOLE_16), 2**-15),
        (wav((SAMPLES * 128 + 128).astype("u1").tobytes(), bits=8), 2**-7),
        (wav((SAMPLES * 2**31).astype("<i4").tobytes(), bits=32), 2**-30),
        (wav(SAMPLES.astype("<f4").tobytes(), FLOATS, 32), 1e-7),
        (wav(SAMPLES.astype("<f8").tobytes(), FLOATS, 64), 0),
        (extensible(WHOLE_16, 16), 2**-15),
        (extensible((SAMPLES * 2**31).astype("<i4").view("u1").reshape(-1, 4)[:, 1:].tobytes(), 24),
         2**-22),
        (wav(WHOLE_16, before=b"LIST" + struct.pack("<I", 5) + b"hello\0"), 2**-15),
        (wav(WHOLE_16, stated=0xFFFFFFFF), 2**-15),  # written into a pipe
    ],
)  # fmt: skip
def test_usual_formats_are_read_as_they_are(read, content, tolerance):
    np.testing.assert_allclose(read(content).samples, SAMPLES, rtol=0, atol=tolerance)


def test_channels_are_mixed(read):
    both = np.stack([SAMPLES, -0.5 * SAMPLES, 0 * SAMPLES], axis=1)
    content = extensible((both * 2**15).astype("<i2").tobytes(), 16, channels=3)
    np.testing.assert_allclose(read(content).samples, SAMPLES / 6, rtol=0, atol=2**-15)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "it is empty"),
        (b"RIFF", "does not begin as one"),
        (b"RIFX" + wav(WHOLE_16)[4:], "does not begin as one"),
        (wav(WHOLE_16)[:30], "format is cut short"),
        (wav(WHOLE_16)[:36], "ends before its sound begins"),
        (wav(WHOLE_16)[:-100], "it was cut: 900 of the 1,000 bytes"),
        (wav(b""), "holds no samples"),
        (wav(WHOLE_16, bits=40), "40 bits in format 1"),
        (wav(WHOLE_16, kind=6, bits=8), "8 bits in format 6"),
        (wav(WHOLE_16, channels=0), "0 channels"),
        (wav(WHOLE_16, rate=0), "0 samples a second"),
        (wav(WHOLE_16, before=b"LIST" + struct.pack("<I", 2**31)), "ends before its sound"),
        (wav((SAMPLES * np.nan).astype("<f4").tobytes(), FLOATS, 32), "NaN"),
        (wav((SAMPLES * 32768).astype("<f4").tobytes(), FLOATS, 32), "reach 29"),
    ],
)
def test_damaged_files_are_refused_by_what_is_wrong(read, content, match):
    with pytest.raises(InputError, match=match):
        read(content)
