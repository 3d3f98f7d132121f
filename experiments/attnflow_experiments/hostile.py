"""Hostile requests: how long others wait while the server refuses them, and what memory it takes.

    python -m attnflow_experiments.hostile

Starts ``attnflow serve`` with a shipped model in a process of its own (Linux only: memory is read
from /proc). While each request is sent, another client asks for /health again and again.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from attnflow_experiments.load import resident, served

SIZE = 8_000_000  # bytes of a request, about
PAUSE = 0.02


def filled(before: str, piece: str, after: str) -> bytes:
    """A body with a piece repeated until it is as large as intended."""
    count = (SIZE - len(before) - len(after)) // len(piece)
    return (before + piece * count + after).encode()


def numbered(before: str, piece: Callable[[int], str], count: int, after: str) -> bytes:
    return (before + ",".join(map(piece, range(count))) + after).encode()


def attacks() -> dict[str, tuple[str, bytes]]:
    """Requests by what they try: where each goes, and its body."""
    text = '{"text": "the keys to the cabinet", '
    scores = text + '"method": "flow", "query": 0, '
    return {
        "four million invalid sets": ("blank", filled(text + '"sets": [', "1,", "1]}")),
        "sets that are empty": ("blank", filled(text + '"sets": [', "[],", "[]]}")),
        "half a million valid sets": (
            "blank",
            numbered(
                text + '"sets": [', lambda at: f"[{at % 700},{at // 700 + 1000}]", 500_000, "]}"
            ),
        ),
        "one set of four million": ("blank", filled(text + '"sets": [[', "1,", "1]]}")),
        "layers that are none": ("scores", filled(scores + '"layers": [', '"",', '""]}')),
        "many layers": ("scores", filled(scores + '"layers": [', "1,", "1]}")),
        "unknown keys": (
            "explain",
            numbered(text, lambda at: f'"{at}": 0', 600_000, "}"),
        ),
        "many invalid parts": (
            "answer",
            numbered(text + '"parts": {', lambda at: f'"{at}": 0', 600_000, "}}"),
        ),
        "many valid parts": (
            "answer",
            numbered(text + '"parts": {', lambda at: f'"{at}": [0,1]', 500_000, "}}"),
        ),
        "nested lists": ("explain", b'{"text": ' + b"[" * SIZE),
        "nested objects": ("blank", filled('{"sets": ', '{"":', "")),
        "a long text": ("explain", filled('{"text": "', "a", '"}')),
        "a long text of escapes": ("explain", filled('{"text": "', r"\ud83d\ude00", '"}')),
        "a long name of a model": ("explain", filled(text + '"model": "', "a", '"}')),
        "a long key": ("explain", filled(text + '"', "a", '": 0}')),
        "a long number": ("explain", filled(text + '"target": ', "9", "}")),
        "NaN": ("explain", (text + '"target": NaN}').encode()),
        "blanks": ("explain", filled(text, " ", '"model": 0}')),
    }


def reset_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak(pid: int) -> float:
    """The most MiB that a process has held."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = (each for each in lines if each.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def slowest_health(url: str, done: threading.Event, found: list[float]) -> None:
    """The longest that another client waits for the cheapest answer."""
    while not done.is_set():
        start = time.monotonic()
        answer = httpx.get(f"{url}/health", timeout=300)
        assert answer.status_code == 200, answer.text
        found.append(time.monotonic() - start)
        time.sleep(PAUSE)


def attack(url: str, path: str, body: bytes) -> str:
    headers = {"content-type": "application/json"}
    try:
        answer = httpx.post(f"{url}/api/{path}", content=body, headers=headers, timeout=300)
    except httpx.TransportError as error:  # refused before all of it was sent
        return type(error).__name__
    return f"{answer.status_code} {answer.json().get('error', {}).get('code', '')}".strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="verbs")
    parser.add_argument("--json", help="write the numbers to this file, too")
    given = parser.parse_args()
    rows = []
    with served(given.model) as (url, pid):
        for name, (path, body) in attacks().items():
            reset_peak(pid)
            before, done, waits = resident(pid), threading.Event(), list[float]()
            other = threading.Thread(target=slowest_health, args=(url, done, waits))
            other.start()
            start = time.monotonic()
            said = attack(url, path, body)
            spent = time.monotonic() - start
            done.set()
            other.join()
            grown = peak(pid) - before
            rows.append([name, said, spent, max(waits), grown])
            print(
                f"{name:28} {len(body):>9,} bytes: {said:16} after {spent:6.2f} s; "
                f"others waited {max(waits):6.2f} s at most; memory +{grown:.0f} MiB",
                flush=True,
            )
    if given.json:
        Path(given.json).write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
