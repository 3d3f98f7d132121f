"""Where a model's files are, by its name; and what is said where they are not."""

from __future__ import annotations

import re
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path

from attnflow.errors import ModelError
from attnflow.models import hub
from attnflow.shipped import NAMES, OWNER, find_shipped

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
    if exists(path / "adapter_config.json") and not (whole and find_spec("peft")):
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
    """Refuse what is nearly the name of a shipped model, before the hub is asked for it."""
    short = name.removeprefix(OWNER)
    near = get_close_matches(short.lower(), NAMES, n=1, cutoff=NEAR)
    others = "a folder, a GGUF file, or OWNER/NAME for one on the hub"
    allowed = f"allowed: a model shipped with attnflow ({', '.join(NAMES)}), {others}"
    if find_shipped(name) is not None:
        msg = f"{name!r} is no folder here, and shipped models are not for this; allowed: {others}"
    elif near and "/" not in short and (short != name or not hub.is_cached(name)):
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
    if "connect" in reason or hub.is_unavailable():
        return why_not_here(source)
    first = re.split(r"(?<=[^.]{2}\.)\s|\n", reason, maxsplit=1)[0].rstrip(".")
    what = f"is not a folder here, and not a model on the hub: {first}"
    return f"{source!r} {what}. Check the name, {OTHERWISE}"


def why_not_here(source: str) -> str:
    """Why a model whose files are not on this machine can't be fetched."""
    if hub.is_offline():
        what = "the hub is switched off (HF_HUB_OFFLINE), and its files are not on this machine"
        return f"{source!r} is not a folder here; {what}. Unset it, {OTHERWISE}"
    what = "the hub can't be reached, and its files are not on this machine"
    return f"{source!r} is not a folder here; {what}. Check the connection, {OTHERWISE}"
