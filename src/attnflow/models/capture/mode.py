"""Reading attention out of a model that is running, without touching the model.

`Capture` is a torch-function mode: while it is entered, it sees every call of torch that the model
makes in this thread, and recognises attention in two shapes: a fused kernel
(`F.scaled_dot_product_attention`, also inside `nn.MultiheadAttention`), and a softmax whose result,
after dropout, casts and views, multiplies something. The model gets no hook, no other
configuration and, unless gradients are requested, exactly the same results: a fused kernel is
called unchanged, and its probabilities are computed separately.
"""

from __future__ import annotations

import inspect
from contextlib import AbstractContextManager, nullcontext
from types import FunctionType
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import Tensor
from torch.overrides import TorchFunctionMode

from attnflow.errors import CaptureError
from attnflow.models.capture.blocks import UNCHANGED, BlockTracker, SeenReadout, weights_of
from attnflow.models.capture.copies import Forward
from attnflow.models.capture.probabilities import FusedCall, give_sink_to_self, probabilities_of
from attnflow.models.capture.spec import CaptureSpec, Site
from attnflow.models.capture.windows import Read, thinned

HEADS_FIRST = 4  # axes: [batch, head, query, key]
BLOCK = 1 << 20  # entries of [batch, head, query, key] held at a time where heads are fused

SOFTMAX = {F.softmax, torch.softmax, Tensor.softmax}
PRODUCTS = {torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm}


