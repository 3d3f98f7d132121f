"""Where a Transformer's output came from: raw attention, attention rollout, attention flow.

Names load when they are first used, so that ``import attnflow`` (and ``attnflow --help``) is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnflow.api.arrays import flow, raw, rollout
    from attnflow.api.explain import explain
    from attnflow.api.explore import Exploration, explore
    from attnflow.api.routes import Routes, routes
    from attnflow.api.trace import FlowTrace, trace
    from attnflow.evaluation.agreement import agreement
    from attnflow.evaluation.blank_out import blank_out
    from attnflow.evaluation.gradients import gradients
    from attnflow.models.loading import load_model
    from attnflow.records import Attribution

__version__ = "0.1.0"

_HOME = {
    "explain": "attnflow.api.explain",
    "agreement": "attnflow.evaluation.agreement",
    "blank_out": "attnflow.evaluation.blank_out",
    "gradients": "attnflow.evaluation.gradients",
    "explore": "attnflow.api.explore",
    "Exploration": "attnflow.api.explore",
    "load_model": "attnflow.models.loading",
    "Attribution": "attnflow.records",
    "raw": "attnflow.api.arrays",
    "rollout": "attnflow.api.arrays",
    "flow": "attnflow.api.arrays",
    "routes": "attnflow.api.routes",
    "Routes": "attnflow.api.routes",
    "trace": "attnflow.api.trace",
    "FlowTrace": "attnflow.api.trace",
}

__all__ = [
    "Attribution",
    "Exploration",
    "FlowTrace",
    "Routes",
    "__version__",
    "agreement",
    "blank_out",
    "explain",
    "explore",
    "flow",
    "gradients",
    "load_model",
    "raw",
    "rollout",
    "routes",
    "trace",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        msg = f"module 'attnflow' has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
