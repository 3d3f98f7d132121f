"""`explain` and `explain_answer`: text in, an attribution or an explained answer out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, overload

import numpy.typing as npt

from attnflow.errors import InputError, Interrupted
from attnflow.io.inputs import as_inputs
from attnflow.io.progress import progress_bar
from attnflow.options.option import takes
from attnflow.options.tables import AnswerOptions, ExplainOptions
from attnflow.pipeline.prepare import open_sessions, prepare
from attnflow.pipeline.request import Request
from attnflow.records import Attribution
from attnflow.records.generation import Generation

if TYPE_CHECKING:
    from PIL.Image import Image
    from transformers import BatchEncoding

    from attnflow.models.adapter import ModelAdapter
    from attnflow.models.answers.interface import Answers
    from attnflow.models.answers.prompts import Prompt
    from attnflow.models.loading import Source
    from attnflow.pipeline.generation import AnswerConfig

    # A text, a pair of texts that are read as one, token ids, an image or a sound.
    Alone = str | tuple[str, str] | PathLike[str] | Image | npt.NDArray[Any]
    # The same, or what a tokenizer returned, or an image with a text.
    One = Alone | BatchEncoding | Mapping[str, Any]
    Ids = list[int] | BatchEncoding | npt.NDArray[Any]
    # A text, named parts of one, the messages of a chat, or token ids.
    Conversation = str | Mapping[str, str] | Sequence[Mapping[str, Any]] | Ids

P = ParamSpec("P")
T = TypeVar("T")
LENGTH = 40  # tokens of an answer where no number is given


class Explain(Protocol[P]):
    """How `explain` is called: one input gives one attribution, many give a list."""

    @overload
    def __call__(  # type: ignore[overload-overlap] # texts and images are iterable, too
        self, text: One, model: Source = None, *args: P.args, **options: P.kwargs
    ) -> Attribution: ...

    @overload
    def __call__(
        self, text: list[int], model: Source = None, *args: P.args, **options: P.kwargs
    ) -> Attribution: ...

    @overload
    def __call__(
        self, text: Iterable[Any], model: Source = None, *args: P.args, **options: P.kwargs
    ) -> list[Attribution]: ...


class ExplainAnswer(Protocol[P]):
    """How `explain_answer` is called: one prompt gives one generation, many give a list."""

    @overload
    def __call__(  # type: ignore[overload-overlap] # ids are iterable, too
        self, prompt: Conversation, model: Source = None, *args: P.args, **options: P.kwargs
    ) -> Generation: ...

    @overload
    def __call__(
        self, prompt: Iterable[Any], model: Source = None, *args: P.args, **options: P.kwargs
    ) -> list[Generation]: ...


def _explains(table: Callable[P, Any]) -> Callable[[Callable[..., Any]], Explain[P]]:
    return takes(table, explain_answer=AnswerOptions)


def _answers(table: Callable[P, Any]) -> Callable[[Callable[..., Any]], ExplainAnswer[P]]:
    return takes(table)


@_explains(ExplainOptions)
def explain(
    text: Any, model: Source = None, *, options: ExplainOptions
) -> Attribution | list[Attribution]:
    """Which input tokens a model's output came from.

    The tokens of an answer that a model writes are explained by `attnflow.explain_answer`.

    Args:
        text: A text, or many: a list, a Series, a generator. A tuple of two texts is a pair that
            the model reads as one input: ``("premise", "hypothesis")``. Token ids (a list of
            integers) and what a tokenizer returned are taken as they are. For vision models an
            image (a path, a PIL image or an array), or a list of images; for models of sound a
            .wav file, or an array of samples.
        model: A hub name, a folder, ``(model, tokenizer)``, what `load_model` returned, or ``None``
            for the model shipped with attnflow.

    Examples:
        >>> import attnflow
        >>> attnflow.explain("The food was not good.").prediction.label
        'negative'
    """
    request = Request.of(options, progress=False)
    from attnflow.models.loading import load_model

    adapter = load_model(model, device=options.device)
    texts, single = listed(text)
    _refuse_prompts(texts, adapter, options.answer)
    if options.sampling_rate is not None:
        from attnflow.models.audio.sounds import with_rates

        texts = with_rates(texts, adapter, options.sampling_rate)
    results: dict[int, Attribution] = {}
    with _bar(adapter, len(texts), shown=options.progress) as advance:

        def within(share: float) -> None:
            advance(len(results) + share)

        prepared = prepare(request, adapter, texts, answers=options.answer)
        for place, session in open_sessions(prepared, progress=within):
            results[place] = session.attribution(advance=within)
            advance(len(results))
    return results[0] if single else [results[place] for place in range(len(texts))]


@_answers(AnswerOptions)
def explain_answer(
    prompt: Any, model: Source = None, *, options: AnswerOptions
) -> Generation | list[Generation]:
    """Where each sentence of an answer came from: one that the model writes, or one that is given.

    ``each="tokens"`` explains every token. Interrupted work raises
    `attnflow.errors.Interrupted`, which has what was finished.

    Args:
        prompt: A text, a dict of named parts, which are joined by blank lines, the messages of a
            chat, each with its ``"role"`` and ``"content"``, or token ids; or many of them.
        model: A causal language model or an encoder–decoder, as for `attnflow.explain`.

    Examples:
        >>> import attnflow
        >>> found = attnflow.explain_answer("the keys to the", generate=2)  # doctest: +SKIP
        >>> found.answer_text  # doctest: +SKIP
        ' cabinet are'
    """
    request = Request.of(options, progress=False, answer=None)
    from attnflow.models.loading import load_model

    items, single = listed(prompt)
    adapter = load_model(model, device=options.device)
    with _bar(adapter, len(items), shown=options.progress) as advance:
        found = as_far_as_done(answer_each(items, adapter, request, options, advance))
    return found[0] if single else found


def answer_each(
    prompts: Sequence[Any],
    adapter: ModelAdapter,
    request: Request,
    options: AnswerOptions,
    advance: Callable[[float], None],
) -> Iterator[Generation]:
    """One result per prompt and method; each is what it would be alone."""
    from attnflow.models.answers.interface import answers_of
    from attnflow.pipeline.generation import explain_by_each

    answers = answers_of(adapter)
    for place, (prompt, each) in enumerate(read_prompts(prompts, answers, options)):

        def within(share: float, done: int = place) -> None:
            advance(done + share)

        yield from explain_by_each(prompt, answers, request, each, within)
        advance(place + 1)


def read_prompts(
    prompts: Sequence[Any], answers: Answers, options: AnswerOptions
) -> list[tuple[Prompt, AnswerConfig]]:
    """Each prompt as the model reads it, and how it is answered; all are checked at once."""
    from attnflow.models.answers.logged import answers_given, prompts_alone, written_elsewhere
    from attnflow.models.answers.prompts import make_prompt
    from attnflow.models.text.writing import Writing
    from attnflow.pipeline.generation import AnswerConfig

    length = LENGTH if options.generate in (None, True) else options.generate
    sampling = {} if options.sampling is None else options.sampling
    texts = answers_given(options.answer, len(prompts))
    if options.generate is None and options.answer is None:
        prompts, texts = written_elsewhere(prompts, answers)
    prompts = prompts_alone(prompts)
    asked = [
        AnswerConfig(
            Writing(length, text, sampling, options.seed, options.stream),
            options.parts_only,
            options.through,
            options.deletions,
            options.each,
        )
        for text in texts
    ]
    how = answers.tokenizer, answers.model.name, options.parts, options.units, options.roles
    return [(make_prompt(each, *how), one) for each, one in zip(prompts, asked, strict=True)]


def as_far_as_done(results: Iterable[T]) -> list[T]:
    """All results; where work is interrupted, `Interrupted` has those that are finished."""
    found: list[T] = []
    try:
        found.extend(results)
    except KeyboardInterrupt as stopped:
        found += stopped.found if isinstance(stopped, Interrupted) else []
        if not found:
            raise
        raise Interrupted(found) from None
    return found


def listed(given: Any) -> tuple[list[Any], bool]:
    """Inputs as a list, and whether there is one: the messages of a chat are one input."""
    from attnflow.models.answers.prompts import is_chat

    return ([given], True) if is_chat(given) else as_inputs(given)


def _refuse_prompts(items: Sequence[Any], adapter: ModelAdapter, answer: Any) -> None:
    """Refuse what only `explain_answer` explains, before any work."""
    from attnflow.models.answers.prompts import is_chat
    from attnflow.models.text.tokens import is_encoded

    what = ""
    if any(map(is_chat, items)):
        what = "the messages of a chat are a prompt"
    elif any(isinstance(item, dict) and not is_encoded(item) for item in items) and adapter.writes:
        what = "named parts make a prompt"
    elif answer is not None and adapter.writes and adapter.reads_text and not adapter.has_source:
        what = f"answer= is for encoder–decoders, and {adapter.name} is not one"
    if what:
        msg = f"{what}; to explain the tokens of an answer, use attnflow.explain_answer"
        raise InputError(msg)


@contextmanager
def _bar(adapter: ModelAdapter, total: int, *, shown: bool) -> Iterator[Callable[[float], None]]:
    if shown:
        from rich.console import Console

        about = adapter.description
        line = f"{adapter.name}: {about['class']}, {about['head']}, on {about['device']}"
        Console(stderr=True, highlight=False).print(line, markup=False)
    with progress_bar("explaining", total, shown=shown) as advance:
        yield advance
