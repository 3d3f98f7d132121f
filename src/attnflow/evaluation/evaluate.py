"""`evaluate`: methods against each other, and against baselines, on many texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from os import PathLike
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol

import numpy as np

from attnflow.errors import InputError, shown
from attnflow.evaluation.explainers import (
    DRAWN,
    REFERENCES,
    Text,
    add_drawn,
    check_fillers,
    keep_common,
    make_configs,
    mark_tokens,
    name_default,
    score_texts,
)
from attnflow.evaluation.metrics import METRICS, Case
from attnflow.evaluation.metrics.metric import STEPS, Erase
from attnflow.evaluation.result import Column, Evaluation, Explainer
from attnflow.io.inputs import several
from attnflow.io.progress import progress_bar
from attnflow.io.rows import Columns, Row, open_rows
from attnflow.methods import METHODS
from attnflow.models.loading import load_model
from attnflow.options.option import options_of, takes, values_of
from attnflow.options.tables import EvaluateOptions, ReadingOptions
from attnflow.pipeline.choice import usual_methods
from attnflow.pipeline.prepare import Refused, prepare
from attnflow.pipeline.request import AUTO, LOGIT, POSITION, Request, methods_from_logit
from attnflow.records import FloatArray
from attnflow.records.arrays import round_scores
from attnflow.records.checks import check_number
from attnflow.version import VERSION

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter, Tokens
    from attnflow.models.loading import Source

GRID = np.linspace(0, 1, STEPS + 1)


P = ParamSpec("P")


class Evaluates(Protocol[P]):
    """How `evaluate` is called."""

    def __call__(
        self,
        data: str | PathLike[str] | Iterable[str | Mapping[str, Any]],
        model: Source = None,
        *args: P.args,
        **options: P.kwargs,
    ) -> Evaluation:
        """Call it."""


def _takes(table: Callable[P, Any]) -> Callable[[Callable[..., Evaluation]], Evaluates[P]]:
    return takes(table)


@_takes(EvaluateOptions)
def evaluate(
    data: str | PathLike[str] | Iterable[str | Mapping[str, Any]],
    model: Source = None,
    *,
    options: EvaluateOptions,
) -> Evaluation:
    """How faithful and how plausible methods are, with intervals, next to baselines.

    Args:
        data: Texts, as for `attnflow.run`.
        model: A classifier, a masked or a causal language model, as for `attnflow.explain`.

    Removed are tokens that are neither special nor what is predicted. Where methods give scores a
    sign, tokens are removed by their value, and compared with others by their size. Tokens of equal
    scores are taken in the order of the text, and tables say in how many texts there are such.

    Examples:
        >>> import attnflow
        >>> found = attnflow.evaluate(["the keys to the cabinet", "the cat on mats"], "verbs")
        >>> found.texts
        2
    """
    reading = values_of(options, options_of(ReadingOptions))
    seed, source = options.seed, options.source
    check_number("seed", seed, 0)
    if options.limit is not None:
        check_number("limit", options.limit, 1)
    wanted = None if options.metrics is None else several("metrics", options.metrics)
    rationale = options.rationale_column
    chosen = _chosen(wanted, rationale=rationale is not None)
    names, rules = _compared(options.methods, options.edges, source)
    columns = Columns(
        options.text_column, options.target_column, rationale=rationale, pair=options.pair_column
    )
    rows = list(islice(open_rows(data, columns, options.format).read(), options.limit))
    adapter = load_model(model, device=options.device)
    fillers = several("replacement", options.replacement)
    check_fillers(adapter, fillers)
    configs = make_configs(names, rules, Request.of(options, edges=AUTO, progress=False))
    texts, skipped = _usable(adapter, rows, configs[0][0])
    found = [Text(row) for row in texts]
    score_texts(adapter, [rows[row] for row in texts], found, configs, fillers, names)
    for text in list(found):
        if not text.scores:
            skipped.append((text.row, "fewer than two of its tokens can be removed"))
            found.remove(text)
    if not found:
        reasons = f"row {skipped[0][0]}: {skipped[0][1]}" if skipped else "there are no rows"
        msg = f"no text can be evaluated; {reasons}"
        raise InputError(msg)
    name_default(found)
    keep_common(found)
    add_drawn(found, seed)
    explainers = tuple(found[0].scores)
    table = _columns(chosen, fillers)
    values = np.full((len(explainers), len(table), len(found)), np.nan)
    curves = {
        each: np.full((2, len(explainers), len(found), len(GRID)), np.nan) for each in fillers
    }
    with progress_bar("evaluating", len(found), shown=options.progress, unit="texts") as show:
        for at, text in enumerate(found):
            _erase_ahead(text, table, seed)
            values[:, :, at] = _measured(text, table, seed)
            for filler, eraser in text.erasers.items():
                for place, scores in enumerate(text.scores.values()):
                    case = Case(scores, text.value, eraser)
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
            **{name: value for name, value in reading.items() if value},
            **({"source": source} if source != POSITION else {}),
            "version": VERSION,
        },
    )


def _compared(
    methods: str | Sequence[str] | None, edges: str | Sequence[str] | None, source: str
) -> tuple[tuple[str, ...], Sequence[str]]:
    """The methods and the edge rules; by default the paper's and what `attnflow.explain` uses."""
    rules = None if edges is None else several("edges", edges)
    if methods is not None:
        names = [METHODS[name].name for name in several("methods", methods)]
        if rules is not None and AUTO in rules and source != LOGIT:
            msg = (
                "edges='auto' is what explain chooses, edges and method: leave methods out, or "
                "name the edges"
            )
            raise InputError(msg)
        usual = [AUTO] if source == LOGIT else ["attention"]
        return tuple(names), usual if rules is None else rules
    names, usual = usual_methods(), ["attention", AUTO]
    if source == LOGIT:
        names, usual = methods_from_logit(), [AUTO]
    return tuple(names), usual if rules is None else rules


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


