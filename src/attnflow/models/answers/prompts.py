"""Prompts with named parts: the messages of a chat, documents, a question, spans of a text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from attnflow.errors import InputError, ModelError, shown
from attnflow.io.inputs import check_unicode
from attnflow.io.units import Unit, split_units
from attnflow.models.text.answers import shared_start
from attnflow.models.text.encoded import read_encoded
from attnflow.models.text.tokens import is_encoded
from attnflow.records.parts import (
    GIVEN,
    INSTRUCTIONS,
    QUESTION,
    SOURCE,
    TEMPLATE,
    Part,
    Role,
    check_role,
)
from attnflow.records.selection import is_integer

if TYPE_CHECKING:
    from attnflow.models.adapter import Tokens
    from attnflow.models.answers.interface import Answers


Span = tuple[int, int]
Message = Mapping[str, Any]
# In place of a content; a content itself may be in the template's own text, too, as a role is.
MARK = "\ue000{}\ue001"
MARKS = re.compile(MARK.format("([0-9]+)"))
# What messages and parts are called that are no source.
INSTRUCTING = frozenset({"system", "developer", "instructions", "instruction", "rules"})
ASKING = frozenset({"question", "query", "user", "prompt", "task", "request"})
TOLD = frozenset({"assistant", "model", "tool", "function", "ipython"})  # the other messages


class Piece(NamedTuple):
    """A named part of a prompt's text."""

    name: str
    span: Span
    role: Role


def write_chat(
    messages: Sequence[Message], tokenizer: Any, model: str, taken: Sequence[str]
) -> tuple[str, tuple[Piece, ...]]:
    """The text of a chat, and the messages that are not empty by the names of their roles.

    The last message that is neither told to the model nor by it is the question; what was said
    before that, and what tools returned, are sources.

    ``taken`` are names that no message may have; it is numbered instead, as a second one is.
    """
    if not getattr(tokenizer, "chat_template", None):
        msg = (
            f"{model} has no chat template: its tokenizer can't write messages as a text. Give a "
            "text (with --part NAME=FILE, or as a dict, in named parts)"
        )
        raise ModelError(msg)
    messages = [as_text(number, each) for number, each in enumerate(messages, 1)]
    titles, speakers = _titles(messages), [str(message["role"]) for message in messages]
    messages, calling = _with_all_calls(messages, tokenizer, model)
    text = _render(messages, tokenizer, model)
    filled = [number for number, message in enumerate(messages) if message["content"].strip()]
    marked = [
        {**message, "content": MARK.format(number)} if number in filled else message
        for number, message in enumerate(messages)
    ]
    contents = [each["content"] for each in messages]
    places = _find_contents(text, _render(marked, tokenizer, model), contents)
    names, roles = _name_messages(titles, taken), _roles_of_messages(speakers)
    for number in filled:
        if number not in places:
            msg = (
                f"the chat template of {model} changes message {number + 1} "
                f"({messages[number]['role']}): its own tokens can't be identified"
            )
            raise InputError(msg)
    found = {at: [Piece(names[at], places[at], roles[at])] for at in filled}
    for at in calling:
        bare = {name: each for name, each in messages[at].items() if name != "tool_calls"}
        without = _render([*messages[:at], bare, *messages[at + 1 :]], tokenizer, model)
        called = [each["function"]["name"] for each in messages[at]["tool_calls"]]
        name = f"call {', '.join(called)}" if at in found else names[at]
        found.setdefault(at, []).append(Piece(name, _inserted(text, without)[1], SOURCE))
    return text, tuple(piece for at in sorted(found) for piece in found[at])


def as_text(number: int, message: Message) -> dict[str, Any]:
    """A message with its content as one text, as servers read the pieces that an API takes."""
    content = message.get("content")
    if content is None and message.get("tool_calls"):
        content = ""
    if isinstance(content, Sequence) and not isinstance(content, str):
        pieces: list[Any] = [
            each.get("text") if isinstance(each, Mapping) else each for each in content
        ]
        kinds = [each.get("type") for each in content if isinstance(each, Mapping)]
        if not all(isinstance(each, str) for each in pieces):
            msg = f"message {number} has content of the types {kinds}; only texts can be explained"
            raise InputError(msg)
        content = "\n".join(pieces)
    if not isinstance(content, str):
        msg = f"message {number} has content {shown(content)}; give a text"
        raise InputError(msg)
    return {**message, "content": check_unicode(f"message {number}", content)}


