"""`similarity`: two texts in, what made them similar out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, overload

from attnflow.errors import InputError
from attnflow.io.inputs import as_list, is_pair
from attnflow.methods import find_edge_method
from attnflow.options.option import takes
from attnflow.options.tables import SimilarityOptions
from attnflow.pipeline.request import Request
from attnflow.records.similarity import Similarity

if TYPE_CHECKING:
    from attnflow.models.loading import Source

P = ParamSpec("P")


class FromTwoTexts(Protocol[P]):
    """How `similarity` is called: two texts give one result, two lists give a list."""

    @overload
    def __call__(  # type: ignore[overload-overlap] # a text is a sequence of texts, too
        self, first: str, second: str, model: Source, *args: P.args, **options: P.kwargs
    ) -> Similarity: ...

    @overload
    def __call__(
        self,
        first: Sequence[str],
        second: Sequence[str],
        model: Source,
        *args: P.args,
        **options: P.kwargs,
    ) -> list[Similarity]: ...


def _takes(table: Callable[P, Any]) -> Callable[[Callable[..., Any]], FromTwoTexts[P]]:
    return takes(table)


@_takes(SimilarityOptions)
def similarity(
    first: Any, second: Any, model: Source, *, options: SimilarityOptions
) -> Similarity | list[Similarity]:
    """What made two texts similar: how much each pair of tokens contributed to their cosine.

    The cosine of two embeddings is a sum over pairs of positions of the last layer, exactly; each
    position is then traced back to input tokens, so that the contributions still sum to the cosine
    (docs/heads.md).

    Args:
        first: A text, or a list of them.
        second: The text that it is compared with, or as many as there are first ones.
        model: A model of texts without a head, as for `attnflow.explain`.

    Examples:
        With the name or the folder of any model of sentence embeddings:

        >>> import attnflow
        >>> found = attnflow.similarity("A dog runs.", "A cat runs away.", model)
        >>> bool(abs(found.scores.sum() - found.cosine) < 1e-6)
        True
    """
    find_edge_method(options.method)  # the others explain one output, and no position
    plain = {"query": "all", "correction": None, "normalize": True, "words": False}
    request = Request.of(options, progress=False, **plain)
    for given in (first, second):
        if is_pair(given):
            msg = (
                "a tuple of two texts is a pair; give the two texts to compare one after the other"
            )
            raise InputError(msg)
    from attnflow.models.loading import load_model
    from attnflow.pipeline.similarity import compare_texts

    (firsts, alone), (seconds, single) = as_list(first), as_list(second)
    if alone != single or len(firsts) != len(seconds):
        msg = (
            f"there are {len(firsts)} first texts and {len(seconds)} second ones; give one of "
            "each, or two lists of the same length"
        )
        raise InputError(msg)
    found = compare_texts(
        firsts, seconds, load_model(model, device=options.device), request, options.pooling
    )
    results = [each.words() for each in found] if options.words else found
    return results[0] if single else results
