"""The questions that the page asks, one path each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from attnflow.pipeline.session import Session
from attnflow.views.explorer.blanking import blank
from attnflow.views.explorer.document import SERVED, document, heads_of, scores_of, to_json, view_of
from attnflow.views.explorer.schema import Document, HeadScores, Scores, Trace
from attnflow.views.explorer.server import requests as asked
from attnflow.views.explorer.server.limits import ApiError, Job
from attnflow.views.explorer.server.sessions import SessionCache
from attnflow.views.explorer.traces import trace_path

router = APIRouter(prefix="/api", responses=asked.ERRORS)
Work = Callable[[Session, str | None, Job], Any]


async def answer(request: Request, body: asked.InputRequest, work: Work) -> Response:
    """Do the work on the study that a body asks about, away from the event loop."""
    desk: SessionCache = request.app.state.desk

    def run(job: Job) -> str:
        return to_json(work(*desk.open(body, job), job))

    result = await request.app.state.workers.run(run, request.is_disconnected)
    return Response(result, media_type="application/json")


@router.post("/explain", response_model=Document)
async def explain(body: asked.InputRequest, request: Request) -> Response:
    """The document of one input; flow is left out of long ones: ask for it layer by layer."""
    return await answer(
        request,
        body,
        lambda made, image, job: document([view_of(made, SERVED, job.check, image)]),
    )


@router.post("/scores", response_model=Scores)
async def scores(body: asked.ScoresRequest, request: Request) -> Response:
    """Scores of a position that the document left out."""
    return await answer(
        request,
        body,
        lambda made, _, job: scores_of(made, body.method, body.layers, [body.query], job.check),
    )


@router.post("/heads", response_model=HeadScores)
async def heads(body: asked.ScoresRequest, request: Request) -> Response:
    """Scores of single heads on top of the merged layers below."""
    return await answer(
        request,
        body,
        lambda made, _, job: heads_of(made, body.method, body.layers, body.query, job.check),
    )


@router.post("/trace", response_model=Trace)
async def trace(body: asked.TraceRequest, request: Request) -> Response:
    """How one score came about: edges, and for flow its routes and its bottleneck."""
    return await answer(
        request,
        body,
        lambda made, _, __: trace_path(made, body.method, body.layer, body.query, body.key),
    )


@router.post("/blank", response_model=asked.BlankResponse)
async def blanked(body: asked.BlankRequest, request: Request) -> Response:
    """What the model says without tokens."""
    most = request.app.state.desk.limits.sets
    if len(body.sets) > most:
        msg = f"{len(body.sets)} sets of tokens; at most {most} in one request"
        raise ApiError(413, "too-large", msg)
    return await answer(
        request, body, lambda made, _, job: {"blanked": blank(made, body.sets, job.check)}
    )
