"""Blanking as a check of other methods: what the model says without each word."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from attnflow.errors import InputError
from attnflow.evaluation.importance import make_attribution
from attnflow.methods.blank_out import MEMBER
from attnflow.methods.question import Target
from attnflow.models.outputs import find_outputs, has_label
from attnflow.models.sizes import independent_labels
from attnflow.records.words import merge_words

if TYPE_CHECKING:
    from torch import Tensor

    from attnflow.models.adapter import ModelAdapter
    from attnflow.pipeline.session import Session
    from attnflow.records import Attribution

MOST_WORK = 3 * 10**10  # multiplications: about a second on two cores

MOST_LOGITS = 700.0  # whose exponential is still a number


@dataclass(frozen=True)
class Removal:
    """What a model says without a word.

    Attributes:
        change: Of the target's probability; below 0 where the word speaks for the target.
        label: What is predicted then; empty where that was not kept.
    """

    change: float
    label: str = ""


@dataclass(frozen=True)
class BlankingCheck:
    """What blanking words out does to an answer.

    Attributes:
        scores: The size of the change without each token (each word, where these are explained).
        target: Whose probability changes.
        probability: The target's, of the whole input. With a contrast, how likely the target is
            where the answer is exactly one of these two: the difference of their logits as a
            probability, whether labels exclude each other or are independent.
        label: What is predicted of the whole input; with a contrast, the likelier of the two. Of
            labels that are independent of each other, whether the input has the target.
        removals: For each token what happens without the *word* that it is part of; ``None`` where
            that can't be removed.
        contrast: What the target is compared with, if anything.
        places: The tokens that could be blanked, where scores of others say nothing.
    """

    scores: Attribution
    target: str
    probability: float
    label: str
    removals: tuple[Removal | None, ...]
    contrast: str = ""
    places: tuple[int, ...] | None = None


def is_cheap(adapter: ModelAdapter, tokens: int) -> bool:
    """Whether a model runs on so many tokens, once without each, in about a second."""
    return int(adapter.description.get("parameters", MOST_WORK)) * tokens**2 <= MOST_WORK


def why_unchecked(session: Session, tokens: int = 0) -> str | None:
    """Why an answer is not checked by blanking; ``None`` where it is.

    Empty where the question is about no answer. Inputs of up to so many ``tokens`` are checked
    whatever that costs.
    """
    config, adapter = session.config, session.adapter
    chosen = config.query not in (None, "all") or config.heads == "each"
    top = config.resolve_layers(session.depth)[1] == session.depth
    if session.prediction is None or chosen or not top:
        return ""
    if not _can_check(session):
        return "that is done for texts, images and encoder–decoders of texts"
    measured = session.measurable or adapter.has_source or adapter.has_grid
    if not measured or not session.blanking.positions:
        return ""
    if session.objective.contrast is not None and not session.measurable:
        return "with a contrast that is done for texts that one encoder or decoder reads"
    try:
        adapter.filler()
    except InputError as error:
        return str(error)
    if session.size > tokens and not is_cheap(adapter, session.size):
        return f"the model would have to run once without each of {session.size} {_noun(session)}"
    return None


def _can_check(session: Session) -> bool:
    """Whether it is known what blanking a token is: an image among a text has no filler."""
    adapter = session.adapter
    return adapter.erases and (adapter.has_grid or session.tokens.grid is None)


def _noun(session: Session) -> str:
    return "tokens" if session.tokens.grid is None else "patches"


def check_by_blanking(session: Session, tokens: int = 0) -> BlankingCheck | None:
    """What the model says without each word; ``None`` where `why_unchecked` says why.

    Blanking runs the model once for each token, and for each word of several.
    """
    if why_unchecked(session, tokens) is not None:
        return None
    if BlankingCheck not in session.cache:
        contrast = session.objective.contrast is not None
        session.cache[BlankingCheck] = (_check_contrast if contrast else _check)(session)
    found: BlankingCheck = session.cache[BlankingCheck]
    return found


def _check(session: Session) -> BlankingCheck:
    words = session.groups
    # One run for this and for all who ask later what is predicted without a token.
    alone = tuple((at,) for at in range(session.size))
    able = frozenset(session.blanking.positions)
    groups = dict.fromkeys((*alone, *words))
    if not session.measurable:  # the answer so far and CLS tokens stay
        groups = {group: None for group in groups if able.issuperset(group)}
    rows = session.blanking.without(tuple(groups))
    adapter, whole = session.adapter, rows[()]
    index, _ = find_outputs(adapter, session.objective, whole)
    name_of = cache(adapter.output_name)
    name, before = name_of(index), float(whole[index])
    independent = independent_labels(adapter.description)

    def answer(row: Tensor) -> str:
        """The answer; of a label that is independent of the others, whether the input has it."""
        if not independent:
            return name_of(int(row.argmax()))
        return name if has_label(float(row[index])) else f"not {name}"

    def removal(group: tuple[int, ...]) -> Removal | None:
        row = rows.get(group)
        return None if row is None else Removal(float(row[index]) - before, answer(row))

    position = session.target_position if session.measurable else session.query
    target = Target(index, name, position, session.prediction)
    falls = np.array([before - float(rows.get(group, whole)[index]) for group in alone])
    known = {"falls": falls.tolist()}
    scores = make_attribution(
        adapter, session.tokens, target, np.abs(falls), MEMBER.name, {}, known
    )
    removed = [removal(group) for group in words]
    if session.config.words:
        of_words = [0.0 if each is None else abs(each.change) for each in removed]
        scores = merge_words(scores, np.array(of_words)[None, None])
    else:
        removed = [each for group, each in zip(words, removed, strict=True) for _ in group]
    places = None
    if not session.measurable:
        places = tuple(at for at, each in enumerate(removed) if each is not None)
    return BlankingCheck(scores, name, before, answer(whole), tuple(removed), places=places)


def _check_contrast(session: Session) -> BlankingCheck:
    """What becomes of the choice between two answers without each word."""
    scores = session.attribution(MEMBER.name)
    words = session.measured(MEMBER, words=True)
    target, contrast = (str(scores.options[name]) for name in ("target", "contrast"))
    difference = float(words.statistics["probability"])  # of logits
    before, predicted = _share(difference), session.adapter.predicted(session.tokens)

    def removal(group: tuple[int, ...], fall: float) -> Removal | None:
        if predicted.issuperset(group):
            return None
        after = difference - fall
        return Removal(_share(after) - before, target if after > 0 else contrast)

    removed = [
        removal(group, float(fall))
        for group, fall in zip(session.groups, words.statistics["falls"], strict=True)
    ]
    if not session.config.words:
        pairs = zip(session.groups, removed, strict=True)
        removed = [each for group, each in pairs for _ in group]
    likelier = target if difference > 0 else contrast
    return BlankingCheck(scores, target, before, likelier, tuple(removed), contrast)


def _share(difference: float) -> float:
    """How likely the first of two answers is, by the difference of their logits."""
    return 1 / (1 + math.exp(-difference)) if difference > -MOST_LOGITS else 0.0


def read_blank_out(of: Attribution) -> BlankingCheck | None:
    """What the scores of blank-out say themselves; ``None`` for those of other methods."""
    falls, before = of.statistics.get("falls"), of.statistics.get("probability")
    contrast = of.options.get("contrast")
    if of.method != MEMBER.name or not falls or contrast is not None or of.prediction is None:
        return None
    # One piece of a word says nothing of the whole word.
    whole = [len(group) == 1 for group in of.groups for _ in group]
    removals = tuple(
        Removal(-float(fall)) if alone else None for fall, alone in zip(falls, whole, strict=True)
    )
    target = str(of.options.get("target", of.prediction.label))
    return BlankingCheck(of, target, float(before or 0.0), of.prediction.label, removals)
