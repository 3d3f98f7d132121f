"""What a model computes without some of its attention edges.

An edge (layer, head, query, key) is what the position ``query`` reads of the position ``key``. To
remove it, its score is set to −∞ before the softmax: the edges that are left in the row share what
it had. A row that loses all of its edges reads nothing: attention gives zeros there. The residual
stream is not an edge, and is never cut: every position keeps what it has.

`survey` finds out which edges a model has on an input; `removing` is a context in which any call of
its adapter runs without some of them, and `without_edges` the logits of such a run. Nothing is done
to the model: as for a capture, a torch-function mode changes what the calls of this thread give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attnflow.errors import CaptureError, ModelError
from attnflow.models.adapter import ForwardPass, ModelAdapter, Tokens
from attnflow.models.capture.mode import PRODUCTS, SOFTMAX, Capture, with_operand
from attnflow.models.capture.probabilities import FusedCall, probabilities_of
from attnflow.models.capture.spec import CaptureSpec
from attnflow.models.pair.sides import AttentionStep, steps_of

BoolArray = npt.NDArray[np.bool_]
# For each step of the graph the edges to remove, [query, key] in all heads or [head, query, key].
Removed = Sequence[BoolArray | None]
Found = TypeVar("Found")

MASKED = 5_000.0
"""How far below the best score of its row a score lies that a model has masked.

Models mask by −∞, by the lowest number of a precision (−65,504 or less) or by −10,000. An edge this
far below the best has no weight in any precision; where it is not so in all heads, it is not a mask
that put it there, and the model is refused.
"""


@dataclass(frozen=True, eq=False)
class ModelEdges:
    """The attention edges that a model has on one input: those that it does not mask.

    Positions are those of the graph: for encoder–decoders the source's, then the target's, and a
    decoder layer is two steps, self-attention and cross-attention.

    Attributes:
        tokens: The input.
        position: Where the model predicts.
        steps: Which positions read which in each step.
        ends: The step, counted from 1, at which each layer ends.
        heads: How many heads each step has.
        visible: For each step ``[query, key]``, the same in all heads.
        calls: Which of the model's attention calls each step is, counted from 1.
        attended: How many attention calls the model makes.
    """

    tokens: Tokens
    position: int
    steps: tuple[AttentionStep, ...]
    ends: tuple[int, ...]
    heads: tuple[int, ...]
    visible: tuple[BoolArray, ...]
    calls: tuple[int, ...]
    attended: int

    def steps_in(self, layer: int) -> range:
        """The steps, counted from 0, of a layer, counted from 1."""
        return range(0 if layer == 1 else self.ends[layer - 2], self.ends[layer - 1])

    def seen(self, *, per_head: bool) -> list[BoolArray]:
        """The edges of each step: ``[query, key]``, or ``[head, query, key]``."""
        if not per_head:
            return list(self.visible)
        pairs = zip(self.heads, self.visible, strict=True)
        return [np.broadcast_to(visible, (heads, *visible.shape)) for heads, visible in pairs]


def survey(
    model: ModelAdapter, forward: ForwardPass, ask: Callable[[], Found]
) -> tuple[ModelEdges, Found]:
    """The edges that a model has on the input of a forward pass, and what ``ask`` returns.

    ``ask`` runs the model once, on this input only.
    """
    seen, calls = _WithoutEdges({}, 1, survey=True), forward.activations.calls
    try:
        with torch.no_grad(), seen:
            found = ask()
        heads, visible = _edges_seen(seen, steps_of(forward.activations), calls or ())
    except _UnknownScores as reason:
        msg = f"edges can't be removed from {model.name}: {reason}"
        raise ModelError(msg) from None
    edges = ModelEdges(
        forward.tokens,
        forward.query,
        tuple(steps_of(forward.activations)),
        forward.activations.steps,
        heads,
        visible,
        calls or (),
        len(seen.calls),
    )
    return edges, found


class _UnknownScores(ModelError):  # noqa: N818 - a reason
    """Why the scores of a model's edges are not known."""


