"""The endpoints of the JSON API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from attnflow.aggregation import AGGREGATORS, Measure
from attnflow.pipeline.config import check_single_heads
from attnflow.pipeline.session import Session
from attnflow.views.explorer.document import (
    can_show_heads,
    heads_of,
    make_document,
    make_view,
    predict_blanked,
    scores_of,
    to_json,
)
from attnflow.views.explorer.extent import SERVED
from attnflow.views.explorer.generation import GenerationDocument
from attnflow.views.explorer.schema import Document, HeadScores, Scores, Trace
from attnflow.views.explorer.server import requests
from attnflow.views.explorer.server.answers import answer_document
from attnflow.views.explorer.server.limits import ApiError, Job
from attnflow.views.explorer.server.memory import Shape
from attnflow.views.explorer.server.sessions import Cost, SessionCache
from attnflow.views.explorer.traces import trace_path

router = APIRouter(prefix="/api", responses=requests.ERRORS)
Work = Callable[[Session, str | None, Job], Any]


def _whole(shape: Shape) -> int:
    """Every method, single heads included."""
    return shape.merged + shape.single + shape.solving


def _first(shape: Shape) -> int:
    """A document: every method, and blanking as a check."""
    return _whole(shape) + shape.checking


def _merged(shape: Shape) -> int:
    return shape.merged + shape.solving


def _scoring(method: str) -> Cost:
    """What scores of a method take: graphs, or further runs of the model."""
    if isinstance(AGGREGATORS[method], Measure):
        return lambda shape: shape.measuring
    return _merged


async def respond(
    request: Request, body: requests.InputRequest, cost: Cost, work: Work
) -> Response:
    """The result of work on the session of a request, done off the event loop within ``cost``."""
    cache: SessionCache = request.app.state.sessions

    def run(job: Job) -> str:
        with cache.open(body, job, cost) as opened:
            return to_json(work(*opened, job))

    result = await request.app.state.workers.run(run, request.is_disconnected)
    return Response(result, media_type="application/json")


@router.post("/explain", response_model=Document)
async def explain(body: requests.InputRequest, request: Request) -> Response:
    """The document of one input; for long inputs, without the scores of slow methods."""
    return await respond(
        request,
        body,
        _first,
        lambda session, image, job: make_document(
            [make_view(session, SERVED, job.check, image)], session.config.method
        ),
    )


@router.post("/answer", response_model=GenerationDocument)
async def answer(body: requests.AnswerRequest, request: Request) -> Response:
    """A whole answer: where every token of it came from."""
    cache: SessionCache = request.app.state.sessions

    def run(job: Job) -> str:
        return to_json(answer_document(cache, body, job))

    result = await request.app.state.workers.run(run, request.is_disconnected)
    return Response(result, media_type="application/json")


@router.post("/scores", response_model=Scores)
async def scores(body: requests.ScoresRequest, request: Request) -> Response:
    """Scores of a position that the document left out."""
    return await respond(
        request,
        body,
        _scoring(body.method),
        lambda session, _, job: scores_of(
            session, body.method, body.layers, [body.query], job.check
        ),
    )


@router.post("/heads", response_model=HeadScores)
async def heads(body: requests.ScoresRequest, request: Request) -> Response:
    """Scores of single heads on top of the merged layers below."""
    return await respond(
        request,
        body,
        _whole,
        lambda session, _, job: _heads(session, body, job),
    )


def _heads(session: Session, body: requests.ScoresRequest, job: Job) -> HeadScores:
    check_single_heads(body.method)
    slow = AGGREGATORS[body.method].cost != "matrix"
    if slow and not can_show_heads(session, body.method) and session.config.rule.single_heads:
        msg = (
            f"{body.method} of single heads takes too long for {session.size} tokens; "
            "ask for another method, or a shorter text"
        )
        raise ApiError(413, "too-large", msg)
    return heads_of(session, body.method, body.layers, body.query, job.check)


@router.post("/trace", response_model=Trace)
async def trace(body: requests.TraceRequest, request: Request) -> Response:
    """How one score came about: edges, and for flow its routes and its bottleneck."""
    return await respond(
        request,
        body,
        _merged,
        lambda session, _, __: trace_path(session, body.method, body.layer, body.query, body.key),
    )


@router.post("/blank", response_model=requests.BlankResponse)
async def blank(body: requests.BlankRequest, request: Request) -> Response:
    """The predictions without sets of tokens."""
    most = request.app.state.sessions.limits.sets
    if len(body.sets) > most:
        msg = f"{len(body.sets)} sets of tokens; at most {most} in one request"
        raise ApiError(413, "too-large", msg)
    return await respond(
        request,
        body,
        lambda shape: shape.blanking(len(body.sets)),
        lambda session, _, job: {"blanked": predict_blanked(session, body.sets, job.check)},
    )
