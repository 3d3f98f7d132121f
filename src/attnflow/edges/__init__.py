"""From what a model computed to weighted edges: one file per rule.

`build_graph` makes the graph of any rule. To add a rule, write a file with an `EdgeRule` and
register it here; a rule of your own is registered from your own module (docs/extending.md).
"""

from attnflow.edges import attention
from attnflow.edges.rule import EDGE_RULES, EdgeRule, Needs

for _module in (attention,):
    EDGE_RULES.register(_module.RULE)

__all__ = ["EDGE_RULES", "EdgeRule", "Needs"]
