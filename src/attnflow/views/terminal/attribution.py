"""What methods found about one input: a line with the verdict, one with the evidence, then bars.

With ``verbose`` there are definitions, legends and rank correlations, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnflow.records import Attribution
from attnflow.records.arrays import round_scores
from attnflow.views.colours import colour_top
from attnflow.views.terminal import paint, pictures
from attnflow.views.terminal.lines import (
    model_name,
    paragraph,
    prediction_lines,
    sentence,
    title,
    warning_lines,
)
from attnflow.views.wording.findings import Finding, is_ratio, merged_scores
from attnflow.views.wording.labels import distinct_labels, label, written
from attnflow.views.wording.names import (
    describe_edges,
    describe_target,
    info_of,
    is_signed,
    name_of,
    unit_of,
)
from attnflow.views.wording.numbers import as_sentence, listed, points, power_for, unit
from attnflow.views.wording.summaries import BLANK_OUT, Summary

NARROWEST = 26  # cells of a column with token, bar and number
WIDEST = 120
WIDE = 80  # cells in which there is room for what happens without each token
SHORTEST_BAR = 4
SHORTEST_NAME = 6
POSITION = 4  # ":123", where a token occurs twice


def show(
    attributions: Sequence[Attribution],
    found: Summary,
    console: Console,
    top: int,
    *,
    verbose: bool = False,
    edges_named: bool = True,
) -> None:
    """Print the verdict, the tokens as strong as their scores, and the highest scores as bars.

    Edges that were not named are the method's own, which ``verbose`` tells.
    """
    each_head = attributions[0].values.ndim == 2
    _show_header(attributions, found.main, console, verbose=verbose, edges_named=edges_named)
    if each_head:
        rows = max(top, pictures.ROWS)
        console.print(pictures.head_maps(attributions, found.main, console, rows, legend=verbose))
    else:
        named = len(attributions) > 1 or not top  # else the bars have the name
        console.print(pictures.picture(attributions, console, legend=verbose, named=named))
    if verbose:
        console.print(_method_lines(attributions))
    if top:
        console.print()
        if each_head:
            console.print("[dim]The mean of heads:[/]")
        console.print(top_tables(attributions, found.each, console, top))
    _show_notes(found, console, verbose=verbose)


def show_comparison(  # noqa: PLR0913 - what it shows, and how
    attributions: Sequence[Attribution],
    found: Summary,
    table: Mapping[tuple[str, str], Sequence[float]],
    console: Console,
    rows: int,
    *,
    verbose: bool = False,
    edges_named: bool = True,
) -> None:
    """Print the verdict, how far methods agree, and their scores in every layer.

    ``table`` has the rank correlations of every two methods, layer by layer.
    """
    _show_header(
        attributions,
        found.main,
        console,
        verbose=verbose,
        edges_named=edges_named,
        all_layers=True,
    )
    layers = max((item.layers for item in attributions), key=len)
    if table:
        console.print(pictures.agreement_table(layers, table, console))
        console.print()
    mapped = [item for item in attributions if info_of(item).layered and not _from_logit(item)]
    others = [item for item in attributions if item not in mapped]
    parts = []
    if mapped:
        parts.append(pictures.layer_maps(mapped, found.main, console, rows, legend=verbose))
    if others:  # in the order of the methods
        place = 0 if others[0] is attributions[0] else len(parts)
        parts.insert(place, pictures.picture(others, console, legend=verbose))
    for at, part in enumerate(parts):
        if at:
            console.print()
        console.print(part)
    _show_notes(found, console, verbose=verbose)


def _show_header(
    attributions: Sequence[Attribution],
    finding: Finding,
    console: Console,
    *,
    verbose: bool,
    edges_named: bool,
    all_layers: bool = False,
) -> None:
    """The text, the verdict, the evidence or the prediction, and warnings; then an empty line."""
    first, *others = attributions
    lines: list[RenderableType] = [title(first.text), sentence(finding, console.width)]
    if finding.evidence:
        lines.append(paragraph(finding.evidence, console.width))
    if verbose or not _is_told(finding, first):
        lines += [paragraph(each, console.width) for each in prediction_lines(first.prediction)]
    if verbose:
        layered = info_of(first).layered
        other = [each for each in others if info_of(each).layered != layered][:1]
        lines += [
            _source_line(each, all_layers=all_layers, edges_named=edges_named)
            for each in (first, *other)
        ]
    console.print(Group(*lines, *warning_lines(first.warnings), Text("")))


def _is_told(finding: Finding, of: Attribution) -> bool:
    """Whether the evidence tells the probability of what the model predicts."""
    predicted = "" if of.prediction is None else of.prediction.label
    same = of.options.get("target") in (None, predicted) and of.options.get("contrast") is None
    return bool(finding.evidence) and same


def _from_logit(attribution: Attribution) -> bool:
    return attribution.options.get("source") == "logit"


def _source_line(attribution: Attribution, *, all_layers: bool, edges_named: bool) -> Text:
    """The position that is explained, the layers, heads and edges, and the model."""
    if not info_of(attribution).layered:
        about = describe_target(attribution.options) or "for the output"
        line = f"{name_of(attribution)} {about} · {model_name(attribution.model)}"
        return Text(line, style="dim")
    in_words = bool(attribution.pooled) or _from_logit(attribution)
    source = label(attribution.explained, 32 if in_words else 24)
    source = source if in_words else f"“{source}”"
    depth = attribution.depth
    layer = (
        f" at layers 1 to {depth}" if all_layers else f" at layer {attribution.layer} of {depth}"
    )
    layer = " through all layers" if _from_logit(attribution) else layer
    heads = attribution.options.get("heads", "mean")
    named = ", ".join(map(str, heads)) if isinstance(heads, list | tuple) else heads
    note = "" if heads == "mean" else f", heads {named}"
    note += describe_edges(attribution.options)
    if not edges_named:
        note += f" ({attribution.method} was published with these; --edges names others)"
    if attribution.options.get("correction"):
        note += f", corrected ({attribution.options['correction']})"
    return Text(f"for {source}{layer}{note} · {model_name(attribution.model)}", style="dim")


def _method_lines(attributions: Sequence[Attribution]) -> Group:
    """What each method does, where that is known."""
    summaries = [(name_of(item), info_of(item).summary) for item in attributions]
    lines = [f"{name}: {line[:1].lower()}{line[1:]}" for name, line in summaries if line]
    return Group(*(Text(line, style="dim") for line in lines))


def _show_notes(found: Summary, console: Console, *, verbose: bool) -> None:
    """Which methods agree, and why the answer was not checked; with ``verbose``, on the scores."""
    notes = [note for each in found.each for note in each.notes] if verbose else []
    told = found.each if verbose else (found.main,)
    apart = {each.alternative: each.name for each in told if each.alternative}
    notes += [f"--method {other} tells apart what {name} can't" for other, name in apart.items()]
    if found.unchecked:
        does_it = f"; --method {BLANK_OUT} does it" if found.checkable else ""
        notes.append(f"{found.unchecked}{does_it}")
    several = len(found.each) > 1
    agreement = found.agreement if verbose else found.leaders if several else ""
    lines = [Text(as_sentence(note), style="dim") for note in dict.fromkeys(notes)]
    lines += [paragraph(agreement, console.width)] if agreement else []
    if lines:
        console.print(Group(Text(""), *lines))


def top_tables(
    attributions: Sequence[Attribution], findings: Sequence[Finding], console: Console, k: int
) -> RenderableType:
    """The k highest tokens of each method, without special ones."""
    side_by_side = console.width // len(attributions) >= NARROWEST
    width = (console.width - 2) // len(attributions) - 2 if side_by_side else console.width - 2
    effects = len(attributions) == 1 and width >= WIDE - 4
    tables = [
        _bars(attribution, found, min(width, WIDEST), k, effects=effects)
        for attribution, found in zip(attributions, findings, strict=True)
    ]
    if not side_by_side:
        return Group(*tables)
    grid = Table.grid(padding=(0, 2, 0, 0))
    for _ in tables:
        grid.add_column()
    grid.add_row(*tables)
    return grid


def _bars(
    attribution: Attribution, finding: Finding, width: int, k: int, *, effects: bool
) -> RenderableType:
    """Token, bar, number; the method above the bars, or above all where these are too short.

    With ``effects``, also how the answer changes without the token, where that is known.
    """
    ratio, signed = is_ratio(attribution), is_signed(attribution)
    values = merged_scores(attribution)
    ranked = finding.ranked
    if signed:  # what speaks against the answer most is as high as what speaks for it
        ranked = tuple(sorted(ranked, key=lambda at: -abs(values[at])))
    places = ranked[:k]
    power = 0 if ratio else power_for(colour_top(attribution))
    numbers = [_number(float(values[at]), power, ratio=ratio, signed=signed) for at in places]
    of = " ".join(filter(None, [unit(power), unit_of(attribution.method, attribution.options)]))
    of = "× chance" if ratio else of
    changes = _changes(finding, places) if effects else []
    beside = max(map(cell_len, [*numbers, of]), default=0) + 2
    beside += max(map(cell_len, changes), default=-2) + 2
    names = _names(attribution, places, width - beside - SHORTEST_BAR)
    space = max(width - beside - max(map(cell_len, names), default=0), SHORTEST_BAR)
    largest = max((abs(float(values[at])) for at in places), default=0.0) or 1.0
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(width=space, no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    if changes:
        table.add_column(justify="right", no_wrap=True)
    heading = _heading(attribution, signed=signed)
    above = cell_len(heading.plain) > space
    if of or changes or not above:
        cells = [Text(changes[0], "dim")] if changes else []
        table.add_row("", "" if above else heading, Text(of, "dim"), *cells)
    for row, (at, name, amount) in enumerate(zip(places, names, numbers, strict=True), start=1):
        bar = paint.bar(abs(float(values[at])) / largest, space)
        ink = paint.sign_ink(float(values[at])) if signed else paint.ink(attribution.method)
        cells = [Text(f" {changes[row]}", "dim")] if changes else []
        table.add_row(name, Text(bar, ink), amount, *cells)
    if places:
        rounded = round_scores(values)
        equal = sum(rounded[at] == rounded[places[-1]] for at in ranked[k:])
        if equal:
            table.add_row("", Text(f"{equal} more", "dim"), Text(numbers[-1], "dim"))
    return Group(heading, table) if above else table


def _heading(attribution: Attribution, *, signed: bool) -> Text:
    """The method; of scores with signs, also what these mean, in their colours."""
    line = Text(name_of(attribution), pictures.method_ink(attribution))
    if signed:
        target = attribution.options.get("target")
        what = f" for {label(str(target), 24)}" if target is not None else " for"
        line.append("  +" + what, paint.sign_ink(1))
        line.append("  − against", paint.sign_ink(-1))
    return line


def _number(value: float, power: int, *, ratio: bool, signed: bool) -> str:
    plus = "+" if signed and value > 0 else ""
    return plus + listed(value, power, ratio=ratio)


def _changes(finding: Finding, places: Sequence[int]) -> list[str]:
    """A heading, and how the answer changes without each of these tokens; empty if unknown."""
    if not finding.changes:
        return []
    changes = [finding.changes[at] for at in places]
    return ["without it", *("" if each is None else points(each) for each in changes)]


def _names(attribution: Attribution, places: Sequence[int], width: int) -> list[str]:
    """Labels of tokens in at most that many cells, positions of repeated ones included."""
    names: list[str] = []
    for size in (width, width - POSITION):
        labels = distinct_labels(written(attribution), max(size, SHORTEST_NAME))
        names = [labels[at] for at in places]
        if max(map(cell_len, names), default=0) <= width:
            break
    return names
