"""Models of sounds, with a token for each frame, such as Wav2Vec2, HuBERT and AST."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from os import PathLike
from typing import Any

import torch
from torch import Tensor

from attnflow.errors import InputError, ModelError, shown
from attnflow.models.adapter import Filler, Query, Tokens, refuse_answer
from attnflow.models.audio.sounds import Sound, given_sound
from attnflow.models.grids import GridModel, Layout, find_frame_layout
from attnflow.models.kinds import AUDIO, BARE, CTC, XVECTOR
from attnflow.models.outputs import is_number, predict, token_indices
from attnflow.models.text.tokens import name_token
from attnflow.records import PatchGrid, Prediction

LONG = 10**7  # units of input: enough to read the stride off the number of frames
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
        """A view of what belongs to one frame only, or nearly: its last three quarters."""
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
    """How many frames the network makes of a number of samples, or of rows of a spectrogram."""
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
        f"{type(network).__name__} does not state which piece of a sound its positions stand for; "
        "models that count their frames can be explained (Whisper, Wav2Vec2, HuBERT, AST …)"
    )
    raise ModelError(msg)


def longest(extractor: Any) -> float | None:
    """How many seconds a model reads at most; ``None`` where nothing limits it.

    Extractors silently cut what is longer.
    """
    if hasattr(extractor, "n_samples"):
        return float(extractor.n_samples) / float(extractor.sampling_rate)
    most = getattr(extractor, "max_length", None)
    return None if most is None else float(most) / 100


MOST_SECONDS = 200.0  # 10,000 frames of most models: 5 GB of attention in every layer of 12 heads

SUMS = (
    "the head of {} reads a weighted sum of all layers: scores are those of one layer, the last by "
    "default; layers='all' has each of them"
)


class AudioModel(GridModel):
    """A model of sounds with its feature extractor; for CTC with its tokenizer, too."""

    kind = "audio"
    reads_sound = True
    erases = False
    labels = AUDIO
    pieces = ("frame", "its time")

    def check(self) -> None:
        """Refuse what does not come with its feature extractor."""
        check_extractor(self.extractor, self.network)

    @property
    def reads(self) -> str:
        """Samples or a spectrogram."""
        return str(self.network.main_input_name)

    @property
    def extractor(self) -> Any:
        """What makes the model's input of samples."""
        return getattr(self.processor, "feature_extractor", self.processor)

    def tokenize(self, item: Any, *, truncate: bool = False, answer: str | None = None) -> Tokens:
        """One sound as frames, named by their time."""
        refuse_answer(self.name, answer)
        sound, notices = read_input(item, self.extractor, truncate=truncate)
        inputs = features_of(self.network, self.extractor, sound)
        frames = find_frames(self.network, self.extractor, inputs[self.reads])
        names = frames.names()
        text = show_sound(item, sound)
        segments = ("patch",) * len(names)
        grid = frames.grid(sound)
        return Tokens(names, text, inputs, segments=segments, grid=grid, notices=notices)

    def positions(
        self, query: Query, tokens: Tokens, pieces: Tokens, output: Any, item: int
    ) -> tuple[int, ...]:
        """The frame to explain: for CTC by default the first at which a character is recognised."""
        if self.head is XVECTOR and (query is None or query == "all"):
            return self.deciding(pieces)
        if self.head is not CTC:
            return super().positions(query, tokens, pieces, output, item)
        if output.logits.shape[1] != len(tokens):
            msg = (
                f"{type(self.network).__name__} writes {output.logits.shape[1]} characters for "
                f"{len(tokens)} frames (an adapter pools them), which is not supported"
            )
            raise ModelError(msg)
        if query is not None and query != "all":
            return (tokens.position(query),)
        recognised = output.logits[item].argmax(-1) != self.network.config.pad_token_id
        if query is None and not bool(recognised.any()):
            msg = (
                f"{self.name} recognises nothing in this sound; give the frame to explain with "
                f'query="{tokens.names[0]}"'
            )
            raise InputError(msg)
        return (int(recognised.int().argmax()),)

    def prediction(self, output: Any, item: int, piece: int) -> Prediction | None:
        """The label of a sound; for CTC the character at a frame."""
        if self.head is CTC:
            return predict(output.logits[item, piece], self.output_name, piece)
        return super().prediction(output, item, piece)

    def output_name(self, index: int) -> str:
        """The name of a label, or a character."""
        if self.head is not CTC:
            return super().output_name(index)
        tokenizer = getattr(self.processor, "tokenizer", None)
        return f"[{index}]" if tokenizer is None else name_token(tokenizer, index)

    def logits_at(self, output: Any, item: int, piece: int) -> Tensor | None:
        """Of labels; for CTC of the characters at a frame."""
        if self.head is not CTC:
            return super().logits_at(output, item, piece)
        return output.logits[item, piece]  # type: ignore[no-any-return]

    def output_indices(self, target: str | int) -> tuple[int, ...]:
        """The numbers of the labels or characters of a name."""
        if self.head is not CTC:
            return super().output_indices(target)
        tokenizer = getattr(self.processor, "tokenizer", None)
        if tokenizer is None and not is_number(target):
            msg = f"target={shown(target)}: {self.name} comes without a tokenizer; give a number"
            raise InputError(msg)
        target = int(target) if tokenizer is None else target
        return token_indices(tokenizer, target, int(self.network.config.vocab_size), self.name)

    def filler(self, name: str | None = None) -> Filler:
        """Silence."""
        return Filler("mean", "silence")

    def blank(self, tokens: Tokens, positions: Sequence[int], filler: Filler) -> Tokens:
        """The sound with silence in each of these frames."""
        pieces = self.blankable(tokens, 0)
        features = tokens.inputs[self.reads]
        frames = find_frames(self.network, self.extractor, features)
        silent = silence(frames, features, [pieces.index(at) for at in positions])
        return replace(tokens, inputs={**tokens.inputs, self.reads: silent})

    def find_layout(self, tokens: Tokens, grid: PatchGrid, size: int) -> Layout:
        """Where the frames are, measured."""
        inputs = self.inputs([tokens])
        frames = find_frames(self.network, self.extractor, tokens.inputs[self.reads])
        found = find_frame_layout(self.network, inputs, self.reads, frames, size)
        if self.head is not BARE and getattr(self.config, "use_weighted_layer_sum", False):
            found = replace(found, warnings=(*found.warnings, SUMS.format(self.name)))
        return found


