"""The explorer over HTTP: the page, and its JSON API."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi import Request as HttpRequest
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, JSONResponse
from starlette.staticfiles import StaticFiles

from attnflow.edges import EDGE_RULES
from attnflow.errors import AttnflowError, InputError, ModelError
from attnflow.pipeline.prepare import open_session
from attnflow.pipeline.request import AUTO, Request
from attnflow.solvers.execution import cores
from attnflow.version import VERSION
from attnflow.views.explorer.document import SERVED, make_view
from attnflow.views.explorer.parts import describe_rule, model_name
from attnflow.views.explorer.render import read_static
from attnflow.views.explorer.schema import Rule
from attnflow.views.explorer.server import requests
from attnflow.views.explorer.server.access import Access, new_token, visitor_name
from attnflow.views.explorer.server.bodies import most_bytes
from attnflow.views.explorer.server.connections import make_server
from attnflow.views.explorer.server.guard import Guard, client_of, error_response, port_of
from attnflow.views.explorer.server.limits import ApiError, Limits
from attnflow.views.explorer.server.routes import router
from attnflow.views.explorer.server.sessions import EXAMPLE, EXAMPLES, SessionCache, distinct_names
from attnflow.views.explorer.server.texts import add_texts
from attnflow.views.explorer.server.workers import Workers

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter
    from attnflow.views.explorer.listing import Listing

log = logging.getLogger("attnflow")


def make_app(
    models: Mapping[str, ModelAdapter],
    limits: Limits | None = None,
    access: Access | None = None,
    listing: Listing | None = None,
) -> FastAPI:
    """The server for these models, and no others: a request can name only what is listed here.

    ``access`` says under which names it answers, and whether it asks for a token. ``listing`` has
    the texts of a run of the first model, which are listed at /run.
    """
    limits = limits or Limits()
    access = access or Access()
    sessions = SessionCache(models, limits, _threads(limits))
    workers = Workers(limits)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        workers.close()

    app = FastAPI(
        title="attnflow explorer",
        version=VERSION,
        description="Where a Transformer's output came from: raw attention, rollout and flow.",
        openapi_url="/api/openapi.json",
        docs_url=None,  # that page would be fetched from a CDN
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.sessions, app.state.workers = sessions, workers
    images = any(not adapter.reads_text for adapter in sessions.models.values())
    most = most_bytes(limits, images=images)
    app.add_middleware(Guard, access=access, limits=limits, most=most)
    _add_error_handlers(app)
    _add_pages(app, sessions, workers, listed=listing is not None)
    if listing is not None:
        add_texts(app, listing, next(iter(models)))
    app.include_router(router)
    return app


def _add_pages(app: FastAPI, sessions: SessionCache, workers: Workers, *, listed: bool) -> None:
    @app.get("/", include_in_schema=False)
    async def page(request: HttpRequest) -> HTMLResponse:
        html = read_static("index.html").replace('<meta name="policy" />\n', "")
        response = HTMLResponse(html)
        if not client_of(request).visitor:
            name = visitor_name(port_of(request.scope))
            response.set_cookie(name, new_token(), httponly=True, samesite="lax")
        return response

    @app.get("/health")
    async def health() -> requests.Health:
        """Whether the server is up, and how many requests are pending."""
        return requests.Health(status="ok", version=VERSION, pending=workers.pending)

    @app.get("/api/models")
    async def models() -> requests.Models:
        """The models that requests can name."""
        descriptions = [requests.Model(**each) for each in sessions.describe_models()]
        example = EXAMPLES.get(descriptions[0].name, EXAMPLE)
        best: Rule = {"name": AUTO, "title": "Best for the model"}
        rules = [best, *map(describe_rule, EDGE_RULES)]
        options = requests.form_options()
        return requests.Models(
            models=descriptions, rules=rules, options=options, example=example, run=listed
        )

    folder = str(files("attnflow.views.explorer") / "static")
    app.mount("/static", StaticFiles(directory=folder), name="static")


def _add_error_handlers(app: FastAPI) -> None:
    @app.exception_handler(RequestValidationError)
    async def on_invalid_request(_: HttpRequest, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]  # of the query of /run
        place = ".".join(map(str, first["loc"]))
        return error_response(422, "invalid", f"{place}: {first['msg']}")

    @app.exception_handler(ApiError)
    async def on_api_error(_: HttpRequest, error: ApiError) -> JSONResponse:
        return error_response(error.status, error.code, str(error), error.retry_after)

    @app.exception_handler(InputError)
    @app.exception_handler(ModelError)
    async def on_input_error(_: HttpRequest, error: InputError | ModelError) -> JSONResponse:
        return error_response(422, "invalid", _for_pages(str(error)))

    @app.exception_handler(ClientDisconnect)
    async def on_leaving(_: HttpRequest, error: ClientDisconnect) -> JSONResponse:
        return error_response(400, "invalid", "the connection ended before the body did")

    @app.exception_handler(HTTPException)
    async def on_http_error(_: HttpRequest, error: HTTPException) -> JSONResponse:
        codes = {404: "not-found", 408: "slow", 413: "too-large", 429: "busy", 503: "busy"}
        code = codes.get(error.status_code, "invalid")
        response = error_response(error.status_code, code, str(error.detail))
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(AttnflowError)
    async def on_attnflow_error(_: HttpRequest, error: AttnflowError) -> JSONResponse:
        return error_response(500, "failed", str(error))

    @app.exception_handler(Exception)
    async def on_other_error(_: HttpRequest, error: Exception) -> JSONResponse:
        return error_response(
            500, "failed", "the model failed on this input; the server's log has details"
        )


def _for_pages(message: str) -> str:
    """A message without advice that only the library and the command line can follow."""
    return re.sub(r", or [^.;]*truncate=True \(--truncate\)", "", message)


def serve(  # noqa: PLR0913 - what a server is started with
    sources: Sequence[Any],
    host: str = "127.0.0.1",
    port: int = 8000,
    limits: Limits | None = None,
    access: Access | None = None,
    listing: Listing | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Load the models and serve until interrupted; running requests get some time to finish.

    ``access`` is by default this machine alone. ``ready`` is called when the models are loaded,
    just before the server listens.
    """
    import torch

    from attnflow.models.loading import load_model

    limits = limits or Limits()
    torch.set_num_threads(_threads(limits))  # more threads would wait for each other at every layer
    adapters = [load_model(source) for source in sources or [None]]
    for each in adapters:
        if each.reads_sound:
            msg = (
                f"{each.name} reads sounds, and the page has no field for sounds; use "
                "attnflow explain SOUND.wav --html FILE, or attnflow.explore"
            )
            raise ModelError(msg)
    names = distinct_names([model_name(each.name) for each in adapters])
    app = make_app(dict(zip(names, adapters, strict=True)), limits, access, listing)
    warm_up(adapters)
    ready()
    make_server(app, host, port, limits).run()


def _threads(limits: Limits) -> int:
    """How many threads one request may use: each worker has its share of the cores."""
    return max(1, cores() // limits.workers)


def warm_up(adapters: Sequence[ModelAdapter]) -> None:
    """Compile and load everything now, so that the first visitor does not wait."""
    for adapter in adapters:
        if adapter.reads_text:
            item = (EXAMPLE, EXAMPLE) if adapter.finds_spans else EXAMPLE
            make_view(open_session(item, adapter, Request(), all_heads=True), SERVED)
