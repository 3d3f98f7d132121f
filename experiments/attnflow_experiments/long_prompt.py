"""Time and peak memory of explaining an answer after a long prompt, beside the forward pass.

    python -m attnflow_experiments.long_prompt --smollm FOLDER [--tokens N] [--ways E:M,…]

The prompt is three documents of equal length and a question; the answer is given, so that nothing
is generated. Every way runs in a process of its own, whose peak memory is told, the model included.
On a machine that does other work, the seconds of the processor say more than those of the clock.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

FORWARD = "forward pass"
WAYS = (FORWARD, "attention:rollout", "attention:flow", "gradient:direct")
SENTENCE = "The ferry to the island leaves twice a day, in the morning and at dusk. "
ANSWER = " It leaves twice a day."


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smollm", required=True, help="SmolLM2-135M-Instruct, folder or GGUF")
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--device", help="where the model runs, such as cuda")
    parser.add_argument("--ways", default=",".join(WAYS), help="edges:method, by commas")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.one, given.smollm, given.tokens, given.device)))
        return
    print("| | tokens | seconds | of the processor | peak GiB |\n|---|---|---|---|---|", flush=True)
    for way in given.ways.split(","):
        arguments = [*sys.argv[1:], "--one", way]
        ran = subprocess.run(
            [sys.executable, "-m", "attnflow_experiments.long_prompt", *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode:
            last = ran.stderr.strip().splitlines()[-1:] or [f"killed ({ran.returncode})"]
            print(f"| {way} | {given.tokens} | failed: {last[0]} | | |", flush=True)
            continue
        found = json.loads(ran.stdout.splitlines()[-1])
        times = f"{found['seconds']:.1f} | {found['processor']:.1f}"
        print(f"| {way} | {found['tokens']} | {times} | {found['gib']:.2f} |", flush=True)


def measure(way: str, smollm: str, tokens: int, device: str | None) -> dict[str, float]:
    """One way, in this process."""
    import torch

    import attnflow

    model = attnflow.load_model(smollm, device=device)
    each = len(model.tokenizer(SENTENCE)["input_ids"])
    copies = max(1, (tokens - 20) // (3 * each))
    prompt = {f"document {number}": f"{number}. " + SENTENCE * copies for number in (1, 2, 3)}
    prompt["question"] = "When does the ferry leave?"
    start, worked = time.perf_counter(), time.process_time()
    if way == FORWARD:
        ids = model.tokenizer("\n\n".join(prompt.values()) + ANSWER, return_tensors="pt")
        size = ids["input_ids"].shape[1]
        with torch.no_grad():
            model.network(**ids.to(model.network.device), logits_to_keep=1)
    else:
        edges, method = way.split(":")
        found = attnflow.explain_answer(
            prompt, model, answer=ANSWER, edges=edges, method=method, parts_only=True
        )
        size = len(found.tokens)
    seconds, processor = time.perf_counter() - start, time.process_time() - worked
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"tokens": size, "seconds": seconds, "processor": processor, "gib": peak}


if __name__ == "__main__":
    main()
