"""Scores that are sums of a position's own rows: no map of all positions is made.

Edges towards a target need the gradient by attention. Where a method reads the explained position's
rows alone, so does the gradient, and a prompt of thousands of tokens takes little memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attnflow.edges.corrections import ON_MAPS, correct_maps
from attnflow.edges.graph import fuse_layers
from attnflow.methods import Scores
from attnflow.methods.method import METHODS
from attnflow.pipeline.source import LOGIT
from attnflow.records.arrays import to_numpy

if TYPE_CHECKING:
    from attnflow.models.answers.interface import Answers
    from attnflow.pipeline.request import Request
    from attnflow.pipeline.session import Session
    from attnflow.records.selection import Groups


def reads_own_rows(answers: Answers, config: Request, size: int) -> bool:
    """Whether the rows where each token of an answer was predicted are all that is needed.

    A correction may compare with the graph of chance, which has all rows.
    """
    member = METHODS[config.method]
    if not member.reads_edges:
        return False
    correction = config.correction_for(config.method, causal=True, size=size)
    return (
        answers.keeps_rows
        and member.own_rows
        and config.rule.by_row
        and config.rule.needs.gradients
        and config.source != LOGIT
        and not config.discard
        and (correction is None or correction in ON_MAPS)
    )


def own_scores(session: Session, layer: int, groups: Groups | None) -> Scores:
    """The scores ``[1, key]`` of a session that has the rows of its position alone."""
    config, correction = session.config, session.correction(session.config.method)
    made = config.rule.apply(session.activations)
    rows = correct_maps(fuse_layers(made.layers, config.heads), correction, session.query)
    total = np.stack([to_numpy(each)[0] for each in rows[:layer]]).sum(0)
    if groups is not None:
        total = np.array([total[list(group)].sum() for group in groups])
    return Scores(total[None], made.statistics)
