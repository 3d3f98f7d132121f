"""Whether tokens reach each other past attention.

With every attention map replaced by the identity, the state of a position may depend only on its
own token. Where it depends on another one, something other than attention mixes positions (a
convolution, a state-space layer), and the graph of attention does not hold all paths.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import Tensor

from attnflow.errors import AttnflowError
from attnflow.models.adapter import Tokens
from attnflow.models.capture.mode import SOFTMAX, Capture
from attnflow.models.capture.probabilities import FusedCall, for_each_head
from attnflow.models.capture.run import called, in_eval_mode
from attnflow.models.capture.windows import without_windows
from attnflow.models.checks.padding import once, shorten

log = logging.getLogger("attnflow")
SAMPLE = 11  # tokens; a number that few models have experts or groups of
CHANGED = 1e-5  # of the largest number, in float32


MIXES = (
    "{} mixes tokens outside attention too (for instance by a convolution or a recurrent layer): "
    "scores show only the paths through attention"
)
NOT_CHECKED = "whether {} mixes tokens outside attention could not be checked"


class IdentityAttention(Capture):
    """A context in which every position attends only to itself, in all layers.

    Attention from one sequence to another (of another length) is left unchanged.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Replace probabilities by the identity."""
        if func not in SOFTMAX:
            return super().__torch_function__(func, types, args, kwargs)
        result = func(*args, **(kwargs or {}))
        rows, columns = result.shape[-2:] if result.dim() > 2 else (0, 0)
        if columns - rows not in (0, 1) or rows < 2:  # one column more is a learned sink
            return result
        return torch.eye(rows, columns, dtype=result.dtype, device=result.device).expand_as(result)

    def _fused_kernel(self, call: FusedCall) -> Tensor:
        if call.query.size(-2) != call.key.size(-2):
            return call.run()
        value = call.value
        return for_each_head(call.query, value)[0] if value.dim() > 3 else value


def last_states(network: Any, inputs: dict[str, Any]) -> Tensor | None:
    """The last states ``[batch, position, dimension]`` with every map the identity."""
    with torch.no_grad(), IdentityAttention():
        alone = without_windows(in_eval_mode(network))
        output = called(alone, {**inputs, "output_hidden_states": True})
    kept = (getattr(output, name, None) for name in ("hidden_states", "decoder_hidden_states"))
    states = [*next((each for each in kept if each), ())[-1:], output[0]]
    usable = (each for each in states if isinstance(each, Tensor) and each.dim() == 3)
    return next(usable, None)


def changed_positions(before: Tensor, after: Tensor) -> list[int]:
    """The positions ``[position, …]`` whose state is another."""
    apart = (after.double() - before.double()).abs().amax(-1)
    rounding = 16 * torch.finfo(before.dtype).eps
    limit = max(CHANGED, rounding) * max(1e-3, float(before.abs().max()))
    return [int(at) for at in (apart > limit).nonzero().flatten()]


class TextAdapter(Protocol):
    """What is needed of the adapter of a text model."""

    @property
    def network(self) -> Any:
        """The network."""

    def states(self, tokens: Tokens, ids: str = "input_ids") -> Tensor | None:
        """The last states of one input under `IdentityAttention`, ``[position, …]``.

        ``ids`` names the input whose positions they are of.
        """


def mixing_warnings(adapter: TextAdapter, tokens: Tokens) -> tuple[str, ...]:
    """A warning where tokens reach each other past attention; measured once for a network."""
    sample = shorten(tokens, SAMPLE)
    if len(sample.inputs["input_ids"]) < 2:
        return ()
    return once(adapter.network, "mixing", lambda: _find_mixing(adapter, sample, "input_ids"))


def answer_mixing_warnings(adapter: TextAdapter, tokens: Tokens) -> tuple[str, ...]:
    """The same of the decoder of an encoder–decoder, for tokens of the answer."""
    return once(adapter.network, "answer mixing", lambda: _find_answer_mixing(adapter, tokens))


def _find_answer_mixing(adapter: TextAdapter, tokens: Tokens) -> tuple[str, ...]:
    if "input_ids" in tokens.inputs:
        tokens = shorten(tokens, SAMPLE)
    answer = tokens.inputs["decoder_input_ids"]
    # Any tokens will do, and an answer may have one. Two more than the source has at most: between
    # sides of one length, attention to the source would be replaced, too.
    sample = [answer[at % len(answer)] for at in range(SAMPLE + 2)]
    tokens = replace(tokens, inputs={**tokens.inputs, "decoder_input_ids": sample})
    return _find_mixing(adapter, tokens, "decoder_input_ids")


def _find_mixing(adapter: TextAdapter, tokens: Tokens, name: str) -> tuple[str, ...]:
    who = type(adapter.network).__name__
    ids = list(tokens.inputs[name])
    middle = len(ids) // 2
    least = ids[middle] - 1 if ids[middle] else 1
    ids[middle] = next((number for number in ids if number != ids[middle]), least)
    changed = replace(tokens, inputs={**tokens.inputs, name: ids})
    try:
        before, after = adapter.states(tokens, name), adapter.states(changed, name)
    except AttnflowError:
        before = after = None
    if before is None or after is None:
        return (NOT_CHECKED.format(who),)
    if set(changed_positions(before, after)) <= {middle}:
        return ()
    log.warning(MIXES.format(who))
    return (MIXES.format(who),)
