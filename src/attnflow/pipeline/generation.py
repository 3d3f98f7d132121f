"""Where a whole answer came from: a row of scores for each sentence of it, or for each token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from attnflow.edges import EDGE_RULES
from attnflow.errors import InputError, Interrupted, shown
from attnflow.io.units import Unit
from attnflow.methods import METHODS
from attnflow.methods.erasing import DELETE, erase
from attnflow.methods.method import inexact
from attnflow.methods.question import no_progress
from attnflow.models.answers.interface import Answers, answer_positions
from attnflow.models.answers.logged import without_open
from attnflow.models.answers.pieces import NO_SENTENCES, SENTENCES, WHOLE, check_each, cut_answer
from attnflow.models.answers.prompts import Prompt
from attnflow.models.text.answers import shared_start
from attnflow.models.text.edits import answer_notices
from attnflow.models.text.writing import Writing
from attnflow.options.option import refuse_all
from attnflow.options.tables import ANSWER as EXPLAIN_ANSWER
from attnflow.pipeline.answers import (
    PROMPT,
    AnswerSession,
    Divergence,
    check_through,
    open_answer,
    rows_through_prompt,
)
from attnflow.pipeline.prepare import check_model, read_parts
from attnflow.pipeline.request import LOGIT, Request, is_auto
from attnflow.pipeline.session import Advance
from attnflow.records import FloatArray
from attnflow.records.arrays import ratio, to_numpy
from attnflow.records.contrast import Contrast
from attnflow.records.generation import Generation
from attnflow.records.parts import ANSWER, SOURCE, Part
from attnflow.records.selection import Groups

if TYPE_CHECKING:
    from attnflow.models.adapter import Tokens

CHAT = "chat_template"
UNTOLD = (
    "no chat template was applied, and the model may go on with the text instead of answering it: "
    "as a chat, the prompt is messages, [{'role': 'user', 'content': …}]; in a terminal: --chat"
)


# Parts that are deleted where nobody says: each takes a forward pass, and a few are about as much
# work as the scores. Without them a conclusion could only repeat what scores claim.
MOST_DELETED = 12


# In forward passes: to open a session, and for the backward pass and the flow of a piece.
OPENING, EACH_ROW = 2, 2


@dataclass(frozen=True)
class AnswerConfig:
    """What is asked about a whole answer, beside how its scores are computed.

    Attributes:
        writing: How the answer is written, or the answer.
        parts_only: Whether parts alone are scored, and not each token.
        through: Where scores end: at ``"tokens"``, or in the ``"prompt"``.
        deletions: Whether each named part is deleted to see what becomes of the answer; ``None``
            for two to `MOST_DELETED` of them.
        each: The pieces of the answer that have a row each (`cut_answer`).
    """

    writing: Writing = Writing()  # noqa: RUF009 - frozen
    parts_only: bool = False
    through: str = "tokens"
    deletions: bool | None = None
    each: str = SENTENCES


def explain_answer(
    prompt: Prompt,
    answers: Answers,
    config: Request,
    asked: AnswerConfig,
    advance: Advance = no_progress,
) -> Generation:
    """Where an answer came from, by the first method."""
    return explain_by_each(prompt, answers, replace(config, methods=()), asked, advance)[0]


def explain_by_each(
    prompt: Prompt,
    answers: Answers,
    config: Request,
    asked: AnswerConfig,
    advance: Advance = no_progress,
) -> list[Generation]:
    """Where one answer came from, by each method.

    `Interrupted` has what was finished, where work is interrupted after the first piece.
    """
    check_each(asked.each)
    configs = [replace(config, method=method, contrast=None) for method in config.asked]
    refuse_all(config, EXPLAIN_ANSWER, "answers")
    for each in configs:
        check_through(each, asked.through)
        _check_method(each, answers)
    check_model(answers.model, config)
    tokens, parts = read_parts(answers, prompt, config)
    if any(not is_auto(name) and not METHODS[name].reads_edges for name in config.asked):
        answers.model.decision(tokens)  # an error where there is no probability to measure by
    whole = write_behind(tokens, prompt, answers, config, asked.writing)
    if whole.spans is None and asked.each in get_args(Unit):
        whole = replace(whole, notices=(*whole.notices, NO_SENTENCES))
    answer = tuple(range(len(tokens), len(whole)))
    parts = (*parts, Part("answer", answer, ANSWER))
    deleted = _deleted(parts, asked.deletions)
    other = _read_contrast(prompt, tokens, whole, answers, config.contrast, asked)
    choice = None if other is None else _find_choice(whole, other)
    pieces = cut_answer(whole, asked.each if choice is None else WHOLE)
    deletions = _deletions(deleted) * (1 if other is None else 2)
    opening, each_row = OPENING, EACH_ROW
    rows = opening + each_row * len(pieces)
    total = deletions + rows * len(configs)
    # First, since parts that can't be deleted are refused before long work.
    measured = _measure(
        *(answers, whole, other, choice, parts, deleted),
        lambda share: advance(share * deletions / total),
    )
    found: list[Generation] = []
    for number, config in enumerate(configs):

        def within(share: float, before: int = deletions + rows * number + opening) -> None:
            advance((before + share * each_row * len(pieces)) / total)

        opened = open_answer(
            *(whole, answers, config),
            pieces=pieces,
            choice=choice,
            through=asked.through == PROMPT,
            check=asked.writing.check,
        )
        within(0.0)
        made = make_generation(opened, parts, asked, within)
        found.append(replace(made, **measured))
        if not found[-1].complete:
            raise Interrupted(found)
    return found


def make_generation(
    found: AnswerSession, parts: Sequence[Part], asked: AnswerConfig, advance: Advance
) -> Generation:
    """The record of an answer's scores."""
    groups = tuple(part.positions for part in parts)
    keys: list[Groups | None] = [groups] if asked.parts_only else [groups, None]
    if asked.through == PROMPT:
        rows = rows_through_prompt(found, keys, advance)
    else:
        rows = found.rows(keys, advance)
    first = rows[1].values if len(rows) > 1 else _first_row(found, parts, rows[0].values)
    _refuse_reading_ahead(found, first)
    values = [_finished(found, found.in_pieces(each.values)) for each in rows]
    pieces = found.pieces[: len(values[0])]
    tokens, config, model = found.tokens, found.config, found.adapter
    statistics: dict[str, Any] = dict(rows[-1].statistics)
    warnings = [*found.warnings, *inexact([each.statistics for each in rows])]
    if len(pieces) < len(found.pieces):
        done = f"{len(pieces)} of {len(found.pieces)} {asked.each} of the answer"
        warnings.insert(0, f"interrupted: {done} are explained")
        statistics["all_pieces"] = len(found.pieces)
    if warnings:
        statistics["warnings"] = warnings
    about = {**model.description, "causal": found.causal}
    return Generation(
        **tokens.about_input,
        answer=found.positions,
        scores=None if asked.parts_only else values[1],
        part_scores=values[0],
        log_probabilities=to_numpy(found.whole.log_probabilities),
        predictions=found.whole.predictions,
        parts=tuple(parts),
        method=config.method,
        layer=found.layer,
        depth=model.depth,
        options=_describe(found, asked),
        model=model.name,
        answer_text=tokens.answer or "",
        spans=tokens.spans,
        statistics={**statistics, "model": about},
        cut_at=tokens.cut_at,
        pieces=pieces,
    )


