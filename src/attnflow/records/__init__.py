"""The three things that travel through the library, each frozen and checked on creation.

    Activations   what a model attended to           models  → edges
    LayeredGraph      weighted edges between layers      edges   → methods
    Attribution       scores of input tokens             methods → views

Axes are always called ``layer head query key``. Layers are numbered as in the paper: layer 0 is the
input, layer l the output of the l-th attention layer; negative numbers count from the top.
"""

from attnflow.records.attention import Activations, LayeredGraph
from attnflow.records.attribution import Attribution, PatchGrid, Prediction
from attnflow.records.kinds import Array, FloatArray

__all__ = [
    "Activations",
    "Array",
    "Attribution",
    "FloatArray",
    "LayeredGraph",
    "PatchGrid",
    "Prediction",
]
