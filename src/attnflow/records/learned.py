"""Learned heads: one weight per layer and head, with their scores on held-out texts."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from numbers import Real
from pathlib import Path, PurePath
from typing import Any

from attnflow.errors import InputError, shown
from attnflow.io.files import (
    CHECKSUM,
    as_path,
    check_target,
    with_checksum,
    without_checksum,
    write_file,
)

FORMAT = "attnflow learned heads 1"
MOST_BYTES = 1 << 26


@dataclass(frozen=True)
class LearnedHeads:
    """Weights of a model's heads, as `attnflow.fit` finds them: ``explain(…, heads=this)``.

    Attributes:
        weights: ``[layer][head]``, none negative. Only their ratios count.
        model: The model's name.
        edges: The edge rule whose maps they were learned on.
        options: How they were learned.
        figures: What they reach on texts held apart, beside the baselines.
    """

    weights: tuple[tuple[float, ...], ...]
    model: str
    edges: str = "attention"
    options: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        given = self.weights
        sound = _is_list(given) and given and all(_is_list(layer) and layer for layer in given)
        if not sound or not all(_is_weight(each) for layer in given for each in layer):
            msg = (
                f"weights={shown(given)} must be [layer][head]: lists of finite numbers, none "
                "negative"
            )
            raise InputError(msg)
        plain = tuple(tuple(float(each) for each in layer) for layer in given)
        if not any(map(any, plain)):
            msg = "weights are all zero: no head predicts anything; learn from more texts"
            raise InputError(msg)
        for name in ("model", "edges"):
            if not isinstance(getattr(self, name), str):
                msg = f"{name}={shown(getattr(self, name))} must be a text"
                raise InputError(msg)
        for name in ("options", "figures"):
            if not isinstance(getattr(self, name), Mapping):
                msg = f"{name}={shown(getattr(self, name))} must be a dict"
                raise InputError(msg)
            object.__setattr__(self, name, dict(getattr(self, name)))
        object.__setattr__(self, "weights", plain)

    def __repr__(self) -> str:
        return f"<LearnedHeads: {self.label}>"

    def __hash__(self) -> int:
        return hash((self.weights, self.model, self.edges))

    @property
    def label(self) -> str:
        """What outputs call them."""
        count = sum(map(len, self.weights))
        return f"learned ({count} weights of {PurePath(self.model).name})"

    @property
    def scaled(self) -> tuple[tuple[float, ...], ...]:
        """The weights divided by their largest sum over a layer.

        The heads of the strongest layer are a mean, as usual; those of others carry less, and what
        is missing to 1 stays in place where edges have a residual.
        """
        most = max(map(math.fsum, self.weights))
        return tuple(tuple(each / most for each in layer) for layer in self.weights)

    def check_model(self, name: str, depth: int) -> None:
        """Refuse another model than the one they were learned on, before it runs."""
        ours, theirs = PurePath(self.model).name, PurePath(name).name
        if ours != theirs:
            msg = (
                f"heads were learned on the model {self.model!r}, and this is {name!r}; learn them "
                "for it with attnflow.fit"
            )
            raise InputError(msg)
        if len(self.weights) != depth:
            msg = (
                f"heads were learned on {len(self.weights)} layers, and {name!r} has {depth}; "
                "learn them for it with attnflow.fit"
            )
            raise InputError(msg)

    def check_heads(self, counts: Sequence[int]) -> None:
        """Refuse maps of another shape: ``counts`` has the heads of every layer."""
        own = [len(layer) for layer in self.weights]
        if own != list(counts):
            msg = (
                f"heads were learned on layers of {_short(own)} heads, and here they have "
                f"{_short(counts)}; learn them for this model with attnflow.fit"
            )
            raise InputError(msg)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write a JSON file, which `load` reads and ``heads=FILE`` takes."""
        target = check_target(path, overwrite=overwrite)
        write_file(target, encoded(self))
        return target

    @classmethod
    def load(cls, path: str | Path) -> LearnedHeads:
        """Read what `save` wrote."""
        file = as_path(path)
        try:
            too_large = file.stat().st_size > MOST_BYTES
            saved = None if too_large else json.loads(file.read_bytes())
        except OSError as error:
            msg = f"{file} can't be read: {error.strerror}"
            raise InputError(msg) from None
        except (ValueError, RecursionError):
            msg = f"{file} is not a file of learned heads: it is not JSON"
            raise InputError(msg) from None
        if too_large:
            msg = f"{file} is far too large to hold weights of heads"
            raise InputError(msg)
        names = {"format", *(each.name for each in fields(cls))}
        known = isinstance(saved, dict) and saved.get("format") == FORMAT
        if saved is None or not known or set(saved) - {CHECKSUM} != names:
            msg = f"{file} is not a file of learned heads; attnflow fit writes them"
            raise InputError(msg)
        try:
            data = without_checksum(saved)
            del data["format"]
            return cls(**data)
        except InputError as error:
            msg = f"{file} is damaged: {error}"
            raise InputError(msg) from None


def encoded(heads: LearnedHeads) -> bytes:
    """The content of the file of learned heads."""
    text = json.dumps(with_checksum({"format": FORMAT, **asdict(heads)}), indent=1)
    return text.encode() + b"\n"


def _is_list(given: object) -> bool:
    return isinstance(given, list | tuple)


def _is_weight(given: object) -> bool:
    number = isinstance(given, Real) and not isinstance(given, bool)
    return number and 0 <= given < math.inf  # type: ignore[operator] # which was just checked


def _short(counts: Sequence[int]) -> str:
    """12 for layers that all have 12 heads; else every number, layers first."""
    if len(set(counts)) == 1:
        return f"{len(counts)} × {counts[0]}"
    return ", ".join(map(str, counts))
