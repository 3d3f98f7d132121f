"""Checks of given attention before any work: shape, finiteness, sign, row sums."""

from __future__ import annotations

from collections.abc import Sequence

from attnflow.errors import InputError
from attnflow.records import Array
from attnflow.records.arrays import (
    check_float,
    contiguous,
    double,
    namespace,
    on_cpu,
    precision,
    row_tolerance,
)

Attention = Array | Sequence[Array]
FOR_BATCHES = (
    "if this is a batch, take one item, [layer[0] for layer in attention], or give flow, rollout "
    "or raw its mask= or lengths="
)

EAGER = (
    "models give it when they are loaded with attn_implementation='eager' and called with "
    "output_attentions=True"
)


def split_layers(attention: Attention, *, batched: bool) -> tuple[Array, ...]:
    """One array a layer: ``[head, query, key]`` or ``[query, key]``, after any batch axis."""
    layers = tuple(_opened(attention))
    if not layers:
        msg = f"attention is empty; it needs at least one layer, and {EAGER}"
        raise InputError(msg)
    axes = ("batch", "head", "query", "key") if batched else ("head", "query", "key")
    fused = tuple(axis for axis in axes if axis != "head")
    for number, layer in enumerate(layers):
        check_float(f"attention[{number}]", layer)
        if layer.ndim not in (len(axes), len(fused)):
            msg = (
                f"attention[{number}] has {layer.ndim} axes; a layer is [{', '.join(axes)}], or "
                f"[{', '.join(fused)}] with heads fused"
            )
            if not batched and layer.ndim == len(axes) + 1:
                msg += f"; {FOR_BATCHES}"
            raise InputError(msg)
        if layer.shape[-1] != layer.shape[-2]:
            msg = f"attention[{number}] has shape {tuple(layer.shape)}; query and key must be equal"
            raise InputError(msg)
        if 0 in layer.shape:
            msg = f"attention[{number}] has shape {tuple(layer.shape)}; no axis may be empty"
            raise InputError(msg)
        if tuple(layer.shape) != tuple(layers[0].shape):
            msg = (
                f"attention[{number}] has shape {tuple(layer.shape)}, attention[0] "
                f"{tuple(layers[0].shape)}; all layers must agree"
            )
            raise InputError(msg)
    return layers


def _opened(attention: Attention) -> Attention:
    """The attention, if it is iterable; errors name the attribute that holds it."""
    held = [name for name in ("attentions", "encoder_attentions") if hasattr(attention, name)]
    kind = type(attention).__name__
    if held:
        msg = f"attention is {kind}; pass its .{held[0]}"
    elif attention is None:
        msg = f"attention is None; {EAGER}"
    elif not hasattr(attention, "__iter__"):
        msg = f"attention is {kind}; give an array, or one for each layer"
    else:
        return attention
    raise InputError(msg)


def check_probabilities(layers: Sequence[Array]) -> None:
    """Refuse NaN, infinities, negative weights and rows that do not sum to 1, naming the place."""
    tolerance = row_tolerance(precision(layers[0]))
    if on_cpu(layers[0]):
        from attnflow.edges.rows import are_sound  # importing numba is slow

        flat = [contiguous(layer).reshape(-1, layer.shape[-1]) for layer in layers]
        sound = are_sound(flat, tolerance)
    else:
        sound = [False] * len(layers)
    for number, layer in enumerate(layers):
        if not sound[number]:
            _check_layer(layer, number, tolerance)


def _check_layer(layer: Array, number: int, tolerance: float) -> None:
    sums = double(layer).sum(-1)
    if layer.min() >= 0 and abs(sums - 1).max() <= tolerance:  # false for NaN and infinities too
        return
    name = f"attention[{number}]"
    _refuse(name, layer, ~namespace(layer).isfinite(layer), "every weight must be finite")
    _refuse(name, layer, layer < 0, "no weight may be negative")
    rule = f"every row must sum to 1 within {tolerance:g} for {precision(layer)}"
    _refuse(f"the row sum of {name}", sums, abs(sums - 1) > tolerance, rule)


def _refuse(name: str, values: Array, wrong: Array, rule: str) -> None:
    if wrong.any():
        place = tuple(int(i) for i in namespace(wrong).argwhere(wrong)[0])
        msg = f"{name} at {list(place)} is {float(values[place]):g}; {rule}"
        raise InputError(msg)
