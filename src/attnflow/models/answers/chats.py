"""Chats as texts: what a template makes of messages, and where each of them stands in it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from attnflow.errors import InputError, ModelError, shown
from attnflow.io.inputs import check_unicode

Span = tuple[int, int]
Message = Mapping[str, Any]
# In place of a content; a content itself may be in the template's own text, too, as a role is.
MARK = "\ue000{}\ue001"
MARKS = re.compile(MARK.format("([0-9]+)"))


def write_chat(
    messages: Sequence[Message], tokenizer: Any, model: str, taken: Sequence[str]
) -> tuple[str, tuple[tuple[str, Span], ...]]:
    """The text of a chat, and the messages that are not empty by the names of their roles.

    ``taken`` are names that no message may have; it is numbered instead, as a second one is.
    """
    if not getattr(tokenizer, "chat_template", None):
        msg = (
            f"{model} has no chat template: its tokenizer can't write messages as a text. Give a "
            "text (with --part NAME=FILE, or as a dict, in named parts)"
        )
        raise ModelError(msg)
    for number, message in enumerate(messages):
        if not isinstance(message.get("content"), str):
            msg = f"message {number + 1} has content {shown(message.get('content'))}; give a text"
            raise InputError(msg)
        check_unicode(f"message {number + 1}", message["content"])
    text = _render(messages, tokenizer, model)
    filled = [number for number, message in enumerate(messages) if message["content"].strip()]
    marked = [
        {**message, "content": MARK.format(number)} if number in filled else message
        for number, message in enumerate(messages)
    ]
    places = _find(text, _render(marked, tokenizer, model), [each["content"] for each in messages])
    names = _names([str(message["role"]) for message in messages], taken)
    for number in filled:
        if number not in places:
            msg = (
                f"the chat template of {model} changes message {number + 1} "
                f"({messages[number]['role']}): it can't be told which tokens are its own"
            )
            raise InputError(msg)
    return text, tuple((names[number], places[number]) for number in filled)


def blanks_before_answer(messages: Sequence[Message], tokenizer: Any, text: str) -> str:
    """The blanks that a template puts between a chat and its answer, as Llama 2's does.

    ``text`` is the chat as `write_chat` gives it. What else a template puts there (an empty
    train of thought, say) is left to whoever gives an answer.
    """
    mark = MARK.format(len(messages))
    answer = {"role": "assistant", "content": mark}
    try:
        whole = tokenizer.apply_chat_template(
            [*(dict(message) for message in messages), answer], tokenize=False
        )
    except Exception:  # noqa: BLE001 - a template is a program, and may know no such role
        return ""
    between = str(whole).removeprefix(text).partition(mark)[0]
    return between if between.isspace() and str(whole).startswith(text) else ""


def _render(messages: Sequence[Message], tokenizer: Any, model: str) -> str:
    try:
        return str(
            tokenizer.apply_chat_template(
                [dict(message) for message in messages], tokenize=False, add_generation_prompt=True
            )
        )
    except Exception as error:  # a template is a program of the model's author
        msg = f"the chat template of {model} refuses these messages: {error}"
        raise InputError(msg) from error


def _find(text: str, marked: str, contents: Sequence[str]) -> dict[int, Span]:
    """Where contents stand, without blanks around them, up to the first that was changed.

    ``marked`` is the same text with marks in their places. Templates may trim contents.
    """
    before, *pieces = MARKS.split(marked)
    at, places = len(before), dict[int, Span]()
    if not text.startswith(before):
        return places
    for number, after in zip(map(int, pieces[::2]), pieces[1::2], strict=True):
        content = contents[number]
        forms = (content, content.strip(), content.lstrip(), content.rstrip())
        form = next((each for each in forms if text.startswith(each + after, at)), None)
        if form is None or number in places:
            return {kept: span for kept, span in places.items() if kept != number}
        start = at + len(form) - len(form.lstrip())
        places[number] = start, start + len(content.strip())
        at += len(form) + len(after)
    return places if at == len(text) else {}


def _names(roles: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Each message's role, with a number from the second of a role on."""
    names, used, counts = [], set(taken), dict[str, int]()
    for role in roles:
        counts[role] = counts.get(role, 0) + 1
        name = role if counts[role] == 1 else f"{role} {counts[role]}"
        while name in used:
            counts[role] += 1
            name = f"{role} {counts[role]}"
        used.add(name)
        names.append(name)
    return names
