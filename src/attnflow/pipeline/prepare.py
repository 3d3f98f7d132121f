"""From inputs to sessions, the one way there is.

`prepare` reads every input, finds its edges and method, and checks all that can be checked before
the model runs; an input that can't be used becomes the reason why. `open_sessions` runs what is
prepared in batches of similar length, and falls back to other edges where a model refuses those
that were chosen for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from attnflow.errors import AttnflowError, InputError, ModelError, shown
from attnflow.io.inputs import check_unicode, is_pair, one_each
from attnflow.methods.question import rows_that_fit
from attnflow.models.adapter import Objective
from attnflow.models.capture.relevance import TogetherError
from attnflow.models.checks.memory import check_heads_memory
from attnflow.models.text.edits import begin, prediction_notices
from attnflow.options.option import refuse
from attnflow.options.tables import NO_LOGIT, NO_TARGET, SPANS
from attnflow.pipeline.choice import Chosen, choose, paper_note
from attnflow.pipeline.request import LOGIT, Request, check_layers
from attnflow.pipeline.session import Session
from attnflow.records.learned import LearnedHeads
from attnflow.records.parts import TEMPLATE, Part

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter, Tokens
    from attnflow.models.answers.interface import Answers
    from attnflow.models.answers.prompts import Prompt
    from attnflow.models.capture.spec import CaptureSpec
    from attnflow.options.tables import ReadingOptions

S = TypeVar("S", bound=Session)
Progress = Callable[[float], None]  # called with the share of one input that is done


@dataclass(frozen=True, eq=False)
class Given:
    """One of the inputs of a request, by its place among them."""

    place: int
    count: int
    item: Any


@dataclass(frozen=True, eq=False)
class Prepared:
    """An input that is ready to run.

    Attributes:
        model: The model.
        tokens: The input as the model's tokens.
        objective: What the model is asked to account for.
        chosen: The configuration with its edges and its method.
        given: Which input it is.
    """

    model: ModelAdapter
    tokens: Tokens
    objective: Objective
    chosen: Chosen
    given: Given


@dataclass(frozen=True, eq=False)
class Refused:
    """An input that can't be explained, and why."""

    given: Given
    error: AttnflowError


def prepare(  # noqa: PLR0913 - what differs between those who ask
    config: Request,
    model: ModelAdapter,
    items: Sequence[Any],
    *,
    answers: Any = None,
    targets: Any = None,
    files: bool = True,
    read: Callable[[Any], Tokens] | None = None,
    check: Callable[[int, Tokens], None] | None = None,
    refuse_unused: bool = True,
) -> Iterator[Prepared | Refused]:
    """Every input, ready to run or refused.

    Args:
        config: The options. What no input of this model could have is refused at once.
        model: The model.
        items: The inputs.
        answers: Of encoder–decoders, one answer for all inputs or one per input.
        targets: In place of the configuration's: one for all inputs or one per input.
        files: Whether a text may be the name of a file that is read.
        read: Makes tokens of an input, in place of `ModelAdapter.tokenize`.
        check: Called with the place of an input and its tokens; it may refuse them.
        refuse_unused: Whether a target without effect is refused, rather than noted.
    """
    check_model(model, config)
    count = len(items)
    each_answer = one_each("answer", answers, count)
    each_target = one_each("target", config.target if targets is None else targets, count)
    for place, item in enumerate(items):
        given = Given(place, count, item)
        objective = Objective(each_target[place], config.contrast)
        try:
            if read is None:
                tokens = read_input(model, item, config, each_answer[place], files=files)
            else:
                tokens = begin(model, read(item), config)
            if check is not None:
                check(place, tokens)
            chosen = choose(config, model, objective)
            chosen = _check_objective(chosen, model, objective, refuse_unused=refuse_unused)
            check_layers(chosen.config, model.depth)
        except AttnflowError as error:
            yield Refused(given, error)
        else:
            yield Prepared(model, tokens, objective, chosen, given)


def read_input(
    model: ModelAdapter,
    item: Any,
    options: ReadingOptions,
    answer: str | None = None,
    *,
    files: bool = True,
) -> Tokens:
    """One input as tokens."""
    item = check_unicode("text", item)
    if not files:
        from attnflow.models.text.tokens import refuse_file_name

        refuse_file_name(model, item[0] if is_pair(item) else item)
    return begin(model, model.tokenize(item, truncate=options.truncate, answer=answer), options)


