"""The bodies of requests: how large they may be, and what is read of them, up to the first error.

A body may be far cheaper to write than to check: four million invalid numbers are 8 MB, and as many
error messages took minutes and gigabytes. So its size is limited to what a valid request can need,
and so is the number of its values, which are counted before anything is made of them. All of it is
done by a worker, while the event loop serves others.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from attnflow.errors import shown
from attnflow.views.explorer.server.limits import ApiError, Limits
from attnflow.views.explorer.server.requests import MOST_SETS, SEVERAL_TEXTS

M = TypeVar("M", bound=BaseModel)
CHARACTER_BYTES = 12  # of one character in JSON at most: two escapes such as \ud83d
POSITION_BYTES = 8
OTHERS = 64 * 1024  # bytes of everything but texts, sets and images: names, layers, parts
TOO_LONG = ("too_long", "string_too_long")  # errors of pydantic


def most_bytes(limits: Limits, *, images: bool) -> int:
    """What a valid request can need, where a server has models of images or has none."""
    texts = SEVERAL_TEXTS * limits.characters * CHARACTER_BYTES
    sets = MOST_SETS * limits.tokens * POSITION_BYTES
    return texts + sets + OTHERS + (limits.image if images else 0)


def most_values(limits: Limits) -> int:
    """How many values a valid request can have, commas and brackets of its texts included."""
    return SEVERAL_TEXTS * limits.characters + MOST_SETS * (limits.tokens + 2) + OTHERS // 8


def read_body(content: bytes, model: type[M], limits: Limits) -> M:
    """What a request asks for; an error names the first thing that is wrong with it."""
    # Before every value but the first of a list or an object stands a comma.
    values = sum(content.count(mark) for mark in (b",", b"[", b"{"))
    if values > most_values(limits):
        msg = f"the request has about {values:,} values; at most {most_values(limits):,}"
        raise ApiError(413, "too-large", msg)
    try:
        found: Any = from_json(content, allow_inf_nan=False)
    except ValueError as error:
        msg = f"the body is not JSON: {error}"
        raise ApiError(400, "invalid", msg) from None
    if not isinstance(found, dict):
        msg = f'the body is {shown(found)}; send an object, such as {{"text": "…"}}'
        raise ApiError(422, "invalid", msg)
    for name in found:
        if name not in model.model_fields:
            msg = f"{shown(name)} is unknown; allowed: {', '.join(model.model_fields)}"
            raise ApiError(422, "invalid", msg)
    try:
        return model.model_validate(found)
    except ValidationError as error:
        raise _named(error) from None


def _named(error: ValidationError) -> ApiError:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    message = f"{place}: {first['msg'].removeprefix('Value error, ')}"
    if first["type"] in TOO_LONG:
        return ApiError(413, "too-large", message)
    return ApiError(422, "invalid", message)
