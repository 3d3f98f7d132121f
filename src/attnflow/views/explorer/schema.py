"""The JSON document that feeds the page, as types; the OpenAPI description is generated from them.

Layers are numbered 1 … L as everywhere; *steps* are the columns of the graph. They are the same
except for encoder–decoders, whose decoder layers have two steps (self- and cross-attention).
"""

from __future__ import annotations

import base64
from typing import Any, NotRequired, final

import numpy as np
from typing_extensions import TypedDict

FORMAT = "attnflow-view/3"


class Array(TypedDict):
    """Numbers: little-endian float32 (``f4``) or uint16 (``u2``), base64."""

    dtype: str
    shape: list[int]
    data: str


class PredictedLabel(TypedDict):
    """A label or token, and its probability."""

    label: str
    probability: float


class TracedRoute(TypedDict):
    """A path: positions from the source's layer down to the input, and how much it carries."""

    positions: list[int]
    amount: float


class Trace(TypedDict):
    """How the score of one token came about; ``sentence`` says it in words.

    ``edges`` are ``[step, query, key, amount]``, strongest first; ``cut`` ``[step, query, key,
    capacity]``, of ``all_cut`` edges those that carry most of a flow of relevance. An edge goes
    from ``query`` at ``step`` to ``key`` at ``step − 1``. What speaks against the target has a
    ``value`` below 0, and amounts above; ``opposed`` is what speaks the other way. ``verified`` is
    what the model says without the edges of the cut, where that was tried.
    """

    method: str
    layer: int
    query: int
    key: int
    value: float
    opposed: float
    gap: float
    edges: list[list[float]]
    all_edges: int
    cut: list[list[float]]
    all_cut: int
    routes: list[TracedRoute]
    all_routes: int
    sentence: str
    verified: NotRequired[str]


class FindingPart(TypedDict):
    """A piece of a sentence; its ``role`` is "said", "token", "for", "against" or empty.

    ``at`` is the position of a token, the first of its word where words are explained.
    """

    text: str
    role: str
    at: NotRequired[int]


class FoundByMethod(TypedDict):
    """What a method found at one layer and position, in words.

    ``evidence`` is what happens to the answer without the words that matter. ``tied`` tokens share
    the highest score; ``alternative`` is a method that tells them apart.
    """

    method: str
    layer: int
    query: int
    parts: list[FindingPart]
    evidence: str
    notes: list[str]
    tied: int
    alternative: str


class PackedScores(TypedDict):
    """``values`` are ``[layer, query, key]`` for these layers and queries.

    ``words`` are the same with words for keys; they are there wherever the view has ``words``.
    ``findings`` say in words what was found.
    """

    method: str
    layers: list[int]
    queries: list[int]
    values: Array
    words: NotRequired[Array]
    findings: NotRequired[list[FoundByMethod]]


class HeadScores(TypedDict):
    """``values`` are ``[layer, head, key]`` for one query, ``words`` as for `PackedScores`."""

    method: str
    layers: list[int]
    query: int
    values: Array
    words: NotRequired[Array]


class Blanked(TypedDict):
    """The prediction without these tokens, the most likely first.

    ``change`` is that of the target's probability, or of its share against the contrast.
    """

    positions: list[int]
    said: list[PredictedLabel]
    change: float | None


class KnockedOut(TypedDict):
    """What the model says without ``removed`` of its ``total`` edges of attention.

    ``before``, ``after`` and ``random`` are how likely it finds ``target``: as it is, without the
    edges, and without each of some random sets of as many; ``said`` is its prediction without them.
    """

    removed: int
    total: int
    target: str
    before: float
    after: float
    random: list[float]
    said: list[PredictedLabel]
    sentence: str


class WordGroups(TypedDict):
    """The tokens of each word, in order, and the words' names; a special token is alone."""

    groups: list[list[int]]
    labels: list[str]


class Grid(TypedDict):
    """How patches lie on an image; ``box``: left, top, right, bottom, as fractions of it.

    The frames of a sound, ``seconds`` long, have rows from low frequencies, below, to high ones.
    """

    rows: int
    columns: int
    box: list[float]
    seconds: float | None