def _edges_seen(
    seen: _WithoutEdges, steps: Sequence[AttentionStep], calls: Sequence[int]
) -> tuple[tuple[int, ...], tuple[BoolArray, ...]]:
    """The heads of each step, and its edges."""
    if len(calls) != len(steps) or not 1 <= min(calls) <= max(calls) <= len(seen.calls):
        msg = "not every layer computes scores of all pairs of positions (attention in windows?)"
        raise _UnknownScores(msg)
    heads, visible = [], []
    for step, call in zip(steps, calls, strict=True):
        count, there = seen.calls[call - 1]
        if tuple(there.shape) != (len(step.queries), len(step.keys)):
            msg = (
                "a layer computes {} × {} scores (attention in windows?), for ".format(*there.shape)
                + f"{len(step.queries)} × {len(step.keys)} positions"
            )
            raise _UnknownScores(msg)
        heads.append(count)
        visible.append(step.place(there).numpy())
    return tuple(heads), tuple(visible)


def without_edges(
    model: ModelAdapter, inputs: Sequence[ModelEdges], removed: Sequence[Removed]
) -> Tensor:
    """The logits ``[item, output]`` of a batch, each item without its edges, in float64.

    It is one forward pass. Inputs of different lengths are padded, as everywhere; the same input
    may be there several times, each time without other edges.
    """
    with torch.no_grad(), removing(inputs, removed):
        return model.logits([each.tokens for each in inputs], [each.position for each in inputs])


@contextmanager
def removing(inputs: Sequence[ModelEdges], removed: Sequence[Removed]) -> Iterator[None]:
    """A context in which the model runs once on these inputs, item m without ``removed[m]``."""
    by_call: dict[int, list[Tensor | None]] = {}
    for item, (edges, sets) in enumerate(zip(inputs, removed, strict=True)):
        for step, call, one in zip(edges.steps, edges.calls, sets, strict=True):
            if one is not None and one.any():
                block = torch.from_numpy(np.ascontiguousarray(one[step.block]))
                by_call.setdefault(call, [None] * len(inputs))[item] = block
    mode = _WithoutEdges(by_call, len(inputs), sizes=_sizes(inputs))
    with mode:
        yield
    attended = {each.attended for each in inputs}
    if attended != {mode.made}:
        msg = (
            f"the model attended {mode.made} times without these edges, and {max(attended)} times "
            "with them: what it computes depends on the input, and edges can't be identified"
        )
        raise CaptureError(msg)


def _sizes(inputs: Sequence[ModelEdges]) -> dict[int, tuple[int, int]]:
    """How many queries and keys each call has, with padding."""
    sizes: dict[int, tuple[int, int]] = {}
    for edges in inputs:
        for step, call in zip(edges.steps, edges.calls, strict=True):
            rows, columns = sizes.get(call, (0, 0))
            sizes[call] = max(rows, len(step.queries)), max(columns, len(step.keys))
    return sizes


class _Made(NamedTuple):
    """How a tensor was made on its way from a softmax to a product; the softmax has no ``of``."""

    func: Any
    args: Any
    kwargs: Any
    of: Tensor | None


