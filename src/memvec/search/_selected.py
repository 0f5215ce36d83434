"""Searches whose units are selected by a raw threshold or by number, as the paper's are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from memvec import checks
from memvec.guarantee import Certificate
from memvec.kernels import ALL_ALLOWED, collect_matches, run_blocks
from memvec.matches import N_COUNTS, Matches, MatchRow
from memvec.search._code_units import CodeUnits
from memvec.search._float_units import FloatUnits
from memvec.types import BoolArray, Float32Array, IntArray

Select: TypeAlias = Callable[[Float32Array], IntArray]

# Queries that one thread answers at a time.
_QUERY_BLOCK = 16


def selection(
    cascade: CodeUnits | FloatUnits, threshold: float | None, units: int | None, where: str
) -> tuple[Select, bool]:
    """Return how units are selected for a query, and whether all of them are."""
    scores = cascade.unit_scores
    if units is not None and threshold is not None:
        raise checks.bad_value("units", where, "left out where 'threshold' is given", units)
    if units is not None:
        count = checks.integer(units, "units", where)
        everything = count >= cascade.units.n_tested
        return lambda query: np.argsort(-scores(query), kind="stable")[:count], everything
    level = checks.real(threshold, "threshold", where)
    return lambda query: np.flatnonzero(scores(query) >= level), level == -np.inf


def promise_of_selection(everything: bool, similarity: float | None) -> Certificate:
    """Return what a selection by hand promises: nothing, unless it visits everything."""
    if everything:
        return Certificate("exact", similarity, 0.0, complete=True)
    return Certificate("none", similarity)


def search_selected(
    cascade: CodeUnits | FloatUnits,
    select: Select,
    rows: Float32Array,
    similarity: float,
    threads: int | None,
) -> Matches:
    """Score the members of selected units, strays and the reserve, without codes."""
    units = cascade.units
    untested = np.arange(units.n_tested, len(units.offsets) - 1)
    stored = units.vectors.queries(rows)
    answers: dict[int, MatchRow] = {}
    spent = np.zeros((len(rows), N_COUNTS), dtype=np.int64)

    def answer(start: int, stop: int) -> None:
        for query in range(start, stop):
            chosen = np.concatenate([select(rows[query]), untested])
            n_members = int((units.offsets[chosen + 1] - units.offsets[chosen]).sum())
            ids, scores = np.empty(n_members, dtype=np.int64), np.empty(n_members)
            n = collect_matches(
                stored[query],
                *units.vectors.for_kernel,
                units.keys,
                units.offsets,
                chosen,
                similarity,
                ALL_ALLOWED,
                ids,
                scores,
            )
            spent[query] = units.n_tested, len(chosen), n_members, 0, n_members
            answers[query] = MatchRow(ids[:n], scores[:n])

    run_blocks(answer, len(rows), _QUERY_BLOCK, threads=threads)
    return Matches.of_rows([answers[query] for query in range(len(rows))], spent)


def some_unit_selected(
    cascade: CodeUnits | FloatUnits,
    select: Select,
    rows: Float32Array,
    similarity: float,
    threads: int | None,
) -> BoolArray:
    """Tell which queries have a unit selected, or a match among strays and the reserve."""
    passed = np.array([len(select(query)) > 0 for query in rows], dtype=bool)
    nothing = np.empty(0, dtype=np.int64)
    in_reserve = search_selected(cascade, lambda query: nothing, rows, similarity, threads)
    return passed | (in_reserve.counts > 0)
