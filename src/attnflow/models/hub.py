"""Manners towards the model hub: asked once, briefly, before transformers asks it many times."""

from __future__ import annotations

import threading
import time
from typing import Any

SECONDS = 3.0
"""That the hub has to answer; transformers alone would try for half a minute."""
REMEMBERED = 60.0
"""Seconds for which an answer holds."""
GATEWAY = (502, 503, 504)
"""What a gateway answers for a hub that it can't reach; transformers would ask again and again."""
_answer: tuple[float, bool] | None = None


def is_offline() -> bool:
    """Whether the hub is switched off by ``HF_HUB_OFFLINE``."""
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def is_unavailable() -> bool:
    """Whether models must be found on this machine: the hub is not wanted, or does not answer."""
    global _answer
    if is_offline():
        return True
    if _answer is None or time.monotonic() - _answer[0] > REMEMBERED:
        _answer = time.monotonic(), not is_reachable()
    return _answer[1]


def is_cached(name: str, revision: str | None = None) -> bool:
    """Whether a model's configuration is on this machine, or may be: a name can be no name."""
    from huggingface_hub import try_to_load_from_cache

    try:
        found = try_to_load_from_cache(name, "config.json", revision=revision)
    except ValueError:
        return True
    return isinstance(found, str)


def is_reachable(seconds: float = SECONDS) -> bool:
    """Whether the hub answers within some seconds, whatever it says; a gateway is not the hub."""
    answered = threading.Event()

    def ask() -> None:
        from huggingface_hub import constants, get_session

        session: Any = get_session()
        try:
            answer = session.head(constants.ENDPOINT, timeout=seconds)
        except Exception:  # noqa: BLE001 - whatever the reason, it was not reached
            return
        if answer.status_code not in GATEWAY:
            answered.set()

    # In a thread of its own: looking up a host's name knows no time limit.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    return answered.is_set()
