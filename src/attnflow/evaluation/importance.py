"""Blank-out and gradients as functions: the methods of that name, with options of their own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

import numpy as np
from torch import Tensor

from attnflow.errors import InputError, unknown
from attnflow.io.inputs import as_list, check_unicode
from attnflow.io.keywords import known_keywords
from attnflow.io.progress import progress_bar
from attnflow.methods.blank_out import MEMBER as BLANK_OUT
from attnflow.methods.blank_out import changes
from attnflow.methods.gradients import INPUT, NORM, EmbeddingGradient, norms, products
from attnflow.methods.integrated import MEMBER as INTEGRATED
from attnflow.methods.question import (
    Question,
    Target,
    TargetSpec,
    batches_by_length,
    resolve_targets,
    rows_that_fit,
)
from attnflow.models.loading import load_model
from attnflow.pipeline.request import check_batch_size, check_steps
from attnflow.records import Attribution, FloatArray
from attnflow.records.arrays import to_numpy
from attnflow.records.checks import check_flag

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter, Tokens
    from attnflow.models.loading import Source

log = logging.getLogger("attnflow")
REPLACEMENTS = ("unk", "mask", "pad", "delete")
CANCELLED = 1e-4
CANCELS = (
    "the gradients sum to zero over the embedding: the model's layer norms subtract the mean, so "
    "a shift of all dimensions changes nothing, and kind='sum' shows rounding only. Use 'norm'"
)
Targets = TargetSpec | Sequence[TargetSpec]


class BlankOutOptions(TypedDict, total=False):
    """The keywords of `blank_out`, for type checkers and editors."""

    replacement: str
    target: Targets
    contrast: TargetSpec
    signed: bool
    batch_size: int
    progress: bool


@overload
def blank_out(
    text: str, model: Source = None, **options: Unpack[BlankOutOptions]
) -> Attribution: ...


@overload
def blank_out(
    text: Iterable[Any], model: Source = None, **options: Unpack[BlankOutOptions]
) -> list[Attribution]: ...


@known_keywords()
def blank_out(  # noqa: PLR0913 - one keyword per option, the same words as everywhere
    text: str | Iterable[str],
    model: Source = None,
    *,
    replacement: str = "unk",
    target: Targets = None,
    contrast: TargetSpec = None,
    signed: bool = False,
    batch_size: int = 256,
    progress: bool = False,
) -> Attribution | list[Attribution]:
    """How much the probability of the model's answer changes when each token is blanked out.

    Args:
        text: A text, or many: a list, a Series, a generator.
        model: As for `attnflow.explain`: a classifier, a masked or a causal language model.
        replacement: ``"unk"`` (the paper's), ``"mask"``, ``"pad"`` (a token that no position
            attends to) or ``"delete"`` (the tokens after it move up).
        target: The label or token whose probability counts, by name or number; a list has one for
            each text. ``None`` is the model's own answer.
        contrast: Count how much larger the target's logit is than that of this label or token.
        signed: Before minus after, so that tokens which speak against the answer are negative;
            otherwise the size of the change.
        batch_size: How many blanked inputs run together at most; fewer where they are long.
        progress: Show a progress bar.

    The mask of a masked language model is what it predicts: it is left in place and scores 0.

    Examples:
        >>> import attnflow
        >>> without = attnflow.blank_out("the keys to the cabinet", "verbs", replacement="delete")
        >>> without.top(1)[0][0]
        'keys'
    """
    if not isinstance(replacement, str) or replacement not in REPLACEMENTS:
        raise InputError(unknown("replacement", replacement, REPLACEMENTS))
    check_batch_size(batch_size)
    check_flag("signed", signed)
    check_flag("progress", progress)
    loaded = load_model(model)
    filler = loaded.filler(replacement)
    inputs, targets, single = _read(text, loaded, target, contrast)
    total = sum(map(len, inputs))
    asked = [
        (tokens, one, tuple((at,) for at in range(len(tokens))))
        for tokens, one in zip(inputs, targets, strict=True)
    ]
    with progress_bar("blanking out", total, shown=progress) as show:
        found = changes(loaded, asked, filler, batch_size, lambda share: show(share * total))
    options = {"replacement": replacement, "signed": bool(signed)}
    results = [
        make_attribution(
            loaded,
            tokens,
            one,
            change if signed else np.abs(change),
            BLANK_OUT.name,
            options,
            {"probability": before},
        )
        for tokens, one, (before, change) in zip(inputs, targets, found, strict=True)
    ]
    return results[0] if single else results


class GradientsOptions(TypedDict, total=False):
    """The keywords of `gradients`, for type checkers and editors."""

    kind: str
    target: Targets
    contrast: TargetSpec
    steps: int | None
    batch_size: int
    progress: bool


@overload
def gradients(
    text: str, model: Source = None, **options: Unpack[GradientsOptions]
) -> Attribution: ...


@overload
def gradients(
    text: Iterable[Any], model: Source = None, **options: Unpack[GradientsOptions]
) -> list[Attribution]: ...


@known_keywords()
def gradients(  # noqa: PLR0913 - one keyword per option, the same words as everywhere
    text: str | Iterable[str],
    model: Source = None,
    *,
    kind: str = "norm",
    target: Targets = None,
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
        steps: For ``"integrated"``: points on the line; ``None`` has 8 in each half, and halves
            pieces that do not add up to their change of the probability, until the whole does
            within 0.001 (completeness) or there are 256. The statistics say how far they do.
        batch_size: How many inputs, or points, run together at most; fewer where they are long.
        progress: Show a progress bar.

    Examples:
        >>> import attnflow
        >>> attnflow.gradients("the keys", kind="integrated").tokens
        ('[CLS]', 'the', 'keys', '[SEP]')
    """
    if not isinstance(kind, str) or kind not in NAMES:
        raise InputError(unknown("kind", kind, NAMES))
    check_steps(steps)
    check_batch_size(batch_size)
    check_flag("progress", progress)
    loaded = load_model(model)
    inputs, targets, single = _read(text, loaded, target, contrast)
    results: dict[int, Attribution] = {}
    with progress_bar("differentiating", len(inputs), shown=progress) as show:
        found = (
            _integrated(loaded, inputs, targets, steps, batch_size, show)
            if kind == "integrated"
            else _at_once(loaded, inputs, targets, batch_size, REDUCE[kind])
        )
        for place, scores, statistics in found:
            results[place] = make_attribution(
                loaded,
                inputs[place],
                targets[place],
                scores,
                NAMES[kind],
                {"kind": kind},
                statistics,
            )
            show(len(results))
    ordered = [results[place] for place in range(len(inputs))]
    return ordered[0] if single else ordered


