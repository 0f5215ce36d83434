"""The calibration queries of a collection: at every moment a uniform sample of its living rows.

They are the living rows with priorities below a bound. Rows that wait are in no unit, and so
natural queries. Of a segment, the strangers are; the first living row in one of its units ends the
sample, as does a stranger that some segment was not asked about.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from memvec.collection._catalog import NUMBERS_OF_SHARD
from memvec.collection._priority import priorities
from memvec.collection._segment import Segment
from memvec.collection._state import Part, State
from memvec.types import BoolArray, IntArray

# Rows of a sample, on average: as many as the reserve of one large segment.
_SAMPLE = 2000
# Of several shards together: they have reserves enough, and one answer to promise for. Where 2.5 to
# 5 % of the items have a match, these support a promise of 1 %, which needs 99 queries with one.
_SAMPLE_OF_SHARDS = 4000
# A sample is drawn anew when this share of the living rows has come since, and not before so many
# have: to draw it takes as long as hundreds of searches. What has come since waits, and is found.
_STALE_SHARE, _LEAST_STEP = 0.02, 16


@dataclass(frozen=True, eq=False)
class Sample:
    """Living rows to calibrate on.

    Attributes
    ----------
    chosen : tuple of ndarray
        For each segment the places of its rows among its strangers.
    waiting : ndarray of int
        Rows that wait.
    keys : ndarray of int
        The items of all of them: those of segments in turn, then those that wait.
    below : float
        Their priorities are below this.
    population : int
        Living rows that they are a sample of.
    """

    chosen: tuple[IntArray, ...]
    waiting: IntArray
    keys: IntArray
    below: float
    population: int

    @cached_property
    def name(self) -> bytes:
        """Tells the sample from others; the same rows make the same tables."""
        return self.keys.tobytes()


class Samples:
    """Draws the sample of a state; the last one is kept as long as its rows live."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._kept: _Drawn | None = None

    def of(self, state: State) -> Sample:
        """Return the sample of a state; it depends on nothing else."""
        kept = self._kept
        waiting = represented(state)
        if kept is None or not kept.is_of(state, waiting):
            kept = _Drawn.of(state, waiting, self._seed)
            self._kept = kept
        return kept.sample


def represented(state: State) -> slice | IntArray:
    """Return the rows that wait that a sample is drawn of: the first ones of each shard.

    They end at a multiple of a power of two among the keys: the sample of a growing collection so
    changes seldom, and at the same rows in every process.
    """
    keys = state.waiting.keys
    if not len(keys):
        return slice(0)
    share = max(_LEAST_STEP, int(_STALE_SHARE * state.n_items))
    step = 1 << (share.bit_length() - 1)
    first, last = int(keys[0]) // NUMBERS_OF_SHARD, int(keys[-1]) // NUMBERS_OF_SHARD
    if first == last:
        return slice(_n_represented(keys, step))
    starts = np.searchsorted(keys, np.arange(first, last + 2) * NUMBERS_OF_SHARD).tolist()
    rows = [
        np.arange(start, start + _n_represented(keys[start:stop], step))
        for start, stop in pairwise(starts)
        if start < stop
    ]
    return np.concatenate(rows)


def _n_represented(keys: IntArray, step: int) -> int:
    beyond = int(keys[-1]) % NUMBERS_OF_SHARD + 1
    return int(np.searchsorted(keys, int(keys[-1]) + 1 - beyond % step))


@dataclass(frozen=True, eq=False)
class _Drawn:
    """A sample, and the rows that were alive; arrays are held, so that no others take their place.

    Attributes
    ----------
    alive : tuple of ndarray
        Of each segment.
    first_key : int
        Of the rows that wait.
    waiting : ndarray of bool
        Which of them are alive, as far as they are represented.
    """

    alive: tuple[BoolArray, ...]
    first_key: int
    waiting: BoolArray
    sample: Sample

    @classmethod
    def of(cls, state: State, waiting: slice | IntArray, seed: int) -> _Drawn:
        alive = tuple(part.alive for part in state.segments)
        sample = _drawn(state, waiting, seed)
        return cls(alive, _first_key(state), state.waiting.alive[waiting], sample)

    def is_of(self, state: State, waiting: slice | IntArray) -> bool:
        """Tell whether the same rows live in another state."""
        return (
            len(self.alive) == len(state.segments)
            and all(a is part.alive for a, part in zip(self.alive, state.segments, strict=True))
            and self.first_key == _first_key(state)
            and np.array_equal(self.waiting, state.waiting.alive[waiting])
        )


def _first_key(state: State) -> int:
    return int(state.waiting.keys[0]) if len(state.waiting.keys) else -1


def _drawn(state: State, rows: slice | IntArray, seed: int) -> Sample:
    """Return the rows below the bound that what is known of them allows."""
    alive = state.waiting.alive[rows]
    population = sum(part.n_alive for part in state.segments) + int(np.count_nonzero(alive))
    # Not by the priorities of the rows themselves, whose number is so left to chance: a bound that
    # looks at nothing is as good for one row as for another.
    wanted = _SAMPLE_OF_SHARDS if _has_shards(state) else _SAMPLE
    below = min([wanted / max(population, 1), *_bounds(state)])
    chosen = tuple(
        np.flatnonzero(_living(part) & (part.rows.stranger_priorities < below))
        for part in state.segments
    )
    low = priorities(state.waiting.keys[rows], seed) < below
    waiting = np.flatnonzero(alive & low)
    waiting = waiting if isinstance(rows, slice) else rows[waiting]
    keys = [
        part.keys[part.rows.strangers[places]]
        for part, places in zip(state.segments, chosen, strict=True)
    ]
    return Sample(
        chosen, waiting, np.concatenate([*keys, state.waiting.keys[waiting]]), below, population
    )


def _has_shards(state: State) -> bool:
    """Tell whether a state is that of several shards: their keys and segments tell which."""
    ends = [int(part.keys[end]) for part in state.parts if len(part.keys) for end in (0, -1)]
    return len({one // NUMBERS_OF_SHARD for one in ends}) > 1


def _bounds(state: State) -> Iterator[float]:
    """Yield priorities that end the sample; segments without a living row have none."""
    segments = [part for part in state.segments if part.n_alive]
    for part in segments:
        source = part.rows
        yield source.cutoff(part.alive)
        tables = [
            state.calibration.get((other.rows.number, source.number))
            for other in segments
            if other is not part
        ]
        known = [0 if table is None else table.n_known for table in tables]
        first = min(known, default=len(source.strangers))
        unknown = source.stranger_priorities[first:][_living(part)[first:]]
        yield float(unknown.min(initial=np.inf))


def _living(part: Part[Segment]) -> BoolArray:
    """Tell which strangers of a segment are alive."""
    return np.asarray(part.alive[part.rows.strangers])
