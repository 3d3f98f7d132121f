"""A device for the CUDA solver that is no GPU: emulator.cpp runs its kernels on the CPU."""

import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import torch

from attnflow.solvers.cuda import device

SHIM = Path(__file__).with_name("emulator.cpp")


def available():
    return shutil.which("g++") is not None


@cache
def library():
    folder = Path(tempfile.mkdtemp(prefix="attnflow-emulator-"))
    (folder / "kernels.cu").write_text(device.program(), encoding="utf-8")
    kernels = f'-DKERNELS="{folder / "kernels.cu"}"'
    flags = ("-std=c++17", "-O1", "-U_FORTIFY_SOURCE", "-fPIC", "-shared", "-w", kernels)
    built = folder / "emulator.so"
    subprocess.run(["g++", *flags, str(SHIM), "-o", str(built)], check=True)
    return ctypes.CDLL(str(built))


class Emulated:
    """`memory` is what arrays may take, one by one; `warps` how many pairs are in flight."""

    def __init__(self, memory=1 << 30, warps=3):
        self.memory, self.warps = memory, warps
        self.launches = {}

    def array(self, given):
        return np.ascontiguousarray(given, dtype=np.float64)

    def upload(self, given):
        return np.array(given)

    def tensor(self, array):
        return torch.from_numpy(array)

    def download(self, array):
        return array.copy()

    peek = download

    def sums(self, array):
        return array.sum(-1)

    def empty(self, shape, kind):
        made = np.empty(shape, kind)
        if made.nbytes > self.memory:
            raise device.OutOfMemory
        made.view(np.uint8)[...] = 0xA5  # nobody may rely on zeros
        return made

    def address(self, array):
        return array.ctypes.data

    def free_bytes(self):
        return 1 << 40

    def together(self, name, shared):
        return self.warps

    def stop_flag(self):
        return np.zeros(1, np.int32)

    def launch(self, name, grid, threads, args, shared=0, *, with_torch=False):
        # An argument is passed by where it is: an array by where its address is.
        held = [
            np.array(each.ctypes.data if isinstance(each, np.ndarray) else each) for each in args
        ]
        at = [each.ctypes.data for each in held]
        self.launches[name] = self.launches.get(name, 0) + 1
        grid = (ctypes.c_int * 3)(*grid)
        library().launch(name.encode(), grid, threads, (ctypes.c_void_p * len(at))(*at))

    def wait(self, show):
        show()
