"""`attnflow tour`: five minutes with a shipped model, each step a command to repeat.

A step says what is asked, the commands, the same in Python, and what to conclude. Conclusions are
computed from what came out: where a text does not do what the tour is about, the sentence says that
instead. The tests show that the shipped weights do with the texts what the tour is about.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from attnflow.records import Attribution
from attnflow.shipped import DEFAULT

PAGE = "tour.html"
"""The file that the last step writes."""
NEXT = (
    'attnflow explain "…"                   a sentence of yours',
    'attnflow explain "…" --model NAME      a model of yours: a folder, or a name on the hub',
    "attnflow serve                         the explorer, for any text",
)


@dataclass(frozen=True)
class TourTexts:
    """What is asked of one model.

    Attributes:
        model: Its name.
        about: What it reads and says.
        mixed: A text with a word for either answer.
        strong: The word of it that speaks for ``answer``.
        weak: The word of it that speaks for the other answer.
        answer: A label.
        plain: The first text of a minimal pair.
        changed: The second one.
        word: The word that the second one has and the first one has not.
        disputed: A text that methods disagree about.
    """

    model: str
    about: str
    mixed: str
    strong: str
    weak: str
    answer: str
    plain: str
    changed: str
    word: str
    disputed: str


TEXTS = {
    "sentiment": TourTexts(
        model="sentiment",
        about="reads a text and says whether it is positive or negative",
        mixed="The story is slow, but the music is wonderful.",
        strong="wonderful",
        weak="slow",
        answer="positive",
        plain="The food was good.",
        changed="The food was not good.",
        word="not",
        disputed="It was not bad at all.",
    ),
    "verbs": TourTexts(
        model="verbs",
        about="reads a sentence up to its verb and says whether the verb is singular or plural",
        mixed="the keys to the cabinet",
        strong="keys",
        weak="cabinet",
        answer="plural",
        plain="the key to the cabinets",
        changed="the keys to the cabinets",
        word="keys",
        disputed="the man with the cats",
    ),
}


@dataclass(frozen=True)
class TourStep:
    """One step of the tour.

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


def make_steps(texts: TourTexts = TEXTS[DEFAULT]) -> tuple[TourStep, ...]:
    """The steps with the texts of a shipped model; it is named where it is not the default."""
    return (
        _scores(texts),
        _routes(texts),
        _pair(texts),
        _dispute(texts),
        _page(texts),
    )


def _scores(texts: TourTexts) -> TourStep:
    return TourStep(
        "A sentence, and the words behind the answer",
        f"A small model that comes with attnflow {texts.about}. Here “{texts.strong}” and "
        f"“{texts.weak}” speak for different answers. Which of them decided?",
        (_command("explain", texts, texts.mixed),),
        f"""found = attnflow.explain("{texts.mixed}"{_model(texts)})
print(found.prediction.label, f"{{found.prediction.probability:.1%}}")
for token, score in found.top(3):
    print(f"{{score:.3f}} {{token}}")""",
        partial(of_scores, texts),
    )


def _routes(texts: TourTexts) -> TourStep:
    return TourStep(
        "The paths it took, and the bottleneck",
        "A score says how much came from a word, not by which way. Routes are the paths "
        "through the layers; the bottleneck is what limits them.",
        (_command("routes", texts, texts.mixed, "--to", texts.strong, "--top", "5"),),
        f"""trace = attnflow.routes("{texts.mixed}"{_model(texts)}, to="{texts.strong}")
for route in trace.routes[:3]:
    tokens = [trace.tokens[at] for at in reversed(route.positions)]
    print(f"{{route.amount:.3f}}", " → ".join(tokens))
print("flow", round(trace.value, 3))
print("bottleneck", round(sum(edge.capacity for edge in trace.cut), 3))""",
        partial(of_routes, texts),
    )


