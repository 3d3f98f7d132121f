"""Checksums of plain data, so that what is read back is what was saved."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from attnflow.errors import InputError

CHECKSUM = "sha256"
CHANGED = (
    "its content does not match its checksum: it was damaged or edited after it was saved (without "
    f'its "{CHECKSUM}" it is read as it is)'
)


def digest(value: Any) -> str:
    """The SHA-256 of plain values; the order of a dict's keys does not matter."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def with_checksum(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Plain data with the digest of all the rest under ``sha256``."""
    return {**plain, CHECKSUM: digest(plain)}


def matches_checksum(found: Mapping[str, Any]) -> bool:
    """Whether data has a checksum, and it is that of all the rest."""
    rest = {name: value for name, value in found.items() if name != CHECKSUM}
    return CHECKSUM in found and found[CHECKSUM] == digest(rest)


def without_checksum(found: Any) -> Any:
    """Data without its checksum, which must be right where there is one.

    Versions before 0.3 saved none, and who writes such a file by hand need not.
    """
    if not isinstance(found, dict) or CHECKSUM not in found:
        return found
    if not matches_checksum(found):
        raise InputError(CHANGED)
    return {name: value for name, value in found.items() if name != CHECKSUM}
