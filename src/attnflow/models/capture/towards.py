"""Edges towards a target: one forward pass, then a backward pass that is read.

`run_backward` runs a network so that `add_edges` can hand a target's value back through it, once
the target is known. For relevance the network also runs unchanged, without a tape: its own output
is what relevance must add up to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from attnflow.errors import ModelError
from attnflow.models.adapter import Aim
from attnflow.models.capture import run as network_run
from attnflow.models.capture.backward import BackwardCapture, EdgeReading, WordTable
from attnflow.models.capture.copies import Forward, copied
from attnflow.models.capture.differentiable import check_once
from attnflow.models.capture.mode import Capture
from attnflow.models.capture.relevance import (
    HALF,
    HALF_TOLERANCE,
    Relevance,
    with_activations_seen,
)
from attnflow.models.capture.spec import CaptureSpec
from attnflow.models.capture.windows import with_windows_read
from attnflow.models.checks.layers import Layers, given_states, layers_of, made_states, with_states
from attnflow.models.checks.memory import check_memory
from attnflow.models.checks.padding import once
from attnflow.records import Activations, Relevances

ROUNDING = 1e-3  # of the spread of logits
START, LONG = 256, 1024  # tokens that are run again unchanged, of texts with so many
REACHES = ("sliding_window", "attention_window", "window_size", "attention_chunk_size")
SIDES = {"input_ids": "get_encoder", "decoder_input_ids": "get_decoder"}


@dataclass(frozen=True, eq=False)
class ItemRelevance:
    """The relevance of one item of a batch, padding included.

    Attributes:
        inputs: ``[position]`` for each sequence that comes in.
        streams: ``[position]`` for all states of the residual stream, in the order in which they
            were made; empty where the layers were not found.
        value: The value that was handed back.
        gap: How far everything that it was handed to is from it.
    """

    inputs: list[Tensor]
    streams: list[Tensor]
    value: float
    gap: float

    @property
    def statistics(self) -> dict[str, float]:
        """What the value is made of: what arrived at inputs, and what was added on the way."""
        arrived = sum(float(each.sum()) for each in self.inputs)
        absorbed = self.value - arrived
        return {"value": self.value, "biases": absorbed, "conservation_gap": self.gap}


def run_backward(
    network: Any,
    inputs: dict[str, Any],
    spec: CaptureSpec,
    attends: Sequence[int],
    said: Tensor | None = None,
) -> tuple[Any, BackwardCapture]:
    """Call the network so that edges can be read off a backward pass.

    ``attends`` is how often each layer attends. Returns the network's own output. Where that is
    known (``said``) and the pass has the same, the network need not run once more for it.
    """
    batch = int(next(iter(inputs.values())).shape[0])
    check_memory(network, inputs, network_run.device_of(network), maps_only=True)
    running = with_windows_read(network_run.in_eval_mode(network), spec, 0, _never)
    plain = running
    check_once(running, lambda: network_run.called(running, inputs))

    def unchanged(given: dict[str, Any] = inputs) -> Any:
        with torch.no_grad():
            return network_run.called(plain, given)

    short = spec.relevance and said is None and _alike_everywhere(network)
    start = _start_of(inputs) if short else None
    output = unchanged() if spec.relevance and said is None and start is None else None
    tables, cut = word_tables(running, inputs)
    layers = None
    if spec.relevance or cut:
        layers = _find_layers(network, _first_item(start or inputs, batch), attends)
    if cut and layers is None:
        msg = f"the layers of {type(network).__name__} were not found: use edges='gradient'"
        raise ModelError(msg)
    kind = Relevance if spec.relevance else BackwardCapture
    capture = kind(spec, batch, tables)
    running = with_activations_seen(running) if spec.relevance else running
    to = [capture.reading]
    with torch.enable_grad(), capture:
        followed = running
        if layers is not None:
            watch = _watching(to, attends, items_first=layers.items_first, cut=cut)
            followed = copied(running, watch, layers.names)
        given = inputs if start is None else _kept_at_start(inputs)
        capture.output = network_run.called(followed, given, watch=False)
    if spec.relevance and said is not None:
        output = SimpleNamespace(logits=said[None])
        if not _same_logits(capture.output.logits, output.logits):
            output = unchanged()
    if start is not None:
        logits = capture.output.logits
        capture.output = SimpleNamespace(logits=logits[:, :-1])
        same = _same_logits(logits[:, -1:], unchanged(start).logits)
        output = SimpleNamespace(logits=logits[:, :-1].detach()) if same else unchanged()
    to.clear()  # the copy's modules and their methods hold each other, and would hold all of it
    network_run.drop_pooling(capture, network)
    _check_words(capture.reading, len(tables) + cut, network)
    return (output if spec.relevance else capture.output), capture


def _alike_everywhere(network: Any) -> bool:
    """Whether a network is known to do with a token far into a text what it does with the first.

    Code that is not transformers' own may do anything there, and attention in windows has an edge.
    """
    config = network.config.get_text_config()
    own = type(network).__module__.startswith("transformers.")
    return own and not any(getattr(config, name, None) for name in REACHES)


def _start_of(inputs: dict[str, Any]) -> dict[str, Any] | None:
    """The inputs of the first tokens of a long text, which is read from its start to its end.

    Their logits show whether a network with another backward pass still computes the same, for a
    small part of what running it once more on all of the text takes. ``None`` where that is not
    known: a model that reads ahead, too, is found out since it says something else.
    """
    rest = dict(inputs)
    if not isinstance(rest.pop("logits_to_keep", None), Tensor):
        return None
    rest.pop("use_cache", None)
    size = rest["input_ids"].shape if "input_ids" in rest else (0, 0)
    whole = all(isinstance(each, Tensor) and each.shape == size for each in rest.values())
    if not whole or size[0] != 1 or size[1] < LONG or not rest["attention_mask"].all():
        return None
    last = torch.tensor([START - 1], device=rest["input_ids"].device)
    start = {name: each[:, :START] for name, each in rest.items()}
    return {**inputs, **start, "logits_to_keep": last}


def _kept_at_start(inputs: dict[str, Any]) -> dict[str, Any]:
    """The inputs with the logits of one more position, the last of the first tokens."""
    kept = inputs["logits_to_keep"]
    return {**inputs, "logits_to_keep": torch.cat([kept, kept.new_tensor([START - 1])])}


def _same_logits(found: Tensor, said: Tensor) -> bool:
    """Whether logits are the same but for rounding, of which relevance allows more.

    In half precision a text of another length is rounded in other places.
    """
    if found.shape != said.shape:
        return False
    off, spread = (found.detach() - said).float(), float(said.float().std())
    if found.dtype in HALF:
        return bool((off.square().mean().sqrt() <= HALF_TOLERANCE * spread).item())
    return bool((off.abs().max() <= ROUNDING * spread).item())


def word_tables(network: Any, inputs: dict[str, Any]) -> tuple[list[WordTable], bool]:
    """The tables that words are looked up in, and whether the (first) input is not words."""
    paired = "decoder_input_ids" in inputs
    found = []
    for number, (name, side) in enumerate(SIDES.items()):
        if name in inputs:
            owner = getattr(network, side)() if paired else network
            found.append(WordTable(_embeddings(owner), inputs[name], number))
    return found, "input_ids" not in inputs


def _embeddings(owner: Any) -> Any:
    """The embeddings of a network or of one side, which may be a plain module, as FSMT's are."""
    if hasattr(owner, "get_input_embeddings"):
        return owner.get_input_embeddings()
    if hasattr(owner, "embed_tokens"):
        return owner.embed_tokens
    msg = f"{type(owner).__name__} does not say where its embeddings are: use edges='attention'"
    raise ModelError(msg)


