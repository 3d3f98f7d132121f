"""What is asked for: every option, checked once, before any work."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from numbers import Integral, Rational, Real
from os import PathLike
from typing import TYPE_CHECKING, Any, get_args

from attnflow.edges import EDGE_RULES, EdgeRule
from attnflow.edges.corrections import CAUSAL_DEFAULT, CORRECTIONS, ON_MAPS, SINK
from attnflow.edges.graph import EdgeOptions, HeadRule, fuse_heads
from attnflow.errors import InputError, shown, unknown
from attnflow.io.files import as_path
from attnflow.io.inputs import check_choice
from attnflow.methods import METHODS, Method, find_edge_method
from attnflow.options.option import described, options_of, refuse, refuse_all, values_of
from attnflow.options.tables import (
    AMOUNTS,
    ARRIVALS,
    FROM_LOGIT,
    MEASURED,
    MEASURES,
    NOT_CAUSAL,
    SIGNED,
    WITHOUT_STEPS,
    ExplainOptions,
)
from attnflow.records.checks import check_flags
from attnflow.records.learned import LearnedHeads
from attnflow.records.selection import is_integer, listed_numbers, resolve, resolve_all
from attnflow.solvers.execution import Execution

if TYPE_CHECKING:
    from torch import Tensor

    from attnflow.edges.graph import Heads
    from attnflow.models.capture.spec import CaptureSpec


AUTO = "auto"
POSITION, LOGIT = "position", "logit"  # where scores start


def check_single_heads(method: str) -> None:
    """Refuse single heads for a method that knows merged ones only."""
    if not find_edge_method(method).single_heads:
        members = METHODS.members()
        having = [each.name for each in members if getattr(each, "single_heads", False)]
        msg = (
            f"method={method!r} needs merged heads and has no scores of single ones, which "
            f"heads='each' and figure heads show; use one of {', '.join(having)}"
        )
        raise InputError(msg)


def is_auto(name: object) -> bool:
    """Whether the choice is left to the model; anything may have been given."""
    return isinstance(name, str) and name == AUTO


@dataclass(frozen=True, kw_only=True)
class Request(ExplainOptions):
    """The options of one or many inputs, checked before any work.

    What is ``"auto"`` is chosen by the model (`attnflow.pipeline.choice`); until then, attention
    stands in for the edges.

    Attributes:
        methods: All that will be asked for of a session, where there are several.
        routes: Whether a method with routes is wanted.
        solver: What solves flow: ``"cpu"``, ``"cuda"``, or ``"auto"`` for where its attention is.
    """

    methods: tuple[str, ...] = ()
    routes: bool = False
    solver: str = AUTO
    if TYPE_CHECKING:  # what was checked is no longer a file
        heads: Heads = "mean"

    @classmethod
    def of(cls, options: Any, **changes: Any) -> Request:
        """The request that a function's options make, with what the function itself decides."""
        shared = options_of(cls).keys() & options_of(options).keys() - changes.keys()
        return cls(**values_of(options, shared), **changes)

    def __post_init__(self) -> None:
        for name, value in self._plain().items():
            object.__setattr__(self, name, value)
        known = self.correction is None or isinstance(self.correction, str)
        if not known or self.correction not in (None, "auto", *CORRECTIONS):
            allowed = (*CORRECTIONS, "auto")
            raise InputError(
                unknown("correction", self.correction, allowed, "None for the plain method")
            )
        if self.residual is not None and self.rule.residual == "measured":
            refuse(self, "residual", self.residual, MEASURED, f"edges={self.edges!r}")
        if not (
            self.contrast is None or isinstance(self.contrast, str) or is_integer(self.contrast)
        ):
            msg = f"contrast={self.contrast!r} must be one label or token, by name or number"
            raise InputError(msg)
        EdgeOptions(self.residual or 0.0, self.heads, self.discard, self.rule.name)
        _ = self.execution  # which checks threads
        check_steps(self.steps)
        check_batch_size(self.batch_size)
        members = [METHODS[name] for name in self.asked if not is_auto(name)]
        self._check_methods(members)
        check_source(self, members)

    def _plain(self) -> dict[str, Any]:
        """The options as plain values, whichever library their numbers and lists are of."""
        flags = (each.name for each in fields(self) if each.type == "bool")
        return {
            "heads": plain_heads(self.heads),
            "layer": plain_layer(self.layer),
            "layers": plain_layers(self.layers),
            "query": plain_query(self.query),
            "residual": plain_share("residual", self.residual),
            "discard": plain_share("discard", self.discard),
            "contrast": check_choice("contrast", self.contrast),
            **check_flags({name: getattr(self, name) for name in flags}),
        }

    @cached_property
    def execution(self) -> Execution:
        """How flow is solved: on the CPU where the model is kept there."""
        device = "cpu" if self.solver == AUTO and self.device == "cpu" else self.solver
        return Execution(self.threads, self.progress, device)

    @property
    def asked(self) -> tuple[str, ...]:
        """All methods that are asked for."""
        return self.methods or (self.method,)

    @property
    def edge_method(self) -> Method:
        """The method, where edges are asked for."""
        return find_edge_method(self.method)

    def _check_methods(self, members: Sequence[Method]) -> None:
        """Refuse options that none of the methods has; single heads, where one has them not."""
        measures = [member for member in members if not member.reads_edges]
        if measures and len(measures) == len(members):
            refuse_all(self, MEASURES, f"method={measures[0].name!r}")
        if not any(member.uses_steps for member in measures):
            refuse_all(self, WITHOUT_STEPS, f"method={', '.join(map(repr, self.asked))}")
        for member in members:
            if member.signed:
                refuse_all(self, SIGNED, f"method={member.name!r}")
        if self.rule.amounts:
            check_amounts(self, [each for each in members if each.reads_edges])
        for member in members:
            if member.reads_edges:
                self.edge_options(member.name)
            if self.heads == "each":
                check_single_heads(member.name)

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}  # without the rule

    @cached_property
    def rule(self) -> EdgeRule:
        """The edge rule."""
        return EDGE_RULES["attention" if is_auto(self.edges) else self.edges]

    @property
    def uses_target(self) -> bool:
        """Whether anything that is asked for depends on the target."""
        named = [METHODS[name] for name in self.asked if not is_auto(name)]
        towards = self.rule.needs.target or self.source == LOGIT
        return towards or any(not each.reads_edges for each in named)

    def residual_of(self, method: str) -> float:
        """The share of the residual connection that a method gets."""
        if self.rule.residual == "measured":
            return 0.0
        return find_edge_method(method).residual if self.residual is None else self.residual

    def edge_options(self, method: str, correction: str | None = None) -> EdgeOptions:
        """How a method's edges are built, with a correction of `correction_for`."""
        map_correction = correction if correction in ON_MAPS else None
        return EdgeOptions(
            self.residual_of(method), self.heads, self.discard, self.rule.name, map_correction
        )

    def correction_for(self, method: str, *, causal: bool, size: int) -> str | None:
        """The correction that a method gets on an input; ``None`` is the plain method."""
        if self.correction == "auto":
            if not causal:
                return None
            if self.rule.amounts:
                # What passed the first token speaks for almost any answer: attention goes there
                # that has nowhere else to go.
                arrives = self.rule.conserved and find_edge_method(method).amounts == "conserved"
                return SINK if arrives else None
            # Even attention is no measure of edges that are made of something else.
            usual = CAUSAL_DEFAULT if self.rule.fuses_heads else None
            return find_edge_method(method).correction or usual
        if self.correction and not causal and size > 1:
            refuse(self, "correction", self.correction, NOT_CAUSAL, "this model")
        return self.correction

    def resolve_layers(self, depth: int) -> tuple[tuple[int, ...], int]:
        """The layers that are computed, counted from 1, and the one that is explained."""
        if self.layers is None:
            layer = resolve("layer", -1 if self.layer is None else self.layer, 1, depth, depth + 1)
            return (layer,), layer
        given = None if isinstance(self.layers, str) else self.layers
        if given == ():
            msg = "layers=[] computes nothing; give numbers 1 … L, 'all', or None for the top one"
            raise InputError(msg)
        chosen = sorted(set(resolve_all("layers", given, 1, depth, depth + 1)))
        if self.layer is None:
            return tuple(chosen), chosen[-1]
        layer = resolve("layer", self.layer, 1, depth, depth + 1)
        if layer not in chosen:
            msg = f"layer={self.layer} is not one of layers={self.layers}; add it, or leave it out"
            raise InputError(msg)
        return tuple(chosen), layer

    def capture(self, *, all_heads: bool = False) -> CaptureSpec:
        """What to capture in a forward pass: heads are fused at once, unless each is needed."""
        from attnflow.models.capture.spec import CaptureSpec

        needs = self.rule.needs
        later = self.heads == "each" or isinstance(self.heads, LearnedHeads)
        each = all_heads or later or not self.rule.fuses_heads
        return CaptureSpec(
            fuse=None if each else self.fuse,
            blocks=needs.blocks,
            readout=self.source == LOGIT,
            gradients=needs.gradients,
            relevance=needs.relevance,
            removal=needs.removal,
            heads=all_heads or self.heads != "mean",
            zeroing=needs.zeroing,
        )

    def fuse(self, attention: Tensor) -> Tensor:
        """``[batch, head, query, key]`` → ``[batch, query, key]``, while the model runs."""
        if self.heads == "mean":
            return attention.mean(1)  # in the model's precision: float64 is for what comes after
        fused: Tensor = fuse_heads(attention, self.heads)
        return fused

    def describe(self, method: str, correction: str | None) -> dict[str, Any]:
        """The options that scores of a method were computed with."""
        return {
            "edges": self.rule.name,
            "layer": -1 if self.layer is None else self.layer,
            "query": self.query,
            "heads": self._described_heads(),
            "residual": self.residual_of(method),
            "discard": self.discard,
            "correction": correction,
            "normalize": self.normalize,
            **described(self),
        }

    def _described_heads(self) -> str | list[float]:
        if isinstance(self.heads, LearnedHeads):
            return self.heads.label
        return self.heads if isinstance(self.heads, str) else list(self.heads)


