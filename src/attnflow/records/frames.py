"""Attributions as tables of pandas, which is imported only here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from attnflow.errors import MissingExtra
from attnflow.records.attribution import Attribution

if TYPE_CHECKING:
    import pandas as pd


def to_frame(of: Attribution) -> pd.DataFrame:
    """One row per score."""
    try:
        import pandas as pd
    except ImportError:
        msg = "to_frame needs pandas: pip install pandas"
        raise MissingExtra(msg) from None
    axes: dict[str, Sequence[int]] = {"layer": of.layers}
    if of.scores.ndim == 4:
        axes["head"] = range(of.scores.shape[1])
    axes |= {"query": of.queries, "key": range(len(of.tokens))}
    index = pd.MultiIndex.from_product(axes.values(), names=axes)
    frame = pd.DataFrame({"score": of.scores.ravel()}, index=index).reset_index()
    names = np.array(of.tokens, dtype=object)
    frame.insert(frame.columns.get_loc("query") + 1, "query_token", names[frame["query"]])
    frame.insert(frame.columns.get_loc("key") + 1, "token", names[frame["key"]])
    return frame
