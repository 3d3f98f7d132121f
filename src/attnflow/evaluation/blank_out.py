"""Importance by blanking: how far a probability changes when a token is removed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

import numpy as np

from attnflow.errors import InputError, shown
from attnflow.evaluation.importance import make_attribution
from attnflow.io.inputs import as_list, check_unicode
from attnflow.io.keywords import known_keywords
from attnflow.io.progress import progress_bar
from attnflow.methods.blank_out import MEMBER, changes
from attnflow.methods.question import TargetSpec, resolve_targets
from attnflow.models.loading import load_model
from attnflow.pipeline.arguments import check_batch_size
from attnflow.records import Attribution
from attnflow.records.checks import check_flag

if TYPE_CHECKING:
    from attnflow.models.loading import Source

REPLACEMENTS = ("unk", "mask", "pad", "delete")


class Options(TypedDict, total=False):
    """The keywords of `blank_out`, for type checkers and editors."""

    replacement: str
    target: TargetSpec | Sequence[TargetSpec]
    contrast: TargetSpec
    signed: bool
    batch_size: int
    progress: bool


@overload
def blank_out(text: str, model: Source = None, **options: Unpack[Options]) -> Attribution: ...


@overload
def blank_out(
    text: Iterable[Any], model: Source = None, **options: Unpack[Options]
) -> list[Attribution]: ...


@known_keywords()
def blank_out(  # noqa: PLR0913 - one keyword per option, the same words as everywhere
    text: str | Iterable[str],
    model: Source = None,
    *,
    replacement: str = "unk",
    target: TargetSpec | Sequence[TargetSpec] = None,
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
        msg = f"replacement={shown(replacement)} is unknown; allowed: {', '.join(REPLACEMENTS)}"
        raise InputError(msg)
    check_batch_size(batch_size)
    check_flag("signed", signed)
    check_flag("progress", progress)
    loaded = load_model(model)
    texts, single = as_list(text)
    inputs = [loaded.tokenize(check_unicode("text", one)) for one in texts]
    filler = loaded.filler(replacement)
    targets = resolve_targets(loaded, inputs, target, contrast)
    asked = [
        (tokens, one, tuple((at,) for at in range(len(tokens))))
        for tokens, one in zip(inputs, targets, strict=True)
    ]
    total = sum(map(len, inputs))
    with progress_bar("blanking out", total, shown=progress) as show:
        found = changes(loaded, asked, filler, batch_size, lambda share: show(share * total))
    options = {"replacement": replacement, "signed": bool(signed)}
    results = [
        make_attribution(
            loaded,
            tokens,
            one,
            change if signed else np.abs(change),
            MEMBER.name,
            options,
            {"probability": before},
        )
        for tokens, one, (before, change) in zip(inputs, targets, found, strict=True)
    ]
    return results[0] if single else results
