"""From vectors to units: members in unit order, with the memory vectors over them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from memvec.assignment import (
    Assignment,
    batch_assignment,
    random_assignment,
    sampled_assignment,
    second_units,
    two_step_assignment,
)
from memvec.codes import Projection
from memvec.constructions import memory_vectors
from memvec.index._config import KMEANS_RULES, IndexConfig
from memvec.kernels import blocks, run_blocks
from memvec.theory import MatchLaw
from memvec.types import BoolArray, Float32Array, Float64Array, Int32Array, IntArray

# Kernels count slots in 32 bits, and a vector may have two.
MOST_VECTORS = 2**30 - 1
_MEASURE_BLOCK = 4096
_MOVE_BLOCK = 8192
# Strays are this share of the vectors, the farthest from both of their units, and at most so many.
# On 109,659 embeddings, with 0.5 % of them out of the units, the slack of the unit test fell from
# 1.56 to 1.31 standard deviations at 0.7, and 1, 2 and 4 % did no more.
_STRAY_SHARE, _MOST_STRAYS = 0.005, 2000
# Members that cancel score nothing on average.
_LEAST_MEAN = 1e-6
# More units than this are made in two steps, in clusters of so many vectors: at once, k-means would
# take most of the build.
_MOST_AT_ONCE = 1000
_CLUSTER_SIZE = 2000


@dataclass(frozen=True, eq=False)
class Units:
    """Members in unit order; every stage of a search reads runs of rows.

    Attributes
    ----------
    vectors : ndarray of shape (n_vectors, dim)
        The members, unit after unit, float32 unit rows.
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

    vectors: Float32Array
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

    def unit_of(self, rows: IntArray) -> IntArray:
        """Return the unit of each row."""
        return np.searchsorted(self.offsets, rows, side="right") - 1


def build_units(
    rows: Float32Array,
    reserve: IntArray,
    projection: Projection | None,
    tested: Float32Array,
    config: IndexConfig,
    progress: bool | None,
) -> tuple[Units, Float32Array]:
    """Assign all rows but the reserve and strays to units, and build the memory vectors.

    Parameters
    ----------
    rows : ndarray of shape (n_vectors, dim)
        Unit rows.
    reserve : ndarray of int
        Rows that end the last unit, which is never tested.
    projection : Projection or None
        What made `tested` of `rows`.
    tested : ndarray of shape (n_vectors, tested_dim)
        The rows as the tests see them; `rows` itself where there is no projection.

    Returns
    -------
    units : Units
    tested : ndarray of shape (n_vectors, tested_dim)
        In the order of the units.
    """
    inside = np.setdiff1d(np.arange(len(rows)), reserve, assume_unique=True)
    assignment = _assign(tested, inside, config, progress)
    keys = np.concatenate([inside[assignment.order], reserve])
    vectors = rows[keys]
    tested = vectors if projection is None else tested[keys]
    n_inside, offsets = len(inside), assignment.offsets
    seconds = np.empty(0, dtype=np.int64)
    if config.homes == 2:
        arrays = [keys, vectors] if projection is None else [keys, vectors, tested]
        inside_arrays = [array[:n_inside] for array in arrays]
        seconds, offsets = _find_second_homes(inside_arrays, offsets, config.seed)
        n_inside = len(seconds)
    members = tested[:n_inside]
    unit_vectors = memory_vectors(
        members,
        offsets,
        construction="pinv" if config.construction == "auto" else config.construction,
        ridge=config.ridge,
        normalised=config.normalised,
        progress=progress,
    )
    means, variances = _member_scores(members, offsets, unit_vectors)
    groups = np.array([0]) if assignment.group_offsets is None else assignment.group_offsets
    group_vectors = np.empty((0, tested.shape[1]), dtype=np.float32)
    if len(groups) > 1:
        group_vectors = memory_vectors(members, offsets[groups], construction="ridge", ridge=np.inf)
    if n_inside < len(rows):
        offsets = np.append(offsets, len(rows))
    run_offsets, run_rows = _runs(offsets, seconds)
    units = Units(
        vectors,
        keys,
        offsets,
        projection,
        unit_vectors,
        means,
        variances,
        groups,
        group_vectors,
        run_offsets,
        run_rows,
    )
    return units, tested


def _find_second_homes(
    arrays: list[np.ndarray], offsets: IntArray, seed: int
) -> tuple[IntArray, IntArray]:
    """Give members a second home, and move strays behind the others, in all arrays.

    The members as the tests see them are the last array. Returned are the second homes of those
    that are no strays, and where their units begin now.
    """
    seconds = second_units(arrays[-1], offsets, seed=seed)
    strays = _strays(arrays[-1], offsets, seconds)
    for array in arrays:
        _move_to_end(array, strays)
    return seconds[~strays], np.append(0, np.cumsum(~strays))[offsets]