def _usable(
    adapter: ModelAdapter, rows: Sequence[Row], config: Request
) -> tuple[list[int], list[tuple[int, str]]]:
    """The rows that the model can read, and why it can't read the others."""
    skipped = [(number, row.error) for number, row in enumerate(rows) if row.error is not None]
    left = [number for number, row in enumerate(rows) if row.error is None]

    def check(place: int, tokens: Tokens) -> None:
        adapter.decision(tokens)
        mark_tokens(rows[left[place]].rationale, tokens, ())

    prepared = prepare(
        config,
        adapter,
        [rows[number].item for number in left],
        targets=[rows[number].target for number in left],
        files=False,
        check=check,
        refuse_unused=False,
    )
    usable = []
    for number, one in zip(left, prepared, strict=True):
        if isinstance(one, Refused):
            skipped.append((number, str(one.error)))
        else:
            usable.append(number)
    return usable, skipped


def _measured(text: Text, columns: Sequence[Column], seed: int) -> FloatArray:
    """``[explainer, column]`` of one text."""
    return np.array(
        [
            [METRICS[column.metric].measure(_case(text, each, column, seed)) for column in columns]
            for each in text.scores
        ]
    )


def _erase_ahead(text: Text, columns: Sequence[Column], seed: int) -> None:
    """Run the model without every set of tokens that will be needed, in as few passes.

    Which sets they are is found out with a model that reads nothing.
    """
    asked: dict[str, list[tuple[int, ...]]] = {filler: [] for filler in text.erasers}

    def unmoved(filler: str) -> Erase:
        def erase(sets: Sequence[tuple[int, ...]]) -> FloatArray:
            asked[filler] += sets
            return np.full(len(sets), text.value)

        return erase

    plain = replace(text, erasers={filler: unmoved(filler) for filler in asked})
    _measured(plain, [column for column in columns if column.against in asked], seed)
    for filler, erase in plain.erasers.items():
        for scores in text.scores.values():
            case = Case(scores, text.value, erase)
            case.removing()
            case.adding()
        text.erasers[filler](asked[filler])


def _case(text: Text, explainer: Explainer, column: Column, seed: int) -> Case:
    scores = text.scores[explainer]
    if explainer.method in DRAWN and METRICS[column.metric].against != "filler":
        # An order has no sign: the last of a falling one is not its most important.
        scores = scores - scores.min()
    return Case(
        scores,
        text.value,
        text.erasers.get(column.against) or next(iter(text.erasers.values())),
        text.references.get(column.against),
        text.rationale,
        seed + text.row,
    )


def _has_ties(scores: FloatArray) -> bool:
    return len(np.unique(round_scores(scores))) < len(scores)
