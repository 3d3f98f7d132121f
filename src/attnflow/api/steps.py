"""`steps`: a chain of thought as a graph of steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attnflow.api.explain import listed
from attnflow.errors import InputError
from attnflow.io.progress import progress_bar
from attnflow.options.option import takes_text
from attnflow.options.tables import StepsOptions
from attnflow.pipeline.request import Request
from attnflow.records.reasoning import Reasoning

if TYPE_CHECKING:
    from attnflow.models.loading import Source

LENGTH = 256  # tokens of an answer where no number is given


@takes_text(StepsOptions)
def steps(text: Any, model: Source = None, *, options: StepsOptions) -> Reasoning:
    """What the conclusion of an answer depends on: its thoughts, and the parts of the prompt.

    Thoughts stand in ``<think>…</think>``, or before the last step. Each part and each thought is
    hidden from the steps behind it, and deleted, to see by how much their log-probabilities fall.
    Interrupted work raises `attnflow.errors.Interrupted`, which has the steps that are measured.

    Args:
        text: The prompt: a text, a dict of named parts, or the messages of a chat.
        model: A causal language model, as for `attnflow.explain`.

    Examples:
        >>> import attnflow
        >>> prompt = "Tom has 3 keys and finds 4 more. How many keys does he have?"
        >>> answer = "<think>3 + 4 = 7.</think>He has 7 keys."
        >>> found = attnflow.steps(prompt, "MODEL", answer=answer)  # doctest: +SKIP
        >>> [row.role for row in found.table()]  # doctest: +SKIP
        ['needed', 'needed']
    """
    request = Request.of(options, progress=False, answer=None)
    from attnflow.models.answers.interface import answers_of
    from attnflow.models.answers.logged import answers_given, prompts_alone, written_elsewhere
    from attnflow.models.answers.prompts import make_prompt
    from attnflow.models.loading import load_model
    from attnflow.models.text.writing import Writing
    from attnflow.pipeline.steps import StepsConfig, trace_steps

    items, single = listed(text)
    if not single:
        msg = f"steps takes one prompt; there are {len(items)}: call it once for each"
        raise InputError(msg)
    (answer,) = answers_given(options.answer, 1)
    adapter = load_model(model, device=options.device)
    answers = answers_of(adapter)
    if answer is None and options.generate is None:
        items, (answer,) = written_elsewhere(items, answers)
    (item,) = prompts_alone(items)
    prompt = make_prompt(item, answers.tokenizer, adapter.name, options.parts)
    writing = Writing(
        LENGTH if options.generate is None else options.generate,
        answer,
        {} if options.sampling is None else options.sampling,
        options.seed,
        options.stream,
    )
    asked = StepsConfig(writing, options.by, options.conclusion)
    with progress_bar("tracing steps", 1, shown=options.progress, share=True) as advance:
        return trace_steps(prompt, answers, request, asked, advance)