def _pair(texts: TourTexts) -> TourStep:
    return TourStep(
        "One word, and the answer turns",
        "The simplest experiment is to change a single word: if the answer changes, that word is "
        "the reason.",
        (_command("explain", texts, texts.plain, texts.changed),),
        f"""pair = ["{texts.plain}", "{texts.changed}"]
for found in attnflow.explain(pair{_model(texts)}):
    print(found.prediction.label, f"{{found.prediction.probability:.1%}}")
    print([f"{{token}} {{score:.2f}}" for token, score in found.top(2)])""",
        partial(of_pair, texts),
    )


def _dispute(texts: TourTexts) -> TourStep:
    return TourStep(
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
predicted = found.prediction
print(f"the whole text: {{predicted.label}} {{predicted.probability:.1%}}")
falls = attnflow.blank_out(text{_model(texts)}, signed=True)
for token, fall in falls.top(3):
    print(f"without {{token}}: {{predicted.label}} {{predicted.probability - fall:.1%}}")""",
        partial(of_dispute, texts),
    )


def _page(texts: TourTexts) -> TourStep:
    return TourStep(
        "The same in the explorer",
        "All of this is also a page that you can click through: scores, routes, heads, and what "
        "the model says without a word.",
        (_command("explain", texts, texts.disputed, "--html", PAGE, "--force"),),
        f"""view = attnflow.explore("{texts.disputed}"{_model(texts)})
page = view.save("{PAGE}", overwrite=True)""",
        of_page,
    )


def _command(name: str, texts: TourTexts, *arguments: str) -> tuple[str, ...]:
    """A command's arguments."""
    return (name, *arguments, *(() if texts.model == DEFAULT else ("--model", texts.model)))


def _model(texts: TourTexts) -> str:
    """The model as an argument in Python."""
    return "" if texts.model == DEFAULT else f', "{texts.model}"'


def written(arguments: Sequence[str]) -> str:
    """A command as a reader types it, texts in quotation marks.

    >>> written(["explain", "A fine film.", "--method", "raw"])
    'attnflow explain "A fine film." --method raw'
    """
    return shlex.join(["attnflow", *arguments]).replace("'", '"')


def of_scores(texts: TourTexts) -> str:
    """Which of the two words the answer came from."""
    from attnflow.views.wording.numbers import number

    found = _explain(texts, texts.mixed)
    strong, weak = (
        float(found.values[found.position(word)]) for word in (texts.strong, texts.weak)
    )
    both = (
        f"“{texts.strong}” adds {number(strong)} logits to “{_label(found)}” and "
        f"“{texts.weak}” {number(weak)}"
    )
    then = "the scores alone don't explain this answer"
    if strong != weak and (strong > weak) == (_label(found) == texts.answer):
        then = "the answer came from the word that speaks for it"
    return f"The model says {_answer(found)}. {both}: {then}. Step 4 asks how far to trust that."


def of_routes(texts: TourTexts) -> str:
    """That the bottleneck proves the flow, and whether flows tell tokens apart."""
    from attnflow.api.routes import routes
    from attnflow.views.wording.findings import find
    from attnflow.views.wording.numbers import number, share

    trace = routes(texts.mixed, texts.model, to=texts.strong)
    width = sum(edge.capacity for edge in trace.cut)
    first = trace.routes[0].amount / trace.value
    shown = (
        f"{len(trace.routes)} routes bring {number(trace.value)} logits from “{texts.strong}” up "
        f"to “{trace.tokens[trace.query]}”, where the model decides; the largest carries "
        f"{share(first)} of it. The {len(trace.cut)} edges of the bottleneck let {number(width)} "
        "pass and no more, "
        "which proves that no other routes can bring more."
    )
    flow = find(_explain(texts, texts.mixed, trace.method, str(trace.options["edges"])))
    if flow.tied == 1:
        return shown
    return (
        f"{shown} {flow.tied} of {len(flow.order)} ordinary tokens share the highest flow: it "
        "shows ways and limits; for the order of words, step 1 used another method."
    )


def of_pair(texts: TourTexts) -> str:
    """What the word that was added did, and how high it scores."""
    from attnflow.views.wording.findings import find

    plain, changed = _explain(texts, texts.plain), _explain(texts, texts.changed)
    what = "turns" if _label(plain) != _label(changed) else "does not turn"
    before, after = _answer(plain), _answer(changed)
    change = f"“{texts.word}” {what} the answer: {before} without it, {after} with it."
    order = find(changed).order
    rank = order.index(changed.position(texts.word)) + 1
    if rank == 1:
        return f"{change} The scores of the second text put it first, too."
    return (
        f"{change} The scores of the second text put “{changed.tokens[order[0]]}” first and "
        f"“{texts.word}” at place {rank} of {len(order)}: what an answer is made of is one "
        "question, what would change it another."
    )


def of_dispute(texts: TourTexts) -> str:
    """Which words the methods put first, and what the model says without each of them."""
    from attnflow.evaluation.importance import blank_out
    from attnflow.pipeline.choice import usual_methods
    from attnflow.views.wording.findings import find
    from attnflow.views.wording.labels import LONGEST, distinct_labels
    from attnflow.views.wording.names import name_of
    from attnflow.views.wording.numbers import join_names

    main = _explain(texts, texts.disputed)
    fall = blank_out(texts.disputed, texts.model, signed=True)
    others = [_explain(texts, texts.disputed, method) for method in usual_methods()]
    found = {name_of(each): find(each) for each in (main, *others)}
    named = {method: each.order[0] for method, each in found.items() if each.tied == 1}
    falling = sorted(find(main).order, key=lambda at: -fall.values[at])
    decisive = [at for at in falling if not _without(main, fall, at).startswith(_label(main))]
    what = "turns the answer" if len(decisive) == 1 else "each turn the answer"
    if not decisive:
        decisive, what = falling[:1], "changes the answer most"
    tokens = distinct_labels(main.tokens, LONGEST)
    words = [f"{method} puts “{tokens[at]}” first" for method, at in named.items()]
    words += [f"{name} puts {found[name].tied} tokens first" for name in found if name not in named]
    tried = dict.fromkeys([*named.values(), *decisive])
    trials = [f"without “{tokens[at]}” {_without(main, fall, at)}" for at in tried]
    shown = (
        f"Of the methods, {join_names(words)}. The model says {_answer(main)}, "
        f"{join_names(trials)}. {join_names([f'“{tokens[at]}”' for at in decisive])} {what}"
    )
    right = [method for method, at in named.items() if at in decisive]
    wrong = [method for method in named if method not in right]
    if not wrong:
        return f"{shown}, and every method that puts one token first found that."
    agreeing = f", and {join_names(right)} found that" if right else ""
    return (
        f"{shown}{agreeing}: about the word that decides, believe this experiment rather than "
        f"{join_names(wrong)}. One caution: it takes one token away at a time, and misses words "
        "that can stand in for each other."
    )


def of_page() -> str:
    """What the page is for."""
    return (
        "The file needs no server and no network. Open it in a browser: click a word to trace it, "
        "or choose “blank it out” and click a word to see what the model says without it. The "
        "command attnflow serve opens such a page for any text that you type."
    )


def _explain(texts: TourTexts, text: str, method: str = "auto", edges: str = "auto") -> Attribution:
    from attnflow.api.explain import explain

    return explain(text, texts.model, method=method, edges=edges)


def _label(found: Attribution) -> str:
    return "" if found.prediction is None else found.prediction.label


def _answer(found: Attribution) -> str:
    """What the model says, and how sure it is."""
    from attnflow.views.wording.numbers import percent

    chance = 0.0 if found.prediction is None else found.prediction.probability
    return f"{_label(found)} ({percent(chance)})"


def _without(main: Attribution, fall: Attribution, at: int) -> str:
    """What a model of two labels says without a token, by how far its probability falls."""
    from attnflow.views.wording.numbers import percent

    labels = () if main.prediction is None else main.prediction.alternatives
    (label, before), (other, _) = labels
    left = before - float(fall.values[at])
    return f"{label} ({percent(left)})" if left >= 0.5 else f"{other} ({percent(1 - left)})"
