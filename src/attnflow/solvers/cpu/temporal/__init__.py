"""Maximum flow between columns of a temporal network, compiled by numba.

`network.py` turns layers of capacities into a network, `flow.py` has the kernels that maximise and
prove one flow, `solver.py` runs them for many sinks and writes one flow out edge by edge.
"""
