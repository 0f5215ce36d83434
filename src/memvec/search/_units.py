"""Members in unit order, with the memory vectors over them."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from memvec.codes import Projection
from memvec.kernels import StoredRows
from memvec.theory import MatchLaw
from memvec.types import Float32Array, Float64Array, Int32Array, IntArray

# Memory vectors that go into the fingerprint of an index: opening reads them.
_FINGERPRINT_UNITS = 64


@dataclass(frozen=True, eq=False)
class Units:
    """Members in unit order; every stage of a search reads runs of rows.

    Attributes
    ----------
    vectors : StoredRows of shape (n_vectors, dim)
        The members, unit after unit.
    keys : ndarray of shape (n_vectors,)
        The row of the caller's array that each member came from.
    offsets : ndarray of shape (n_units + 1,)
        Unit u holds the rows from ``offsets[u]`` to ``offsets[u + 1]``.
    projection : Projection or None
        What vectors and queries go through before they are tested.
    unit_vectors : ndarray of shape (n_tested, tested_dim)
        The memory vectors, of projected members. A unit beyond them is visited without a test: it
        holds strays, which no unit stands for, and the reserve, whose vectors come last.
    means, variances : ndarray of shape (n_tested,)
        Mean and variance of the members' scores on their memory vector.
    group_offsets : ndarray of shape (n_groups + 1,)
        Group g holds the units from ``group_offsets[g]`` on; ``[0]`` where there are no groups.
    group_vectors : ndarray of shape (n_groups, tested_dim)
        The centroids of the groups, scaled so that members score 1 on average.
    run_offsets : ndarray of shape (n_units + 1,)
        Where the run of each unit begins: its members, and guests whose second home it is.
    run_rows : ndarray of shape (n_slots,)
        The row of each slot of the runs, and −1 − row for a guest, int32; empty where vectors have
        one home, and runs are units.
    """

    vectors: StoredRows
    keys: IntArray
    offsets: IntArray
    projection: Projection | None
    unit_vectors: Float32Array
    means: Float64Array
    variances: Float64Array
    group_offsets: IntArray
    group_vectors: Float32Array
    run_offsets: IntArray
    run_rows: Int32Array

    @cached_property
    def largest_run(self) -> int:
        """Slots of the largest unit, or units of the largest group if they are more."""
        in_groups = np.diff(self.group_offsets).max(initial=0)
        return int(max(np.diff(self.run_offsets).max(), in_groups))

    @cached_property
    def homes(self) -> Int32Array:
        """The unit of each row, int32; empty where vectors have one home."""
        if not len(self.run_rows):
            return np.empty(0, dtype=np.int32)
        sizes = np.diff(self.offsets)
        return np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)

    @cached_property
    def places(self) -> Int32Array:
        """The row of each key, int32."""
        places = np.empty(len(self.keys), dtype=np.int32)
        places[self.keys] = np.arange(len(self.keys), dtype=np.int32)
        return places

    @cached_property
    def second_homes(self) -> Int32Array:
        """The unit that each row is a guest of, and its own unit where it is none, int32."""
        seconds = self.homes.copy()
        runs = np.repeat(np.arange(len(self.run_offsets) - 1), np.diff(self.run_offsets))
        guests = self.run_rows < 0
        seconds[~self.run_rows[guests]] = runs[guests]
        return seconds

    @property
    def n_groups(self) -> int:
        """Groups of units; none in an index of one level."""
        return len(self.group_vectors)

    @property
    def n_tested(self) -> int:
        """Units with a memory vector."""
        return len(self.unit_vectors)

    @property
    def squared_norms(self) -> Float64Array:
        """‖m‖² of the memory vectors."""
        rows = self.unit_vectors
        return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))

    def law(self, dim: float) -> MatchLaw:
        """Return what matches score on the units, for data of an effective dimension."""
        return MatchLaw.of_units(self.means, self.variances, self.squared_norms, dim)

    def as_tested(self, queries: Float32Array) -> Float32Array:
        """Return queries as the tests see them.

        One at a time: a product of matrices adds up in another order than one of a row, and no
        answer may depend on the company of a query.
        """
        if self.projection is None:
            return queries
        projected = [self.projection.apply(query[np.newaxis], threads=1) for query in queries]
        return np.concatenate(
            [np.empty((0, self.projection.out_dim), dtype=np.float32), *projected]
        )

    @property
    def fingerprint(self) -> str:
        """A checksum of which vectors lie where, and of some memory vectors."""
        some = self.unit_vectors[:: max(1, self.n_tested // _FINGERPRINT_UNITS)]
        return f"{zlib.crc32(some.tobytes(), zlib.crc32(self.keys.tobytes())):08x}"

    def unit_of(self, rows: IntArray) -> IntArray:
        """Return the unit of each row."""
        return np.searchsorted(self.offsets, rows, side="right") - 1
