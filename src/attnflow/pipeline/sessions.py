"""Sessions of many inputs: tokenized once, run through the model in batches of similar length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from attnflow.errors import InputError, ModelError
from attnflow.io.inputs import each_target
from attnflow.pipeline.config import ExplainConfig
from attnflow.pipeline.session import Session
from attnflow.records.selection import is_integer

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter

BATCH_SIZE = 16


def open_session(
    item: Any,
    adapter: ModelAdapter,
    config: ExplainConfig,
    *,
    target: str | None = None,
    all_heads: bool = False,
) -> Session:
    """The session of one input; with ``all_heads``, single heads can be asked for, too."""
    ((_, session),) = open_sessions([item], adapter, config, targets=target, all_heads=all_heads)
    return session


def open_sessions(
    items: Sequence[Any],
    adapter: ModelAdapter,
    config: ExplainConfig,
    *,
    targets: Any = None,
    batch_size: int = BATCH_SIZE,
    all_heads: bool = False,
) -> Iterator[tuple[int, Session]]:
    """The sessions of many inputs, each with its place among them, as they come.

    ``targets`` is one target for all, or one per input. Nothing runs before every input is
    tokenized, so that an input that can't be used is refused at once.
    """
    if not (is_integer(batch_size) and batch_size >= 1):
        msg = f"batch_size={batch_size!r} must be an integer of at least 1"
        raise InputError(msg)
    config.resolve_layers(adapter.depth)
    tokens = [
        adapter.tokenize(item, truncate=config.truncate, target=target)
        for item, target in zip(items, each_target(targets, len(items)), strict=True)
    ]
    spec = config.capture(all_heads=all_heads)
    # The longest first, so that a batch that is too large for the memory is noticed at once.
    order = sorted(range(len(tokens)), key=lambda place: -len(tokens[place]))
    size = batch_size if adapter.batchable(tokens) else 1
    for start in range(0, len(order), size):
        places = order[start : start + size]
        passes = adapter.run([tokens[place] for place in places], config.query, spec)
        for place, forward in zip(places, passes, strict=True):
            if config.strict and forward.warnings:
                msg = f"{forward.warnings[0]} (refused: strict=True)"
                raise ModelError(msg)
            yield place, Session(adapter, forward, config)
