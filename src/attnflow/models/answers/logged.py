"""Answers that were written elsewhere: chats that end with one, and records of servers and logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attnflow.errors import InputError, shown
from attnflow.io.inputs import check_choice, one_each
from attnflow.models.answers.prompts import Message, as_text, is_chat, written_with_calls
from attnflow.models.text.encoded import as_numbers
from attnflow.models.text.tokens import is_encoded

if TYPE_CHECKING:
    from attnflow.models.answers.interface import Answers

# Where vLLM, OpenRouter and Ollama put the thoughts of a message, and how models write them.
THOUGHTS = ("reasoning_content", "reasoning", "thinking")
OPEN, CLOSE = "<think>", "</think>"
MESSAGES, PROMPT_IDS, IDS = "messages", "prompt_token_ids", "token_ids"

Answer = str | tuple[int, ...] | None  # a text or token ids; None is what the model writes


def answers_given(given: Any, count: int) -> list[Answer]:
    """The answer to each prompt; token ids are one answer, as a text is."""
    if _is_ids(given):
        return [_answer("answer", given)] * count
    return list(one_each("answer", given, count, _answer))


def _answer(name: str, given: Any) -> Any:
    return tuple(as_numbers(name, given)) if _is_ids(given) else check_choice(name, given)


def _is_ids(given: Any) -> bool:
    return is_encoded(given) and not isinstance(given, Mapping)


def is_record(given: Any) -> bool:
    """Whether this is what a server returned or a log has: messages or token ids of a prompt."""
    return isinstance(given, Mapping) and (
        is_chat(given.get(MESSAGES)) or _is_ids(given.get(PROMPT_IDS))
    )


def prompts_alone(prompts: Sequence[Any]) -> list[Any]:
    """Prompts as they are, of records without their answers."""
    return [_read_record(each)[0] if is_record(each) else each for each in prompts]


def written_elsewhere(prompts: Sequence[Any], answers: Answers) -> tuple[list[Any], list[Answer]]:
    """Prompts and their answers: a record or a chat that ends with one has its answer already."""
    pairs = [_split_answer(each, answers) for each in prompts]
    return [prompt for prompt, _ in pairs], [text for _, text in pairs]


def _read_record(record: Mapping[str, Any]) -> tuple[Any, Any]:
    """The prompt of a record, and its answer: ids, a message of the assistant, or ``None``.

    Token ids of a prompt go before its messages, as they are what the model read.
    """
    ids = record.get(PROMPT_IDS)
    answered = record.get("response", record)
    answered = record if not isinstance(answered, Mapping) else answered
    found = answered.get("choices") or answered.get("outputs") or ()
    if len(found) > 1:
        msg = f"a record has {len(found)} answers to its prompt; give one record for each"
        raise InputError(msg)
    (one,) = found or (record,)
    if _is_ids(ids):
        if _is_ids(one.get(IDS)):
            return ids, tuple(as_numbers(IDS, one[IDS]))
        if found:
            msg = (
                f"a record has {PROMPT_IDS} and an answer without {IDS}; give the ids of both, or "
                "the messages"
            )
            raise InputError(msg)
        return ids, None
    return list(record[MESSAGES]), one.get("message")


def _split_answer(given: Any, answers: Answers) -> tuple[Any, Answer]:
    """A chat without the assistant's last message, and that, which is its answer."""
    if is_record(given):
        given, answer = _read_record(given)
        if not isinstance(answer, Mapping):
            return (given, answer) if _is_ids(given) else _split_answer(given, answers)
        given = [*given, {"role": "assistant", **answer}]
    if not is_chat(given) or len(given) < 2 or given[-1]["role"] not in ("assistant", "model"):
        return given, None
    thoughts = _thoughts(len(given), given[-1])
    last = {**given[-1], "content": given[-1].get("content") or ""} if thoughts else given[-1]
    content = as_text(len(given), last)["content"]
    if not content.strip() and (not thoughts or last.get("tool_calls")):
        return given, None
    if thoughts:
        said = f"\n{CLOSE}\n\n{content.lstrip()}" if content.strip() else ""
        content = f"{OPEN}\n{thoughts}{said}"
    if last.get("tool_calls"):
        bare = {name: each for name, each in last.items() if name not in THOUGHTS}
        whole = [*given[:-1], {**bare, "content": content}]
        written = written_with_calls(whole, answers.tokenizer, answers.model.name)
        if written is None:
            msg = (
                f"message {len(given)} has tool_calls beside its content, which the chat template "
                f"of {answers.model.name} does not write behind it: leave the calls out, or give "
                "the answer as the model wrote it with answer="
            )
            raise InputError(msg)
        content = written
    return list(given[:-1]), content


def _thoughts(number: int, message: Message) -> str:
    """The thoughts of a message, which servers take out of its content."""
    for name in THOUGHTS:
        if given := message.get(name):
            if not isinstance(given, str):
                msg = f"message {number} has {name} {shown(given)}; give a text"
                raise InputError(msg)
            if given.strip():
                return given.strip()
    return ""


def without_open(text: str, prompt: str) -> str:
    """An answer without the mark that opens its thoughts, where its prompt ends in this mark."""
    if not (prompt.rstrip().endswith(OPEN) and text.startswith(OPEN)):
        return text
    text = text.removeprefix(OPEN)
    return text.lstrip("\n") if prompt.endswith("\n") else text
