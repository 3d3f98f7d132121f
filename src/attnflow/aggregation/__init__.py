"""From weighted edges to scores of input tokens: one file per method.

To add a method, write a file that defines an `Aggregator` as ``MEMBER`` and list it in
`aggregator.py`; a `Measure`, which runs the model again, is a file in `attnflow.measures`. A method
of your own is registered from your own module (docs/extending.md).
"""

from attnflow.aggregation.aggregator import (
    AGGREGATORS,
    Aggregator,
    Measure,
    Scores,
    find_aggregator,
    find_trace,
)

__all__ = ["AGGREGATORS", "Aggregator", "Measure", "Scores", "find_aggregator", "find_trace"]
