"""k-means made affordable: in batches, in two steps, or on a sample."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from memvec import checks
from memvec.assignment._kmeans import DEFAULT_ITERATIONS, UpdateRule, fill_empty_units, run_kmeans
from memvec.assignment._near_groups import Centroids, NearGroups
from memvec.assignment._nearest import NearestUnits
from memvec.assignment._refine import FEW_CLUSTERS, refine_units
from memvec.assignment._result import Assignment
from memvec.assignment._settle import N_NAMED, n_settling_rounds, settle_units
from memvec.assignment._sizes import number_of_units
from memvec.constructions import Construction
from memvec.kernels import RowBlocks, UnitRows, checked_unit_rows, run_blocks
from memvec.progress import progress_bar
from memvec.types import ArrayLike, Float32Array, IntArray

# On 115,659 embeddings in units of 113, k-means on 40 for each unit left 7,300 members to visit
# at 0.7, and on all of them 8,800: no better.
_SAMPLE_PER_UNIT = 40
_SMALLEST_SAMPLE = 10_000
# Clusters whose units a vector tries in the last round of two steps, where no scan follows. On
# 113,659 embeddings in clusters of 2,000 and units of 56, with second homes, 6, 10 and 14 of them
# left 3,214, 3,041 and 3,020 members to visit. The more clusters, the thinner a neighbourhood is
# spread over them: on 300,000 structured vectors they left 3,595, 2,178 and 1,901, and on a million
# 15 and 40 of them left 22,254 and 8,161. On three million, 18 and 60 of them left 194,654 and
# 73,255.
_NEAR_CLUSTERS, _NEAR_BY_ROOT, _MOST_NEAR_CLUSTERS = 12, 1.8, 60
# The units of these clusters that a vector is nearest to, from which its second is chosen.
_NEAR_UNITS = 16
# More clusters than this are found in groups of so many, themselves in two steps: the time would
# grow with the square of the vectors.
_MOST_CLUSTERS, _CLUSTERS_A_GROUP = 1000, 50


def batch_assignment(
    vectors: ArrayLike | RowBlocks,
    unit_size: int,
    batch_size: int,
    *,
    construction: Construction = "pinv",
    normalised: bool = False,
    iterations: int = DEFAULT_ITERATIONS,
    seed: int | np.random.Generator = 0,
    threads: int | None = None,
    progress: bool | None = None,
) -> Assignment:
    """Split the vectors at random into batches and run k-means in each (paper, Section 5.2).

    The time grows with `batch_size` times the number of vectors, instead of with its square.

    Parameters
    ----------
    vectors : array_like of shape (n_vectors, dim)
        Rows are scaled to norm 1.
    unit_size : int
        Mean number of vectors per unit.
    batch_size : int
        Maximum number of vectors per batch; batches differ in size by at most one vector.
    construction, normalised, iterations, seed, threads, progress
        As in :func:`kmeans_assignment`.

    Returns
    -------
    Assignment

    Examples
    --------
    >>> import numpy as np
    >>> vectors = np.random.default_rng(1).standard_normal((100, 8))
    >>> batch_assignment(vectors, unit_size=5, batch_size=25).n_units
    20
    """
    where = "batch_assignment"
    rows = checked_unit_rows(vectors, "vectors", where)
    checks.integer(unit_size, "unit_size", where)
    batch_size = checks.integer(batch_size, "batch_size", where)
    rounds = checks.integer(iterations, "iterations", where)
    rule = UpdateRule(construction, normalised, rounds, threads)
    rng = checks.generator(seed, where)
    n_batches = -(-len(rows) // batch_size)
    batches = np.array_split(rng.permutation(len(rows)), n_batches)
    n_units = [number_of_units(len(batch), unit_size, where) for batch in batches]
    return _kmeans_in_parts(rows, batches, n_units, rule, rng, progress)


def two_step_assignment(
    vectors: ArrayLike | RowBlocks,
    unit_size: int,
    *,
    n_clusters: int | None = None,
    refinements: int = 2,
    scans: Sequence[float] = (),
    construction: Construction = "pinv",
    normalised: bool = False,
    iterations: int = DEFAULT_ITERATIONS,
    seed: int | np.random.Generator = 0,
    threads: int | None = None,
    progress: bool | None = None,
) -> Assignment:
    """Cluster coarsely first, then make the units inside each cluster.

    With √M clusters, a vector is compared with about 2√M representatives per round instead of M. A
    vector near the border of its cluster cannot join a unit beyond it, so the last rounds also
    compare it with the units of nearby clusters.

    Parameters
    ----------
    vectors : array_like of shape (n_vectors, dim)
        Rows are scaled to norm 1.
    unit_size : int
        Mean number of vectors per unit.
    n_clusters : int, optional
        Number of coarse clusters; √M by default.
    refinements : int, default 2
        Number of rounds in which vectors may leave their cluster.
    scans : sequence of float, default ()
        Shares of the vectors, those that score lowest on their units: they are compared with all
        units, by codes. Around each of these scans, all vectors try the units that vectors of their
        unit are near to, whatever cluster these are of.
    construction, normalised, iterations, seed, threads, progress
        As in :func:`kmeans_assignment`. The coarse clusters are represented by their centroids,
        and found as by :func:`sampled_assignment`.

    Returns
    -------
    Assignment
        Units of one cluster have consecutive numbers; `group_offsets` holds the first of each.

    Examples
    --------
    >>> import numpy as np
    >>> vectors = np.random.default_rng(1).standard_normal((100, 8))
    >>> two_step_assignment(vectors, unit_size=5)
    Assignment(100 vectors in 20 units, imbalance ...)
    """
    where = "two_step_assignment"
    rows = checked_unit_rows(vectors, "vectors", where)
    n_units = number_of_units(len(rows), unit_size, where)
    if n_clusters is None:
        n_clusters = round(math.sqrt(n_units))
    n_clusters = min(checks.integer(n_clusters, "n_clusters", where), n_units)
    refinements = checks.integer(refinements, "refinements", where, minimum=0)
    if not isinstance(scans, list | tuple):
        raise checks.bad_type("scans", where, "a list or tuple of shares", repr(scans))
    shares = tuple(checks.real(share, "scans", where, low=0.0, high=1.0) for share in scans)
    rounds = checks.integer(iterations, "iterations", where)
    rule = UpdateRule(construction, normalised, rounds, threads)
    rng = checks.generator(seed, where)
    last_rounds = refinements, shares
    return _in_two_steps(rows, n_units, n_clusters, last_rounds, rule, rng, progress)


def _in_two_steps(
    rows: UnitRows,
    n_units: int,
    n_clusters: int,
    last_rounds: tuple[int, Sequence[float]],
    rule: UpdateRule,
    rng: np.random.Generator,
    progress: bool | None,
) -> Assignment:
    """Assign unit rows; see `two_step_assignment`."""
    coarse = replace(rule, construction="sum", normalised=True)
    refinements, scans = last_rounds
    centroids = _find_centroids(rows, n_clusters, coarse, rng, progress)
    n_near = FEW_CLUSTERS if scans else _near_clusters(n_clusters)
    nearby = NearGroups.of(rows, centroids, n_near, rule.threads).without_deserted()
    sizes = np.bincount(nearby.nearest)
    clusters = np.split(nearby.order, np.cumsum(sizes)[:-1])
    shares = _share_out(n_units, sizes)
    found = _kmeans_in_parts(rows, clusters, shares, rule, rng, progress)
    found = replace(found, group_offsets=np.cumsum([0, *shares]))
    labels, near = found.labels, found.near_units
    n_rounds = refinements + (n_settling_rounds(scans) if scans else 0)
    with progress_bar("k-means", len(rows) * n_rounds, progress) as advance:
        if refinements:
            n_best = N_NAMED if scans else _NEAR_UNITS
            labels, near = refine_units(found, nearby, rule, refinements, n_best, advance)
        if scans:
            del nearby
            state, seed = replace(found, labels=labels, near_units=near), int(rng.integers(2**31))
            labels, near = settle_units(rows, state, rule, scans, _NEAR_UNITS, seed, advance)
    return replace(found, labels=labels, near_units=near)


def _find_centroids(
    rows: UnitRows,
    n_clusters: int,
    rule: UpdateRule,
    rng: np.random.Generator,
    progress: bool | None,
) -> Centroids:
    """Find coarse clusters on a sample; many in groups."""
    if n_clusters <= _MOST_CLUSTERS:
        return Centroids.in_one_group(
            _sampled_units(rows, n_clusters, None, rule, rng, progress)[0]
        )
    seen = _sample(rows, n_clusters, None, rng)
    n_groups = -(-n_clusters // _CLUSTERS_A_GROUP)
    found = _in_two_steps(seen, n_clusters, n_groups, (1, ()), rule, rng, progress)
    assert found.group_offsets is not None
    vectors = rule.representatives(seen, found.offsets, found.order)
    groups = rule.representatives(vectors, found.group_offsets, np.arange(len(vectors)))
    return Centroids(vectors, found.group_offsets, groups)


def _near_clusters(n_clusters: int) -> int:
    """Return how many of the clusters nearest to it a vector tries."""
    by_root = round(_NEAR_BY_ROOT * math.sqrt(n_clusters))
    return min(max(_NEAR_CLUSTERS, by_root), _MOST_NEAR_CLUSTERS)


def sampled_assignment(
    vectors: ArrayLike | RowBlocks,
    unit_size: int,
    *,
    sample_size: int | None = None,
    construction: Construction = "pinv",
    normalised: bool = False,
    iterations: int = DEFAULT_ITERATIONS,
    seed: int | np.random.Generator = 0,
    threads: int | None = None,
    progress: bool | None = None,
) -> Assignment:
    """Run k-means on a random sample, then assign every vector to the nearest representative.

    For large units, a sample is enough to place the representatives, and rounds cost less.

    Parameters
    ----------
    vectors : array_like of shape (n_vectors, dim)
        Rows are scaled to norm 1.
    unit_size : int
        Mean number of vectors per unit.
    sample_size : int, optional
        Number of vectors to run k-means on; by default 40 per unit, at least 10,000.
    construction, normalised, iterations, seed, threads, progress
        As in :func:`kmeans_assignment`.

    Returns
    -------
    Assignment

    Examples
    --------
    >>> import numpy as np
    >>> vectors = np.random.default_rng(1).standard_normal((100, 8))
    >>> sampled_assignment(vectors, unit_size=10, sample_size=50).n_units
    10
    """
    where = "sampled_assignment"
    rows = checked_unit_rows(vectors, "vectors", where)
    n_units = number_of_units(len(rows), unit_size, where)
    if sample_size is not None:
        sample_size = checks.integer(sample_size, "sample_size", where)
    rounds = checks.integer(iterations, "iterations", where)
    rule = UpdateRule(construction, normalised, rounds, threads)
    rng = checks.generator(seed, where)
    representatives, found = _sampled_units(rows, n_units, sample_size, rule, rng, progress)
    if len(found.labels) == len(rows):
        return found
    nearest = NearestUnits(rows, threads)
    with progress_bar("assignment", len(rows), progress) as advance:
        nearest.see(representatives, np.arange(n_units), advance)
    fill_empty_units(nearest.labels, nearest.best, n_units)
    return Assignment(nearest.labels, n_units, found.iterations, found.converged)


def _sampled_units(
    rows: UnitRows,
    n_units: int,
    sample_size: int | None,
    rule: UpdateRule,
    rng: np.random.Generator,
    progress: bool | None,
) -> tuple[Float32Array, Assignment]:
    """Run k-means on a sample; return the representatives, and the units of the sample."""
    seen = _sample(rows, n_units, sample_size, rng)
    with progress_bar("k-means", rule.n_steps(len(seen)), progress) as advance:
        found = run_kmeans(seen, n_units, rule, rng, advance)
    return rule.representatives(seen, found.offsets, found.order), found


def _sample(
    rows: UnitRows, n_units: int, sample_size: int | None, rng: np.random.Generator
) -> UnitRows:
    """Return the rows to find representatives on, at least one per unit; all where they are few."""
    if sample_size is None:
        sample_size = max(_SAMPLE_PER_UNIT * n_units, _SMALLEST_SAMPLE)
    sample_size = max(sample_size, n_units)
    if sample_size >= len(rows):
        return rows
    return rows[np.sort(rng.choice(len(rows), sample_size, replace=False))]


def _share_out(total: int, sizes: IntArray) -> list[int]:
    """Share `total` units out in proportion to cluster sizes, at least one each, none too many."""
    exact = total * sizes / sizes.sum()
    shares = np.maximum(1, np.floor(exact).astype(np.int64))
    # What rounding left over goes to the clusters that lost most by it.
    for step in np.argsort(shares - exact, kind="stable")[: max(0, total - shares.sum())]:
        shares[step] += 1
    return [int(share) for share in np.minimum(shares, sizes)]


def _kmeans_in_parts(
    rows: UnitRows,
    parts: list[IntArray],
    n_units: list[int],
    rule: UpdateRule,
    rng: np.random.Generator,
    progress: bool | None,
) -> Assignment:
    """Run k-means in each part by itself, parts side by side, and number the units through."""
    labels = np.empty(len(rows), dtype=np.int64)
    first_units = np.cumsum([0, *n_units])
    streams = rng.spawn(len(parts))
    results: list[tuple[int, bool]] = [(0, True)] * len(parts)
    alone = replace(rule, threads=1)

    def run(part: int, _: int) -> None:
        found = run_kmeans(rows[parts[part]], n_units[part], alone, streams[part], _silent)
        labels[parts[part]] = first_units[part] + found.labels
        results[part] = found.iterations, found.converged

    with progress_bar("k-means", len(parts), progress) as advance:
        run_blocks(run, len(parts), 1, threads=rule.threads, done=advance)
    rounds, converged = zip(*results, strict=True)
    return Assignment(labels, int(first_units[-1]), max(rounds), all(converged))


def _silent(steps: int) -> None:
    """Report nothing: the bar counts parts, not the rounds inside them."""
