"""A whole answer as the document that the page shows: prompt and answer side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from typing_extensions import TypedDict

from attnflow.records.contrast import Contrast
from attnflow.records.generation import Generation
from attnflow.records.selection import words_of_tokens
from attnflow.version import VERSION
from attnflow.views.explorer.parts import (
    describe_method,
    describe_rule,
    model_name,
    predictions,
)
from attnflow.views.explorer.schema import Array, MethodDescription, PredictedLabel, Rule, pack
from attnflow.views.wording.answers import conclude
from attnflow.views.wording.labels import printable
from attnflow.views.wording.names import info_of, unit_note

FORMAT = "attnflow-generation/2"
MOST_SCORES = 2_000_000  # of a longer prompt and answer, parts alone are shown


class PartDescription(TypedDict):
    """Tokens under one name; ``role`` is "source", "instructions", "question" and so on.

    ``drop`` is its number among the parts that can be deleted, if it is one of them.
    """

    name: str
    role: str
    drop: int | None
    positions: list[int]


class Other(TypedDict):
    """Another answer, which the answer is compared with; ``drops`` are those of all its tokens."""

    text: str
    log_probability: float
    drops: list[float] | None


class Written(TypedDict):
    """A prompt, its answer, and where each piece of the answer came from.

    ``tokens`` are prompt, then answer, as they stand in the texts, blanks before them included, and
    ``labels`` the same without characters that break a layout. ``answer`` are the positions of the
    answer's tokens; ``stopped`` stands behind them where the model had more to say. ``pieces`` are
    the explained pieces of the answer, each where it starts and ends among these tokens: row k of
    the scores is about the k-th of them. ``words`` are the tokens, by their numbers, that are
    chosen together: those of a piece, or of a word where each token is a piece. ``scores`` are
    ``[piece, token]``, ``null`` where parts alone were scored; ``part_scores`` ``[piece, part]``;
    ``unit`` says what they are sums of, if that has a size. ``drops`` are ``[answer, named part]``:
    by how much the log-probability of each token falls without the part. ``found`` is what may be
    concluded of the answer, ``found_each`` of each of ``words``. ``ordinary`` are the positions of
    tokens that are not special, which set the colour scale.
    """

    text: str
    answer_text: str
    stopped: str
    model: str
    head: str
    method: MethodDescription
    rule: Rule
    layer: int
    depth: int
    through: str
    unit: str
    tokens: list[str]
    labels: list[str]
    ordinary: list[int]
    answer: list[int]
    pieces: list[list[int]]
    words: list[list[int]]
    found: str
    found_each: list[str]
    contrast: Other | None
    parts: list[PartDescription]
    scores: Array | None
    part_scores: Array
    drops: Array | None
    probabilities: list[float]
    said: list[list[PredictedLabel]]
    notes: list[str]


@final
class GenerationDocument(TypedDict):
    """One answer."""

    format: str
    library: str
    generation: Written


def generation_document(of: Generation) -> GenerationDocument:
    """The document of a generation."""
    said = of.statistics.get("model")
    model: Mapping[str, Any] = said if isinstance(said, Mapping) else {}
    edges = str(of.options.get("edges", "attention"))
    ratio = of.ratios
    shown = of.scores is not None and of.scores.size <= MOST_SCORES
    signed = info_of(of).signed or bool((of.part_scores < 0).any())
    described = describe_method(of.method, edges=edges, ratio=ratio)
    notes = list(of.warnings)
    if of.scores is not None and not shown:
        notes.append("the prompt is long: what parts gave is shown, and not each token")
    ids = of.word_ids or range(len(of.tokens))
    words = _words(of)
    # A word is several pieces where each token is one.
    spans = words if len(of.pieces) == len(of.answer) else range(len(words))
    written: Written = {
        "text": of.text,
        "answer_text": of.answer_text,
        "stopped": of.stopped,
        "model": model_name(of.model),
        "head": str(model.get("head", "")),
        "method": {**described, "first": True, "signed": signed},
        "rule": describe_rule(edges),
        "layer": of.layer,
        "depth": of.depth,
        "through": str(of.options.get("through", "tokens")),
        "unit": unit_note(of.method, of.options),
        "tokens": _as_they_stand(of),
        "labels": _labels(of),
        "ordinary": [at for at, word in enumerate(ids) if word is not None],
        "answer": list(of.answer),
        "pieces": [list(piece) for piece in of.pieces],
        "words": words,
        "found": conclude(of),
        "contrast": _other(of.contrast),
        "found_each": [conclude(of, rows) for rows in spans],
        "parts": [
            {
                "name": part.name,
                "role": part.role,
                "drop": of.named.index(part) if part.named else None,
                "positions": list(part.positions),
            }
            for part in of.parts
        ],
        "scores": pack(of.scores) if shown else None,
        "part_scores": pack(of.part_scores),
        "drops": None if of.drops is None else pack(of.drops),
        "probabilities": [float(each) for each in of.probabilities],
        "said": [predictions(each) for each in of.predictions],
        "notes": [f"{note[0].upper()}{note[1:]}" for note in notes if note],
    }
    return {"format": FORMAT, "library": VERSION, "generation": written}


def _labels(of: Generation) -> list[str]:
    """What tokens are called; a piece of a word with the whole word."""
    words = words_of_tokens(of.word_ids, of.word_texts) or (None,) * len(of.tokens)
    return [
        printable(f"{token} ({word})" if word and _is_piece(token, word) else token)
        for word, token in zip(words, of.tokens, strict=True)
    ]


def _is_piece(token: str, word: str) -> bool:
    return any(map(str.isalnum, token)) and token.strip() != word.strip()


def _other(contrast: Contrast | None) -> Other | None:
    if contrast is None:
        return None
    drops = None if contrast.drops is None else list(contrast.drops)
    return {
        "text": contrast.text,
        "log_probability": contrast.log_probability,
        "drops": drops,
    }


def _as_they_stand(of: Generation) -> list[str]:
    """Tokens with the blanks before them; without spans, their names with a blank between."""
    if of.spans is None:
        return [f" {token}" for token in of.tokens]
    found, answer, before = [], set(of.answer), 0
    for at, (token, (start, end)) in enumerate(zip(of.tokens, of.spans, strict=True)):
        text = of.answer_text if at in answer else of.text
        if at in answer and at - 1 not in answer:
            before = 0
        piece = text[before:end] if end > start else ""
        found.append(piece if piece.strip() or end > start else f" {token} ")
        before = max(before, end)
    return found


def _words(of: Generation) -> list[list[int]]:
    """The tokens of each piece; where pieces are tokens, of each word, or a token without one."""
    if len(of.pieces) < len(of.answer):
        return [list(range(*piece)) for piece in of.pieces]
    groups: list[list[int]] = []
    last: int | None = None
    for row, at in enumerate(of.answer):
        word = None if of.word_ids is None else of.word_ids[at]
        if word is None or word != last or not groups:
            groups.append([])
        groups[-1].append(row)
        last = word
    return groups