def read_parts(
    answers: Answers, prompt: Prompt, options: ReadingOptions
) -> tuple[Tokens, tuple[Part, ...]]:
    """The tokens of a prompt and its parts; what is put in front of it is in none of them."""
    from attnflow.models.answers.prompts import read_prompt

    read, parts = read_prompt(answers, prompt, truncate=options.truncate)
    tokens = begin(answers.model, read, options)
    added = len(tokens) - len(read)
    if not added:
        return tokens, parts
    moved = [replace(part, positions=tuple(at + added for at in part.positions)) for part in parts]
    named = [part for part in moved if part.named]
    rest = [part.positions for part in moved if not part.named]
    left = (*range(added), *(rest[0] if rest else ()))
    return tokens, (*named, Part("rest", left, TEMPLATE))


def open_session(
    item: Any,
    adapter: ModelAdapter,
    config: Request,
    *,
    answer: str | None = None,
    all_heads: bool = False,
) -> Session:
    """The session of one input; with ``all_heads``, single heads have scores, too."""
    prepared = prepare(config, adapter, [item], answers=answer)
    ((_, session),) = open_sessions(prepared, all_heads=all_heads)
    return session


def open_sessions(
    inputs: Iterable[Prepared | Refused],
    *,
    all_heads: bool = False,
    progress: Progress | None = None,
) -> Iterator[tuple[int, Session]]:
    """The sessions of many inputs, each with its place among them, as they are computed.

    An input that is refused is an error, before any other runs. ``progress`` is
    called with the share of one input that is done, by edges that need many runs.
    """
    prepared: list[Prepared] = []
    for each in inputs:
        if isinstance(each, Refused):
            _raise_named(each.error, [each.given])
        if all_heads:
            try:
                check_heads_memory(each.model, len(each.tokens))
            except AttnflowError as error:
                _raise_named(error, [each.given])
        prepared.append(each)
    for batch in _batches(prepared, all_heads=all_heads):
        try:
            opened = run_batch(batch, all_heads=all_heads, progress=progress)
        except AttnflowError as error:
            _raise_named(error, [one.given for one in batch])
        for one, session in zip(batch, opened, strict=True):
            yield one.given.place, session


def try_sessions(inputs: Iterable[Prepared | Refused]) -> Iterator[tuple[int, Session | Refused]]:
    """The sessions of many inputs, or the reason why there is none, each with its place.

    Where one of a batch can't run, each of it runs alone.
    """
    prepared: list[Prepared] = []
    for each in inputs:
        if isinstance(each, Refused):
            yield each.given.place, each
        else:
            prepared.append(each)
    for batch in _batches(prepared):
        yield from _try_batch(batch)


def _try_batch(batch: Sequence[Prepared]) -> Iterator[tuple[int, Session | Refused]]:
    try:
        opened = run_batch(batch)
    except AttnflowError as error:
        if len(batch) == 1:
            yield batch[0].given.place, Refused(batch[0].given, error)
            return
        for one in batch:
            yield from _try_batch([one])
        return
    for one, session in zip(batch, opened, strict=True):
        yield one.given.place, session


def _raise_named(error: AttnflowError, inputs: Sequence[Given]) -> NoReturn:
    """Raise an error that says which of many inputs it is about."""
    if inputs[0].count == 1 or not isinstance(error, InputError | ModelError):
        raise error
    first = inputs[0]
    which = (
        f"input {first.place + 1} of {first.count}, {shown(first.item)}"
        if len(inputs) == 1
        else f"one of the inputs {', '.join(str(at) for at in sorted(i.place + 1 for i in inputs))}"
    )
    msg = f"{which}: {error}"
    raise type(error)(msg) from error


def _batches(prepared: Sequence[Prepared], *, all_heads: bool = False) -> Iterator[list[Prepared]]:
    """Inputs that run together: of similar length, so that little is padding, and of one choice.

    What is chosen for an input is what it would have alone.
    """
    groups: dict[Any, list[Prepared]] = {}
    for one in prepared:
        config = one.chosen.config
        groups.setdefault((config.edges, config.method, one.chosen.notes), []).append(one)
    for group in groups.values():
        spec = group[0].chosen.config.capture(all_heads=all_heads)
        size = _batch_size(group, spec)
        # The longest first, so that a batch that is too large for the memory is noticed at once.
        group.sort(key=lambda one: -len(one.tokens))
        for start in range(0, len(group), size):
            yield group[start : start + size]


def _batch_size(group: Sequence[Prepared], spec: CaptureSpec) -> int:
    model, tokens = group[0].model, [one.tokens for one in group]
    if spec.zeroing or not model.batchable(tokens):  # many runs of each, or padding matters
        return 1
    size = group[0].chosen.config.batch_size
    if size > 1 and spec.towards_target:
        # All that was computed is kept until it is differentiated.
        return rows_that_fit(model, tokens, size, gradients=True)
    return size


