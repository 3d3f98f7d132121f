"""Which piece of a sound each position of a model stands for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
from torch import Tensor

from attnflow.errors import InputError, ModelError
from attnflow.models.audio.sounds import Sound
from attnflow.records import PatchGrid

LONG = 10**7  # units of input: so many that a stride can be read off the number of frames
COUNTS = ("_get_feat_extract_output_lengths", "_get_subsampling_output_length")


@dataclass(frozen=True)
class Frames:
    """How the positions of a model lie in time, and in frequency where they are patches.

    Attributes:
        rows: Bands of frequencies; 1 where a frame has them all.
        columns: Frames one after the other.
        step: Units of the model's input (samples, or rows of its spectrogram) between two frames.
        width: Units that a frame is named by.
        unit: Seconds of such a unit.
        bands: Rows of the spectrogram between two bands, and in one.
        axis: The input's axis of time.
    """

    rows: int
    columns: int
    step: int
    width: int
    unit: float
    bands: tuple[int, int] = (0, 0)
    axis: int = 0

    def names(self) -> tuple[str, ...]:
        """The frames by their time, and by their rows of the spectrogram where they have some."""
        places = max(2, len(f"{self.step * self.unit:.4f}".rstrip("0").partition(".")[2]))
        times = [
            f"{at * self.step * self.unit:.{places}f}–"
            f"{(at * self.step + self.width) * self.unit:.{places}f} s"
            for at in range(self.columns)
        ]
        if self.bands == (0, 0):
            return tuple(times)
        between, high = self.bands
        bands = [f"bands {row * between}–{row * between + high - 1}" for row in range(self.rows)]
        return tuple(f"{time}, {band}" for band in bands for time in times)

    def grid(self, sound: Sound) -> PatchGrid:
        """The frames on the sound, or on what the model makes of it by adding silence."""
        right = self.columns * self.step * self.unit * sound.rate
        wide = max(len(sound.samples), round(right))
        return PatchGrid(
            self.rows,
            self.columns,
            (self.rows, wide),
            (0.0, 0.0, float(right), float(self.rows)),
            seconds=wide / sound.rate,
        )

    def part(self, features: Tensor, row: int, column: int) -> Tensor:
        """A view of what belongs to one frame alone, or nearly: its last three quarters."""
        start = min(column * self.step + self.step // 4, features.shape[self.axis] - 1)
        most = features.shape[self.axis] - start
        piece = features.narrow(self.axis, start, min(most, max(1, self.step - self.step // 4)))
        if self.bands != (0, 0):
            between, _ = self.bands
            piece = piece.narrow(1 - self.axis, row * between + between // 4, max(1, between // 2))
        return piece


def find_frames(network: Any, extractor: Any, features: Tensor) -> Frames:
    """The frames of an input of the model, without a batch axis."""
    config, rate = network.config, int(extractor.sampling_rate)
    if features.dim() == 1:
        axis, unit = 0, 1 / rate
    else:
        axis = 1 if hasattr(extractor, "nb_max_frames") else 0  # Whisper has time last
        hop = int(getattr(extractor, "hop_length", None) or rate // 100)
        unit = hop * int(getattr(extractor, "stride", 1) or 1) / rate
    units = int(features.shape[axis])
    if hasattr(config, "time_stride"):  # patches of a spectrogram
        size, high, wide = config.patch_size, config.frequency_stride, config.time_stride
        rows = (features.shape[1 - axis] - size) // high + 1
        columns = (units - size) // wide + 1
        frames = Frames(rows, columns, wide, size, unit, (high, size), axis)
    else:
        count = _counting(network)
        step = round(LONG / count(LONG))
        frames = Frames(1, count(units) if units > 0 else 0, step, step, unit, axis=axis)
    if frames.columns < 1:
        least = f"the sound is {units * unit:.3g} s long, less than one frame"
        msg = f"{least} of {type(network).__name__}; give a longer one"
        raise InputError(msg)
    return frames


def _counting(network: Any) -> Callable[[int], int]:
    """How many frames the network makes of so many samples, or rows of a spectrogram."""
    for module in network.modules():
        for name in COUNTS:
            method = getattr(module, name, None)
            if method is None:
                continue
            known = signature(method).parameters
            extra = {"add_adapter": False} if "add_adapter" in known else {}
            # What an adapter makes of frames comes after attention.
            return lambda units: int(method(torch.tensor(units), **extra))
    msg = (
        f"{type(network).__name__} does not tell which piece of a sound its positions stand for; "
        "models that count their frames can be explained (Whisper, Wav2Vec2, HuBERT, AST …)"
    )
    raise ModelError(msg)


def longest(extractor: Any) -> float | None:
    """How many seconds a model hears at most; ``None`` where nothing limits it.

    Extractors cut what is longer without a word.
    """
    if hasattr(extractor, "n_samples"):
        return float(extractor.n_samples) / float(extractor.sampling_rate)
    most = getattr(extractor, "max_length", None)
    return None if most is None else float(most) / 100