def hand_back(
    network: Any, inputs: dict[str, Any], run: Callable[[Any], Tensor], name: str
) -> ItemRelevance:
    """The relevance of one input's tokens, without edges, for the number that ``run`` computes.

    No edges are read, so that the attention may be of any kind.
    """
    running = network_run.in_eval_mode(network)
    check_once(running, lambda: run(running))
    with torch.no_grad():
        expected = float(run(running))
    tables, _ = word_tables(running, inputs)
    with torch.enable_grad(), Relevance(tables=tables) as mode:
        value = run(with_activations_seen(running))
    _check_words(mode.reading, len(tables), network)
    found, gap = mode.propagate(value[None], [expected], name)
    return ItemRelevance([each[0] for each in found], [], expected, gap)


def read_relevance(
    capture: Relevance, output: Any, aims: Sequence[Aim], name: str, *, keep: bool = False
) -> list[ItemRelevance]:
    """Hand the targets of a batch back; one for each item."""
    values = torch.stack([aim.value(capture.output) for aim in aims])
    with torch.no_grad():
        expected = [float(aim.value(output)) for aim in aims]
    inputs, gap = capture.propagate(values, expected, name, keep=keep)
    streams = capture.reading.all_streams()
    return [
        ItemRelevance([each[at] for each in inputs], [each[at] for each in streams], value, gap)
        for at, value in enumerate(expected)
    ]


