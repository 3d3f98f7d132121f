"""The requests that the page makes, one path each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from attnflow.pipeline.session import Session
from attnflow.views.explorer.document import (
    SERVED,
    blank,
    document,
    heads_of,
    scores_of,
    to_json,
    view_of,
)
from attnflow.views.explorer.schema import Document, HeadScores, Scores, Trace
from attnflow.views.explorer.server import requests
from attnflow.views.explorer.server.limits import ApiError, Job
from attnflow.views.explorer.server.sessions import SessionCache
from attnflow.views.explorer.traces import trace_path

router = APIRouter(prefix="/api", responses=requests.ERRORS)
Work = Callable[[Session, str | None, Job], Any]


async def answer(request: Request, body: requests.InputRequest, work: Work) -> Response:
    """Do the work on the session of a request, away from the event loop."""
    cache: SessionCache = request.app.state.sessions

    def run(job: Job) -> str:
        return to_json(work(*cache.open(body, job), job))

    result = await request.app.state.workers.run(run, request.is_disconnected)
    return Response(result, media_type="application/json")


@router.post("/explain", response_model=Document)
async def explain(body: requests.InputRequest, request: Request) -> Response:
    """The document of one input; methods that take long are left out of long ones."""
    return await answer(
        request,
        body,
        lambda session, image, job: document(
            [view_of(session, SERVED, job.check, image)], session.config.method
        ),
    )


@router.post("/scores", response_model=Scores)
async def scores(body: requests.ScoresRequest, request: Request) -> Response:
    """Scores of a position that the document left out."""
    return await answer(
        request,
        body,
        lambda session, _, job: scores_of(
            session, body.method, body.layers, [body.query], job.check
        ),
    )


@router.post("/heads", response_model=HeadScores)
async def heads(body: requests.ScoresRequest, request: Request) -> Response:
    """Scores of single heads on top of the merged layers below."""
    return await answer(
        request,
        body,
        lambda session, _, job: heads_of(session, body.method, body.layers, body.query, job.check),
    )


@router.post("/trace", response_model=Trace)
async def trace(body: requests.TraceRequest, request: Request) -> Response:
    """How one score came about: edges, and for flow its routes and its bottleneck."""
    return await answer(
        request,
        body,
        lambda session, _, __: trace_path(session, body.method, body.layer, body.query, body.key),
    )


@router.post("/blank", response_model=requests.BlankResponse)
async def blanked(body: requests.BlankRequest, request: Request) -> Response:
    """What the model says without tokens."""
    most = request.app.state.sessions.limits.sets
    if len(body.sets) > most:
        msg = f"{len(body.sets)} sets of tokens; at most {most} in one request"
        raise ApiError(413, "too-large", msg)
    return await answer(
        request, body, lambda session, _, job: {"blanked": blank(session, body.sets, job.check)}
    )
