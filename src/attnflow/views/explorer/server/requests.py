"""Requests, and the responses that are not documents: for the OpenAPI description."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from attnflow.aggregation import AGGREGATORS, Aggregator
from attnflow.edges import EDGE_RULES
from attnflow.errors import InputError
from attnflow.pipeline.config import AUTO
from attnflow.registry import Registry
from attnflow.views.explorer.schema import Blanked, Rule


def _whole_characters(text: str) -> str:
    """Refuse half characters (lone surrogates), which are no Unicode text."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        msg = f"half a character (a lone surrogate) at {error.start}; send Unicode text"
        raise ValueError(msg) from error
    return text


def _distinct(values: list[Any]) -> list[Any]:
    seen = set()
    for value in values:
        key = tuple(sorted(value)) if isinstance(value, list) else value
        if key in seen:
            msg = f"{value} is there twice; send each once"
            raise ValueError(msg)
        seen.add(key)
    return values


Unicode = Annotated[str, AfterValidator(_whole_characters)]
Distinct = AfterValidator(_distinct)
Position = Annotated[int, Field(ge=0, le=100_000, strict=True)]
Layer = Annotated[int, Field(ge=1, le=10_000, strict=True)]


def _name_in(family: Registry[Any], *more: str) -> tuple[AfterValidator, Any]:
    """A name in a registry, or one more: checked in requests, listed in the description."""

    def check(name: str) -> str:
        if name not in more:
            family[name]  # an error lists the names
        return name

    def describe(schema: dict[str, Any]) -> None:
        schema["enum"] = [*more, *family]

    return AfterValidator(check), Field(json_schema_extra=describe)


Method = Annotated[str, *_name_in(AGGREGATORS)]
AnyMethod = Annotated[str, *_name_in(AGGREGATORS, AUTO)]
Edges = Annotated[str, *_name_in(EDGE_RULES, AUTO)]
MOST_WRITTEN = 128  # tokens of an answer that a server writes


class InputRequest(BaseModel):
    """An input: a text, or an image for vision models."""

    model_config = ConfigDict(extra="forbid")

    model: Unicode | None = Field(None, description="One of GET /api/models; null is the first.")
    text: Unicode | None = Field(None, description="The text to explain.")
    pair: Unicode | None = Field(
        None, description="The second text, where the model reads two as one input."
    )
    image: Unicode | None = Field(None, description="A PNG, JPEG or WebP file in base64.")
    answer: Unicode | None = Field(None, description="Encoder–decoders: the answer to explain.")

    bos: bool = Field(
        False, description="Put BOS in front, for causal models whose tokenizer adds none."
    )
    edges: Edges = Field(
        "auto", description="What the edges are made of; auto is what answers best for the model."
    )
    target: Unicode | int | None = Field(
        None, description="The label or token to explain, by name or number; null: the prediction."
    )
    contrast: Unicode | int | None = Field(
        None, description="Explain why the target rather than this label or token."
    )

    @property
    def explained(self) -> int | None:
        """The position whose edges are asked for; ``None`` for where the model decides."""
        return None

    def check_against(self, depth: int, size: int | None) -> None:
        """Refuse layers and positions that the input does not have, before the model runs.

        ``size`` is ``None`` where only the model itself tells how many positions there are.
        """


class AnswerRequest(BaseModel):
    """A prompt, and its answer: the model's own, or one that is given."""

    model_config = ConfigDict(extra="forbid")

    model: Unicode | None = Field(None, description="One of GET /api/models; null is the first.")
    text: Unicode = Field(description="The prompt.", min_length=1)
    answer: Unicode | None = Field(None, description="The answer to explain; null: the model's.")
    length: int = Field(
        40, ge=1, le=MOST_WRITTEN, strict=True, description="The most tokens that are written."
    )
    parts: dict[Unicode, tuple[Position, Position]] | None = Field(
        None,
        description="Parts of the prompt by their names: where each starts and ends.",
        max_length=64,
    )
    bos: bool = Field(
        False, description="Put BOS in front, for causal models whose tokenizer adds none."
    )
    edges: Edges = Field("auto", description="What the edges are made of, as for /api/explain.")
    method: AnyMethod = Field("auto", description="The method; auto is what answers best.")


