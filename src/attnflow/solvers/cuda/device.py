"""The GPU through CuPy: memory, compiled kernels, and waiting without being deaf to Ctrl-C."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from attnflow.errors import MissingExtra
from attnflow.records.arrays import is_tensor, on_cpu, to_numpy

OPTIONS = ("-std=c++17", "--maxrregcount=96")
"""With fewer registers each, more warps are in flight, which is worth what is spilled."""
SOURCES = ("network", "pour", "search", "solve", "bounds", "spread")
LONGEST_NAP = 0.05  # seconds: how soon the bar moves and an interrupt is noticed
FLAGS = 1024  # of as many solves in a row; long before they are used up, the first has ended


class OutOfMemory(Exception):  # noqa: N818 - it is handled, not reported
    """The device has no room for an array."""


class Device(Protocol):
    """What the solver asks of a device."""

    def array(self, given: Any) -> Any:
        """The array on the device, in float64; what is there already is not copied."""

    def upload(self, given: Any) -> Any:
        """A NumPy array, copied to the device as it is."""

    def tensor(self, array: Any) -> Any:
        """An array of the device as a torch tensor of the same memory; None if torch has no GPU."""

    def download(self, array: Any) -> Any:
        """An array of the device as NumPy, when the kernels before have ended."""

    def sums(self, array: Any) -> Any:
        """The sums along the last axis, as NumPy."""

    def peek(self, array: Any) -> Any:
        """An array of the device as NumPy, as it is while kernels run."""

    def empty(self, shape: Any, kind: Any) -> Any:
        """An uninitialised array; raises `OutOfMemory`."""

    def address(self, array: Any) -> int:
        """Where the array begins."""

    def free_bytes(self) -> int:
        """How much memory may be asked for."""

    def together(self, name: str, shared: int) -> int:
        """How many blocks of one warp of this kernel run at the same time."""

    def launch(
        self,
        name: str,
        grid: Sequence[int],
        threads: int,
        args: Any,
        shared: int = 0,
        *,
        with_torch: bool = False,
    ) -> None:
        """Start a kernel; those that were started run one after the other.

        ``with_torch``: in turn with what torch has started instead.
        """

    def stop_flag(self) -> Any:
        """An array of one integer, 0, that the host writes while kernels read it.

        Each call gives another one: kernels that an interrupt left behind keep reading theirs.
        """

    def wait(self, show: Callable[[], None]) -> None:
        """Return when all kernels have ended; calls ``show`` now and then."""


@cache
def program() -> str:
    """The source of all kernels."""
    folder = Path(__file__).parent
    return "\n".join((folder / f"{name}.cu").read_text(encoding="utf-8") for name in SOURCES)


def why_not() -> str | None:
    """What is missing for flow on a GPU, or None if nothing is."""
    try:
        import cupy
    except ImportError:
        return "needs CuPy: pip install 'attnflow[cuda]' (cupy-cuda13x with a driver for CUDA 13)"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"finds no usable GPU ({error})"
    return None if count else "finds no GPU"


def require_cuda() -> None:
    """Refuse to go on where there is no CUDA device to work on.

    Raises:
        MissingExtra: CuPy is not installed, or there is no GPU.
    """
    reason = why_not()
    if reason is not None:
        msg = f"device='cuda' {reason}; device='cpu' works everywhere"
        raise MissingExtra(msg)


class CudaDevice:
    """One GPU, by its number."""

    def __init__(self, number: int) -> None:
        import cupy

        self._cupy = cupy
        self._device = cupy.cuda.Device(number)
        with self._device:
            # The kernels' own stream: reading the counter of a running kernel must not wait for it.
            self._stream = cupy.cuda.Stream(non_blocking=True)
            self._side = cupy.cuda.Stream(non_blocking=True)
            self._module = cupy.RawModule(code=program(), options=OPTIONS)
            pinned = cupy.cuda.alloc_pinned_memory(4 * FLAGS)
        self._kernels: dict[str, Any] = {}
        self._granted: dict[str, int] = {}  # bytes of shared memory
        self._lock = threading.Lock()
        self._flags, self._flag_numbers = np.frombuffer(pinned, np.int32, FLAGS), count()

    def array(self, given: Any) -> Any:
        """See `Device`."""
        with self._device:
            if is_tensor(given) and not on_cpu(given):
                given = self._cupy.from_dlpack(given.detach().contiguous())
            elif not isinstance(given, self._cupy.ndarray):
                given = self._cupy.asarray(to_numpy(given))
            ready = self._cupy.ascontiguousarray(given, dtype=np.float64)
            # What was queued elsewhere, such as the copy above, is done before a kernel reads it.
            self._device.synchronize()
            return ready

    def upload(self, given: Any) -> Any:
        """See `Device`."""
        with self._device, self._stream:
            return self._cupy.asarray(given)

    def tensor(self, array: Any) -> Any:
        """See `Device`."""
        import torch

        if not torch.cuda.is_available():
            return None
        with self._device:
            self._stream.synchronize()
            return torch.utils.dlpack.from_dlpack(array)

    def download(self, array: Any) -> Any:
        """See `Device`."""
        with self._device:
            return array.get(stream=self._stream)

    def sums(self, array: Any) -> Any:
        """See `Device`."""
        with self._device, self._stream:
            return array.sum(-1).get(stream=self._stream)

    def peek(self, array: Any) -> Any:
        """See `Device`."""
        with self._device:
            return array.get(stream=self._side)

    def empty(self, shape: Any, kind: Any) -> Any:
        """See `Device`."""
        import torch

        full = self._cupy.cuda.memory.OutOfMemoryError
        with self._device, self._stream:
            try:
                return self._cupy.empty(shape, kind)
            except full:
                torch.cuda.empty_cache()  # which torch keeps for what comes next
            try:
                return self._cupy.empty(shape, kind)
            except full as error:
                raise OutOfMemory from error

    def address(self, array: Any) -> int:
        """See `Device`."""
        return int(array.data.ptr)

    def free_bytes(self) -> int:
        """See `Device`."""
        import torch

        with self._device:
            pool = self._cupy.get_default_memory_pool()
            free = int(self._device.mem_info[0]) + int(pool.free_bytes())
        number = self._device.id
        kept = torch.cuda.memory_reserved(number) - torch.cuda.memory_allocated(number)
        return free + int(kept)

    def together(self, name: str, shared: int) -> int:
        """See `Device`."""
        with self._device:
            kernel = self._kernel(name, shared)
        attributes = self._device.attributes
        room = int(attributes["MaxSharedMemoryPerMultiprocessor"]) // (shared + 1024)
        registers = int(attributes["MaxRegistersPerMultiprocessor"]) // (32 * kernel.num_regs)
        blocks = int(attributes.get("MaxBlocksPerMultiprocessor", 16))
        each = max(1, min(room, registers, blocks))
        return int(each * attributes["MultiProcessorCount"])

    def _kernel(self, name: str, shared: int) -> Any:
        # Graphs of several threads share the kernels: what one was granted, none takes back.
        with self._lock:
            if name not in self._kernels:
                self._kernels[name] = self._module.get_function(name)
            kernel = self._kernels[name]
            if shared > self._granted.get(name, 48 * 1024):  # more must be asked for
                kernel.max_dynamic_shared_size_bytes = self._granted[name] = shared
        return kernel

    def launch(
        self,
        name: str,
        grid: Sequence[int],
        threads: int,
        args: Any,
        shared: int = 0,
        *,
        with_torch: bool = False,
    ) -> None:
        """See `Device`."""
        # The host's flags are no arrays of the device, but the device can read where they are.
        ready = tuple(
            np.uintp(arg.ctypes.data) if isinstance(arg, np.ndarray) else arg for arg in args
        )
        with self._device:
            kernel = self._kernel(name, shared)
            stream = self._stream
            if with_torch:
                import torch

                current = torch.cuda.current_stream(self._device.id).cuda_stream
                stream = external_stream(self._cupy, current, self._device.id)
            kernel(tuple(grid), (threads,), ready, shared_mem=shared, stream=stream)

    def stop_flag(self) -> Any:
        """See `Device`."""
        number = next(self._flag_numbers) % FLAGS
        flag = self._flags[number : number + 1]
        flag[0] = 0
        return flag

    def wait(self, show: Callable[[], None]) -> None:
        """See `Device`."""
        event = self._cupy.cuda.Event(disable_timing=True)
        event.record(self._stream)
        nap = 1e-4
        while not event.done:
            # A short solve is not kept waiting, a long one costs the CPU nothing.
            time.sleep(nap)
            nap = min(LONGEST_NAP, 2 * nap)
            if nap == LONGEST_NAP:
                show()
        self._stream.synchronize()


class _Handle:
    """A stream as CUDA's protocol for streams has it, which torch speaks only in later versions."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle


