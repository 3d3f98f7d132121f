"""Running a network so that gradient × input is its layer-wise relevance.

`Relevance` is a torch-function mode, as `Capture` is: it sees every call of torch that a network
makes in this thread and answers some of them so that the output stays the same, and becomes linear
in the word embeddings and in all that is added on the way (Ali et al. 2022, Achtibat et al. 2024):

    attention       the probabilities are held fixed
    norms           the factor that scales a position is held fixed
    activations     the identity rule: y = x · (y/x), the ratio held fixed
    gates           of a product of two things that both depend on the input, each has half

What is added (biases, positions, token types) is made a leaf, so that its share can be counted.
Then the output is the sum of all leaves times their gradients; where it is not, the network did
something else, and the measure refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import Tensor
from torch.nn import Parameter
from torch.overrides import TorchFunctionMode

from attnflow.errors import ModelError
from attnflow.models.capture.blocks import ADDITIONS, MULTIPLICATIONS
from attnflow.models.capture.mode import SOFTMAX
from attnflow.models.capture.probabilities import for_each_head, probabilities_of

ROOTS = {torch.rsqrt, Tensor.rsqrt, torch.sqrt, Tensor.sqrt}  # of norms: variance to deviation
# Hand-written GELUs multiply by these: held fixed, they are the identity rule.
FACTORS = {torch.sigmoid, Tensor.sigmoid, F.sigmoid, torch.erf, Tensor.erf}
FIXED = SOFTMAX | ROOTS | FACTORS
ACTIVATIONS = {
    *(F.gelu, F.silu, F.relu, torch.relu, Tensor.relu, F.relu6, F.leaky_relu, F.elu, F.mish),
    *(F.hardswish, torch.tanh, Tensor.tanh, F.tanh),
    *(torch.pow, Tensor.pow, Tensor.__pow__, torch.square, Tensor.square),
}
TANH = {torch.tanh, Tensor.tanh, F.tanh}


class Relevance(TorchFunctionMode):
    """A context in which a network is linear in its word embeddings and in what it adds."""

    def __init__(self) -> None:
        super().__init__()
        self.added: list[Tensor] = []
        self._tanh: dict[int, Tensor] = {}  # held, so that no id is used twice
        self._answers: dict[Any, Callable[..., Any]] = {
            F.multi_head_attention_forward: _refuse,
            F.scaled_dot_product_attention: _attend,
            F.linear: self._linear,
            torch.addmm: self._addmm,
            F.layer_norm: self._layer_norm,
            getattr(F, "rms_norm", None): _rms_norm,  # torch 2.3 has none
            F.embedding: self._embedding,
        }

    def __exit__(self, *exc: object) -> None:
        """Leave, and forget what was underway."""
        self._tanh.clear()
        super().__exit__(*exc)  # type: ignore[no-untyped-call]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer one call of torch; the mode is off inside."""
        kwargs = kwargs or {}
        if func in self._answers:
            return self._answers[func](*args, **kwargs)
        if func in MULTIPLICATIONS:
            return _multiply(func, args, kwargs)
        if func in ADDITIONS:
            return self._add(func, args, kwargs)
        result = func(*args, **kwargs)
        if func in FIXED:
            return result.detach()
        if func in ACTIVATIONS:
            return self._activation(func, args[0] if args else kwargs["input"], result)
        return result

    def _leaf(self, tensor: Tensor) -> Tensor:
        """What is added, as a leaf of its own: the network's parameters are left alone."""
        self.added.append(tensor.detach().requires_grad_())
        return self.added[-1]

    def _linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        product = F.linear(x, weight.detach())
        return product if bias is None else product + self._leaf(bias)

    def _addmm(self, bias: Tensor, first: Tensor, second: Tensor, **more: Any) -> Tensor:
        if more:
            return torch.addmm(bias, first, second, **more)
        return self._leaf(bias) + first @ second

    def _embedding(self, *args: Any, **kwargs: Any) -> Tensor:
        # Of words, too, before they are made leaves of their own; some models add in place.
        return self._leaf(F.embedding(*args, **kwargs)).clone()

    def _layer_norm(
        self,
        x: Tensor,
        shape: Any,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        eps: float = 1e-5,
    ) -> Tensor:
        axes = tuple(range(-len(tuple(shape)), 0))
        centred = x - x.mean(axes, keepdim=True)
        scale = (centred.detach().square().mean(axes, keepdim=True) + eps).rsqrt()
        found = centred * scale
        found = found if weight is None else found * weight.detach()
        return found if bias is None else found + self._leaf(bias)

    def _activation(self, func: Any, x: Tensor, result: Tensor) -> Tensor:
        if not (isinstance(x, Tensor) and x.requires_grad and result.shape == x.shape):
            return result
        ratio = result.detach() / torch.where(x == 0, torch.ones_like(x), x).detach()
        found = x * ratio
        if func in TANH:
            self._tanh[id(found)] = found
        return found

    def _add(self, func: Any, args: Any, kwargs: Any) -> Any:
        if len(args) == 2 and not kwargs:
            first, second = args
            scalar = next((a for a in args if not isinstance(a, Tensor)), None)
            if scalar is not None and any(id(a) in self._tanh for a in args):
                # 1 + tanh(…): the factor of a GELU written out.
                return func(*args).detach()
            if isinstance(first, Parameter) != isinstance(second, Parameter):
                leaves = (self._leaf(a) if isinstance(a, Parameter) else a for a in args)
                return torch.add(*leaves)
        return func(*args, **kwargs)


def _refuse(*_: Any, **__: Any) -> None:
    msg = (
        "method='lrp' can't be used here: the network attends inside nn.MultiheadAttention, whose "
        "parts can't be seen. Use method='integrated'"
    )
    raise ModelError(msg)


def _attend(  # noqa: PLR0913 - the arguments of torch's own function
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """A fused kernel by its probabilities, which are held fixed; nothing is dropped out."""
    key, value = for_each_head(query, key, value)
    with torch.no_grad():
        probabilities = probabilities_of(query, key, attn_mask, is_causal, scale)
    return probabilities.to(value.dtype) @ value


def _rms_norm(x: Tensor, shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Any:
    axes = tuple(range(-len(tuple(shape)), 0))
    small = torch.finfo(x.dtype).eps if eps is None else eps
    found = x * (x.detach().square().mean(axes, keepdim=True) + small).rsqrt()
    return found if weight is None else found * weight.detach()


def _multiply(func: Any, args: Any, kwargs: Any) -> Any:
    """A product; of two things that depend on the input, each has half of what comes back."""
    if kwargs or len(args) != 2 or not all(_depends(each) for each in args):
        return func(*args, **kwargs)
    first, second = args
    if first.shape != second.shape:
        return func(*args)
    return (first * second.detach() + first.detach() * second) / 2


def _depends(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad and not isinstance(value, Parameter)
