"""What is explained: text, model, prediction, position."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Group
from rich.text import Text

from attnflow.records import Attribution, Prediction
from attnflow.views.findings import Finding
from attnflow.views.labels import clip, isolate, label, printable
from attnflow.views.methods import describe_edges, describe_target, info_of, name_of
from attnflow.views.numbers import as_sentence


def header(
    attribution: Attribution,
    *others: Attribution,
    finding: Finding | None = None,
    all_layers: bool = False,
    edges_named: bool = True,
) -> Group:
    """The text, what was found, and lines on the prediction and the position; then warnings.

    ``others`` are scores of other methods of the same input; those without layers are towards a
    target, which is named. Where a method was named and no edges, it is said whose these are.
    """
    sources = [_source_line(attribution, all_layers=all_layers, edges_named=edges_named)]
    layered = info_of(attribution).layered
    other = next((o for o in others if info_of(o).layered != layered), None)
    if other is not None:
        sources.append(_source_line(other, all_layers=all_layers, edges_named=edges_named))
    found = [] if finding is None else [sentence(finding)]
    if finding is not None and finding.evidence:
        found.append(Text(finding.evidence))
    warnings = warning_lines(attribution.warnings)
    predicted = prediction_lines(attribution.prediction)
    return Group(title(attribution.text), *found, *predicted, *sources, *warnings)


def warning_lines(warnings: Sequence[str]) -> list[Text]:
    """What a reader must know."""
    return [Text(f"! {as_sentence(each)}", style="yellow") for each in warnings]


def sentence(finding: Finding) -> Text:
    """What was found, with the words that it is about set apart."""
    line = Text()
    for part in finding.parts:
        text = f"“{part.text}”" if part.position is not None else part.text
        line.append(text, "bold" if part.role else "")
    return line


def title(text: str) -> Text:
    """The text, on one line."""
    return Text(isolate(printable(text)), style="bold", overflow="ellipsis", no_wrap=True)


def prediction_lines(prediction: Prediction | None, about: str = "") -> list[Text]:
    """The prediction with its alternatives: one line, or none without a prediction.

    ``about`` says what is predicted, where no sentence before it does.
    """
    if prediction is None:
        return []
    line = Text(about or "→ ", style="dim")
    line.append(label(prediction.label, 40), style="bold")
    line.append(f" {prediction.probability:.1%}")
    others = [
        f"{label(name, 20)} {probability:.1%}"
        for name, probability in prediction.alternatives[1:4]
        if probability >= 0.0005
    ]
    if others:
        line.append("   " + ", ".join(others), style="dim")
    return [line]


def model_name(model: str) -> str:
    """A model's name; of a folder or file, the end of its path."""
    path = Path(model)
    return clip(f"…/{'/'.join(path.parts[-2:])}" if path.is_absolute() else model, 40)


def _source_line(attribution: Attribution, *, all_layers: bool, edges_named: bool) -> Text:
    if not info_of(attribution).layered:
        about = describe_target(attribution.options) or "for the output"
        return Text(
            f"{name_of(attribution)} {about} · {model_name(attribution.model)}", style="dim"
        )
    logit = attribution.options.get("source") == "logit"
    in_words = bool(attribution.pooled) or logit
    source = label(attribution.explained, 32 if in_words else 24)
    source = source if in_words else f"“{source}”"
    depth = attribution.depth
    layer = (
        f" at layers 1 to {depth}" if all_layers else f" at layer {attribution.layer} of {depth}"
    )
    layer = " through all layers" if logit else layer
    heads = attribution.options.get("heads", "mean")
    named = ", ".join(map(str, heads)) if isinstance(heads, list | tuple) else heads
    note = "" if heads == "mean" else f", heads {named}"
    note += describe_edges(attribution.options)
    if not edges_named:
        note += f" ({attribution.method} was published with these; --edges names others)"
    if attribution.options.get("correction"):
        note += f", corrected ({attribution.options['correction']})"
    return Text(f"for {source}{layer}{note} · {model_name(attribution.model)}", style="dim")
