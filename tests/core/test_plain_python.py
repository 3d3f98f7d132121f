"""The kernels as plain Python give what their compiled form gives."""

import json
import os
import subprocess
import sys
import textwrap

import numpy as np

import attention as some
import attnflow

PROGRAM = textwrap.dedent(
    """
    import json, sys
    import numpy as np
    import attnflow
    from numba import config
    assert config.DISABLE_JIT
    attention = np.array(json.load(sys.stdin))
    found, statistics = attnflow.flow(attention, threads=2, statistics=True)
    pair = attnflow.trace(attention, key=1, query=4)
    routes = [[list(route.positions), route.amount] for route in pair.routes]
    json.dump([found.tolist(), statistics, pair.value, pair.gap, routes], sys.stdout)
    """
)


def test_compiled_and_plain_agree():
    for kind in ("peaked", "causal", "tied"):
        attention = some.make(kind, 5, 9, seed=11)
        child = subprocess.run(
            [sys.executable, "-W", "error", "-c", PROGRAM],
            input=json.dumps(attention.tolist()),
            env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        found, statistics, value, gap, routes = json.loads(child.stdout)
        np.testing.assert_allclose(found, attnflow.flow(attention), rtol=0, atol=1e-14)
        assert statistics["cut_found"] > 0
        assert statistics["largest_gap"] < 1e-12
        pair = attnflow.trace(attention, key=1, query=4)
        assert abs(value - pair.value) < 1e-14
        assert abs(gap) < 1e-12
        assert abs(sum(amount for _, amount in routes) - value) < 1e-12
