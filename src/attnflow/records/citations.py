"""What each sentence of an answer rests on: sources, the passages in them, and measured drops."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from attnflow.errors import InputError, shown
from attnflow.records import checks
from attnflow.records.files import SavedRecord, check_fields, read_list
from attnflow.records.generation import stopped_at

if TYPE_CHECKING:
    from attnflow.views.explorer.exploration import Exploration

Span = tuple[int, int]
LEAST = 3.0
"""By how much a sentence's log-probability falls at least without what is cited: 20 times less."""


@dataclass(frozen=True)
class Quote:
    """What carries a source's part in a sentence: a passage, or several any one of which is enough.

    Attributes:
        source: The source's place among all.
        spans: Where the passages are in the source's text.
        drop: By how much the sentence's log-probability falls without all of these passages.
        apart: Whether that was measured without what else stands in for them: other sources of
            which one is enough, and passages that are not quoted.
    """

    source: int
    spans: tuple[Span, ...]
    drop: float
    apart: bool = False

    def __post_init__(self) -> None:
        checks.check_number("source", self.source, 0)
        object.__setattr__(self, "drop", checks.check_real("drop", self.drop))
        spans = tuple(map(_check_span, read_list("spans", self.spans)))
        object.__setattr__(self, "spans", spans)
        checks.check_flag("apart", self.apart)


@dataclass(frozen=True)
class Citation:
    """A source that a sentence rests on, or several any one of which is enough.

    Attributes:
        sources: Their places among all sources.
        drop: By how much the sentence's log-probability falls without all of them.
        apart: Whether that was measured without the sources that are not cited, which can stand in
            for them. Where it is not, all else was in the prompt.
        quotes: What carries it in each of them; none where no passage alone does.
    """

    sources: tuple[int, ...]
    drop: float
    apart: bool = False
    quotes: tuple[Quote, ...] = ()

    def __post_init__(self) -> None:
        found = checks.check_numbers("sources", read_list("sources", self.sources), 0)
        if not found:
            msg = "a citation must have at least one source"
            raise InputError(msg)
        object.__setattr__(self, "sources", found)
        object.__setattr__(self, "drop", checks.check_real("drop", self.drop))
        checks.check_flag("apart", self.apart)
        object.__setattr__(self, "quotes", tuple(self.quotes))
        for each in self.quotes:
            if not isinstance(each, Quote) or each.source not in found:
                msg = f"quotes hold {shown(each)}; they must be quotes of the sources {list(found)}"
                raise InputError(msg)


@dataclass(frozen=True)
class CitedSentence:
    """A sentence of an answer, and what it rests on.

    Attributes:
        span: Where it is in the answer's text.
        log_probability: Of the sentence, after the prompt and all of the answer before it.
        drop: By how much that falls without any source.
        citations: What it rests on: all of them together.
    """

    span: Span
    log_probability: float
    drop: float
    citations: tuple[Citation, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "span", _check_span(self.span))
        checks.keep_checked(self, dict.fromkeys(("log_probability", "drop"), checks.check_real))
        object.__setattr__(self, "citations", tuple(self.citations))
        for each in self.citations:
            if not isinstance(each, Citation):
                msg = f"citations hold {shown(each)}, which is no citation"
                raise InputError(msg)

    @property
    def probability(self) -> float:
        """Its probability, of all its tokens together."""
        return math.exp(self.log_probability)

    @property
    def sources(self) -> tuple[int, ...]:
        """The places of all sources that it cites."""
        return tuple(sorted({at for each in self.citations for at in each.sources}))


@dataclass(frozen=True)
class CitedSource:
    """A source by its name, and its text."""

    name: str
    text: str

    def __post_init__(self) -> None:
        checks.check_text("the source's name", self.name)
        checks.check_text(f"the text of {self.name!r}", self.text)


