"""`explain`: text in, attribution out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack, overload

import numpy.typing as npt

from attnflow.api.answering import Answering, prompts_of
from attnflow.edges.options import Heads
from attnflow.io.keywords import known_keywords
from attnflow.io.progress import progress_bar
from attnflow.pipeline.prepare import open_sessions, prepare
from attnflow.pipeline.request import Layers, Query, Request, TargetSpec
from attnflow.records import Attribution
from attnflow.records.checks import check_flag
from attnflow.records.generation import Generation
from attnflow.runs.options import RowOptions
from attnflow.solvers.execution import Execution

if TYPE_CHECKING:
    from PIL.Image import Image

    from attnflow.models.adapter import ModelAdapter
    from attnflow.models.answers.prompts import Parts
    from attnflow.models.loading import Source
    from attnflow.models.text.writing import Stream

    # A text, named parts of one, or the messages of a chat.
    Conversation = str | Mapping[str, str] | Sequence[Mapping[str, str]]
    # A text, a pair of texts that are read as one, an image or a sound.
    One = str | tuple[str, str] | PathLike[str] | Image | npt.NDArray[Any]


class Shared(RowOptions, total=False):
    """The keywords of `explain` but ``generate``, which decides what is returned."""

    method: str
    edges: str
    target: TargetSpec | Sequence[TargetSpec]
    answer: str | Sequence[str] | None
    sampling_rate: int | None
    strict: bool
    threads: int | None
    device: str
    progress: bool
    parts: Parts | None
    parts_only: bool
    through: str
    deletions: bool
    sampling: Mapping[str, Any] | None
    seed: int | None
    stream: Stream | None


class Options(Shared, total=False):
    """The keywords of `explain`, for type checkers and editors."""

    generate: int | None


@overload
def explain(
    text: Conversation, model: Source = None, *, generate: int, **options: Unpack[Shared]
) -> Generation: ...


@overload
def explain(
    text: Iterable[Any], model: Source = None, *, generate: int, **options: Unpack[Shared]
) -> list[Generation]: ...


@overload
def explain(  # type: ignore[overload-overlap] # texts and images are iterable, too
    text: One, model: Source = None, **options: Unpack[Shared]
) -> Attribution: ...


@overload
def explain(
    text: Iterable[Any], model: Source = None, **options: Unpack[Shared]
) -> list[Attribution]: ...


@known_keywords()
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
    generate: int | None = None,
    parts: Parts | None = None,
    parts_only: bool = False,
    through: str = "tokens",
    deletions: bool = False,
    sampling: Mapping[str, Any] | None = None,
    seed: int | None = None,
    stream: Stream | None = None,
) -> Attribution | Generation | list[Attribution] | list[Generation]:
    """Which input tokens a model's output came from.

    With ``generate`` (or, on causal language models, ``answer``) every token of an answer is
    explained, and the result is a `Generation`.

    Args:
        text: A text, or many: a list, a Series, a generator. A tuple of two texts is a pair that
            the model reads as one input: ``("premise", "hypothesis")``. For vision models an image
            (a path, a PIL image or an array), or a list of images; for models that hear a sound (a
            .wav file, or an array of samples). For answers also the messages of a chat, each with
            its ``"role"`` and ``"content"``, or a dict of named parts, which are joined by blank
            lines.
        model: A hub name, a folder, ``(model, tokenizer)``, what `load_model` returned, or ``None``
            for the model shipped with attnflow.
        method: How edges become scores: ``"flow"``, ``"rollout"``, ``"raw"``; or without edges:
            ``"gradient-norm"``, ``"integrated"``, ``"blank-out"``; or another one of
            ``attnflow.METHODS`` (docs/methods.md). ``"auto"`` is what answers best for the kind
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
            number, or a list with one per text; ``None`` is the model's prediction. Digits as text
            are a name where the model has it, and a number otherwise. Of tokens that are displayed
            alike the likeliest is meant; ``" word"`` is the one with the blank.
        contrast: Explain why the target rather than this label or token.
        source: Where scores start: at the ``"position"`` that is explained, in one layer, or at the
            target's ``"logit"``, whose edges lead to every layer (docs/definitions.md). For rollout
            and flow on decoders, with edges that take attention blocks apart.
        steps: For ``method="integrated"``: points on the line; ``None`` takes as many as it needs.
        answer: The text that was made of the input, or a list with one per text; ``None`` is the
            model's own answer. For encoder–decoders alone, what follows it is explained; with
            ``generate=True``, and always on causal models, every token of it.
        truncate: Cut a text that is too long for the model instead of refusing it.
        bos: For causal language models whose tokenizer adds none, put BOS in front, so that what
            the first token collects has a place of its own. The result's ``warnings`` have the
            predictions with and without it, or how likely an answer is.
        sampling_rate: For a sound that is given as an array, its samples per second; ``None`` is
            what the model hears. Another rate is resampled.
        strict: Refuse a model that mixes tokens outside attention too (by a convolution, say), of
            which the scores do not show all. Otherwise the result's ``warnings`` say so.
        batch_size: How many inputs run through the model together at most.
        threads: How many threads flow uses; ``None`` is one per core.
        device: Where flow is solved: ``"cpu"``, ``"cuda"`` (a GPU, with ``attnflow[cuda]``) or
            ``"auto"``: the GPU if there is one and the attention is on it or the work is long.
        progress: Show a progress bar and what was loaded.
        generate: Explain every token of an answer: of at most so many tokens that the model writes
            (``True`` is 40), or of ``answer``.
        parts: Named parts of the prompt: ``{"document": "its text"}``, or where it starts and ends
            in the prompt's text. The messages of a chat have the names of their roles.
        parts_only: Score whole parts and no single tokens, which is quicker for flow.
        through: Where scores end: at all ``"tokens"`` before, or in the ``"prompt"``, where what
            the model wrote itself hands on to what it was made of (docs/definitions.md).
        deletions: Delete each named part and measure by how much the answer's log-probability
            falls: what the scores claim, checked.
        sampling: How the answer's tokens are drawn, e.g. ``{"temperature": 0.7, "top_p": 0.9}``;
            without it the most likely ones are written.
        seed: Of drawing; by default another one each time. No state of torch is changed by it.
        stream: Called with each piece of the answer's text as it is made, e.g.
            ``functools.partial(print, end="", flush=True)``.

    Examples:
        >>> import attnflow
        >>> attnflow.explain("The food was not good.").prediction.label
        'negative'
    """
    config = Request(
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
    answering = Answering(
        generate,
        parts,
        parts_only,
        through,
        deletions,
        {} if sampling is None else sampling,
        seed,
        stream,
    )
    from attnflow.models.audio.sounds import with_rates
    from attnflow.models.loading import load_model

    adapter = load_model(model)
    items, single = prompts_of(text)
    if answering.asked(adapter, items, answer):
        with _bar(adapter, len(items), shown=progress) as advance:
            found = list(answering.explain(items, adapter, config, answer, advance))
        return found[0] if single else found
    texts = with_rates(items, adapter, sampling_rate)
    results: dict[int, Attribution] = {}
    with _bar(adapter, len(texts), shown=progress) as advance:

        def within(share: float) -> None:
            advance(len(results) + share)

        prepared = prepare(config, adapter, texts, answers=answer)
        for place, session in open_sessions(prepared, progress=within):
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
