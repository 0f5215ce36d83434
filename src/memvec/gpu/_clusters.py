"""k-means units of any number of rows on a card: clusters first, then units inside each."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from memvec.constructions import Construction
from memvec.gpu._card import Card
from memvec.gpu._held import unit_rows
from memvec.gpu._kmeans import (
    CardUnitsOfRows,
    NearestUnits,
    kmeans_on_card,
    memory_vectors_on_card,
)
from memvec.gpu._packages import cupy
from memvec.gpu._products import ROWS_AT_ONCE
from memvec.gpu._scores import CardRows
from memvec.progress import progress_bar

# Rows of a cluster, on average and at most: few enough that every row tries every unit of its
# cluster, and so many that clusters are not too many launches.
_CLUSTER_ROWS, _MOST_ROWS = 1 << 14, 1 << 17
# Rows that clusters are found among, for each.
_SAMPLED = 256


def clustered_units(
    rows: CardRows,
    dim: int,
    inside: Any,
    unit_size: int,
    card: Card,
    *,
    construction: Construction = "sum",
    normalised: bool = True,
    iterations: int = 10,
    seed: int = 0,
    progress: bool | None = False,
) -> CardUnitsOfRows:
    """Pack similar rows into the same unit, as the CPU does in two steps.

    Parameters
    ----------
    rows : CardRows
    dim : int
    inside : cupy.ndarray of shape (n_inside,), int32
        Places of the rows that units are made of.
    unit_size : int
        Mean number of rows in a unit.
    card, construction, normalised, iterations, seed
        As in `kmeans_on_card`.
    progress : bool, optional
        Show a bar; None shows it on a terminal.

    Returns
    -------
    CardUnitsOfRows
        Its order holds places. No unit is empty.
    """
    xp, order, sizes = cupy(), [], []
    given: Any = {"construction": construction, "normalised": normalised}
    given |= {"iterations": iterations, "seed": seed}
    with xp.cuda.Device(card.number):
        clusters = _clusters(rows, dim, inside, card, iterations, seed)
        with progress_bar("k-means", len(inside), progress) as advance:
            for first, last in _parts(clusters.offsets.get().tolist()):
                places = inside[clusters.order[first:last]]
                n_units = -(-len(places) // unit_size)
                units = kmeans_on_card(unit_rows(rows, places, dim), n_units, card, **given)
                order.append(places[units.order])
                sizes.append(units.sizes)
                advance(last - first)
        ends = xp.cumsum(xp.concatenate(sizes))
        offsets = xp.concatenate([xp.zeros(1, dtype=ends.dtype), ends]).astype(np.int32)
        return CardUnitsOfRows(xp.concatenate(order), offsets)


def _clusters(
    rows: CardRows, dim: int, inside: Any, card: Card, iterations: int, seed: int
) -> CardUnitsOfRows:
    """Return which rows are in a cluster together; all are, where there are few."""
    xp, n_rows = cupy(), len(inside)
    n_clusters = n_rows // _CLUSTER_ROWS
    labels = xp.zeros(n_rows, dtype=np.int32)
    if n_clusters < 2:
        return CardUnitsOfRows.of_labels(labels, 1)
    drawn = xp.random.RandomState(seed).permutation(n_rows)[: n_clusters * _SAMPLED]
    sample = unit_rows(rows, inside[xp.sort(drawn)], dim)
    given: Any = {"construction": "sum", "normalised": True}
    units = kmeans_on_card(sample, n_clusters, card, iterations=iterations, seed=seed, **given)
    centres = memory_vectors_on_card(sample, units, card, **given)
    for start in range(0, n_rows, ROWS_AT_ONCE):
        some = inside[start : start + ROWS_AT_ONCE]
        nearest = NearestUnits(unit_rows(rows, some, dim), card)
        nearest.see(centres, 0)
        labels[start : start + len(some)] = nearest.labels
    return CardUnitsOfRows.of_labels(labels, n_clusters)


def _parts(bounds: list[int]) -> list[tuple[int, int]]:
    """Return where clusters begin and end, large ones in parts."""
    parts = []
    for first, last in pairwise(bounds):
        n_parts = -(-(last - first) // _MOST_ROWS)
        cuts = [first + (last - first) * part // n_parts for part in range(n_parts)]
        parts += list(pairwise([*cuts, last]))
    return parts
