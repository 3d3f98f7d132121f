"""`knockout`: what a model says without some of its attention edges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from attnflow.api.answering import prompts_of
from attnflow.errors import InputError, shown
from attnflow.io.keywords import known_keywords
from attnflow.records.knockout import Knockout

if TYPE_CHECKING:
    from attnflow.api.explain import Conversation, One
    from attnflow.models.answers.prompts import Parts
    from attnflow.models.loading import Source
    from attnflow.pipeline.request import Query


class Options(TypedDict, total=False):
    """The keywords of `knockout` but ``edges``, for type checkers and editors."""

    target: str | int | None
    contrast: str | int | None
    query: Query
    answer: str | None
    generate: int | None
    parts: Parts | None
    random: int
    seed: int
    truncate: bool
    bos: bool
    sampling_rate: int | None
    batch_size: int


@overload
def knockout(
    text: One | Conversation,
    model: Source = None,
    *,
    edges: Mapping[str, Any],
    **options: Unpack[Options],
) -> dict[str, Knockout]: ...


@overload
def knockout(
    text: One | Conversation, model: Source = None, *, edges: Any, **options: Unpack[Options]
) -> Knockout: ...


@overload
def knockout(
    text: Iterable[Any], model: Source = None, *, edges: Any, **options: Unpack[Options]
) -> list[Any]: ...


@known_keywords()
def knockout(  # noqa: PLR0913 - one keyword per option, the same words as everywhere
    text: Any,
    model: Source = None,
    *,
    edges: Any,
    target: str | int | None = None,
    contrast: str | int | None = None,
    query: Query = None,
    answer: str | None = None,
    generate: int | None = None,
    parts: Parts | None = None,
    random: int = 5,
    seed: int = 0,
    truncate: bool = False,
    bos: bool = False,
    sampling_rate: int | None = None,
    batch_size: int = 16,
) -> Any:
    """What a model says without a set of attention edges, and without random sets as large.

    The scores of these edges are −∞ before the softmax, so that the other edges of a row share what
    they had; where a row loses all of its edges, attention gives zeros. The residual stream is
    never cut.

    Args:
        text: A text, an image, a sound, the messages of a chat or a dict of named parts, as for
            `explain`; or a list of them, of which each gives what it gives alone.
        model: As for `explain`.
        edges: What is removed: `Edges`, a token that is hidden from all others (``"not"``), a
            single edge ``(layer, query, key)`` or ``(layer, query, key, head)``, a `FlowTrace` for
            its cut, ``trace.cut``, a route ``trace.routes[0]``, a mask of bool ``[layer, query,
            key]`` or ``[layer, head, query, key]``; a list is the union of these. A dict has
            several sets by their names, and gives a dict of results.
        target: The label or token that is measured, by name or number; ``None`` is the prediction.
        contrast: Measure how much larger the target's logit is than that of this label or token.
        query: Where a language model, a tagger or a model of speech is asked; ``None`` is where it
            decides.
        answer: For language models, the answer that is measured: the sum over its tokens.
        generate: Measure the answer that the model writes, of at most so many tokens (``True`` is
            40). An encoder–decoder's own answer is measured where nothing else is asked for.
        parts: Named parts of a prompt, as for `explain`; `Edges` may name them.
        random: How many random sets of as many edges are drawn from those that the model has.
        seed: Of drawing them.
        truncate: Cut a text that is too long for the model instead of refusing it.
        bos: Put BOS in front, as for `explain`.
        sampling_rate: Of a sound that is given as an array, as for `explain`.
        batch_size: How many sets run through the model together at most.

    Examples:
        >>> import attnflow
        >>> text = "The story is slow, but the music is wonderful."
        >>> found = attnflow.knockout(text, edges="wonderful")
        >>> found.before.prediction.label, found.after.prediction.label
        ('positive', 'negative')
        >>> found.removed, found.total
        (72, 936)
    """
    sets = edges if isinstance(edges, Mapping) else {"": edges}
    if not sets or not all(isinstance(name, str) for name in sets):
        msg = f"edges={shown(edges)} must have at least one set of edges, each by its name"
        raise InputError(msg)
    from attnflow.models.audio.sounds import with_rates
    from attnflow.models.loading import load_model
    from attnflow.pipeline.knockouts import KnockoutConfig, knock_out

    config = KnockoutConfig(
        target=target,
        contrast=contrast,
        query=query,
        answer=answer,
        generate=generate,
        parts=parts,
        random=random,
        seed=seed,
        batch_size=batch_size,
        truncate=truncate,
        bos=bos,
    )
    adapter = load_model(model)
    items, single = prompts_of(text)
    found = [
        knock_out(one, adapter, sets, config) for one in with_rates(items, adapter, sampling_rate)
    ]
    results = found if isinstance(edges, Mapping) else [each[""] for each in found]
    return results[0] if single else results
