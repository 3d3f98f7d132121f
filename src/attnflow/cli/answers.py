"""``attnflow explain --generate``: where each sentence of an answer came from, or each token."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnflow.cli.command import Given
from attnflow.cli.errors import printable
from attnflow.cli.inputs import read_texts
from attnflow.cli.streams import echo, print_json, show_status, show_work
from attnflow.errors import InputError, Interrupted
from attnflow.options.option import options_of
from attnflow.options.tables import AnswerOptions, ExplainOptions

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter
    from attnflow.models.loading import Source
    from attnflow.pipeline.request import Request
    from attnflow.records.generation import Generation

QUESTION = "question"  # the part that a text is beside --part


@dataclass(frozen=True)
class Asked:
    """What a command was given about answers.

    Attributes:
        options: The options, as `attnflow.explain_answer` takes them.
        chat: A file of messages.
        parts: ``name=FILE``, in their order.
    """

    options: Given
    chat: Path | None
    parts: Sequence[str]

    @property
    def answer(self) -> str | None:
        """The answer, where it is given."""
        return self.options.get("answer")

    @property
    def given(self) -> bool:
        """Whether an answer is asked about, whatever the model."""
        return "generate" in self.options or self.chat is not None or bool(self.parts)

    def of(self, model: Source) -> bool:
        """Whether an answer is explained: causal models are asked about what is given, too."""
        if self.given or self.answer is None:
            return self.given
        loaded = _load(model)
        return loaded.reads_text and not loaded.has_source

    def refuse_without(self) -> None:
        """Refuse options of answers where no answer is asked about."""
        only = options_of(AnswerOptions).keys() - options_of(ExplainOptions).keys()
        for name in self.options:
            if name in only:
                flag = {"sampling": "--temperature, --top-p and --top-k", "roles": "--role"}.get(
                    name, f"--{name}"
                )
                msg = f"{flag} is for answers; give --generate N as well"
                raise InputError(msg)


def explain_answers(  # noqa: PLR0913 - what the command was given
    texts: list[str] | None,
    file: Path | None,
    model: Source,
    config: Request,
    asked: Asked,
    *,
    as_json: bool,
    save: Path | None,
    html: Path | None = None,
) -> None:
    """Make answers and show where they came from."""
    from rich.console import Console

    from attnflow.views.terminal.answers import answer_view

    console = Console(highlight=False)
    live, alone = console.is_terminal > as_json, html is not None
    stopped = False
    try:
        found = make_answers(texts, file, model, config, asked, live=live, alone=alone)
    except Interrupted as interrupted:
        found, stopped = interrupted.found, True
    if save is not None:
        _save(found, save)
    if html is not None:
        found[0].explore().save(html, overwrite=True)  # which was checked before any work
        echo(f"saved the interactive view to {html}", err=True)
    for at, one in enumerate(found):
        if as_json:
            print_json(as_data(one))
            continue
        if at:
            console.print()
        console.print(answer_view(one, console))
    if stopped:
        raise KeyboardInterrupt


def make_answers(  # noqa: PLR0913 - what the command was given
    texts: list[str] | None,
    file: Path | None,
    model: Source,
    config: Request,
    asked: Asked,
    *,
    live: bool,
    alone: bool = False,
) -> list[Generation]:
    """The answers; ``live`` shows one while it is written, ``alone`` refuses several."""
    from attnflow.api.explain import answer_each, as_far_as_done
    from attnflow.io.progress import progress_bar

    prompts, parts = prompts_of(texts, file, asked)
    for count, what in ((len(prompts), "prompts"), (len(config.asked), "methods")):
        if alone and count > 1:
            msg = f"--html shows one answer by one method; there are {count} {what}"
            raise InputError(msg)
    live = live and len(prompts) == 1
    known = options_of(AnswerOptions)
    given = {name: value for name, value in asked.options.items() if name in known}
    given |= {
        "parts": parts,
        "stream": (stream := _Shown() if live and asked.answer is None else None),
    }
    given.pop("method", None)  # which may be several, and the request has them
    adapter = _load(model)
    working = (
        show_work("answering" if asked.answer is None else "explaining")
        if stream is None
        else progress_bar("explaining", 1, shown=sys.stderr.isatty(), share=True)
    )
    with working as show:

        def advance(done: float) -> None:
            if stream is not None:
                stream.end()
            show(done / len(prompts))

        options = AnswerOptions(**given)
        return as_far_as_done(answer_each(prompts, adapter, config, options, advance))


def refuse_for_answers(pair: Sequence[str] | None) -> None:
    """Refuse what answers have not."""
    if pair:
        msg = "--pair is not for answers; leave it out"
        raise InputError(msg)


def as_data(found: Generation) -> dict[str, Any]:
    """What ``--json`` prints for one answer."""
    from attnflow.views.wording.answers import judge

    verdict = judge(found)
    return {
        "text": found.text,
        "answer": found.answer_text,
        "complete": found.complete,
        "cut_at": found.cut_at,
        "contrast": None if found.contrast is None else asdict(found.contrast),
        "model": found.model,
        "method": found.method,
        "found": verdict.text,
        "rests_on": None if verdict.rests_on is None else list(verdict.rests_on),
        "tokens": list(found.tokens),
        "answer_positions": list(found.answer),
        "pieces": [
            {"text": text, "tokens": list(range(*piece))}
            for text, piece in zip(found.piece_texts, found.pieces, strict=True)
        ],
        "log_probabilities": found.log_probabilities.tolist(),
        "parts": [
            {**row._asdict(), "role": part.role}
            for row, part in zip(found.table(), found.parts, strict=True)
        ],
        "part_scores": found.matrix("parts").tolist(),
        "scores": None if found.scores is None else found.matrix().tolist(),
        "warnings": list(found.warnings),
        "options": dict(found.options),
    }


def prompts_of(
    texts: list[str] | None, file: Path | None, asked: Asked
) -> tuple[list[Any], dict[str, str] | None]:
    """The prompts, and the parts that are to be found in them."""
    named = dict(_part(each) for each in asked.parts)
    if len(named) < len(asked.parts):
        msg = f"--part: {', '.join(asked.parts)} must have different names"
        raise InputError(msg)
    if asked.chat is not None:
        if texts or file is not None:
            msg = "give a text or --chat, not both: the messages are the prompt"
            raise InputError(msg)
        found = _read_chats(asked.chat)
        for each in found:
            _check_inside(named, each, asked.chat)
        return found, named or None
    if not named:
        return list(read_texts(texts, file)), None
    given = list(texts or ()) or ([] if file is None else read_texts(None, file))
    if given and QUESTION in named:
        msg = (
            f"--part {QUESTION}=…: the text has this name already; leave one out, or rename the "
            "part"
        )
        raise InputError(msg)
    return [{**named, **({QUESTION: text} if text else {})} for text in given or [""]], None


def _check_inside(parts: dict[str, str], chat: Any, file: Path) -> None:
    """Refuse parts that are no piece of the messages."""
    from attnflow.models.answers.prompts import is_same

    if isinstance(chat, dict) and "prompt_token_ids" in chat:
        return  # whose text only the model's tokenizer knows
    messages = chat["messages"] if isinstance(chat, dict) else chat
    contents = [str(message.get("content")) for message in messages]
    for name, text in parts.items():
        count = sum(each.count(text) for each in contents)
        if count == sum(is_same(text, each) for each in parts.values()):
            continue
        if not count:
            msg = (
                f"--part {name}=…: its text does not occur in any message of {file}. A part must "
                "occur there verbatim: put the text into a message, or leave --part out"
            )
        else:
            msg = (
                f"--part {name}=…: its text occurs {count} times in {file}; give a file with a "
                "longer piece of the message, which occurs once"
            )
        raise InputError(msg)


def _part(given: str) -> tuple[str, str]:
    name, equals, file = given.partition("=")
    if not (name.strip() and equals and file):
        msg = f"--part {given!r} must be a name and a file: --part manual=manual.txt"
        raise InputError(msg)
    text = _read(Path(file)).strip()
    if not text:
        msg = f"--part {given}: {file} is empty; leave the part out"
        raise InputError(msg)
    return name.strip(), text


def read_roles(given: Sequence[str]) -> dict[str, str]:
    """``name=role`` for each part that is given one."""
    pairs = [each.partition("=") for each in given]
    for each, (name, _, role) in zip(given, pairs, strict=True):
        if not (name.strip() and role.strip()):
            msg = f"--role {each!r} must be a part's name and its role: --role tone=instructions"
            raise InputError(msg)
    return {name.strip(): role.strip() for name, _, role in pairs}


def _read_chats(file: Path) -> list[Any]:
    """The messages in a file, or its records: one as JSON, or one on each line."""
    text = _read(file)
    try:
        found = [json.loads(text)]
    except ValueError as error:
        lines = [line for line in text.splitlines() if line.strip()]
        try:
            found = [json.loads(line) for line in lines]
        except ValueError:
            msg = f"--chat {file} is neither JSON nor JSON lines: {error}"
            raise InputError(msg) from None
    for at, each in enumerate(found, 1):
        _check_chat(each, f"--chat {file}" + (f", line {at}" if len(found) > 1 else ""))
    return found


def _check_chat(found: Any, where: str) -> None:
    from attnflow.models.answers.logged import is_record
    from attnflow.models.answers.prompts import is_chat

    if not (is_chat(found) or is_record(found)):
        msg = (
            f'{where} must hold messages, [{{"role": "user", "content": "…"}}], or a record with '
            '"messages" or "prompt_token_ids"'
        )
        raise InputError(msg)
    messages = found.get("messages", ()) if isinstance(found, dict) else found
    if messages and all(str(each.get("content", "?")).strip() == "" for each in messages):
        msg = f"{where}: every message is empty; write the question into one"
        raise InputError(msg)


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8-sig")
    except OSError as error:
        msg = f"can't read {file}: {error.strerror}; check the name"
        raise InputError(msg) from None
    except UnicodeDecodeError as error:
        msg = f"{file} is not UTF-8 text (byte {error.start}); save it as UTF-8 first"
        raise InputError(msg) from None


class _Shown:
    """Shows an answer while it is written, first says what that is, and ends the line once."""

    def __init__(self) -> None:
        self.label = "The model writes: "
        self.ended = False

    def __call__(self, text: str) -> None:
        sys.stdout.write(self.label + printable(text))
        sys.stdout.flush()
        self.label = ""

    def end(self) -> None:
        """Leave a blank line below what was written."""
        if not self.ended:
            echo("\n")
        self.ended = True


def _load(model: Source) -> ModelAdapter:
    from attnflow.models.loading import load_model

    with show_status("loading the model"):
        return load_model(model)


def _save(found: Sequence[Generation], file: Path) -> None:
    from attnflow.records.files import save_all

    save_all(found, file, overwrite=True)  # which was checked before any work
    what = "answer" if len(found) == 1 else f"{len(found)} answers"
    echo(f"saved the {what} to {file}", err=True)
