"""`attnflow bench`: attention flow against other libraries, in one run on one machine."""

from attnflow_experiments.bench.report import run

__all__ = ["run"]