def written_with_calls(messages: Sequence[Message], tokenizer: Any, model: str) -> str | None:
    """What a template writes of the last message: its content, then its calls of tools.

    ``None`` where it does not write them so, after what it lets a model continue.
    """
    read = [as_text(number, each) for number, each in enumerate(messages, 1)]
    content = read[-1]["content"].strip()
    filled, calling = _with_all_calls(read, tokenizer, model)
    if len(read) - 1 not in calling:
        return None
    plain = {name: value for name, value in filled[-1].items() if name != "tool_calls"}
    earlier = filled[:-1]
    before, whole, without = (
        _render(each, tokenizer, model) for each in (earlier, filled, [*earlier, plain])
    )
    written = whole[len(before) : _inserted(whole, without)[1][1]].strip()
    follows = whole.startswith(before) and written.startswith(content)
    return written if follows and written[len(content) :].strip() else None


def _with_all_calls(
    messages: Sequence[Message], tokenizer: Any, model: str
) -> tuple[list[Message], list[int]]:
    """Messages with their calls of tools, and the numbers of those whose template writes them."""
    filled, calling = list(messages), []
    for at in range(len(filled)):
        filled[at], native = _with_calls(filled, at, tokenizer, model)
        calling += [at] if native else []
    return filled, calling


def _with_calls(
    messages: Sequence[Message], at: int, tokenizer: Any, model: str
) -> tuple[Message, bool]:
    """A message with its calls of tools, and whether its template writes them itself.

    Templates want arguments as a dict, where APIs give JSON. A template that knows no calls gets
    them as the message's text.
    """
    message, calls = messages[at], messages[at].get("tool_calls")
    if not calls:
        return message, False
    told = [_function(each) for each in calls]
    plain = {name: value for name, value in message.items() if name != "tool_calls"}
    native = {**plain, "tool_calls": [_as_template_takes(*each) for each in told]}
    try:
        texts = [
            _render([*messages[:at], each, *messages[at + 1 :]], tokenizer, model)
            for each in (native, plain)
        ]
    except InputError:
        texts = []
    if texts and all(name in _inserted(*texts)[0] for name, _ in told):
        return native, True
    lines = [message["content"], *(f"{name}({arguments})" for name, arguments in told)]
    return {**plain, "content": "\n".join(filter(None, lines))}, False


def _as_template_takes(name: str, arguments: str) -> dict[str, Any]:
    try:
        read = json.loads(arguments)
    except ValueError:
        read = arguments
    return {"type": "function", "function": {"name": name, "arguments": read}}


def _inserted(text: str, without: str) -> tuple[str, Span]:
    """What a text has that another lacks, in one place, and where it is."""
    start = shared_start(text, without)
    end = len(text) - shared_start(text[start:][::-1], without[start:][::-1])
    while start and text[start - 1] == text[end - 1]:  # it may begin as what follows it does
        start, end = start - 1, end - 1
    found = text[start:end]
    start += len(found) - len(found.lstrip())
    return found.strip(), (start, start + len(found.strip()))


def _function(call: Any) -> tuple[str, str]:
    """The name and the arguments, as JSON, of a call."""
    said = call.get("function", call) if isinstance(call, Mapping) else {}
    name, arguments = said.get("name"), said.get("arguments", {})
    if not isinstance(name, str):
        msg = f"tool_calls hold {shown(call)}; each needs a function with its name and arguments"
        raise InputError(msg)
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return name, arguments


def _titles(messages: Sequence[Message]) -> list[str]:
    """What each message is called: its role, of a tool's result the tool, too."""
    called = {
        call.get("id"): _function(call)[0]
        for message in messages
        for call in message.get("tool_calls") or ()
        if isinstance(call, Mapping)
    }
    titles = []
    for message in messages:
        name = message.get("name") or called.get(message.get("tool_call_id"))
        told = [_function(each)[0] for each in message.get("tool_calls") or ()]
        if message["role"] in ("tool", "function") and isinstance(name, str):
            titles.append(f"{message['role']} {name}")
        elif told and not message["content"].strip():
            titles.append(f"call {', '.join(told)}")
        else:
            titles.append(str(message["role"]))
    return titles


