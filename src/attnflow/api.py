"""`explain`: text in, attribution out. The whole story of the library, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, overload

from attnflow.edges.options import Heads
from attnflow.errors import InputError
from attnflow.methods import Effort
from attnflow.plan import Plan
from attnflow.records import Attribution

if TYPE_CHECKING:
    from attnflow.models.loading import Source
    from attnflow.models.reading import Adapter, Query, Tokens


@overload
def explain(text: str, model: Source = None, **options: Any) -> Attribution: ...


@overload
def explain(text: Sequence[Any], model: Source = None, **options: Any) -> list[Attribution]: ...


def explain(  # type: ignore[misc] # noqa: PLR0913 - the overloads are about text alone
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
    target: str | None = None,
    truncate: bool = False,
    batch_size: int = 16,
    threads: int | None = None,
    progress: bool = False,
) -> Attribution | list[Attribution]:
    """Which input tokens a model's output came from.

    Args:
        text: A text, or a list of texts. For vision models an image (a path, a PIL image or an
            array), or a list of images.
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
        target: For encoder–decoder models the target text; ``None`` is the model's own answer.
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
        method, layer, query, residual, heads, discard, correction, normalize, Effort(threads)
    )
    if batch_size < 1:
        msg = f"batch_size={batch_size} must be at least 1"
        raise InputError(msg)
    from attnflow.models.loading import load_model

    single = not isinstance(text, list | tuple)
    adapter = load_model(model)
    plan.layer_in(adapter.depth)
    given = {"truncate": truncate} if target is None else {"truncate": truncate, "target": target}
    tokens = [adapter.tokenize(item, **given) for item in ([text] if single else text)]
    results: dict[int, Attribution] = {}
    with _bar(adapter, len(tokens), shown=progress) as advance:
        for places in _batches(tokens, batch_size if adapter.batchable else 1):
            readings = adapter.read([tokens[i] for i in places], query, plan.wish())
            for place, reading in zip(places, readings, strict=True):
                results[place] = plan.attribute(reading, adapter)
                advance()
    ordered = [results[place] for place in range(len(tokens))]
    return ordered[0] if single else ordered


def _batches(tokens: Sequence[Tokens], size: int) -> Iterator[list[int]]:
    """Places of inputs that run together: of similar length, the longest first.

    So a batch that is too large for the memory is noticed at once.
    """
    order = sorted(range(len(tokens)), key=lambda place: -len(tokens[place]))
    for start in range(0, len(order), size):
        yield order[start : start + size]


@contextmanager
def _bar(adapter: Adapter, total: int, *, shown: bool) -> Iterator[Callable[[], None]]:
    if not shown:
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    about = adapter.description
    console.print(f"{adapter.name}: {about['class']}, {about['head']}, on {about['device']}")
    with Progress(console=console) as progress:
        task = progress.add_task("explaining", total=total)
        yield lambda: progress.advance(task)
