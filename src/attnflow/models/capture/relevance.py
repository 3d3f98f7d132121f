"""Running a network so that gradient × input is its layer-wise relevance.

`Relevance` is a torch-function mode, as `Capture` is: it sees every call of torch that a network
makes in this thread and answers some of them so that the output stays the same, and becomes linear
in the word embeddings and in all that is added on the way (Ali et al. 2022, Achtibat et al. 2024):

    attention       the probabilities are held fixed
    norms           the factor that scales a position is held fixed
    activations     the identity rule: y = x · (y/x), the ratio held fixed
    gates           of a product of two things that both depend on the input, each has half;
                    one that scales whole positions is held fixed

What is added (biases, positions, token types) is made a leaf, so that its share can be counted.
Then the output is the sum of all leaves times their gradients; where it is not, the network does
something that the rules don't know, and `Relevance.propagate` refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from numbers import Real
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import Tensor
from torch.nn import Parameter
from torch.overrides import TorchFunctionMode

from attnflow.errors import ModelError
from attnflow.models.capture.backward import BackwardCapture, WordTable
from attnflow.models.capture.blocks import ADDITIONS, MULTIPLICATIONS
from attnflow.models.capture.copies import Forward, copied
from attnflow.models.capture.mode import SOFTMAX
from attnflow.models.capture.spec import CaptureSpec

ROOTS = {torch.rsqrt, Tensor.rsqrt, torch.sqrt, Tensor.sqrt}  # of norms: variance to deviation
# Hand-written GELUs multiply by these: held fixed, they are the identity rule.
FACTORS = {torch.sigmoid, Tensor.sigmoid, F.sigmoid, torch.erf, Tensor.erf, F.softplus}
INVERSES = {torch.reciprocal, Tensor.reciprocal, Tensor.__rtruediv__, Tensor.__rdiv__}
FIXED = SOFTMAX | ROOTS | FACTORS | INVERSES
POWERS = {torch.pow, Tensor.pow, Tensor.__pow__}
ACTIVATIONS = {
    *(F.gelu, F.silu, F.relu, torch.relu, Tensor.relu, F.relu6, F.leaky_relu, F.elu, F.mish),
    *(F.hardswish, torch.tanh, Tensor.tanh, F.tanh),
    *(torch.square, Tensor.square, torch.clamp, Tensor.clamp, Tensor.clamp_min, Tensor.clamp_max),
    *POWERS,
}
GATES = {F.silu}
TIGHT = {"cuda"}  # where less memory is worth more work
TANH = {torch.tanh, Tensor.tanh, F.tanh}
SUBTRACTIONS = {torch.sub, Tensor.sub, Tensor.__sub__, Tensor.__rsub__, torch.rsub}
IN_PLACE = {Tensor.add_, Tensor.__iadd__, Tensor.sub_, Tensor.__isub__}
DIVISIONS = {torch.div, Tensor.div, Tensor.__truediv__, Tensor.div_, Tensor.__itruediv__}
# How a tensor's shape is read, say.
ATTRIBUTE = type(Tensor.shape.__get__)  # type: ignore[attr-defined] # of the class, it is no Size
JOINS = {torch.cat, torch.concat, torch.concatenate, torch.stack}

# Modules whose functions torch does not show; elementwise, and 0 at 0.
OPAQUE_ACTIVATIONS = ("BloomGelu", "XIELUActivation")

TOLERANCE = 1e-3  # of the largest of what must add up; float32 rounds in every layer
HALF_TOLERANCE = 5e-2
HALF = (torch.float16, torch.bfloat16)


def with_activations_seen(network: Any) -> Any:
    """The network; with activations that torch does not show, a copy that follows the rule there.

    The copy is only for `Relevance`.
    """
    names = {
        f"{type(network).__name__}.{name}"
        for name, module in network.named_modules()
        if type(module).__name__ in OPAQUE_ACTIVATIONS
    }

    def watch(name: str, forward: Forward) -> Forward:
        if name not in names:
            return forward

        def follow(x: Tensor) -> Tensor:
            with torch.no_grad():
                y = forward(x)
            return _Ratio.apply(x, y) if _depends(x) else y

        return follow

    return copied(network, watch) if names else network


class TogetherError(ModelError):
    """The items of a batch can't be separated well enough; each must run by itself."""


