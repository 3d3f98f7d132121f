"""`cite`: an answer with the sources that each of its sentences rests on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, overload

from attnflow.api.explain import as_far_as_done, listed
from attnflow.io.progress import progress_bar
from attnflow.options.option import takes
from attnflow.options.tables import CiteOptions
from attnflow.pipeline.request import Request
from attnflow.records.citations import Citations

if TYPE_CHECKING:
    from attnflow.api.explain import Conversation
    from attnflow.models.loading import Source

P = ParamSpec("P")
LENGTH = 200  # tokens of an answer where no number is given


class Cites(Protocol[P]):
    """How `cite` is called: one prompt gives one record of citations, many give a list."""

    @overload
    def __call__(  # type: ignore[overload-overlap] # ids are iterable, too
        self, prompt: Conversation, model: Source = None, *args: P.args, **options: P.kwargs
    ) -> Citations: ...

    @overload
    def __call__(
        self, prompt: Iterable[Any], model: Source = None, *args: P.args, **options: P.kwargs
    ) -> list[Citations]: ...


def _takes(table: Callable[P, Any]) -> Callable[[Callable[..., Any]], Cites[P]]:
    return takes(table)


@_takes(CiteOptions)
def cite(prompt: Any, model: Source = None, *, options: CiteOptions) -> Citations | list[Citations]:
    """The sources that each sentence of an answer rests on, as measured by deleting them.

    A source is cited where a sentence is much less likely without it, with the sentences of the
    source that carry this. Of sources that say the same, any one is enough: they are cited
    together. Sentences that are as likely without any source are flagged. Interrupted work raises
    `attnflow.errors.Interrupted`, which has the sentences that are finished.

    Args:
        prompt: A dict of named texts, or the messages of a chat with their ``parts``; or many of
            them. What is cited are the parts with the role ``"source"``.
        model: A causal language model or an encoder–decoder, as for `attnflow.explain_answer`.

    Examples:
        >>> import attnflow
        >>> documents = {"harbour": "Ada Kroll built the harbour.", "cheese": "Pellin is a cheese."}
        >>> prompt = {**documents, "question": "Who built the harbour?"}
        >>> found = attnflow.cite(prompt, "NAME", generate=40)  # doctest: +SKIP
        >>> print(found.markdown)  # doctest: +SKIP
    """
    from attnflow.models.answers.interface import answers_of
    from attnflow.models.answers.logged import answers_given, prompts_alone, written_elsewhere
    from attnflow.models.answers.prompts import make_prompt
    from attnflow.models.loading import load_model
    from attnflow.models.text.writing import Writing
    from attnflow.pipeline.citing import CitingConfig, cite

    items, single = listed(prompt)
    texts = answers_given(options.answer, len(items))
    answers = answers_of(load_model(model, device=options.device))
    if options.answer is None and options.generate is None:
        items, texts = written_elsewhere(items, answers)
    items = prompts_alone(items)
    length = LENGTH if options.generate is None else options.generate
    sampling = {} if options.sampling is None else options.sampling
    asked = [
        CitingConfig(
            Writing(length, text, sampling, options.seed, options.stream),
            options.checks,
            options.least,
        )
        for text in texts
    ]
    request = Request.of(options, progress=False, answer=None)
    name = answers.model.name
    prompts = [
        make_prompt(each, answers.tokenizer, name, options.parts, roles=options.roles)
        for each in items
    ]

    def cite_each(advance: Callable[[float], None]) -> Iterator[Citations]:
        for done, (one, each) in enumerate(zip(prompts, asked, strict=True)):
            yield cite(one, answers, request, each, lambda share: advance(done + share))  # noqa: B023

    with progress_bar("citing", len(items), shown=options.progress, share=single) as advance:
        found = as_far_as_done(cite_each(advance))
    return found[0] if single else found