def _read(
    text: Any, model: ModelAdapter, target: Targets, contrast: TargetSpec
) -> tuple[list[Tokens], list[Target], bool]:
    """Texts as tokens with their targets, and whether there is a single one."""
    texts, single = as_list(text)
    inputs = [model.tokenize(check_unicode("text", one)) for one in texts]
    return inputs, resolve_targets(model, inputs, target, contrast), single


Scored = Iterator[tuple[int, FloatArray, dict[str, Any]]]  # a place, its scores, statistics


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
        for place, row in zip(places, to_numpy(reduce(found, words)), strict=True):
            yield place, row[: len(inputs[place])], {}


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

        alone = tuple((at,) for at in range(len(tokens)))
        question = Question(model, tokens, target, alone, points, batch_size, advance)
        found = INTEGRATED.answer(question)
        yield place, to_numpy(found.values), dict(found.statistics)


def _sums(gradients: Tensor, _: Tensor) -> Tensor:
    sums = gradients.sum(-1).abs()
    if bool((sums <= CANCELLED * gradients.norm(dim=-1).amax(-1, keepdim=True)).all()):
        log.warning(CANCELS)
    return sums


REDUCE = {"sum": _sums, "norm": norms, "input": products}
NAMES = {"sum": "gradient", "norm": NORM.name, "input": INPUT.name, "integrated": INTEGRATED.name}


def make_attribution(  # noqa: PLR0913 - the parts of a record
    model: ModelAdapter,
    tokens: Tokens,
    target: Target,
    scores: FloatArray,
    method: str,
    options: dict[str, Any],
    statistics: dict[str, Any],
) -> Attribution:
    """Scores of the input tokens as a record; they belong to the model's last layer."""
    return Attribution(
        **tokens.about_input,
        scores=np.asarray(scores)[None, None],
        layers=(model.depth,),
        queries=(target.position,),
        layer=model.depth,
        query=target.position,
        method=method,
        options={
            **options,
            "target": target.label,
            **_named_contrast(model, target),
            **({} if tokens.pair is None else {"pair": list(tokens.pair)}),
        },
        model=model.name,
        prediction=target.prediction,
        statistics=statistics,
    )


def _named_contrast(model: ModelAdapter, target: Target) -> dict[str, str]:
    return {} if target.contrast is None else {"contrast": model.output_name(target.contrast)}
