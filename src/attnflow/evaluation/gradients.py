"""Importance by gradients, taken with respect to the word embeddings."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from torch import Tensor

from attnflow.errors import InputError, shown
from attnflow.evaluation.importance import make_attribution
from attnflow.io.inputs import as_list, check_unicode
from attnflow.io.keywords import known_keywords
from attnflow.io.progress import progress_bar
from attnflow.methods.gradients import INPUT, NORM, EmbeddingGradient, norms, products
from attnflow.methods.integrated import MEMBER as INTEGRATED
from attnflow.methods.integrated import integrate
from attnflow.methods.question import (
    Target,
    TargetSpec,
    batches_by_length,
    resolve_targets,
    rows_that_fit,
)
from attnflow.models.loading import load_model
from attnflow.pipeline.arguments import check_batch_size, check_steps
from attnflow.records import Attribution
from attnflow.records.checks import check_flag

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter, Tokens
    from attnflow.models.loading import Source

log = logging.getLogger("attnflow")
CANCELLED = 1e-4
CANCELS = (
    "the gradients sum to zero over the embedding: the model's layer norms subtract the mean, so "
    "a shift of all dimensions changes nothing, and kind='sum' shows rounding only. Use 'norm'"
)


class Options(TypedDict, total=False):
    """The keywords of `gradients`, for type checkers and editors."""

    kind: str
    target: TargetSpec | Sequence[TargetSpec]
    contrast: TargetSpec
    steps: int | None
    batch_size: int
    progress: bool


@overload
def gradients(text: str, model: Source = None, **options: Unpack[Options]) -> Attribution: ...


@overload
def gradients(
    text: Iterable[Any], model: Source = None, **options: Unpack[Options]
) -> list[Attribution]: ...


@known_keywords()
def gradients(  # noqa: PLR0913 - one keyword per option, the same words as everywhere
    text: str | Iterable[str],
    model: Source = None,
    *,
    kind: str = "norm",
    target: TargetSpec | Sequence[TargetSpec] = None,
    contrast: TargetSpec = None,
    steps: int | None = None,
    batch_size: int = 32,
    progress: bool = False,
) -> Attribution | list[Attribution]:
    """How sensitive the probability of the model's answer is to each token's embedding.

    Args:
        text: A text, or many: a list, a Series, a generator.
        model: As for `attnflow.explain`: a classifier, a masked or a causal language model.
        kind: ``"norm"``: the gradient's L2 norm; ``"sum"``: the size of its sum over the embedding
            (the paper's; zero up to rounding where layer norms follow the embeddings, as in
            GPT-2 and BERT); ``"input"``: gradient × embedding, summed; ``"integrated"``: integrated
            gradients from embeddings of zero.
        target: The label or token whose probability counts; ``None`` is the model's own answer.
        contrast: Count how much larger the target's logit is than that of this label or token.
        steps: For ``"integrated"``: points on the line; ``None`` doubles 32 until the scores add up
            to the change of the probability within 0.001 (completeness), at most to 128. The
            statistics say how far they do.
        batch_size: How many inputs, or points, run together at most; fewer where they are long.
        progress: Show a progress bar.

    Examples:
        >>> import attnflow
        >>> attnflow.gradients("the keys", kind="integrated").tokens
        ('[CLS]', 'the', 'keys')
    """
    if not isinstance(kind, str) or kind not in METHODS:
        msg = f"kind={shown(kind)} is unknown; allowed: {', '.join(METHODS)}"
        raise InputError(msg)
    check_steps(steps)
    check_batch_size(batch_size)
    check_flag("progress", progress)
    loaded = load_model(model)
    texts, single = as_list(text)
    inputs = [loaded.tokenize(check_unicode("text", one)) for one in texts]
    targets = resolve_targets(loaded, inputs, target, contrast)
    results: dict[int, Attribution] = {}
    with progress_bar("differentiating", len(inputs), shown=progress) as show:
        for places, scores, statistics in (
            _integrated(loaded, inputs, targets, steps, batch_size, show)
            if kind == "integrated"
            else _at_once(loaded, inputs, targets, batch_size, REDUCE[kind])
        ):
            for place, row in zip(places, scores.cpu().numpy(), strict=True):
                tokens, one = inputs[place], targets[place]
                results[place] = make_attribution(
                    loaded,
                    tokens,
                    one,
                    row[: len(tokens)],
                    METHODS[kind],
                    {"kind": kind},
                    statistics,
                )
            show(len(results))
    ordered = [results[place] for place in range(len(inputs))]
    return ordered[0] if single else ordered


Scored = Iterator[tuple[Sequence[int], Tensor, dict[str, Any]]]  # places, their rows, statistics


def _at_once(
    model: ModelAdapter,
    inputs: Sequence[Tokens],
    targets: Sequence[Target],
    batch_size: int,
    reduce: Callable[[Tensor, Tensor], Tensor],
) -> Scored:
    """Inputs of similar length together, one pass for each batch."""
    size = rows_that_fit(model, inputs, batch_size, gradients=True)
    for places in batches_by_length(inputs, size):
        chosen = [inputs[i] for i in places], [targets[i] for i in places]
        _, words, found = EmbeddingGradient(model, *chosen).at()
        yield places, reduce(found, words), {}


def _integrated(
    model: ModelAdapter,
    inputs: Sequence[Tokens],
    targets: Sequence[Target],
    steps: int | None,
    batch_size: int,
    show: Callable[[float], None],
) -> Scored:
    """One input after the other, at many points."""
    points = None if steps is None else int(steps)
    for place, (tokens, target) in enumerate(zip(inputs, targets, strict=True)):

        def advance(share: float, place: int = place) -> None:
            show(place + share)

        scores, statistics = integrate(model, tokens, target, points, batch_size, advance)
        yield [place], scores[None], statistics


def _sums(gradients: Tensor, _: Tensor) -> Tensor:
    sums = gradients.sum(-1).abs()
    if bool((sums <= CANCELLED * gradients.norm(dim=-1).amax(-1, keepdim=True)).all()):
        log.warning(CANCELS)
    return sums


REDUCE = {"sum": _sums, "norm": norms, "input": products}
METHODS = {
    "sum": "gradient",
    "norm": NORM.name,
    "input": INPUT.name,
    "integrated": INTEGRATED.name,
}
