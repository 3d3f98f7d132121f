"""Where a head decides: the positions whose last states its outputs depend on.

Pooling differs between models and between configurations of one model (the first token, the last
that is not padding, the mean of all, or of patches), so it is measured: a position that is read
has a gradient at its row of the last layer's attention, and one that is not has exactly none.
Texts with a head that labels tokens, or predicts them, decide at a position of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attnflow.errors import CaptureError, InputError, ModelError
from attnflow.models.adapter import Objective, Tokens
from attnflow.models.capture import run as network
from attnflow.models.capture.differentiable import NoGradientError
from attnflow.models.capture.mode import Capture
from attnflow.models.capture.run import called, drop_pooling, in_eval_mode
from attnflow.models.capture.spec import CaptureSpec
from attnflow.models.capture.windows import Layer, sees_ahead
from attnflow.models.checks.padding import once, shorten
from attnflow.models.kinds import BARE, CAUSAL, CLASSIFIER, MASKED, TAGGER, head_in
from attnflow.models.outputs import no_probability

if TYPE_CHECKING:
    from attnflow.models.text.model import TextModel


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
    if head_in(network) is not CAUSAL:
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
    if head_in(network) is CAUSAL and any(map(sees_ahead, maps)):
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


MEASURED = (CLASSIFIER, TAGGER, MASKED, CAUSAL)  # heads with a probability of a target
OUTSIDE = "O"  # the label of tokens that are part of nothing
ALL_OUTSIDE = (
    "every token is labelled O, part of nothing; explained is the one whose next label is most "
    "likely. Name another with query="
)


def find_tagged(
    logits: Tensor, tokens: Tokens, labels: Mapping[int, str], target: int | None = None
) -> tuple[int, tuple[str, ...]]:
    """The token to explain, and notices about the choice.

    ``logits`` are ``[position, label]``. It is the token with the most likely label other than O;
    with a target, the one at which that is most likely. Special tokens have no label of their own.
    """
    words = tokens.word_ids or [0] * len(tokens)
    places = [at for at, word in enumerate(words) if word is not None] or list(range(len(tokens)))
    shares = logits.detach().double().softmax(-1)[places]
    if target is not None:
        return places[int(shares[:, target].argmax())], ()
    outside = [number for number, name in labels.items() if str(name) == OUTSIDE]
    inside = shares.clone()
    inside[:, outside] = -1.0
    best, likely = inside.max(-1).values, shares.max(-1).values
    labelled = best >= likely
    if bool(labelled.any()):
        return places[int(torch.where(labelled, best, -1.0).argmax())], ()
    return places[int(best.argmax())], (ALL_OUTSIDE,)


SAMPLE = 16  # tokens of an input that a check runs
DISTINCT = 3  # tokens by which the first, the last and all of them can be distinguished


def decision(model: TextModel, tokens: Tokens) -> int:
    """Where the head predicts: the mask, the last token, a token with a label, or the start."""
    if model.head not in MEASURED:
        raise no_probability(model.name)
    if model.head is TAGGER:
        with torch.no_grad():
            evaluated = network.in_eval_mode(model.network)
            output = network.called(evaluated, model.inputs([tokens]))
        return tagged_position(model, output, 0, tokens, Objective())[0]
    if model.head is MASKED:
        masks = masks_in(model, tokens)
        if len(masks) != 1:
            msg = (
                f"{tokens.text!r} has {len(masks)} masks; a masked language model needs "
                f"exactly one {model.tokenizer.mask_token} to predict"
            )
            raise InputError(msg)
        return masks[0]
    if model.head is CAUSAL:
        if len(tokens) > 1:
            inputs = model.inputs([tokens])
            once(model.network, "causal", lambda: check_causal(model.network, inputs))
        return len(tokens) - 1
    return classifier_positions(model, tokens)[0]


def explained_positions(
    model: TextModel,
    tokens: Tokens,
    output: Any,
    item: int,
    objective: Objective,
    *,
    causal: bool,
) -> tuple[int, ...]:
    """The position to explain; several where the head, or a model's pooling, reads several."""
    if model.head is CLASSIFIER:
        return classifier_positions(model, tokens)
    if model.head is TAGGER:
        return (tagged_position(model, output, item, tokens, objective)[0],)
    if model.head is BARE and getattr(output, "pooler_output", None) is not None:
        # A pooler whose tanh is saturated depends on nothing: the start, as without a pooler.
        with suppress(ModelError):
            return classifier_positions(model, tokens)
    masks = masks_in(model, tokens) if model.head is MASKED else []
    if len(masks) > 1:
        return (tokens.position(model.tokenizer.mask_token),)  # an error that lists them
    if masks:
        return (masks[0],)
    return (len(tokens) - 1 if causal or model.head is CAUSAL else 0,)


def tagged_position(
    model: TextModel, output: Any, item: int, tokens: Tokens, objective: Objective
) -> tuple[int, tuple[str, ...]]:
    """The token whose label is explained where none is named."""
    target = None if objective.target is None else model.output_indices(objective.target)[0]
    logits = output.logits[item, : len(tokens)]
    return find_tagged(logits, tokens, model.network.config.id2label, target)


def masks_in(model: TextModel, tokens: Tokens) -> list[int]:
    """The positions of the masks, which are to be predicted."""
    ids = tokens.inputs["input_ids"]
    return [i for i, token in enumerate(ids) if token == model.tokenizer.mask_token_id]


def classifier_positions(model: TextModel, tokens: Tokens) -> tuple[int, ...]:
    """Where a classifier decides, measured once; an input with padding in it has its own."""
    size = len(tokens)
    padded = 0 in tokens.inputs["attention_mask"] or any(
        number in tokens.inputs["input_ids"] for number in model.padding if number is not None
    )
    if padded or size < DISTINCT:
        return deciding_positions(model.network, model.inputs([tokens]))

    def find() -> Rule | None:
        sample = shorten(tokens, SAMPLE)
        positions = deciding_positions(model.network, model.inputs([sample]))
        return find_rule(positions, len(sample))

    rule = once(model.network, ("deciding", model.padding), find)
    return rule(size) if rule else deciding_positions(model.network, model.inputs([tokens]))
