"""Layer-wise relevance: the target's logit, handed back to the tokens by one backward pass.

It is rollout over the edges of ``edges="relevance"``, without the edges: what arrives at each
token's embedding over all paths (`attnflow.models.capture.relevance`). The scores of the tokens and
the share of what was added (biases, positions) make up the value; a model for which they don't is
refused.
"""

from __future__ import annotations

from attnflow.methods import Method, Scores
from attnflow.methods.gradients import sum_groups
from attnflow.methods.question import Question
from attnflow.records.arrays import to_numpy


def measure(question: Question) -> Scores:
    """The relevance of groups of tokens for the target's logit less the mean of all logits.

    With a contrast it is the difference of the two logits; labels that don't exclude each other
    have their own logit.
    """
    target = question.target
    found = question.model.relevance(
        question.tokens, target.position, target.index, target.contrast
    )
    (tokens,) = found.inputs
    return Scores(to_numpy(sum_groups(tokens, question.groups)), found.statistics)


MEMBER = Method(
    "lrp",
    "Layer-wise relevance",
    measure=measure,
    summary="The answer’s score, handed back through every layer to the tokens that made it.",
    signed=True,
    shown_by_default=False,
)
