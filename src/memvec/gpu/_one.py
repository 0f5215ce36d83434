"""One query at a time: the whole search as one graph of kernels and copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from memvec.gpu._card import finish_work
from memvec.gpu._codes import encode_balanced
from memvec.gpu._limits import Limits
from memvec.gpu._packages import cupy
from memvec.gpu._queue import Queue
from memvec.gpu._scores import CardRows, stored_width
from memvec.gpu._search import Asked, Steps, in_order
from memvec.gpu._units import CardUnits
from memvec.kernels import MATCH_SLACK
from memvec.matches import Matches
from memvec.types import Float32Array

# Hits that are copied back with the counts; where there are more, they are fetched.
_HITS = 1024
# Pairs that a query has room for at first, at each step.
_ROOM = 1 << 18
# The directions of a copy, as CUDA numbers them.
_TO_CARD, _FROM_CARD = 1, 2
# What kernels read at a time, in bytes.
_ALIGNED = 16
# Graphs that are kept, one for each plan and similarity.
_MOST_GRAPHS = 16


class _Place:
    """Where a query lies, on both sides, and what comes back.

    On the card all of it is one piece of memory, so that one copy brings the query, and zeros for
    the counts, and one fetches the answer::

        scale | query, as it is tested | query, as it is stored | counts | scores | hits
        '---------------- copied to the card -------------------------'
                                                                '-- copied back --------'
    """

    def __init__(self, units: CardUnits, tested_dim: int) -> None:
        xp, vectors = cupy(), units.cascade.units.vectors
        width = stored_width(vectors.shape[1], vectors.dtype)
        shapes: list[tuple[tuple[int, ...], Any]] = [
            *(((1,), np.float64), ((1, tested_dim), np.float32)),
            *(((1, width), np.dtype(vectors.dtype)), ((5,), np.uint64)),
            *(((_HITS,), np.float64), ((_HITS, 2), np.int32)),
        ]
        self._memory = xp.zeros(_bytes_of(shapes), dtype=np.uint8)
        self._given, self._taken = (_pinned(_bytes_of(some)) for some in (shapes[:4], shapes[3:]))
        scale, self.tested, data, counts, *room = _cut(self._memory, shapes)
        self.given_scale, self.given_tested, self.given_data, _ = _cut(self._given, shapes[:4])
        self.counts, self.scores, self.hits = _cut(self._taken, shapes[3:])
        self.steps = Steps(units, _ROOM, counts)
        count = counts[3:4]
        self._first_hits = Queue(units.card, _HITS, count=count, room=(room[1], room[0]))
        self.steps.queues[3] = self._first_hits
        self.rows = CardRows(data, None if vectors.is_plain else scale)
        self.codes = units.encoded(self.tested)
        self.flips = xp.asarray(units.cascade.space.flips)
        self.stream = xp.cuda.Stream(non_blocking=True)
        finish_work()  # zeros and flips were made on another stream

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
        self._copy(self._memory.data.ptr, self._given.ctypes.data, self._given.nbytes, _TO_CARD)
        given = self.flips, space.padded_dim, units.card
        encode_balanced(self.tested, *given, coded=space.n_bits, codes=self.codes)
        self.steps.launch(units, limits, self.asked, lowest)
        self._download(self._taken, self.steps.counts)
        hits = self.steps.queues[3]
        if hits is not self._first_hits:  # there were more before
            self._download(self.hits, hits.entries)
            self._download(self.scores, hits.scores)

    def _download(self, taken: np.ndarray, array: Any) -> None:
        self._copy(taken.ctypes.data, array.data.ptr, taken.nbytes, _FROM_CARD)

    def _copy(self, to: int, of: int, n_bytes: int, direction: int) -> None:
        # Not by CuPy, which refuses to copy while a graph is drawn.
        cupy().cuda.runtime.memcpyAsync(to, of, n_bytes, direction, self.stream.ptr)


class _Graph(NamedTuple):
    """A search that was drawn, and what it reads and writes: kept as long as it may be launched."""

    launched: Any
    limits: Limits
    queues: tuple[Queue, ...]


class OneQuery:
    """Searches of one query; not for several threads at once."""

    def __init__(self) -> None:
        self._place: _Place | None = None
        self._graphs: dict[tuple[int, float], _Graph] = {}

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
        with place.stream:
            while True:
                graph = self._graph(place, units, limits, lowest)
                graph.launched.launch(place.stream)
                place.stream.synchronize()
                if not place.steps.grow(place.counts):
                    return self._matches(place, units)

    def _graph(self, place: _Place, units: CardUnits, limits: Limits, lowest: float) -> _Graph:
        """Return the search as a graph into the queues that there are; drawn where there is none.

        Queues are others when one has grown. Whatever a search was interrupted by, no graph is
        launched that writes to queues of before.
        """
        key, queues = (id(limits.columns), lowest), tuple(place.steps.queues)
        graph = self._graphs.get(key)
        if graph is None or graph.queues != queues:
            if graph is None:  # kernels are loaded before a graph is drawn
                place.launch(units, limits, lowest)
                place.stream.synchronize()
            self._make_room(queues)
            graph = _Graph(self._drawn(place, units, limits, lowest), limits, queues)
            self._graphs[key] = graph
        return graph

    def _make_room(self, queues: tuple[Queue, ...]) -> None:
        """Forget graphs into other queues, whose memory is then free, and the oldest of many."""
        kept = list(self._graphs.items())[-(_MOST_GRAPHS - 1) :]
        self._graphs = {key: graph for key, graph in kept if graph.queues == queues}

    @staticmethod
    def _drawn(place: _Place, units: CardUnits, limits: Limits, lowest: float) -> Any:
        try:
            place.stream.begin_capture()
            place.launch(units, limits, lowest)
        finally:
            graph = place.stream.end_capture()
        return graph

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
        ids = np.asarray(ids, dtype=np.int64)
        if n_hits > 1:
            return in_order(ends[:, 0], ids, scores.copy(), spent)
        return Matches(np.array([0, n_hits]), ids.copy(), scores.copy(), spent)


def _bytes_of(shapes: Sequence[tuple[tuple[int, ...], Any]]) -> int:
    """Return what arrays take, one after the other, each at a multiple of 16 bytes."""
    sizes = (int(np.prod(shape)) * np.dtype(dtype).itemsize for shape, dtype in shapes)
    return sum(-(-size // _ALIGNED) * _ALIGNED for size in sizes)


def _cut(memory: Any, shapes: Sequence[tuple[tuple[int, ...], Any]]) -> list[Any]:
    """Return arrays that share a piece of memory, one after the other."""
    arrays, at = [], 0
    for shape, dtype in shapes:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        arrays.append(memory[at : at + size].view(dtype).reshape(shape))
        at += _bytes_of([(shape, dtype)])
    return arrays


def _pinned(n_bytes: int) -> np.ndarray:
    """Return zeros that a card reads and writes by itself."""
    array = np.frombuffer(cupy().cuda.alloc_pinned_memory(n_bytes), np.uint8, n_bytes)
    array[...] = 0
    return array
