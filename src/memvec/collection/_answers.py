"""The answers of single parts, and of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from memvec.collection._promise import Promise
from memvec.collection._segment import Segment
from memvec.collection._state import Part
from memvec.collection._waiting import Waiting
from memvec.index import Found, Lines, Work, search_best
from memvec.kernels import collect_matches, run_blocks
from memvec.types import BoolArray, Float32Array, IntArray

# Below every cosine: everything matches.
_ANYTHING = -2.0
# Queries that one thread answers at a time.
_QUERY_BLOCK = 4
# Where a filter leaves fewer rows of a segment than this, they are scored one by one: a search
# would find and drop many more.
_FEW_ROWS = 1000
# A search for the k best that lost some to a filter is repeated for so many times as many.
_MORE = 4


@dataclass(frozen=True, eq=False)
class Answer:
    """Matches, flat: of query ``queries[i]`` the item ``keys[i]``, in any order.

    Attributes
    ----------
    queries, keys : ndarray of shape (n_matches,)
    scores : ndarray of shape (n_matches,)
        float32.
    work : Work
        What it took.
    """

    queries: IntArray
    keys: IntArray
    scores: Float32Array
    work: Work

    @classmethod
    def of_parts(cls, answers: Sequence[Answer], n_queries: int, n_vectors: int) -> Answer:
        """Return the matches of all parts."""
        counts = np.zeros(5, dtype=np.int64)
        for answer in answers:
            counts += _counts(answer.work)
        return cls(
            np.concatenate([np.empty(0, np.int64), *(answer.queries for answer in answers)]),
            np.concatenate([np.empty(0, np.int64), *(answer.keys for answer in answers)]),
            np.concatenate([np.empty(0, np.float32), *(answer.scores for answer in answers)]),
            Work(n_queries, n_vectors, *counts.tolist()),
        )

    def ordered(self) -> Answer:
        """Return the matches by query, falling score, and key."""
        return self.taken(np.lexsort((self.keys, -self.scores, self.queries)))

    def taken(self, chosen: IntArray | BoolArray) -> Answer:
        """Return some of the matches."""
        return Answer(self.queries[chosen], self.keys[chosen], self.scores[chosen], self.work)


def part_range(
    part: Part[Any],
    passing: BoolArray,
    queries: Float32Array,
    similarity: float,
    promise: Promise,
    threads: int | None,
) -> Answer:
    """Return everything above a similarity among the rows of a part that pass."""
    if isinstance(part.rows, Waiting) and promise.waiting is not None:
        return _waiting_range(part, passing, queries, similarity, promise, threads)
    chosen = _few(part, passing)
    if chosen is not None:
        return scan_rows(part, chosen, queries, similarity, threads)
    return _answer(part, passing, promise.range_search(part.rows, queries, similarity, threads))


def _waiting_range(
    part: Part[Waiting],
    passing: BoolArray,
    queries: Float32Array,
    similarity: float,
    promise: Promise,
    threads: int | None,
) -> Answer:
    """Return everything above a similarity of what waits, by codes and in float32."""
    assert promise.waiting is not None
    assert promise.lines is not None
    chosen = np.flatnonzero(passing)
    by_codes = promise.waiting.n_rows
    if np.searchsorted(chosen, by_codes) < _FEW_ROWS:
        return scan_rows(part, chosen, queries, similarity, threads)
    found = promise.waiting.search(queries, similarity, promise.lines, threads)
    answers = [_answer(part, passing, one, first) for first, one in found]
    answers.append(scan_rows(part, chosen[chosen >= by_codes], queries, similarity, threads))
    return Answer.of_parts(answers, len(queries), len(part.keys))


def _answer(part: Part[Any], passing: BoolArray, found: Found, first: int = 0) -> Answer:
    """Return what was found among the rows that pass; ids count from the row `first` on."""
    rows = found.ids + first
    kept = passing[rows]
    n_queries = len(found.offsets) - 1
    query_of = np.repeat(np.arange(n_queries), np.diff(found.offsets))
    scores = found.scores[kept].astype(np.float32)
    work = Work(n_queries, len(part.keys), *found.counts.sum(axis=0).tolist())
    return Answer(query_of[kept], part.keys[rows[kept]], scores, work)


def best_of_parts(
    parts: Sequence[tuple[Part[Any], BoolArray]],
    queries: Float32Array,
    k: int,
    promise: Promise,
    threads: int | None,
) -> Answer:
    """Return the k nearest rows of all parts that pass, by ranges that widen until k are found."""

    def find(rows: Float32Array, similarity: float, lines: Lines) -> Found:
        widened = replace(promise, lines=lines)
        answers = [
            part_range(part, some, rows, similarity, widened, threads) for part, some in parts
        ]
        return _as_found(Answer.of_parts(answers, len(rows), 0).ordered(), len(rows))

    found = search_best(find, queries, k, promise.slack, promise.tries)
    query_of = np.repeat(np.arange(len(queries)), np.diff(found.offsets))
    n_vectors = sum(len(part.keys) for part, _ in parts)
    work = Work(len(queries), n_vectors, *found.counts.sum(axis=0).tolist())
    return Answer(query_of, found.ids, found.scores.astype(np.float32), work)


def _as_found(answer: Answer, n_queries: int) -> Found:
    """Return an ordered answer flat by query; what it took is counted with the first query."""
    counts = np.zeros((n_queries, len(_counts(answer.work))), dtype=np.int64)
    if n_queries:
        counts[0] = _counts(answer.work)
    offsets = np.searchsorted(answer.queries, np.arange(n_queries + 1))
    return Found(offsets, answer.keys, answer.scores.astype(np.float64), counts)


def part_best(
    part: Part[Any], passing: BoolArray, queries: Float32Array, k: int, threads: int | None
) -> Answer:
    """Return the k nearest rows of a part that pass, and all that are as near, missing nothing."""
    chosen = _few(part, passing, k)
    if chosen is not None:
        everything = scan_rows(part, chosen, queries, _ANYTHING, threads)
        return _best(everything, k, len(queries))
    answers = []
    left, wanted = np.arange(len(queries)), k
    while len(left):
        top = part.rows.index.search(
            queries[left], min(wanted, len(part.keys)), guarantee="exact", threads=threads
        )
        found = _flat(part, passing, left, top.ids, top.scores, top.work)
        enough = _enough(top.ids, top.scores, passing, k) | (wanted >= len(part.keys))
        answers.append(found.taken(np.isin(found.queries, left[enough])))
        left, wanted = left[~enough], wanted * _MORE
    return _best(Answer.of_parts(answers, len(queries), len(part.keys)), k, len(queries))


def _few(part: Part[Any], passing: BoolArray, k: int = 0) -> IntArray | None:
    """Return the rows to score one by one, or None where a search is better."""
    n_passing = int(np.count_nonzero(passing))
    if isinstance(part.rows, Segment) and n_passing >= max(_FEW_ROWS, k + 1):
        return None
    return np.flatnonzero(passing)


def scan_rows(
    part: Part[Any],
    chosen: IntArray,
    queries: Float32Array,
    similarity: float,
    threads: int | None,
) -> Answer:
    """Score rows one by one."""
    whole = isinstance(part.rows, Waiting) and len(chosen) == len(part.keys)
    vectors = part.rows.rows if whole else part.rows.vectors(chosen)
    keys = np.ascontiguousarray(part.keys[chosen])
    offsets, first = np.array([0, len(keys)]), np.zeros(1, dtype=np.int64)
    found: dict[int, tuple[IntArray, Float32Array]] = {}

    def answer(start: int, stop: int) -> None:
        ids, scores = np.empty(len(keys), dtype=np.int64), np.empty(len(keys))
        for query in range(start, stop):
            n = collect_matches(
                queries[query], vectors, keys, offsets, first, similarity, ids, scores
            )
            found[query] = ids[:n].copy(), scores[:n].astype(np.float32)

    if len(keys):
        run_blocks(answer, len(queries), _QUERY_BLOCK, threads=threads)
    none = np.empty(0, np.int64), np.empty(0, np.float32)
    rows = [found.get(query, none) for query in range(len(queries))]
    n_scored = len(keys) * len(queries)
    return Answer(
        np.repeat(np.arange(len(queries)), [len(ids) for ids, _ in rows]),
        np.concatenate([none[0], *(ids for ids, _ in rows)]),
        np.concatenate([none[1], *(scores for _, scores in rows)]),
        Work(len(queries), len(keys), 0, 0, n_scored, 0, n_scored),
    )


def _flat(
    part: Part[Any],
    passing: BoolArray,
    queries: IntArray,
    rows: IntArray,
    scores: Float32Array,
    work: Work,
) -> Answer:
    kept = (rows >= 0) & passing[rows]
    query_of = np.broadcast_to(queries[:, np.newaxis], rows.shape)
    return Answer(query_of[kept], part.keys[rows[kept]], scores[kept], work)


def _enough(rows: IntArray, scores: Float32Array, passing: BoolArray, k: int) -> BoolArray:
    """Tell which queries have k rows that pass, and something that is worse than the k-th."""
    kept = (rows >= 0) & passing[rows]
    rank = np.cumsum(kept, axis=1)
    at = np.argmax(rank >= k, axis=1)
    kth = np.take_along_axis(scores, at[:, np.newaxis], axis=1)[:, 0]
    # Rows that are missing (-1) score -inf, which is worse than anything.
    return np.asarray((rank[:, -1] >= k) & (scores[:, -1] < kth))


def _best(answer: Answer, k: int, n_queries: int) -> Answer:
    """Keep the k best of each query, and all that are as good as the k-th."""
    ordered = answer.ordered()
    starts = np.searchsorted(ordered.queries, np.arange(n_queries + 1))
    kth = np.full(n_queries, -np.inf, dtype=np.float32)
    full = np.diff(starts) >= k
    kth[full] = ordered.scores[starts[:-1][full] + k - 1]
    return ordered.taken(ordered.scores >= kth[ordered.queries])


def _counts(work: Work) -> IntArray:
    return np.array(
        [
            work.unit_tests,
            work.units_visited,
            work.members_tested,
            work.codes_tested,
            work.exact_products,
        ],
        dtype=np.int64,
    )


__all__ = ["Answer", "best_of_parts", "part_best", "part_range", "scan_rows"]
