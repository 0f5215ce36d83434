"""The answers of single parts, and of all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from memvec.collection._promise import Promise
from memvec.collection._state import Part
from memvec.collection._waiting import Waiting
from memvec.evaluation import Ranges
from memvec.index import Found, Lines, Work, search_best
from memvec.kernels import collect_matches, run_blocks
from memvec.types import BoolArray, Float32Array, IntArray

# Below every cosine: everything matches.
_ANYTHING = -2.0
# Which rows may be hits, where all may.
_ALL: BoolArray = np.empty(0, dtype=bool)
# Queries that one thread answers at a time.
_QUERY_BLOCK = 4
# Where a filter leaves fewer rows of a segment than this, they are scored one by one: for 300 of
# 384 dimensions that takes about as long as a search of 10,000 rows, 0.2 ms.
_FEW_ROWS = 300
# Where the k nearest are looked for among fewer rows than so many times as many, all are scored: a
# search takes a look or several, and a range.
_FEW_TIMES = 4


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

    def ranges(self, n_queries: int) -> Ranges:
        """Return an ordered answer as one row of keys for each query."""
        bounds = np.searchsorted(self.queries, np.arange(n_queries + 1))
        return Ranges(bounds, self.keys, self.scores)

    def taken(self, chosen: IntArray | BoolArray) -> Answer:
        """Return some of the matches."""
        return Answer(self.queries[chosen], self.keys[chosen], self.scores[chosen], self.work)

    def pages(self, size: int) -> Iterator[IntArray]:
        """Yield the places of ordered matches, `size` at a time, equal scores of a query together.

        So a page may be longer.
        """
        queries, scores = self.queries, self.scores
        start = 0
        while start < len(scores):
            stop = min(start + size, len(scores))
            while stop < len(scores) and (queries[stop], scores[stop]) == (
                queries[stop - 1],
                scores[stop - 1],
            ):
                stop += 1
            yield np.arange(start, stop)
            start = stop


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
    n_passing = int(np.count_nonzero(passing))
    if isinstance(part.rows, Waiting) or n_passing < _FEW_ROWS:
        return scan_rows(part, np.flatnonzero(passing), queries, similarity, threads)
    allowed = _ALL if n_passing == len(passing) else passing
    return _answer(part, promise.range_search(part.rows, queries, similarity, threads, allowed))


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
    chosen = np.flatnonzero(passing)
    by_codes = promise.waiting.n_rows
    if np.searchsorted(chosen, by_codes) < _FEW_ROWS:
        return scan_rows(part, chosen, queries, similarity, threads)
    allowed = _ALL if len(chosen) == len(passing) else passing
    found = promise.waiting.search(queries, similarity, threads, allowed)
    answers = [_answer(part, one, first) for first, one in found]
    answers.append(scan_rows(part, chosen[chosen >= by_codes], queries, similarity, threads))
    return Answer.of_parts(answers, len(queries), len(part.keys))


def _answer(part: Part[Any], found: Found, first: int = 0) -> Answer:
    """Return what was found in a part; ids count from the row `first` on."""
    n_queries = len(found.offsets) - 1
    query_of = np.repeat(np.arange(n_queries), np.diff(found.offsets))
    work = Work(n_queries, len(part.keys), *found.counts.sum(axis=0).tolist())
    return Answer(query_of, part.keys[found.ids + first], found.scores.astype(np.float32), work)


def best_of_parts(
    parts: Sequence[tuple[Part[Any], BoolArray]],
    queries: Float32Array,
    k: int,
    promise: Promise,
    threads: int | None,
) -> Answer:
    """Return the k nearest rows of all parts that pass."""
    if are_few(parts):
        return _scan_best(parts, queries, k, threads)

    def find(rows: Float32Array, similarity: float, lines: Lines) -> Found:
        given = replace(promise, lines=lines)
        answers = [part_range(part, some, rows, similarity, given, threads) for part, some in parts]
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


def exact_best_of_parts(
    parts: Sequence[tuple[Part[Any], BoolArray]],
    queries: Float32Array,
    k: int,
    promise: Promise,
    threads: int | None,
) -> Answer:
    """Return the k nearest rows of all parts that pass, and all that are as near.

    The k nearest of those that are found fast tell how near the k nearest are at least.
    """
    if promise.first is None or are_few(parts):
        return _scan_best(parts, queries, k, threads)
    fast = best_of_parts(parts, queries, k, promise.first, threads)
    floors = np.maximum(_ANYTHING, _kth_scores(fast, k, len(queries)))
    answers = [fast.taken(np.empty(0, dtype=np.int64))]
    for query, floor in enumerate(floors.tolist()):
        row = queries[query : query + 1]
        for part, some in parts:
            found = part_range(part, some, row, floor, promise, threads)
            answers.append(replace(found, queries=found.queries + query))
    return _best(answers, parts, k, len(queries))


def are_few(parts: Sequence[tuple[Part[Any], BoolArray]]) -> bool:
    """Tell whether so few rows pass that all are scored to find the nearest."""
    n_passing = sum(int(np.count_nonzero(some)) for _, some in parts)
    return n_passing < _FEW_TIMES * _FEW_ROWS


def _scan_best(
    parts: Sequence[tuple[Part[Any], BoolArray]],
    queries: Float32Array,
    k: int,
    threads: int | None,
) -> Answer:
    """Return the k nearest rows of all parts that pass, and all that are as near, by a scan."""
    answers = [
        scan_rows(part, np.flatnonzero(some), queries, _ANYTHING, threads) for part, some in parts
    ]
    return _best(answers, parts, k, len(queries))


def _best(
    answers: Sequence[Answer], parts: Sequence[tuple[Part[Any], BoolArray]], k: int, n_queries: int
) -> Answer:
    """Return the k best of each query, and all that are as good as the k-th."""
    n_vectors = sum(len(part.keys) for part, _ in parts)
    answer = Answer.of_parts(answers, n_queries, n_vectors).ordered()
    return answer.taken(answer.scores >= _kth_scores(answer, k, n_queries)[answer.queries])


def scan_rows(
    part: Part[Any],
    chosen: IntArray,
    queries: Float32Array,
    similarity: float,
    threads: int | None,
) -> Answer:
    """Score rows one by one."""
    vectors, rows, allowed = _scanned(part, chosen)
    places, offsets, first = np.arange(len(rows)), np.array([0, len(rows)]), np.zeros(1, np.int64)
    found: dict[int, tuple[IntArray, Float32Array]] = {}

    def answer(start: int, stop: int) -> None:
        ids, scores = np.empty(len(rows), dtype=np.int64), np.empty(len(rows))
        for query in range(start, stop):
            n = collect_matches(
                queries[query], vectors, places, offsets, first, similarity, allowed, ids, scores
            )
            found[query] = rows[ids[:n]], scores[:n].astype(np.float32)

    if len(chosen):
        run_blocks(answer, len(queries), _QUERY_BLOCK, threads=threads)
    none = np.empty(0, np.int64), np.empty(0, np.float32)
    each = [found.get(query, none) for query in range(len(queries))]
    n_scored = len(chosen) * len(queries)
    return Answer(
        np.repeat(np.arange(len(queries)), [len(hits) for hits, _ in each]),
        part.keys[np.concatenate([none[0], *(hits for hits, _ in each)])],
        np.concatenate([none[1], *(scores for _, scores in each)]),
        Work(len(queries), len(chosen), 0, 0, n_scored, 0, n_scored),
    )


def _scanned(part: Part[Any], chosen: IntArray) -> tuple[Float32Array, IntArray, BoolArray]:
    """Return vectors that hold the chosen rows, the row of each, and which of them are chosen."""
    if isinstance(part.rows, Waiting) and len(chosen):
        rows = np.arange(chosen[0], chosen[-1] + 1)
        # They lie in memory already: to pass over some takes less than to copy the others.
        if len(rows) <= 2 * len(chosen):
            allowed = _ALL if len(rows) == len(chosen) else np.isin(rows, chosen)
            return part.rows.rows[rows[0] : rows[-1] + 1], rows, allowed
    return part.rows.vectors(chosen), chosen, _ALL


def _kth_scores(answer: Answer, k: int, n_queries: int) -> Float32Array:
    """Return the k-th score of each query of an ordered answer; -inf where there are fewer."""
    starts = np.searchsorted(answer.queries, np.arange(n_queries + 1))
    kth = np.full(n_queries, -np.inf, dtype=np.float32)
    full = np.diff(starts) >= k
    kth[full] = answer.scores[starts[:-1][full] + k - 1]
    return kth


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


__all__ = ["Answer", "are_few", "best_of_parts", "exact_best_of_parts", "part_range", "scan_rows"]