def run_batch(
    batch: Sequence[Prepared], *, all_heads: bool = False, progress: Progress | None = None
) -> list[Session]:
    """The sessions of inputs that run together, with the edges that were chosen for them."""

    def run(config: Request, notes: tuple[str, ...], places: Sequence[int]) -> list[Session]:
        spec = replace(config.capture(all_heads=all_heads), progress=progress)
        return list(_run([batch[at] for at in places], config, spec, notes))

    return run_chosen(batch[0].chosen, range(len(batch)), run)


def run_chosen(
    chosen: Chosen,
    places: Sequence[int],
    run: Callable[[Request, tuple[str, ...], Sequence[int]], list[S]],
) -> list[S]:
    """What ``run`` opens for the inputs at these places, under the chosen configuration.

    Where the model refuses edges that were chosen by default, it runs again for the fallback.
    """
    other = chosen.fallback
    try:
        opened = run(chosen.config, chosen.notes, places)
    except AttnflowError as error:
        if other is None:
            raise
        if len(places) > 1:  # one of them may be refused, and the others not
            return [session for at in places for session in run_chosen(chosen, [at], run)]
        return run(other, (paper_note(other, error),), places)
    if other is None:
        return opened
    for number, at in enumerate(places):
        try:
            opened[number].check_edges()
        except AttnflowError as error:
            (opened[number],) = run(other, (paper_note(other, error),), [at])
    return opened


def _run(
    batch: Sequence[Prepared], config: Request, spec: CaptureSpec, notes: tuple[str, ...]
) -> Iterator[Session]:
    """The sessions of inputs that run through the model together."""
    model = batch[0].model
    tokens, objectives = [one.tokens for one in batch], [one.objective for one in batch]
    try:
        passes = model.run(tokens, config.query, spec, objectives)
    except TogetherError:
        pairs = zip(tokens, objectives, strict=True)
        passes = [model.run([one], config.query, spec, [aim])[0] for one, aim in pairs]
    for given, forward, objective in zip(tokens, passes, objectives, strict=True):
        if config.strict and forward.warnings:
            msg = f"{forward.warnings[0]} (refused: strict=True)"
            raise ModelError(msg)
        if added := prediction_notices(model, forward, config):
            forward = replace(forward, warnings=(*forward.warnings, *added))
        yield Session(model, forward, config, objective, notes, given)


def check_model(adapter: ModelAdapter, config: Request) -> None:
    """Refuse layers that a model does not have, and heads that were learned on another."""
    config.resolve_layers(adapter.depth)
    if config.source == LOGIT and (adapter.has_source or not adapter.reads_text):
        refuse(config, "source", config.source, NO_LOGIT, adapter.name)
    if isinstance(config.heads, LearnedHeads):
        config.heads.check_model(adapter.name, adapter.depth)


def _check_objective(
    chosen: Chosen, model: ModelAdapter, objective: Objective, *, refuse_unused: bool
) -> Chosen:
    """Refuse a target that has no effect, or note it, and one that the model does not know."""
    if objective == Objective():
        return chosen
    if refuse_unused:
        check_effect(objective, model, chosen.config)
    check_known(objective, model)
    if refuse_unused or chosen.config.uses_target:
        return chosen
    note = (
        f"the target changes methods that read no edges; edges {chosen.config.edges!r} are the "
        "same for every target"
    )
    return replace(chosen, notes=(*chosen.notes, note))


def check_effect(objective: Objective, adapter: ModelAdapter, config: Request) -> None:
    """Refuse a target or a contrast where nothing depends on it."""
    spans = adapter.finds_spans
    if spans and objective.contrast is not None:
        refuse(config, "contrast", objective.contrast, SPANS, adapter.name)
    given = objective.target is not None or objective.contrast is not None
    # Of a span, the target says which end is explained.
    if given and not config.uses_target and not spans:
        name = "contrast" if objective.target is None else "target"
        refuse(config, name, getattr(objective, name), NO_TARGET, f"edges={config.edges!r}")


def check_known(objective: Objective, adapter: ModelAdapter) -> None:
    """Refuse a target and a contrast that the model does not know, or that are the same."""
    pair = [objective.target, objective.contrast]
    known = [() if each is None else adapter.output_indices(each) for each in pair]
    # Of several tokens of a name the model says which is meant, and then whether both are it.
    if len(known[0]) == 1 and known[0] == known[1]:
        msg = f"target and contrast are the same, {pair[0]!r}; name another contrast"
        raise InputError(msg)
