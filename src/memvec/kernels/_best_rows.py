"""The k best rows so far: which are scored, and which are kept."""

from __future__ import annotations

import numpy as np

from memvec.kernels._bits import borrowed, lane_products
from memvec.kernels._compile import fast_kernel, inner_kernel
from memvec.kernels._scores import ask_for_row, pair_scale, scaled
from memvec.kernels._search import MATCH_SLACK, sort_hits

# Rows that are scored at a time.
_TOGETHER = 4
# Below every cosine.
LOWEST = -2.0


@inner_kernel
def _replace_lowest(heap, score):
    """Replace the lowest of a heap, whose first it is."""
    place, size = 0, heap.shape[0]
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= score:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = score


@inner_kernel
def floor_of(heap):
    """Return the similarity that the k nearest reach at least, as far as is known."""
    return (heap[0] if heap[0] > LOWEST else LOWEST) - MATCH_SLACK


@fast_kernel
def score_rows(query, scale, rows, reaches, frame, vectors, scales, keys, heap, ids, scores, count):
    """Score rows in their order as long as they reach far enough; return hits and rows scored.

    Parameters
    ----------
    query, scale : IN
        Of `keep_matches`.
    rows, reaches : IN int32, float32 (n_rows,)
    frame : IN float32, float32
        A similarity is reached where reaches ≥ (similarity − moved) · stretch.
    vectors, scales, keys, ids, scores, count
        Of `keep_matches`.
    heap : INOUT float64 (k,)
        The k best scores, the lowest first.
    """
    query, rows, reaches = borrowed(query), borrowed(rows), borrowed(reaches)
    vectors, scales, keys = borrowed(vectors), borrowed(scales), borrowed(keys)
    heap, ids, scores = borrowed(heap), borrowed(ids), borrowed(scores)
    moved, stretch = frame
    dim, taken, i, n_scored = np.int64(vectors.shape[1]), np.zeros(_TOGETHER, np.int64), 0, 0
    while i < rows.shape[0]:
        n_taken, least = 0, np.float32((floor_of(heap) - moved) * stretch)
        while i < rows.shape[0] and n_taken < _TOGETHER:
            if reaches[i] >= least:
                taken[n_taken] = rows[i]
                n_taken += 1
            i += 1
        if n_taken == 0:
            break
        for j in range(i, min(i + _TOGETHER, rows.shape[0])):
            if reaches[j] >= least:
                ask_for_row(vectors, np.int64(rows[j]))
        places = (taken[0] * dim, taken[1] * dim, taken[2] * dim, taken[3] * dim)
        found = lane_products(query, vectors, places)
        n_scored += n_taken
        for j in range(n_taken):
            score = scaled(found[j], pair_scale(scale, vectors, scales, taken[j]))
            if score >= floor_of(heap):
                if score > heap[0]:
                    _replace_lowest(heap, score)
                if count < ids.shape[0]:
                    ids[count], scores[count] = keys[taken[j]], score
                count += 1
    return count, n_scored


@fast_kernel
def keep_nearest(ids, scores, first, count, lowest):
    """Keep the hits from `first` on that are as near as the k-th; return how many there are.

    Hits beyond the capacity of `ids` are asked for again.
    """
    if count > ids.shape[0]:
        return count
    kept = first
    for i in range(first, count):
        if scores[i] >= lowest:
            ids[kept], scores[kept] = ids[i], scores[i]
            kept += 1
    sort_hits(ids, scores, first, kept)
    return kept
