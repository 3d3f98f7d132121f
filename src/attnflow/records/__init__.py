"""What travels through the library, each record frozen and checked on creation.

    Activations    what a model computed on one input      models      → edges
    LayeredGraph   weighted edges between layers           edges       → methods
    Selection      which scores are computed               pipeline    → methods
    Attribution    scores of input tokens                  methods     → views
    FlowTrace      how one score came about                methods     → views
    Generation     scores for pieces of an answer          methods     → views

`files` saves and loads them, `checks` is what their fields may be; `selection` and `words` resolve
what callers name.

Axes are always called ``layer head query key``. Layers are numbered as in the paper: layer 0 is the
input, layer l the output of the l-th attention layer; negative numbers count from the top.
"""

from attnflow.records.activations import Activations, AttentionBlock, NotKept, Readout, Relevances
from attnflow.records.attribution import Attribution, Input, PatchGrid
from attnflow.records.graph import Edge, FlowTrace, LayeredGraph, Route
from attnflow.records.prediction import Prediction
from attnflow.records.selection import Pair, Selection
from attnflow.records.types import Array, FloatArray

__all__ = [
    "Activations",
    "Array",
    "AttentionBlock",
    "Attribution",
    "Edge",
    "FloatArray",
    "FlowTrace",
    "Input",
    "LayeredGraph",
    "NotKept",
    "Pair",
    "PatchGrid",
    "Prediction",
    "Readout",
    "Relevances",
    "Route",
    "Selection",
]
