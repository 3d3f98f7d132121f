"""Requests, and the responses that are not documents: for the OpenAPI description."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from attnflow.aggregation import AGGREGATORS
from attnflow.edges import EDGE_RULES
from attnflow.registry import Registry
from attnflow.views.explorer.schema import Blanked, Rule

Position = Annotated[int, Field(ge=0, le=100_000, strict=True)]
Layer = Annotated[int, Field(ge=1, le=10_000, strict=True)]


def _name_in(family: Registry[Any]) -> tuple[AfterValidator, Any]:
    """A name in a registry: checked in requests, listed in the description."""

    def check(name: str) -> str:
        family[name]  # an error lists the names
        return name

    def describe(schema: dict[str, Any]) -> None:
        schema["enum"] = list(family)

    return AfterValidator(check), Field(json_schema_extra=describe)


Method = Annotated[str, *_name_in(AGGREGATORS)]
Edges = Annotated[str, *_name_in(EDGE_RULES)]


class InputRequest(BaseModel):
    """An input: a text, or an image for vision models."""

    model_config = ConfigDict(extra="forbid")

    model: str | None = Field(None, description="One of GET /api/models; null is the first.")
    text: str | None = Field(None, description="The text to explain.")
    image: str | None = Field(None, description="A PNG, JPEG or WebP file in base64.")
    answer: str | None = Field(None, description="Encoder–decoders: the answer to explain.")

    edges: Edges = Field("attention", description="What the edges are made of.")


class ScoresRequest(InputRequest):
    """Scores of layers that the document left out, or of another position."""

    method: Method
    layers: list[Layer] = Field(min_length=1, max_length=1000)
    query: Position


class TraceRequest(InputRequest):
    """How the score of ``key`` came about."""

    method: Method
    layer: Layer
    query: Position
    key: Position


class BlankRequest(InputRequest):
    """Sets of positions to blank out, each in a separate run."""

    sets: list[Annotated[list[Position], Field(min_length=1, max_length=1024)]] = Field(
        min_length=1
    )


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
        "not-found",
        "failed",
    ]
    message: str


class ErrorResponse(BaseModel):
    """Every error response has this shape."""

    error: ErrorDetail


ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorResponse, "description": "The body is not JSON."},
    403: {"model": ErrorResponse, "description": "The request comes from a page of another site."},
    404: {"model": ErrorResponse, "description": "The model is not served here."},
    413: {"model": ErrorResponse, "description": "The input is larger than the server allows."},
    422: {"model": ErrorResponse, "description": "The request is invalid."},
    500: {"model": ErrorResponse, "description": "The model failed on this input."},
    503: {"model": ErrorResponse, "description": "Busy: try again in a second."},
    504: {"model": ErrorResponse, "description": "The work took too long and was stopped."},
}
