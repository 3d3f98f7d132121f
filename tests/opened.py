"""Sessions as the explorer opens them."""

from attnflow.pipeline.prepare import open_session
from attnflow.pipeline.request import Request


def opened(item, adapter, **options):
    """The session of one input, with all heads; by default of the paper's flow."""
    chosen = {"method": "flow", "edges": "attention", **options}
    return open_session(item, adapter, Request(**chosen), all_heads=True)