def log_probabilities_without(
    answers: Answers,
    tokens: Tokens,
    sets: Sequence[Sequence[int]],
    advance: Advance = no_progress,
) -> list[FloatArray]:
    """``[answer]`` for each set: the answer's log-probabilities after a prompt without its tokens.

    One forward pass per set. The answer stays what it was; what stood after a part moves up.
    """
    size = len(tokens.inputs["input_ids"])
    size -= len(answer_positions(tokens)) if "decoder_input_ids" not in tokens.inputs else 0
    if any(len(each) >= size for each in sets):
        msg = (
            "without this part nothing is left of the prompt, and no answer can be asked for; name "
            "parts of the prompt with parts=, or leave out deletions"
        )
        raise InputError(msg)
    found = erase(
        answers.model,
        [(tokens, each) for each in sets],
        DELETE,
        lambda _, erased, __: answers.log_probabilities(erased),
        batch_size=1,
        advance=advance,
    )
    return [to_numpy(each) for each in found]


def measure_drops(
    answers: Answers, tokens: Tokens, parts: Sequence[Part], advance: Advance
) -> FloatArray:
    """``[answer, part]``: how much lower each token's log-probability is without each part."""
    sets = [(), *(part.positions for part in parts)]
    whole, *others = log_probabilities_without(answers, tokens, sets, advance)
    return np.stack([whole - each for each in others], axis=-1)