def blanks_before_answer(messages: Sequence[Message], tokenizer: Any, text: str) -> str:
    """The blanks that a template puts between a chat and its answer, as Llama 2's does.

    ``text`` is the chat as `write_chat` gives it. What else a template puts there (an empty
    train of thought, for instance) is up to the caller.
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


def _find_contents(text: str, marked: str, contents: Sequence[str]) -> dict[int, Span]:
    """Where contents are, without blanks around them, up to the first that was changed.

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


def _name_messages(roles: Sequence[str], taken: Sequence[str]) -> list[str]:
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


def _roles_of_messages(speakers: Sequence[str]) -> list[Role]:
    told = INSTRUCTING | TOLD
    asked = max((at for at, each in enumerate(speakers) if each not in told), default=None)
    return [
        INSTRUCTIONS if each in INSTRUCTING else QUESTION if at == asked else SOURCE
        for at, each in enumerate(speakers)
    ]


def _role_of_name(name: str) -> Role:
    """What a part is by its name, whatever number is behind it."""
    bare = name.casefold().rstrip(" _-0123456789")
    return INSTRUCTIONS if bare in INSTRUCTING else QUESTION if bare in ASKING else SOURCE


Parts = Mapping[str, Any]  # a name, and the text of the part or where it starts and ends
BETWEEN = "\n\n"  # between parts that are given one by one
REST, WHOLE, ANSWER = "rest", "prompt", "answer"
REMAINDER = "other text"  # of a prompt in which a part is called WHOLE


@dataclass(frozen=True)
class Prompt:
    """A prompt as one text.

    Attributes:
        text: The text.
        pieces: The named parts of it; a later one takes its text from an earlier one.
        special: Whether the tokenizer puts special tokens around it: a template has them already.
        blanks: What a chat template puts before an answer.
        ids: The tokens, where they are given; the text is theirs.
    """

    text: str
    pieces: tuple[Piece, ...] = ()
    special: bool = True
    blanks: str = ""
    ids: tuple[int, ...] | None = None


def is_chat(given: Any) -> bool:
    """Whether these are the messages of one chat."""
    return (
        isinstance(given, Sequence)
        and not isinstance(given, str | bytes)
        and len(given) > 0
        and all(isinstance(each, Mapping) and "role" in each for each in given)
    )


def make_prompt(
    given: Any,
    tokenizer: Any,
    model: str,
    parts: Parts | None = None,
    units: Unit | str | None = None,
    roles: Mapping[str, Any] | None = None,
) -> Prompt:
    """One prompt in any of its forms: a text, named parts, the messages of a chat, or token ids.

    With ``units``, each part is cut into its sentences or paragraphs. ``roles`` are those of parts
    whose names do not say what they are.
    """
    prompt = _with_roles(_with_parts(given, tokenizer, model, parts), roles)
    return prompt if units is None else cut_prompt(prompt, units)


def _with_parts(given: Any, tokenizer: Any, model: str, parts: Parts | None) -> Prompt:
    if is_chat(given):
        text, pieces = write_chat(given, tokenizer, model, taken=(REST, ANSWER))
        blanks = blanks_before_answer(given, tokenizer, text)
        prompt = Prompt(text, pieces, special=False, blanks=blanks)
    elif isinstance(given, str) or is_encoded(given):
        prompt = _read_ids(given, tokenizer) if is_encoded(given) else Prompt(given)
        text = check_unicode("text", prompt.text)
        # What is in no part is the question.
        name = REMAINDER if parts and WHOLE in parts else WHOLE
        prompt = replace(prompt, pieces=(_whole(text, name),) if parts else ())
    elif isinstance(given, Mapping):
        prompt = _joined(given)
    else:
        msg = (
            f"prompt={shown(given)} must be a text, a dict of named parts, the messages of a chat, "
            "each with its role and content, or a list of token ids"
        )
        raise InputError(msg)
    if parts is None:
        return prompt
    if not isinstance(parts, Mapping):
        msg = f"parts={shown(parts)} must be a dict: a name, and the part's text or (start, end)"
        raise InputError(msg)
    given = list(parts.values())
    found = tuple(
        Piece(_name(name), _find(name, each, prompt.text, given, at), _role_of_name(name))
        for at, (name, each) in enumerate(parts.items())
    )
    _check_apart(found)
    taken = {each.name for each in found} & {each.name for each in prompt.pieces}
    if taken:
        msg = f"parts hold {sorted(taken)}, which the prompt has already; choose other names"
        raise InputError(msg)
    return replace(prompt, pieces=prompt.pieces + found)


