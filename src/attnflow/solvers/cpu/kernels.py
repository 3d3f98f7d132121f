"""How the functions that are called for every pair are compiled."""

from __future__ import annotations

from typing import Any

from numba.core.options import DefaultOptions

KERNEL: dict[str, Any] = {"cache": True, "nogil": True}
"""They allocate nothing and keep nothing, so their arrays need no counting of references.

The atomic instructions that count, some fifty in every call with a network, would take a sixth of
the time.
"""
if hasattr(DefaultOptions, "_nrt"):
    KERNEL["_nrt"] = False
