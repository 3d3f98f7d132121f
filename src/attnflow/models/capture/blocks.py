"""Following what attention averaged through its block and, after the last one, to the logits.

After a site's output the model usually multiplies by the output projection, perhaps scales (a norm
after the block, a learned layer scale), adds the residual stream, and in post-norm models applies
a layer norm. `BlockTracker` sees every call of torch that follows a site and notes these, by
following the tensors themselves. `ReadoutTracker` goes on after the last block: final norm and
projection to logits. What is not recognised is not followed: then parts are missing, and edge rules
that need them refuse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import Tensor

from attnflow.models.capture.copies import Forward, copied
from attnflow.models.capture.spec import Norm, Site
from attnflow.models.outputs import balanced_logit
from attnflow.records import Readout
from attnflow.records.arrays import to_numpy

if TYPE_CHECKING:
    from attnflow.models.capture.mode import Capture

Project = Callable[[Forward, Tensor], Any]
ROWS = 4096  # of a projection that are held in float64 at a time


def with_projections_read(network: Any, project: Project) -> Any:
    """The network; with packed linear layers, a copy in which ``project`` runs these.

    Linear layers of packages that quantise multiply by packed weights, in kernels that torch does
    not show. What they do is read off by running them (`weights_of`). A layer that also rounds its
    input gives another output than these weights do; how far off it may be is decided where the
    block is taken apart.
    """
    names = {
        f"{type(network).__name__}.{name}"
        for name, module in network.named_modules()
        if _is_packed(module)
    }

    def watch(name: str, forward: Forward) -> Forward:
        if name not in names:
            return forward
        return lambda x, *args, **kwargs: (
            forward(x, *args, **kwargs) if args or kwargs else project(forward, x)
        )

    return copied(network, watch) if names else network


def weights_of(forward: Forward, like: Tensor) -> tuple[Tensor, Tensor]:
    """The weight ``[output, input]`` and the bias of a linear layer that reads such inputs.

    For the identity it gives its weights as it uses them, for zeros its bias.
    """
    width = like.shape[-1]
    with torch.no_grad():
        bias = forward(like.new_zeros(1, width))[0]
        return (forward(torch.eye(width, dtype=like.dtype, device=like.device)) - bias).T, bias


def _is_packed(module: torch.nn.Module) -> bool:
    sized = hasattr(module, "in_features") and hasattr(module, "out_features")
    return sized and type(module).forward is not torch.nn.Linear.forward


@dataclass(frozen=True, eq=False)
class SeenReadout:
    """How logits were read off the residual stream.

    Attributes:
        weight: ``[output, model dimension]``: the projection.
        bias: What the projection adds, or ``None``.
        logits: What it gave.
        scale: ``[model dimension]``: the norm's weight, or ``None`` for ones.
        shift: ``[model dimension]``: what the norm adds, or ``None``.
        factor: ``[…, position, 1]``: what the norm multiplies a position by; ``None`` without one.
        centred: Whether the norm takes the mean away.
    """

    weight: Tensor
    bias: Tensor | None
    logits: Tensor
    scale: Tensor | None
    shift: Tensor | None
    factor: Tensor | None
    centred: bool


class ReadoutTracker:
    """What happens to a residual stream, up to the first projection."""

    def __init__(self) -> None:
        self.found: SeenReadout | None = None
        self._held: dict[int, Tensor] = {}  # by id; held, so that no id is used twice
        self._norm: dict[str, Any] = {}

    def start(self, stream: Tensor) -> None:
        """Follow another stream."""
        self.forget()
        self._held = {id(stream): stream}

    def forget(self) -> None:
        """Nothing is followed, and nothing was found."""
        self.found, self._norm = None, {}
        self._held.clear()

    def release(self) -> None:
        """Follow nothing any more; what was found stays."""
        self._held.clear()

    def follow(
        self, func: Any, args: Any, kwargs: Any, result: Tensor, *, unchanged: bool, product: bool
    ) -> None:
        """See one call of torch; ``unchanged`` and ``product`` say what kind of call it is."""
        stream = next((each for each in args if id(each) in self._held), None)
        if stream is None:
            return
        if unchanged or (func is Tensor.__getitem__ and result.shape == stream.shape):
            self._held[id(result)] = result
        elif func is F.linear and len(args) > 1:
            bias = args[2] if len(args) > 2 else kwargs.get("bias")
            parts = {"scale": None, "shift": None, "factor": None, "centred": False, **self._norm}
            self.found = SeenReadout(args[1], bias, result, **parts)
            self._held.clear()
        elif func is F.layer_norm and not self._norm:
            self._layer_norm(*args, **kwargs)
            self._held = {id(result): result}
        elif product:
            self._multiply(stream, args, result)

    def _layer_norm(
        self,
        x: Tensor,
        _shape: Any,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        eps: float = 1e-5,
    ) -> None:
        variance = x.detach().double().var(-1, unbiased=False, keepdim=True)
        factor = (variance + eps).rsqrt()
        self._norm = {"scale": weight, "shift": bias, "factor": factor, "centred": True}

    def _multiply(self, stream: Tensor, args: Any, result: Tensor) -> None:
        """A step of an RMS norm: the factor of each position, or the norm's weight."""
        other = next((each for each in args if each is not stream), None)
        if not isinstance(other, Tensor) or self._norm.get("centred"):
            return
        if other.dim() == result.dim() and other.shape[-1] == 1 and "factor" not in self._norm:
            self._norm["factor"] = other
        elif other.numel() == result.shape[-1] == other.shape[-1] and "scale" not in self._norm:
            self._norm["scale"] = other.reshape(-1)
        else:
            return
        self._held = {id(result): result}


