"""`similarity`: two texts in, what made them similar out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from attnflow.edges.options import Heads
from attnflow.errors import InputError
from attnflow.io.inputs import as_list, is_pair
from attnflow.io.keywords import known_keywords
from attnflow.methods import find_edge_method
from attnflow.pipeline.request import Request
from attnflow.records.checks import check_flag
from attnflow.records.similarity import Similarity
from attnflow.solvers.execution import Execution

if TYPE_CHECKING:
    from attnflow.models.loading import Source


class Options(TypedDict, total=False):
    """The keywords of `similarity`, for type checkers and editors."""

    method: str
    edges: str
    pooling: str
    heads: Heads
    residual: float | None
    discard: float
    words: bool
    truncate: bool
    strict: bool
    batch_size: int
    threads: int | None


@overload
def similarity(  # type: ignore[overload-overlap] # a text is a sequence of texts, too
    first: str, second: str, model: Source, **options: Unpack[Options]
) -> Similarity: ...


@overload
def similarity(
    first: Sequence[str], second: Sequence[str], model: Source, **options: Unpack[Options]
) -> list[Similarity]: ...


@known_keywords()
def similarity(  # noqa: PLR0913 - one keyword per option, the same words as everywhere
    first: Any,
    second: Any,
    model: Source,
    *,
    method: str = "rollout",
    edges: str = "auto",
    pooling: str = "auto",
    heads: Heads = "mean",
    residual: float | None = None,
    discard: float = 0.0,
    words: bool = False,
    truncate: bool = False,
    strict: bool = False,
    batch_size: int = 16,
    threads: int | None = None,
) -> Similarity | list[Similarity]:
    """What made two texts similar: how much each pair of tokens contributed to their cosine.

    The cosine of two embeddings is a sum over pairs of positions of the last layer, exactly; each
    position is then traced back to input tokens, so that the contributions still sum to the cosine
    (docs/heads.md).

    Args:
        first: A text, or a list of them.
        second: The text that it is compared with, or as many as there are first ones.
        model: A model of texts without a head, as for `attnflow.explain`.
        method: How positions are traced back to tokens: a method that reads edges. Each position's
            scores are divided by their sum.
        edges: What the edges are made of; ``"auto"`` is ALTI, and attention where a model refuses
            it.
        pooling: What an embedding is: the ``"mean"`` of the last states, or the state of the
            ``"first"`` or the ``"last"`` token. ``"auto"`` is what the files of
            sentence-transformers beside the model say, and the mean where there are none.
        heads: How heads are merged.
        residual: The share of the identity, where edges don't measure it.
        discard: The ratio of smallest attention weights set to zero.
        words: Words for tokens: the sums over their tokens.
        truncate: Cut a text that is too long for the model instead of refusing it.
        strict: Refuse a model that mixes tokens outside attention too.
        batch_size: How many texts run through the model together at most.
        threads: How many threads flow uses; ``None`` is one per core.
    """
    find_edge_method(method)  # the others explain one output, and no position
    check_flag("words", words)
    config = Request(
        method=method,
        edges=edges,
        query="all",
        heads=heads,
        residual=residual,
        discard=discard,
        correction=None,
        normalize=True,
        truncate=truncate,
        strict=strict,
        batch_size=batch_size,
        execution=Execution(threads),
    )
    if heads == "each":
        msg = "heads='each' is not for similarity: heads are merged; pick some by number"
        raise InputError(msg)
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
    found = compare_texts(firsts, seconds, load_model(model), config, pooling)
    results = [each.words() for each in found] if words else found
    return results[0] if single else results