class DrawnEdges(TypedDict):
    """Edges, the strongest first, and how many of every position are kept.

    Attention itself, heads averaged; or amounts with a sign, those that carry most of all.
    """

    step: Array
    query: Array
    key: Array
    weight: Array
    kept: int


class MethodDescription(TypedDict):
    """A method that can be shown.

    ``title`` is its name as a heading, ``label`` a short one and ``summary`` what its scores are.
    ``first`` are those to choose from at first; the others are in a menu. ``slot`` picks a colour.
    ``reaches_input`` is false where scores are those of the layer below instead of input tokens.
    ``traced`` says whether the graph can show how its scores came about. ``layered`` is false for
    methods that have one row of scores, those of the output, at the view's own ``query`` and last
    layer. ``signed`` says whether scores below 0 speak against what is explained, and ``unit`` what
    scores are numbers of, if anything. ``tie_breaker`` is the method that orders tokens which share
    a score, if there is one. ``ratio`` says whether scores are ratios to chance. One method may be
    there on several edges: ``name`` tells them apart, and requests have its ``method`` and
    ``edges``, which are empty where it reads none.
    """

    name: str
    method: str
    edges: str
    unit: str
    title: str
    label: str
    summary: str
    first: bool
    slot: int
    reaches_input: bool
    traced: bool
    layered: bool
    signed: bool
    ratio: bool
    tie_breaker: str


class Rule(TypedDict):
    """What the edges of the graph are made of."""

    name: str
    title: str


class LabelledTokens(TypedDict):
    """Tokens; ``labels`` are the tokens without characters that break a layout.

    An unknown token is labelled by what the text has there. ``spans`` say where tokens start and
    end in the text, ``sentences`` are the tokens of each sentence of several.
    """

    tokens: list[str]
    labels: list[str]
    words: WordGroups | None
    segments: list[str] | None
    spans: list[list[int]] | None
    sentences: list[list[int]]


class View(LabelledTokens):
    """One input and its scores.

    ``columns`` name the steps, the input first; ``ends`` is the step at which each layer ends;
    ``key`` is the token that is traced at first. ``methods`` are those that can be shown, in order;
    a long input may leave out scores of some. ``blankable`` are the positions that can be blanked.
    ``ordinary`` are the positions of tokens that are not special: of these, all but the
    explained one set the top of the colour scale. ``head_methods`` are those whose scores of single
    heads can be had. ``edges`` are those of methods with layers, ``amounts`` those of the first
    method where they have a sign; it has no routes from ``sources``, where the answer is read.
    ``said`` is the prediction, made at position ``said_at``. ``findings`` say
    what each method found, ``agreement`` which of them agree. ``notes`` are what a reader must know
    about the model.
    """

    text: str
    answer: str | None
    model: str
    head: str
    methods: list[MethodDescription]
    rule: Rule
    causal: bool
    ordinary: list[int]
    blankable: list[int]
    grid: Grid | None
    image: str | None
    columns: list[str]
    ends: list[int]
    heads: int
    layer: int
    query: int
    key: int
    options: dict[str, Any]
    said: list[PredictedLabel]
    said_at: int | None
    replacement: str | None
    scores: list[PackedScores]
    head_scores: list[HeadScores]
    head_methods: list[str]
    edges: DrawnEdges | None
    amounts: DrawnEdges | None
    sources: list[int]
    traces: list[Trace]
    blanked: list[Blanked]
    findings: list[FoundByMethod]
    agreement: str
    notes: list[str]


@final
class Document(TypedDict):
    """One view, or two side by side; which method is shown first, and whether in words."""

    format: str
    library: str
    views: list[View]
    method: NotRequired[str]
    words: NotRequired[bool]


def pack(values: Any, dtype: str = "f4") -> Array:
    """An array as base64."""
    plain = np.ascontiguousarray(values, dtype="<" + dtype)
    return {
        "dtype": dtype,
        "shape": list(plain.shape),
        "data": base64.b64encode(plain.tobytes()).decode("ascii"),
    }
