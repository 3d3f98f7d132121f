"""What a step of the tour shows, in words that are made of what came out.

Each sentence holds for whatever the model says: where a text does not do what the tour is about,
the sentence tells that instead. Nothing is written beforehand but what is true of the methods.
"""

from __future__ import annotations

from attnflow.records import Attribution
from attnflow.tour.texts import Texts


def of_scores(texts: Texts) -> str:
    """Which of the two words the answer came from."""
    found = _explain(texts, texts.mixed)
    strong, weak = _share(found, texts.strong), _share(found, texts.weak)
    both = (
        f"“{texts.strong}” has {strong:.0%} of the ordinary tokens' scores and “{texts.weak}” "
        f"{weak:.0%}"
    )
    then = "the scores alone don't explain this answer"
    if strong != weak and (strong > weak) == (_label(found) == texts.answer):
        then = "the answer came from the word that speaks for it"
    return f"The model says {_said(found)}. {both}: {then}. Step 4 asks how far to trust that."


def of_routes(texts: Texts) -> str:
    """That the bottleneck proves the flow, and whether flows tell tokens apart."""
    from attnflow.api.routes import routes
    from attnflow.views.findings import find

    trace = routes(texts.mixed, texts.model, to=texts.strong)
    width = sum(edge.capacity for edge in trace.cut)
    first = trace.routes[0].amount / trace.value
    shown = (
        f"{len(trace.routes)} routes bring {trace.value:.3f} from “{texts.strong}” up to "
        f"“{trace.tokens[trace.query]}”, where the model decides; the largest carries {first:.0%} "
        f"of it. The {len(trace.cut)} edges of the bottleneck let {width:.3f} pass and no more, "
        "which proves that no other routes can bring more."
    )
    flow = find(_explain(texts, texts.mixed, trace.method, str(trace.options["edges"])))
    if flow.tied == 1:
        return shown
    return (
        f"{shown} {flow.tied} of {len(flow.order)} ordinary tokens share the highest flow: it "
        "shows ways and limits; for the order of words, step 1 used another method."
    )


def of_pair(texts: Texts) -> str:
    """What the word that was added did, and how high it scores."""
    from attnflow.views.findings import find

    plain, changed = _explain(texts, texts.plain), _explain(texts, texts.changed)
    what = "turns" if _label(plain) != _label(changed) else "does not turn"
    change = (
        f"“{texts.word}” {what} the answer: {_said(plain)} without it, {_said(changed)} with it."
    )
    order = find(changed).order
    rank = order.index(changed.position(texts.word)) + 1
    if rank == 1:
        return f"{change} The scores of the second text put it first, too."
    return (
        f"{change} The scores of the second text put “{changed.tokens[order[0]]}” first and "
        f"“{texts.word}” at place {rank} of {len(order)}: what an answer is made of is one "
        "question, what would change it another."
    )


def of_dispute(texts: Texts) -> str:
    """Which words the methods put first, and what the model says without each of them."""
    from attnflow.evaluation.importance import blank_out
    from attnflow.pipeline.choice import shown_methods
    from attnflow.views.claims import LONGEST
    from attnflow.views.findings import find
    from attnflow.views.labels import distinct_labels
    from attnflow.views.numbers import join_names

    main, blanked = _explain(texts, texts.disputed), _explain(texts, texts.disputed, "blank-out")
    edges = str(main.options["edges"])
    methods = shown_methods(main.method)
    found = {method: find(_explain(texts, texts.disputed, method, edges)) for method in methods}
    named = {method: each.order[0] for method, each in found.items() if each.tied == 1}
    decisive = find(blanked).order[0]
    tokens = distinct_labels(main.tokens, LONGEST)
    words = [f"{method} puts “{tokens[at]}” first" for method, at in named.items()]
    words += [f"{name} puts {found[name].tied} tokens first" for name in found if name not in named]
    tried = dict.fromkeys([*named.values(), decisive])
    fall = blank_out(texts.disputed, texts.model, signed=True)
    trials = [f"without “{tokens[at]}” {_without(main, fall, at)}" for at in tried]
    shown = (
        f"Of the methods, {join_names(words)}. The model says {_said(main)}, {join_names(trials)}. "
        f"“{tokens[decisive]}” changes the answer most"
    )
    right = [method for method, at in named.items() if at == decisive]
    wrong = [method for method in named if method not in right]
    if not wrong:
        return f"{shown}, and every method that puts one token first puts this one."
    agreeing = f", and {join_names(right)} found it" if right else ""
    return (
        f"{shown}{agreeing}: about the one word that decides most, believe this experiment "
        f"rather than {join_names(wrong)}. One caution: it takes one token away at a time, and "
        "misses words that can stand in for each other."
    )


def of_page() -> str:
    """What the page is for."""
    return (
        "The file needs no server and no network. Open it in a browser: click a word to trace it, "
        "or choose “blank it out” and click a word to see what the model says without it. The "
        "command attnflow serve opens such a page for any text that you type."
    )


def _explain(texts: Texts, text: str, method: str = "auto", edges: str = "auto") -> Attribution:
    from attnflow.api.explain import explain

    return explain(text, texts.model, method=method, edges=edges)


def _share(found: Attribution, token: str) -> float:
    """A token's share of the scores of all tokens of the text."""
    total = sum(score for _, score in found.top(len(found.tokens)))
    return float(found.values[found.position(token)]) / total


def _label(found: Attribution) -> str:
    return "" if found.prediction is None else found.prediction.label


def _said(found: Attribution) -> str:
    """What the model says, and how sure it is."""
    chance = 0.0 if found.prediction is None else found.prediction.probability
    return f"{_label(found)} ({chance:.1%})"


def _without(main: Attribution, fall: Attribution, at: int) -> str:
    """What a model of two labels says without a token, by how far its probability falls."""
    labels = () if main.prediction is None else main.prediction.alternatives
    (said, before), (other, _) = labels
    left = before - float(fall.values[at])
    return f"{said} ({left:.1%})" if left >= 0.5 else f"{other} ({1 - left:.1%})"