class _WithoutEdges(Capture):
    """A context in which attention leaves out the edges of ``removed``, by the number of the call.

    These are ``[query, key]`` or ``[head, query, key]`` for each item of the batch. A softmax is
    made as the model makes it. Only where its result meets the values is it known to be attention,
    and which call: it is then computed again, from the scores without these edges, with all that
    was done to the first one since. With ``survey`` the edges of every call are noted in ``calls``.
    """

    def __init__(
        self,
        removed: Mapping[int, Sequence[Tensor | None]],
        batch: int,
        *,
        sizes: Mapping[int, tuple[int, int]] | None = None,
        survey: bool = False,
    ) -> None:
        super().__init__(CaptureSpec(layers=()), batch)
        self.removed = removed
        self.sizes = sizes or {}
        self.survey = survey
        self.calls: list[tuple[int, Tensor]] = []  # heads, and which keys each query sees
        self._history: dict[int, _Made] = {}  # of what `_softmaxes` holds

    @property
    def made(self) -> int:
        """How many calls of attention there were."""
        return self._calls

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Change what multiplies values; leave all other calls as they are."""
        kwargs = kwargs or {}
        tracked = self._tracked(func, args) if self._softmaxes else None
        if tracked is not None and (func in PRODUCTS or func is torch.einsum):
            changed = self._attend(tracked)
            _, root, sink = self._softmaxes[id(tracked)]
            self._softmaxes[id(changed)] = (changed, root, sink)
            args = with_operand(args, tracked, changed)
        result = super().__torch_function__(func, types, args, kwargs)
        if func in SOFTMAX:
            self._history = {id(result): _Made(func, args, kwargs, None)}
        elif tracked is not None and result is not tracked and id(result) in self._softmaxes:
            self._history[id(result)] = _Made(func, args, kwargs, tracked)
        return result

    def __exit__(self, *exc: object) -> None:
        """Leave, and forget what was underway."""
        self._history.clear()
        super().__exit__(*exc)

    # -- softmax, then a product

    def _attend(self, probabilities: Tensor) -> Tensor:
        """What multiplies the values in place of these probabilities."""
        call = self._calls + 1
        if not self.survey and call not in self.removed:
            return probabilities
        columns = self._columns(probabilities)
        scores = _scores(self._softmax_of(probabilities))
        if self.survey:
            best = scores.amax(-1, keepdim=True)
            self._note((scores > best - MASKED)[..., :columns], scores.shape[:-2])
            return probabilities
        removed = self._placed(call, scores.shape[:-2], (scores.shape[-2], columns), scores.device)
        sinks = scores.shape[-1] - columns
        return self._again(probabilities, torch.nn.functional.pad(removed, (0, sinks)))

    def _again(self, made: Tensor, removed: Tensor) -> Tensor:
        """The same as was made, from a softmax without these edges."""
        func, args, kwargs, of = self._history[id(made)]
        if of is not None:
            return func(*with_operand(args, of, self._again(of, removed)), **kwargs)  # type: ignore[no-any-return]
        scores = _scores(self._history[id(made)])
        hidden = scores.masked_fill(removed, -torch.inf)
        left, best = (each.amax(-1, keepdim=True) for each in (hidden, scores))
        blind = left < best - MASKED
        hidden = torch.where(blind, scores, hidden)
        given = with_operand(args, scores, hidden)
        named = {name: hidden if each is scores else each for name, each in kwargs.items()}
        found: Tensor = func(*given, **named)
        return found.masked_fill(blind, 0.0)

    def _softmax_of(self, probabilities: Tensor) -> _Made:
        made = self._history[id(probabilities)]
        while made.of is not None:
            made = self._history[id(made.of)]
        return made

    def _columns(self, probabilities: Tensor) -> int:
        """How many columns of the softmax are keys; a sink may follow them, which is cut off."""
        softmax = self._softmax_of(probabilities)
        shape = _scores(softmax).shape
        if _axis(softmax) not in (-1, len(shape) - 1):
            msg = "the softmax of its attention is not over the last axis of the scores"
            raise _UnknownScores(msg)
        made, count = self._history[id(probabilities)], shape[-1]
        while made.of is not None:
            if made.func is Tensor.__getitem__:
                count = _kept_columns(made)
            made = self._history[id(made.of)]
        return count

    # -- fused kernels

    def _weights(self, query: Tensor, key: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        call = self._calls  # whose kernel has just run
        if call not in self.removed:
            return super()._weights(query, key, mask, causal)
        mask, blind = self._masked(call, query, key, mask, causal)
        return probabilities_of(query, key, mask).masked_fill(blind, 0.0)

    def _fused_kernel(self, call: FusedCall) -> Tensor:
        number = self._calls + 1
        query, key, _, mask, _, causal, *_ = call
        if self.survey:
            self._note(_visible(query, key, mask, causal), query.shape[:-2])
        if number not in self.removed:
            return super()._fused_kernel(call)
        mask, blind = self._masked(number, query, key, mask, causal)
        output = super()._fused_kernel(call._replace(mask=mask, causal=False))
        return output.masked_fill(blind, 0.0)

    def _masked(
        self, call: int, query: Tensor, key: Tensor, mask: Tensor | None, causal: bool
    ) -> tuple[Tensor, Tensor]:
        """The mask without these edges, and ``[…, query, 1]``: the rows that have none left.

        Those are masked as before: a kernel may give NaN where nothing is left to read.
        """
        size = (query.size(-2), key.size(-2))
        removed = self._placed(call, query.shape[:-2], size, query.device)
        visible = _visible(query, key, mask, causal)
        blind = removed.any(-1, keepdim=True) & ~(visible & ~removed).any(-1, keepdim=True)
        removed = removed & ~blind
        if mask is not None and mask.dtype != torch.bool:
            return torch.where(removed, -torch.inf, mask), blind
        return visible & ~removed, blind

    # -- both

    def _note(self, visible: Tensor, lead: Sequence[int]) -> None:
        """Keep which keys each query sees; ``lead`` are the axes of items and heads."""
        heads, size = prod(lead), visible.shape[-2:]
        whole = visible.expand(*lead, *size) if visible.dim() > 2 else visible[None]
        each = whole.reshape(-1, *size)
        if bool((each != each[:1]).any()):
            msg = (
                f"scores of some heads lie more than {MASKED:,.0f} below the best of their row, as "
                "those of masked edges do: which edges exist can't be determined"
            )
            raise _UnknownScores(msg)
        self.calls.append((heads, each[0].cpu()))

    def _placed(
        self, call: int, lead: Sequence[int], size: tuple[int, int], device: torch.device
    ) -> Tensor:
        """The edges to remove, laid out as the scores are; there are none in the padding."""
        if size != self.sizes[call] or prod(lead) % self.batch:
            msg = (
                f"the model computed {size[0]} × {size[1]} scores where "
                "{} × {} were expected: edges can't be identified".format(*self.sizes[call])
            )
            raise CaptureError(msg)
        blocks, heads = self.removed[call], prod(lead) // self.batch
        single = any(block is not None and block.dim() > 2 for block in blocks)
        whole = torch.zeros(self.batch, heads if single else 1, *size, dtype=torch.bool)
        for item, block in enumerate(blocks):
            if block is not None:
                whole[item, :, : block.shape[-2], : block.shape[-1]] = block
        whole = whole.to(device)
        if tuple(lead) == (self.batch, heads):
            return whole
        return whole.expand(self.batch, heads, *size).reshape(*lead, *size)


def _scores(softmax: _Made) -> Tensor:
    found: Tensor = softmax.args[0] if softmax.args else softmax.kwargs["input"]
    return found


def _axis(softmax: _Made) -> Any:
    return softmax.kwargs["dim"] if "dim" in softmax.kwargs else softmax.args[1]


def _kept_columns(cut: _Made) -> int:
    """How many columns a call of ``[]`` keeps, if they are the first ones and rows stay."""
    before, index = cut.of, cut.args[1]
    last = index[-1] if isinstance(index, tuple) and index else None
    if isinstance(before, Tensor) and isinstance(last, slice):
        kept = range(before.shape[-1])[last]
        if kept == range(len(kept)) and before[..., last].shape == before[index].shape:
            return len(kept)
    msg = "it takes its attention apart between softmax and values (attention in windows?)"
    raise _UnknownScores(msg)


def _visible(query: Tensor, key: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """Which keys each query sees in a fused kernel, ``[…, query, key]``."""
    size = (query.size(-2), key.size(-2))
    if mask is None:
        every = torch.ones(size, dtype=torch.bool, device=query.device)
        return every.tril() if causal else every
    if mask.dtype != torch.bool:
        mask = mask > mask.amax(-1, keepdim=True) - MASKED
    return mask.expand(*mask.shape[:-2], *size)
