"""`explain`: text in, attribution out. The whole story of the library, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

import numpy as np
import numpy.typing as npt

from attnflow.aggregation import Execution
from attnflow.edges.options import Heads
from attnflow.errors import InputError
from attnflow.io.inputs import each_target, listed
from attnflow.io.progress import progress_bar
from attnflow.pipeline.config import Plan
from attnflow.records import Attribution

if TYPE_CHECKING:
    from PIL.Image import Image

    from attnflow.models.adapter import ModelAdapter, Query, Tokens
    from attnflow.models.loading import Source

    One = str | PathLike[str] | Image | npt.NDArray[np.uint8]  # a text or an image


class Options(TypedDict, total=False):
    """The keywords of `explain`, for type checkers and editors."""

    method: str
    layer: int
    query: Query
    heads: Heads
    residual: float | None
    discard: float
    correction: str | None
    normalize: bool
    words: bool
    target: str | Sequence[str] | None
    truncate: bool
    batch_size: int
    threads: int | None
    progress: bool


@overload
def explain(  # type: ignore[overload-overlap] # texts and images can be gone through, too
    text: One, model: Source = None, **options: Unpack[Options]
) -> Attribution: ...


@overload
def explain(
    text: Iterable[Any], model: Source = None, **options: Unpack[Options]
) -> list[Attribution]: ...


def explain(  # noqa: PLR0913 - one keyword an option, the same words as everywhere
    text: Any,
    model: Source = None,
    *,
    method: str = "flow",
    layer: int = -1,
    query: Query = None,
    heads: Heads = "mean",
    residual: float | None = None,
    discard: float = 0.0,
    correction: str | None = "auto",
    normalize: bool = False,
    words: bool = False,
    target: str | Sequence[str] | None = None,
    truncate: bool = False,
    batch_size: int = 16,
    threads: int | None = None,
    progress: bool = False,
) -> Attribution | list[Attribution]:
    """Which input tokens a model's output came from.

    Args:
        text: A text, or many: a list, a Series, a generator. For vision models an image (a path,
            a PIL image or an array), or a list of images.
        model: A hub name, a folder, ``(model, tokenizer)``, what `load_model` returned, or ``None``
            for the model shipped with attnflow.
        method: ``"flow"``, ``"rollout"`` or ``"raw"``.
        layer: The layer asked about: 1 … L, negatives from the top. All layers are computed.
        query: The position asked about: an index, a token's text, ``"all"``, or ``None`` for where
            the model decides (CLS; the mask; the last token).
        heads: ``"mean"``, ``"max"``, ``"min"``, head numbers, head weights, or ``"each"``.
        residual: The share of the identity; ``None`` is 0.5, and 0 for raw attention.
        discard: The ratio of smallest attention weights set to zero in each layer.
        correction: For causal decoders, how to correct for the receptive field: ``"uniform"``,
            ``"visible"``, ``"sink"``, ``None`` for the plain method, or ``"auto"`` for the default.
        normalize: Divide each position's scores by their sum.
        words: Words for tokens: edges to a word are those to all its tokens, and flow is the
            maximum flow to the whole word, which the sum over its tokens would exceed.
        target: For encoder–decoder models the target text, or a list of one a text; ``None`` is
            the model's own answer.
        truncate: Cut a text that is too long for the model instead of refusing it.
        batch_size: How many texts run through the model together.
        threads: How many threads flow uses; None is one a core.
        progress: Show a progress bar and what was loaded.

    Example:
        >>> import attnflow
        >>> attnflow.explain("the keys to the cabinet").prediction.label
        'plural'
    """
    plan = Plan(
        method,
        layer,
        query,
        residual,
        heads,
        discard,
        correction,
        normalize,
        words,
        Execution(threads),
    )
    texts, single = listed(text)
    given = {"truncate": truncate, "target": target}
    results = attribute(texts, model, [plan], given, batch_size=batch_size, progress=progress)
    ordered = [only for (only,) in results]
    return ordered[0] if single else ordered


def attribute(
    texts: Sequence[Any],
    model: Source,
    plans: Sequence[Plan],
    given: dict[str, Any],
    *,
    batch_size: int = 16,
    progress: bool = False,
) -> list[list[Attribution]]:
    """For each text its attributions, one a plan: the model reads a text once for all of them.

    The plans ask about the same heads of the same position; ``given`` is for tokenizing, and its
    ``target`` may be a list with one a text.
    """
    if batch_size < 1:
        msg = f"batch_size={batch_size} must be at least 1"
        raise InputError(msg)
    from attnflow.models.loading import load_model

    adapter = load_model(model)
    for plan in plans:
        plan.layer_in(adapter.depth)
    query, wish = plans[0].query, plans[0].wish()
    targets = each_target(given.get("target"), len(texts))
    tokens = [
        adapter.tokenize(item, **{**given, "target": target})
        for item, target in zip(texts, targets, strict=True)
    ]
    results: dict[int, list[Attribution]] = {}
    with _bar(adapter, len(tokens), shown=progress) as advance:
        for places in _batches(tokens, batch_size if adapter.batchable else 1):
            readings = adapter.read([tokens[i] for i in places], query, wish)
            for place, reading in zip(places, readings, strict=True):
                results[place] = [plan.attribute(reading, adapter) for plan in plans]
                advance(len(results))
    return [results[place] for place in range(len(tokens))]


def _batches(tokens: Sequence[Tokens], size: int) -> Iterator[list[int]]:
    """Places of inputs that run together: of similar length, the longest first.

    So a batch that is too large for the memory is noticed at once.
    """
    order = sorted(range(len(tokens)), key=lambda place: -len(tokens[place]))
    for start in range(0, len(order), size):
        yield order[start : start + size]


@contextmanager
def _bar(adapter: ModelAdapter, total: int, *, shown: bool) -> Iterator[Callable[[int], None]]:
    if shown:
        from rich.console import Console

        about = adapter.description
        loaded = f"{adapter.name}: {about['class']}, {about['head']}, on {about['device']}"
        Console(stderr=True, highlight=False).print(loaded, markup=False)
    with progress_bar("explaining", total, shown=shown) as advance:
        yield advance