def _check_within(name: str, values: Iterable[int], least: int, most: int | None) -> None:
    for value in values:
        if most is not None and not least <= value <= most:
            msg = f"{name}={value} does not exist; allowed: {least} … {most}"
            raise InputError(msg)


def _last(size: int | None) -> int | None:
    return None if size is None else size - 1


class PositionRequest(InputRequest):
    """Something of one position, by one method."""

    method: Method
    query: Position

    @property
    def explained(self) -> int | None:
        """The position, where the method reads edges."""
        return self.query if isinstance(AGGREGATORS[self.method], Aggregator) else None


class ScoresRequest(PositionRequest):
    """Scores of layers that the document left out, or of another position."""

    layers: Annotated[list[Layer], Distinct] = Field(
        min_length=1, max_length=1000, json_schema_extra={"uniqueItems": True}
    )

    def check_against(self, depth: int, size: int | None) -> None:
        """Refuse layers and a query that the input does not have."""
        _check_within("layers", self.layers, 1, depth)
        _check_within("query", [self.query], 0, _last(size))


class TraceRequest(PositionRequest):
    """How the score of ``key`` came about."""

    layer: Layer
    key: Position

    def check_against(self, depth: int, size: int | None) -> None:
        """Refuse a layer and positions that the input does not have."""
        _check_within("layer", [self.layer], 1, depth)
        _check_within("query", [self.query], 0, _last(size))
        _check_within("key", [self.key], 0, _last(size))


class BlankRequest(InputRequest):
    """Sets of positions to blank out, each in a separate run."""

    sets: Annotated[
        list[Annotated[list[Position], Distinct, Field(min_length=1, max_length=1024)]], Distinct
    ] = Field(min_length=1)

    def check_against(self, depth: int, size: int | None) -> None:
        """Refuse positions that the input does not have."""
        for positions in self.sets:
            _check_within("position", positions, 0, _last(size))


class Model(BaseModel):
    """A model of this server."""

    name: str
    kind: Literal["text", "pair", "image", "audio", "speech"]
    head: str
    layers: int


class Models(BaseModel):
    """The models, fixed when the server started, the edge rules, and an example text."""

    models: list[Model]
    rules: list[Rule]
    example: str
    run: bool = Field(description="Whether the texts of a run are listed at /run.")


class Health(BaseModel):
    """The server is up."""

    status: Literal["ok"]
    version: str
    pending: int = Field(description="Requests that wait or are processed.")


class BlankResponse(BaseModel):
    """The predictions without each set of tokens."""

    blanked: list[Blanked]


class ErrorDetail(BaseModel):
    """What went wrong: a code for programs and a message for people."""

    code: Literal[
        "invalid",
        "unknown-model",
        "too-large",
        "busy",
        "timeout",
        "forbidden",
        "unauthorized",
        "slow",
        "stopping",
        "not-found",
        "failed",
    ]
    message: str


class ErrorResponse(BaseModel):
    """Every error response has this shape."""

    error: ErrorDetail


ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorResponse, "description": "The body is not JSON."},
    401: {"model": ErrorResponse, "description": "The token of this server is missing."},
    403: {"model": ErrorResponse, "description": "The request comes from a page of another site."},
    408: {"model": ErrorResponse, "description": "The request did not arrive in time."},
    404: {"model": ErrorResponse, "description": "The model is not served here."},
    413: {"model": ErrorResponse, "description": "The input is larger than the server allows."},
    422: {"model": ErrorResponse, "description": "The request is invalid."},
    500: {"model": ErrorResponse, "description": "The model failed on this input."},
    503: {"model": ErrorResponse, "description": "Busy, or stopping: try again in a second."},
    504: {"model": ErrorResponse, "description": "The work took too long and was stopped."},
}