def mean_row(weight: Tensor) -> Tensor:
    """The mean of a projection's rows in float64; a vocabulary is long, so by parts."""
    total = torch.zeros(weight.shape[-1], dtype=torch.float64, device=weight.device)
    for start in range(0, len(weight), ROWS):
        total += weight.detach()[start : start + ROWS].double().sum(0)
    return total / len(weight)


UNCHANGED = {  # what may come between two steps without changing any number
    *(F.dropout, torch.dropout, Tensor.to, Tensor.type, Tensor.type_as, Tensor.float, Tensor.half),
    *(Tensor.view, Tensor.reshape, torch.reshape, Tensor.contiguous, Tensor.clone, Tensor.expand),
    *(Tensor.masked_fill, torch.masked_fill, Tensor.unsqueeze, Tensor.squeeze, Tensor.bfloat16),
    *(Tensor.transpose, torch.transpose, Tensor.permute, torch.permute, Tensor.flatten),
}
ADDITIONS = {
    *(torch.add, Tensor.add, Tensor.add_),
    *(Tensor.__add__, Tensor.__radd__, Tensor.__iadd__),
}
MULTIPLICATIONS = {
    *(torch.mul, Tensor.mul, Tensor.mul_),
    *(Tensor.__mul__, Tensor.__rmul__, Tensor.__imul__),
}


