"""What the CUDA solver asks of CuPy, of its versions 13 and 14, where no GPU need be."""

import sys
import threading
import types
import warnings
from contextlib import nullcontext

import numpy as np
import pytest

import attention as some
import oracle
from attnflow.solvers.cpu.solver import CpuSolver
from attnflow.solvers.cuda import device
from attnflow.solvers.cuda.solver import CudaSolver
from attnflow.solvers.execution import Execution
from attnflow.solvers.interface import Sources
from emulated import Emulated, available

NO_GPU = device.why_not()
DEVICES = [
    pytest.param(
        Emulated, id="emulated", marks=pytest.mark.skipif(not available(), reason="needs g++")
    ),
    pytest.param(
        lambda: device.cuda_device(0),
        id="cuda",
        marks=pytest.mark.skipif(NO_GPU is not None, reason=str(NO_GPU)),
    ),
]


class Kernel:
    """Remembers what it was called with."""

    num_regs = 32
    max_dynamic_shared_size_bytes = 0

    def __init__(self):
        self.calls = []

    def __call__(self, grid, block, args, **options):
        self.calls.append((args, options))


class Context(nullcontext):
    id = 0


def made_up_cupy(version):
    """A module with CuPy's names; of version 14, what is deprecated there warns as CuPy does."""

    class Stream(nullcontext):
        def __init__(self, non_blocking=False):
            super().__init__(self)

    class ExternalStream:
        def __init__(self, handle, device_id=-1):
            if version >= 14:
                warnings.warn("ExternalStream is deprecated", DeprecationWarning, stacklevel=2)
            self.handle = handle

    def from_external(stream):
        version, handle = stream.__cuda_stream__()
        assert version == 0
        made = Stream()
        made.handle = handle
        return made

    if version >= 14:
        Stream.from_external = staticmethod(from_external)
    cuda = types.SimpleNamespace(
        Device=lambda number: Context(),
        Stream=Stream,
        ExternalStream=ExternalStream,
        alloc_pinned_memory=bytearray,
    )
    kernels = {}
    module = types.SimpleNamespace(get_function=lambda name: kernels.setdefault(name, Kernel()))
    return types.SimpleNamespace(cuda=cuda, RawModule=lambda **_: module, kernels=kernels)


@pytest.fixture(params=[13, 14])
def cupy(request, monkeypatch):
    made = made_up_cupy(request.param)
    monkeypatch.setitem(sys.modules, "cupy", made)
    return made


def test_kernels_run_in_turn_with_torch(cupy, monkeypatch):
    current = types.SimpleNamespace(cuda_stream=0x7F00)
    monkeypatch.setattr("torch.cuda.current_stream", lambda number: current)
    gpu = device.CudaDevice(0)
    gpu.launch("weigh_nodes", (1, 1, 1), 32, (), with_torch=True)
    gpu.launch("weigh_nodes", (1, 1, 1), 32, ())
    (_, of_torch), (_, own) = cupy.kernels["weigh_nodes"].calls
    assert of_torch["stream"].handle == 0x7F00
    assert not hasattr(own["stream"], "handle")


@pytest.mark.skipif(NO_GPU is not None, reason=str(NO_GPU))
def test_the_stream_of_torch_is_the_one_that_is_current():
    import cupy
    import torch

    side = torch.cuda.Stream(0)
    for stream in (torch.cuda.default_stream(0), side):
        with torch.cuda.stream(stream), cupy.cuda.Device(0):
            handle = torch.cuda.current_stream(0).cuda_stream
            for _ in range(3):  # a wrapper that goes must leave the stream as it is
                assert device.external_stream(cupy, handle, 0).ptr == handle
            assert torch.ones(3, device="cuda").sum().item() == 3


def test_every_solve_has_a_flag_of_its_own(cupy):
    gpu = device.CudaDevice(0)
    first = gpu.stop_flag()
    first[0] = 1  # told to stop, and perhaps still read by a kernel
    others = [gpu.stop_flag() for _ in range(device.FLAGS - 1)]
    assert not any(np.shares_memory(first, other) for other in others)
    assert first.tolist() == [1]
    assert all(other.tolist() == [0] for other in others)
    again = gpu.stop_flag()
    assert np.shares_memory(again, first)
    assert again.tolist() == [0]


def test_kernels_get_the_address_of_their_flag(cupy):
    gpu = device.CudaDevice(0)
    gpu.stop_flag()
    flag = gpu.stop_flag()
    gpu.launch("solve_pairs", (1, 1, 1), 32, (np.int32(3), flag))
    ((given, _),) = cupy.kernels["solve_pairs"].calls
    assert given == (np.int32(3), np.uintp(flag.ctypes.data))
    assert given[1].dtype == np.uintp


def test_shared_memory_that_was_granted_is_not_taken_back(cupy):
    gpu = device.CudaDevice(0)
    for shared, granted in ((1000, 0), (90_000, 90_000), (60_000, 90_000), (95_000, 95_000)):
        gpu.launch("solve_pairs", (1, 1, 1), 32, (), shared)
        assert cupy.kernels["solve_pairs"].max_dynamic_shared_size_bytes == granted


def some_pairs():
    weights = oracle.edges(some.make("peaked", 5, 12, 2))
    sources, sinks = Sources(weights[-1, ::3], np.full(4, 5)), np.arange(12)
    expected, _ = CpuSolver().prepare(weights).solve(sources, sinks, Execution(1))
    return weights, sources, sinks, expected


@pytest.mark.parametrize("make", DEVICES)
@pytest.mark.parametrize("interrupts", [1, 2])
def test_a_solve_after_an_interrupt_is_right(make, interrupts, monkeypatch):
    """Also where the second interrupt leaves a kernel that nobody waits for."""
    gpu, left = make(), [interrupts]
    weights, sources, sinks, expected = some_pairs()
    prepared = CudaSolver(gpu).prepare(weights)

    def wait(show, before=gpu.wait):
        if left[0]:
            left[0] -= 1
            raise KeyboardInterrupt
        before(show)

    monkeypatch.setattr(gpu, "wait", wait)
    with pytest.raises(KeyboardInterrupt):
        prepared.solve(sources, sinks, Execution(1))
    found, statistics = prepared.solve(sources, sinks, Execution(1))
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-12)
    assert statistics["pairs"] == found.size


@pytest.mark.parametrize("make", DEVICES)
def test_a_solve_that_is_stopped_does_not_stop_another(make, monkeypatch):
    """Two graphs on one device: an error in one thread is none of the other's business."""
    gpu = make()
    weights, sources, sinks, expected = some_pairs()
    stopped, begun, goes_on = CudaSolver(gpu).prepare(weights), threading.Event(), threading.Event()
    going, main = CudaSolver(gpu).prepare(weights), threading.current_thread()
    results = []

    def stop_flag(before=gpu.stop_flag):
        flag = before()
        if threading.current_thread() is not main:
            begun.set()
            assert goes_on.wait(60)
        return flag

    def wait(show, before=gpu.wait):
        if threading.current_thread() is main and not goes_on.is_set():
            raise MemoryError
        before(show)

    monkeypatch.setattr(gpu, "stop_flag", stop_flag)
    monkeypatch.setattr(gpu, "wait", wait)
    thread = threading.Thread(
        target=lambda: results.append(going.solve(sources, sinks, Execution(1)))
    )
    thread.start()
    assert begun.wait(60)
    with pytest.raises(MemoryError):
        stopped.solve(sources, sinks, Execution(1))
    goes_on.set()
    thread.join(60)
    ((found, _),) = results
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-12)
