"""How methods are named and coloured, wherever they are shown.

An interim table: the registry of aggregators is to say this of each of its methods.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MethodInfo:
    """What a view must know about a method.

    Attributes:
        title: The name as a heading.
        label: A short name, for a switch.
        slot: Which colour of the palette it has.
        reaches_input: Whether its scores are those of input tokens; raw attention's are those of
            the layer below.
        traced: Whether its scores come about over edges of the graph that can be shown.
    """

    title: str
    label: str
    slot: int
    reaches_input: bool = True
    traced: bool = False


_KNOWN = {
    "raw": MethodInfo("Raw attention", "Raw", 0, reaches_input=False, traced=True),
    "rollout": MethodInfo("Attention rollout", "Rollout", 1, traced=True),
    "flow": MethodInfo("Attention flow", "Flow", 2, traced=True),
    "blank-out": MethodInfo("Blank-out", "Blank-out", 3),
    "gradient": MethodInfo("Gradient", "Gradient", 4),
    "gradient (norm)": MethodInfo("Gradient (norm)", "Gradient (norm)", 5),
    "gradient (integrated)": MethodInfo("Integrated gradient", "Integrated", 6),
}
_OTHER_SLOT = 7


def method_info(name: str) -> MethodInfo:
    """How a method is shown; one that nobody knows has its name for a title, and no graph."""
    return _KNOWN.get(name) or MethodInfo(name, name, _OTHER_SLOT)