HUGE = 1 << 63
MOST_STEPS = 4096  # that can be asked for: finding so many points takes seconds


def plain_query(given: Any) -> int | str | None:
    """A position as an integer, a token as text."""
    if is_integer(given):
        return operator.index(given)
    if given is None or isinstance(given, str):
        return given
    msg = f"query={shown(given)} must be a position, a token's text, 'all' or None"
    raise InputError(msg)


def plain_layer(given: Any) -> Any:
    """A layer as an integer."""
    return operator.index(given) if is_integer(given) else given


def plain_layers(given: Any) -> Any:
    """Layers as a tuple of integers; ``"all"`` and ``None`` as they are."""
    if given is None or (isinstance(given, str) and given == "all"):
        return given
    if isinstance(given, str):
        raise InputError(unknown("layers", given, ["all"], "numbers 1 … L", "None"))
    return _layers("layers", listed_numbers(given))


def _layers(name: str, given: Sequence[Any]) -> tuple[int, ...]:
    for each in given:
        if not is_integer(each):
            msg = f"{name}={shown(each)} must be an integer: 1 … L, or negative from the top"
            raise InputError(msg)
    return tuple(operator.index(each) for each in given)


def plain_share(name: str, given: Any) -> Any:
    """A share of any number type as a float."""
    if isinstance(given, Real) and not isinstance(given, bool):
        _check_size(name, given, given)
        return float(given)
    if given is None:
        return None
    msg = f"{name}={shown(given)} must be a number from 0 (off) to below 1"
    raise InputError(msg)


