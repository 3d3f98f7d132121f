"""The kinds of figures: one family, which figures and the command line read.

Nothing heavy is imported before a kind is drawn, so that a command can list them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

from attnflow.registry import Registry


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of figure.

    Attributes:
        name: What users write.
        draw: Draws one attribution on axes; its keywords are the options of the kind.
        size: The width and height of one panel, in inches.
        panels: Options that add a panel of their own.
        selection: How inputs are explained for it: layers, query, heads.
        shares_rows: Whether panels side by side have the same tokens in the same rows.
        required: Options that it can't do without, with what they are.
        needs: Which model it needs, where it is not for texts.
        edges: Whether it draws edges, so that methods without edges are refused.
        answers: Whether it draws a `Generation`, the scores of a whole answer.
    """

    name: str
    draw: Callable[..., None]
    size: Callable[..., tuple[float, float]]
    panels: tuple[str, ...] = ()
    selection: Mapping[str, Any] = field(default_factory=dict)
    shares_rows: bool = True
    required: Mapping[str, str] = field(default_factory=dict)
    needs: str = ""
    edges: bool = False
    answers: bool = False

    @property
    def options(self) -> tuple[str, ...]:
        """The names of its options."""
        given = signature(self.draw).parameters.values()
        return tuple(each.name for each in given if each.kind is each.KEYWORD_ONLY)


_NAMES = ("graph", "heatmap", "pronouns", "heads", "image", "sound", "generation")
_ELSEWHERE = {"heads": "heatmap:HEADS"}  # all others have a module of their name
KINDS: Registry[Kind] = Registry(
    "kind",
    "Kind",
    {name: f"attnflow.views.figures.{_ELSEWHERE.get(name, name)}" for name in _NAMES},
)
