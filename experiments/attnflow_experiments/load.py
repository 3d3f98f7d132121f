"""Many clients at once: what they are answered, how soon, and what memory is left behind.

    python -m attnflow_experiments.load --clients 50 --seconds 30
    python -m attnflow_experiments.load --texts 10000

The second explains different texts one by one and prints the memory that the server holds. Both
start ``attnflow serve`` with the shipped model in a process of its own and ask as the page does.
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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

WORDS = ("the", "key", "keys", "to", "cabinet", "cabinets", "article", "on", "large", "here", "of")
SETTLE_SECONDS = 3


def text(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(3, 24)))


@dataclass(frozen=True)
class Answer:
    """What one client got, and after how many seconds."""

    client: int
    status: int
    code: str
    seconds: float


async def visit(url: str, until: float, client: int, answers: list[Answer]) -> None:
    """One client: explains a text, then asks about it as a person who clicks would."""
    rng = random.Random(client)
    async with httpx.AsyncClient(base_url=url, timeout=70) as connection:

        async def ask(path: str, body: dict) -> dict | None:
            start = time.monotonic()
            try:
                answer = await connection.post(f"/api/{path}", json=body)
            except httpx.TransportError as error:
                answers.append(Answer(client, 0, type(error).__name__, time.monotonic() - start))
                await asyncio.sleep(1)
                return None
            content = answer.json()
            code = content["error"]["code"] if answer.status_code != 200 else ""
            answers.append(Answer(client, answer.status_code, code, time.monotonic() - start))
            if "retry-after" in answer.headers:
                await asyncio.sleep(float(answer.headers["retry-after"]))
            return content if answer.status_code == 200 else None

        while time.monotonic() < until:
            asked = {"text": text(rng)}
            found = await ask("explain", asked)
            if found is None:
                continue
            size = len(found["views"][0]["tokens"])
            layer, query, key = rng.randint(1, 6), rng.randrange(size), rng.randrange(1, size)
            pair = {"layer": layer, "query": query, "key": key, "method": "flow"}
            await ask("trace", {**asked, **pair})
            heads = {"layers": [layer], "query": query, "method": "rollout"}
            await ask("heads", {**asked, "edges": "attention", **heads})
            await ask("blank", {**asked, "sets": [[key]]})


def resident(pid: int) -> float:
    """MiB of memory that a process holds."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def crowd(url: str, clients: int, seconds: float) -> list[Answer]:
    answers: list[Answer] = []
    until = time.monotonic() + seconds
    await asyncio.gather(*(visit(url, until, client, answers) for client in range(clients)))
    return answers


def one_by_one(url: str, pid: int, texts: int) -> None:
    """Explains distinct texts, and prints the memory that the server holds twenty times."""
    rng, seen = random.Random(0), set[str]()
    with httpx.Client(base_url=url, timeout=70) as connection:
        while len(seen) < texts:
            asked = text(rng)
            if asked in seen:
                continue
            seen.add(asked)
            connection.post("/api/explain", json={"text": asked}).raise_for_status()
            if len(seen) % max(texts // 20, 1) == 0:
                print(f"{len(seen):>6} texts: {resident(pid):.0f} MiB", flush=True)


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


@contextmanager
def served(model: str) -> Iterator[tuple[str, int]]:
    """Where ``attnflow serve`` answers, in a process of its own, and the number of that process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "attnflow", "serve", "--model", model, "--port", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(url, server)
        yield url, server.pid
    finally:
        server.terminate()
        server.wait(timeout=30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="verbs")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--texts", type=int, help="explain so many texts instead, one by one")
    given = parser.parse_args()
    with served(given.model) as (url, pid):
        if given.texts:
            one_by_one(url, pid, given.texts)
            return
        # What a server at work holds anyway: threads, buffers, the inputs it was asked about last.
        asyncio.run(crowd(url, given.clients, min(5, given.seconds)))
        time.sleep(SETTLE_SECONDS)
        before = resident(pid)
        answers = asyncio.run(crowd(url, given.clients, given.seconds))
        time.sleep(SETTLE_SECONDS)
        after = resident(pid)
        pending = httpx.get(f"{url}/health").json()["pending"]
    good = [each.seconds for each in answers if each.status == 200]
    kinds = collections.Counter(f"{each.status} {each.code}" for each in answers)
    of_each = collections.Counter(each.client for each in answers if each.status == 200)
    counts = sorted(of_each[client] for client in range(given.clients))
    print(f"{given.clients} clients for {given.seconds:g} s: {len(answers)} answers")
    print(f"  {', '.join(f'{kind.strip()}: {count}' for kind, count in kinds.most_common())}")
    print(f"  good ones: median {statistics.median(good):.3f} s, slowest {max(good):.3f} s")
    print(
        f"  of each client: {counts[0]} at least, {statistics.median(counts):g} in the median, "
        f"{counts[-1]} at most; {counts.count(0)} got none"
    )
    print(f"  memory {before:.0f} MiB before, {after:.0f} MiB after; left to do: {pending}")


if __name__ == "__main__":
    main()
