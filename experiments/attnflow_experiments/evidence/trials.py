"""The trials: a model, its cases, what is measured on them, and of which ways to explain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnflow_experiments.evidence import learned, made, measure, ranking, stability, truth
from attnflow_experiments.evidence.measure import BASELINES, WAYS, Work
from attnflow_experiments.known_answers import cases
from attnflow_experiments.known_answers.cases import Case
from attnflow_experiments.known_answers.trials import Settings, models
from attnflow_experiments.leaderboard.boards import marked
from attnflow_experiments.parts.cases import make_cases

ON_ENCODERS = (
    *("relevance flow", "relevance flow, stations", "lrp", "attention × gradient"),
    *("integrated gradients", "ALTI rollout", "attention flow"),
)
ON_DECODERS = (
    *("relevance flow", "relevance flow, first token kept", "relevance flow, stations"),
    *("lrp", "lrp, first token left out", "attention × gradient, the default of 0.2"),
    *("ALTI rollout", "attention flow", "integrated gradients"),
)
ON_DOCUMENTS = tuple(way for way in ON_DECODERS[:-1] if "first token" not in way)
ON_OTHERS = (
    *("relevance flow", "relevance flow, stations", "lrp, as rollout on relevance"),
    *("ALTI rollout", "attention flow"),
)
TABLES = {  # by the model, the table of known answers; all other models are encoders
    "smollm": "SmolLM2",
    **dict.fromkeys(("probe", "planted-smollm", "planted-decoder"), "classifiers on decoders"),
    **dict.fromkeys(("copier", "watcher"), "other kinds"),
}
JUDGED = ("circuits", "edges", "heads", "stable", "learned")  # kinds that judge more than words


@dataclass(frozen=True)
class Trial:
    """One trial.

    Attributes:
        title: What the page calls it.
        model: The name of its model, one of `all_models`.
        cases: From the model all cases, as many as are asked for are taken.
        count: How many by default.
        kind: Which table it is part of: ``"first"``, ``"documents"``, ``"faithful"``,
            ``"knockouts"``, ``"circuits"``, ``"edges"``, ``"heads"``, which is edges and heads,
            ``"stable"`` or ``"learned"``.
        ways: The ways to explain that are tried, names of `measure.WAYS`; of knockouts, none.
        filler: What stands for removed tokens, where some are.
        length: Of answers that the model writes; ``None`` where they are given.
        drawn: Whether cases are drawn quickly and alike each time; otherwise they are kept.
    """

    title: str
    model: str
    cases: Callable[[Any], Iterator[Any]]
    count: int
    kind: str
    ways: tuple[str, ...] = ()
    filler: str = "mask"
    length: int | None = None
    drawn: bool = False

    @property
    def table(self) -> str:
        """The title of the table of known answers that it is a column of."""
        return f"Known answers: {TABLES.get(self.model, 'encoders')}"

    @property
    def file(self) -> str:
        """Which file of Parquet its numbers are kept in."""
        return "ground-truth" if self.kind in JUDGED else "evidence"

    @property
    def works(self) -> dict[str, Work]:
        """By the name of a piece, what measures it on a case."""
        if self.kind == "knockouts":
            return {"knockouts": measure.knockouts}
        if self.kind == "circuits":
            return dict(truth.works())
        if self.kind == "edges":
            return dict(ranking.works())
        if self.kind == "stable":
            return dict(stability.works(trained=self.model == "none"))
        if self.kind == "learned":
            return {"features": learned.features}
        if self.kind == "heads":
            return {**dict(ranking.works()), **dict(ranking.head_works())}
        if self.kind == "documents":
            return {
                "deletions": measure.deletions(self.length),
                **{way: measure.documents(WAYS[way], self.length) for way in self.ways},
            }
        if self.kind == "faithful":
            names = (*self.ways, *BASELINES)
            return {name: measure.faithful(name, self.filler) for name in names}
        return {"words": measure.words, **{way: measure.scores(WAYS[way]) for way in self.ways}}


def all_models(settings: Settings) -> dict[str, Callable[[], Path | str]]:
    """By its name, what makes or finds a model."""
    work, seed = settings.work, settings.seed
    return {
        **models(settings),
        "sentiment": lambda: "sentiment",
        "copier": lambda: made.copier(work / "copier", seed),
        "probe": lambda: made.probe(work / "probe", Path(models(settings)["smollm"]()), seed),
        "watcher": lambda: made.watcher(work / "watcher", seed),
    }


def make_trials(settings: Settings) -> dict[str, Trial]:
    """All trials, the most telling first; those of public data only where they have it."""
    data, seed = settings.data, settings.seed

    def planted(model: Any) -> Iterator[Case]:
        return cases.planted(model, seed, (1, 3))

    def turning(model: Any) -> Iterator[Case]:
        return cases.turning(model, seed, (1, 3))

    def copied(model: Any) -> Iterator[Case]:
        return cases.copied(model, seed)

    def documents(_: Any) -> Iterator[Any]:
        return iter(make_cases(60))

    found = {
        "planted-sentiment": Trial(
            "planted word, shipped sentiment model",
            "sentiment",
            planted,
            60,
            "first",
            ON_ENCODERS,
        ),
        "turning-sentiment": Trial(
            "the same where deleting the word turns the label",
            "sentiment",
            turning,
            60,
            "first",
            ON_ENCODERS,
        ),
        "planted-minilm": Trial(
            "planted word, MiniLM", "planted-minilm", planted, 60, "first", ON_ENCODERS
        ),
        "copied": Trial("copied word, SmolLM2", "smollm", copied, 60, "first", ON_DECODERS),
        "documents": Trial(
            "which of three documents, SmolLM2",
            "smollm",
            documents,
            60,
            "documents",
            ON_DOCUMENTS,
            drawn=True,
        ),
        "written": Trial(
            "which of three documents, the model's own words",
            "smollm",
            documents,
            20,
            "documents",
            ("relevance flow", "lrp", "attention × gradient, the default of 0.2"),
            length=24,
            drawn=True,
        ),
        "contrasts": Trial(
            "contrasts of facts, SmolLM2", "smollm", cases.contrasts, 60, "first", ON_DECODERS
        ),
        "facts": Trial("facts, SmolLM2", "smollm", cases.facts, 60, "first", ON_DECODERS),
        "planted-decoder": Trial(
            "planted word, classifier on a Llama of four layers",
            "planted-decoder",
            planted,
            60,
            "first",
            ON_DECODERS,
        ),
        "planted-probe": Trial(
            "planted word, linear classifier on SmolLM2", "probe", planted, 60, "first", ON_DECODERS
        ),
        "planted-smollm": Trial(
            "planted word, SmolLM2 fine-tuned as a whole",
            "planted-smollm",
            planted,
            60,
            "first",
            (*ON_DECODERS, "ALTI rollout, first token left out"),
        ),
        "turning-probe": Trial(
            "the same where deleting the word turns its label",
            "probe",
            turning,
            60,
            "first",
            ON_DECODERS,
        ),
        "copied-pair": Trial(
            "copied word, encoder–decoder",
            "copier",
            lambda model: made.lists(model, seed),
            60,
            "first",
            ON_OTHERS,
        ),
        "patch": Trial(
            "coloured patch, vision transformer",
            "watcher",
            lambda model: made.pictures(model, seed),
            60,
            "first",
            ON_OTHERS,
            drawn=True,
        ),
        "knockouts-planted": Trial(
            "planted word, MiniLM", "planted-minilm", planted, 60, "knockouts"
        ),
        "knockouts-copied": Trial("copied word, SmolLM2", "smollm", copied, 40, "knockouts"),
        "knockouts-longer": Trial(
            "copied word among forty, SmolLM2",
            "smollm",
            lambda model: cases.copied(model, seed, 40),
            40,
            "knockouts",
        ),
        "circuits": Trial(
            "circuits", "none", lambda _: truth.circuits(seed), 280, "circuits", drawn=True
        ),
        "paraphrases": Trial(
            "paraphrases, shipped sentiment model",
            "sentiment",
            lambda model: stability.paraphrases(model, seed),
            40,
            "stable",
            drawn=True,
        ),
        "seeds-planted": Trial(
            "five MiniLMs",
            "none",
            lambda _: stability.seeds(
                lambda folder, _: Path(models(settings)[folder.name]()),
                lambda model, number: cases.planted(model, number, (1, 3)),
                settings.work / "planted-minilm",
            ),
            40,
            "stable",
            drawn=True,
        ),
        "seeds-pair": Trial(
            "five encoder–decoders",
            "none",
            lambda _: stability.seeds(made.copier, made.lists, settings.work / "copier"),
            40,
            "stable",
            drawn=True,
        ),
        "seeds-patch": Trial(
            "five vision transformers",
            "none",
            lambda _: stability.seeds(made.watcher, made.pictures, settings.work / "watcher"),
            40,
            "stable",
            drawn=True,
        ),
        "edges-planted": Trial("planted word, MiniLM", "planted-minilm", planted, 60, "heads"),
        "edges-copied": Trial("copied word, SmolLM2", "smollm", copied, 40, "edges"),
        "edges-contrasts": Trial(
            "contrasts of facts, SmolLM2", "smollm", cases.contrasts, 40, "edges"
        ),
        "edges-pair": Trial(
            "copied word, encoder–decoder",
            "copier",
            lambda model: made.lists(model, seed),
            60,
            "edges",
        ),
        "edges-patch": Trial(
            "coloured patch, vision transformer",
            "watcher",
            lambda model: made.pictures(model, seed),
            60,
            "heads",
            drawn=True,
        ),
        "faithful-planted": Trial(
            "planted word, shipped sentiment model",
            "sentiment",
            planted,
            60,
            "faithful",
            ON_ENCODERS,
        ),
    }
    if data is None:
        return found

    def reviews(_: Any) -> Iterator[Case]:
        return cases.reviews(data, seed)

    public = {
        "faithful-sst2": Trial(
            "SST-2, shipped sentiment model", "sentiment", reviews, 300, "faithful", ON_ENCODERS
        ),
        "faithful-verbs": Trial(
            "verb number, shipped verb model",
            "verbs",
            lambda _: cases.subjects(data, seed),
            150,
            "faithful",
            ON_ENCODERS,
            "unk",
        ),
        "faithful-hummingbird": Trial(
            "Hummingbird, shipped sentiment model",
            "sentiment",
            lambda _: (Case(row["text"]) for row in marked(data)),
            150,
            "faithful",
            ON_ENCODERS,
        ),
        "edges-sst2": Trial("SST-2, shipped sentiment model", "sentiment", reviews, 100, "heads"),
        "edges-verbs": Trial(
            "verb number, shipped verb model",
            "verbs",
            lambda _: cases.subjects(data, seed),
            100,
            "heads",
        ),
        "learned-sst2": Trial(
            "SST-2, shipped sentiment model", "sentiment", reviews, 150, "learned"
        ),
        "learned-prefixes": Trial(
            "natural prefixes, SmolLM2",
            "smollm",
            lambda _: cases.prefixes(data, seed),
            150,
            "learned",
        ),
        "knockouts-sst2": Trial(
            "SST-2, shipped sentiment model", "sentiment", reviews, 60, "knockouts"
        ),
    }
    return {**found, **public}
