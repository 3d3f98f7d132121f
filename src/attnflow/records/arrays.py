"""What NumPy arrays and torch tensors have in common, so that one formula serves both.

torch is never imported here: a tensor can only arrive when its owner has imported it already.
"""

from __future__ import annotations

import sys
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from attnflow.errors import InputError
from attnflow.records.types import Array, FloatArray

HALF_PRECISIONS = ("float16", "bfloat16")
PRECISIONS = (*HALF_PRECISIONS, "float32", "float64")
ROW_SUM_TOLERANCE = 1e-3
HALF_ROW_SUM_TOLERANCE = 2e-2  # bfloat16 has 8 bits: a row of 512 sums to 1 only that closely


def is_tensor(array: object) -> bool:
    """Whether this is a torch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def namespace(array: Array) -> Any:
    """The module whose functions work on this array: numpy or torch."""
    return sys.modules["torch"] if is_tensor(array) else np


def precision(array: Array) -> str:
    """The name of the element type, e.g. ``"float32"``."""
    return _name_of(array.dtype)


@cache
def _name_of(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def row_tolerance(kind: str) -> float:
    """How far from 1 the rows of attention of this precision may sum."""
    return HALF_ROW_SUM_TOLERANCE if kind in HALF_PRECISIONS else ROW_SUM_TOLERANCE


def double(array: Array) -> Array:
    """The array in float64, detached from any gradient tape."""
    if is_tensor(array):
        return array.detach().double()
    return np.asarray(array, dtype=np.float64)


def check_numbers(array: Any, what: str) -> None:
    """Refuse arrays that would lose something as float64: imaginary parts, masks, their shape."""
    if not _holds_numbers(array):
        kind = getattr(array, "dtype", "no numbers")
        msg = f"{what} must be a dense array of real numbers, not {type(array).__name__} of {kind}"
        raise InputError(msg)


def _holds_numbers(array: Any) -> bool:
    if is_tensor(array):
        strided = array.layout is sys.modules["torch"].strided
        return strided and not array.is_meta and not array.is_complex()
    if isinstance(array, np.ndarray):
        return array.dtype.kind in "fiub" and not isinstance(array, np.ma.MaskedArray)
    return hasattr(array, "shape")


def to_numpy(array: Array) -> Any:
    """The array as float64 NumPy on the CPU."""
    return array.detach().cpu().double().numpy() if is_tensor(array) else double(array)


def copied(value: Any) -> Any:
    """The same with memory of its own: an array, or a tuple or record that holds some."""
    if is_tensor(value):
        return value.clone()
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, tuple):
        return tuple(map(copied, value))
    if is_dataclass(value) and not isinstance(value, type):
        own = {each.name: copied(getattr(value, each.name)) for each in fields(value) if each.init}
        return replace(value, **own)
    return value


def on_cpu(array: Array) -> bool:
    """Whether NumPy can use the array where it is."""
    return not is_tensor(array) or array.device.type == "cpu"


def contiguous(array: Array) -> Any:
    """The array as contiguous NumPy on the CPU, in float32 or float64; a copy only if needed."""
    single = precision(array) == "float32"
    if is_tensor(array):
        array = array.detach().cpu()
        array = (array if single else array.double()).numpy()
    return np.ascontiguousarray(array, dtype=np.float32 if single else np.float64)


def like(values: Array, original: Array) -> Array:
    """The values with the kind, precision and device of the original."""
    if is_tensor(original):
        torch = sys.modules["torch"]
        return torch.as_tensor(values).to(dtype=original.dtype, device=original.device)
    if is_tensor(values):
        values = values.cpu().numpy()
    return np.asarray(values).astype(original.dtype, copy=False)


def empty(shape: tuple[int, ...], beside: Array) -> Array:
    """An uninitialised array of the kind, precision and device of another."""
    where = {"device": beside.device} if is_tensor(beside) else {}
    return namespace(beside).empty(shape, dtype=beside.dtype, **where)


def check_float(name: str, array: Array) -> None:
    """Refuse anything but a floating-point array."""
    if not hasattr(array, "dtype") or precision(array) not in PRECISIONS:
        kind = precision(array) if hasattr(array, "dtype") else type(array).__name__
        msg = f"{name} is {kind}; it must be an array of {', '.join(PRECISIONS)}"
        raise InputError(msg)


def ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    """Above / below, and 0 where both are 0: what can't be seen is not attended to."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


def round_scores(values: FloatArray) -> FloatArray:
    """Scores without differences below a billionth of the largest of their row.

    Flow is exactly 1 for every token that all flow of a position can reach; rounding must not
    decide the ranks of such ties.
    """
    largest = np.abs(values).max(-1, initial=0.0, keepdims=True)
    rounded: FloatArray = np.round(values / np.where(largest == 0, 1, largest), 9)
    return rounded
