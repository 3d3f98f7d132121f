"""Running a network once and making activations of what was captured."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnflow.errors import AttnflowError, CaptureError, ModelError
from attnflow.models.capture.blocks import with_projections_read
from attnflow.models.capture.copies import copied
from attnflow.models.capture.differentiable import watched
from attnflow.models.capture.mode import Capture
from attnflow.models.capture.spec import CaptureSpec, Site
from attnflow.models.capture.windows import all_alike, as_tensor, sees_ahead, with_windows_read
from attnflow.models.checks.memory import check_memory
from attnflow.models.text.writing import plain_decoding
from attnflow.records import Activations, AttentionBlock, NotKept
from attnflow.records.arrays import row_tolerance
from attnflow.records.sparse import SparseLayer

CHANGES = "set_attention_type"  # the method of models that choose their attention by the text


def in_eval_mode(network: Any) -> Any:
    """The network without dropout: itself, or, where it is being trained, a copy in eval mode.

    The network that was given is never changed, so that other threads may train it or run it at the
    same time. BigBird changes itself for good where a text is short: it is run as a copy, too.
    """
    if any(each.training or hasattr(each, CHANGES) for each in network.modules()):
        return copied(network)
    return network


def generate(network: torch.nn.Module, inputs: dict[str, Any], length: int) -> list[int]:
    """The most likely tokens one by one, from what the network starts with.

    ``inputs`` may have options of `generate` of transformers, too, which change what is likely.
    """
    return generate_with_logits(network, inputs, length)[0]


def generate_with_logits(
    network: torch.nn.Module, inputs: dict[str, Any], length: int, most: int = 0
) -> tuple[list[int], Tensor | None]:
    """The same, with the logits of each step, ``[step, vocabulary]``, if there are at most so many.

    They are the network's own, before anything changes what is likely.
    """
    words = getattr(getattr(network, "config", None), "vocab_size", None) or most + 1
    some = length * words <= most
    plain = plain_decoding(network, inputs)
    options = {"max_new_tokens": length, "do_sample": False, "num_beams": 1}
    options |= {"num_return_sequences": 1, "return_dict_in_generate": some}
    options |= {"output_logits": True} if some else {}
    with torch.no_grad():
        made = called(in_eval_mode(network), {**plain, **inputs, **options}, "generate")
    logits = torch.cat(made.logits) if some else None
    return [int(token) for token in (made.sequences if some else made)[0]], logits


def called(
    network: torch.nn.Module,
    inputs: dict[str, Any],
    method: str = "forward",
    *,
    watch: bool = True,
) -> Any:
    """What the network returns; errors that it raises are given with the network's name.

    With ``watch`` a layer that passes on no gradient is refused, where gradients are enabled.
    """
    try:
        with watched(network) if watch else nullcontext(network) as running:
            call = running if method == "forward" else getattr(running, method)
            return call(**inputs)
    except (torch.cuda.OutOfMemoryError, AttnflowError):  # the latter: of what watches the run
        raise
    except (
        *(RuntimeError, ValueError, TypeError, LookupError, AttributeError),
        *(AssertionError, ArithmeticError, ImportError),
    ) as error:
        reason = str(error).strip().split("\n")[0][:300]
        msg = (
            f"{type(network).__name__} can't be run on this input; its own {method} fails "
            f"with {type(error).__name__}: {reason}"
        )
        raise ModelError(msg) from error


def run(
    network: torch.nn.Module,
    inputs: dict[str, Any],
    spec: CaptureSpec,
    attends: Sequence[int] = (),
    said: Tensor | None = None,
) -> tuple[Any, Capture]:
    """Call the network with its attention captured.

    ``attends`` is how often each layer attends, for what is read off a backward pass. ``said`` are
    the logits that the network is known to give, ``[position, vocabulary]``.
    """
    if spec.reads_backward:
        from attnflow.models.capture.towards import run_backward  # which reads what is here

        return run_backward(network, inputs, spec, attends, said)
    batch = next(iter(inputs.values())).shape[0]
    evaluated = in_eval_mode(network)
    if spec.gradients:
        rows = None if spec.queries is None else len(spec.queries)
        check_memory(network, inputs, device_of(network), rows)
    with torch.set_grad_enabled(spec.gradients), Capture(spec, batch) as capture:
        ids = inputs.get("input_ids")
        width = 0 if ids is None else ids.shape[-1]
        running = with_windows_read(evaluated, spec, width, capture.keep_windows)
        if spec.blocks:
            running = with_projections_read(running, capture.project)
        output = called(running, inputs)
    drop_pooling(capture, network)
    return output, capture


def drop_pooling(capture: Capture, network: Any) -> None:
    """Forget the attention of a head that pools all positions by one query: it is not a layer.

    In an encoder–decoder the only token of an answer attends so to the source.
    """
    if getattr(getattr(network, "config", None), "is_encoder_decoder", False):
        return
    sizes = [site.probabilities.shape[-2] for site in capture.sites]
    if len(sizes) > 1 and sizes[-1] == 1 < sizes[0]:
        capture.sites.pop()


def device_of(network: torch.nn.Module) -> torch.device:
    """Where inputs go: where the first parameter is that is anywhere.

    For a model spread over devices or offloaded to disk (accelerate), where its hook runs it.
    """
    there = getattr(getattr(network, "_hf_hook", None), "execution_device", None)
    if there is not None:
        return torch.device(there)
    devices = (p.device for p in network.parameters())
    return next((each for each in devices if each.type != "meta"), torch.device("cpu"))


def pad(items: Sequence[dict[str, list[int]]], pads: dict[str, int]) -> dict[str, Tensor]:
    """Lists of token numbers as one batch, padded on the right: no position moves."""
    width = max(len(item["input_ids"]) for item in items)
    return {
        name: torch.tensor([i[name] + [pads.get(name, 0)] * (width - len(i[name])) for i in items])
        for name in items[0]
    }


def expect(
    sites: Sequence[Site],
    count: int | None,
    size: tuple[int, int] | None,
    network: Any = None,
) -> None:
    """Refuse a capture that is not ``count`` maps of ``size``; ``None`` is any.

    The errors name the network's class, and what its layers are instead.
    """
    name = "the model" if network is None else type(network).__name__
    if not sites:
        raise CaptureError(_unseen(network, name))
    shapes = sorted({tuple(site.probabilities.shape[-2:]) for site in sites})
    if size is not None and shapes != [size]:
        msg = (
            f"attention of {name} has the shapes {shapes}; {size[0]} × {size[1]} was expected: "
            "attention in windows or over pooled positions makes no layered graph of tokens"
        )
        raise CaptureError(msg)
    if count is not None and len(sites) != count:
        msg = (
            f"{len(sites)} attention maps were seen; the configuration of {name} states {count} "
            "layers: models of which each layer attends once can be explained"
        )
        raise CaptureError(msg)


def _unseen(network: Any, name: str) -> str:
    kernel = getattr(getattr(network, "config", None), "_attn_implementation", None)
    if kernel in ("sdpa", "eager"):
        return (
            f"{name} ran, and computed no attention by a softmax over positions: its layers are of "
            "another kind (for instance state-space, recurrent, linear, Fourier or windowed)"
        )
    return (
        f"{name} ran, and no attention was seen (attn_implementation={kernel!r}). Load it with "
        "attn_implementation='sdpa' or 'eager'; a compiled model has its original in ._orig_mod"
    )


def cut(site: Site, item: int, queries: int, keys: int) -> Tensor | NotKept:
    """One item's probabilities without padding, checked: ``[head, query, key]``, or fused."""
    _check_sums(site, item, queries)
    held = site.probabilities
    if isinstance(held, NotKept):
        return NotKept((*held.shape[1:-2], queries, keys), site.ahead[item])
    if isinstance(held, SparseLayer):
        return as_tensor(held)[:queries, :keys]
    found: Tensor = held[item, ..., :queries, :keys].cpu()
    return found


