"""Rounds of k-means over many units, in which vectors leave the cluster they were made in.

The vectors that belong together are scattered over the clusters, all the more the more clusters
there are. Those that are many in one unit find the others of their kind by what the vectors beside
them are near to. A vector that is among strangers hears of no better unit there: it is compared
with all units, by codes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from memvec.assignment._kmeans import UpdateRule, fill_empty_units
from memvec.assignment._near_groups import BLOCK_ROWS
from memvec.assignment._result import Assignment
from memvec.codes import CodeSpace
from memvec.kernels import (
    LOOK,
    RUN,
    SCANNED_WORDS,
    UnitRows,
    best_of_named,
    in_blocks,
    nearest_of_shared,
    run_blocks,
    scan_codes,
)
from memvec.progress import Advance
from memvec.types import Float32Array, Int32Array, IntArray, WordArray

# Units that a vector names to those beside it. Sixty-four that lie together name some two hundred.
N_NAMED = 8
# Units of the nearest codes whose scores are computed. The best unit of a vector scores 0.6 to 0.7
# where structured vectors are in place, and the code of 256 bits tells 0.13 more or less, so that
# it is among the nearest 32 of 357,000 for nine in ten.
_SCORED = 32


def settle_units(
    rows: UnitRows,
    found: Assignment,
    rule: UpdateRule,
    scans: Sequence[float],
    n_near: int,
    seed: int,
    advance: Advance,
) -> tuple[IntArray, Int32Array]:
    """Let every vector try the units near to it, and those that are out of place all of them.

    Parameters
    ----------
    rows : ndarray of shape (n_vectors, dim)
        Unit rows.
    found : Assignment
        The unit of each vector, and units near to it if they are known.
    rule : UpdateRule
        What represents a unit.
    scans : sequence of float
        The share of the vectors that is compared with all units, in turn.
    n_near : int
        How many of the best units to return.
    seed : int
        Fixes the codes.
    advance : callable
        Told how many vectors were gone through; see `n_settling_rounds`.

    Returns
    -------
    labels : ndarray of shape (n_vectors,)
        The unit of each vector.
    near : ndarray of shape (n_vectors, n_near)
        The best units in the last round, best first; −1 where there are fewer.
    """
    space = CodeSpace.random(rows.shape[1], symmetric=True, seed=seed)
    settling = _Settling(rows, found, rule, space)
    for share in scans:
        settling.ask_those_beside(N_NAMED)
        advance(len(rows))
        settling.scan(share)
        advance(len(rows))
    for n_best in (N_NAMED, n_near):
        settling.ask_those_beside(n_best)
        advance(len(rows))
    return settling.labels, settling.near


def n_settling_rounds(scans: Sequence[float]) -> int:
    """Return how often `settle_units` goes through all vectors."""
    return 2 * len(scans) + 2


class _Settling:
    """Vectors on their way to better units.

    Attributes
    ----------
    labels : ndarray of shape (n_vectors,)
        The unit of each vector.
    near : ndarray of shape (n_vectors, n_near)
        The best units that it knows, best first, int32; −1 where there are fewer.
    """

    def __init__(
        self, rows: UnitRows, found: Assignment, rule: UpdateRule, space: CodeSpace
    ) -> None:
        self._rows, self._rule, self._space = rows, rule, space
        self._n_units, self.labels = found.n_units, found.labels
        near = found.near_units
        self.near = found.labels[:, np.newaxis].astype(np.int32) if near is None else near
        self._scores = np.empty(len(rows), dtype=np.float32)

    def ask_those_beside(self, n_best: int) -> None:
        """Let every vector try the units that those of its unit and the next ones are near to."""
        state = Assignment(self.labels, self._n_units)
        units = self._units(state)
        found = np.empty((len(self._rows), n_best), dtype=np.int32)

        def search(start: int, stop: int) -> None:
            some = state.order[start:stop]
            best, scores = _room(len(some), n_best)
            nearest_of_shared(self._rows[some], self.near[some], units, best, scores)
            found[some], self._scores[some] = best, scores[:, 0]

        run_blocks(search, len(self._rows), BLOCK_ROWS, threads=self._rule.threads)
        self.near = found
        self._move()

    def scan(self, share: float) -> None:
        """Let the vectors that score lowest on their units try those of the nearest codes."""
        state = Assignment(self.labels, self._n_units)
        units = self._units(state)
        blocks = in_blocks(self._codes(units))
        lowest = self._scores <= np.quantile(self._scores, share)
        # In the order of their units, which meet the same others.
        chosen = state.order[lowest[state.order]]

        def search(start: int, stop: int) -> None:
            some = chosen[start:stop]
            rows = self._rows[some]
            coded, distances = np.empty((2, len(some), _SCORED), dtype=np.int32)
            scan_codes(self._codes(rows), blocks, len(units), RUN, LOOK, coded, distances)
            best, scores = _room(len(some), self.near.shape[1])
            best_of_named(rows, np.hstack([self.near[some], coded]), units, best, scores)
            self.near[some], self._scores[some] = best, scores[:, 0]

        run_blocks(search, len(chosen), BLOCK_ROWS, threads=self._rule.threads)
        self._move()

    def _units(self, state: Assignment) -> Float32Array:
        return self._rule.representatives(self._rows, state.offsets, state.order)

    def _codes(self, rows: Float32Array) -> WordArray:
        """Return the first words of codes; where there are fewer, the others are zero."""
        codes = np.zeros((len(rows), SCANNED_WORDS), dtype=np.uint64)
        words = self._space.encode(rows, self._space.n_words, threads=1).words
        n_words = min(SCANNED_WORDS, words.shape[1])
        codes[:, :n_words] = words[:, :n_words]
        return codes

    def _move(self) -> None:
        """Move every vector to the best of the units near to it."""
        self.labels = self.near[:, 0].astype(np.int64)
        fill_empty_units(self.labels, self._scores, self._n_units)


def _room(n_rows: int, n_best: int) -> tuple[Int32Array, Float32Array]:
    """Return room for the best units of some rows, and their scores."""
    return np.empty((n_rows, n_best), dtype=np.int32), np.empty((n_rows, n_best), dtype=np.float32)
