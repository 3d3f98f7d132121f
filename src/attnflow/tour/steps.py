"""The steps of the tour: what is asked, the commands, the same in Python, and what to conclude."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from attnflow.shipped import DEFAULT
from attnflow.tour import conclusions
from attnflow.tour.texts import TEXTS, Texts

PAGE = "tour.html"
"""The file that the last step writes."""
NEXT = (
    'attnflow explain "…"                   a sentence of yours',
    'attnflow explain "…" --model NAME      a model of yours: a folder, or a name on the hub',
    "attnflow serve                         the explorer, for any text",
)


@dataclass(frozen=True)
class Step:
    """One step.

    Attributes:
        title: What it shows.
        about: What is asked, before anything runs.
        commands: The arguments of each command.
        code: The same in Python.
        conclude: What follows from what came out; computed anew.
    """

    title: str
    about: str
    commands: tuple[tuple[str, ...], ...]
    code: str
    conclude: Callable[[], str]


def make_steps(texts: Texts = TEXTS[DEFAULT]) -> tuple[Step, ...]:
    """The steps with the texts of a shipped model; it is named where it is not the default."""
    return (
        _scores(texts),
        _routes(texts),
        _pair(texts),
        _dispute(texts),
        _page(texts),
    )


def _scores(texts: Texts) -> Step:
    return Step(
        "A sentence, and the words that its answer came from",
        f"A small model that comes with attnflow {texts.about}. Here “{texts.strong}” and "
        f"“{texts.weak}” speak for different answers. Which of them did the answer come from?",
        (_command("explain", texts, texts.mixed),),
        f"""found = attnflow.explain("{texts.mixed}"{_model(texts)})
print(found.prediction.label, f"{{found.prediction.probability:.1%}}")
for token, score in found.top(3):
    print(f"{{score:.3f}} {{token}}")""",
        partial(conclusions.of_scores, texts),
    )


def _routes(texts: Texts) -> Step:
    return Step(
        "The paths it took, and the bottleneck",
        "A score says how much came from a word, not on which way. Routes are the paths through "
        "the layers; the bottleneck is what limits them.",
        (_command("routes", texts, texts.mixed, "--to", texts.strong, "--top", "5"),),
        f"""trace = attnflow.routes("{texts.mixed}"{_model(texts)}, to="{texts.strong}")
for route in trace.routes[:3]:
    tokens = [trace.tokens[at] for at in reversed(route.positions)]
    print(f"{{route.amount:.3f}}", " → ".join(tokens))
print("flow", round(trace.value, 3))
print("bottleneck", round(sum(edge.capacity for edge in trace.cut), 3))""",
        partial(conclusions.of_routes, texts),
    )


def _pair(texts: Texts) -> Step:
    return Step(
        "One word, and the answer turns",
        "Two texts that differ in a single word are the simplest experiment: what changes, changes "
        "because of that word.",
        (_command("explain", texts, texts.plain, texts.changed),),
        f"""pair = ["{texts.plain}", "{texts.changed}"]
for found in attnflow.explain(pair{_model(texts)}):
    print(found.prediction.label, f"{{found.prediction.probability:.1%}}")
    print([f"{{token}} {{score:.2f}}" for token, score in found.top(2)])""",
        partial(conclusions.of_pair, texts),
    )


def _dispute(texts: Texts) -> Step:
    return Step(
        "Methods disagree, and blanking decides",
        "Methods that read attention can put different words first. Blanking is an experiment: the "
        "model runs again with [UNK] in place of each token.",
        (
            _command("compare", texts, texts.disputed),
            _command("explain", texts, texts.disputed, "--method", "blank-out"),
        ),
        f"""text = "{texts.disputed}"
for method in ("auto", "raw", "rollout", "flow"):
    found = attnflow.explain(text{_model(texts)}, method=method)
    print(method, [f"{{token}} {{score:.2f}}" for token, score in found.top(2)])
said = found.prediction
print(f"the whole text: {{said.label}} {{said.probability:.1%}}")
falls = attnflow.blank_out(text{_model(texts)}, signed=True)
for token, fall in falls.top(3):
    print(f"without {{token}}: {{said.label}} {{said.probability - fall:.1%}}")""",
        partial(conclusions.of_dispute, texts),
    )


def _page(texts: Texts) -> Step:
    return Step(
        "The same in the explorer",
        "All of this is also a page that you can click through: scores, routes, heads, and what "
        "the model says without a word.",
        (_command("explain", texts, texts.disputed, "--html", PAGE, "--force"),),
        f"""view = attnflow.explore("{texts.disputed}"{_model(texts)})
page = view.save("{PAGE}", overwrite=True)""",
        conclusions.of_page,
    )


def _command(name: str, texts: Texts, *arguments: str) -> tuple[str, ...]:
    """A command's arguments."""
    return (name, *arguments, *(() if texts.model == DEFAULT else ("--model", texts.model)))


def _model(texts: Texts) -> str:
    """The model as an argument in Python."""
    return "" if texts.model == DEFAULT else f', "{texts.model}"'


def written(arguments: Sequence[str]) -> str:
    """A command as a reader types it, texts in quotation marks.

    >>> written(["explain", "A fine film.", "--method", "raw"])
    'attnflow explain "A fine film." --method raw'
    """
    return shlex.join(["attnflow", *arguments]).replace("'", '"')
