"""What can't be had of an input, refused before the model runs, as far as it is known then.

Where only the model itself can tell (how many positions an image has, which token a tagger labels,
whether its prediction is the contrast), the library refuses it afterwards, in the same words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from attnflow.errors import InputError, ModelError
from attnflow.methods import METHODS, Method, find_edge_method, find_trace
from attnflow.methods.erasing import removable
from attnflow.pipeline.request import check_amounts, check_single_heads, starts_at_target
from attnflow.pipeline.request import check_layers as check_amount_layers
from attnflow.pipeline.session import check_output_alone
from attnflow.views.explorer.document import takes_long
from attnflow.views.explorer.server.limits import ApiError
from attnflow.views.explorer.server.memory import EXTRA_TOKENS

if TYPE_CHECKING:
    from attnflow.views.explorer.server.sessions import RequestedInput


def check_layers(of: RequestedInput, name: str, layers: Sequence[int]) -> None:
    """Refuse layers that the model does not have."""
    _check_within(name, layers, 1, of.adapter.depth)


def check_positions(of: RequestedInput, name: str, positions: Sequence[int]) -> None:
    """Refuse positions that the input does not have; a vision model adds some to its patches."""
    more = EXTRA_TOKENS if of.adapter.has_grid else 0
    _check_within(name, positions, 0, len(of.tokens) + more - 1)


def _check_within(name: str, values: Sequence[int], least: int, most: int) -> None:
    for value in values:
        if not least <= value <= most:
            msg = f"{name}={value} does not exist; allowed: {least} … {most}"
            raise InputError(msg)


def check_method(of: RequestedInput, method: str, layers: Sequence[int], query: int) -> None:
    """Refuse a method that the model has no scores of, at these layers and this position."""
    member = METHODS[method]
    if member.reads_edges:
        check_edges(of, member, layers)
        if of.adapter.has_source:
            member.check_pairs()
        return
    depth = of.adapter.depth
    check_output_alone(method, layers, [query], depth, None)
    if not of.adapter.labels_tokens:  # which decides where the token is that it labels
        position = of.adapter.decision(of.tokens)
        check_output_alone(method, layers, [query], depth, position)


def check_edges(of: RequestedInput, method: Method, layers: Sequence[int]) -> None:
    """Refuse a method that can't read edges that are amounts, or can't start at these layers."""
    if all(rule.amounts for rule in of.rules):
        asked = replace(of.chosen.config, method=method.name, methods=(), layers=tuple(layers))
        check_amounts(asked, [method])
        check_amount_layers(asked, of.adapter.depth)


def check_heads(of: RequestedInput, method: str) -> None:
    """Refuse single heads where the method or the edges have none, or they would take too long."""
    check_single_heads(method)
    member = METHODS[method]
    if not any(rule.single_heads and not starts_at_target(member, rule) for rule in of.rules):
        msg = (
            f"edges={of.rules[0].name!r} takes all heads together: there are no scores of single "
            "heads; send other edges, such as 'attention'"
        )
        raise InputError(msg)
    # With a grid or two sides the model tells how many steps and positions it has.
    if not of.adapter.has_grid and not of.adapter.has_source:
        check_heads_work(method, of.adapter.heads, of.adapter.depth, len(of.tokens))


def check_heads_work(method: str, heads: int, steps: int, size: int) -> None:
    """Refuse what would take much longer than seconds."""
    if takes_long(method, heads, steps, size):
        msg = (
            f"{method} of single heads takes too long for {size} tokens; "
            "ask for another method, or a shorter text"
        )
        raise ApiError(413, "too-large", msg)


def check_trace(of: RequestedInput, method: str, layer: int) -> None:
    """Refuse a method that can't tell how a score came about."""
    find_trace(method)
    check_edges(of, METHODS[method], [layer])
    if of.adapter.has_source:
        find_edge_method(method).check_pairs(routes=True)


def check_model_heads(of: RequestedInput, heads: Sequence[int]) -> None:
    """Refuse heads that the model does not have."""
    _check_within("heads", heads, 0, of.adapter.heads - 1)


def check_predicts(of: RequestedInput, what: str) -> None:
    """Refuse a model that predicts nothing."""
    if not of.adapter.predicts:
        msg = f"{of.adapter.name} predicts nothing, so {what} changes nothing"
        raise InputError(msg)


def check_blankable(of: RequestedInput, sets: Sequence[Sequence[int]]) -> None:
    """Refuse positions that can't be blanked, and a model that predicts nothing without them."""
    adapter, tokens = of.adapter, of.tokens
    check_predicts(of, "blanking a token")
    if adapter.has_grid:
        return
    nowhere = -1  # the explained position, which may be excluded, is not known yet
    able = removable(adapter, tokens, adapter.blankable(tokens, nowhere))
    for positions in sets:
        refused = sorted(set(positions) - set(able))
        if refused:
            msg = f"positions={refused} cannot be blanked; allowed: {able}"
            raise InputError(msg)


def check_differentiable(of: RequestedInput, position: int | None) -> None:
    """Refuse edges that are gradients of a prediction where the model makes none."""
    if not all(rule.needs.target for rule in of.rules):
        return
    segments = of.tokens.segments
    in_source = (
        of.adapter.has_source
        and segments is not None
        and position is not None
        and segments[position] == "source"
    )
    # Edges that were chosen by default give way to attention where the model refuses them; another
    # position than its own is explained on the same edges.
    refused = of.chosen.fallback is None and not of.adapter.predicts
    if refused or in_source:
        where = "" if position is None else f" at position {position}"
        msg = (
            f"{of.adapter.name} has no head that predicts{where}, so there is nothing to "
            f"differentiate; send other edges than {of.rules[0].name!r}, such as 'attention'"
        )
        raise ModelError(msg)
