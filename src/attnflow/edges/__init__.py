"""From what a model computed to weighted edges: one file per rule.

`build_graph` in `graph.py` makes the graph of any rule. To add a rule, write a file that defines an
`EdgeRule` as ``MEMBER`` and list it in `rule.py`; a rule of your own is registered from your own
module (docs/extending.md).
"""

from attnflow.edges.rule import EDGE_RULES, EdgeRule, Needs

__all__ = ["EDGE_RULES", "EdgeRule", "Needs"]