def plain_heads(given: Any) -> Any:
    """Head numbers as a tuple of integers, weights as a tuple of floats, a file as its content."""
    if isinstance(given, LearnedHeads):
        return given
    if isinstance(given, PathLike) or (isinstance(given, str) and given.endswith(".json")):
        return LearnedHeads.load(as_path(given))
    if isinstance(given, Real):
        _check_size("heads", given, given)
    if isinstance(given, str | Real):
        return given
    listed = isinstance(given, Sequence) and not isinstance(given, bytes | bytearray | memoryview)
    heads = tuple(given) if listed else ()
    if not listed or not all(isinstance(h, Real) and not isinstance(h, bool) for h in heads):
        lists = "a list of integers or of weights"
        learned = "learned heads or their .json file"
        raise InputError(unknown("heads", given, get_args(HeadRule), lists, learned))
    for head in heads:
        _check_size("heads", head, given)
    whole = all(isinstance(head, Integral) for head in heads)
    return tuple(int(head) if whole else float(head) for head in heads)


def check_steps(given: Any) -> None:
    """Refuse what is no number of points on a line."""
    if given is not None and not (is_integer(given) and 1 <= given <= MOST_STEPS):
        msg = f"steps={shown(given)} must be an integer from 1 to {MOST_STEPS}, or None"
        raise InputError(msg)