@dataclass(frozen=True, eq=False, repr=False)
class Citations(SavedRecord):
    """An answer with what each of its sentences rests on, all of it measured by deletions.

    Attributes:
        answer: The answer.
        sentences: Its sentences, which cover it.
        sources: The parts of the prompt that could be cited, in its order.
        model: The model's name.
        text: The prompt; of a chat, as the model's template has it.
        least: The drop that counts at least, in nats.
        share: The share of the drop without any source that counts at least.
        runs: How many times the model ran on the prompt or on some of it.
        options: Every option that was used.
        warnings: What a reader must know.
        cut_at: How many tokens the model was let write, where it had more to say.
    """

    _kind = "record of citations"
    _writer = "Citations.save or attnflow cite --save"

    answer: str
    sentences: tuple[CitedSentence, ...]
    sources: tuple[CitedSource, ...]
    model: str
    text: str
    least: float
    share: float
    runs: int
    options: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    cut_at: int | None = None

    def __post_init__(self) -> None:
        checks.keep_checked(self, dict.fromkeys(("answer", "model", "text"), checks.check_text))
        checks.keep_checked(self, dict.fromkeys(("least", "share"), checks.check_real))
        checks.check_number("runs", self.runs, 1)
        if self.cut_at is not None:
            checks.check_number("cut_at", self.cut_at, 1)
        object.__setattr__(self, "warnings", checks.check_texts("warnings", self.warnings))
        object.__setattr__(self, "options", checks.check_mapping("options", self.options))
        object.__setattr__(self, "sources", tuple(self.sources))
        object.__setattr__(self, "sentences", tuple(self.sentences))
        self._check_places()

    def _check_places(self) -> None:
        """Sentences cover the answer, and quotes are in their sources."""
        end = 0
        for each in self.sentences:
            if each.span[0] != end:
                msg = f"a sentence starts at {each.span[0]}, and the one before it ends at {end}"
                raise InputError(msg)
            end = each.span[1]
            for at in each.sources:
                checks.check_number("source", at, 0, len(self.sources) - 1)
            for quote in (quote for one in each.citations for quote in one.quotes):
                size = len(self.sources[quote.source].text)
                if any(last > size for _, last in quote.spans):
                    msg = f"a quote ends at {quote.spans[-1][1]}, and its source has {size} letters"
                    raise InputError(msg)
        if end != len(self.answer):
            msg = f"the sentences end at {end}, and the answer has {len(self.answer)} characters"
            raise InputError(msg)

    def __repr__(self) -> str:
        return f"<Citations: {self.summary}>"

    @property
    def stopped(self) -> str:
        """What is shown behind an answer that was cut; empty where it came to its end."""
        return stopped_at(self.cut_at)

    @property
    def unsupported(self) -> tuple[str, ...]:
        """The sentences that rest on no source."""
        return tuple(self.text_of(each) for each in self.sentences if not each.citations)

    @property
    def summary(self) -> str:
        """How many sentences rest on which sources, in one sentence."""
        from attnflow.views.wording.citations import summarize

        return summarize(self)

    @property
    def markdown(self) -> str:
        """The answer with a footnote for each citation."""
        from attnflow.views.wording.citations import to_markdown

        return to_markdown(self)

    def __str__(self) -> str:
        from attnflow.views.wording.citations import to_text

        return to_text(self)

    def text_of(self, sentence: CitedSentence) -> str:
        """A sentence of the answer."""
        return self.answer[slice(*sentence.span)].strip()

    def passages(self, quote: Quote) -> tuple[str, ...]:
        """The passages that are quoted."""
        text = self.sources[quote.source].text
        return tuple(text[start:end].strip() for start, end in quote.spans)

    def explore(self) -> Exploration:
        """The interactive view: answer and sources side by side; ``save`` writes it as a file."""
        from attnflow.views.explorer.exploration import exploration_of_citations

        return exploration_of_citations(self)

    def _repr_html_(self) -> str:
        """The interactive view, for notebooks."""
        return self.explore()._repr_html_()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {**self.explore()._repr_mimebundle_(), "text/plain": repr(self)}

    @classmethod
    def _read(cls, values: dict[str, Any]) -> Self:
        for name, read in (("sentences", _read_sentence), ("sources", _read_source)):
            values[name] = tuple(map(read, read_list(name, values[name])))
        return cls(**values)


def _check_span(given: Any) -> Span:
    start, end = given if isinstance(given, list | tuple) and len(given) == 2 else (None, None)
    first = checks.check_number("a span's start", start, 0)
    return first, checks.check_number("a span's end", end, first + 1)


def _read_source(data: Any) -> CitedSource:
    return CitedSource(**check_fields("source", CitedSource, data))


def _read_sentence(data: Any) -> CitedSentence:
    values = check_fields("sentence", CitedSentence, data)
    found = map(_read_citation, read_list("citations", values.get("citations", ())))
    return CitedSentence(**values | {"citations": tuple(found)})


def _read_citation(data: Any) -> Citation:
    values = check_fields("citation", Citation, data)
    found = read_list("quotes", values.get("quotes", ()))
    quotes = tuple(Quote(**check_fields("quote", Quote, each)) for each in found)
    return Citation(**values | {"quotes": quotes})
