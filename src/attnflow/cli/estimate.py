"""What work takes, measured on one of its texts: told by ``--dry-run``, and before long work."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from attnflow.cli.streams import echo
from attnflow.errors import AttnflowError, InputError

if TYPE_CHECKING:
    from attnflow.cli.answers import Asked
    from attnflow.models.adapter import ModelAdapter, Tokens
    from attnflow.models.loading import Source
    from attnflow.options.tables import AnswerOptions
    from attnflow.pipeline.request import Request

READ = 1000  # texts whose length is looked up; of more, the others are taken to be like these
LONG = 60  # seconds: what takes less is not foretold
MANY = 100  # texts of which two more do not matter
PASSES = 3  # of which the quickest counts
WORDS = 20  # tokens of a sentence, where the answer is not written yet
OF_FILES = ("text_column", "target_column", "id_column", "pair_column", "format")
OF_ALL = ("limit", "rationale_column", "workers", "ray", "gpus_per_worker", "shard_size")


def estimate(
    texts: list[str] | None,
    file: Path | None,
    inputs: Sequence[Any],
    model: Source,
    request: Request,
    asked: Asked,
) -> None:
    """What `attnflow explain` takes for texts, or for answers."""
    from attnflow.models.loading import load_model

    adapter = load_model(model)
    if asked.of(adapter):
        estimate_answers(texts, file, adapter, request, asked)
        return
    asked.refuse_without()
    tell_estimate(adapter, inputs, _explaining(adapter, request, asked))


def foretell_texts(inputs: Sequence[Any], model: Source, request: Request, asked: Asked) -> Source:
    """Say what `attnflow explain` takes for many texts; gives the model, which is loaded for it."""
    from attnflow.models.loading import load_model

    if len(inputs) < MANY:
        return model
    adapter = load_model(model)
    foretell(adapter, inputs, _explaining(adapter, request, asked))
    return adapter


def _explaining(adapter: ModelAdapter, request: Request, asked: Asked) -> Callable[[Any], object]:
    from attnflow.pipeline.prepare import open_session

    def work(text: Any) -> None:
        session = open_session(text, adapter, request, answer=asked.answer)
        for method in request.methods or [session.config.method]:
            session.attribution(method)

    return work


def estimate_rows(
    data: Path,
    model: Source,
    options: dict[str, Any],
    work: Callable[[Any, Any, Any], object],
    *,
    many: int | None = None,
) -> None:
    """What is done with the rows of a data set: ``work`` takes one, the model and options.

    With ``many`` it is foretold where there are so many rows, and else told.
    """
    from attnflow.io.rows import Columns, open_rows
    from attnflow.models.loading import load_model

    texts, target, _, pair, kind = (options.get(name) for name in OF_FILES)
    rows = open_rows(data, Columns(texts, target, None, pair=pair), kind).read()
    items = [row.item for row in islice(rows, options.get("limit")) if row.error is None]
    if many is not None and len(items) < many:
        return
    adapter = load_model(model)
    how = {name: each for name, each in options.items() if name not in (*OF_FILES, *OF_ALL)}

    def one(item: Any) -> object:
        if isinstance(item, str):
            return work({"text": item}, adapter, how)
        return work({"text": item[0], "pair": item[1]}, adapter, {**how, "pair_column": "pair"})

    if many is None:
        tell_estimate(adapter, items, one, "row")
    else:
        foretell(adapter, items, one, int(options.get("workers") or 1))


def estimate_answers(
    texts: list[str] | None,
    file: Path | None,
    adapter: ModelAdapter,
    request: Request,
    asked: Asked,
) -> None:
    """What answers take, one after the other."""
    from attnflow.cli.answers import prompts_of
    from attnflow.options.option import options_of
    from attnflow.options.tables import AnswerOptions

    prompts, parts = prompts_of(texts, file, asked)
    known = options_of(AnswerOptions)
    given = {name: each for name, each in asked.options.items() if name in known}
    given.pop("method", None)  # which may be several, and the request has them
    for prompt in prompts:
        tell_answer(adapter, prompt, request, AnswerOptions(**{**given, "parts": parts}))


class Estimate(NamedTuple):
    """What work on many texts takes.

    Attributes:
        lengths: Of texts in tokens, the shortest first.
        tokens: Of the one that was measured.
        seconds: That it took.
        passes: The same in forward passes, if the model predicts anything.
        grown: The memory that it took, in bytes.
        share: How many texts there are for each whose length is known.
        workers: How many processes share the work.
    """

    lengths: list[int]
    tokens: int
    seconds: float
    passes: float | None
    grown: float
    share: float
    workers: int = 1

    @property
    def all(self) -> str:
        """What all of them take, by their lengths."""
        longest = self.grown * (self.lengths[-1] / self.tokens) ** 2
        passes = "" if self.passes is None else f", {self.passes * self._scale:,.0f} forward passes"
        return f"about {_time(self.total)}{passes}, and about {_size(longest)} for the longest"

    @property
    def total(self) -> float:
        """How many seconds all of them take."""
        return self.seconds * self._scale / self.workers

    @property
    def _scale(self) -> float:
        return self.share * sum(self.lengths) / self.tokens


def estimated(
    adapter: ModelAdapter, items: Sequence[Any], work: Callable[[Any], object], what: str = "text"
) -> Estimate:
    """How many forward passes, how long and how much memory the work on all items takes.

    ``work`` does it for one; it is done twice for one of middling length, first to warm up.
    """
    known: list[tuple[Any, Tokens]] = []
    for item in items[:READ]:
        try:
            known.append((item, adapter.tokenize(item)))
        except AttnflowError:  # which is told when it is its turn
            continue
    if not known:
        msg = f"there is no {what} that {adapter.name} can read"
        raise InputError(msg)
    known.sort(key=lambda one: len(one[1]))
    item, tokens = known[len(known) // 2]
    _, first = measured(adapter, lambda: work(item))
    seconds, second = measured(adapter, lambda: work(item))
    grown = max(first, second)  # memory that was taken once is used again
    passes = _passes(adapter, tokens, seconds)
    lengths = [len(one) for _, one in known]
    return Estimate(lengths, len(tokens), seconds, passes, grown, len(items) / len(known))


def tell_estimate(
    adapter: ModelAdapter, items: Sequence[Any], work: Callable[[Any], object], what: str = "text"
) -> None:
    """Print what the work on all items takes."""
    found, count = estimated(adapter, items, work, what), len(items)
    lengths, many = found.lengths, f"{count:,} {what}s" if count > 1 else f"1 {what}"
    each = f"One of {found.tokens:,} takes {_time(found.seconds)}"
    if found.passes is not None:
        each += f", as long as {found.passes:,.1f} forward passes"
    lines = [
        f"{many}, {sum(lengths) / len(lengths):,.0f} tokens on average, {lengths[-1]:,} at most",
        f"{each}, and {_size(found.grown)} of memory beside the model",
        f"All: {found.all}",
    ]
    echo("\n".join(lines))


def foretell(
    adapter: ModelAdapter, items: Sequence[Any], work: Callable[[Any], object], workers: int = 1
) -> None:
    """Say what the work on all items takes before it is done, if it is long."""
    try:
        found = estimated(adapter, items, work)
    except AttnflowError:  # which is told when it is its turn
        return
    found = found._replace(workers=workers)
    if found.total >= LONG:
        echo(found.all, err=True)


def tell_answer(
    adapter: ModelAdapter, prompt: Any, request: Request, options: AnswerOptions
) -> None:
    """Print what the explanation of an answer takes, by the forward pass over its prompt."""
    from torch import no_grad

    from attnflow.api.explain import read_prompts
    from attnflow.models.answers.interface import answers_of
    from attnflow.models.answers.pieces import cut_answer
    from attnflow.pipeline.generation import passes_of, write_behind
    from attnflow.pipeline.prepare import read_parts

    answers = answers_of(adapter)
    ((made, asked),) = read_prompts([prompt], answers, options)
    tokens, parts = read_parts(answers, made, request)
    given, length = asked.writing.text is not None, asked.writing.length
    written, pieces = f"an answer of {length} tokens", -(-length // WORDS)
    if given:
        whole = write_behind(tokens, made, answers, request, asked.writing)
        length, pieces = len(whole) - len(tokens), len(cut_answer(whole, asked.each))
        written = f"the answer of {length} tokens"
    at = len(tokens) - 1
    with no_grad():
        times = [
            measured(adapter, lambda: adapter.probabilities([tokens], [at])) for _ in range(PASSES)
        ]
    seconds, grown = min(times)[0], max(grown for _, grown in times)
    count = passes_of(parts, asked, pieces)
    rows = f"{pieces} row" + "s" * (pieces != 1)
    echo(
        f"A forward pass over the {len(tokens):,} tokens of the prompt takes {_time(seconds)}, and "
        f"{_size(grown)} of memory beside the model\n"
        f"To explain {written} in {rows}: about {count} passes, {_time(count * seconds)}"
        + ("" if given else ", once it is written")
    )


def measured(adapter: ModelAdapter, work: Callable[[], object]) -> tuple[float, float]:
    """How long it takes, and by how many bytes the process or the GPU's memory grows meanwhile."""
    import torch

    device = torch.device(adapter.description["device"])
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
    start = time.perf_counter()
    with _watched() as most:
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    seconds = time.perf_counter() - start
    if device.type == "cuda":
        return seconds, torch.cuda.max_memory_allocated(device) - before
    return seconds, most[0]


def _passes(adapter: ModelAdapter, tokens: Tokens, seconds: float) -> float | None:
    """As how many forward passes over these tokens so many seconds are, if it predicts anything."""
    from torch import no_grad

    if not adapter.predicts:
        return None
    with no_grad():
        at = adapter.decision(tokens)
        times = [
            measured(adapter, lambda: adapter.probabilities([tokens], [at]))[0]
            for _ in range(PASSES)
        ]
    return seconds / min(times)


@contextmanager
def _watched() -> Iterator[list[float]]:
    """By how much this process has grown at most; 0 where that can't be known."""
    most, over = [0.0], threading.Event()
    before = _resident()

    def watch() -> None:
        while not over.wait(0.002):
            most[0] = max(most[0], _resident() - before)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield most
    finally:
        over.set()
        watcher.join()


def _resident() -> float:
    try:
        pages = Path("/proc/self/statm").read_text().split()[1]
        return float(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):  # of Linux
        return 0.0


def _time(seconds: float) -> str:
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:,.0f} minutes"


def _size(number: float) -> str:
    if number < 2**30:
        return f"{number / 2**20:,.0f} MiB"
    return f"{number / 2**30:,.1f} GiB"
