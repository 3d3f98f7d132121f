"""What is explained: text, model, prediction, the position asked about."""

from __future__ import annotations

from rich.console import Group
from rich.text import Text

from attnflow.cli.terminal import label
from attnflow.labels import clip, isolated, printable
from attnflow.records import Attribution, Prediction


def header(attribution: Attribution) -> Group:
    """Three lines that say what follows."""
    return Group(title(attribution.text), *said(attribution.prediction), _asked(attribution))


def title(text: str) -> Text:
    """The text, on one line."""
    shown = isolated(printable(text))
    return Text(shown, style="bold", overflow="ellipsis", no_wrap=True)


def said(prediction: Prediction | None) -> list[Text]:
    """What the model predicted, and what else it thought likely."""
    if prediction is None:
        return []
    line = Text("→ ", style="dim")
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
    """A model's name, a long path shortened."""
    return clip(model, 40)


def _asked(attribution: Attribution) -> Text:
    source = label(attribution.tokens[attribution.query], 24)
    layer = f"layer {attribution.layer} of {max(attribution.layers)}"
    heads = attribution.options.get("heads", "mean")
    note = "" if heads == "mean" else f", heads {heads}"
    if attribution.options.get("correction"):
        note += f", corrected ({attribution.options['correction']})"
    return Text(f"from {source} at {layer}{note} · {model_name(attribution.model)}", style="dim")
