"""From vectors to units: members in unit order, with the memory vectors over them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from memvec.assignment import (
    Assignment,
    batch_assignment,
    random_assignment,
    sampled_assignment,
    second_units,
    two_step_assignment,
)
from memvec.codes import Projection, as_tested
from memvec.constructions import memory_vectors
from memvec.index._config import KMEANS_RULES, IndexConfig
from memvec.kernels import StoredRows, UnitRows, blocks, run_blocks, some_rows
from memvec.search import Units
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
# Rounds in which vectors leave their cluster for one beside it, and the shares of the vectors that
# are then compared with all units. Of a million structured vectors in units of 28, a query visits
# 1.4 units where tests lose 0.5 % of the matches, and of three million 1.6.
_REFINEMENTS, _SCANS = 1, (0.5, 0.25)


def build_units(
    rows: StoredRows,
    reserve: IntArray,
    projection: Projection | None,
    tested: UnitRows,
    config: IndexConfig,
    progress: bool | None,
) -> tuple[Units, UnitRows]:
    """Assign all rows but the reserve and strays to units, and build the memory vectors.

    Parameters
    ----------
    rows : StoredRows of shape (n_vectors, dim)
        What is to be searched.
    reserve : ndarray of int
        Rows that end the last unit, which is never tested.
    projection : Projection or None
        What made `tested` of `rows`.
    tested : array or RowBlocks of shape (n_vectors, tested_dim)
        The rows as the tests see them; `rows` themselves where there is no projection.

    Returns
    -------
    units : Units
    tested : array or RowBlocks of shape (n_vectors, tested_dim)
        In the order of the units.
    """
    inside = np.setdiff1d(np.arange(len(rows)), reserve, assume_unique=True)
    assignment = _assign(tested, inside, config, progress)
    keys = np.concatenate([inside[assignment.order], reserve])
    vectors = rows.some(keys)
    projected = isinstance(tested, np.ndarray) and projection is not None
    tested = some_rows(tested, keys) if projected else as_tested(vectors, projection)
    n_inside, offsets = len(inside), assignment.offsets
    seconds = np.empty(0, dtype=np.int64)
    if config.units_per_vector == 2:
        moved = [keys, vectors.data, *([] if vectors.is_plain else [vectors.scales])]
        moved += [tested] if isinstance(tested, np.ndarray) and projected else []
        members = some_rows(tested, slice(n_inside))
        inside_arrays = [array[:n_inside] for array in moved]
        near = assignment.near_units
        near = None if near is None else near[assignment.order]
        seconds, offsets = _find_second_homes(members, inside_arrays, offsets, near, config.seed)
        n_inside = len(seconds)
    members = some_rows(tested, slice(n_inside))
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
    members: UnitRows,
    arrays: list[np.ndarray],
    offsets: IntArray,
    near: Int32Array | None,
    seed: int,
) -> tuple[IntArray, IntArray]:
    """Give members a second home, and move strays behind the others, in all arrays.

    `members` are as the tests see them, and lie in these arrays. Returned are the second homes of
    those that are no strays, and where their units begin now.
    """
    seconds = second_units(members, offsets, near=near, seed=seed)
    strays = _strays(members, offsets, seconds)
    for array in arrays:
        _move_to_end(array, strays)
    return seconds[~strays], np.append(0, np.cumsum(~strays))[offsets]


def _strays(members: UnitRows, offsets: IntArray, seconds: IntArray) -> BoolArray:
    """Tell which members neither of their units stands for; each unit keeps one that is none.

    A match of such a member scores low on both units however similar it is, so that thresholds
    would have to follow these few.
    """
    wanted = min(int(_STRAY_SHARE * len(members)), _MOST_STRAYS)
    sizes = np.diff(offsets)
    homes = np.repeat(np.arange(len(sizes)), sizes)
    centroids = memory_vectors(members, offsets, construction="sum", normalised=True)
    own = scores_on_units(members, homes, centroids)
    means = np.maximum(np.bincount(homes, own, len(sizes)) / sizes, _LEAST_MEAN)
    nearness = np.maximum(
        own / means[homes], scores_on_units(members, seconds, centroids) / means[seconds]
    )
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
    tested: UnitRows, inside: IntArray, config: IndexConfig, progress: bool | None
) -> Assignment:
    """Share the rows that are inside out over units."""
    size = int(config.unit_size)
    if config.assignment == "random":
        return random_assignment(len(inside), size, seed=config.seed)
    rows = tested if len(inside) == len(tested) else some_rows(tested, inside)
    rule = KMEANS_RULES[config.kmeans_rule]
    many = config.batch_size is None and len(rows) > _MOST_AT_ONCE * size
    if config.levels == 2 or many:
        cluster_size = int(config.group_size) if config.levels == 2 else max(_CLUSTER_SIZE, size)
        found = two_step_assignment(
            rows,
            size,
            n_clusters=-(-len(rows) // cluster_size),
            refinements=2 if config.levels == 2 else _REFINEMENTS,
            scans=() if config.levels == 2 else _SCANS,
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
    vectors: UnitRows, offsets: IntArray, unit_vectors: Float32Array
) -> tuple[Float64Array, Float64Array]:
    """Return mean and variance of the members' scores on their own memory vector."""
    sizes = np.diff(offsets)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    scores = scores_on_units(vectors, labels, unit_vectors)
    means = np.bincount(labels, scores, len(sizes)) / sizes
    squares = np.bincount(labels, (scores - means[labels]) ** 2, len(sizes)) / sizes
    return means, squares


def scores_on_units(
    vectors: UnitRows, labels: IntArray, unit_vectors: Float32Array
) -> Float64Array:
    """Return what each vector scores on the memory vector of a unit."""
    scores = np.empty(len(labels))

    def measure(start: int, stop: int) -> None:
        own = unit_vectors[labels[start:stop]]
        scores[start:stop] = np.einsum("ij,ij->i", vectors[start:stop], own)

    run_blocks(measure, len(labels), _MEASURE_BLOCK)
    return scores
