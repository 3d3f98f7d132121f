"""`evaluate`: methods against each other, and against baselines, on many texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.aggregation import AGGREGATORS, Measure
from attnflow.errors import AttnflowError, InputError, shown
from attnflow.evaluation.erasure import Eraser, check_fillers
from attnflow.evaluation.metrics import METRICS, Case
from attnflow.evaluation.metrics.metric import STEPS
from attnflow.evaluation.rationales import mark_tokens
from attnflow.evaluation.result import Column, Evaluation, Explainer
from attnflow.io.progress import progress_bar
from attnflow.io.rows import Columns, Row, open_rows
from attnflow.models.loading import load_model
from attnflow.pipeline.config import ExplainConfig, Layers
from attnflow.pipeline.sessions import open_sessions
from attnflow.records import FloatArray
from attnflow.records.checks import check_flag, check_number
from attnflow.records.rounding import round_scores
from attnflow.version import VERSION

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter
    from attnflow.models.loading import Source
    from attnflow.pipeline.session import Session

REFERENCES = ("blank-out", "gradient-norm")
COMPUTED = ("gradient-input", "integrated")  # baselines that are methods
DRAWN = ("random", "first", "last")
LAST_LAYER = "raw"
GRID = np.linspace(0, 1, STEPS + 1)
FEWEST = 2  # tokens that can be put in an order


@dataclass(eq=False)
class _Text:
    """What is known of one text before metrics are measured."""

    row: int
    scores: dict[Explainer, FloatArray] = field(default_factory=dict)
    references: dict[str, FloatArray] = field(default_factory=dict)
    erasers: dict[str, Eraser] = field(default_factory=dict)
    value: float = 0.0
    rationale: FloatArray | None = None


def evaluate(  # noqa: PLR0913 - one keyword per option, the same words as everywhere
    source: str | PathLike[str] | Iterable[str | Mapping[str, Any]],
    model: Source = None,
    *,
    methods: Sequence[str] | None = None,
    edges: Sequence[str] = ("attention",),
    layers: Layers = None,
    metrics: Sequence[str] | None = None,
    fillers: Sequence[str] = ("unk",),
    text_column: str = "text",
    target_column: str | None = None,
    rationale_column: str | None = None,
    format: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Evaluation:
    """How faithful and how plausible methods are, with intervals, beside baselines.

    Args:
        source: Texts, as for `attnflow.run`.
        model: A classifier, a masked or a causal language model, as for `attnflow.explain`.
        methods: By default those that are shown by default. In the table are always: tokens in
            random order, from the first, from the last; gradient × input; integrated gradients; the
            attention of the last layer.
        edges: Edge rules for the methods that read edges.
        layers: Which layers of them: numbers, ``"all"``, or the top one by default.
        metrics: Of ``attnflow.METRICS``; by default all that can be measured.
        fillers: What stands for removed tokens, of ``"unk"``, ``"mask"``, ``"delete"`` and
            ``"mean"`` (the mean of all word embeddings); each has columns of its own.
        text_column: The column of the text.
        target_column: The column of the target; by default the model's prediction.
        rationale_column: A column with one number for each word of the text, as it is split at
            blanks; words of at least 0.5, for or against, are marked.
        format: The format of a file, where its name does not tell.
        limit: Evaluate so many rows at most.
        seed: Of all that is drawn by lot.
        progress: Show a progress bar.

    Removed are tokens that are neither special nor what is predicted. Where methods give scores a
    sign, tokens are removed by their value, and compared with others by their size. Tokens of equal
    scores are taken in the order of the text, and how many texts have such is told.

    Examples:
        >>> import attnflow
        >>> found = attnflow.evaluate(["the keys to the cabinet", "the cat on the mats"])
        >>> found.texts
        2
    """
    check_flag("progress", progress)
    check_number("seed", seed, 0)
    if limit is not None:
        check_number("limit", limit, 1)
    chosen = _chosen(metrics, rationale=rationale_column is not None)
    names = tuple(
        [each.name for each in AGGREGATORS.members() if each.shown_by_default]
        if methods is None
        else [AGGREGATORS[name].name for name in methods]
    )
    columns = Columns(text_column, target_column, rationale=rationale_column)
    rows = list(islice(open_rows(source, columns, format).read(), limit))
    adapter = load_model(model)
    check_fillers(adapter, fillers)
    texts, skipped = _usable(adapter, rows)
    configs = _configs(names, edges, layers)
    found = [_Text(row) for row in texts]
    _score(adapter, [rows[row] for row in texts], found, configs, fillers, names)
    for text in list(found):
        if len(next(iter(text.erasers.values())).positions) < FEWEST:
            skipped.append((text.row, "fewer than two of its tokens can be removed"))
            found.remove(text)
    if not found:
        reasons = f"row {skipped[0][0]}: {skipped[0][1]}" if skipped else "there are no rows"
        msg = f"no text can be evaluated; {reasons}"
        raise InputError(msg)
    _add_drawn(found, seed)
    explainers = tuple(found[0].scores)
    table = _columns(chosen, fillers)
    values = np.full((len(explainers), len(table), len(found)), np.nan)
    curves = {
        each: np.full((2, len(explainers), len(found), len(GRID)), np.nan) for each in fillers
    }
    with progress_bar("evaluating", len(found), shown=progress, unit="texts") as show:
        for at, text in enumerate(found):
            for place, explainer in enumerate(explainers):
                for number, column in enumerate(table):
                    case = _case(text, explainer, column, fillers, seed)
                    values[place, number, at] = METRICS[column.metric].measure(case)
                for filler in fillers:
                    case = _case(text, explainer, Column("deletion", filler), fillers, seed)
                    shares = np.array(case.counts) / case.size
                    for kind, curve in enumerate((case.removing(), case.adding())):
                        curves[filler][kind, place, at] = np.interp(GRID, shares, curve)
            show(at + 1)
    return Evaluation(
        explainers,
        table,
        values,
        curves,
        tuple(sum(_has_ties(text.scores[each]) for text in found) for each in explainers),
        tuple(sorted(skipped)),
        {
            "model": {"name": adapter.name, **adapter.description},
            "rows": [text.row for text in found],
            "seed": seed,
            "version": VERSION,
        },
    )


def _chosen(metrics: Sequence[str] | None, *, rationale: bool) -> list[str]:
    names = list(METRICS) if metrics is None else list(metrics)
    for name in names:
        if METRICS[name].against == "rationale" and not rationale and metrics is not None:
            msg = f"metric={shown(name)} needs rationale_column=: what people marked"
            raise InputError(msg)
    return [name for name in names if rationale or METRICS[name].against != "rationale"]


def _columns(metrics: Sequence[str], fillers: Sequence[str]) -> tuple[Column, ...]:
    against = {"filler": fillers, "reference": REFERENCES, "rationale": ("rationale",)}
    return tuple(
        Column(name, each)
        for kind, values in against.items()
        for each in values
        for name in metrics
        if METRICS[name].against == kind
    )


def _usable(adapter: ModelAdapter, rows: Sequence[Row]) -> tuple[list[int], list[tuple[int, str]]]:
    """The rows that the model can read, and why it can't read the others."""
    usable, skipped = [], []
    for number, row in enumerate(rows):
        error = row.error
        if error is None:
            try:
                tokens = adapter.tokenize(row.text)
                adapter.decision(tokens)
                mark_tokens(row.rationale, tokens, ())
                if row.target is not None:
                    adapter.output_index(row.target)
            except AttnflowError as refused:
                error = str(refused)
        if error is None:
            usable.append(number)
        else:
            skipped.append((number, error))
    return usable, skipped


