"""Sessions of many inputs: tokenized once, run through the model in batches of similar length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from attnflow.errors import AttnflowError, InputError, ModelError, shown
from attnflow.io.inputs import check_unicode, one_each
from attnflow.methods.question import rows_that_fit
from attnflow.models.adapter import Objective
from attnflow.models.capture.relevance import TogetherError
from attnflow.models.checks.memory import check_heads_memory
from attnflow.models.text.edits import both_predictions, drop_bos, put_bos
from attnflow.pipeline.amounts import check_layers
from attnflow.pipeline.choice import Chosen, choose, paper_note
from attnflow.pipeline.request import Request
from attnflow.pipeline.session import Session
from attnflow.pipeline.source import LOGIT
from attnflow.records.learned import LearnedHeads

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter, Tokens
    from attnflow.models.capture.spec import CaptureSpec


def open_session(
    item: Any,
    adapter: ModelAdapter,
    config: Request,
    *,
    answer: str | None = None,
    all_heads: bool = False,
) -> Session:
    """The session of one input; with ``all_heads``, single heads can be asked for, too."""
    ((_, session),) = open_sessions([item], adapter, config, answers=answer, all_heads=all_heads)
    return session


def open_sessions(
    items: Sequence[Any],
    adapter: ModelAdapter,
    config: Request,
    *,
    answers: Any = None,
    all_heads: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Iterator[tuple[int, Session]]:
    """The sessions of many inputs, each with its place among them, as they are computed.

    ``answers``, of encoder–decoders, is one for all inputs or one per input, and so is the
    configuration's target. Nothing runs before every input is tokenized, so that an input that
    can't be used is refused at once. ``progress`` is told the share of one input that is done, by
    edges that need many runs.
    """
    check_model(adapter, config)
    tokens = []
    for place, answer in enumerate(one_each("answer", answers, len(items))):
        with _naming([place], items):
            item = check_unicode("text", items[place])
            read = adapter.tokenize(item, truncate=config.truncate, answer=answer)
            tokens.append(put_bos(adapter, read) if config.bos else read)
            if all_heads:
                check_heads_memory(adapter, len(tokens[-1]))
    targets = one_each("target", config.target, len(items))
    objectives = [Objective(target, config.contrast) for target in targets]
    groups = by_choice(config, adapter, tokens, objectives)
    for chosen, members in groups:
        check_objectives([objectives[place] for place in members], adapter, chosen.config)
        check_layers(chosen.config, adapter.depth)
    for chosen, members in groups:
        spec = chosen.config.capture(all_heads=all_heads)
        inputs = [tokens[place] for place in members]
        for batch in batches_by_length(inputs, adapter, spec, config.batch_size):
            places = [members[at] for at in batch]
            with _naming(places, items):
                opened = run_sessions(
                    adapter,
                    [tokens[place] for place in places],
                    [objectives[place] for place in places],
                    chosen,
                    all_heads=all_heads,
                    progress=progress,
                )
            yield from zip(places, opened, strict=True)


def by_choice(
    config: Request,
    adapter: ModelAdapter,
    tokens: Sequence[Tokens],
    objectives: Sequence[Objective],
) -> list[tuple[Chosen, list[int]]]:
    """The places of inputs by what is chosen for each, which is what it would have alone."""
    groups: dict[Any, tuple[Chosen, list[int]]] = {}
    for place, (one, objective) in enumerate(zip(tokens, objectives, strict=True)):
        chosen = choose(config, adapter, one, objective)
        key = chosen.config.edges, chosen.config.method, chosen.notes
        groups.setdefault(key, (chosen, []))[1].append(place)
    return list(groups.values())


@contextmanager
def _naming(places: Sequence[int], items: Sequence[Any]) -> Iterator[None]:
    """Errors say which of many inputs they are about."""
    try:
        yield
    except (InputError, ModelError) as error:
        if len(items) == 1:
            raise
        which = (
            f"input {places[0] + 1} of {len(items)}, {shown(items[places[0]])}"
            if len(places) == 1
            else f"one of the inputs {', '.join(str(at + 1) for at in sorted(places))}"
        )
        msg = f"{which}: {error}"
        raise type(error)(msg) from error


def batches_by_length(
    tokens: Sequence[Tokens], adapter: ModelAdapter, spec: CaptureSpec, batch_size: int
) -> Iterator[list[int]]:
    """The places of inputs that run together: of similar length, so that little is padding."""
    # The longest first, so that a batch that is too large for the memory is noticed at once.
    order = sorted(range(len(tokens)), key=lambda place: -len(tokens[place]))
    alone = spec.zeroing or not adapter.batchable(tokens)  # many runs of each, or padding matters
    size = 1 if alone else batch_size
    if size > 1 and spec.towards_target and adapter.estimates_memory:
        # All that was computed is kept until it is differentiated.
        size = rows_that_fit(adapter, tokens, size, gradients=True)
    for start in range(0, len(order), size):
        yield order[start : start + size]


def run_sessions(
    adapter: ModelAdapter,
    tokens: Sequence[Tokens],
    objectives: Sequence[Objective],
    chosen: Chosen,
    *,
    all_heads: bool = False,
    progress: Callable[[float], None] | None = None,
) -> list[Session]:
    """The sessions of inputs that run together, with the edges that were chosen for them.

    Where the model refuses edges that nobody named, it runs again for the others.
    """

    def run(config: Request, notes: tuple[str, ...], places: Sequence[int]) -> list[Session]:
        spec = replace(config.capture(all_heads=all_heads), progress=progress)
        wanted = [objectives[at] for at in places]
        return list(open_batch([tokens[at] for at in places], wanted, adapter, config, spec, notes))

    everything, other = range(len(tokens)), chosen.fallback
    try:
        opened = run(chosen.config, chosen.notes, everything)
    except AttnflowError as error:
        if other is None:
            raise
        if len(tokens) > 1:  # one of them may be refused, and the others not
            return [
                session
                for at in everything
                for session in run_sessions(
                    adapter,
                    [tokens[at]],
                    [objectives[at]],
                    chosen,
                    all_heads=all_heads,
                    progress=progress,
                )
            ]
        return run(other, (paper_note(other, error),), everything)
    if other is None:
        return opened
    for at, session in enumerate(opened):
        try:
            session.check_edges()
        except AttnflowError as error:
            (opened[at],) = run(other, (paper_note(other, error),), [at])
    return opened


def open_batch(
    tokens: Sequence[Tokens],
    objectives: Sequence[Objective],
    adapter: ModelAdapter,
    config: Request,
    spec: CaptureSpec,
    notes: tuple[str, ...] = (),
) -> Iterator[Session]:
    """The sessions of inputs that run through the model together."""
    try:
        passes = adapter.run(tokens, config.query, spec, objectives)
    except TogetherError:
        pairs = zip(tokens, objectives, strict=True)
        passes = [adapter.run([one], config.query, spec, [aim])[0] for one, aim in pairs]
    for given, forward, objective in zip(tokens, passes, objectives, strict=True):
        if config.strict and forward.warnings:
            msg = f"{forward.warnings[0]} (refused: strict=True)"
            raise ModelError(msg)
        if config.bos:
            said = None  # at BOS itself: there is nothing before the first token without it
            if forward.query:
                (said,) = adapter.predict([drop_bos(forward.tokens)], [forward.query - 1])
            note = both_predictions(forward.prediction, said)
            forward = replace(forward, warnings=(*forward.warnings, note))
        yield Session(adapter, forward, config, objective, notes, given)


def check_model(adapter: ModelAdapter, config: Request) -> None:
    """Refuse layers that a model does not have, and heads that were learned on another."""
    config.resolve_layers(adapter.depth)
    if config.source == LOGIT and (adapter.has_source or not adapter.reads_text):
        msg = (
            f"source='logit' is for decoders of texts, and {adapter.name} is not one; leave it out"
        )
        raise InputError(msg)
    if isinstance(config.heads, LearnedHeads):
        config.heads.check_model(adapter.name, adapter.depth)


def check_objectives(
    objectives: Sequence[Objective], adapter: ModelAdapter, config: Request
) -> None:
    """Refuse a target where nothing depends on it, or which the model does not know."""
    given = next((each for each in objectives if each != Objective()), None)
    if given is None:
        return
    spans = adapter.finds_spans
    if spans and given.contrast is not None:
        msg = (
            f"contrast={shown(given.contrast)} is not for {adapter.name}: the answer is a span and "
            "has no other label to compare with; leave it out"
        )
        raise InputError(msg)
    if not config.uses_target and not spans:  # of a span, the target says which end is explained
        name = "contrast" if given.target is None else "target"
        msg = (
            f"{name}={shown(getattr(given, name))} has no effect on edges={config.edges!r}, which "
            "are the same for every target; use edges='gradient', or a method that reads no edges, "
            "such as method='gradient-norm', or source='logit', or leave it out"
        )
        raise InputError(msg)
    check_known(objectives, adapter)


def check_known(objectives: Sequence[Objective], adapter: ModelAdapter) -> None:
    """Refuse targets and contrasts that the model does not know, or that are the same."""
    for objective in objectives:
        pair = [objective.target, objective.contrast]
        known = [() if each is None else adapter.output_indices(each) for each in pair]
        # Of several tokens of a name the model says which is meant, and then whether both are it.
        if len(known[0]) == 1 and known[0] == known[1]:
            msg = f"target and contrast are the same, {pair[0]!r}; name another contrast"
            raise InputError(msg)