class Capture(TorchFunctionMode):
    """A context in which the attention of any model that runs in this thread is kept.

    >>> import torch
    >>> encoder = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    >>> with torch.no_grad(), Capture() as seen:
    ...     output = encoder(torch.zeros(1, 3, 8))
    >>> seen.sites[0].probabilities.shape
    torch.Size([1, 2, 3, 3])
    """

    def __init__(self, spec: CaptureSpec | None = None, batch: int = 1) -> None:
        super().__init__()
        self.spec = spec or CaptureSpec()
        self.batch = batch  # for models that flatten batch and heads into one axis
        self.sites: list[Site] = []
        self._calls = 0
        self._block = BlockTracker()
        self._paused = False
        # Tensors on their way from a softmax to a product, by id. They are held, so that no id is
        # used twice.
        self._softmaxes: dict[int, tuple[Tensor, Tensor, bool]] = {}

    def __exit__(self, *exc: object) -> None:
        """Leave, and forget what was underway."""
        self._softmaxes.clear()
        self._block.clear()
        super().__exit__(*exc)  # type: ignore[no-untyped-call]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """See one call of torch; the mode is off inside, so this never sees its own calls."""
        kwargs = kwargs or {}
        if self._paused:
            return func(*args, **kwargs)
        if func is F.scaled_dot_product_attention:
            return self._fused_kernel(FusedCall.of(*args, **kwargs))
        if func is F.multi_head_attention_forward:
            return self._multi_head_attention(func, args, kwargs)
        result = func(*args, **kwargs)
        if func in SOFTMAX:
            self._softmax(result)
        elif self._softmaxes:
            self._follow(func, args, result)
        if self._block.active:
            self._block.follow(func, args, kwargs, result)
        return result

    # -- softmax, then a product

    def _softmax(self, probabilities: Tensor) -> None:
        # Attention is softmax, then product, before the next softmax: older ones are forgotten.
        self._softmaxes.clear()
        if probabilities.dim() >= HEADS_FIRST - 1:
            self._on_tape(probabilities)
            self._softmaxes[id(probabilities)] = (probabilities, probabilities, False)

    def _tracked(self, func: Any, args: Any) -> Tensor | None:
        """What is on its way from a softmax to a product, among the operands of a call."""
        operands = operands_of(args) if func is torch.einsum else args[:1]
        return next((each for each in operands if id(each) in self._softmaxes), None)

    def _follow(self, func: Any, args: Any, result: Any) -> None:
        tracked = self._tracked(func, args)
        if tracked is None:
            return
        _, root, sink = self._softmaxes[id(tracked)]
        if func in UNCHANGED:
            if result.numel() == tracked.numel():
                self._softmaxes[id(result)] = (result, root, sink)
        elif func is Tensor.__getitem__:
            # Where a column was cut off, its attention went to a learned sink and not to a token.
            sink = sink or result.shape[-1] < tracked.shape[-1]
            self._softmaxes[id(result)] = (result, result, sink)
        elif func in PRODUCTS or func is torch.einsum:
            factors = args[1:] if func is not torch.einsum else operands_of(args)
            value = next((a for a in factors if a is not tracked), None)
            self._softmaxes.clear()
            self._product(root, value, result, sink=sink)

    def _product(
        self, probabilities: Tensor, value: Tensor | None, output: Tensor, *, sink: bool
    ) -> None:
        if not self._is_wanted():
            return
        leaf = probabilities
        kept = self._four_axes(probabilities if self.spec.gradients else probabilities.detach())
        if self.spec.queries is not None:
            kept = kept[:, :, list(self.spec.queries)]
        rows, sums = self._finish(kept, sink=sink)
        self._keep(Site(rows, sums, probabilities.dtype, sink=sink), value, output, leaf)

    # -- fused kernels

    def _multi_head_attention(self, func: Any, args: Any, kwargs: Any) -> Any:
        # Torch functions called inside this one are hidden from a mode. So the same code is run
        # with another global: the fused kernel it calls is the one that captures.
        call = inspect.signature(func).bind(*args, **kwargs)
        call.apply_defaults()
        weights, average = call.arguments["need_weights"], call.arguments["average_attn_weights"]
        call.arguments["need_weights"] = False
        seen: list[Any] = []

        def kernel(*args: Any) -> Tensor:  # query, key, value, mask, dropout, whether causal
            seen[:] = args
            return self._inner_kernel(*args)

        own = {"scaled_dot_product_attention": kernel, "has_torch_function": lambda _: False}
        scope = {**func.__globals__, **own}
        copy = FunctionType(func.__code__, scope, func.__name__, func.__defaults__)
        before = len(self.sites)
        with self._inside():
            output, _ = copy(*call.args, **call.kwargs)
        if self.spec.blocks and len(self.sites) > before:
            weight, bias = (call.arguments[f"out_proj_{part}"] for part in ("weight", "bias"))
            self._block.project(weight, bias, output)
        if not weights:
            return output, None
        attention = self._weights(seen[0], seen[1], seen[3], seen[5])
        attention = attention.mean(dim=1) if average else attention
        return output, attention if call.arguments["query"].dim() > 2 else attention.squeeze(0)

    def _inside(self) -> AbstractContextManager[object]:
        """What is entered while code of torch runs that calls torch; nothing of it is seen here."""
        return nullcontext()

    def _inner_kernel(self, *args: Any) -> Tensor:
        """A fused kernel that such code calls."""
        return self._fused_kernel(FusedCall.of(*args))

    def _weights(self, query: Tensor, key: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        """The probabilities that `F.multi_head_attention_forward` returns on request."""
        return probabilities_of(query, key, mask, causal)

    def _fused_kernel(self, call: FusedCall) -> Tensor:
        each = call.for_each_head()
        if self.spec.gradients and self.spec.queries is not None:
            return self._chosen_rows(each)
        if self.spec.gradients:
            probabilities = each.probabilities()
            self._on_tape(probabilities)
            output = F.dropout(probabilities, call.dropout).to(call.value.dtype) @ each.value
            self._product(probabilities, each.value, output, sink=False)
            return output
        output = call.run()
        if self._is_wanted():
            with torch.no_grad():
                rows, sums = self._beside(each)
            self._keep(Site(rows, sums, call.query.dtype), each.value, output, None)
        return output

    def _chosen_rows(self, call: FusedCall) -> Tensor:
        """A fused kernel with only the probabilities of some rows on the tape.

        What these rows read is computed from them; all others cost no map.
        """
        output = call.run()
        chosen = list(self.spec.queries or ())
        probabilities = call.probabilities(chosen)
        self._on_tape(probabilities)
        own = F.dropout(probabilities, call.dropout).to(call.value.dtype) @ call.value
        output = output.index_copy(-2, torch.tensor(chosen, device=output.device), own)
        if self._is_wanted():
            rows, sums = self._finish(self._four_axes(probabilities), sink=False)
            self._keep(Site(rows, sums, call.query.dtype), call.value, output, probabilities)
        return output

    def _beside(self, call: FusedCall) -> tuple[Tensor, Tensor]:
        """The probabilities a fused kernel did not show, some rows at a time."""
        query, count = call.query, call.query.size(-2)
        rows = range(count) if self.spec.queries is None else list(self.spec.queries)
        row_size = max(1, query.numel() // (count * query.size(-1))) * call.key.size(-2)
        step = len(rows) if self.spec.fuse is None else max(1, BLOCK // row_size)
        blocks = [
            self._finish(self._four_axes(call.probabilities(rows[i : i + step])), sink=False)
            for i in range(0, len(rows), step)
        ]
        if len(blocks) == 1:
            return blocks[0]
        return torch.cat([b for b, _ in blocks], dim=-2), torch.cat([s for _, s in blocks], dim=-1)

    # -- attention in windows, which a module returns itself

    def keep_windows(self, read: Read, width: int) -> Any:
        """Run a module that attends in windows, and keep its maps of the first positions."""
        self._paused = True  # its pieces are not maps
        try:
            output, rows, sums = read(lambda attention: self._finish(attention, sink=False))
        finally:
            self._paused = False
        if self._is_wanted():
            rows, sums = rows[..., :width, :width], sums[..., :width]
            if self.spec.queries is not None:
                chosen = list(self.spec.queries)
                rows, sums = rows[..., chosen, :], sums[..., chosen]
            self._keep(Site(rows, sums, output[0].dtype), None, output[0], None)
        return output

    # -- linear layers that torch does not show

    def project(self, forward: Forward, x: Tensor) -> Any:
        """Run a packed linear layer, and note its weights where it is the output projection."""
        if not self._block.is_output(x):
            return self._block.made(forward(x))
        self._paused = True
        try:
            result = forward(x)
            self._block.project(*weights_of(forward, x), result, packed=True)
        finally:
            self._paused = False
        return result

    # -- what is kept

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

        Where more than attention is kept, a sink's share stays out of the rows: no token reads it.
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


def operands_of(args: Any) -> Any:
    """The operands of an einsum, which may be given as a list."""
    operands = args[1:]
    return operands[0] if len(operands) == 1 else operands


def with_operand(args: Any, old: Tensor, new: Tensor) -> Any:
    """The arguments of a call with one tensor replaced; those of an einsum may be in a list."""

    def put(each: Any) -> Any:
        if isinstance(each, list | tuple) and any(part is old for part in each):
            return [new if part is old else part for part in each]
        return new if each is old else each

    return tuple(map(put, args))
