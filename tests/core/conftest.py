"""Every solver is judged by the same tests: a module asks for `solver`, and runs with each."""

import pytest

from attnflow.solvers.cuda.device import why_not

SOLVERS = ("cpu", "cuda")


@pytest.fixture(scope="module", params=SOLVERS)
def solver(request):
    """Flow is solved on this device, whatever the arguments say."""
    if request.param == "cuda" and (reason := why_not()) is not None:
        pytest.skip(f"device='cuda' {reason}")
    from attnflow.methods import flow

    find = flow.find_solver
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flow, "find_solver", lambda *_: find(request.param))
        yield request.param
