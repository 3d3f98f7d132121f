"""Whatever a .wav file or an image holds, it is read or refused by a library error.

Bytes of the head, where sizes and formats stand, are replaced at random and files are cut off.
"""

import io
import sys
import wave
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

sys.path.insert(0, str(Path(__file__).parent))
from effort import examples

from attnflow.errors import AttnflowError
from attnflow.io.pictures import open_image
from attnflow.models.audio.sounds import read_sound

PICTURE = np.random.default_rng(0).integers(0, 255, (20, 30, 3), dtype=np.uint8)
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "ICO", "DDS", "TGA", "PCX")
CHANGES = st.lists(st.tuples(st.integers(0, 80), st.integers(0, 255)), max_size=5)


def sound():
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(b"\1\2\3\4" * 300)
    return content.getvalue()


def picture(kind):
    content = io.BytesIO()
    Image.fromarray(PICTURE).save(content, kind)
    return content.getvalue()


def damaged(content, changes, kept, file):
    changed = bytearray(content)
    for place, byte in changes:
        changed[place] = byte
    file.write_bytes(changed[: round(kept * len(changed))])
    return file


@examples(150)
@given(changes=CHANGES, kept=st.sampled_from((0, 0.03, 0.5, 0.9, 1, 1, 1)))
def test_a_sound_is_read_or_refused(tmp_path_factory, changes, kept):
    file = damaged(sound(), changes, kept, tmp_path_factory.getbasetemp() / "it.wav")
    try:
        found = read_sound(file, 16_000)
    except AttnflowError:
        return
    assert np.isfinite(found.samples).all()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", FORMATS)
@examples(20)
@given(changes=CHANGES, kept=st.sampled_from((0, 0.03, 0.5, 0.9, 1, 1, 1)))
def test_an_image_is_read_or_refused(tmp_path_factory, kind, changes, kept):
    file = damaged(picture(kind), changes, kept, tmp_path_factory.getbasetemp() / "it.image")
    try:
        found, _ = open_image(file)
    except AttnflowError:
        return
    assert found.mode == "RGB"
