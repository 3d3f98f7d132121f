"""Methods that run the model again and read no edges: one file each.

To add one, write a file that defines a `Measure` as ``MEMBER`` and list it in
`attnflow.aggregation.aggregator`. `question.py` has what it is asked: one input, one target, and
the groups of tokens that get a score.
"""
