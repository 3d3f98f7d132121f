"""Whole answers over HTTP: written or given, explained in pieces, within the limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnflow.edges import EDGE_RULES
from attnflow.models.answers.interface import answers_of
from attnflow.models.answers.prompts import make_prompt
from attnflow.models.text.writing import Writing
from attnflow.pipeline.generation import AnswerConfig, explain_answer
from attnflow.pipeline.request import AUTO, Request
from attnflow.views.explorer.generation import GenerationDocument, generation_document
from attnflow.views.explorer.server.memory import Shape

if TYPE_CHECKING:
    from attnflow.views.explorer.server.limits import Job
    from attnflow.views.explorer.server.requests import AnswerRequest
    from attnflow.views.explorer.server.sessions import SessionCache


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
