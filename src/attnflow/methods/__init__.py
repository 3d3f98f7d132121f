"""How the scores of input tokens are computed: one file per method.

To add a method, write a file that defines a `Method` as ``MEMBER`` and list it in `method.py`. A
method of your own is registered from your own module (docs/extending.md). `question.py` has what a
method that runs the model again is asked: one input, one target, and the groups of tokens that get
a score.
"""

from attnflow.methods.method import METHODS, Method, Scores, find_edge_method, find_trace

__all__ = ["METHODS", "Method", "Scores", "find_edge_method", "find_trace"]