def check_extractor(extractor: Any, net: Any) -> None:
    """Refuse what can't make a model's input of samples."""
    if not callable(extractor) or not hasattr(extractor, "sampling_rate"):
        msg = (
            f"{type(net).__name__} reads sounds, and {type(extractor).__name__} does not; "
            "give (model, processor) with the feature extractor of the model"
        )
        raise ModelError(msg)


def read_input(item: Any, extractor: Any, *, truncate: bool) -> tuple[Sound, tuple[str, ...]]:
    """The sound at the model's rate, and notices about it.

    Beyond the model's limit it is an error, or its start.
    """
    rate, limit = int(extractor.sampling_rate), longest(extractor)
    sound, most = given_sound(item, rate), MOST_SECONDS if limit is None else limit
    if sound.seconds <= most:
        return sound.at_rate(rate), ()
    if not truncate:
        why = (
            f"this model reads at most {most:g} s"
            if limit
            else f"at most {most:g} s can be explained: attention grows with the square of it"
        )
        msg = (
            f"the sound is {sound.seconds:.2f} s long; {why}. "
            f"Cut it, or explain its first {most:g} s with truncate=True (--truncate)"
        )
        raise InputError(msg)
    notice = f"the sound was cut: only the first {most:g} of its {sound.seconds:.2f} s were read"
    start = replace(sound, samples=sound.samples[: max(1, int(most * sound.rate))])
    return start.at_rate(rate), (notice,)


def features_of(net: Any, extractor: Any, sound: Sound) -> dict[str, Tensor]:
    """The model's inputs, without a batch axis."""
    given = sound.samples.astype("float32")
    try:
        made = extractor(given, sampling_rate=sound.rate, return_tensors="pt")
    except (ValueError, RuntimeError, IndexError) as error:
        msg = (
            f"{type(extractor).__name__} can't read a sound of {sound.seconds:.3g} s: {error}; "
            "give a longer one"
        )
        raise InputError(msg) from error
    inputs = {name: values[0] for name, values in made.items() if isinstance(values, Tensor)}
    if str(net.main_input_name) not in inputs:
        msg = (
            f"{type(net).__name__} reads {net.main_input_name}, and {type(extractor).__name__} "
            f"makes {', '.join(inputs)}; give the feature extractor of the model"
        )
        raise ModelError(msg)
    return inputs


def silence(frames: Frames, features: Tensor, pieces: Sequence[int]) -> Tensor:
    """The input with silence in some frames: zeros, or a spectrogram's lowest value."""
    silent = features.clone()
    lowest = 0.0 if features.dim() == 1 else float(features.min())
    for piece in pieces:
        row, column = divmod(piece, frames.columns)
        start = column * frames.step
        wide = min(frames.step, features.shape[frames.axis] - start)
        part = silent.narrow(frames.axis, start, wide)
        if frames.bands != (0, 0):
            part = part.narrow(1 - frames.axis, row * frames.bands[0], frames.bands[0])
        part.fill_(lowest)
    return silent


def show_sound(item: Any, sound: Sound) -> str:
    """How a sound is displayed: its file, or how long it is."""
    return str(item) if isinstance(item, str | PathLike) else f"sound {sound.seconds:.2f} s"