def add_edges(
    passes: Sequence[Activations],
    capture: Capture,
    output: Any,
    aims: Sequence[Aim],
    *,
    keep: bool = False,
) -> list[Activations]:
    """The activations of a batch with all that depends on its targets.

    For networks whose every layer attends within one sequence. With ``keep`` the tape stays, for
    other targets.
    """
    if not isinstance(capture, BackwardCapture):
        total = torch.stack([aim.value(output) for aim in aims]).sum()
        return network_run.add_gradients(passes, capture, total, keep=keep)
    reading = capture.reading
    sizes = [int(each.attention[0].shape[-1]) for each in passes]
    if not isinstance(capture, Relevance):
        total = torch.stack([aim.value(capture.output) for aim in aims]).sum()
        reading.backward(total, len(capture.sites), keep=keep)
        return [
            replace(each, removal=reading.stacked(item, size))
            for item, (each, size) in enumerate(zip(passes, sizes, strict=True))
        ]
    items = read_relevance(capture, output, aims, passes[0].model, keep=keep)
    found = []
    for item, (each, size, own) in enumerate(zip(passes, sizes, items, strict=True)):
        streams = None
        if len(own.streams) == len(capture.sites) + 1:
            streams = torch.stack([stream[:size] for stream in own.streams])
        maps, (inputs,) = reading.stacked(item, size), own.inputs
        relevance = Relevances(maps, inputs[:size], own.value, own.gap, streams)
        found.append(replace(each, relevance=relevance))
    return found


def _check_words(reading: EdgeReading, count: int, network: Any) -> None:
    if len(reading.inputs) < count:
        msg = (
            f"{type(network).__name__} does not look its words up in its table of word embeddings, "
            "so that relevance can't end at them; use edges='attention' or method='blank-out'"
        )
        raise ModelError(msg)


def _watching(
    to: list[EdgeReading], attends: Sequence[int], *, items_first: bool, cut: bool
) -> Callable[[str, Forward], Forward]:
    """What follows the residual stream through a copy of a network.

    The states that the first layer of each side reads are followed, and those that every layer
    makes. ``cut`` has the tape begin at the former.
    """
    starts = {0, *(at for at in range(1, len(attends)) if attends[at] != attends[at - 1])}
    calls: list[str] = []

    def watch(name: str, forward: Forward) -> Forward:
        def followed(*args: Any, **kwargs: Any) -> Any:
            number, (reading,) = len(calls), to
            calls.append(name)
            if number in starts:
                states = given_states(args, kwargs)
                if cut and number == 0 and states is not None:
                    leaf = states if items_first else states.transpose(0, 1)
                    leaf = reading.inputs[0] = leaf.detach().requires_grad_()
                    # Not the leaf itself: some models add in place.
                    own = (leaf if items_first else leaf.transpose(0, 1)).clone()
                    args, kwargs = with_states(args, kwargs, states, own)
                    states = own
                reading.follow(states, items_first=items_first)
            output = forward(*args, **kwargs)
            reading.follow(made_states(output), items_first=items_first)
            return output

        return followed

    return watch


def _find_layers(network: Any, inputs: dict[str, Any], attends: Sequence[int]) -> Layers | None:
    """The layers of a network; ``None`` where they are not modules that read one another."""

    def find() -> Layers | None:
        try:
            return layers_of(network, inputs, attends)
        except ModelError:
            return None

    return once(network, "followed layers", find)


def _first_item(inputs: dict[str, Any], batch: int) -> dict[str, Any]:
    if batch == 1:
        return inputs
    whole = ("logits_to_keep",)
    return {
        name: each[:1] if isinstance(each, Tensor) and name not in whole else each
        for name, each in inputs.items()
    }


def _never(*_: Any) -> Any:
    msg = "attention in windows is read only in a forward pass"
    raise AssertionError(msg)
