"""The questions that the page asks, one path each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from attnflow.page import requests as asked
from attnflow.page.blanking import blank
from attnflow.page.desk import Desk
from attnflow.page.document import SERVED, document, heads_of, scores_of, to_json, view_of
from attnflow.page.limits import Job, Refusal
from attnflow.page.paths import trace_path
from attnflow.page.schema import Document, HeadScores, Scores, Trace
from attnflow.page.study import Study

router = APIRouter(prefix="/api", responses=asked.ERRORS)
Work = Callable[[Study, str | None, Job], Any]


async def answer(request: Request, body: asked.Asked, work: Work) -> Response:
    """Do the work on the study that a body asks about, away from the event loop."""
    desk: Desk = request.app.state.desk

    def run(job: Job) -> str:
        return to_json(work(*desk.open(body, job), job))

    result = await request.app.state.workers.run(run, request.is_disconnected)
    return Response(result, media_type="application/json")


@router.post("/explain", response_model=Document)
async def explain(body: asked.Asked, request: Request) -> Response:
    """The document of one input; flow is left out of long ones: ask for it layer by layer."""
    return await answer(
        request,
        body,
        lambda made, image, job: document([view_of(made, SERVED, job.check, image)]),
    )


@router.post("/scores", response_model=Scores)
async def scores(body: asked.AskedScores, request: Request) -> Response:
    """Scores of a position that the document left out."""
    return await answer(
        request,
        body,
        lambda made, _, job: scores_of(made, body.method, body.layers, [body.query], job.check),
    )


@router.post("/heads", response_model=HeadScores)
async def heads(body: asked.AskedScores, request: Request) -> Response:
    """Scores of single heads on top of the merged layers below."""
    return await answer(
        request,
        body,
        lambda made, _, job: heads_of(made, body.method, body.layers, body.query, job.check),
    )


@router.post("/trace", response_model=Trace)
async def trace(body: asked.AskedTrace, request: Request) -> Response:
    """How one score came about: edges, and for flow its routes and its bottleneck."""
    return await answer(
        request,
        body,
        lambda made, _, __: trace_path(made, body.method, body.layer, body.query, body.key),
    )


@router.post("/blank", response_model=asked.BlankedAnswer)
async def blanked(body: asked.AskedBlank, request: Request) -> Response:
    """What the model says without tokens."""
    most = request.app.state.desk.limits.sets
    if len(body.sets) > most:
        msg = f"{len(body.sets)} sets of tokens; at most {most} in one request"
        raise Refusal(413, "too-large", msg)
    return await answer(
        request, body, lambda made, _, job: {"blanked": blank(made, body.sets, job.check)}
    )
