"""Where a Transformer's output came from: raw attention, attention rollout, attention flow.

Names load when they are first used, so that ``import attnflow`` (and ``attnflow --help``) is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from attnflow.version import VERSION

if TYPE_CHECKING:
    from attnflow.api.arrays import flow, raw, rollout, trace
    from attnflow.api.cite import cite
    from attnflow.api.explain import explain, explain_answer
    from attnflow.api.explore import explore
    from attnflow.api.knockout import knockout
    from attnflow.api.routes import routes
    from attnflow.api.run import run
    from attnflow.api.similarity import similarity
    from attnflow.api.steps import steps
    from attnflow.edges import EDGE_RULES, EdgeRule, Needs
    from attnflow.evaluation.agreement import agreement
    from attnflow.evaluation.evaluate import evaluate
    from attnflow.evaluation.fit import fit
    from attnflow.evaluation.importance import blank_out, gradients
    from attnflow.evaluation.metrics import METRICS, Metric
    from attnflow.evaluation.result import Evaluation
    from attnflow.methods import METHODS, Method, Scores
    from attnflow.models.loading import load_model
    from attnflow.records import Attribution, FlowTrace
    from attnflow.records.citations import Citations
    from attnflow.records.generation import Generation
    from attnflow.records.knockout import Edges, Knockout
    from attnflow.records.learned import LearnedHeads
    from attnflow.records.reasoning import Reasoning
    from attnflow.records.similarity import Similarity
    from attnflow.runs.reading import Run, read_run
    from attnflow.views.explorer.exploration import Exploration

__version__ = VERSION

_MODULES = {
    "METHODS": "attnflow.methods",
    "Method": "attnflow.methods",
    "Attribution": "attnflow.records",
    "Citations": "attnflow.records.citations",
    "EDGE_RULES": "attnflow.edges",
    "EdgeRule": "attnflow.edges",
    "Edges": "attnflow.records.knockout",
    "Evaluation": "attnflow.evaluation.result",
    "Exploration": "attnflow.views.explorer.exploration",
    "FlowTrace": "attnflow.records",
    "Generation": "attnflow.records.generation",
    "Knockout": "attnflow.records.knockout",
    "METRICS": "attnflow.evaluation.metrics",
    "Metric": "attnflow.evaluation.metrics",
    "LearnedHeads": "attnflow.records.learned",
    "Needs": "attnflow.edges",
    "Reasoning": "attnflow.records.reasoning",
    "Run": "attnflow.runs.reading",
    "Scores": "attnflow.methods",
    "Similarity": "attnflow.records.similarity",
    "agreement": "attnflow.evaluation.agreement",
    "blank_out": "attnflow.evaluation.importance",
    "cite": "attnflow.api.cite",
    "evaluate": "attnflow.evaluation.evaluate",
    "explain": "attnflow.api.explain",
    "explain_answer": "attnflow.api.explain",
    "explore": "attnflow.api.explore",
    "fit": "attnflow.evaluation.fit",
    "flow": "attnflow.api.arrays",
    "gradients": "attnflow.evaluation.importance",
    "knockout": "attnflow.api.knockout",
    "load_model": "attnflow.models.loading",
    "raw": "attnflow.api.arrays",
    "read_run": "attnflow.runs.reading",
    "rollout": "attnflow.api.arrays",
    "routes": "attnflow.api.routes",
    "run": "attnflow.api.run",
    "similarity": "attnflow.api.similarity",
    "steps": "attnflow.api.steps",
    "trace": "attnflow.api.arrays",
}

__all__ = [
    "EDGE_RULES",
    "METHODS",
    "METRICS",
    "Attribution",
    "Citations",
    "EdgeRule",
    "Edges",
    "Evaluation",
    "Exploration",
    "FlowTrace",
    "Generation",
    "Knockout",
    "LearnedHeads",
    "Method",
    "Metric",
    "Needs",
    "Reasoning",
    "Run",
    "Scores",
    "Similarity",
    "__version__",
    "agreement",
    "blank_out",
    "cite",
    "evaluate",
    "explain",
    "explain_answer",
    "explore",
    "fit",
    "flow",
    "gradients",
    "knockout",
    "load_model",
    "raw",
    "read_run",
    "rollout",
    "routes",
    "run",
    "similarity",
    "steps",
    "trace",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        msg = f"module 'attnflow' has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
