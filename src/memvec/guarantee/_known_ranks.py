"""The k nearest that pass a filter: which of them the calibration queries are known to have.

The table holds, of each calibration query, the nearest vectors of each segment, and of those
farther away some or none. So the k nearest that pass are known where k of them are as near as what
the table holds of every segment without a gap. Elsewhere nothing is known, and the query counts as
if it had missed all: to leave it out would be to judge by queries that have much around them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from memvec.guarantee._bounds import Rule
from memvec.guarantee._certificate import Certificate
from memvec.guarantee._plan import Plan
from memvec.guarantee._promises import Promises, Request
from memvec.guarantee._table import CalibrationTable
from memvec.types import BoolArray, Float64Array, IntArray


class KnownRanks(NamedTuple):
    """The matches that pass, of queries whose k nearest of them are known.

    Attributes
    ----------
    table : CalibrationTable or None
        Ranked among themselves; None without any.
    n_unknown : int
        Queries whose k nearest are not known.
    """

    table: CalibrationTable | None
    n_unknown: int

    def best(
        self, k: int, request: Request, solved: Callable[[CalibrationTable], Promises]
    ) -> Plan | None:
        """Return how to find the k nearest that pass; None where too little is known.

        Parameters
        ----------
        solved : callable
            Returns the promise that a table supports.
        """
        if self.table is None:
            return None
        return _solve(solved(self.table), self.n_unknown, k, request)


def known_ranks(
    table: CalibrationTable,
    places: Sequence[IntArray],
    sizes: Sequence[int],
    passing: BoolArray,
    k: int,
) -> KnownRanks:
    """Return what a table tells about the k nearest that pass.

    Parameters
    ----------
    table : CalibrationTable
        All queries against all segments, merged.
    places : sequence of ndarray
        The rows of the table whose match lies in each segment, rising.
    sizes : sequence of int
        The vectors of each segment.
    passing : ndarray of shape (n_rows,)
        Which rows of the table pass.
    """
    ends = _ends(table, places, sizes)
    nearer = passing & (table.cosines >= ends[table.queries])
    n_nearer = np.bincount(table.queries[nearer], minlength=len(ends))
    known = n_nearer >= k
    rows = table.rows(passing & known[table.queries])
    n_unknown = table.n_queries - int(np.count_nonzero(known))
    return KnownRanks(CalibrationTable.merged([rows]) if len(rows) else None, n_unknown)


def _ends(
    table: CalibrationTable, places: Sequence[IntArray], sizes: Sequence[int]
) -> Float64Array:
    """Return the cosine down to which everything near each query is in the table."""
    ends = np.full(int(table.queries.max(initial=-1)) + 1, -np.inf)
    for here, size in zip(places, sizes, strict=True):
        queries = table.queries[here]  # rising, and of each the nearest first
        # Behind the first row that stands for several there are gaps.
        drawn = np.cumsum(table.copies[here] != 1)
        before = drawn - (table.copies[here] != 1)
        whole = drawn == before[np.searchsorted(queries, queries)]
        last = np.full(len(ends), np.inf)
        np.minimum.at(last, queries[whole], table.cosines[here[whole]])
        last[np.bincount(queries[whole], minlength=len(ends)) >= size] = -np.inf
        ends = np.maximum(ends, last)
    return ends


@dataclass(frozen=True)
class _WithUnknown(Rule):
    """A rule for queries of which some are not in the table, and count as missing everything."""

    n_unknown: int = 0

    def holds(self, n_queries: Float64Array, missed: Float64Array) -> BoolArray:
        """Tell whether the promise holds for queries that missed a sum of shares."""
        return super().holds(n_queries + self.n_unknown, missed + self.n_unknown)

    def bound(self, n_queries: int, missed: float) -> float:
        """Return the smallest miss rate for which the promise would hold on this evidence."""
        return super().bound(n_queries + self.n_unknown, missed + self.n_unknown)


def _solve(promises: Promises, n_unknown: int, k: int, request: Request) -> Plan | None:
    levels = [level for level in ("high_probability", "expected") if level == request.guarantee]
    if levels == ["high_probability"] and not request.explicit:
        levels.append("expected")
    for level in levels:
        rule = _WithUnknown(level, request.miss_rate, request.confidence, n_unknown)
        plan = promises.calibration.for_best(k, rule)
        if plan is not None:
            return replace(plan, certificate=_counted(plan.certificate, n_unknown))
    return None


def _counted(certificate: Certificate, n_unknown: int) -> Certificate:
    """Return the certificate with all queries counted."""
    assert certificate.observed is not None
    n_queries = certificate.n_queries + n_unknown
    missed = certificate.observed * certificate.n_queries + n_unknown
    return replace(certificate, n_queries=n_queries, observed=missed / n_queries)
