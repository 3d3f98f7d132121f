"""Many clients at once: what they are answered, how soon, and what memory is left behind.

    python -m attnflow_experiments.load --clients 50 --seconds 30

Starts ``attnflow serve`` with the shipped model in a process of its own, and asks as the page does.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import os
import random
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

import httpx

WORDS = ("the", "key", "keys", "to", "cabinet", "cabinets", "article", "on", "large", "here", "of")
SETTLE_SECONDS = 3


def text(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(3, 24)))


async def visit(url: str, until: float, seed: int, answers: list[tuple[int, str, float]]) -> None:
    """One client: explains a text, then asks about it as a person who clicks would."""
    rng = random.Random(seed)
    async with httpx.AsyncClient(base_url=url, timeout=70) as client:
        while time.monotonic() < until:
            asked = {"text": text(rng)}
            found = await ask(client, "explain", asked, answers)
            if found is None:
                await asyncio.sleep(1)  # what Retry-After says
                continue
            size = len(found["views"][0]["tokens"])
            layer, query, key = rng.randint(1, 6), rng.randrange(size), rng.randrange(1, size)
            pair = {"layer": layer, "query": query, "key": key, "method": "flow"}
            await ask(client, "trace", {**asked, **pair}, answers)
            heads = {"layers": [layer], "query": query, "method": "rollout"}
            await ask(client, "heads", {**asked, **heads}, answers)
            await ask(client, "blank", {**asked, "sets": [[key]]}, answers)


async def ask(
    client: httpx.AsyncClient, path: str, body: dict, answers: list[tuple[int, str, float]]
) -> dict | None:
    start = time.monotonic()
    answer = await client.post(f"/api/{path}", json=body)
    content = answer.json()
    code = content["error"]["code"] if answer.status_code != 200 else ""
    answers.append((answer.status_code, code, time.monotonic() - start))
    return content if answer.status_code == 200 else None


def resident(pid: int) -> float:
    """MiB of memory that a process holds."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def crowd(url: str, clients: int, seconds: float) -> list[tuple[int, str, float]]:
    answers: list[tuple[int, str, float]] = []
    until = time.monotonic() + seconds
    await asyncio.gather(*(visit(url, until, seed, answers) for seed in range(clients)))
    return answers


def wait_for(url: str, server: subprocess.Popen) -> None:
    for _ in range(1200):
        try:
            if httpx.get(f"{url}/health").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
        if server.poll() is not None:
            break
    sys.exit("the server did not start")


def measure(clients: int, seconds: float) -> dict[str, float]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "attnflow", "serve", "--model", "verbs", "--port", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(url, server)
        # What a server at work holds anyway: threads, buffers, the inputs it was asked about last.
        asyncio.run(crowd(url, clients, min(5, seconds)))
        time.sleep(SETTLE_SECONDS)
        before = resident(server.pid)
        answers = asyncio.run(crowd(url, clients, seconds))
        time.sleep(SETTLE_SECONDS)
        after = resident(server.pid)
        pending = httpx.get(f"{url}/health").json()["pending"]
    finally:
        server.terminate()
        server.wait(timeout=30)
    kinds = collections.Counter((status, code) for status, code, _ in answers)
    good = [spent for status, _, spent in answers if status == 200]
    return {
        "answers": len(answers),
        "good": len(good),
        "busy": kinds.pop((503, "busy"), 0),
        "other": sum(count for (status, _), count in kinds.items() if status != 200),
        "median": statistics.median(good),
        "slowest": max(good),
        "before": before,
        "after": after,
        "pending": pending,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=30)
    given = parser.parse_args()
    found = measure(given.clients, given.seconds)
    print(f"{given.clients} clients for {given.seconds:g} s: {found['answers']} answers")
    print(f"  good {found['good']}, busy {found['busy']}, anything else {found['other']}")
    print(f"  good ones: median {found['median']:.3f} s, slowest {found['slowest']:.3f} s")
    print(f"  memory {found['before']:.0f} MiB before, {found['after']:.0f} MiB after")
    print(f"  left to do: {found['pending']}")


if __name__ == "__main__":
    main()
