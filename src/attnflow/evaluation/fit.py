"""Learning heads: one weight per layer and head that predicts what blanking tokens out does.

A token's prediction is Σ w · (what the explained position reads from it), over layers and heads;
the truth is how far the log-probability of the model's answer drops without the token. The weights
are those of a non-negative ridge regression, texts centred, on some of the texts; the figures are
of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol

import numpy as np

from attnflow.edges import EDGE_RULES
from attnflow.errors import InputError, shown
from attnflow.evaluation.agreement import spearman
from attnflow.evaluation.importance import blank_out
from attnflow.io.checkpoint import Checkpoint, alone_in
from attnflow.io.files import GO_ON, check_target, digest, write_file
from attnflow.io.inputs import as_list, check_unicode
from attnflow.io.progress import progress_bar
from attnflow.models.loading import load_model
from attnflow.models.text.tokens import check_texts
from attnflow.models.weights import settings_digest, weights_digest
from attnflow.options.option import takes
from attnflow.options.tables import FitOptions
from attnflow.pipeline.prepare import open_session
from attnflow.pipeline.request import Request
from attnflow.records import FloatArray
from attnflow.records.arrays import round_scores, to_numpy
from attnflow.records.learned import LearnedHeads, encoded
from attnflow.records.selection import is_integer
from attnflow.registry import code_digest

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter
    from attnflow.models.loading import Source


LOWEST, HIGHEST = -5.0, 10.0  # drops beyond are cut, so that a few do not decide everything
FEWEST = 8
TOLERANCE = 1e-12  # of weights that are held at 0
Piece = dict[str, FloatArray]


P = ParamSpec("P")


class Fits(Protocol[P]):
    """How `fit` is called."""

    def __call__(
        self, texts: Iterable[str], model: Source = None, *args: P.args, **options: P.kwargs
    ) -> LearnedHeads:
        """Call it."""


def _takes(table: Callable[P, Any]) -> Callable[[Callable[..., LearnedHeads]], Fits[P]]:
    return takes(table)


@_takes(FitOptions)
def fit(texts: Iterable[str], model: Source = None, *, options: FitOptions) -> LearnedHeads:
    """Learn how much each head counts, from what blanking tokens out does.

    Args:
        texts: At least eight texts of the kind that will be explained.
        model: As for `attnflow.explain`: a classifier, a masked or a causal language model.

    Returns:
        The weights with their figures, for ``explain(…, heads=weights)``.

    Examples:
        >>> import attnflow
        >>> nouns = ["key", "keys", "cabinet", "lakes"]
        >>> texts = [f"the {one} near the {other}" for one in nouns for other in nouns]
        >>> attnflow.fit(texts, "verbs", edges="attention").edges
        'attention'
    """
    _check_options(options.edges, options.held_out, options.ridge, options.seed)
    listed, single = as_list(texts)
    given = [check_unicode("text", one) for one in listed]
    for one in given:
        check_texts("fit", one)
    _check_count(1 if single else len(set(given)))
    if options.save is None:
        return _fit(given, load_model(model, device=options.device), options, None)
    target = check_target(options.save, overwrite=options.overwrite)
    folder = target.with_name(f"{target.name}.parts")
    with alone_in(folder):
        check_target(target, overwrite=options.overwrite)  # not written in between
        loaded = load_model(model, device=options.device)
        checkpoint = Checkpoint(folder, _request(given, loaded, options))
        learned = _fit(given, loaded, options, checkpoint)
        check_target(target, overwrite=options.overwrite)
        write_file(target, encoded(learned), GO_ON)
        checkpoint.done()
    return learned


def _request(texts: Sequence[str], model: ModelAdapter, options: FitOptions) -> dict[str, Any]:
    """Everything that decides what is measured."""
    from attnflow.runs.manifest import versions

    return {
        "model": model.name,
        # By its weights, too: a model that was trained on has the same name.
        "weights": weights_digest(model),
        "settings": settings_digest(model),
        "versions": versions(),
        "edges": options.edges,
        "code": code_digest(EDGE_RULES[options.edges]),
        "replacement": options.replacement,
        "texts": digest(texts),
    }


def _fit(
    texts: Sequence[str], model: ModelAdapter, options: FitOptions, checkpoint: Checkpoint | None
) -> LearnedHeads:
    edges, replacement, ridge = options.edges, options.replacement, options.ridge
    held_out, seed = options.held_out, options.seed
    pieces = _measure(texts, model, edges, replacement, checkpoint, progress=options.progress)
    shape = [int(count) for count in pieces[0]["shape"]]
    kept, apart = _split(pieces, held_out, seed)
    weights = _learn([pieces[place] for place in kept], ridge)
    figures = _figures([pieces[place] for place in apart], weights)
    split = np.split(weights, np.cumsum(shape)[:-1])
    how = {"replacement": replacement, "held_out": held_out, "ridge": ridge, "seed": seed}
    return LearnedHeads(
        tuple(tuple(float(each) for each in layer) for layer in split),
        model.name,
        edges,
        {**how, "texts": len(kept)},
        {"texts": len(apart), **figures},
    )


def _check_count(different: int) -> None:
    if different < FEWEST:
        msg = f"fit needs at least {FEWEST} texts that differ for the model, got {different}"
        raise InputError(msg)


def _check_options(edges: str, held_out: float, ridge: float, seed: int) -> None:
    rule = EDGE_RULES[edges]
    if not rule.single_heads or rule.amounts:
        why = "takes all heads together" if not rule.single_heads else "adds heads up as they are"
        msg = f"edges={edges!r} {why}; use a rule with heads, such as attention"
        raise InputError(msg)
    for name, value, below in (("held_out", held_out, 1.0), ("ridge", ridge, np.inf)):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 < value < below:
            msg = f"{name}={shown(value)} must be a number above 0 and below {below:g}"
            raise InputError(msg)
    if not is_integer(seed) or seed < 0:
        msg = f"seed={shown(seed)} must be an integer of at least 0"
        raise InputError(msg)


def _measure(
    texts: Sequence[str],
    model: ModelAdapter,
    edges: str,
    replacement: str,
    checkpoint: Checkpoint | None,
    *,
    progress: bool,
) -> list[Piece]:
    """What every head reads and what blanking does, text by text, kept where there is a place."""
    found = []
    with progress_bar("blanking out", len(texts), shown=progress) as advance:
        for place, text in enumerate(texts):
            name = f"text{place}"
            piece = None if checkpoint is None else checkpoint.get(name)
            if piece is None:
                piece = _piece(text, model, edges, replacement)
                if checkpoint is not None:
                    checkpoint.put(name, piece)
            found.append(piece)
            advance(place + 1)
    return found


def _piece(text: str, model: ModelAdapter, edges: str, replacement: str) -> Piece:
    """``features``, ``[token, layer · head]``, and ``drops`` of the tokens that are words."""
    config = Request(edges=edges, correction=None)
    session = open_session(text, model, config, all_heads=True)
    blanked = blank_out(text, model, replacement=replacement, signed=True)
    before = float(blanked.statistics["probability"])
    after = np.maximum(before - blanked.values, 1e-300)
    drops = np.clip(np.log(before) - np.log(after), LOWEST, HIGHEST)
    words = session.tokens.word_ids or [0] * session.size
    places = [at for at, word in enumerate(words) if word is not None]
    asked = list(session.forward.pooled or (session.query,))
    maps = [to_numpy(each) for each in config.rule.apply(session.activations).layers]
    rows = [each[:, asked].mean(1)[:, places] for each in maps]
    shape = np.array([each.shape[0] for each in maps])
    return {"features": np.concatenate(rows).T, "drops": drops[places], "shape": shape}


def _split(pieces: Sequence[Piece], held_out: float, seed: int) -> tuple[list[int], list[int]]:
    """The places of texts to learn from, and of those held out.

    All copies of a text are on one side, or the weights would be judged on what they learned from;
    so are texts that the model reads alike, as many do that differ in spaces or capitals.
    """
    texts = [b"".join(each.tobytes() for each in piece.values()) for piece in pieces]
    different = list(dict.fromkeys(texts))
    _check_count(len(different))
    order = np.random.default_rng(seed).permutation(len(different)).tolist()
    count = min(len(different) - 1, max(1, round(len(different) * held_out)))
    apart = {different[place] for place in order[:count]}
    kept = [place for place, text in enumerate(texts) if text not in apart]
    return kept, [place for place, text in enumerate(texts) if text in apart]


def _learn(pieces: Sequence[Piece], ridge: float) -> FloatArray:
    """Texts are centred: which of its tokens count is learned, not which texts are fragile."""
    width = pieces[0]["features"].shape[1]
    products, moments = np.zeros((width, width)), np.zeros(width)
    for piece in pieces:
        features = piece["features"] - piece["features"].mean(0)
        drops = piece["drops"] - piece["drops"].mean()
        products += features.T @ features
        moments += features.T @ drops
    return nonnegative_ridge(products, moments, ridge * float(np.trace(products)) / width)


def _figures(pieces: Sequence[Piece], weights: FloatArray) -> dict[str, Any]:
    """Mean agreement with blanking out, and given position, of the weights and the baselines."""
    even = np.ones_like(weights)
    found: dict[str, Any] = {}
    for name in ("learned", "mean of heads", "position"):
        plain, partial = [], []
        for piece in pieces:
            position = np.arange(len(piece["drops"]), dtype=np.float64)
            by = {"learned": weights, "mean of heads": even}.get(name)
            scores = position if by is None else round_scores(piece["features"] @ by)
            plain.append(spearman(scores, piece["drops"]))
            partial.append(partial_spearman(scores, piece["drops"], position))
        found[name] = {"agreement": _mean(plain), "given position": _mean(partial)}
    return found


def partial_spearman(first: FloatArray, second: FloatArray, given: FloatArray) -> float:
    """Rank correlation of two lists when what both share with a third is taken out; may be NaN."""
    both = spearman(first, second)
    one, other = spearman(first, given), spearman(second, given)
    scale = float(np.sqrt(max(0.0, (1 - one**2) * (1 - other**2))))
    return (both - one * other) / scale if scale > 1e-9 else float("nan")


def _mean(values: Sequence[float]) -> float | None:
    defined = [value for value in values if not np.isnan(value)]
    return float(np.mean(defined)) if defined else None


def nonnegative_ridge(products: FloatArray, moments: FloatArray, ridge: float) -> FloatArray:
    """Min ‖X·w − y‖² + λ‖w‖² over w ≥ 0, from XᵀX and Xᵀy.

    By active sets (Lawson & Hanson 1974; Bro & de Jong 1997): the weight whose gradient is steepest
    becomes free, and free weights are solved for; those that would turn negative are held at zero
    again. The problem is strictly convex: this ends at its only solution.
    """
    system = products + ridge * np.eye(len(products))
    weights = np.zeros(len(moments))
    free = np.zeros(len(moments), dtype=bool)
    least = TOLERANCE * float(np.abs(moments).max(initial=0.0))
    for _ in range(10 * len(moments) + 10):
        downhill = np.where(free, 0.0, moments - system @ weights)
        if downhill.max(initial=0.0) <= least:
            return weights
        free[np.argmax(downhill)] = True
        while True:
            solved = np.zeros_like(weights)
            solved[free] = np.linalg.solve(system[np.ix_(free, free)], moments[free])
            wrong = free & (solved <= 0)
            if not wrong.any():
                break
            # As far towards the solution as all weights allow; the first to reach zero stays there.
            share = (weights[wrong] / (weights[wrong] - solved[wrong])).min()
            weights += share * (solved - weights)
            free &= weights > least
            weights[~free] = 0.0
        weights = solved
    msg = f"the weights did not settle; give a larger ridge than {ridge:g}"
    raise InputError(msg)
