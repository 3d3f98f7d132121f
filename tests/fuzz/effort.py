"""How much is tried: the same examples every time; with ATTNFLOW_FUZZ=20 others, 20 × as many.

What fails in a longer run is printed, to become a test of its own.
"""

import os

from hypothesis import HealthCheck, settings

TIMES = int(os.environ.get("ATTNFLOW_FUZZ", "0"))


def examples(count):
    """The settings of a test that tries so many examples."""
    return settings(
        max_examples=count * max(TIMES, 1),
        derandomize=not TIMES,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