def _strays(members: Float32Array, offsets: IntArray, seconds: IntArray) -> BoolArray:
    """Tell which members neither of their units stands for; each unit keeps one that is none.

    A match of such a member scores low on both units however similar it is, so that thresholds
    would have to follow these few.
    """
    wanted = min(int(_STRAY_SHARE * len(members)), _MOST_STRAYS)
    sizes = np.diff(offsets)
    homes = np.repeat(np.arange(len(sizes)), sizes)
    centroids = memory_vectors(members, offsets, construction="sum", normalised=True)
    own = _scores(members, homes, centroids)
    means = np.maximum(np.bincount(homes, own, len(sizes)) / sizes, _LEAST_MEAN)
    nearness = np.maximum(own / means[homes], _scores(members, seconds, centroids) / means[seconds])
    strays = np.zeros(len(members), dtype=bool)
    strays[np.argsort(nearness, kind="stable")[:wanted]] = True
    deserted = np.bincount(homes[strays], minlength=len(sizes)) == sizes
    return np.asarray(strays & ~deserted[homes])


def _move_to_end(array: np.ndarray, chosen: BoolArray) -> None:
    """Move the chosen rows behind the others, in place, block by block: there may be no room."""
    last = array[chosen]
    place = 0
    for start, stop in blocks(len(array), _MOVE_BLOCK):
        kept = array[start:stop][~chosen[start:stop]]
        array[place : place + len(kept)] = kept
        place += len(kept)
    array[place:] = last


def _runs(offsets: IntArray, seconds: IntArray) -> tuple[IntArray, Int32Array]:
    """Return where the run of each unit begins and what is in it, members before guests.

    `seconds` are the second homes of the first rows; the others, strays and reserve, have none.
    """
    if not len(seconds):
        return offsets, np.empty(0, dtype=np.int32)
    homes = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    guests = np.flatnonzero(seconds != homes[: len(seconds)])
    unit_of = np.concatenate([homes, seconds[guests]])
    rows = np.concatenate([np.arange(len(homes)), ~guests]).astype(np.int32)
    sizes = np.bincount(unit_of, minlength=len(offsets) - 1)
    return np.concatenate([[0], np.cumsum(sizes)]), rows[np.argsort(unit_of, kind="stable")]


def _assign(
    tested: Float32Array, inside: IntArray, config: IndexConfig, progress: bool | None
) -> Assignment:
    """Share the rows that are inside out over units."""
    size = int(config.unit_size)
    if config.assignment == "random":
        return random_assignment(len(inside), size, seed=config.seed)
    rows = tested if len(inside) == len(tested) else tested[inside]
    rule = KMEANS_RULES[config.kmeans_rule]
    many = config.batch_size is None and len(rows) > _MOST_AT_ONCE * size
    if config.levels == 2 or many:
        cluster_size = int(config.group_size) if config.levels == 2 else max(_CLUSTER_SIZE, size)
        found = two_step_assignment(
            rows,
            size,
            n_clusters=-(-len(rows) // cluster_size),
            construction=rule.construction,
            normalised=rule.normalised,
            iterations=config.iterations,
            seed=config.seed,
            progress=progress,
        )
        return found if config.levels == 2 else replace(found, group_offsets=None)
    if config.batch_size is not None:
        return batch_assignment(
            rows,
            size,
            config.batch_size,
            construction=rule.construction,
            normalised=rule.normalised,
            iterations=config.iterations,
            seed=config.seed,
            progress=progress,
        )
    return sampled_assignment(
        rows,
        size,
        construction=rule.construction,
        normalised=rule.normalised,
        iterations=config.iterations,
        seed=config.seed,
        progress=progress,
    )


def _member_scores(
    vectors: Float32Array, offsets: IntArray, unit_vectors: Float32Array
) -> tuple[Float64Array, Float64Array]:
    """Return mean and variance of the members' scores on their own memory vector."""
    sizes = np.diff(offsets)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    scores = _scores(vectors, labels, unit_vectors)
    means = np.bincount(labels, scores, len(sizes)) / sizes
    squares = np.bincount(labels, (scores - means[labels]) ** 2, len(sizes)) / sizes
    return means, squares


def _scores(vectors: Float32Array, labels: IntArray, unit_vectors: Float32Array) -> Float64Array:
    """Return what each vector scores on the memory vector of a unit."""
    scores = np.empty(len(labels))

    def measure(start: int, stop: int) -> None:
        own = unit_vectors[labels[start:stop]]
        scores[start:stop] = np.einsum("ij,ij->i", vectors[start:stop], own)

    run_blocks(measure, len(labels), _MEASURE_BLOCK)
    return scores


__all__ = ["MOST_VECTORS", "Units", "build_units"]
