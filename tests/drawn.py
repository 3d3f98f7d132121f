"""Attributions to draw, and figures read back."""

import xml.etree.ElementTree as ET

import numpy as np

import attnflow
from attnflow.records import Attribution
from attnflow.views.figures import save


def attribution(tokens, method="flow", *, layers=3, heads=None, query=0, **fields):
    """Scores of random attention: no two of them are equal, so no swapped axis stays unseen."""
    size = len(tokens)
    rng = np.random.default_rng(0)
    attention = rng.dirichlet(np.full(size, 0.4), size=(layers, heads or 2, size))
    scores = getattr(attnflow, method)(attention, heads="each" if heads else "mean")
    return Attribution(
        tokens=tuple(tokens),
        scores=scores,
        layers=tuple(range(1, layers + 1)),
        queries=tuple(range(size)),
        layer=layers,
        query=query,
        method=method,
        **fields,
    )


def svg_texts(figure, folder):
    """All texts of a figure's SVG, in order."""
    tree = ET.parse(save(figure, folder / "figure.svg", overwrite=True))
    found = tree.iter("{http://www.w3.org/2000/svg}text")
    return ["".join(element.itertext()) for element in found]