def _check_sums(site: Site, item: int, queries: int) -> None:
    """Refuse what is not attention: rows that don't sum to 1."""
    sums = site.sums[item, ..., :queries]
    low, high = float(sums.min()), float(sums.max())
    kind = str(site.precision).removeprefix("torch.")
    tolerance = row_tolerance(kind)
    if not high <= 1 + tolerance or not (site.sink or low >= 1 - tolerance):
        msg = (
            f"what was captured is not attention: its rows sum to {low:g} … {high:g}, not to 1 "
            f"(within {tolerance:g} for {kind})"
        )
        raise CaptureError(msg)


def square_activations(capture: Capture, item: int, size: int) -> Activations:
    """One item's activations of a network whose every layer attends within one sequence."""
    layers = all_alike([_held(site, item, size) for site in capture.sites])
    blocks = None
    if capture.spec.blocks:
        blocks = tuple(cut_block(site, item, capture.batch, size, size) for site in capture.sites)
    calls = tuple(site.call for site in capture.sites)
    return Activations(layers, causal=is_causal(layers), blocks=blocks, calls=calls)


def chosen_rows(capture: Capture, queries: Sequence[int], size: int) -> Activations:
    """One input's activations of which some rows, one after the other, were kept."""
    layers = tuple(cut(site, 0, len(queries), size) for site in capture.sites)
    # As a square of the last positions, which shows what they see ahead.
    return Activations(layers, causal=is_causal([each[..., queries[0] :] for each in layers]))


