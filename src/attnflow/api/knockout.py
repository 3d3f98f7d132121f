"""`knockout`: what a model says without some of its attention edges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, overload

from attnflow.api.explain import listed
from attnflow.errors import InputError, shown
from attnflow.options.option import takes, values_of
from attnflow.options.tables import KnockoutOptions
from attnflow.records.knockout import Knockout

if TYPE_CHECKING:
    from attnflow.api.explain import Conversation, One
    from attnflow.models.loading import Source

P = ParamSpec("P")


class Removes(Protocol[P]):
    """How `knockout` is called: one result, one per named set of edges, or a list of either.

    ``edges`` is required, and given by its name.
    """

    @overload
    def __call__(  # type: ignore[overload-overlap] # texts are iterable, too
        self,
        text: One | Conversation,
        model: Source = None,
        edges: Mapping[str, Any] = ...,
        *args: P.args,
        **options: P.kwargs,
    ) -> dict[str, Knockout]: ...

    @overload
    def __call__(  # type: ignore[overload-overlap] # texts are iterable, too
        self,
        text: One | Conversation,
        model: Source = None,
        edges: Any = ...,
        *args: P.args,
        **options: P.kwargs,
    ) -> Knockout: ...

    @overload
    def __call__(
        self,
        text: Iterable[Any],
        model: Source = None,
        edges: Any = ...,
        *args: P.args,
        **options: P.kwargs,
    ) -> list[Any]: ...


def _takes(table: Callable[P, Any]) -> Callable[[Callable[..., Any]], Removes[P]]:
    return takes(table)


@_takes(KnockoutOptions)
def knockout(text: Any, model: Source = None, *, edges: Any, options: KnockoutOptions) -> Any:
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

    config = KnockoutConfig(**values_of(options))
    adapter = load_model(model, device=options.device)
    items, single = listed(text)
    inputs = with_rates(items, adapter, options.sampling_rate)
    found = [knock_out(one, adapter, sets, config) for one in inputs]
    results = found if isinstance(edges, Mapping) else [each[""] for each in found]
    return results[0] if single else results
