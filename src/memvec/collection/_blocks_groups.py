"""Deduplication by blocks: groups of the pairs found, and the row of each to keep."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from memvec.collection._blocks_plan import Task
from memvec.collection._blocks_reading import FIRSTS, Names
from memvec.collection._blocks_work import WorkFolder
from memvec.files import joined_columns, read_column, writing_table
from memvec.kernels import blocks
from memvec.search import Components
from memvec.types import BoolArray, IntArray

_EDGES_AT_ONCE = 1 << 20
_ROWS_AT_ONCE = 1 << 16
# Ranks are counted in so many classes, to tell which of them fit into memory together.
_CLASSES = 4096
# Bytes that an edge takes while it is sorted.
_BYTES_AN_EDGE = 64
#: The row to keep of the group of each row.
KEPT = "kept.npy"
#: Of each row the first one that it is connected with, where others have found that.
LABELS = "labels.npy"


def group_rows(work: WorkFolder, task: Task) -> None:
    """Make groups of what was found, and choose the row of each to keep."""
    firsts, ranks = np.array(work.load(FIRSTS)), _ranks(work)
    if work.plan.asked.groups == "components" and (work.inner / LABELS).exists():
        labels = np.array(work.load(LABELS))
    elif work.plan.asked.groups == "components":
        labels = _components(work, firsts)
    else:
        labels = _stars(work, firsts, ranks)
    best = np.full(len(labels), np.iinfo(np.int64).max)
    np.minimum.at(best, labels, ranks)
    by_rank = np.empty(len(ranks), dtype=np.int64)
    by_rank[ranks] = np.arange(len(ranks))
    kept = by_rank[best[labels]]
    dropped = kept != np.arange(len(kept))
    n_groups = len(np.unique(kept[dropped]))
    n_dropped = int(np.count_nonzero(dropped))
    work.finish(task, [work.save(KEPT, kept)], n_groups=n_groups, n_dropped=n_dropped)


def _ranks(work: WorkFolder) -> IntArray:
    """Return a number for each row, the lowest for the one to keep before all others."""
    rows = np.arange(work.plan.n_rows)
    if work.plan.asked.keep != "best":
        return rows if work.plan.asked.keep == "first" else rows[::-1].copy()
    scores = np.empty(len(rows))
    for block in range(work.plan.n_blocks):
        start, stop = work.plan.block(block)
        scores[start:stop] = read_column(work.names(block), "score")
    ranks = np.empty_like(rows)
    ranks[np.argsort(-scores, kind="stable")] = rows
    return ranks


def edge_files(work: WorkFolder) -> list[Path]:
    """Return the files of the pairs of rows that joins found, int64, two per pair."""
    found = []
    for task in work.plan.tasks:
        # Not where a file is: one that is lost, or that a network does not show yet, is an error.
        if task.kind == "join" and work.facts(task)["n_pairs"]:
            work.check_size(work.found(task), task)
            found.append(work.found(task))
    return found


def _edges(work: WorkFolder) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the pairs of rows that all joins found."""
    for path in edge_files(work):
        pairs = np.memmap(path, dtype=np.int64, mode="r").reshape(-1, 2)
        for start, stop in blocks(len(pairs), _EDGES_AT_ONCE):
            left, right = np.array(pairs[start:stop]).T
            yield left, right


def _components(work: WorkFolder, firsts: IntArray) -> IntArray:
    """Return of each row the first one that chains of pairs connect it with."""
    path = work.inner / "parents.i64"
    parents = np.memmap(path, dtype=np.int64, mode="w+", shape=firsts.shape)
    parents[:] = firsts
    components = Components(parents)
    for left, right in _edges(work):
        components.join(left, right)
    return components.labels()


def _stars(work: WorkFolder, firsts: IntArray, ranks: IntArray) -> IntArray:
    """Return of each row the centre that it is near.

    Rows become centres in the order of their ranks, unless a centre before has taken them. So pairs
    come by the rank of their better row, some ranks at a time.
    """
    best = np.full(len(firsts), np.iinfo(np.int64).max)
    np.minimum.at(best, firsts, ranks)
    centres = np.arange(len(firsts))
    taken = np.zeros(len(firsts), dtype=bool)
    for low, high in _rank_ranges(work, best):
        _cover(centres, taken, *_edges_of_ranks(work, best, low, high))
    return centres[firsts]


def _rank_ranges(work: WorkFolder, best: IntArray) -> Iterator[tuple[int, int]]:
    """Yield ranges of ranks whose pairs fit into half of the memory."""
    width = -(-len(best) // _CLASSES)
    counts = np.zeros(_CLASSES, dtype=np.int64)
    for left, right in _edges(work):
        counts += np.bincount(np.minimum(best[left], best[right]) // width, minlength=_CLASSES)
    most = work.plan.memory // 2 // _BYTES_AN_EDGE
    low = n_edges = 0
    for number, count in enumerate(counts.tolist()):
        if n_edges and n_edges + count > most:
            yield low * width, number * width
            low, n_edges = number, 0
        n_edges += count
    yield low * width, len(best)


def _edges_of_ranks(
    work: WorkFolder, best: IntArray, low: int, high: int
) -> tuple[IntArray, IntArray]:
    """Return pairs whose better row is of some ranks, in their order: that row, and the other."""
    better: list[IntArray] = [np.empty(0, dtype=np.int64)]
    worse: list[IntArray] = [np.empty(0, dtype=np.int64)]
    for left, right in _edges(work):
        swapped = best[left] > best[right]
        first, second = np.where(swapped, right, left), np.where(swapped, left, right)
        here = (best[first] >= low) & (best[first] < high)
        better.append(first[here])
        worse.append(second[here])
    firsts, seconds = np.concatenate(better), np.concatenate(worse)
    order = np.argsort(best[firsts], kind="stable")
    return firsts[order], seconds[order]


def _cover(centres: IntArray, taken: BoolArray, better: IntArray, worse: IntArray) -> None:
    """Let each row that is free still take what it is paired with and is free."""
    bounds = np.append(np.flatnonzero(np.diff(better, prepend=-1)), len(better))
    for start, stop in pairwise(bounds.tolist()):
        centre = better[start]
        if not taken[centre]:
            others = worse[start:stop]
            free = others[~taken[others]]
            centres[free] = centre
            taken[free] = True


def write_keep_list(work: WorkFolder, path: Path) -> None:
    """Write a table of all rows: the id, whether it is kept, and the id kept of its group."""
    kept, names = work.load(KEPT), Names(work)
    # Rows that stand for others may be in any block: their ids are looked up once.
    chosen = np.unique(kept[kept != np.arange(len(kept))])
    ids = names.of(chosen) if len(chosen) else None
    kind = work.facts(Task("read"))["ids"] or "int64"
    with writing_table(path, {"id": kind, "keep": "bool_", "group": kind}) as write:
        for start, stop in blocks(len(kept), _ROWS_AT_ONCE):
            rows = np.arange(start, stop)
            keep, own = kept[start:stop] == rows, names.of(rows)
            others, group_of = np.unique(kept[start:stop][~keep], return_inverse=True)
            # Those of this part alone: all of them, for each part, would take ever longer.
            some = [] if ids is None else [ids.take(np.searchsorted(chosen, others))]
            places = rows - start
            places[~keep] = len(own) + group_of
            write({"id": own, "keep": keep, "group": joined_columns([own, *some]).take(places)})
