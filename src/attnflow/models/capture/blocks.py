"""Following what attention averaged through its block: projection, scales, residual, norm.

After a site's output the model usually multiplies by the output projection, perhaps scales (a norm
behind the block, a learned layer scale), adds the residual stream, and in post-norm models applies
a layer norm. `BlockTracker` sees every call of torch that follows a site and notes these, by
following the very tensors. What it does not recognise it does not follow: then parts are missing,
and edge rules that need them refuse.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import Tensor

from attnflow.models.capture.readout import ReadoutTracker
from attnflow.models.capture.sites import Norm, Site

UNCHANGED = {  # what may stand between two steps without changing any number
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
        """Note the output projection and what it gave; ``packed`` says that it was quantised."""
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
            # What was computed since is no residual stream: the MLP runs beside the attention.
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
