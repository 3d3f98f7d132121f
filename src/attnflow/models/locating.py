"""Where a model's files are, by its name: on this machine or on the hub.

The hub is tried once, and briefly, before transformers tries it many times.
"""

from __future__ import annotations

import re
import threading
import time
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attnflow.errors import ModelError
from attnflow.shipped import NAMES, OWNER, find_shipped

ADAPTER = "adapter_config.json"
NEAR = 0.7
"""So alike, of 1, a name is probably a shipped model's, misspelt."""
OTHERWISE = f"give a folder, or a model shipped with attnflow: {', '.join(NAMES)}"


def locate(source: str) -> tuple[str, dict[str, str]]:
    """The folder or hub name, and the GGUF file in it where that is what holds the weights."""
    path = Path(source).expanduser()
    if not exists(path):
        if path.is_absolute() or source.startswith("."):
            msg = (
                f"{source!r} does not exist; give a folder with a config.json, a GGUF file, or a "
                "name on the hub such as bert-base-uncased"
            )
            raise ModelError(msg)
        refuse_near_shipped(source)
        return source, {}
    if path.suffix == ".gguf" and path.is_file():
        return str(path.parent), {"gguf_file": path.name}
    whole = (path / "config.json").exists()
    # Without peft, transformers would load such a folder's model and ignore the adapter.
    if exists(path / ADAPTER) and not (whole and find_spec("peft")):
        msg = (
            f"{source!r} holds an adapter, to be loaded with the model that it belongs to: install "
            f"peft, load both with AutoModelFor….from_pretrained({source!r}) of transformers, and "
            "give (model, tokenizer)"
        )
        raise ModelError(msg)
    if path.is_dir() and not whole:
        found = sorted(path.glob("*.gguf"))
        if len(found) != 1:
            msg = (
                f"{source!r} has no config.json and {len(found)} GGUF files; give a folder that "
                "has one of either, or the GGUF file itself"
            )
            raise ModelError(msg)
        return str(path), {"gguf_file": found[0].name}
    return str(path) if source else source, {}


def refuse_near_shipped(name: str) -> None:
    """Refuse what is nearly the name of a shipped model, before the hub is tried."""
    short = name.removeprefix(OWNER)
    near = get_close_matches(short.lower(), NAMES, n=1, cutoff=NEAR)
    others = "a folder, a GGUF file, or OWNER/NAME for one on the hub"
    allowed = f"allowed: a model shipped with attnflow ({', '.join(NAMES)}), {others}"
    if find_shipped(name) is not None:
        what = "is not a folder here, and shipped models can't be used for this"
        msg = f"{name!r} {what}; allowed: {others}"
    elif near and "/" not in short and (short != name or not is_cached(name)):
        msg = f"{name!r} is not a folder here; did you mean {near[0]}? A{allowed[1:]}"
    elif short != name:
        msg = f"{name!r} is not shipped with attnflow; {allowed}"
    else:
        return
    raise ModelError(msg)


def exists(path: Path) -> bool:
    """Whether such a file or folder exists; a name that is too long for one never does."""
    try:
        return path.exists()
    except OSError:
        return False


def why_not_loaded(source: str, where: str, error: Exception) -> str:
    """What failed and what to do; of the message of transformers, only the first sentence."""
    if "trust_remote_code" in str(error):
        return (
            f"{source!r} needs code that comes with it and could do anything: read it, then use "
            f"load_model({source!r}, trust_remote_code=True), or --trust-remote-code"
        )
    if exists(Path(where)):
        return f"{source!r} could not be loaded: {error}"
    reason = str(error).strip()
    if "connect" in reason or is_unavailable():
        return why_not_here(source)
    first = re.split(r"(?<=[^.]{2}\.)\s|\n", reason, maxsplit=1)[0].rstrip(".")
    what = f"is not a folder here, and not a model on the hub: {first}"
    return f"{source!r} {what}. Check the name, {OTHERWISE}"


def why_not_here(source: str) -> str:
    """Why a model whose files are not on this machine can't be fetched."""
    if is_offline():
        what = "the hub is switched off (HF_HUB_OFFLINE), and its files are not on this machine"
        return f"{source!r} is not a folder here; {what}. Unset it, {OTHERWISE}"
    what = "the hub can't be reached, and its files are not on this machine"
    return f"{source!r} is not a folder here; {what}. Check the connection, {OTHERWISE}"


SECONDS = 3.0
"""The time that the hub has to respond; transformers itself would try for half a minute."""
REMEMBERED = 60.0
"""Seconds for which a response is remembered."""
GATEWAY = (502, 503, 504)
"""The statuses of a gateway that can't reach the hub; transformers would retry many times."""
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
    """Whether the hub responds in time, with any status; a gateway's error is not the hub."""
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

    # In its own thread: looking up a host's name has no timeout.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    return answered.is_set()
