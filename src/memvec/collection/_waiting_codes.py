"""Waiting vectors, scanned by their codes.

A code is a twentieth of its vector, and ten thousand vectors are too many to read for every query.
No calibration query tells how many of their matches thresholds would lose: what waits may be of
another kind than what is sealed. So the codes have all the slack that their noise ever needs, and
lose about one match in 100,000.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from memvec.cache import Cache
from memvec.collection._settings import Settings
from memvec.collection._state import State
from memvec.collection._waiting import Waiting
from memvec.guarantee import Thresholds
from memvec.index import scan_by_codes
from memvec.matches import Matches
from memvec.search import CodeUnits, StageView, stage_views
from memvec.types import BoolArray, Float32Array

# Vectors that are encoded together, once they are so many; the rest is scored in float32.
CHUNK = 2048
# What is kept, in bytes: 64 chunks of 384 dimensions, with their vectors.
_MOST_KEPT = 256 << 20


class CodeScans:
    """Codes of waiting vectors, made when they are first searched."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._kept: Cache[tuple[int, int], CodeUnits] = Cache(_MOST_KEPT, _n_bytes)

    def of(self, state: State) -> WaitingCodes | None:
        """Return the waiting vectors of a state that are scanned by codes; None if there are none.

        Thresholds are those of segments: without any, there are no codes either. Nor are there
        where nothing bounds the noise of codes: codes without scales of their own would pass
        everything.
        """
        config = self._settings.config
        if not state.segments or config.projects or config.rotation == "none":
            return None
        n_rows = len(state.waiting.keys) // CHUNK * CHUNK
        built = state.segments[0].rows.index.config
        if n_rows == 0 or built.codes == "none" or not built.own_scales:
            return None
        return WaitingCodes(self, state, n_rows)

    def chunk(self, state: State, waiting: Waiting, first: int) -> CodeUnits:
        """Return the codes of the chunk that begins with a row."""
        design = state.segments[0].rows.index.design
        key = (int(waiting.keys[first]), int(waiting.keys[first + CHUNK - 1]))

        def made() -> CodeUnits:
            rows = waiting.rows.some(slice(first, first + CHUNK))
            return scan_by_codes(rows, self._settings.config, design)

        return self._kept.get(key, made)


def _n_bytes(scan: CodeUnits) -> int:
    arrays = (scan.units.vectors, scan.codes, scan.prefix, scan.code_scales)
    return sum(int(array.nbytes) for array in arrays)


@dataclass(frozen=True, eq=False)
class WaitingCodes:
    """The first `n_rows` waiting vectors of a state, scanned by codes."""

    scans: CodeScans
    state: State
    n_rows: int

    def search(
        self,
        queries: Float32Array,
        similarity: float,
        threads: int | None,
        allowed: BoolArray,
    ) -> Iterator[Matches]:
        """Yield what is found in each chunk, by row.

        `allowed` tells which waiting rows may be hits, all where it is empty.
        """
        for first in range(0, self.n_rows, CHUNK):
            scan = self.scans.chunk(self.state, self.state.waiting.rows, first)
            some = allowed[first : first + CHUNK]
            thresholds = _all_slack(scan, similarity)
            found = scan.search(queries, similarity, thresholds, threads, some)
            yield found.named(np.arange(first, first + CHUNK))

    def stages(self, query: Float32Array, row: int, similarity: float) -> tuple[StageView, ...]:
        """Return what the codes tell of a query and a waiting vector; none of those beyond them."""
        if row >= self.n_rows:
            return ()
        first = row // CHUNK * CHUNK
        scan = self.scans.chunk(self.state, self.state.waiting.rows, first)
        thresholds = _all_slack(scan, similarity)
        return stage_views(scan, query[np.newaxis], np.array([row - first]), thresholds)


def _all_slack(scan: CodeUnits, similarity: float) -> Thresholds:
    """Return thresholds that only one match in 100,000 is below."""
    return Thresholds.one(similarity, scan.most_slack)
