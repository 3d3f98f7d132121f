"""The page of the leaderboard: what was measured and what is said of it, from saved results."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from attnflow import EDGE_RULES, METHODS
from attnflow.evaluation.metrics import METRICS
from attnflow.evaluation.result import Column, Evaluation, Explainer, Line
from attnflow.evaluation.tables import SURE, cell
from attnflow.pipeline.choice import PAPER
from attnflow_experiments.leaderboard.standings import BEFORE, REFERENCE, SHOWN, Table

BASELINES = {"random": "random order", "first": "first token first", "last": "last token first"}
SAME = "last-layer attention"  # what `raw` on attention is at the top layer
HEAD = """\
# Leaderboard

Which method finds best what a model's answer came from? This page compares every method on every
kind of edges with baselines, on several data sets. One command measures it and writes this page:

```
python -m attnflow_experiments.leaderboard WORK --data FOLDER --raw docs/results/leaderboard.parquet
```

([Every number](results/leaderboard.parquet) of every text is kept; `scripts/boards` runs all boards
side by side.)

Scores are of the top layer, for the model's own prediction. **Comprehensiveness** (higher is
better) decides the order: how far the probability of the prediction falls when the highest 1, 5,
10, 20 and 50 % of tokens are replaced by UNK; [all metrics](datasets.md#which-method-to-trust).
Intervals are 95 %, bootstrapped over texts. The best of a column is in bold; † marks what is not
significantly worse (paired differences, corrected for all comparisons with the best by Holm,
p ≥ 0.05). `blank-out` is not ranked: it asks what these metrics ask, one token at a time, and shows
how far one gets by running the model again.

For 93 to 96 % of samples drawn from the texts of two boards (sentiment and the next word), the
interval holds the mean of all texts (`python -m attnflow_experiments.coverage FILE`). Tests find a
difference where there is none in 4 to 6 % of samples of 300 texts, but in up to 10 % of samples of
20 texts.
"""


def write_page(found: Mapping[str, Evaluation], missing: Sequence[str] = ()) -> str:
    """The whole page; ``missing`` are the titles of boards without a result."""
    boards = {name: Table(each) for name, each in found.items()}
    parts = [HEAD, "## In short", "", *summary(boards), ""]
    if missing:
        parts += [f"Not measured yet: {'; '.join(missing)}.", ""]
    for board in boards.values():
        parts += section(board)
    return "\n".join(parts).rstrip() + "\n"


def name_of(explainer: Explainer) -> str:
    """The explainer's name on the page; the layer is the top one of all."""
    if explainer.method not in METHODS:
        return BASELINES.get(explainer.method, explainer.method)
    return f"`{explainer.method}`" + (f" on `{explainer.edges}`" if explainer.edges else "")


def number(value: float) -> str:
    """A number as short as it can be read."""
    return "–" if math.isnan(value) else f"{value:.3f}".replace("0.", ".", 1).replace("-", "−")


def short(line: Line | None) -> str:
    """The mean with its interval."""
    if line is None:
        return "–"
    return f"{number(line.mean)} [{number(line.low)}, {number(line.high)}]"


def summary(boards: Mapping[str, Table]) -> Iterator[str]:
    """One line for each board, and what follows."""
    yield "The table shows comprehensiveness, with the place among all explainers in parentheses."
    yield ""
    yield "| | texts | most faithful | what attnflow uses | flow, as in the paper | random order |"
    yield "|---|---|---|---|---|---|"
    for board in boards.values():
        flow = board.find(PAPER.method, PAPER.edges)
        chosen = [
            f"{name_of(line.explainer)} {_placed(board, line)}" for line in board.chosen().values()
        ]
        best = f"{name_of(board.best.explainer)} {short(board.best)}"
        cells = [board.of.about["title"], str(board.of.texts), best, "; ".join(chosen)]
        yield f"| {' | '.join([*cells, _placed(board, flow), short(board.find('random'))])} |"
    yield ""
    for board in boards.values():
        yield from told(board)
    yield ""
    yield follows(boards)


def follows(boards: Mapping[str, Table]) -> str:
    """What a reader may conclude."""
    all_boards = boards.values()
    told_apart = [board for board in all_boards if not _blind(board)]
    best = Counter(name_of(board.best.explainer) for board in told_apart)
    on = ", ".join(f"{name} (most faithful on {n} of {len(boards)})" for name, n in best.items())
    ask = f"if a ranking of tokens is all you want, use the best method: {on}. " if on else ""
    blind = "; ".join(board.of.about["title"] for board in all_boards if _blind(board))
    if blind:
        ask += (
            "Where an order that ignores the model does as well as the best "
            f"({blind}), this measure can't recommend a method. "
        )
    lost = sum(not _beats_random(board) for board in all_boards)
    return (
        f"**What follows**: {ask}{' '.join(_of_default(list(all_boards)))} The paper's flow is "
        f"for routes and capacities, not for ranking: on {lost} of {len(boards)} it is not "
        "significantly better than random order."
    )


def _of_default(boards: Sequence[Table]) -> Iterator[str]:
    """How what attnflow uses now stands beside the best, and beside what it used before."""
    having = [(board, chosen) for board in boards if "default" in (chosen := board.chosen())]
    near = [chosen["default"] for board, chosen in having if _near(board, chosen["default"])]
    if not having:
        return
    default = name_of(having[0][1]["default"].explainer)
    yield f"The default, {default}, is not significantly worse than the best on {len(near)}"
    yield f"of {len(having)} ([why it is the default](choosing.md))."
    before = [
        (board, chosen["default"], chosen[BEFORE]) for board, chosen in having if BEFORE in chosen
    ]
    apart = [
        now.mean > then.mean for board, now, then in before if board.differ(now, [then])[0] < SURE
    ]
    better, worse = apart.count(True), apart.count(False)
    yield f"Compared with what 0.2 used, it is significantly better on {better}"
    yield f"and worse on {worse} of {len(before)}."


def _near(board: Table, line: Line) -> bool:
    return line is board.best or line.p >= SURE


def _blind(board: Table) -> list[str]:
    """The orders that read nothing of the model and are not significantly worse than the best."""
    near = [line for line in board.order if _near(board, line)]
    return [name_of(each.explainer) for each in near if each.explainer.method in BASELINES]


def _beats_random(board: Table) -> bool:
    flow, random = board.find(PAPER.method, PAPER.edges), board.find("random")
    if flow is None or random is None:
        return False
    return flow.mean > random.mean and board.differ(flow, [random])[0] < SURE


def _placed(board: Table, line: Line | None) -> str:
    return "–" if line is None else f"{short(line)} ({board.place(line)})"


def told(board: Table) -> Iterator[str]:
    """What is to be said of a board, plainly: the best, the defaults, and flow."""
    count = len(board.order)
    equals = [line for line in board.order[1:] if line.p >= SURE]
    are = "is" if len(equals) == 1 else "are"
    tail = f"; {len(equals)} of {count - 1} others {are} not significantly worse" if equals else ""
    if blind := _blind(board):
        tail += f", among them {' and '.join(blind)}, which ignores the model"
    if board.too_few:
        tail = "; with so few texts, no other is significantly worse"
    best = name_of(board.best.explainer)
    yield f"- **{board.of.about['title']}**: {best} is the most faithful{tail}."
    for what, line in board.chosen().items():
        yield f"    - {what.capitalize()}, {name_of(line.explainer)}: {against_best(board, line)}."
    for edges in dict.fromkeys((PAPER.edges, _best_edges(board, PAPER.method))):
        line = board.find(PAPER.method, edges)
        if line is not None and line not in board.chosen().values():
            beside = against_others(board, line, edges)
            yield f"    - Flow on `{edges}`: {against_best(board, line)}; {beside}."


def _best_edges(board: Table, method: str) -> str | None:
    own = [line for line in board.order if line.explainer.method == method]
    return own[0].explainer.edges if own else None


def against_best(board: Table, line: Line) -> str:
    """How a line stands beside the best."""
    place = f"place {board.place(line)} of {len(board.order)}"
    if line is board.best:
        return f"{place}"
    same = "not significantly worse than the best" if line.p >= SURE else "significantly worse"
    return f"{place}, {same} ({number(board.best.mean - line.mean)} less)"


def against_others(board: Table, line: Line, edges: str | None) -> str:
    """How flow stands beside rollout and raw of the same edges, and beside random order."""
    named = {"rollout": ("rollout", edges), "raw": ("raw", edges), "random order": ("random", None)}
    others = {what: each for what, key in named.items() if (each := board.find(*key))}
    parts: dict[str, list[str]] = {}
    for (what, other), p in zip(
        others.items(), board.differ(line, [*others.values()]), strict=True
    ):
        how = "better than" if line.mean > other.mean else "worse than"
        how = "not significantly different from" if p >= SURE else how
        parts.setdefault(how, []).append(what)
    return ", ".join(f"{how} {_listed(names)}" for how, names in parts.items())


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def section(board: Table) -> Iterator[str]:
    """One board: the grid of methods and edges, then all metrics of some."""
    about = board.of.about
    yield f"## {about['title']}"
    yield ""
    facts = [f"{board.of.texts} texts: {about['texts']}", about["accuracy"], about["device"]]
    yield "; ".join(fact for fact in facts if fact) + "."
    if board.of.skipped:
        row, why = board.of.skipped[0]
        yield f"{len(board.of.skipped)} texts were left out, such as {row}: {why}."
    yield ""
    yield from grid(board)
    yield ""
    yield from metrics(board)
    yield ""
    for refusal in about["refused"]:
        yield f"Not in the table: {refusal}"
    yield ""


def grid(board: Table) -> Iterator[str]:
    """Comprehensiveness of every method on every kind of edges."""
    methods = [each for each in METHODS if METHODS[each].reads_edges]
    yield f"| comprehensiveness | {' | '.join(f'`{each}`' for each in methods)} |"
    yield "|---" * (len(methods) + 1) + "|"
    for rule in EDGE_RULES:
        lines = [board.find(method, rule) for method in methods]
        if any(lines):
            yield f"| `{rule}` | {' | '.join(map(_marked, lines))} |"
    yield ""
    others = [line for line in board.order if line.explainer.edges is None]
    told = [f"{name_of(line.explainer)} {_marked(line)}" for line in others]
    if board.reference is not None:
        told.append(f"and, for comparison, `{REFERENCE}` {number(board.reference)}")
    yield f"Without edges: {', '.join(told)}."


def _marked(line: Line | None) -> str:
    if line is None:
        return "–"
    if line.best:
        return f"**{number(line.mean)}**"
    return number(line.mean) + (" †" if line.p >= SURE else "")


def metrics(board: Table) -> Iterator[str]:
    """All metrics of the best, of what attnflow uses, of the paper's, and of the baselines."""
    columns = [column for column in SHOWN if column in board.of.columns]
    titles = []
    for column in columns:
        metric = METRICS[column.metric]
        titles.append(f"{metric.title}, {column.against} {'↑' if metric.higher else '↓'}")
    yield f"| | {' | '.join(titles)} |"
    yield "|---" * (len(columns) + 1) + "|"
    for explainer in _named(board, columns):
        cells = [board.lines[explainer, column] for column in columns]
        shown = [f"**{cell(each)}**" if each.best else cell(each) for each in cells]
        yield f"| {name_of(explainer)} | {' | '.join(shown)} |"


def _named(board: Table, columns: Sequence[Column]) -> list[Explainer]:
    wanted = {line.explainer for line in board.chosen().values()}
    wanted |= {
        line.explainer for line in board.lines.values() if line.best and line.column in columns
    }
    wanted |= {line.explainer for line in board.order[:3]}
    for method in ("raw", "rollout", "flow"):
        wanted |= {
            line.explainer
            for edges in (PAPER.edges, _best_edges(board, method))
            if (line := board.find(method, edges))
        }
    wanted |= {each for each in board.of.explainers if each.baseline and each.method != SAME}
    return [line.explainer for line in board.order if line.explainer in wanted]
