"""Encoder–decoders that transcribe sounds, such as Whisper and Speech2Text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnflow.errors import InputError, ModelError
from attnflow.models.adapter import Filler, Tokens
from attnflow.models.audio.model import (
    check_extractor,
    features_of,
    find_frames,
    read_input,
    show_sound,
    silence,
)
from attnflow.models.capture import run as network
from attnflow.models.checks.mixing import answer_mixing_warnings
from attnflow.models.checks.padding import once
from attnflow.models.grids import find_frame_layout, size_of
from attnflow.models.kinds import HeadKind
from attnflow.models.pair.seq2seq import Seq2SeqModel
from attnflow.models.text.answers import source_size
from attnflow.models.text.writing import FORCED, SUPPRESSED, plain_decoding


class SpeechModel(Seq2SeqModel):
    """A model that transcribes sounds, with its feature extractor and tokenizer."""

    kind = "speech"
    reads_text = False
    reads_sound = True
    erases = False
    starts_itself = True

    def __init__(self, net: Any, processor: Any, name: str, head: HeadKind) -> None:
        parts = [getattr(processor, part, None) for part in ("feature_extractor", "tokenizer")]
        if parts[1] is None:
            msg = (
                f"{type(net).__name__} transcribes sounds; give (model, processor) with a feature "
                "extractor and a tokenizer"
            )
            raise ModelError(msg)
        check_extractor(parts[0], net)
        object.__setattr__(self, "extractor", parts[0])
        super().__init__(net, parts[1], name, head)

    extractor: Any

    @property
    def keeps(self) -> tuple[str, ...]:
        """Also what Whisper never writes: marks that are not text, and an end at the start."""
        whisper = hasattr(self.network, "generate_with_fallback")
        return (FORCED, *SUPPRESSED) if whisper else (FORCED,)

    @property
    def reads_pairs(self) -> bool:
        """It reads one sound."""
        return False

    def answers(self) -> None:
        """None: what it writes is explained at its last token."""

    @property
    def why_no_answers(self) -> str:
        """That the last token is explained, and how the others are."""
        return (
            f"what {self.name} writes is explained at its last token, not token by token: leave "
            "out generate= (--generate); the tokens before are positions for query= (--query)"
        )

    @property
    def reads(self) -> str:
        """Samples or a spectrogram."""
        return str(self.network.main_input_name)

    def tokenize(self, item: Any, *, truncate: bool = False, answer: str | None = None) -> Tokens:
        """Frames and the text as one list of tokens."""
        sound, notices = read_input(item, self.extractor, truncate=truncate)
        inputs = features_of(self.network, self.extractor, sound)
        frames = find_frames(self.network, self.extractor, inputs[self.reads])
        names = frames.names()
        source = Tokens(
            names,
            show_sound(item, sound),
            inputs,
            word_ids=tuple(range(len(names))),
            word_texts=names,
            segments=("patch",) * len(names),
            grid=frames.grid(sound),
            notices=notices,
        )
        config = self.network.config
        most = getattr(config, "max_target_positions", None)
        return self.join(source, self._answer(source, answer, most, truncate=truncate))

    def generate(self, tokens: Tokens, length: int) -> list[int]:
        """The transcription, with the tokens that it starts with (language, task)."""
        inputs: dict[str, Any] = self._sources([tokens])
        if not hasattr(self.network, "generate_with_fallback"):
            return network.generate(self.network, inputs, length)
        # Whisper cuts off what it was started with, and has all of it in the segment's result.
        options = {"return_segments": True, "max_new_tokens": length, "do_sample": False}
        options |= {"num_beams": 1, **plain_decoding(self.network, kept=self.keeps)}
        with torch.no_grad():
            evaluated = network.in_eval_mode(self.network)
            made = network.called(evaluated, {**inputs, **options}, "generate")
        parts = made["segments"][0]
        if not parts:
            msg = f"{self.name} finds no speech in this sound; give a text with answer="
            raise InputError(msg)
        return [int(token) for token in parts[0]["result"]]

    def batchable(self, inputs: Sequence[Tokens]) -> bool:
        """Whether these sounds have one size; answers of any length are padded."""
        return len({tokens.inputs[self.reads].shape for tokens in inputs}) == 1

    def filler(self, name: str | None = None) -> Filler:
        """Silence."""
        return Filler("mean", "silence")

    def blankable(self, tokens: Tokens, query: int) -> list[int]:
        """The frames."""
        return list(range(source_size(tokens)))

    def blank(self, tokens: Tokens, positions: Sequence[int], filler: Filler) -> Tokens:
        """The sound with silence in each of these frames."""
        features = tokens.inputs[self.reads]
        frames = find_frames(self.network, self.extractor, features)
        silent = silence(frames, features, list(positions))
        return replace(tokens, inputs={**tokens.inputs, self.reads: silent})

    def _sources(self, batch: Sequence[Tokens]) -> dict[str, Tensor]:
        parameter = next(self.network.parameters())
        found = {}
        for name in batch[0].inputs:
            if name == "decoder_input_ids":
                continue
            stacked = torch.stack([tokens.inputs[name] for tokens in batch])
            kind = parameter.dtype if stacked.is_floating_point() else stacked.dtype
            found[name] = stacked.to(parameter.device, kind)
        return found

    def warnings(self, tokens: Tokens) -> tuple[str, ...]:
        """Whether frames reach each other past attention, and are in the order of their time."""
        frames = find_frames(self.network, self.extractor, tokens.inputs[self.reads])

        def find() -> tuple[str, ...]:
            encoder = network.in_eval_mode(self.network).get_encoder()
            inputs, size = self._sources([tokens]), source_size(tokens)
            return find_frame_layout(encoder, inputs, self.reads, frames, size).warnings

        key = ("layout", *size_of(tokens, self.reads))
        found = (*once(self.network, key, find), *answer_mixing_warnings(self, tokens))
        return tuple(dict.fromkeys(found))
