"""`explain`: text in, attribution out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

import numpy.typing as npt

from attnflow.edges.options import Heads
from attnflow.io.inputs import as_list
from attnflow.io.progress import progress_bar
from attnflow.pipeline.config import ExplainConfig, Layers, Query, TargetSpec
from attnflow.pipeline.sessions import open_sessions
from attnflow.records import Attribution
from attnflow.records.checks import check_flag
from attnflow.solvers.execution import Execution

if TYPE_CHECKING:
    from PIL.Image import Image

    from attnflow.models.adapter import ModelAdapter
    from attnflow.models.loading import Source

    # A text, a pair of texts that are read as one, an image or a sound.
    One = str | tuple[str, str] | PathLike[str] | Image | npt.NDArray[Any]


class Options(TypedDict, total=False):
    """The keywords of `explain`, for type checkers and editors."""

    method: str
    edges: str
    layer: int | None
    layers: Layers
    query: Query
    heads: Heads
    residual: float | None
    discard: float
    correction: str | None
    normalize: bool
    words: bool
    target: TargetSpec | Sequence[TargetSpec]
    contrast: TargetSpec
    source: str
    steps: int | None
    answer: str | Sequence[str] | None
    truncate: bool
    bos: bool
    sampling_rate: int | None
    strict: bool
    batch_size: int
    threads: int | None
    device: str
    progress: bool


@overload
def explain(  # type: ignore[overload-overlap] # texts and images are iterable, too
    text: One, model: Source = None, **options: Unpack[Options]
) -> Attribution: ...


@overload
def explain(
    text: Iterable[Any], model: Source = None, **options: Unpack[Options]
) -> list[Attribution]: ...


def explain(  # noqa: PLR0913 - one keyword per option, the same words as everywhere
    text: Any,
    model: Source = None,
    *,
    method: str = "auto",
    edges: str = "auto",
    layer: int | None = None,
    layers: Layers = None,
    query: Query = None,
    heads: Heads = "mean",
    residual: float | None = None,
    discard: float = 0.0,
    correction: str | None = "auto",
    normalize: bool = False,
    words: bool = False,
    target: TargetSpec | Sequence[TargetSpec] = None,
    contrast: TargetSpec = None,
    source: str = "position",
    steps: int | None = None,
    answer: str | Sequence[str] | None = None,
    truncate: bool = False,
    bos: bool = False,
    sampling_rate: int | None = None,
    strict: bool = False,
    batch_size: int = 16,
    threads: int | None = None,
    device: str = "auto",
    progress: bool = False,
) -> Attribution | list[Attribution]:
    """Which input tokens a model's output came from.

    Args:
        text: A text, or many: a list, a Series, a generator. A tuple of two texts is a pair that
            the model reads as one input: ``("premise", "hypothesis")``. For vision models an image
            (a path, a PIL image or an array), or a list of images; for models that hear a sound (a
            .wav file, or an array of samples).
        model: A hub name, a folder, ``(model, tokenizer)``, what `load_model` returned, or ``None``
            for the model shipped with attnflow.
        method: How edges become scores: ``"flow"``, ``"rollout"``, ``"raw"``; or without edges:
            ``"gradient-norm"``, ``"integrated"``, ``"blank-out"``; or another one of
            ``attnflow.AGGREGATORS`` (docs/methods.md). ``"auto"`` is what answers best for the kind
            of model, with its edges; edges named alone have the method that reads them best.
        edges: What the edges of the graph are made of: ``"attention"``, ``"alti"``, ``"gradient"``,
            or another one of ``attnflow.EDGE_RULES`` (docs/methods.md). ``"auto"`` is what answers
            best for the kind of model; a method named alone has the edges it was published with.
        layer: The layer to explain: 1 … L, negatives from the top; the top one by default.
        layers: Which layers to compute: numbers, or ``"all"``; only ``layer`` by default.
        query: The position to explain: an index, a token's text, ``"all"``, or ``None`` for where
            the model decides (CLS; the mask; the last token).
        heads: ``"mean"``, ``"max"``, ``"min"``, head numbers, head weights, ``"each"``, or what
            `attnflow.fit` learned: its result, or the .json file that it wrote.
        residual: The share of the identity; ``None`` is 0.5, and 0 for raw attention.
        discard: The ratio of smallest attention weights set to zero in each layer.
        correction: For causal decoders, how to correct for the receptive field: ``"uniform"``,
            ``"visible"``, ``"sink"``, ``None`` for the plain method, or ``"auto"`` for the default.
        normalize: Divide each position's scores by their sum.
        words: Words for tokens: edges to a word are those to all its tokens, and flow is the
            maximum flow to the whole word, which the sum over its tokens would exceed.
        target: For edges and methods that are towards a target: a label or token, by name or
            number, or a list with one per text; ``None`` is the model's prediction.
        contrast: Explain why the target rather than this label or token.
        source: Where scores start: at the ``"position"`` that is explained, in one layer, or at the
            target's ``"logit"``, whose edges lead to every layer (docs/definitions.md). For rollout
            and flow on decoders, with edges that take attention blocks apart.
        steps: For ``method="integrated"``: points on the line; ``None`` takes as many as it needs.
        answer: For encoder–decoder models the text that was made of the input, or a list with one
            per text; ``None`` is the model's own answer.
        truncate: Cut a text that is too long for the model instead of refusing it.
        bos: For causal language models whose tokenizer adds none, put BOS in front, so that what
            the first token collects has a place of its own. The result's ``warnings`` have the
            predictions with and without it.
        sampling_rate: For a sound that is given as an array, its samples per second; ``None`` is
            what the model hears. Another rate is resampled.
        strict: Refuse a model that mixes tokens outside attention too (by a convolution, say), of
            which the scores do not show all. Otherwise the result's ``warnings`` say so.
        batch_size: How many inputs run through the model together at most.
        threads: How many threads flow uses; ``None`` is one per core.
        device: Where flow is solved: ``"cpu"``, ``"cuda"`` (a GPU, with ``attnflow[cuda]``) or
            ``"auto"``: the GPU if there is one and the attention is on it or the work is long.
        progress: Show a progress bar and what was loaded.

    Examples:
        >>> import attnflow
        >>> attnflow.explain("the keys to the cabinet").prediction.label
        'plural'
    """
    config = ExplainConfig(
        method=method,
        edges=edges,
        layer=layer,
        layers=layers,
        query=query,
        heads=heads,
        residual=residual,
        discard=discard,
        correction=correction,
        normalize=normalize,
        words=words,
        target=target,
        contrast=contrast,
        source=source,
        steps=steps,
        batch_size=batch_size,
        truncate=truncate,
        bos=bos,
        strict=strict,
        execution=Execution(threads, device=device),
    )
    check_flag("progress", progress)
    from attnflow.models.loading import load_model
    from attnflow.models.sounds import with_rates

    items, single = as_list(text)
    adapter = load_model(model)
    texts = with_rates(items, adapter, sampling_rate)
    results: dict[int, Attribution] = {}
    with _bar(adapter, len(texts), shown=progress) as advance:

        def within(share: float) -> None:
            advance(len(results) + share)

        for place, session in open_sessions(
            texts, adapter, config, answers=answer, progress=within
        ):
            results[place] = session.attribution(advance=within)
            advance(len(results))
    return results[0] if single else [results[place] for place in range(len(texts))]


@contextmanager
def _bar(adapter: ModelAdapter, total: int, *, shown: bool) -> Iterator[Callable[[float], None]]:
    if shown:
        from rich.console import Console

        about = adapter.description
        line = f"{adapter.name}: {about['class']}, {about['head']}, on {about['device']}"
        Console(stderr=True, highlight=False).print(line, markup=False)
    with progress_bar("explaining", total, shown=shown) as advance:
        yield advance
