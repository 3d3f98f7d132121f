"""What models of images and of sounds share: a token for each piece of a grid, and others."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from attnflow.errors import ModelError
from attnflow.models.adapter import ForwardPass, ModelAdapter, Objective, Query, Tokens
from attnflow.models.capture import run as network
from attnflow.models.capture.spec import CaptureSpec
from attnflow.models.capture.towards import Aim, add_edges
from attnflow.models.checks.deciding import deciding_positions
from attnflow.models.checks.layout import Layout
from attnflow.models.checks.memory import once
from attnflow.models.heads import BARE, HeadKind
from attnflow.models.objectives import label_indices, make_aim
from attnflow.models.outputs import predict_label
from attnflow.models.sizes import depth_of, describe, heads_in
from attnflow.models.zeroing import measure_zeroing
from attnflow.records import PatchGrid, Prediction


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
        """What a piece is called, and what its name tells."""

    @abstractmethod
    def find_layout(self, tokens: Tokens, grid: PatchGrid, size: int) -> Layout:
        """Where the pieces stand among the tokens."""

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
        asked = [
            self.positions(query, named[item], pieces, output, item)
            for item, pieces in enumerate(batch)
        ]
        wanted: list[Objective | None] = [None] * len(batch)
        if spec.towards_target:
            each = zip(asked, objectives or [Objective()] * len(batch), strict=True)
            aims = [
                self._aim(output, item, first - layout.before, aim, centred=spec.relevance)
                for item, ((first, *_), aim) in enumerate(each)
            ]
            seen = add_edges(seen, capture, output, aims)
            wanted = [aim.named for aim in aims]
        passes = []
        for item, pieces in enumerate(batch):
            activations, positions = seen[item], asked[item]
            if spec.zeroing:
                inputs, maps = self.inputs([pieces]), [[each] for each in activations.attention]
                found = measure_zeroing(self.network, inputs, maps, spec.progress)
                activations = replace(activations, zeroed=tuple(layer[0] for layer in found))
            said = self.prediction(output, item, positions[0] - layout.before)
            passes.append(
                ForwardPass(
                    named[item],
                    activations,
                    positions[0],
                    said,
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
        """Where the pieces stand among the tokens, measured once for a size of inputs."""
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
        """With the tokens that are no pieces: CLS, DeiT's second one, registers; detections."""
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
    """How many tokens stand before the pieces."""
    return (tokens.segments or ("patch",)).index("patch")


def size_of(tokens: Tokens, reads: str) -> tuple[Hashable, ...]:
    """What inputs of one size share: the shape of what is cut into pieces, and what is masked."""
    masks = (
        tuple(values.flatten().tolist())
        for name, values in tokens.inputs.items()
        if isinstance(values, Tensor) and "mask" in name
    )
    return (tuple(tokens.inputs[reads].shape), *masks)
