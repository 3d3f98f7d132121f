"""What was found: what the model said, and which words it came from.

One `Finding` is made of an attribution; terminal, page, notebook and file show the same words. Its
parts say which of them are tokens, so that each view sets them apart in its own way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attnflow.evaluation.blanking_check import BlankingCheck, read_blank_out
from attnflow.records import Attribution, FloatArray
from attnflow.records.rounding import round_scores
from attnflow.records.selection import input_positions
from attnflow.views.claims import MOST_NAMED, Part
from attnflow.views.methods import method_info
from attnflow.views.sentences import Wording, is_ratio


@dataclass(frozen=True)
class Finding:
    """What an attribution says, in words.

    Attributes:
        parts: The sentence in pieces.
        method: The method that found it.
        ranked: The tokens of the input, the highest-scored first; ties as ``ties`` says.
        order: The same without the position that is explained, which the residual favours.
        tied: How many of them share the highest score; 1 where it is one token's own.
        ties: What orders tokens that share a score: a method, or ``"text"``.
        notes: What a reader must know of the scores themselves, in sentences.
        alternative: A method that tells such tokens apart; empty where there is no need.
        evidence: What happens to the answer without the words that matter; empty where the model
            was not run without them.
    """

    parts: tuple[Part, ...]
    method: str
    ranked: tuple[int, ...]
    order: tuple[int, ...]
    tied: int
    ties: str
    notes: tuple[str, ...] = ()
    alternative: str = ""
    evidence: str = ""

    @property
    def sentence(self) -> str:
        """The sentence as plain text, tokens in quotation marks.

        >>> import attnflow
        >>> find(attnflow.explain("the keys to the cabinet", "verbs", method="rollout")).sentence
        'The number of the verb that comes next: plural; rollout points to “keys”.'
        """
        return "".join(f"“{p.text}”" if p.position is not None else p.text for p in self.parts)


def rank(attribution: Attribution, ties: Attribution | None = None) -> list[int]:
    """Tokens of the input, the highest-scored first; heads are averaged.

    Scores that differ by rounding alone are equal: such tokens are in the order of ``ties``, the
    scores of another method, and then in that of the text.
    """
    places = input_positions(attribution.word_ids, attribution.segments, len(attribution.tokens))
    places = places or list(range(len(attribution.tokens)))
    values = round_scores(merged_scores(attribution))
    seconds = np.zeros_like(values) if ties is None else round_scores(merged_scores(ties))
    return sorted(places, key=lambda at: (-values[at], -seconds[at], at))


def find(
    attribution: Attribution,
    ties: Attribution | None = None,
    check: BlankingCheck | None = None,
) -> Finding:
    """What an attribution says.

    ``ties`` is another of the same tokens, which orders ties; ``check`` what blanking says of the
    answer: without it, no word is claimed to speak for the answer or against it.
    """
    info = method_info(attribution.method)
    own = None if attribution.pooled or not info.layered else attribution.query
    everything = rank(attribution, ties)
    # The residual connection favours the position that is explained, whatever it says.
    order = [at for at in everything if at != own] or everything
    scores = merged_scores(attribution)
    rounded = round_scores(scores)
    tied = sum(rounded[at] == rounded[order[0]] for at in order) if scores[order[0]] > 0 else 1
    by = "text" if ties is None else ties.method
    full = info.full is not None and _is_full(attribution, float(scores[order[0]]), info.full)
    left_out = own if len(order) < len(everything) else None
    check = read_blank_out(attribution) if check is None else check
    words = Wording(attribution, order, scores, int(tied), by, left_out, check)
    return Finding(
        parts=tuple(words.sentence()),
        method=attribution.method,
        ranked=tuple(everything),
        order=tuple(order),
        tied=int(tied),
        ties=by,
        notes=tuple(words.notes(full=full)),
        alternative=info.alternative if tied > MOST_NAMED or words.flat else "",
        evidence=words.evidence(),
    )


def merged_scores(attribution: Attribution) -> FloatArray:
    """One score per token, heads averaged."""
    values = attribution.values
    merged: FloatArray = values if values.ndim == 1 else values.mean(0)
    return merged


def _is_full(attribution: Attribution, score: float, full: float) -> bool:
    """Whether a score is the highest there can be; ratios and shares have no such limit."""
    changed = is_ratio(attribution) or attribution.options.get("normalize")
    return not changed and abs(score - full) < 1e-9
