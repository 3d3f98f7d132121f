"""Layer-wise relevance: the target's logit, handed back to the tokens by one backward pass.

While the model runs, attention and the scales of norms are held fixed, activations follow the
identity rule and gates are split (`attnflow.models.capture.relevance`), so that the output is the
sum of gradient × input over the word embeddings and all that is added on the way. The scores of the
tokens and the share of what was added (biases, positions) make up the value; a model for which they
don't is refused.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attnflow.aggregation import Measure, Scores
from attnflow.errors import ModelError
from attnflow.measures.gradients import products, sum_groups
from attnflow.measures.question import Question
from attnflow.models.capture.relevance import Relevance
from attnflow.models.outputs import balanced_logit
from attnflow.models.sizes import independent_labels
from attnflow.records.arrays import to_numpy

TOLERANCE = 1e-3  # of the largest of what must add up; float32 rounds in every layer
HALF_TOLERANCE = 5e-2
HALF = (torch.float16, torch.bfloat16)


def measure(question: Question) -> Scores:
    """The relevance of groups of tokens for the target's logit less the mean of all logits.

    With a contrast it is the difference of the two logits. Of labels that are independent of each
    other it is the logit itself, the label's log-odds.
    """
    model, tokens = question.model, question.tokens
    alone = independent_labels(model.description)
    leaves: list[Tensor] = []

    def edit(embeddings: Tensor) -> Tensor:
        leaves.append(embeddings.detach().requires_grad_())
        return leaves[0]

    with torch.no_grad():
        expected = _value(model.logits([tokens], [question.target.position]), question, alone=alone)
    with torch.enable_grad(), Relevance() as mode:
        logits = model.logits([tokens], [question.target.position], edit)
        value = _value(logits, question, alone=alone)
        found = torch.autograd.grad(value, [leaves[0], *mode.added], allow_unused=True)
    gradients = found[0] if found[0] is not None else torch.zeros_like(leaves[0])
    scores = products(gradients.detach().double(), leaves[0].detach().double())[0]
    added = sum(
        float((leaf.detach().double() * each.double()).sum())
        for leaf, each in zip(mode.added, found[1:], strict=True)
        if each is not None
    )
    total = float(scores.sum()) + added
    size = max(abs(float(expected)), abs(added), float(scores.abs().sum()))
    limit = HALF_TOLERANCE if leaves[0].dtype in HALF else TOLERANCE
    gap = max(abs(total - float(expected)), abs(float(value.detach() - expected)))
    if not gap <= limit * size:
        msg = (
            f"method='lrp' can't be used with {model.name}: the relevance of its tokens and of "
            f"what it adds is {total:.4g}, and the value {float(expected):.4g} (allowed: "
            f"{limit:.0e} of {size:.4g}), so that it does something the rules don't know. Use "
            "method='integrated'"
        )
        raise ModelError(msg)
    statistics = {"value": float(expected), "biases": added, "conservation_gap": gap}
    return Scores(to_numpy(sum_groups(scores, question.groups)), statistics)


def _value(logits: Tensor, question: Question, *, alone: bool) -> Tensor:
    target = question.target
    return balanced_logit(logits[0], target.index, target.contrast, alone=alone)


MEMBER = Measure(
    "lrp",
    "Layer-wise relevance",
    measure,
    summary="The answer’s score, handed back through every layer to the tokens that made it.",
    signed=True,
    shown_by_default=False,
)