class Relevance(BackwardCapture):
    """A context in which a network is linear in its word embeddings and in what it adds."""

    fixed = True

    def __init__(
        self, spec: CaptureSpec | None = None, batch: int = 1, tables: Sequence[WordTable] = ()
    ) -> None:
        super().__init__(spec, batch, tables)
        self._tanh: dict[int, Tensor] = {}  # held, so that no id is used twice

    def __exit__(self, *exc: object) -> None:
        """Leave, and forget what was underway."""
        self._tanh.clear()
        super().__exit__(*exc)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer one call of torch; the mode is off inside."""
        kwargs = kwargs or {}
        if type(func) is ATTRIBUTE:
            return func(*args, **kwargs)
        if not _depend(args) and not _depend(kwargs.values()):
            # What is made only of parameters is a constant. A parameter itself stays one: modules
            # may be putting it elsewhere.
            result = super().__torch_function__(func, types, args, kwargs)
            return result if func is F.embedding else _without_tape(result, args)
        if kwargs:
            kwargs = {name: _constant(each) for name, each in kwargs.items()}
        return super().__torch_function__(func, types, _constants(args), kwargs)

    def _answer(self, func: Any, args: Any, kwargs: Any) -> Any:
        if func in ANSWERS:
            return ANSWERS[func](self, *args, **kwargs)
        if func in MULTIPLICATIONS:
            return _multiply(func, args, kwargs)
        if func in IN_PLACE and not _depends(args[0]):
            return self._add_in_place(func, args, kwargs)
        if func in ADDITIONS:
            return self._add(func, args, kwargs)
        if func in SUBTRACTIONS or func in IN_PLACE:
            return func(*self._with_leaves(args), **kwargs)
        if func in DIVISIONS:
            return func(*args[:1], *map(_held, args[1:]), **kwargs)
        if func in JOINS and args:
            return func(self._with_leaves(args[0]), *args[1:], **kwargs)
        if func in FIXED or (func in POWERS and _is_inverse(args)):
            with torch.no_grad():
                return func(*args, **kwargs)
        result = func(*args, **kwargs)
        if func in ACTIVATIONS:
            return self._activation(func, args, kwargs, result)
        return result

    def _inside(self) -> AbstractContextManager[object]:
        return _Inside(self)

    def _inner_kernel(self, *args: Any) -> Tensor:
        return F.scaled_dot_product_attention(*args)  # which is seen inside

    # -- what is added

    def _leaf(self, tensor: Tensor) -> Tensor:
        """What is added, as a leaf: the network's parameters are left alone."""
        self.reading.added.append(tensor.detach().requires_grad_())
        return self.reading.added[-1]

    def _with_leaves(self, parts: Sequence[Any]) -> list[Any]:
        """Parts of a sum with those as leaves that don't depend on the input, where others do."""
        depending = next((each for each in parts if _depends(each)), None)
        if depending is None:
            return list(parts)
        return [self._part(each, depending) for each in parts]

    def _part(self, part: Any, beside: Tensor) -> Any:
        if isinstance(part, Real) and not isinstance(part, bool) and part != 0:
            return self._leaf(torch.tensor(part, dtype=beside.dtype, device=beside.device))
        if isinstance(part, Tensor) and part.is_floating_point() and not part.requires_grad:
            return self._leaf(part)
        return part

    def _add(self, func: Any, args: Any, kwargs: Any) -> Any:
        if len(args) == 2 and not kwargs:
            scalar = any(not isinstance(each, Tensor) for each in args)
            if scalar and any(id(each) in self._tanh for each in args):
                # 1 + tanh(…): the factor of a GELU written out.
                return func(*args).detach()
        return func(*self._with_leaves(args), **kwargs)

    def _add_in_place(self, func: Any, args: Any, kwargs: Any) -> Any:
        """To something that does not depend on the input, and does from then on."""
        first, second, *rest = args
        if not _depends(second):
            return func(*args, **kwargs)
        held = first.clone()
        return func(first, second + (self._leaf(held) - held) * _sign(func), *rest, **kwargs)

    def _biased(self, product: Tensor, bias: Tensor | None) -> Tensor:
        if bias is None:
            return product
        return product + (self._leaf(bias) if product.requires_grad else bias)

    # -- calls that add

    def _linear(self, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return self._biased(F.linear(input, weight), bias)

    def _addmm(self, bias: Tensor, first: Tensor, second: Tensor, **more: Any) -> Tensor:
        if more:
            return torch.addmm(bias, first, second, **more)
        return self._biased(first @ second, bias)

    def _convolve(
        self,
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Tensor:
        func = (F.conv1d, F.conv2d)[weight.dim() - 3]
        spread = None if bias is None else bias.reshape(-1, *[1] * (weight.dim() - 2))
        return self._biased(func(input, weight, None, *args, **kwargs), spread)

    def _layer_norm(
        self,
        input: Tensor,
        normalized_shape: Any,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        eps: float = 1e-5,
        *_: Any,
    ) -> Tensor:
        axes = tuple(range(-len(tuple(normalized_shape)), 0))
        wide = _widened(input)
        centred = wide - wide.mean(axes, keepdim=True)
        scale = (centred.detach().square().mean(axes, keepdim=True) + eps).rsqrt()
        found = (centred * scale).to(input.dtype)
        return self._biased(found if weight is None else found * weight, bias)

    def _group_norm(
        self,
        input: Tensor,
        num_groups: int,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        eps: float = 1e-5,
    ) -> Tensor:
        grouped = _widened(input).unflatten(1, (num_groups, -1)).flatten(2)
        centred = grouped - grouped.mean(-1, keepdim=True)
        scale = (centred.detach().square().mean(-1, keepdim=True) + eps).rsqrt()
        found = (centred * scale).reshape(input.shape).to(input.dtype)
        shape = (-1, *[1] * (input.dim() - 2))
        found = found if weight is None else found * weight.reshape(shape)
        return self._biased(found, None if bias is None else bias.reshape(shape))

    def _batch_norm(  # noqa: PLR0913 - the signature of F.batch_norm
        self,
        input: Tensor,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Tensor:
        if training or running_mean is None or running_var is None:
            args = (input, running_mean, running_var, weight, bias, training, momentum, eps)
            return F.batch_norm(*args)
        shape = (-1, *[1] * (input.dim() - 2))
        factor = (running_var + eps).rsqrt()
        factor = factor if weight is None else factor * weight
        shift = -running_mean * factor if bias is None else bias - running_mean * factor
        return self._biased(input * factor.reshape(shape), shift.reshape(shape))

    def _activation(self, func: Any, args: Any, kwargs: Any, result: Tensor) -> Tensor:
        x = args[0] if args else kwargs["input"]
        if not (_depends(x) and isinstance(result, Tensor) and result.shape == x.shape):
            return result
        if x.device.type in TIGHT and func in GATES:
            # The widest states there are: of three that a gated MLP would keep, two suffice.
            found = _Ratio.apply(x, result.detach(), func)
            found.made_again = x.detach(), func
            return found
        found = _Ratio.apply(x, result.detach())
        if func in TANH:
            self._tanh[id(found)] = found
        return found

    # -- the backward pass

    def propagate(
        self, values: Tensor, expected: Sequence[float], name: str, *, keep: bool = False
    ) -> tuple[list[Tensor], float]:
        """Hand the targets of a batch back: the relevance of its inputs, and how far it is off.

        ``values`` has the target of each item, ``expected`` the model's own output. The
        inputs are ``[batch, position]`` for each sequence that comes in. What does not add up is
        refused.
        """
        reading = self.reading
        found = reading.backward(values.sum(), len(self.sites), keep=keep)
        leaves = zip([*reading.leaves, *reading.added], found, strict=True)
        products = [_product(*each) for each in leaves]
        total = float(torch.stack([each.sum().to(values.device) for each in products]).sum())
        inputs = products[: len(reading.inputs)]
        arrived = torch.stack([each.sum(-1).cpu() for each in inputs]).sum(0)
        passed = torch.stack([each.abs().sum(-1).cpu() for each in inputs]).sum(0)
        pairs = zip(values.detach().tolist(), expected, strict=True)
        gap = max(abs(total - sum(expected)), *(abs(value - own) for value, own in pairs))
        sizes = [
            max(abs(own), abs(own - float(part)), float(size))
            for own, part, size in zip(expected, arrived, passed, strict=True)
        ]
        half = any(each.dtype in HALF for each in reading.inputs.values())
        limit = HALF_TOLERANCE if half else TOLERANCE
        if not gap <= limit * min(sizes):
            if len(sizes) > 1:
                raise TogetherError
            msg = (
                f"relevance can't be followed through {name}: what its tokens and its biases have "
                f"is {total:.4g}, and the target {expected[0]:.4g} (allowed: {limit:.0e} of "
                f"{sizes[0]:.4g}), so that it does something that the rules don't know. Use "
                "method='integrated', or edges='gradient'"
            )
            raise ModelError(msg)
        return inputs, gap


class _Inside(TorchFunctionMode):
    """Another mode's view of calls inside a function that it answers."""

    def __init__(self, mode: Relevance) -> None:
        super().__init__()
        self.mode = mode

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """As the mode does."""
        return self.mode.__torch_function__(func, types, args, kwargs)


class _Ratio(torch.autograd.Function):
    """An activation by the identity rule: what comes back is multiplied by y/x, held fixed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, again: Any = None) -> Tensor:
        ctx.save_for_backward(x, y if again is None else None)
        ctx.again = again
        return y.view_as(y)

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> Any:
        x, y = ctx.saved_tensors
        y = ctx.again(x) if y is None else y
        return outputs[0] * (y / torch.where(x == 0, torch.ones_like(x), x)), None, None


class _Halves(torch.autograd.Function):
    """A product of which each factor has half of what comes back.

    The first may be made again, of a tensor that is kept anyway.
    """

    @staticmethod
    def forward(
        ctx: Any, first: Tensor, second: Tensor, of: Any = None, again: Any = None
    ) -> Tensor:
        ctx.save_for_backward(first if again is None else of, second)
        ctx.again = again
        return first * second

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> Any:
        first, second = ctx.saved_tensors
        first = first if ctx.again is None else ctx.again(first)
        half = outputs[0] / 2
        by_first = (half * second).sum_to_size(first.shape)
        return by_first, (half * first).sum_to_size(second.shape), None, None


def _product(leaf: Tensor, gradient: Tensor | None) -> Tensor:
    """Gradient × value, summed over the last axis, in float64."""
    if gradient is None:
        return torch.zeros(leaf.shape[:-1], dtype=torch.float64, device=leaf.device)
    return (leaf.detach().double() * gradient.double()).sum(-1)


def _widened(x: Tensor) -> Tensor:
    """In float32 at least, as torch's own norms compute."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _sign(func: Any) -> int:
    return -1 if func in (Tensor.sub_, Tensor.__isub__) else 1


def _rms_norm(
    _: Relevance,
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    axes = tuple(range(-len(tuple(normalized_shape)), 0))
    small = torch.finfo(input.dtype).eps if eps is None else eps
    wide = _widened(input)
    found = wide * (wide.detach().square().mean(axes, keepdim=True) + small).rsqrt()
    return (found if weight is None else found * weight).to(input.dtype)


def _normalize(
    _: Relevance,
    input: Tensor,
    p: float = 2.0,
    dim: int = 1,
    eps: float = 1e-12,
    out: None = None,
) -> Tensor:
    return input / input.detach().norm(p, dim, keepdim=True).clamp_min(eps)


def _gated_linear(_: Relevance, input: Tensor, dim: int = -1) -> Tensor:
    first, gate = input.chunk(2, dim)
    return first * gate.detach().sigmoid()


def _multiply(func: Any, args: Any, kwargs: Any) -> Any:
    """A product; of two things that depend on the input, each has half of what comes back."""
    if kwargs or len(args) != 2 or not all(map(_depends, args)):
        return func(*args, **kwargs)
    scales = [each.dim() == 0 or each.shape[-1] == 1 for each in args]
    if scales[0] != scales[1]:  # what scales whole positions is held fixed, as in norms
        args = [_held(each) if scale else each for each, scale in zip(args, scales, strict=True)]
        return func(*args)
    found = _Halves.apply(*args, *getattr(args[0], "made_again", ()))
    return args[0].copy_(found) if func is Tensor.mul_ else found


def _is_inverse(args: Any) -> bool:
    """Whether a power is one over something: a norm's scale, which is held."""
    return len(args) > 1 and isinstance(args[1], Real) and args[1] < 0


# These run for every call of torch: a parameter is recognised by its type, since
# `isinstance(…, Parameter)` is slow.


def _is_parameter(value: Any) -> bool:
    return type(value) is Parameter or (type(value) is not Tensor and isinstance(value, Parameter))


def _depends(value: Any) -> bool:
    """Whether something depends on the input, or on what was added to what does."""
    return isinstance(value, Tensor) and value.requires_grad and not _is_parameter(value)


def _depend(values: Iterable[Any]) -> bool:
    """Whether one of these does, which may stand in a list."""
    for each in values:
        if isinstance(each, list | tuple):
            if _depend(each):
                return True
        elif _depends(each):
            return True
    return False


def _without_tape(result: Any, args: Any) -> Any:
    """A result as a constant; an argument that is returned as it came is left alone."""
    if type(result) in (list, tuple):
        return type(result)(_without_tape(each, args) for each in result)
    if _depends(result) and not any(result is each for each in args):
        return result.detach()
    return result


def _held(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value


def _constants(values: Any) -> Any:
    """Arguments with parameters held fixed, which may stand in a list."""
    if not _hold_parameters(values):
        return values  # as it came: some are named tuples
    return type(values)(map(_constant, values))


def _constant(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return _constants(value)
    return value.detach() if isinstance(value, Tensor) and _is_parameter(value) else value


def _hold_parameters(values: Iterable[Any]) -> bool:
    for each in values:
        if isinstance(each, list | tuple):
            if _hold_parameters(each):
                return True
        elif isinstance(each, Tensor) and _is_parameter(each):
            return True
    return False


# Calls that are answered as a whole, by functions of the mode and of the call's arguments.
ANSWERS: dict[Any, Callable[..., Tensor]] = {
    F.linear: Relevance._linear,
    torch.addmm: Relevance._addmm,
    F.layer_norm: Relevance._layer_norm,
    F.batch_norm: Relevance._batch_norm,
    F.group_norm: Relevance._group_norm,
    F.conv1d: Relevance._convolve,
    F.conv2d: Relevance._convolve,
    F.normalize: _normalize,
    F.glu: _gated_linear,
    getattr(F, "rms_norm", None): _rms_norm,  # torch 2.3 has none
}
