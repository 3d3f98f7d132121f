"""The results as a page of Markdown, next to the paper's."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attnflow.errors import InputError
from attnflow.io.files import write_file
from attnflow_experiments.reproduce.published import PUBLISHED
from attnflow_experiments.reproduce.tables import METHODS

TITLES = {
    "table1": "Table 1: agreement with blank-out",
    "table2": "Table 2: agreement with gradients",
    "table3": "Table 3: a sentiment model",
    "subjects": "How often the subject is the noun with the highest score",
    "flips": "Changing the subject's number",
    "errors": "Where the model is wrong",
    "figure1": "Figure 1: attention graphs",
    "figure2": "Figure 2: CLS by layer",
    "figure3": "Figure 3: two more sentences",
    "figure4": "Figure 4: where a pronoun attends",
    "relevance": "Tables 1 and 2 at the last layer, with relevance",
    "relevance3": "Table 3 at the last layer, with relevance",
}
IMPORTANCE = {
    "unk": "ours, token → UNK",
    "delete": "ours, token deleted",
    "norm": "ours, norm of the gradient",
    "input": "ours, size of gradient × embedding",
}


def render_page(results: Mapping[str, Any], folder: str) -> str:
    """One section per target, in the order of the results; figures are in ``folder``."""
    parts = []
    for name, result in results.items():
        lines = SECTIONS[name](name, result) if name in SECTIONS else []
        files = result["files"] if name.startswith("figure") else []
        images = [f"![{file}]({folder}/{file})" for file in files]
        parts += [f"## {TITLES[name]}", "", *lines, *images, ""]
    return "\n".join(parts)


START, END = "<!-- results: made by attnflow reproduce -->", "<!-- end of results -->"


def insert_page(results: Mapping[str, Any], folder: Path, file: Path) -> None:
    """Write the page between the two markers of a file; the text around them stays."""
    before, after = split_at_markers(file)
    page = render_page(results, Path(os.path.relpath(folder, file.parent)).as_posix())
    write_file(file, f"{before}{START}\n{page}{END}{after}".encode())


def split_at_markers(file: Path) -> tuple[str, str]:
    """The text before and after the two markers; a file that does not exist has none."""
    try:
        text = file.read_text(encoding="utf-8") if file.exists() else f"{START}\n{END}\n"
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{file} can't be read: {error}; name a page of text"
        raise InputError(msg) from None
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        msg = f"{file} has no lines {START!r} and {END!r}; add them where the results should go"
        raise InputError(msg)
    return before, after


def format_cell(value: Mapping[str, float] | Sequence[float]) -> str:
    """Mean ± standard deviation, to two digits."""
    mean, std = (value["mean"], value["std"]) if isinstance(value, Mapping) else value
    return f"{mean:.2f} ± {std:.2f}".replace("-", "−").replace("−0.00", "0.00")


def _grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def _correlations(name: str, result: Mapping[str, Any], layers: Sequence[int]) -> list[str]:
    rows = []
    for method in METHODS:
        for importance, found in result.items():
            label = IMPORTANCE.get(importance, importance)
            rows.append([f"**{method}**, {label}", *map(format_cell, found[method])])
        rows.append([f"{method}, the paper", *map(format_cell, PUBLISHED[name][method])])
    first = next(iter(result.values()))[METHODS[0]][0]
    undefined = {
        f"{IMPORTANCE.get(k, k)} {m}": v[m][-1]["undefined"]
        for k, v in result.items()
        for m in METHODS
    }
    note = (
        f"Spearman's correlation over {first['count'] + first['undefined']} sentences, mean ± "
        f"standard deviation; at the last layer, {sum(undefined.values()) or 'none'} is undefined."
    )
    return [note, "", *_grid(["", *(f"L{layer}" for layer in layers)], rows)]


def _table(name: str, result: Mapping[str, Any]) -> list[str]:
    return _correlations(name, result, range(1, 7))


def _table3(name: str, result: Mapping[str, Any]) -> list[str]:
    both = {**result["defined"], "as the published script did it": result["published"]}
    *lower, last = (f"{share:.2f}" for share in result["itself"])
    itself = f"{', '.join(lower)} and {last}" if lower else last
    summary = (
        f"{result['rows']} sentences; the model is right on {result['accuracy']:.3f} of them. In "
        f"layers 1 to {len(result['itself'])}, CLS gives {itself} of its attention to itself."
    )
    return [summary, "", *_correlations(name, both, (1, 3, 5, 6))]


def _beside(_: str, result: Mapping[str, Any]) -> list[str]:
    """A row for each method and a column for each importance."""
    first = next(iter(result.values()))
    count = max(cell["count"] for (cell,) in first.values())
    head = ["", *(IMPORTANCE[name].removeprefix("ours, ") for name in result)]
    rows = [
        [way, *(format_cell(found[way][0]) for found in result.values())]
        for way in next(iter(result.values()))
    ]
    note = f"Spearman's correlation over {count} sentences, mean ± standard deviation."
    return [note, "", *_grid(head, rows)]


def _subjects(_: str, result: Mapping[str, Any]) -> list[str]:
    rows = []
    for group, statistics in result.items():
        for method, found in statistics["found"].items():
            cells = [group, str(statistics["sentences"]), f"{statistics['chance']:.2f}", method]
            rows.append([*cells, *(f"{value:.2f}" for value in found)])
    layers = [f"L{layer}" for layer in range(1, 7)]
    return _grid(["attractors", "sentences", "by chance", "method", *layers], rows)


def _flips(_: str, result: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = [
        [
            f"{text} → {answer} ({chance:.2f})"
            for text, answer, chance in zip(
                pair["texts"], pair["answers"], pair["probabilities"], strict=True
            )
        ]
        for pair in result
    ]
    return _grid(["singular subject", "plural subject"], rows)


def _errors(_: str, result: Mapping[str, Any]) -> list[str]:
    summary = (
        f"The model is wrong on {result['errors']} of {result['rows']} held-out sentences. In "
        f"{result['flow_blames_other_number']} of the {result['with_nouns']} that have a noun, a "
        "noun of the wrong number is among those with the highest flow. The first of them:"
    )
    rows = [
        [
            case["text"].replace("|", "\\|"),
            case["right"],
            f"{case['said']} ({case['probability']:.2f})",
            ", ".join(case["flow"]),
            ", ".join(case["rollout"]),
        ]
        for case in result["cases"]
    ]
    return [summary, "", *_grid(["text", "right", "said", "flow: noun", "rollout: noun"], rows)]


def _figure4(_: str, result: Mapping[str, Any]) -> list[str]:
    shown = "; ".join(
        f"“{text}”: " + ", ".join(f"{word} {chance:.3f}" for word, chance in chances.items())
        for text, chances in zip(result["texts"], result["chances"], strict=True)
    )
    return [f"The probabilities that {result['model']} gives the pronouns: {shown}.", ""]


SECTIONS: dict[str, Callable[[str, Any], list[str]]] = {
    "table1": _table,
    "table2": _table,
    "table3": _table3,
    "relevance": _beside,
    "relevance3": _beside,
    "subjects": _subjects,
    "flips": _flips,
    "errors": _errors,
    "figure4": _figure4,
}