def _configs(
    names: tuple[str, ...], edges: Sequence[str], layers: Layers
) -> list[tuple[ExplainConfig, tuple[str, ...]]]:
    """For each rule its configuration and methods; what reads no edges comes with the first."""
    on_edges = [name for name in names if not isinstance(AGGREGATORS[name], Measure)]
    others = [name for name in names if name not in on_edges]
    alone = tuple(dict.fromkeys([*others, *COMPUTED, *REFERENCES]))
    attention = ExplainConfig(
        method=LAST_LAYER,
        methods=tuple(dict.fromkeys((LAST_LAYER, *on_edges, *alone))),
        layers=layers,
    )
    found = []
    for rule in dict.fromkeys(("attention", *edges)):
        asked = tuple(on_edges) if rule in edges else ()
        if rule == "attention":
            found.append((attention, (*asked, *alone)))
        elif asked:
            config = ExplainConfig(method=asked[0], methods=asked, edges=rule, layers=layers)
            found.append((config, asked))
    return found


def _score(
    adapter: ModelAdapter,
    rows: Sequence[Row],
    found: Sequence[_Text],
    configs: Sequence[tuple[ExplainConfig, tuple[str, ...]]],
    fillers: Sequence[str],
    asked: Sequence[str],
) -> None:
    """Fill in the scores of all texts."""
    targets = [row.target for row in rows]
    for config, methods in configs:
        given = replace(config, target=targets) if config.uses_target else config
        for place, session in open_sessions([row.text for row in rows], adapter, given):
            text, positions = found[place], session.blankable
            if not text.erasers:
                for filler in fillers:
                    text.erasers[filler] = Eraser(
                        adapter, session.tokens, session.target, positions, filler
                    )
                text.value = float(next(iter(text.erasers.values()))([()])[0])
                text.rationale = mark_tokens(rows[place].rationale, session.tokens, positions)
            if len(positions) >= FEWEST:
                _score_one(text, session, methods, asked, np.array(positions))


