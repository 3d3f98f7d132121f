"""From weighted edges to scores of input tokens: one file per method.

To add a method, write a file with an `Aggregator` and register it here; a method of your own is
registered from your own module (docs/extending.md).
"""

from attnflow.aggregation import flow, raw, rollout
from attnflow.aggregation.aggregator import AGGREGATORS, Aggregator, Scores

for _module in (raw, rollout, flow):
    AGGREGATORS.register(_module.AGGREGATOR)

__all__ = ["AGGREGATORS", "Aggregator", "Scores"]
