"""From weighted edges to scores of input tokens: one file a method, one signature.

A method takes a `LayeredGraph`, a `Selection` and `Execution` and returns an `Scores`. A new method is
a file with such a function and a line in `METHODS`.
"""

from attnflow.aggregation.flow import flow
from attnflow.aggregation.raw import raw
from attnflow.aggregation.rollout import rollout
from attnflow.aggregation.scores import Execution, Method, Scores

METHODS: dict[str, Method] = {"raw": raw, "rollout": rollout, "flow": flow}

__all__ = ["METHODS", "Execution", "Method", "Scores", "flow", "raw", "rollout"]