def _score_one(
    text: _Text, session: Session, methods: Sequence[str], asked: Sequence[str], at: Any
) -> None:
    for method in methods:
        one = session.attribution(method, only_asked=True)
        if isinstance(AGGREGATORS[method], Measure):
            scores = one.values[at]
            if method in REFERENCES:
                text.references[method] = scores
            if method in COMPUTED or method in asked:
                key = Explainer(method, baseline=method in COMPUTED)
                text.scores.setdefault(key, scores)
            continue
        for layer in one.layers:
            key = Explainer(method, session.config.edges, layer)
            text.scores[key] = one.row(layer)[at]
    if session.config.edges == "attention":
        key = Explainer("last-layer attention", baseline=True)
        text.scores[key] = _last_layer(session)[at]


def _last_layer(session: Session) -> FloatArray:
    """Raw attention of the last layer, from where the model decides."""
    asked = session.forward.pooled or (session.query,)
    scores = session.scores(LAST_LAYER, [session.depth], asked).values[0]
    mean: FloatArray = scores.mean(0)
    return mean


def _add_drawn(found: Sequence[_Text], seed: int) -> None:
    """Tokens in random order, from the first, and from the last."""
    for text in found:
        size = len(next(iter(text.scores.values())))
        places = np.arange(size, dtype=np.float64)
        chance = np.random.default_rng([seed, text.row])
        for name, scores in zip(DRAWN, (chance.random(size), -places, places), strict=True):
            text.scores[Explainer(name, baseline=True)] = scores


def _case(
    text: _Text, explainer: Explainer, column: Column, fillers: Sequence[str], seed: int
) -> Case:
    scores = text.scores[explainer]
    if explainer.method in DRAWN and METRICS[column.metric].against != "filler":
        # An order has no sign: the last of a falling one is not its most important.
        scores = scores - scores.min()
    return Case(
        scores,
        text.value,
        text.erasers[column.against if column.against in fillers else fillers[0]],
        text.references.get(column.against),
        text.rationale,
        seed + text.row,
    )


def _has_ties(scores: FloatArray) -> bool:
    return len(np.unique(round_scores(scores))) < len(scores)
