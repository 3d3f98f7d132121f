"""Names of images and sounds among texts: their letters would be explained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnflow.errors import InputError, shown
from attnflow.io.pictures import PICTURES
from attnflow.models.audio.sounds import SOUNDS

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter


def refuse_file_name(adapter: ModelAdapter, text: str) -> None:
    """Refuse a text that is nothing but the name of an image or a sound, for models of texts.

    Whether there is such a file is not asked: a row is the same wherever it is explained.
    """
    alone = adapter.reads_images == "alone"
    name = text.strip().lower()
    if not adapter.reads_text or len(name.split()) != 1:
        return
    picture, sound = name.endswith(PICTURES), name.endswith(SOUNDS)
    if sound or (picture and not alone):
        kind, reader = ("an image", "sees") if picture else ("a sound", "hears")
        msg = (
            f"{shown(text)} is the name of {kind}, and {adapter.name} reads texts: its letters "
            f"would be explained; give a text, or a model that {reader}"
        )
        raise InputError(msg)