def passes_of(parts: Sequence[Part], asked: AnswerConfig, pieces: int) -> int:
    """How many forward passes an answer takes about, once it is written."""
    return _deletions(_deleted(parts, asked.deletions)) + OPENING + EACH_ROW * pieces


def _deletions(deleted: Sequence[Part]) -> int:
    """One pass for each deletion, and one for the answer as it is."""
    return len(deleted) + 1 if deleted else 0


def _deleted(parts: Sequence[Part], deletions: bool | None) -> list[Part]:
    """What is deleted, one at a time: the parts with a name, and all sources together."""
    named = [part for part in parts if part.named]
    if not deletions and (deletions is not None or not 2 <= len(named) <= MOST_DELETED):
        return []
    sources = [part for part in named if part.role == SOURCE]
    every = tuple(sorted(at for part in sources for at in part.positions))
    left = sum(len(part.positions) for part in parts if part.role != ANSWER) - len(every)
    return [*named, *([Part("sources", every)] if len(sources) > 1 and left else [])]


# -- Contrasts: what speaks for this answer and not for another one.
#
# The two begin with the same tokens, if with any: up to there nothing is to be explained. Where
# they part, the model chose one token rather than another: scores are of the difference between
# the two logits at this position. Deletions are measured by both answers as wholes.


def _read_contrast(
    prompt: Prompt,
    tokens: Tokens,
    whole: Tokens,
    answers: Answers,
    contrast: str | int | None,
    asked: AnswerConfig,
) -> Tokens | None:
    """The prompt with the other answer."""
    if contrast is None:
        return None
    if asked.through == PROMPT:
        msg = "contrast= explains one choice, which through='prompt' has no meaning for"
        raise InputError(msg)
    text = str(contrast)
    if not text.strip():
        msg = f"contrast={shown(contrast)} must be a text: another answer to the prompt"
        raise InputError(msg)
    given, ids = asked.writing.text is not None, _answer_ids(whole)
    if not given and whole.answer and whole.answer[0].isspace() and not text[:1].isspace():
        text = whole.answer[: len(whole.answer) - len(whole.answer.lstrip())] + text
    other = answers.write(tokens, _behind(prompt, answers, Writing(text=text)))
    shared = shared_start(ids, _answer_ids(other))
    if shared == min(len(ids), len(_answer_ids(other))):
        how = "is the answer itself" if len(ids) == len(_answer_ids(other)) else "only continues it"
        if shared < len(ids):
            how = "is how the answer begins"
        msg = f"contrast={shown(contrast)} {how}: {whole.answer!r}; give another answer"
        raise InputError(msg)
    return other


def _answer_ids(tokens: Tokens) -> list[int]:
    """The ids of the answer's tokens."""
    count = len(answer_positions(tokens))
    inputs = tokens.inputs
    return list(inputs.get("decoder_input_ids", inputs["input_ids"]))[-count:]


def _find_choice(whole: Tokens, other: Tokens) -> Divergence:
    first, second = _answer_ids(whole), _answer_ids(other)
    number = shared_start(first, second)
    return Divergence(number, second[number])


def _measure(  # noqa: PLR0913 - two answers, and what is deleted of their prompt
    answers: Answers,
    whole: Tokens,
    other: Tokens | None,
    choice: Divergence | None,
    parts: Sequence[Part],
    deleted: Sequence[Part],
    advance: Advance,
) -> dict[str, Any]:
    """What deletions do to the answer, and how likely the other one is."""
    half = 1.0 if other is None else 0.5
    first = _drops(answers, whole, parts, deleted, lambda share: advance(half * share))
    found: dict[str, Any] = {"drops": first[0], "without_sources": first[1]}
    if other is None or choice is None:
        return found
    (known,) = answers.log_probabilities([other])
    drops, without = _drops(
        *(answers, other, parts, deleted), lambda share: advance(half + half * share)
    )
    found["contrast"] = Contrast(
        other.answer or "",
        tuple(other.names[at] for at in answer_positions(other)),
        choice.number,
        tuple(known.tolist()),
        None if drops is None else tuple(drops.sum(0).tolist()),
        None if without is None else float(without.sum()),
    )
    return found


