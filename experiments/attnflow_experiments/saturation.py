"""Where the minimum cut of attention flow lies, and how many tokens share the highest flow.

    python -m attnflow_experiments.saturation FOLDER [--picture FILE.svg]

The shipped model on prefixes of FOLDER/sva/full_sentences/wiki-dev.txt, from CLS at each layer: the
share of flows that are exactly what may enter the token in layer 1, min(1, column sum of edges),
and of tokens with a flow of exactly 1. --picture draws flow beside rollout, layer by layer.
"""

from __future__ import annotations

import argparse
from itertools import islice
from pathlib import Path

import numpy as np

import attnflow
from attnflow.pipeline.prepare import open_session
from attnflow.pipeline.request import Request
from attnflow_experiments.known_answers.cases import subjects

EXACT = 1e-9
RULES = ("attention", "norms", "alti")
SENTENCE = "the keys to the old cabinet near the doors of the house"


def shares(texts: list[str], rule: str) -> dict[int, tuple[float, float]]:
    """For every layer the share of flows cut at the input, and of tokens with a flow of 1."""
    model = attnflow.load_model("verbs")
    config = Request(edges=rule, layers="all")
    at_input: dict[int, list[bool]] = {}
    full: dict[int, list[bool]] = {}
    for text in texts:
        session = open_session(text, model, config)
        entering = np.minimum(1.0, np.asarray(session.graph("flow").weights[0]).sum(0))
        found = session.attribution("flow")
        for layer in found.layers:
            flows = found.row(layer)
            at_input.setdefault(layer, []).extend(np.abs(flows - entering) <= EXACT)
            full.setdefault(layer, []).extend(flows >= 1 - EXACT)
    return {at: (float(np.mean(at_input[at])), float(np.mean(full[at]))) for at in at_input}


def draw(path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(11, 3.4), layout="constrained")
    for axis, method in zip(axes, ("flow", "rollout"), strict=True):
        attnflow.explain(SENTENCE, "verbs", method=method, layers="all").figure("heatmap", axis)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args()
    if given.picture is not None:
        draw(given.picture)
    texts = [case.text for case in islice(subjects(given.folder, 0), 30)]
    found = {rule: shares(texts, rule) for rule in RULES}
    layers = list(found[RULES[0]])
    print(f"| from CLS at layer | {' | '.join(map(str, layers))} |")
    print("|---" * (len(layers) + 1) + "|")
    for rule, of in found.items():
        print(f"| `{rule}`: cut at the input | {' | '.join(f'{of[at][0]:.1%}' for at in layers)} |")
        print(f"| `{rule}`: flow of 1 | {' | '.join(f'{of[at][1]:.0%}' for at in layers)} |")


if __name__ == "__main__":
    main()
