"""The result of an evaluation: every number for every text, and what is said of them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.errors import InputError
from attnflow.evaluation.metrics import METRICS
from attnflow.evaluation.statistics import all_paired_p, holm, interval
from attnflow.io.files import as_path, check_target, with_checksum, without_checksum, write_file
from attnflow.records import FloatArray
from attnflow.records.checks import check_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMAT = 1


@dataclass(frozen=True)
class Explainer:
    """What was evaluated: a method on edges at a layer or from the logit, or a baseline.

    ``method="auto"`` is what `attnflow.explain` chooses, where that is not the same for all texts.
    ``correction`` is a decoder's, where it is not the usual one of the method.
    """

    method: str
    edges: str | None = None
    layer: int | None = None
    baseline: bool = False
    source: str | None = None
    correction: str | None = None

    def __post_init__(self) -> None:
        for name in ("method", "edges", "source", "correction"):
            if name == "method" or getattr(self, name) is not None:
                check_text(name, getattr(self, name))

    @property
    def label(self) -> str:
        """Its name in tables and figures."""
        edges = "" if self.edges in (None, "attention") else f" on {self.edges}"
        corrected = "" if self.correction is None else f", {self.correction}"
        start = "" if self.source is None else f" from the {self.source}"
        layer = "" if self.layer is None else f", layer {self.layer}"
        return f"{self.method}{edges}{corrected}{start}{layer}"


@dataclass(frozen=True)
class Column:
    """A metric, and what it was measured with: a filler, a reference, or rationales."""

    metric: str
    against: str

    def __post_init__(self) -> None:
        check_text("metric", self.metric)
        check_text("against", self.against)


@dataclass(frozen=True)
class Line:
    """What is said of one explainer in one column.

    Attributes:
        mean: Over the texts where it is defined.
        low: The lower end of the 95 % bootstrap interval over texts.
        high: The upper end.
        defined: On how many texts.
        undefined: On how many it is not, which are left out of the mean.
        tied: On how many texts the explainer has equal scores, which are taken in text order.
        best: Whether no mean of the column is better.
        p: Of the paired difference to the best, corrected for all pairs of the column (Holm).
    """

    explainer: Explainer
    column: Column
    mean: float
    low: float
    high: float
    defined: int
    undefined: int
    tied: int
    best: bool
    p: float


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Methods against each other.

    Attributes:
        explainers: What was evaluated.
        columns: By what.
        values: ``[explainer, column, text]``; NaN where undefined.
        curves: For each filler ``[deletion and insertion, explainer, text, step]``: the probability
            over the share of tokens removed, or put back, from 0 to 1.
        tied: For each explainer on how many texts it has equal scores.
        skipped: Rows that were left out, and why.
        about: Model, options and versions.
    """

    explainers: tuple[Explainer, ...]
    columns: tuple[Column, ...]
    values: FloatArray
    curves: Mapping[str, FloatArray]
    tied: tuple[int, ...]
    skipped: tuple[tuple[int, str], ...]
    about: Mapping[str, Any]

    @property
    def texts(self) -> int:
        """How many texts were evaluated."""
        return int(self.values.shape[2])

    def __repr__(self) -> str:
        sizes = f"{len(self.explainers)} explainers, {len(self.columns)} columns"
        return f"<Evaluation: {sizes}, {self.texts} texts, {len(self.skipped)} skipped>"

    @cached_property
    def lines(self) -> list[Line]:
        """Every mean with its interval, and how it differs from the best of its column."""
        return [line for at in range(len(self.columns)) for line in self._column(at)]

    def _column(self, at: int) -> list[Line]:
        values, column = self.values[:, at], self.columns[at]
        means = [float(np.mean(d)) if len(d := _defined(row)) else math.nan for row in values]
        sign = 1 if METRICS[column.metric].higher else -1
        known = [place for place, mean in enumerate(means) if not math.isnan(mean)]
        best = max(known, key=lambda place: sign * means[place], default=None)
        adjusted = self.pairs(at)
        lines = []
        for place, explainer in enumerate(self.explainers):
            pair = None if best is None else (min(place, best), max(place, best))
            lines.append(
                Line(
                    explainer,
                    column,
                    means[place],
                    *interval(values[place]),
                    defined=len(_defined(values[place])),
                    undefined=int(np.isnan(values[place]).sum()),
                    tied=self.tied[place],
                    best=place == best,
                    p=math.nan if pair is None or place == best else adjusted[pair],
                )
            )
        return lines

    def pairs(self, column: int) -> dict[tuple[int, int], float]:
        """The p-values of all pairs of explainers in a column, after Holm's correction."""
        values = self.values[:, column]
        pairs = list(combinations(range(len(self.explainers)), 2))
        one, other = np.array(pairs, dtype=int).reshape(-1, 2).T
        found = holm(all_paired_p(values[one] - values[other]))
        return dict(zip(pairs, found, strict=True))

    def table(self, format: str = "md") -> str:
        """The table as text, for each filler, reference or rationale.

        ``format`` is ``"md"``, ``"tex"``, ``"csv"`` or ``"json"``; the latter two have every mean
        on a line of its own.
        """
        from attnflow.evaluation.tables import write_table

        return write_table(self, format)

    def save_table(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the table in the format that the file's name tells, as for `table`."""
        from attnflow.evaluation.tables import save_table

        return save_table(self, path, overwrite=overwrite)

    def figure(self, kind: str = "curves", **options: Any) -> Figure:
        """Draw this.

        ``kind`` is ``"curves"``, the probability while tokens are removed and put back
        (``replacement=`` chooses one), or ``"ranks"``, mean ranks over texts and what can't be told
        apart (``metric=``, by default the first, and ``against=``, the replacement or reference).
        """
        from attnflow.views.figures.evaluation import draw

        return draw(kind, self, **options)

    def _repr_markdown_(self) -> str:
        """The table, for notebooks."""
        return self.table()

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values; `from_dict` reads them back."""
        return {
            "format": FORMAT,
            "explainers": [asdict(each) for each in self.explainers],
            "columns": [asdict(each) for each in self.columns],
            "values": _plain(self.values),
            "curves": {name: _plain(each) for name, each in self.curves.items()},
            "tied": list(self.tied),
            "skipped": [list(each) for each in self.skipped],
            "about": dict(self.about),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Evaluation:
        """Read what `to_dict` gave."""
        if data["format"] != FORMAT:
            msg = f"its format is {data['format']!r}; this version reads {FORMAT}"
            raise ValueError(msg)
        values = np.array(data["values"], dtype=np.float64)
        shape = (len(data["explainers"]), len(data["columns"]))
        if values.ndim != 3 or values.shape[:2] != shape or len(data["tied"]) != shape[0]:
            msg = f"values of shape {values.shape} are not those of {shape} explainers and columns"
            raise ValueError(msg)
        return cls(
            tuple(Explainer(**each) for each in data["explainers"]),
            tuple(Column(**each) for each in data["columns"]),
            values,
            {name: np.array(each, np.float64) for name, each in data["curves"].items()},
            tuple(int(each) for each in data["tied"]),
            tuple((int(row), str(why)) for row, why in data["skipped"]),
            data["about"],
        )

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write everything as JSON; `load` reads it back."""
        place = check_target(path, overwrite=overwrite)
        plain = with_checksum(self.to_dict())
        write_file(place, json.dumps(plain, allow_nan=False).encode())
        return place

    @classmethod
    def load(cls, path: str | Path) -> Evaluation:
        """Read what `save` wrote."""
        place = as_path(path)
        try:
            return cls.from_dict(without_checksum(json.loads(place.read_bytes())))
        except (OSError, ValueError, KeyError, TypeError) as error:
            msg = f"{place} is not a saved evaluation: {error}"
            raise InputError(msg) from None


def _defined(values: FloatArray) -> FloatArray:
    found: FloatArray = values[~np.isnan(values)]
    return found


def _plain(values: FloatArray) -> Any:
    """Lists with ``None`` for NaN, which JSON does not have."""
    plain = values.astype(object)
    plain[np.isnan(values)] = None
    return plain.tolist()