class BlockTracker:
    """What happens to the output of the site that was captured last."""

    def __init__(self) -> None:
        self._site: Site | None = None
        # The tensors that carry the output, the block and the sum, by id. They are held, so that
        # no id is used twice.
        self._outputs: dict[int, Tensor] = {}
        self._blocks: dict[int, Tensor] = {}
        self._sums: dict[int, Tensor] = {}
        self._made: set[int] = set()  # ids of what was computed since, such as an MLP's output
        self._before: tuple[Site, dict[int, Tensor]] | None = None  # the last site and its sums
        self.readout = ReadoutTracker()

    def start(self, site: Site, output: Tensor) -> None:
        """Follow another site."""
        before = None if self._site is None else (self._site, dict(self._sums))
        self.clear()
        self.readout.forget()
        self._site, self._outputs, self._before = site, {id(output): output}, before

    def clear(self) -> None:
        """Forget what was followed."""
        self._site = self._before = None
        self.readout.release()
        self._made.clear()
        for held in (self._outputs, self._blocks, self._sums):
            held.clear()

    @property
    def active(self) -> bool:
        """Whether a site is being followed."""
        return self._site is not None

    def is_output(self, tensor: Tensor) -> bool:
        """Whether a tensor carries the output of the site that is followed."""
        return id(tensor) in self._outputs

    def made(self, result: Any) -> Any:
        """Note that something was computed, by a call that torch does not show."""
        self._made.add(id(result))
        return result

    def project(
        self, weight: Tensor, bias: Tensor | None, block: Tensor, *, packed: bool = False
    ) -> None:
        """Note the output projection and its result; ``packed`` means that it was quantised."""
        if self._site is not None:
            self._site.projection, self._site.bias = weight, bias
            self._site.block, self._site.packed = block, packed
            self._outputs.clear()
            self._blocks = {id(block): block}

    def follow(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """See one call of torch."""
        if not isinstance(result, Tensor):
            return
        if not (func in UNCHANGED and args and id(args[0]) not in self._made):
            self._made.add(id(result))
        if self._outputs:
            self._follow_output(func, args, kwargs, result)
        elif self._blocks:
            self._follow_block(func, args, result)
        elif self._sums:
            self._follow_sum(func, args, kwargs, result)
        else:
            unchanged, product = func in UNCHANGED, func in MULTIPLICATIONS
            self.readout.follow(func, args, kwargs, result, unchanged=unchanged, product=product)

    def _follow_output(self, func: Any, args: Any, kwargs: Any, result: Tensor) -> None:
        if not any(id(each) in self._outputs for each in args):
            return
        if func in UNCHANGED:
            self._outputs[id(result)] = result
        elif func is F.linear:
            named = _named(("input", "weight", "bias"), args, kwargs)
            self.project(named["weight"], named.get("bias"), result)
        elif func is torch.addmm and len(args) == 3 and not kwargs:
            self.project(args[2].T, args[0], result)

    def _follow_block(self, func: Any, args: Any, result: Tensor) -> None:
        site = self._site
        tracked = next((each for each in args if id(each) in self._blocks), None)
        if tracked is None or site is None:
            return
        other = next((each for each in args if each is not tracked), None)
        if func in UNCHANGED:
            self._blocks[id(result)] = result
        elif func in MULTIPLICATIONS and isinstance(other, Tensor):
            self._scale(site, other, result)
        elif func in ADDITIONS and isinstance(other, Tensor):
            self._blocks.clear()
            # What was computed since is not the residual stream: the MLP runs in parallel.
            if id(other) not in self._made and other.shape == result.shape:
                site.residual, site.sum = other, result
                self._sums = {id(result): result}
                if self._before is not None and id(other) in self._before[1]:
                    _goes_on(self._before[0])  # no MLP in between

    def _scale(self, site: Site, factor: Tensor, result: Tensor) -> None:
        """A factor per dimension (a layer scale, a norm's weight), or per position (a norm's)."""
        width = result.shape[-1]
        if factor.dim() and factor.shape[-1] == width and factor.numel() == width:
            scale = factor.reshape(-1)
            site.scale = scale if site.scale is None else site.scale * scale
        elif factor.dim() == result.dim() and factor.shape[-1] == 1:
            site.row_scale = factor if site.row_scale is None else site.row_scale * factor
        else:
            self._blocks.clear()
            return
        site.block = result
        self._blocks = {id(result): result}

    def _follow_sum(self, func: Any, args: Any, kwargs: Any, result: Tensor) -> None:
        site = self._site
        if site is None or not any(id(each) in self._sums for each in args):
            return
        if func is F.layer_norm:
            named = _named(("input", "shape", "weight", "bias", "eps"), args, kwargs)
            site.norm = Norm(named.get("weight"), float(named.get("eps", 1e-5)))
        elif func in ADDITIONS:
            _goes_on(site)
            self._sums.clear()
            site.stream = result
            self.readout.start(result)
        elif func in UNCHANGED:
            self._sums[id(result)] = result


def _named(names: tuple[str, ...], args: Any, kwargs: Any) -> dict[str, Any]:
    """The arguments of a call by their names."""
    return {**dict(zip(names, args, strict=False)), **kwargs}


def _goes_on(site: Site) -> None:
    """A sum that is added to again is the residual stream of a pre-norm block.

    A norm that read it belongs to what comes next.
    """
    site.norm, site.goes_on = None, True


def make_readout(  # noqa: PLR0913 - what is read, and where
    capture: Capture,
    item: int,
    position: int,
    logits: Tensor,
    target: int,
    contrast: int | None,
    *,
    alone: bool = False,
) -> Readout | None:
    """The readout of one input; ``None`` where the final norm and projection were not found.

    ``logits`` are the model's own at the position: they must be what the projection gave. ``alone``
    means that labels are independent of each other (`balanced_logit`).
    """
    seen = capture.readout
    streams = [site.sum if site.stream is None else site.stream for site in capture.sites]
    if seen is None or any(each is None for each in streams):
        return None

    def row(tensor: Tensor | None) -> Tensor:
        if tensor is None:
            return torch.ones(1, dtype=torch.float64)
        by_item = tensor.detach().reshape(capture.batch, -1, tensor.shape[-1])
        return by_item[item, position].double()

    if seen.logits.shape[-1] != len(logits) or not torch.equal(row(seen.logits), logits.double()):
        return None

    def balanced(values: Tensor) -> Tensor:
        return balanced_logit(values.detach().double(), target, contrast, alone=alone)

    direction = _balanced_row(seen.weight.detach(), target, contrast, alone=alone)
    constant = 0.0 if seen.shift is None else float(seen.shift.detach().double() @ direction)
    if seen.bias is not None:
        constant += float(balanced(seen.bias))
    if seen.scale is not None:
        direction = direction * seen.scale.detach().double()
    if seen.centred:
        direction = direction - direction.mean()
    direction = direction * row(seen.factor).to(direction.device)
    return Readout(
        position,
        to_numpy(direction),
        constant,
        float(balanced(logits)),
        to_numpy(torch.stack([row(each) for each in streams])),
    )


def _balanced_row(weight: Tensor, target: int, contrast: int | None, *, alone: bool) -> Tensor:
    """What `balanced_logit` makes of a projection's rows, which may be many, without a copy."""
    row = weight[target].double()
    if contrast is not None:
        return row - weight[contrast].double()
    return row if alone else row - mean_row(weight)