def external_stream(cupy: Any, handle: int, device: int) -> Any:
    """CuPy's stream of another library's; ``cupy`` is the module, of version 13 or later."""
    if hasattr(cupy.cuda.Stream, "from_external"):  # since 14, where the other is deprecated
        return cupy.cuda.Stream.from_external(_Handle(handle))
    return cupy.cuda.ExternalStream(handle, device)


@cache
def cuda_device(number: int) -> CudaDevice:
    """The device of this number, with its kernels compiled once."""
    return CudaDevice(number)


def number_of(array: Any) -> int:
    """The number of the GPU that holds this array; the first is for those in the host's memory."""
    if is_tensor(array) and array.device.type == "cuda":
        return int(array.device.index or 0)
    return int(array.device.id) if hasattr(getattr(array, "device", None), "id") else 0


# How much memory a pair takes, and the structures that kernels read (network.cu, solve.cu).

_ADDRESS = np.uint64
GRAPH = np.dtype(
    [(name, _ADDRESS) for name in ("weights", "own", "sums", "usable", "above")]
    + [(name, np.int64) for name in ("layer_stride", "item_stride")]
    + [(name, np.int32) for name in ("depth", "size", "words")],
    align=True,
)
_POINTERS = "edges order layers sinks reach share values gaps proofs jobs"
PAIRS = np.dtype(
    [(name, _ADDRESS) for name in _POINTERS.split()]
    + [("count", np.int64)]
    + [(name, np.int32) for name in ("items", "sources", "slots")],
    align=True,
)
LANES = 32


