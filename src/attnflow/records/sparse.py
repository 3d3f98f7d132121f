"""Maps of attention in windows: only what is not 0 is held, row by row.

Whatever does not know these maps may ask NumPy for a dense array of them, as of any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from attnflow.records.types import FloatArray

IntArray = npt.NDArray[np.int32]
LongArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SparseLayer:
    """A square map ``[query, key]`` by its entries that are not 0.

    Attributes:
        starts: ``[query + 1]``: where the entries of each row begin.
        keys: ``[entry]``: the columns, rising within a row.
        values: ``[entry]``.
    """

    starts: LongArray
    keys: IntArray
    values: npt.NDArray[np.floating[Any]]

    @classmethod
    def of(cls, rows: Any) -> SparseLayer:
        """The entries of a dense map."""
        dense = np.asarray(rows)
        queries, keys = np.nonzero(dense)
        starts = np.searchsorted(queries, np.arange(len(dense) + 1))
        return cls(starts.astype(np.int64), keys.astype(np.int32), dense[queries, keys])

    @property
    def size(self) -> int:
        """How many positions there are."""
        return len(self.starts) - 1

    @property
    def shape(self) -> tuple[int, int]:
        """That of the dense map."""
        return self.size, self.size

    @property
    def ndim(self) -> int:
        """Query and key."""
        return 2

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values."""
        return self.values.dtype

    @property
    def nbytes(self) -> int:
        """How much memory it holds."""
        return self.starts.nbytes + self.keys.nbytes + self.values.nbytes

    @property
    def queries(self) -> IntArray:
        """``[entry]``: the rows."""
        return np.repeat(np.arange(self.size, dtype=np.int32), np.diff(self.starts))

    @property
    def sums(self) -> FloatArray:
        """``[query]``: of the rows, in float64."""
        found: FloatArray = np.bincount(self.queries, self.values, self.size).astype(np.float64)
        return found

    @property
    def sees_ahead(self) -> bool:
        """Whether a position reads a later one."""
        return bool((self.keys > self.queries).any())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """The dense map."""
        dense = np.zeros(self.shape, dtype or self.dtype)
        dense[self.queries, self.keys] = self.values
        return dense

    def __getitem__(self, query: int) -> FloatArray:
        """One row, dense."""
        row = np.zeros(self.size)
        at = slice(self.starts[query], self.starts[query + 1])
        row[self.keys[at]] = self.values[at]
        return row

    def rows(self, queries: Sequence[int]) -> FloatArray:
        """``[row, key]``: some rows, dense."""
        return np.stack([self[query] for query in queries])

    def double(self) -> SparseLayer:
        """In float64."""
        return replace(self, values=self.values.astype(np.float64, copy=False))

    def times(self, factors: FloatArray) -> SparseLayer:
        """Every row times its factor."""
        return replace(self, values=self.values * factors[self.queries])

    def plus_diagonal(self, amounts: FloatArray) -> SparseLayer:
        """With these added from each position to itself."""
        queries, own = self.queries, np.zeros(self.size, bool)
        diagonal = queries == self.keys
        own[queries[diagonal]] = True
        values = self.values.copy()
        values[diagonal] += amounts[queries[diagonal]]
        made = replace(self, values=values)
        missing = np.flatnonzero(~own & (amounts != 0))
        return made if not len(missing) else made._with_entries(missing, amounts[missing])

    def _with_entries(self, places: LongArray, amounts: FloatArray) -> SparseLayer:
        """With entries of the diagonal that were not there."""
        queries = np.concatenate([self.queries, places])
        keys = np.concatenate([self.keys, places.astype(np.int32)])
        order = np.lexsort((keys, queries))
        starts = np.searchsorted(queries[order], np.arange(self.size + 1))
        values = np.concatenate([self.values, amounts])
        return SparseLayer(starts.astype(np.int64), keys[order], values[order])


@dataclass(frozen=True, eq=False)
class SparseLayers:
    """Maps ``[layer, query, key]`` of which each is sparse."""

    layers: tuple[SparseLayer, ...]

    @property
    def shape(self) -> tuple[int, int, int]:
        """That of the dense maps."""
        return len(self.layers), *self.layers[0].shape

    @property
    def ndim(self) -> int:
        """Layer, query and key."""
        return 3

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values."""
        return self.layers[0].dtype

    @property
    def nbytes(self) -> int:
        """How much memory they hold."""
        return sum(each.nbytes for each in self.layers)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """The dense maps."""
        return np.stack([np.asarray(each, dtype) for each in self.layers])

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[SparseLayer]:
        return iter(self.layers)

    @overload
    def __getitem__(self, at: int) -> SparseLayer: ...
    @overload
    def __getitem__(self, at: slice) -> SparseLayers: ...
    def __getitem__(self, at: int | slice) -> SparseLayer | SparseLayers:
        return SparseLayers(self.layers[at]) if isinstance(at, slice) else self.layers[at]