def _read_ids(given: Any, tokenizer: Any) -> Prompt:
    size = max(tokenizer.get_vocab().values()) + 1
    read = read_encoded(tokenizer, given, None, size, truncate=None)
    return Prompt(read.text, special=False, ids=tuple(read.inputs["input_ids"]))


def _with_roles(prompt: Prompt, roles: Mapping[str, Any] | None) -> Prompt:
    """The same prompt, with the roles that its parts are given."""
    if roles is None:
        return prompt
    if not isinstance(roles, Mapping):
        msg = f'roles={shown(roles)} must be a dict of names and roles: {{"tone": "instructions"}}'
        raise InputError(msg)
    pieces = prompt.pieces or (_whole(prompt.text),)
    names = [piece.name for piece in pieces]
    for name, role in roles.items():
        if name not in names:
            msg = f"roles: there is no part {shown(name)}; the prompt has {', '.join(names)}"
            raise InputError(msg)
        check_role(name, role, GIVEN)
    given = (piece._replace(role=roles.get(piece.name, piece.role)) for piece in pieces)
    return replace(prompt, pieces=tuple(given))


def cut_prompt(prompt: Prompt, units: Unit | str) -> Prompt:
    """The same prompt, each part of several units cut into these, in the order of the text."""
    given = prompt.pieces or (_whole(prompt.text),)
    found: list[Piece] = []
    for number, (name, span, role) in enumerate(given):
        # A later part takes its text from an earlier one.
        left = _without(span, [other.span for other in given[number + 1 :]])
        pieces = [
            (start + first, start + last)
            for start, end in left
            for first, last in split_units(prompt.text[start:end], units)
            if prompt.text[start + first : start + last].strip()
        ]
        one = units.removesuffix("s")
        names = [f"{name}, {one} {place}" for place in range(1, len(pieces) + 1)]
        for each, piece in zip(names if len(pieces) > 1 else [name], pieces, strict=False):
            found.append(Piece(each, piece, role))
    return replace(prompt, pieces=tuple(found))


def _whole(text: str, name: str = WHOLE) -> Piece:
    return Piece(name, (0, len(text)), QUESTION)


def _without(span: Span, others: Sequence[Span]) -> list[Span]:
    """What is left of a span without others."""
    left, at = [], span[0]
    for start, end in sorted(others):
        if start >= span[1] or end <= at:
            continue
        left.append((at, start))
        at = max(at, end)
    return [(start, end) for start, end in [*left, (at, span[1])] if start < end]


def read_prompt(
    answers: Answers, prompt: Prompt, *, truncate: bool
) -> tuple[Tokens, tuple[Part, ...]]:
    """The tokens of a prompt and its parts: those named, then all other tokens.

    A token in two parts belongs to the one that has more of it. What a tokenizer puts
    around a text (such as BOS) is in none of them, and stays where they are deleted.
    """
    if prompt.ids is None:
        tokens = answers.read(prompt.text, truncate=truncate, special=prompt.special)
    else:
        tokens = answers.read(prompt.ids, truncate=None, special=False)
    if tokens.spans is None and not prompt.pieces:
        return tokens, (Part(WHOLE, tuple(range(len(tokens))), QUESTION),)
    if tokens.spans is None:
        msg = f"{answers.model.name} has no parts: its tokenizer gave no offsets in the text"
        raise ModelError(msg)
    pieces = prompt.pieces or (_whole(prompt.text),)
    owners = [owner_of(span, pieces, prompt.text) for span in tokens.spans]
    parts = []
    for number, (name, (start, end), role) in enumerate(pieces):
        positions = tuple(at for at, owner in enumerate(owners) if owner == number)
        if positions:
            parts.append(Part(name, positions, role))
        elif not any(s < end and start < e for _, (s, e), _ in pieces[number + 1 :]):
            msg = (
                f"part {name!r} has no tokens: {shown(prompt.text[start:end])}; it was cut off, or "
                "is blank"
            )
            raise InputError(msg)
    left = tuple(at for at, owner in enumerate(owners) if owner is None)
    return tokens, (*parts, *((Part(REST, left, TEMPLATE),) if left else ()))


