"""Answers for `explain`: what is asked about them, checked before any work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attnflow.errors import InputError
from attnflow.io.inputs import as_list, one_each
from attnflow.records.checks import check_flag
from attnflow.records.generation import Generation

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter
    from attnflow.models.answers.prompts import Parts
    from attnflow.models.text.writing import Stream
    from attnflow.pipeline.request import Request

LENGTH = 40  # tokens of an answer where no number is given


@dataclass(frozen=True)
class Answering:
    """The options of `explain` that are about answers, as they were given."""

    generate: int | None
    parts: Parts | None
    parts_only: bool
    through: str
    deletions: bool
    sampling: Mapping[str, Any]
    seed: int | None
    stream: Stream | None

    def __post_init__(self) -> None:
        check_flag("parts_only", self.parts_only)
        check_flag("deletions", self.deletions)

    def asked(self, adapter: ModelAdapter, items: Sequence[Any], answer: Any) -> bool:
        """Whether an answer is explained token by token; an error for its options without one."""
        if self.generate is not None and self.generate is not False:
            return True
        from attnflow.models.answers.prompts import is_chat

        prompts = any(map(is_chat, items)) or (
            any(isinstance(item, Mapping) for item in items) and _reads_prompts(adapter)
        )
        if prompts or (answer is not None and adapter.kind == "text"):
            return True
        given = {
            "parts": self.parts is not None,
            "parts_only": self.parts_only,
            "through": self.through != "tokens",
            "deletions": self.deletions,
            "sampling": bool(self.sampling),
            "seed": self.seed is not None,
            "stream": self.stream is not None,
        }
        for option, set_ in given.items():
            if set_:
                msg = f"{option}= is for answers; give generate=, the number of tokens, as well"
                raise InputError(msg)
        return False

    def explain(
        self,
        items: Sequence[Any],
        adapter: ModelAdapter,
        config: Request,
        answer: Any,
        advance: Callable[[float], None],
    ) -> Iterator[Generation]:
        """One result per prompt and method; each is what it would be alone."""
        from attnflow.models.answers.interface import answers_of
        from attnflow.models.answers.prompts import make_prompt
        from attnflow.models.text.writing import Writing
        from attnflow.pipeline.generation import AnswerConfig, explain_by_each

        texts = one_each("answer", answer, len(items))
        length = LENGTH if self.generate is None or self.generate is True else self.generate
        asked = [
            AnswerConfig(
                Writing(length, text, self.sampling, self.seed, self.stream),
                self.parts_only,
                self.through,
                self.deletions,
            )
            for text in texts
        ]
        answers = answers_of(adapter)
        prompts = [make_prompt(item, answers.tokenizer, adapter.name, self.parts) for item in items]
        for place, (prompt, each) in enumerate(zip(prompts, asked, strict=True)):

            def within(share: float, done: int = place) -> None:
                advance(done + share)

            yield from explain_by_each(prompt, answers, config, each, within)
            advance(place + 1)


def _reads_prompts(adapter: ModelAdapter) -> bool:
    from attnflow.models.answers.interface import reads_prompts  # torch takes its time

    return reads_prompts(adapter)


def prompts_of(given: Any) -> tuple[list[Any], bool]:
    """Inputs as a list, and whether there is one: the messages of a chat are one input."""
    from attnflow.models.answers.prompts import is_chat

    return ([given], True) if is_chat(given) else as_list(given)