def check_batch_size(given: Any) -> None:
    """Refuse what is no number of inputs."""
    if not (is_integer(given) and given >= 1):
        msg = f"batch_size={shown(given)} must be an integer of at least 1"
        raise InputError(msg)


def _check_size(name: str, number: Any, given: Any) -> None:
    """Refuse numbers too large to be written in an error, or to be floats."""
    if isinstance(number, Rational) and not -HUGE < Fraction(number) < HUGE:
        msg = f"{name}={shown(given)} is far too large"
        raise InputError(msg)


def reads(method: Method, rule: EdgeRule) -> bool:
    """Whether a method can read a rule's edges."""
    if not rule.amounts or method.amounts == "any":
        return True
    return method.amounts == "conserved" and rule.conserved


def starts_at_target(method: Method, rule: EdgeRule) -> bool:
    """Whether scores are what arrives from the target: one row, of the top layer."""
    return rule.conserved and method.reads_edges and method.amounts == "conserved"


def check_amounts(config: Request, members: Sequence[Method]) -> None:
    """Refuse what has no meaning for amounts: nothing is divided, corrected or left out."""
    rule = config.rule
    for member in members:
        if not reads(member, rule):
            able = [
                each.name for each in METHODS.members() if each.reads_edges and reads(each, rule)
            ]
            msg = (
                f"method={member.name!r} reads shares of what a position takes, and "
                f"edges={rule.name!r} are amounts with a sign ({rule.unit}); use "
                f"{', '.join(map(repr, able))}"
            )
            raise InputError(msg)
    refuse_all(config, AMOUNTS, f"edges={rule.name!r}")
    whole = next((each.name for each in members if each.amounts == "conserved"), None)
    if whole is not None:
        refuse_all(config, ARRIVALS, f"method={whole!r} on edges={rule.name!r}")


def check_layers(config: Request, depth: int) -> None:
    """Refuse layers below the top where scores are what arrives from the target.

    ``"all"`` are all that there are: the top one.
    """
    layers, layer = config.resolve_layers(depth)
    if config.layers == "all":
        layers = (layer,)
    names = {config.method if name == "auto" else name for name in config.asked}
    asked = [METHODS[name] for name in names]
    if any(starts_at_target(each, config.rule) for each in asked) and layers != (depth,):
        msg = (
            f"relevance starts at the target, above layer {depth}; what starts at layer "
            f"{', '.join(map(str, layers))} is not known. Leave layer and layers out, or use "
            "method='raw'"
        )
        raise InputError(msg)


def check_source(config: Request, members: Sequence[Method]) -> None:
    """Refuse what has no meaning where scores start at the target's logit."""
    if not (isinstance(config.source, str) and config.source in (POSITION, LOGIT)):
        raise InputError(unknown("source", config.source, (POSITION, LOGIT)))
    if config.source == POSITION:
        return
    for member in members:
        if member.from_logit is None:
            msg = (
                f"source='logit' does not apply to method={member.name!r}, which has no meaning "
                "for edges that lead to all layers at once; it is for "
                f"{', '.join(methods_from_logit())}"
            )
            raise InputError(msg)
    if config.edges != type(config).edges and not config.rule.needs.blocks:
        able = [each.name for each in EDGE_RULES.members() if each.needs.blocks]
        msg = (
            f"source='logit' does not apply to edges={config.edges!r}, which do not take attention "
            f"blocks apart; it is for {', '.join(able)}"
        )
        raise InputError(msg)
    refuse_all(config, FROM_LOGIT, "source='logit'")


def methods_from_logit() -> list[str]:
    """The methods whose scores can start at a logit."""
    return [
        each.name for each in METHODS.members() if each.reads_edges and each.from_logit is not None
    ]
