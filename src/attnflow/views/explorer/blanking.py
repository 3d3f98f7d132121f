"""What a model says when tokens are taken from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from attnflow.errors import InputError
from attnflow.pipeline.session import Check, Session, go_on
from attnflow.views.explorer.schema import Blanked

BATCH = 16


def replacement(study: Session) -> str | None:
    """What stands for a blanked token; ``None`` where there is no prediction or no such token."""
    if study.prediction is None:
        return None
    if study.reading.tokens.grid is not None:
        return "the mean colour"
    token = _blank_token(study.adapter)
    return None if token is None else token[1]


def blank(study: Session, sets: Sequence[Sequence[int]], check: Check = go_on) -> list[Blanked]:
    """The model's word on the input without each of these sets of tokens."""
    from attnflow.models.adapter import Wish

    if replacement(study) is None:
        msg = f"{study.adapter.name} makes no prediction here, so blanking a token changes nothing"
        raise InputError(msg)
    wish = Wish(fuse=lambda attention: attention.mean(1))
    blanked: list[Blanked] = []
    for start in range(0, len(sets), BATCH):
        check()
        part = sets[start : start + BATCH]
        tokens = [_without(study, positions) for positions in part]
        batches = [tokens] if study.adapter.batchable else [[one] for one in tokens]
        readings = [
            reading
            for batch in batches
            for reading in study.adapter.read(batch, study.reading.query, wish)
        ]
        for positions, reading in zip(part, readings, strict=True):
            blanked.append({"positions": sorted(positions), "said": said(reading.prediction)})
    return blanked


def said(prediction: Any) -> list[Any]:
    """A prediction as plain data, the most likely first."""
    if prediction is None:
        return []
    pairs = prediction.alternatives or ((prediction.label, prediction.probability),)
    return [{"label": label, "probability": float(share)} for label, share in pairs]


def blankable(study: Session) -> list[int]:
    """The positions that can be blanked: not special tokens, the mask or the answer itself."""
    tokens = study.reading.tokens
    positions: list[int] = []
    for at in range(len(tokens)):
        segment = tokens.segments[at] if tokens.segments else None
        special = tokens.word_ids is not None and tokens.word_ids[at] is None
        if segment == "patch" or (segment in (None, "source") and not special):
            positions.append(at)
    asked = study.prediction.position if study.prediction else None
    causal = study.reading.record.causal  # a language model is asked *after* its last token
    return positions if causal else [at for at in positions if at != asked]


def _without(study: Session, positions: Sequence[int]) -> Any:
    tokens = study.reading.tokens
    allowed = set(blankable(study))
    refused = [at for at in positions if at not in allowed]
    if refused:
        msg = f"positions={refused} cannot be blanked; allowed: {sorted(allowed)}"
        raise InputError(msg)
    if tokens.grid is not None:
        return replace(tokens, inputs={"pixel_values": _grey(study, positions)}, **_patches(tokens))
    token = _blank_token(study.adapter)
    if token is None:  # replacement() has refused already; this is for the type checker
        raise AssertionError
    ids = list(tokens.inputs["input_ids"])
    for at in positions:
        ids[at] = token[0]
    return replace(tokens, inputs={**tokens.inputs, "input_ids": ids})


def _patches(tokens: Any) -> dict[str, Any]:
    """Only the patches: what comes before them is the model's, and is added when it reads."""
    keep = [at for at, segment in enumerate(tokens.segments) if segment == "patch"]
    return {
        "names": tuple(tokens.names[at] for at in keep),
        "segments": tuple(tokens.segments[at] for at in keep),
    }


def _grey(study: Session, positions: Sequence[int]) -> Any:
    tokens = study.reading.tokens
    pixels = tokens.inputs["pixel_values"].clone()
    grid = tokens.grid
    if grid is None:  # the caller has looked; this is for the type checker
        raise AssertionError
    first = len(tokens) - grid.rows * grid.columns
    height, width = pixels.shape[-2] // grid.rows, pixels.shape[-1] // grid.columns
    for at in positions:
        row, column = divmod(at - first, grid.columns)
        # Pixels are normalised: 0 is the mean colour of the data the model was trained on.
        pixels[:, row * height : (row + 1) * height, column * width : (column + 1) * width] = 0
    return pixels


def _blank_token(adapter: Any) -> tuple[int, str] | None:
    """UNK as in the paper; models without one have a mask, a padding or an end-of-text token."""
    tokenizer = getattr(adapter, "tokenizer", None)
    for kind in ("unk", "mask", "pad", "eos"):
        number = getattr(tokenizer, f"{kind}_token_id", None)
        if number is not None:
            return int(number), str(getattr(tokenizer, f"{kind}_token"))
    return None