def owner_of(span: Span, pieces: Sequence[Piece], text: str) -> int | None:
    """The part with most of a token's characters that are not blanks; the last of several."""
    start, end = span
    best, most = None, 0
    inside = [at for at in range(start, end) if not text[at].isspace()] or range(start, end)
    for number in reversed(range(len(pieces))):
        first, last = pieces[number].span
        if best is None and first <= start < end <= last:
            return number
        if last <= start or end <= first:
            continue
        count = sum(first <= at < last for at in inside)
        if count > most:
            best, most = number, count
    return best


def _joined(parts: Mapping[str, Any]) -> Prompt:
    if set(parts) == {"role", "content"}:
        msg = (
            f"prompt={shown(dict(parts))} is one message of a chat; give messages as a list in "
            'which each has a role: [{"role": "user", "content": "…"}]'
        )
        raise InputError(msg)
    texts, pieces, at = [], [], 0
    for name, text in parts.items():
        if not isinstance(text, str) or not text.strip():
            msg = f"part {shown(name)} is {shown(text)}; it must be a text that is not empty"
            raise InputError(msg)
        check_unicode(f"part {name}", text)
        texts.append(text)
        pieces.append(Piece(_name(name), (at, at + len(text)), _role_of_name(name)))
        at += len(text) + len(BETWEEN)
    if not texts:
        msg = "the prompt has no parts; give at least one, by its name and text"
        raise InputError(msg)
    return Prompt(BETWEEN.join(texts), tuple(pieces))


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name.strip() or name in (REST, ANSWER):
        msg = f"a part's name is {shown(name)}; give a text other than {REST!r} and {ANSWER!r}"
        raise InputError(msg)
    return name


def _find(name: Any, given: Any, text: str, parts: Sequence[Any], number: int) -> Span:
    """Where a part is: a text, or its start and end.

    The text occurs once, or as often as there are parts with it, which come one after the other.
    """
    if isinstance(given, str) and given.strip():
        same = [at for at, each in enumerate(parts) if is_same(each, given)]
        given = given.strip()
        places = [match.start() for match in re.finditer(f"(?={re.escape(given)})", text)]
        at = places[same.index(number)] if len(places) == len(same) else -1
        if at < 0:
            what = f"is in the prompt {len(places)} times" if places else "is not in the prompt"
            if len(places) == 1:
                what = f"is in the prompt once, and {len(same)} parts have its text"
            msg = f"part {shown(name)} {what}: {shown(given)}; give its (start, end) in the text"
            raise InputError(msg)
        return at, at + len(given)
    pair = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else ()
    if len(pair) == 2 and all(map(is_integer, pair)) and 0 <= pair[0] < pair[1] <= len(text):
        return int(pair[0]), int(pair[1])
    msg = (
        f"part {shown(name)} is {shown(given)}; give its text, or (start, end) with 0 ≤ start < "
        f"end ≤ {len(text)}, the prompt's length in characters"
    )
    raise InputError(msg)


def is_same(one: Any, other: Any) -> bool:
    """Whether two parts are given by the same text."""
    return isinstance(one, str) and isinstance(other, str) and one.strip() == other.strip()


def _check_apart(pieces: Sequence[Piece]) -> None:
    order = sorted(pieces, key=lambda piece: piece.span)
    for (name, (_, end), _), (other, (start, _), _) in pairwise(order):
        if start < end:
            msg = f"parts {name!r} and {other!r} overlap; give parts that share no text"
            raise InputError(msg)
