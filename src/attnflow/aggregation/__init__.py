"""From weighted edges to scores of input tokens: one file per method.

To add a method, write a file that defines an `Aggregator` as ``MEMBER`` and list it in
`aggregator.py`; a method of your own is registered from your own module (docs/extending.md).
"""

from attnflow.aggregation.aggregator import AGGREGATORS, Aggregator, Scores

__all__ = ["AGGREGATORS", "Aggregator", "Scores"]
