"""Parts of a view that sessions and attributions have in common."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attnflow.io.units import split_units
from attnflow.methods import METHODS
from attnflow.records import Attribution, PatchGrid, Prediction
from attnflow.records.selection import word_groups
from attnflow.views.explorer.schema import (
    FindingPart,
    FoundByMethod,
    Grid,
    LabelledTokens,
    MethodDescription,
    PredictedLabel,
    Rule,
    WordGroups,
)
from attnflow.views.wording.findings import Finding
from attnflow.views.wording.labels import UNKNOWN, printable
from attnflow.views.wording.names import method_info, rule_title, titled, unit_note
from attnflow.views.wording.numbers import as_sentence
from attnflow.views.wording.verdicts import Phrase

if TYPE_CHECKING:
    from attnflow.models.adapter import Tokens

IN_LOGITS = "scores are in logits"
Spans = Sequence[tuple[int, int]]


def model_name(name: str) -> str:
    """A model's name without the folders that it was loaded from."""
    path = Path(name)
    return "/".join(path.parts[-2:]) if path.is_absolute() else name


def describe_method(name: str, *, edges: str, ratio: bool) -> MethodDescription:
    """What the page needs to know about a method; a ratio is one to what chance would give."""
    info = method_info(name, edges)
    member = METHODS.get(name)
    reads = member is None or member.reads_edges
    return {
        "name": info.name.replace(" ", "-"),
        "method": name,
        "edges": edges if reads else "",
        "unit": "logits" if unit_note(name, {"edges": edges}).startswith(IN_LOGITS) else "",
        "title": titled(info, name, edges),
        "label": info.label,
        "summary": info.summary,
        "first": info.shown_by_default,
        "slot": info.slot,
        "reaches_input": info.reaches_input,
        "traced": info.traced,
        "tie_breaker": info.tie_breaker,
        "layered": info.layered,
        "signed": info.signed,
        "ratio": ratio,
    }


def describe_rule(name: str) -> Rule:
    """What the edges are made of."""
    return {"name": name, "title": rule_title(name)}


def describe_findings(
    findings: Iterable[Finding],
    places: Iterable[tuple[int, int]],
    groups: Sequence[Sequence[int]] = (),
) -> list[FoundByMethod]:
    """Findings at these layers and positions as plain data.

    ``groups`` are the words, where words are explained.
    """
    findings = list(findings)
    notes = {note: as_sentence(note) for note in {n for found in findings for n in found.notes}}
    return [
        {
            "method": found.name.replace(" ", "-"),
            "layer": layer,
            "query": query,
            "parts": [_part(part, groups) for part in found.parts],
            "evidence": found.evidence,
            "notes": [notes[note] for note in found.notes],
            "tied": found.tied,
            "alternative": found.alternative,
        }
        for found, (layer, query) in zip(findings, places, strict=True)
    ]


def _part(part: Phrase, groups: Sequence[Sequence[int]]) -> FindingPart:
    at = part.position
    made: FindingPart = {"text": part.text, "role": part.role}
    if at is not None:
        made["at"] = groups[at][0] if groups else at
    return made


def first_key(order: Sequence[int], tokens: Sequence[str], of: Tokens | Attribution) -> int:
    """The token that is traced at first: of those in this order, the first word of the input.

    A full stop may have the highest score, and says nothing.
    """
    source = [at for at in order if of.segments is None or of.segments[at] != "target"]
    words = [at for at in source if any(letter.isalnum() for letter in tokens[at])]
    return next(iter([*words, *source, *order]), 0)


def make_notes(warnings: Sequence[str], pooled: int, first: str) -> list[str]:
    """What a reader must know: about the model, and about where it decides."""
    notes = [as_sentence(each) for each in warnings]
    if not pooled:
        return notes
    mean = (
        f"This model decides from the mean of {pooled} positions; the page shows one at a time, "
        f"{printable(first)} at first."
    )
    return [*notes, mean]


def predictions(prediction: Prediction | None) -> list[PredictedLabel]:
    """A prediction as plain data, the most likely first."""
    if prediction is None:
        return []
    pairs = prediction.alternatives or ((prediction.label, prediction.probability),)
    return [{"label": label, "probability": float(share)} for label, share in pairs]


def label_tokens(names: Sequence[str], of: Tokens | Attribution) -> LabelledTokens:
    """Tokens and words with their labels, and how they stand in the text where that is known."""
    spans = _spans(of)
    return {
        "tokens": list(names),
        "labels": written_labels(names, of),
        "words": None if of.word_ids is None else _words(names, of.word_ids, of.word_texts),
        "segments": None if of.segments is None else list(of.segments),
        "spans": None if spans is None else [list(span) for span in spans],
        "sentences": [] if spans is None else _sentences(of.text, spans),
    }


def written_labels(names: Sequence[str], of: Tokens | Attribution) -> list[str]:
    """The labels of tokens; that of an unknown one is what the text has there."""
    found = list(names)
    for at, (start, end) in enumerate(_spans(of) or ()):
        if UNKNOWN.fullmatch(found[at]) and of.text[start:end].strip():
            found[at] = of.text[start:end]
    return [printable(name) for name in found]


def _spans(of: Tokens | Attribution) -> Spans | None:
    return getattr(of, "spans", None) if of.segments is None else None


def _sentences(text: str, spans: Spans) -> list[list[int]]:
    """The tokens of each sentence; none of a text of one."""
    starts = [start for start, _ in split_units(text)]
    found: list[list[int]] = [[] for _ in starts]
    for at, (start, end) in enumerate(spans):
        if end > start:
            first = start + len(text[start:end]) - len(text[start:end].lstrip())
            found[max(0, bisect_right(starts, first) - 1)].append(at)
    kept = [positions for positions in found if positions]
    return kept if len(kept) > 1 else []


def _words(names: Sequence[str], ids: Sequence[int | None], texts: Sequence[str]) -> WordGroups:
    groups = word_groups(ids)
    words = [ids[group[0]] for group in groups]
    return {
        "groups": [list(group) for group in groups],
        "labels": [
            printable(names[group[0]] if word is None else texts[word])
            for group, word in zip(groups, words, strict=True)
        ],
    }


def to_grid(grid: PatchGrid | None) -> Grid | None:
    """How patches lie on an image, as fractions of its size."""
    if grid is None:
        return None
    height, width = grid.image
    left, top, right, bottom = grid.box
    return {
        "rows": grid.rows,
        "columns": grid.columns,
        "box": [left / width, top / height, right / width, bottom / height],
        "seconds": grid.seconds,
    }
