"""Every number of the boards as a file of Parquet, which the page can be written from again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from attnflow import METHODS
from attnflow.evaluation.explainers import COMPUTED
from attnflow.evaluation.result import Column, Evaluation, Explainer
from attnflow_experiments.leaderboard.measure import DIGITS
from attnflow_experiments.leaderboard.page import BASELINES, name_of

NAMES = ("board", "explainer", "metric", "against")
SAID = ("title", "texts", "accuracy", "refused", "causal", "device")
ABOUT = b"boards"  # the key of what is said of them, as JSON


def write_raw(path: Path, found: Mapping[str, Evaluation]) -> None:
    """A row for every explainer, metric and text of every board."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    text = pa.dictionary(pa.int16(), pa.string())
    tables = []
    for board, one in found.items():
        keys = [
            (board, _plain(explainer), column.metric, column.against)
            for explainer in one.explainers
            for column in one.columns
        ]
        rows = one.values.shape[2]
        columns = zip(*keys, strict=True)
        repeated = {
            name: pa.array(np.repeat(np.array(each, object), rows), pa.string()).cast(text)
            for name, each in zip(NAMES, columns, strict=True)
        }
        texts = pa.array(np.tile(one.about["rows"], len(keys)), pa.int16())
        values = pa.array(one.values.astype(np.float32).ravel())
        tables.append(pa.table({**repeated, "text": texts, "value": values}))
    said = {
        board: {name: one.about[name] for name in SAID} | {"skipped": one.skipped}
        for board, one in found.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = pa.concat_tables(tables).unify_dictionaries()
    whole = whole.replace_schema_metadata({ABOUT: json.dumps(said)})
    pq.write_table(whole, path, compression="zstd", compression_level=12)


def read_raw(path: Path) -> dict[str, Evaluation]:
    """The boards of such a file, with all that the page says of them."""
    import pyarrow.parquet as pq

    whole = pq.read_table(path)
    columns = whole.to_pydict()
    values, texts = np.array(columns["value"], np.float64), np.array(columns["text"])
    boards = np.array(columns["board"])
    found = {}
    for board, said in json.loads(whole.schema.metadata[ABOUT]).items():
        at = np.flatnonzero(boards == board)
        explainers, metrics, against = ([columns[name][row] for row in at] for name in NAMES[1:])
        names = list(dict.fromkeys(explainers))
        measured = tuple(
            Column(*each) for each in dict.fromkeys(zip(metrics, against, strict=True))
        )
        shape = (len(names), len(measured), -1)
        skipped = tuple((row, why) for row, why in said.pop("skipped"))
        about = {**said, "rows": texts[at].reshape(shape)[0, 0].tolist()}
        table = np.round(values[at].reshape(shape), DIGITS)
        made = tuple(map(_named, names))
        found[board] = Evaluation(made, measured, table, {}, (0,) * len(made), skipped, about)
    return found


def _plain(explainer: Explainer) -> str:
    return name_of(explainer).replace("`", "")


def _named(plain: str) -> Explainer:
    """The explainer of this name; the page has no use for its layer."""
    method, _, edges = plain.partition(" on ")
    if method in METHODS:
        return Explainer(method, edges or None, baseline=method in COMPUTED)
    return Explainer(
        {name: key for key, name in BASELINES.items()}.get(plain, plain), baseline=True
    )
