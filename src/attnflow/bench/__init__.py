"""`attnflow bench`: flow against its opponents, in one run on one machine."""

from attnflow.bench.report import run

__all__ = ["run"]
