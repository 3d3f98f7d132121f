"""From an attention record to weighted edges: one file a rule, one signature.

A rule takes an `Activations` and `EdgeOptions` and returns a `LayeredGraph`. A new rule is a
file with such a function and a line in `EDGES`.
"""

from collections.abc import Callable

from attnflow.edges.attention import attention_edges
from attnflow.edges.options import EdgeOptions
from attnflow.records import Activations, LayeredGraph

Edges = Callable[[Activations, EdgeOptions], LayeredGraph]

EDGES: dict[str, Edges] = {"attention": attention_edges}

__all__ = ["EDGES", "EdgeOptions", "Edges", "attention_edges"]
