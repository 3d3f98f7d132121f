"""What was found out about a network, kept as long as the network lives."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

Found = TypeVar("Found")
_known: WeakKeyDictionary[Any, dict[Hashable, Any]] = WeakKeyDictionary()
_lock = threading.Lock()


def once(network: Any, key: Hashable, find_out: Callable[[], Found]) -> Found:
    """What ``find_out`` returns, called once for a network and a key.

    Two threads that ask at the same time may both find out: they find the same.
    """
    with _lock:
        known = _known.setdefault(network, {})
    if key not in known:
        known[key] = find_out()
    found: Found = known[key]
    return found
