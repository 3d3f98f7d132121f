"""Where a head decides: the positions whose last states its outputs depend on.

Pooling differs between models and between configurations of one model (the first token, the last
that is not padding, the mean of all, or of patches), so it is measured: a position that is read
has a gradient at its row of the last layer's attention, and one that is not has exactly none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from attnflow.errors import CaptureError, ModelError
from attnflow.models.capture.differentiable import NoGradientError
from attnflow.models.capture.mode import Capture
from attnflow.models.capture.run import called, drop_pooling, in_eval_mode
from attnflow.models.capture.spec import CaptureSpec
from attnflow.models.capture.windows import Layer, sees_ahead
from attnflow.models.kinds import CAUSAL, head_of

Positions = tuple[int, ...]
Rule = Callable[[int], Positions]  # from the number of tokens

RULES: tuple[Rule, ...] = (
    lambda size: (0,),
    lambda size: (size - 1,),
    lambda size: tuple(range(size)),
)


def deciding_positions(network: Any, inputs: dict[str, Any]) -> Positions:
    """The positions of one input that the logits depend on; without a head, what it pools."""
    spec = CaptureSpec(gradients=True)
    with torch.enable_grad(), Capture(spec) as capture:
        try:
            output = called(in_eval_mode(network), inputs)
        except NoGradientError as error:
            # What errors advise does not help here: everything starts where the model decides.
            reason = str(error).partition(". ")[0]
            msg = f"where it decides is not known: {reason}. Give the position with query="
            raise ModelError(msg) from error
        logits = getattr(output, "logits", None)
        logits = output.pooler_output if logits is None else logits
        # Labels with different weights: their plain sum may be constant.
        target = (logits * torch.arange(1, logits.numel() + 1).to(logits).view_as(logits)).sum()
    drop_pooling(capture, network)
    if not capture.sites or not target.requires_grad:
        msg = (
            f"where {type(network).__name__} decides was not found: no attention was seen. "
            "Give the position to explain with query="
        )
        raise CaptureError(msg)
    gradient = capture.gradients_of_last(target)
    read = gradient[0].abs().sum((0, -1)) > 0
    positions = tuple(int(at) for at in read.nonzero().flatten())
    if not positions:
        msg = (
            f"the outputs of {type(network).__name__} depend on no position of its last layer; "
            "give the position to explain with query="
        )
        raise ModelError(msg)
    return positions


def check_causal(network: Any, inputs: dict[str, Any]) -> None:
    """Run one input, to refuse what `refuse_looking_ahead` does where no maps were captured."""
    if head_of(type(network).__name__) is not CAUSAL:
        return
    size = inputs["input_ids"].shape[1]
    with torch.no_grad(), Capture(CaptureSpec()) as capture:
        called(in_eval_mode(network), inputs)
    maps = (site.probabilities[0] for site in capture.sites)
    refuse_looking_ahead(network, [each for each in maps if each.shape[-2:] == (size, size)])


def refuse_looking_ahead(network: Any, maps: Sequence[Layer]) -> None:
    """Refuse a head that predicts the next token on a network that attends to later tokens.

    Models of several parts that attend to a whole prompt are trained so, and have other names.
    """
    name = type(network).__name__
    if head_of(name) is CAUSAL and any(map(sees_ahead, maps)):
        msg = (
            f"{name} has the head of a causal language model and attends to later tokens, too: "
            "what its head predicts at a position is not the next token. Set is_decoder=True "
            "in its configuration where it was trained so, or explain it without its head "
            "(transformers.AutoModel)"
        )
        raise ModelError(msg)


def find_rule(positions: Positions, size: int) -> Rule | None:
    """The rule that an input's positions follow; ``None`` where several or none would fit."""
    fitting = [rule for rule in RULES if rule(size) == positions]
    return fitting[0] if len(fitting) == 1 else None