def pack(kind: np.dtype[Any], addresses: Iterable[int], *numbers: int) -> Any:
    """A structure as bytes: its addresses, then its numbers."""
    return np.array((*addresses, *numbers), dtype=kind).reshape(1).view(np.uint8)


def words_of(size: int) -> int:
    """How many words of 32 bits hold a bit for each position."""
    return -(-size // LANES)


def shared_bytes(size: int) -> int:
    """Shared memory of a warp: excess of two layers, places in a list, two rows of bits."""
    return size * (2 * 8 + 4) + 2 * 4 * words_of(size) + 8


def bytes_of_pair(depth: int, size: int, blocks: int) -> int:
    """Memory of a warp with this many blocks for its lists, as `lay_out` of solve.cu divides it."""
    nodes, bits = (depth + 1) * size, (depth + 1) * words_of(size)
    doubles = 3 * nodes + size + blocks * LANES
    total = (
        8 * doubles
        + 4 * (7 * nodes + 2 * (depth + 2) + blocks + 3 * bits)
        + 2 * (blocks * LANES + nodes)
    )
    return -(-total // 256) * 256


def rounded(size: int) -> int:
    """At most an eighth more: memory of few sizes can be used again when texts differ."""
    step = max(256, 1 << max(0, size.bit_length() - 4))
    return -(-size // step) * step


def usual_blocks(depth: int, size: int) -> int:
    """Blocks that suffice for most pairs: one for each row that is poured."""
    return min(most_blocks(depth, size), max(64, (depth - 1) * size))


def most_blocks(depth: int, size: int) -> int:
    """Blocks that suffice for any pair."""
    return max(1, depth * size * words_of(size))
