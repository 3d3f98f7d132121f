"""How attnflow was measured: the paper's reproduction, training, trials and benchmarks.

The library does not need any of it. ``bench``, ``reproduce`` and ``train`` are commands of
``attnflow`` where this package is installed; everything else runs as
``python -m attnflow_experiments.NAME``.
"""
