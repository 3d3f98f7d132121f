"""Requests, and the responses that are not documents: for the OpenAPI description."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    create_model,
)
from pydantic_core import PydanticCustomError

from attnflow.edges import EDGE_RULES
from attnflow.methods import METHODS
from attnflow.models.answers.pieces import PIECES, SENTENCES
from attnflow.options.option import has_use, options_of, type_name
from attnflow.options.tables import AnswerOptions, ExplainOptions
from attnflow.pipeline.request import AUTO
from attnflow.records.knockout import Edges
from attnflow.registry import Registry
from attnflow.views.explorer.schema import Blanked, Rule
from attnflow.views.explorer.server import checks

if TYPE_CHECKING:
    from attnflow.views.explorer.server.sessions import RequestedInput


def _distinct(values: list[Any]) -> list[Any]:
    seen = set()
    for value in values:
        key = tuple(sorted(value)) if isinstance(value, list) else value
        if key in seen:
            msg = f"{value} is there twice; send each once"
            raise ValueError(msg)
        seen.add(key)
    return values


def _name_or_number(value: Any) -> Any:
    """Refuse everything else in one error, where a union would give one for each of its types."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, str | int)):
        msg = "send the name or the number of a label or token"
        raise ValueError(msg)
    if isinstance(value, str) and len(value) > LONGEST_NAME:
        raise _too_long(len(value), "characters", LONGEST_NAME)
    return value


def _few(values: Any) -> Any:
    """Refuse an object of many members before they are looked at."""
    if isinstance(values, dict) and len(values) > MOST_PARTS:
        raise _too_long(len(values), "parts", MOST_PARTS)
    return values


def _too_long(count: int, of: str, most: int) -> PydanticCustomError:
    return PydanticCustomError("too_long", f"{count:,} {of}; at most {most:,}")


MOST_WRITTEN = 128  # tokens of an answer that a server writes
MOST_SETS = 64  # sets of tokens that are blanked for one request
MOST_PARTS = 64  # named parts of a prompt
MOST_LAYERS = 1000
MOST_RANDOM = 20  # random sets of edges that are removed for one request
LONGEST_NAME = 1000  # characters
SEVERAL_TEXTS = 3  # that a request may have: a text, its pair, an answer
# Lists end at the first error: each error is an object, and costs more than what is wrong.
Distinct = AfterValidator(_distinct)
Flag = Annotated[bool, Field(strict=True)]
Name = Annotated[str, Field(max_length=LONGEST_NAME)]
Choice = Annotated[str | int | None, BeforeValidator(_name_or_number)]
Position = Annotated[int, Field(ge=0, le=100_000, strict=True)]
Layer = Annotated[int, Field(ge=1, le=10_000, strict=True)]
Layers = Annotated[
    list[Layer],
    FailFast(),
    Field(min_length=1, max_length=MOST_LAYERS, json_schema_extra={"uniqueItems": True}),
    Distinct,
]
Set = Annotated[list[Position], FailFast(), Field(min_length=1, max_length=1024), Distinct]
Sets = Annotated[list[Set], FailFast(), Field(min_length=1, max_length=MOST_SETS), Distinct]
Head = Annotated[int, Field(ge=0, le=10_000, strict=True)]
SomeLayers = Annotated[list[Layer], FailFast(), Field(max_length=MOST_LAYERS), Distinct]
SomeHeads = Annotated[list[Head], FailFast(), Field(max_length=MOST_LAYERS), Distinct]
SomePositions = Annotated[list[Position], FailFast(), Field(max_length=1024), Distinct]
Parts = Annotated[dict[Name, tuple[Position, Position]], BeforeValidator(_few)]


def _name_in(family: Registry[Any], *more: str) -> tuple[AfterValidator, Any]:
    """A name in a registry, or one more: checked in requests, listed in the description."""

    def check(name: str) -> str:
        if name not in more:
            family[name]  # an error lists the names
        return name

    def describe(schema: dict[str, Any]) -> None:
        schema["enum"] = [*more, *family]

    return AfterValidator(check), Field(json_schema_extra=describe)


Method = Annotated[str, *_name_in(METHODS)]
AnyMethod = Annotated[str, *_name_in(METHODS, AUTO)]
EdgesName = Annotated[str, *_name_in(EDGE_RULES, AUTO)]


