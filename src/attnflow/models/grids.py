"""What models of images and of sounds share: a token for each piece of a grid, and others.

Other tokens may come before the pieces (CLS, registers) or after them (YOLOS's detections), and
some models shuffle patches. So it is measured where the pieces are: with every attention map the
identity, a changed piece changes the state of its own position.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attnflow.errors import ModelError
from attnflow.models.adapter import Aim, ForwardPass, ModelAdapter, Objective, Query, Tokens
from attnflow.models.capture import run as network
from attnflow.models.capture.spec import CaptureSpec
from attnflow.models.capture.towards import add_edges
from attnflow.models.checks.deciding import deciding_positions
from attnflow.models.checks.mixing import MIXES, changed_positions, last_states
from attnflow.models.checks.padding import once
from attnflow.models.kinds import BARE, HeadKind
from attnflow.models.outputs import label_indices, make_aim, predict_label
from attnflow.models.sizes import depth_of, describe, heads_in
from attnflow.models.zeroing import measure_zeroing
from attnflow.records import PatchGrid, Prediction

if TYPE_CHECKING:
    from attnflow.models.audio.model import Frames


@dataclass(frozen=True)
class Layout:
    """How many tokens come before and after the patches, and warnings about them."""

    before: int
    after: int
    warnings: tuple[str, ...]


def find_layout(network: Any, pixels: Tensor, grid: tuple[int, int], size: int) -> Layout:
    """Change single patches of one image ``[1, channel, height, width]``, and see what follows."""
    name = type(network).__name__
    count = grid[0] * grid[1]
    tried = sorted({0, min(1, count - 1), count - 1})
    images = torch.cat([pixels, pixels, *(change_patch(pixels, patch, grid) for patch in tried)])
    states = last_states(network, {"pixel_values": images})
    if states is None or states.shape[1] != size:
        msg = f"where {name} keeps the patches of an image could not be determined"
        raise ModelError(msg)
    if changed_positions(states[0], states[1]):
        msg = (
            f"{name} gives another result each time it is run (it shuffles or masks patches at "
            "random), so that its positions are not places of the image"
        )
        raise ModelError(msg)
    most = [(states[2 + at] - states[0]).abs().amax(-1) for at in range(len(tried))]
    found = [int(apart.argmax()) for apart in most]
    before = found[0]
    if found != [before + patch for patch in tried] or before + count > size:
        msg = f"{name} does not keep patches in the order in which they lie on the image"
        raise ModelError(msg)
    alone = all(
        set(changed_positions(states[0], states[2 + at])) <= {position}
        for at, position in enumerate(found)
    )
    return Layout(before, size - count - before, () if alone else (MIXES.format(name),))


NEAR = 2  # frames: neighbours share samples, and rows of a spectrogram


def find_frame_layout(
    network: Any, inputs: dict[str, Tensor], name: str, frames: Frames, size: int
) -> Layout:
    """Change single frames of one sound, and see what follows.

    ``inputs`` has a batch axis of one, and ``name`` is the input that frames are cut from.
    """
    who = type(network).__name__
    count = frames.rows * frames.columns
    tried = sorted({0, count // 2, count - 1})
    sounds = [inputs[name][0], inputs[name][0]]
    for piece in tried:
        changed = inputs[name][0].clone()
        part = frames.part(changed, *divmod(piece, frames.columns))
        noise = torch.randn(part.shape, generator=torch.Generator().manual_seed(piece))
        part += noise.to(part) * (1 + float(changed.abs().max()))
        sounds.append(changed)
    batch = {
        key: values.expand(len(sounds), *values.shape[1:]) for key, values in inputs.items()
    } | {name: torch.stack(sounds)}
    states = last_states(network, batch)
    if states is None or states.shape[1] != size:
        msg = f"where {who} keeps the frames of a sound could not be determined"
        raise ModelError(msg)
    if changed_positions(states[0], states[1]):
        msg = f"{who} gives another result each time it is run"
        raise ModelError(msg)
    before = size - count
    changes = [_changed(states[0], states[2 + at]) for at in range(len(tried))]
    for at, piece in enumerate(tried):
        if at and not changes[at]:  # past the end of the sound, which the model is told to ignore
            continue
        places = [_distance(place - before, piece, frames.columns) for place in changes[at]]
        if not any(place <= NEAR for place in places):
            msg = f"{who} does not keep frames in the order of their time"
            raise ModelError(msg)
        if any(place > NEAR for place in places):  # a convolution over many frames, or a norm
            return Layout(before, 0, (MIXES.format(who),))
    return Layout(before, 0, ())


def _changed(before: Tensor, after: Tensor) -> list[int]:
    """The positions that changed beyond rounding; in half precision perhaps the most changed."""
    apart = (after.double() - before.double()).abs().amax(-1)
    most = [int(apart.argmax())] if float(apart.max()) else []
    return changed_positions(before, after) or most


def _distance(one: int, other: int, columns: int) -> int:
    """How many rows or columns two pieces are apart; what is not a piece is far from all."""
    if one < 0:
        return NEAR + 1
    (row, column), (row_too, column_too) = divmod(one, columns), divmod(other, columns)
    return max(abs(row - row_too), abs(column - column_too))


def change_patch(pixels: Tensor, patch: int, grid: tuple[int, int]) -> Tensor:
    """The image with other colours in one patch."""
    height, width = pixels.shape[-2] // grid[0], pixels.shape[-1] // grid[1]
    top, left = (patch // grid[1]) * height, (patch % grid[1]) * width
    changed = pixels.clone()
    part = changed[..., top : top + height, left : left + width]
    noise = torch.rand(part.shape, generator=torch.Generator().manual_seed(patch))
    part += 1 + noise.to(part)
    return changed


@dataclass(frozen=True, eq=False)
class GridModel(ModelAdapter):
    """A model whose input is cut into pieces that lie in rows and columns."""

    network: Any
    processor: Any
    name: str
    head: HeadKind

    reads_text = False
    has_grid = True

    def __post_init__(self) -> None:
        self.check()

    @abstractmethod
    def check(self) -> None:
        """Refuse what can't be explained before anything else."""

    @property
    @abstractmethod
    def labels(self) -> HeadKind:
        """The kind of head that gives a label to the whole input."""

    @property
    @abstractmethod
    def reads(self) -> str:
        """The name of the input that is cut into pieces."""

    @property
    @abstractmethod
    def pieces(self) -> tuple[str, str]:
        """What a piece is called, and what its name states."""

    @abstractmethod
    def find_layout(self, tokens: Tokens, grid: PatchGrid, size: int) -> Layout:
        """Where the pieces are among the tokens."""

    @property
    def description(self) -> dict[str, Any]:
        """What was loaded."""
        return describe(self.network, self.head)

    @property
    def depth(self) -> int:
        """The number of layers."""
        return depth_of(self.network, self.config)

    @property
    def heads(self) -> int:
        """The most heads that a layer has."""
        return heads_in(self.network)

    @property
    def config(self) -> Any:
        """The configuration of what reads the input."""
        return self.network.config

    def run(
        self,
        batch: Sequence[Tokens],
        query: Query,
        spec: CaptureSpec,
        objectives: Sequence[Objective] = (),
    ) -> list[ForwardPass]:
        """Run the network once on a batch."""
        output, capture = network.run(self.network, self.inputs(batch), spec, [1] * self.depth)
        size = capture.sites[0].probabilities.shape[-1] if capture.sites else 0
        network.expect(capture.sites, self.depth, (size, size), self.network)
        layout = self._layout(batch[0], size)
        seen = [
            replace(network.square_activations(capture, item, size), model=self.name)
            for item in range(len(batch))
        ]
        named = [self._with_extra(pieces, layout.before, layout.after) for pieces in batch]
        chosen = [
            self.positions(query, named[item], pieces, output, item)
            for item, pieces in enumerate(batch)
        ]
        wanted: list[Objective | None] = [None] * len(batch)
        if spec.towards_target:
            each = zip(chosen, objectives or [Objective()] * len(batch), strict=True)
            aims = [
                self._aim(output, item, first - layout.before, aim, centred=spec.relevance)
                for item, ((first, *_), aim) in enumerate(each)
            ]
            seen = add_edges(seen, capture, output, aims)
            wanted = [aim.named for aim in aims]
        passes = []
        for item, pieces in enumerate(batch):
            activations, positions = seen[item], chosen[item]
            if spec.zeroing:
                inputs, maps = self.inputs([pieces]), [[each] for each in activations.attention]
                found = measure_zeroing(self.network, inputs, maps, spec.progress)
                activations = replace(activations, zeroed=tuple(layer[0] for layer in found))
            prediction = self.prediction(output, item, positions[0] - layout.before)
            passes.append(
                ForwardPass(
                    named[item],
                    activations,
                    positions[0],
                    prediction,
                    wanted[item],
                    pooled=positions if len(positions) > 1 else (),
                    warnings=layout.warnings,
                )
            )
        return passes

    def batchable(self, inputs: Sequence[Tokens]) -> bool:
        """Whether these inputs have one size."""
        return len({tokens.inputs[self.reads].shape for tokens in inputs}) == 1

    @property
    def labels_of(self) -> Any:
        """The network's configuration where outputs are labels of a whole input; else ``None``."""
        return self.network.config if self.head is self.labels else None

    @property
    def predicts(self) -> bool:
        """Whether it has a head."""
        return self.head is not BARE

    def _logits(self, output: Any, item: int, tokens: Tokens, at: int) -> Tensor | None:
        return self.logits_at(output, item, at - _before(tokens))

    def _prediction(self, output: Any, item: int, tokens: Tokens, at: int) -> Prediction | None:
        return self.prediction(output, item, at - _before(tokens))

    def output_indices(self, target: str | int) -> tuple[int, ...]:
        """The numbers of the labels of a name."""
        return label_indices(self.network.config, target, self.name)

    def logits_at(self, output: Any, item: int, piece: int) -> Tensor | None:
        """The logits of an input's labels; ``piece`` is for heads that say something at each."""
        return output.logits[item] if self.head is self.labels else None

    def _aim(
        self, output: Any, item: int, piece: int, objective: Objective, *, centred: bool
    ) -> Aim:
        def read(output: Any) -> Tensor | None:
            return self.logits_at(output, item, piece)

        return make_aim(self, read, output, objective, self.labels_of, centred=centred)

    def output_name(self, index: int) -> str:
        """The name of a label."""
        return str(self.network.config.id2label[index])

    def blankable(self, tokens: Tokens, query: int) -> list[int]:
        """The pieces."""
        return [at for at, segment in enumerate(tokens.segments or ()) if segment == "patch"]

    def inputs(self, batch: Sequence[Tokens]) -> dict[str, Tensor]:
        """What the network is called with, where it is and in its precision."""
        parameter = next(self.network.parameters())
        found = {}
        for name in batch[0].inputs:
            stacked = torch.stack([tokens.inputs[name] for tokens in batch])
            kind = parameter.dtype if stacked.is_floating_point() else stacked.dtype
            found[name] = stacked.to(parameter.device, kind)
        return found

    def _layout(self, pieces: Tokens, size: int) -> Layout:
        """Where the pieces are among the tokens, measured once for a size of inputs."""
        grid = pieces.grid
        if grid is None or size < len(pieces):
            called = "patches" if self.pieces[0] == "patch" else f"{self.pieces[0]}s"
            msg = (
                f"{type(self.network).__name__} attends over {size} positions, and the input has "
                f"{len(pieces)} {called}: it pools or leaves out {called}, which is not supported"
            )
            raise ModelError(msg)
        key = ("layout", *size_of(pieces, self.reads))
        return once(self.network, key, lambda: self.find_layout(pieces, grid, size))

    def positions(
        self, query: Query, tokens: Tokens, pieces: Tokens, output: Any, item: int
    ) -> tuple[int, ...]:
        """The position to explain; several where the head decides from several."""
        if query is not None and query != "all":
            return (tokens.position(query),)
        if self.head is self.labels:
            return self.deciding(pieces)
        if (tokens.segments or ())[0] == "class" or query == "all":
            return (0,)
        if getattr(output, "pooler_output", None) is not None:
            return self.deciding(pieces)
        msg = (
            f"{type(self.network).__name__} has no CLS token and no head that decides; give the "
            f'{self.pieces[0]} to explain with query="{pieces.names[0]}" ({self.pieces[1]}), or '
            'query="all"'
        )
        raise ModelError(msg)

    def deciding(self, pieces: Tokens) -> tuple[int, ...]:
        """Where a head decides, or what is pooled: measured once for a size of inputs."""
        key = ("deciding", *size_of(pieces, self.reads))
        return once(
            self.network, key, lambda: deciding_positions(self.network, self.inputs([pieces]))
        )

    def _with_extra(self, pieces: Tokens, before: int, after: int) -> Tokens:
        """With the tokens that are not pieces: CLS, DeiT's second one, registers; detections."""
        registers = min(before, int(getattr(self.network.config, "num_register_tokens", 0) or 0))
        classes = min(1, before - registers)
        distilled = before - classes - registers
        first = [
            *[("[CLS]", "class")] * classes,
            *[("[DIST]", "distillation")] * distilled,
            *((f"[REG{i + 1}]", "register") for i in range(registers)),
        ]
        last = [(f"[DET{i + 1}]", "detection") for i in range(after)]
        both = [*first, *zip(pieces.names, pieces.segments or (), strict=True), *last]
        return replace(
            pieces,
            names=tuple(name for name, _ in both),
            segments=tuple(segment for _, segment in both),
        )

    def prediction(self, output: Any, item: int, piece: int) -> Prediction | None:
        """The label of an input; ``piece`` is for heads that say something at each."""
        if self.head is not self.labels:
            return None
        return predict_label(output.logits[item], self.network.config)


def _before(tokens: Tokens) -> int:
    """How many tokens come before the pieces."""
    return (tokens.segments or ("patch",)).index("patch")


def size_of(tokens: Tokens, reads: str) -> tuple[Hashable, ...]:
    """What inputs of one size share: the shape of what is cut into pieces, and what is masked."""
    masks = (
        tuple(values.flatten().tolist())
        for name, values in tokens.inputs.items()
        if isinstance(values, Tensor) and "mask" in name
    )
    return (tuple(tokens.inputs[reads].shape), *masks)
