"""From weighted edges to scores of input tokens: one file a method, one signature.

A method takes a `LayeredGraph`, a `Question` and `Effort` and returns an `Answer`. A new method is
a file with such a function and a line in `METHODS`.
"""

from attnflow.methods.answer import Answer, Effort, Method
from attnflow.methods.flow import flow
from attnflow.methods.raw import raw
from attnflow.methods.rollout import rollout

METHODS: dict[str, Method] = {"raw": raw, "rollout": rollout, "flow": flow}

__all__ = ["METHODS", "Answer", "Effort", "Method", "flow", "raw", "rollout"]