# What JSON may have for the type of an option.
WIRE: dict[str, Any] = {
    "bool": Flag,
    "int": Annotated[int, Field(strict=True)],
    "int | None": Annotated[int, Field(strict=True)] | None,
    "float": Annotated[float, Field(strict=True, allow_inf_nan=False)],
    "str": Name,
    "TargetSpec": Choice,
    "TargetSpec | Sequence[TargetSpec]": Choice,
    "MethodName": AnyMethod,
    "EdgesName": EdgesName,
}


class Body(BaseModel):
    """What a request may have beside options: nothing but what its class names."""

    model_config = ConfigDict(extra="forbid")
    taken: ClassVar[tuple[str, ...]] = ()

    model: Name | None = Field(None, description="One of GET /api/models; null is the first.")
    answer: str | None = Field(None, description="The answer to explain; null: the model's.")

    @property
    def options(self) -> dict[str, Any]:
        """The options of the library, by their names."""
        return {name: getattr(self, name) for name in self.taken}


def body_of(table: Any, function: str, **types: Any) -> Any:
    """The base of requests that take a table's options, as far as the server has them."""
    declared: dict[str, Any] = {
        name: (types.get(name, WIRE.get(type_name(each))), _described(each, known.help))
        for name, (each, known) in options_of(table).items()
        if known.served and has_use(known, function) and types.get(name, "") is not None
    }
    made = create_model(f"{table.__name__}Body", __base__=Body, **declared)
    made.taken = tuple(declared)
    return made


def _described(each: Any, about: str) -> Any:
    return Field(each.default, description=re.sub(r": \{\w+\}", "", about))


if TYPE_CHECKING:
    InputBody = Body
    AnswerBody = Body
else:
    InputBody = body_of(ExplainOptions, "explain", method=None)
    AnswerBody = body_of(AnswerOptions, "explain_answer")


class InputRequest(InputBody):
    """An input: a text, or an image for vision models."""

    text: str | None = Field(None, description="The text to explain.")
    pair: str | None = Field(
        None, description="The second text, where the model reads two as one input."
    )
    image: str | None = Field(None, description="A PNG, JPEG or WebP file in base64.")

    @property
    def explained(self) -> int | None:
        """The position whose edges are asked for; ``None`` for where the model decides."""
        return None

    def check_against(self, of: RequestedInput) -> None:
        """Refuse what can't be had of an input, as far as that is known before the model runs."""
        checks.check_differentiable(of, self.explained)


class AnswerRequest(AnswerBody):
    """A prompt, and its answer: the model's own, or one that is given."""

    text: str = Field(description="The prompt.", min_length=1)
    generate: int = Field(
        40, ge=1, le=MOST_WRITTEN, strict=True, description="The most tokens that are written."
    )
    each: Literal[*PIECES] = Field(  # type: ignore[valid-type]
        SENTENCES, description="The pieces of the answer that are explained one by one."
    )
    parts: Parts | None = Field(
        None,
        description="Parts of the prompt by their names: where each starts and ends.",
        json_schema_extra={"maxProperties": MOST_PARTS},
    )


class PositionRequest(InputRequest):
    """Something of one position, by one method."""

    method: Method
    query: Position

    @property
    def explained(self) -> int | None:
        """The position, where the method reads edges."""
        return self.query if METHODS[self.method].reads_edges else None


class ScoresRequest(PositionRequest):
    """Scores of layers that the document left out, or of another position."""

    layers: Layers

    def check_against(self, of: RequestedInput) -> None:
        """Refuse layers and a query that the input, or the method, does not have."""
        checks.check_layers(of, "layers", self.layers)
        checks.check_positions(of, "query", [self.query])
        checks.check_method(of, self.method, self.layers, self.query)
        super().check_against(of)


class HeadsRequest(ScoresRequest):
    """Scores of single heads."""

    def check_against(self, of: RequestedInput) -> None:
        """Refuse a method or edges that have no single heads, too."""
        checks.check_heads(of, self.method)
        super().check_against(of)


