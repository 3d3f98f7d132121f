"""What is kept of a model that is running: its attention, and what its blocks are made of."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from attnflow.errors import CaptureError
from attnflow.models.capture.blocks import BlockTracker
from attnflow.models.capture.probabilities import give_sink_to_self
from attnflow.models.capture.readout import SeenReadout
from attnflow.models.capture.sites import Site
from attnflow.models.capture.spec import CaptureSpec
from attnflow.models.capture.windows import thinned

HEADS_FIRST = 4  # [batch, head, query, key]


class Keeper(TorchFunctionMode):
    """The part of a `Capture` that keeps what it has recognised, as a `CaptureSpec` asks."""

    def __init__(self, spec: CaptureSpec | None = None, batch: int = 1) -> None:
        super().__init__()
        self.spec = spec or CaptureSpec()
        self.batch = batch  # for models that flatten batch and heads into one axis
        self.sites: list[Site] = []
        self._calls = 0
        self._block = BlockTracker()

    @property
    def readout(self) -> SeenReadout | None:
        """How logits were read off the last block's stream, where blocks were captured."""
        return self._block.readout.found

    def gradients(self, target: Tensor, *, keep: bool = False) -> tuple[Tensor, ...]:
        """The gradient of a scalar by the probabilities of each site, ``[batch, head, q, k]``.

        With ``keep`` the tape stays, for another scalar.
        """
        leaves = [site.leaf for site in self.sites]
        if not leaves or any(leaf is None for leaf in leaves):
            msg = "there is nothing to differentiate by: capture with CaptureSpec(gradients=True)"
            raise CaptureError(msg)
        found = torch.autograd.grad(
            target,
            leaves,  # type: ignore[arg-type]
            allow_unused=True,
            retain_graph=keep,
        )
        return tuple(
            self._rows_of(self._four_axes(torch.zeros_like(leaf) if grad is None else grad))
            for grad, leaf in zip(found, leaves, strict=True)
            if leaf is not None
        )

    def _rows_of(self, gradient: Tensor) -> Tensor:
        """The chosen rows, where the model made all of them."""
        chosen = self.spec.queries
        if chosen is None or gradient.shape[-2] == len(chosen):
            return gradient
        return gradient[:, :, list(chosen)]

    def gradients_of_last(self, target: Tensor) -> Tensor:
        """The gradient of a scalar by the probabilities of the last site, ``[batch, head, q, k]``.

        Nothing below the last layer is differentiated.
        """
        leaf = self.sites[-1].leaf
        if leaf is None:
            msg = "there is nothing to differentiate by: capture with CaptureSpec(gradients=True)"
            raise CaptureError(msg)
        (found,) = torch.autograd.grad(target, [leaf], allow_unused=True)
        return self._four_axes(torch.zeros_like(leaf) if found is None else found)

    def _is_wanted(self) -> bool:
        self._calls += 1
        return self.spec.layers is None or self._calls in self.spec.layers

    def _on_tape(self, probabilities: Tensor) -> None:
        if self.spec.gradients and torch.is_grad_enabled() and not probabilities.requires_grad:
            probabilities.requires_grad_(True)

    def _four_axes(self, attention: Tensor) -> Tensor:
        if attention.dim() >= HEADS_FIRST:
            return attention
        return attention.reshape(self.batch, -1, *attention.shape[1:])

    def _finish(self, attention: Tensor, *, sink: bool) -> tuple[Tensor, Tensor]:
        """Rows in float32 that sum to 1, heads fused; and what the rows summed to before.

        Where more than attention is kept, what a sink has stays out of the rows: nobody reads it.
        """
        rounded = attention.dtype in (torch.float16, torch.bfloat16)
        attention = attention.detach().to(torch.promote_types(attention.dtype, torch.float32))
        sums = attention.sum(-1)
        if sink and (self.spec.blocks or self.spec.gradients):
            pass
        elif sink:
            attention = give_sink_to_self(attention, sums)
        elif rounded:  # probabilities of half precision sum to 1 only roughly
            attention = attention / sums.clamp_min(torch.finfo(sums.dtype).tiny).unsqueeze(-1)
        return (attention if self.spec.fuse is None else self.spec.fuse(attention)), sums

    def _keep(self, site: Site, value: Tensor | None, output: Tensor, leaf: Tensor | None) -> None:
        if isinstance(site.probabilities, Tensor):
            site.probabilities = thinned(site.probabilities, self.spec)
        site.call = self._calls
        self.sites.append(site)
        if self.spec.gradients:
            site.leaf = leaf
        if self.spec.blocks and value is not None:
            site.values, site.output = self._four_axes(value), output
            self._block.start(site, output)