def _drops(
    answers: Answers,
    tokens: Tokens,
    parts: Sequence[Part],
    deleted: Sequence[Part],
    advance: Advance,
) -> tuple[FloatArray | None, FloatArray | None]:
    """What each token of an answer loses without each part, and without all sources."""
    if not deleted:
        return None, None
    count = sum(part.named for part in parts)
    values = measure_drops(answers, tokens, deleted, advance)
    return values[:, :count], values[:, -1] if len(deleted) > count else None


def _finished(found: AnswerSession, values: FloatArray) -> FloatArray:
    return ratio(values, values.sum(-1, keepdims=True)) if found.config.normalize else values


def _check_method(config: Request, answers: Answers) -> None:
    """Refuse a method that has no scores of answers, before anything is written."""
    member = None if is_auto(config.method) else METHODS[config.method]
    if member is None or not member.reads_edges:
        return
    if answers.model.has_source:
        member.check_pairs()
    edges = member.edges if is_auto(config.edges) else config.edges
    # Gradients of one prediction are 0 at the positions behind it.
    if member.everywhere and not EDGE_RULES[edges].needs.gradients:
        raise _reads_ahead(member.name, edges)


def _refuse_reading_ahead(found: AnswerSession, values: FloatArray) -> None:
    """Refuse a method that scores tokens which were not there yet."""
    for row, (_, end) in zip(values, found.targets, strict=False):
        if row[found.positions[end - 1] :].any():
            raise _reads_ahead(found.config.method, found.config.edges)


def _reads_ahead(method: str, edges: str) -> InputError:
    msg = (
        f"method={method!r} with edges={edges!r} reads all positions, even those after a token of "
        "the answer; choose a method that starts at one position, such as 'direct' or 'rollout'"
    )
    return InputError(msg)


def _first_row(found: AnswerSession, parts: Sequence[Part], scores: FloatArray) -> FloatArray:
    """What the answer's first token has from the answer, where tokens have no scores: ``[1, key]``.

    Measures read the text before a token alone, and what starts at a logit does so at its position.
    """
    values = np.zeros((1, len(found.tokens)))
    if found.handed_back:
        return values  # no gradient leads to what comes later
    if parts[-1].positions == found.positions:  # an encoder–decoder has a token to start with, too
        values[0, found.positions[0]] = scores[0, -1]
    elif found.method.reads_edges and found.config.source != LOGIT:
        queries = (found.positions[0] - 1,)
        own = found.scores(found.config.method, (found.layer,), queries, groups=(found.positions,))
        values[0, found.positions[0]] = own.values[0, 0, 0]
    return values


def _describe(found: AnswerSession, asked: AnswerConfig) -> dict[str, Any]:
    """The options that the answer and its scores were made with."""
    writing, config = asked.writing, found.config
    if found.method.reads_edges:
        options = found.describe(config.method)
        options.pop("target", None)
    else:
        options = {"normalize": config.normalize}
    own = {"generate": writing.length} if writing.text is None else {"answer_given": True}
    drawn = {"sampling": dict(writing.sampling)} if writing.sampling else {}
    seed = {} if writing.seed is None else {"seed": writing.seed}
    decided = found.tokens.decoding
    kept = {"decoding": dict(decided)} if decided else {}
    return {**options, **own, **drawn, **seed, **kept, "through": asked.through, "each": asked.each}


def write_behind(
    tokens: Tokens, prompt: Prompt, answers: Answers, config: Request, writing: Writing
) -> Tokens:
    """A prompt with its answer, and notices of how it was asked."""
    whole = answers.write(tokens, _behind(prompt, answers, writing))
    if prompt.special and writing.text is None and getattr(answers.tokenizer, CHAT, None):
        whole = replace(whole, notices=(*whole.notices, UNTOLD))
    added = answer_notices(answers, whole, config)
    return replace(whole, notices=(*whole.notices, *added)) if added else whole


def _behind(prompt: Prompt, answers: Answers, writing: Writing) -> Writing:
    """What is written, with the blanks that a chat template puts before a given answer."""
    if not isinstance(writing.text, str) or answers.model.has_source:
        return writing
    text = without_open(writing.text, prompt.text)
    return replace(writing, text=text if text[:1].isspace() else prompt.blanks + text)
