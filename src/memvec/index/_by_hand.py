"""Searches whose units are selected by a raw threshold or by number, as the paper's are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from memvec import checks
from memvec.errors import InvalidValueError
from memvec.guarantee import Certificate
from memvec.index._cascades import Cascade
from memvec.index._found import ALL_ALLOWED, Found
from memvec.kernels import N_COUNTS, collect_matches, run_blocks
from memvec.types import Float32Array, IntArray

Select: TypeAlias = Callable[[Float32Array], IntArray]

# Queries that one thread answers at a time.
_QUERY_BLOCK = 16


def selection(
    cascade: Cascade, threshold: float | None, units: int | None, where: str
) -> tuple[Select, bool]:
    """Return how units are selected for a query, and whether all of them are."""
    scores = cascade.unit_scores
    if units is not None and threshold is not None:
        raise InvalidValueError(
            checks.message("units", where, "left out where 'threshold' is given", units)
        )
    if units is not None:
        count = checks.integer(units, "units", where)
        everything = count >= cascade.units.n_tested
        return lambda query: np.argsort(-scores(query), kind="stable")[:count], everything
    level = checks.real(threshold, "threshold", where)
    return lambda query: np.flatnonzero(scores(query) >= level), level == -np.inf


def promise_of(everything: bool, similarity: float | None) -> Certificate:
    """Return what a selection by hand promises: nothing, unless it visits everything."""
    if everything:
        return Certificate("exact", similarity, 0.0, complete=True)
    return Certificate("none", similarity)


def search_selected(
    cascade: Cascade, select: Select, rows: Float32Array, similarity: float, threads: int | None
) -> Found:
    """Score the members of selected units, strays and the reserve, without codes."""
    units = cascade.units
    untested = np.arange(units.n_tested, len(units.offsets) - 1)
    answers: dict[int, tuple[IntArray, np.ndarray, list[int]]] = {}

    def answer(start: int, stop: int) -> None:
        for query in range(start, stop):
            chosen = np.concatenate([select(rows[query]), untested])
            n_members = int((units.offsets[chosen + 1] - units.offsets[chosen]).sum())
            ids, scores = np.empty(n_members, dtype=np.int64), np.empty(n_members)
            n = collect_matches(
                rows[query],
                units.vectors,
                units.keys,
                units.offsets,
                chosen,
                similarity,
                ALL_ALLOWED,
                ids,
                scores,
            )
            spent = [units.n_tested, len(chosen), n_members, 0, n_members]
            answers[query] = ids[:n], scores[:n], spent

    run_blocks(answer, len(rows), _QUERY_BLOCK, threads=threads)
    ordered = [answers[query] for query in range(len(rows))]
    return Found(
        np.cumsum([0, *(len(ids) for ids, _, _ in ordered)]),
        np.concatenate([np.empty(0, dtype=np.int64), *(ids for ids, _, _ in ordered)]),
        np.concatenate([np.empty(0), *(scores for _, scores, _ in ordered)]),
        np.array([counts for _, _, counts in ordered]).reshape(-1, N_COUNTS),
    )


__all__ = ["Select", "promise_of", "search_selected", "selection"]
