"""The endpoints of the JSON API."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from attnflow.edges import EDGE_RULES
from attnflow.errors import shown
from attnflow.methods import METHODS
from attnflow.models.answers.interface import answers_of
from attnflow.models.answers.prompts import make_prompt
from attnflow.models.text.writing import Writing
from attnflow.pipeline.generation import AnswerConfig, explain_answer
from attnflow.pipeline.knockouts import RUNS
from attnflow.pipeline.request import AUTO, Request
from attnflow.pipeline.session import Session
from attnflow.views.explorer.document import (
    SERVED,
    first_method,
    heads_of,
    knocked_out,
    make_document,
    make_view,
    predict_blanked,
    scores_of,
    to_json,
    trace_path,
)
from attnflow.views.explorer.generation import GenerationDocument, generation_document
from attnflow.views.explorer.schema import (
    Blanked,
    Document,
    HeadScores,
    KnockedOut,
    PackedScores,
    Trace,
)
from attnflow.views.explorer.server import requests
from attnflow.views.explorer.server.bodies import read_body
from attnflow.views.explorer.server.checks import check_heads_work
from attnflow.views.explorer.server.guard import client_of
from attnflow.views.explorer.server.limits import ApiError, Job
from attnflow.views.explorer.server.memory import Shape
from attnflow.views.explorer.server.sessions import Cost, SessionCache

if TYPE_CHECKING:
    from attnflow.views.explorer.server.limits import Job
    from attnflow.views.explorer.server.requests import AnswerRequest
    from attnflow.views.explorer.server.sessions import SessionCache


Task = Callable[[SessionCache, Job], Any]
Work = Callable[[Session, str | None, Job], Any]


class WorkerRoute(APIRoute):
    """An endpoint that gets a checked body and returns what is to be done for it.

    Both run in a worker: FastAPI itself would read and check bodies on the event loop.
    """

    def get_route_handler(self) -> Callable[[HttpRequest], Coroutine[Any, Any, Response]]:
        """What answers a request."""
        body = inspect.signature(self.endpoint, eval_str=True).parameters["body"].annotation

        async def handle(request: HttpRequest) -> Response:
            kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != JSON:  # other sites could send a form without asking first
                raise ApiError(422, "invalid", f"content type {shown(kind)}; send {JSON}")
            content, state = await request.body(), request.app.state

            def work(job: Job) -> str:
                task: Task = self.endpoint(read_body(content, body, state.sessions.limits))
                return to_json(task(state.sessions, job))

            async def leaves() -> None:
                while (await request.receive())["type"] != "http.disconnect":
                    pass

            result = await state.workers.run(work, client_of(request), leaves)
            return Response(result, media_type=JSON)

        return handle


JSON = "application/json"
router = APIRouter(prefix="/api", responses=requests.ERRORS, route_class=WorkerRoute)


def _whole(shape: Shape) -> int:
    """Every method, single heads included."""
    return shape.merged + shape.single + shape.solving


def _first(shape: Shape) -> int:
    """A document: every method, another forward pass for some, and blanking as a check."""
    return _whole(shape) + shape.beside + shape.checking


def _merged(shape: Shape) -> int:
    return shape.merged + shape.solving


def _scoring(method: str) -> Cost:
    """What scores of a method take: graphs, or further runs of the model."""
    if not METHODS[method].reads_edges:
        return lambda shape: shape.measuring
    return _merged


def on_session(body: requests.InputRequest, cost: Cost, work: Work) -> Task:
    """Work on the session of a request's input, within the memory that it costs."""

    def run(cache: SessionCache, job: Job) -> Any:
        with cache.open(body, job, cost) as opened:
            return work(*opened, job)

    return run


@router.post("/explain", response_model=Document)
def explain(body: requests.InputRequest) -> Task:
    """The document of one input; for long inputs, without the scores of slow methods."""

    def work(session: Session, image: str | None, job: Job) -> Document:
        return make_document([make_view(session, SERVED, job.check, image)], first_method(session))

    return on_session(body, _first, work)


@router.post("/answer", response_model=GenerationDocument)
def answer(body: requests.AnswerRequest) -> Task:
    """A whole answer: where each sentence of it came from, or each token."""
    return lambda cache, job: answer_document(cache, body, job)


@router.post("/scores", response_model=PackedScores)
def scores(body: requests.ScoresRequest) -> Task:
    """Scores of a position that the document left out."""

    def work(session: Session, _: str | None, job: Job) -> PackedScores:
        return scores_of(session, body.method, body.layers, [body.query], job.check)

    return on_session(body, _scoring(body.method), work)


@router.post("/heads", response_model=HeadScores)
def heads(body: requests.HeadsRequest) -> Task:
    """Scores of single heads on top of the merged layers below."""

    def work(session: Session, _: str | None, job: Job) -> HeadScores:
        check_heads_work(body.method, session.heads, len(session.maps), session.size)
        return heads_of(session, body.method, body.layers, body.query, job.check)

    return on_session(body, _whole, work)


@router.post("/trace", response_model=Trace)
def trace(body: requests.TraceRequest) -> Task:
    """How one score came about: edges, and for flow its routes and its bottleneck."""

    def work(session: Session, _: str | None, __: Job) -> Trace:
        place = body.layer, body.query, body.key
        return trace_path(session, body.method, *place, verify=body.verify)

    def cost(shape: Shape) -> int:
        return _merged(shape) + (shape.blanking(RUNS) if body.verify else 0)

    return on_session(body, cost, work)


@router.post("/knockout", response_model=KnockedOut)
def knockout(body: requests.KnockoutRequest) -> Task:
    """What the model says without edges of attention, and without as many random ones."""

    def work(session: Session, _: str | None, __: Job) -> KnockedOut:
        return knocked_out(session, [block.edges for block in body.without], body.random)

    return on_session(body, lambda shape: shape.blanking(RUNS + body.random), work)


@router.post("/blank", response_model=requests.BlankResponse)
def blank(body: requests.BlankRequest) -> Task:
    """The predictions without sets of tokens."""

    def work(session: Session, _: str | None, job: Job) -> dict[str, list[Blanked]]:
        return {"blanked": predict_blanked(session, body.sets, job.check)}

    return on_session(body, lambda shape: shape.blanking(len(body.sets)), work)


def answer_document(cache: SessionCache, body: AnswerRequest, job: Job) -> GenerationDocument:
    """The document of an answer; its prompt and length are checked before the model runs."""
    adapter = cache.models[cache.check(body)]
    answers = answers_of(adapter)
    config = Request(**body.options, threads=cache.threads)
    prompt = make_prompt(body.text, answers.tokenizer, adapter.name, body.parts)
    tokens = answers.read(prompt.text, special=prompt.special)
    # A given answer has at most as many tokens as bytes.
    written = body.generate if body.answer is None else len(body.answer.encode())
    cache.check_size(len(tokens) + written)
    rule = EDGE_RULES["gradient"] if config.edges == AUTO else config.rule  # the more expensive one
    shape = Shape(adapter, rule, len(tokens) + written, config.threads or 1)
    asked = AnswerConfig(Writing(body.generate, body.answer, check=job.check), each=body.each)
    with cache.memory.reserve(shape.forward + shape.merged + shape.solving, job):
        found = explain_answer(prompt, answers, config, asked, lambda _: job.check())
    return generation_document(found)
