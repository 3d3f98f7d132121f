"""Sessions as the explorer opens them."""

from attnflow.pipeline.config import ExplainConfig
from attnflow.pipeline.sessions import open_session


def opened(item, adapter, **options):
    """The session of one input, with all heads."""
    return open_session(item, adapter, ExplainConfig(**options), all_heads=True)