class TraceRequest(PositionRequest):
    """How the score of ``key`` came about."""

    layer: Layer
    key: Position
    verify: Flag = Field(
        False, description="Remove the edges of the cut from the model, and say what it says then."
    )

    def check_against(self, of: RequestedInput) -> None:
        """Refuse a layer and positions that the input does not have, and methods without traces."""
        checks.check_layers(of, "layer", [self.layer])
        checks.check_positions(of, "query", [self.query])
        checks.check_positions(of, "key", [self.key])
        checks.check_trace(of, self.method, self.layer)
        super().check_against(of)


class BlankRequest(InputRequest):
    """Sets of positions to blank out, each in a separate run."""

    sets: Sets

    def check_against(self, of: RequestedInput) -> None:
        """Refuse positions that can't be blanked."""
        for positions in self.sets:
            checks.check_positions(of, "position", positions)
        checks.check_blankable(of, self.sets)
        super().check_against(of)


class EdgeBlock(BaseModel):
    """Edges of attention: of these layers and heads, what ``queries`` read of ``keys``.

    What is empty is all: all layers, all heads, all other tokens.
    """

    model_config = ConfigDict(extra="forbid")

    layers: SomeLayers = Field(default=[])
    heads: SomeHeads = Field(default=[])
    queries: SomePositions = Field(default=[])
    keys: SomePositions = Field(default=[])

    @property
    def edges(self) -> Edges:
        """As the library has them."""
        return Edges(
            self.layers or None, self.heads or None, self.queries or None, self.keys or None
        )


Blocks = Annotated[list[EdgeBlock], FailFast(), Field(min_length=1, max_length=MOST_SETS)]


class KnockoutRequest(InputRequest):
    """Edges of attention to remove from the model, all at once."""

    without: Blocks = Field(description="Sets of edges, whose union is removed.")
    random: int = Field(
        5, ge=0, le=MOST_RANDOM, strict=True, description="Sets of as many random edges."
    )

    def check_against(self, of: RequestedInput) -> None:
        """Refuse edges that the model does not have, and one that predicts nothing."""
        for block in self.without:
            checks.check_layers(of, "layers", block.layers)
            checks.check_model_heads(of, block.heads)
            checks.check_positions(of, "queries", block.queries)
            checks.check_positions(of, "keys", block.keys)
        checks.check_predicts(of, "removing edges")
        super().check_against(of)


class FormOption(BaseModel):
    """An option that the page's form has a field for, made of what is declared of it."""

    name: str
    kind: Literal["flag", "number", "text"]
    default: bool | int | float | str | None
    help: str
    answers: bool = Field(description="Whether requests for whole answers take it, too.")


KINDS: dict[str, Literal["flag", "number", "text"]] = {  # of types; others are texts
    "bool": "flag",
    **dict.fromkeys(("int", "int | None", "float"), "number"),
}
OWN_FIELDS = ("method", "edges", "target", "contrast")  # which the page lets choose in its own way


def form_options(table: Any = ExplainOptions, body: type[Body] = InputRequest) -> list[FormOption]:
    """The options of a table that requests take and that have no field of their own on the page."""
    return [
        FormOption(
            name=name,
            kind=KINDS.get(type_name(each), "text"),
            default=body.model_fields[name].default,
            help=body.model_fields[name].description or "",
            answers=name in AnswerRequest.taken,
        )
        for name, (each, _) in options_of(table).items()
        if name in body.taken and name not in OWN_FIELDS
    ]


class Model(BaseModel):
    """A model of this server."""

    name: str
    kind: str
    reads_text: bool = Field(description="Whether it reads text; else it reads images.")
    reads_pairs: bool = Field(description="Whether an input can be a pair of texts.")
    has_source: bool = Field(description="Whether it is an encoder–decoder.")
    writes: bool = Field(description="Whether it writes answers.")
    head: str
    layers: int


class Models(BaseModel):
    """The models, fixed when the server started, what they are asked, and an example text."""

    models: list[Model]
    rules: list[Rule]
    options: list[FormOption]
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
    429: {"model": ErrorResponse, "description": "Too many requests of one client are pending."},
    500: {"model": ErrorResponse, "description": "The model failed on this input."},
    503: {"model": ErrorResponse, "description": "Busy, or stopping: try again in a second."},
    504: {"model": ErrorResponse, "description": "The work took too long and was stopped."},
}
