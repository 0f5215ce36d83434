"""One query at a time: the whole search as one graph of kernels and copies."""

from __future__ import annotations

from typing import Any

import numpy as np

from memvec.gpu._codes import encode_balanced
from memvec.gpu._packages import cupy
from memvec.gpu._scores import CardRows, stored_width
from memvec.gpu._search import Asked, Steps, in_order
from memvec.gpu._units import CardUnits, Limits
from memvec.kernels import MATCH_SLACK
from memvec.matches import Matches
from memvec.types import Float32Array

# Hits that are copied back with the counts; where there are more, they are fetched.
_HITS = 1024
# Pairs that a query has room for at first, at each step.
_ROOM = 1 << 18
# The directions of a copy, as CUDA numbers them.
_TO_CARD, _FROM_CARD = 1, 2
# Graphs that are kept, one for each plan and similarity.
_MOST_GRAPHS = 16


class _Place:
    """Where a query lies, on both sides, and what comes back."""

    def __init__(self, units: CardUnits, tested_dim: int) -> None:
        xp, vectors = cupy(), units.cascade.units.vectors
        width = stored_width(vectors.shape[1], vectors.dtype)
        self.steps = Steps(units, _ROOM)
        self.tested = xp.zeros((1, tested_dim), dtype=np.float32)
        scales = None if vectors.is_plain else xp.ones(1)
        self.rows = CardRows(xp.zeros((1, width), dtype=np.dtype(vectors.dtype)), scales)
        self.codes = units.encoded(self.tested)
        self.flips = xp.asarray(units.cascade.space.flips)
        self.stream = xp.cuda.Stream(non_blocking=True)
        self.given_tested = _pinned(self.tested.shape, np.float32)
        self.given_data = _pinned(self.rows.data.shape, np.dtype(vectors.dtype))
        self.given_scale = _pinned((1,), np.float64)
        self.counts = _pinned((5,), np.uint64)
        self.hits = _pinned((_HITS, 2), np.int32)
        self.scores = _pinned((_HITS,), np.float64)

    @property
    def asked(self) -> Asked:
        """The query on the card."""
        return Asked(self.rows, self.codes)

    def put(self, data: np.ndarray, scale: float, tested: Float32Array) -> None:
        """Take a query."""
        self.given_tested[...] = tested
        self.given_data[0, : data.shape[1]] = data[0]
        self.given_scale[0] = scale

    def launch(self, units: CardUnits, limits: Limits, lowest: float) -> None:
        """Start everything, from the copy of the query to that of the answer."""
        space = units.cascade.space
        self._upload(self.tested, self.given_tested)
        self._upload(self.rows.data, self.given_data)
        if self.rows.scales is not None:
            self._upload(self.rows.scales, self.given_scale)
        self.steps.clear()
        given = self.flips, space.padded_dim, units.card
        encode_balanced(self.tested, *given, coded=space.n_bits, codes=self.codes)
        self.steps.launch(units, limits, self.asked, lowest)
        hits = self.steps.queues[3]
        self._download(self.counts, self.steps.counts)
        self._download(self.hits, hits.entries)
        self._download(self.scores, hits.scores)

    def _upload(self, array: Any, given: np.ndarray) -> None:
        # Not by CuPy, which refuses to copy while a graph is drawn.
        copied = array.data.ptr, given.ctypes.data, given.nbytes
        cupy().cuda.runtime.memcpyAsync(*copied, _TO_CARD, self.stream.ptr)

    def _download(self, taken: np.ndarray, array: Any) -> None:
        copied = taken.ctypes.data, array.data.ptr, taken.nbytes
        cupy().cuda.runtime.memcpyAsync(*copied, _FROM_CARD, self.stream.ptr)


class OneQuery:
    """Searches of one query; not for several threads at once."""

    def __init__(self) -> None:
        self._place: _Place | None = None
        self._graphs: dict[tuple[int, float], tuple[Limits, Any]] = {}

    def answers(self, units: CardUnits) -> bool:
        """Tell whether all steps of a search of these units can be one graph."""
        return units.groups is None and not units.shape.doubles

    def asked(self, units: CardUnits, queries: Float32Array, tested: Float32Array) -> Asked:
        """Put a query on the card, once the search runs."""
        if self._place is None:
            self._place = _Place(units, tested.shape[1])
        stored = units.cascade.units.vectors.like(queries)
        scale = 1.0 if stored.is_plain else float(stored.scales[0])
        self._place.put(stored.data, scale, tested)
        return self._place.asked

    def search(self, units: CardUnits, limits: Limits, asked: Asked, similarity: float) -> Matches:
        """Return what a query finds, that was put on the card."""
        place = self._place
        assert place is not None
        lowest = similarity - MATCH_SLACK
        key = (id(limits.columns), lowest)
        with place.stream:
            if key not in self._graphs:
                # Kernels are loaded, and queues have room, before the graph is drawn.
                place.launch(units, limits, lowest)
                place.stream.synchronize()
                self._draw(place, units, limits, lowest, key)
            self._graphs[key][1].launch(place.stream)
            place.stream.synchronize()
            while place.steps.grow(place.counts):
                self._graphs.clear()
                self._draw(place, units, limits, lowest, key)
                self._graphs[key][1].launch(place.stream)
                place.stream.synchronize()
            return self._matches(place, units)

    def _draw(
        self, place: _Place, units: CardUnits, limits: Limits, lowest: float, key: Any
    ) -> None:
        if len(self._graphs) >= _MOST_GRAPHS:
            self._graphs.pop(next(iter(self._graphs)))
        place.stream.begin_capture()
        try:
            place.launch(units, limits, lowest)
        finally:
            graph = place.stream.end_capture()
        self._graphs[key] = limits, graph  # limits are kept as long as a graph reads them

    def _matches(self, place: _Place, units: CardUnits) -> Matches:
        n_columns, n_single_columns, n_members, n_hits, n_tested = place.counts.tolist()
        hits = place.steps.queues[3]
        ends, scores = place.hits[:n_hits], place.scores[:n_hits]
        if n_hits > _HITS:
            ends, scores = hits.entries[:n_hits].get(), hits.scores[:n_hits].get()
        # Rows that no unit stands for are one unit, all of whose members are tested.
        n_singles = len(units.units.begins) - units.n_tested
        visited = n_columns - n_single_columns + (n_singles > 0)
        tested = n_tested - n_single_columns + n_singles
        spent = np.array([[units.n_tested, visited, tested, tested, n_members]], dtype=np.int64)
        ids = units.cascade.keys[ends[:, 1]] if units.keys is not None else ends[:, 1]
        return in_order(ends[:, 0], np.asarray(ids, dtype=np.int64), scores.copy(), spent)


def _pinned(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Return an array of zeros that a card reads and writes by itself."""
    size = int(np.prod(shape))
    memory = cupy().cuda.alloc_pinned_memory(size * np.dtype(dtype).itemsize)
    array = np.frombuffer(memory, dtype, size).reshape(shape)
    array[...] = 0
    return array
