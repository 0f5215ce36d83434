"""How much of the allowed misses is used: the time of a search beside the tightest thresholds.

Half of the held-out queries calibrate an index, the others judge it. The tightest thresholds of the
same family are those by which the judging queries themselves miss what is allowed. Both are timed
in turns, by the compiled loop alone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from benchmarks.guarantee_splits import Draw, Pool
from benchmarks.kinds import KINDS
from benchmarks.measure import print_table
from benchmarks.search_sets import search_set
from memvec.guarantee import Thresholds
from memvec.index import Index
from memvec.search import CodeUnits
from memvec.types import Float32Array

_TIMED, _WARMING = 200, 20


def run(
    names: Sequence[str], data: str | None, n_queries: int, rates: Sequence[float], rounds: int
) -> None:
    """Print what is missed and how long a query takes, for each kind, similarity and miss rate."""
    rows = []
    for name in names:
        kind = KINDS[name]
        held = search_set(kind.set_name, data, kind.n_vectors, kind.dim, n_queries)
        for similarity in kind.similarities:
            queries = held.queries(similarity)
            half = len(queries) // 2
            index = Index.build(
                held.vectors, similarity=similarity, queries=queries[:half], progress=False
            )
            rows += _rows(name, index, queries[half:], rates, rounds)
    header = [
        "kind",
        "above",
        "allowed",
        "calibration queries with matches",
        "missed",
        "µs",
        "missed by the tightest",
        "µs",
        "ratio",
    ]
    print_table("Time for unused misses", header, rows)


def _rows(
    name: str, index: Index, judging: Float32Array, rates: Sequence[float], rounds: int
) -> list[list[str]]:
    similarity, table = index.design.similarity, index.evidence.table
    assert table is not None
    pool = Pool.of(index, judging)
    matched = np.unique(table.above(similarity).queries)
    draw = Draw(pool.calibration(table), pool.matches, similarity)
    found = []
    for rate in rates:
        lines = [draw.lines(level, rate) for level in ("expected", "oracle")]
        own, tightest = _microseconds(index, judging[:_TIMED], lines, rounds)
        missed = [f"{100 * draw.missed(one):.2f} %" for one in lines]
        known = f"{len(matched):,}"
        times = missed[0], f"{own:.1f}", missed[1], f"{tightest:.1f}", f"{own / tightest:.2f}"
        found.append([name, f"{similarity:g}", f"{rate:.0%}", known, *times])
    return found


def _microseconds(
    index: Index, queries: Float32Array, lines: Sequence[Thresholds], rounds: int
) -> list[float]:
    """Return the CPU time of one query by each of some thresholds: the fastest of the rounds."""
    units, similarity = index.units.cascade, index.design.similarity
    assert isinstance(units, CodeUnits)
    best = [np.inf] * len(lines)
    for _ in range(rounds):
        for place, one in enumerate(lines):
            for query in queries[:_WARMING]:
                units.search(query[np.newaxis], similarity, one, 1)
            started = time.process_time()
            for query in queries:
                units.search(query[np.newaxis], similarity, one, 1)
            taken = 1e6 * (time.process_time() - started) / len(queries)
            best[place] = min(best[place], taken)
    return best