def _held(site: Site, item: int, size: int) -> Tensor | SparseLayer | NotKept:
    """One item's probabilities, as sparse as they are held."""
    held = site.probabilities
    if not isinstance(held, SparseLayer):
        return cut(site, item, size, size)
    _check_sums(site, item, size)
    return held


def cut_block(site: Site, item: int, batch: int, queries: int, keys: int) -> AttentionBlock | None:
    """One item's attention block without padding; ``None`` where its projection was not found."""
    if site.values is None or site.projection is None or site.block is None:
        return None

    def rows(tensor: Tensor | None) -> Tensor | None:
        # Some layers flatten batch and positions.
        if tensor is None or tensor.numel() % (batch * tensor.shape[-1]):
            return None
        if tensor.dim() == 3 and tensor.shape[0] != batch == tensor.shape[1]:  # positions first
            tensor = tensor.transpose(0, 1)
        return _off(tensor.reshape(batch, -1, tensor.shape[-1])[item, :queries])

    output = rows(site.block)
    if output is None:
        return None
    norm = site.norm
    known = norm is not None or site.goes_on  # else the sum is read by something unknown
    width = output.shape[-1]
    weight = None
    if norm is not None:
        weight = torch.ones(width) if norm.weight is None else _off(norm.weight)
    return AttentionBlock(
        values=_off(site.values[item, :, :keys]),
        projection=_off(site.projection),
        output=output,
        bias=None if site.bias is None else _off(site.bias),
        scale=None if site.scale is None else _off(site.scale),
        row_scale=rows(site.row_scale),
        residual=rows(site.residual) if known else None,
        norm_weight=weight,
        norm_epsilon=0.0 if norm is None else norm.epsilon,
        packed=site.packed,
    )


def add_gradients(
    passes: Sequence[Activations], capture: Capture, target: Tensor, *, keep: bool = False
) -> list[Activations]:
    """The activations of a batch with the gradients of a scalar that sums over the batch."""
    gradients = capture.gradients(target, keep=keep)
    return [
        replace(
            each,
            gradients=tuple(
                _off(g[item, :, : layer.shape[-2], : layer.shape[-1]])
                for g, layer in zip(gradients, each.attention, strict=True)
            ),
        )
        for item, each in enumerate(passes)
    ]


def _off(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu()


def is_causal(layers: Sequence[Tensor | SparseLayer]) -> bool:
    """Whether no position attends to a later one; unknown, so false, for a single token."""
    return layers[0].shape[-1] > 1 and not any(map(sees_ahead, layers))
