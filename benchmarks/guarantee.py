"""Whether promises are kept, and what they cost: asked, held and paid on nine data sets.

Queries of a pool set thresholds and judge them, over many draws. What thresholds cost is measured
by searches, on one thread, in turns with those of the thresholds that an oracle would pick: the
best that hold for the judging queries themselves.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import click
import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.guarantee_sets import REAL, SYNTHETIC, JudgedSet, duplicates, judged_set
from benchmarks.guarantee_splits import Draw, Held, Pool, held
from benchmarks.measure import interleaved, print_table
from memvec import Index
from memvec.guarantee import Thresholds
from memvec.types import Float32Array

SETS = (*SYNTHETIC, "structured", *REAL)
RATES = (0.01, 0.05)
LEVELS = ("model", "expected", "high_probability")
# Queries with matches that calibrate, at most; half of the pool where it is smaller.
N_CALIBRATING = 1500
# Queries that the index itself is calibrated on; draws take the place of its table.
_OWN_QUERIES = 2000
# Draws whose thresholds are timed, and on how many queries.
_TIMED_DRAWS, _TIMED_QUERIES = 9, 400
# Queries that "exact" is judged with, at the similarity and at this share of it.
_EXACT_QUERIES, _LOWER = 5000, 0.6
_SCANNED_QUERIES, _SCANNED_DIM = 40, 256


@dataclass(frozen=True)
class _Price:
    """Seconds of each round, and members tested in each draw, over those of the oracle."""

    seconds: list[float] = field(default_factory=list)
    members: list[float] = field(default_factory=list)


def run(
    names: Sequence[str], data: str | None, n_draws: int, rounds: int, n_queries: int | None = None
) -> None:
    """Print what each level holds and costs, set by set."""
    for name in names:
        if name in REAL and data is None:
            click.echo(f"\n{name}: left out, since no folder of data is named.")
            continue
        judged = judged_set(name, data, n_queries=n_queries)
        index = Index.build(
            judged.vectors,
            similarity=judged.similarity,
            queries=judged.queries[:_OWN_QUERIES],
            config=judged.config,
            progress=False,
        )
        _print_set(judged, Pool.of(index, judged.queries), n_draws, rounds)


def _print_set(judged: JudgedSet, pool: Pool, n_draws: int, rounds: int) -> None:
    n_calibrating = min(N_CALIBRATING, len(pool.matched) // 2)
    seen = held(pool, LEVELS, RATES, n_draws, n_calibrating)
    prices = _prices(pool, judged.queries, n_calibrating, rounds)
    rows = [
        [
            judged.title,
            f"{judged.similarity}",
            f"{rate:.0%}",
            level.replace("_", " "),
            *_columns(seen[level, rate], prices[level, rate]),
        ]
        for rate in RATES
        for level in LEVELS
    ]
    rows.append(_exact_row(judged, pool.index))
    n_judging = len(pool.matched) - n_calibrating
    print_table(
        f"{judged.title}, {len(judged.vectors):,} × {judged.vectors.shape[1]}",
        ["data", "similarity", "asked", "level", "held", "draws above", "× time", "× members"],
        rows,
        f"{n_draws} draws of {n_calibrating:,} calibration queries with matches, judged by the "
        f"other {n_judging:,}; {pool.index.design}.",
    )


def _prices(
    pool: Pool, queries: Float32Array, n_calibrating: int, rounds: int
) -> dict[tuple[str, float], _Price]:
    """Return what searches cost with the thresholds of each level, over the oracle's."""
    some = queries[np.random.default_rng(1).permutation(len(queries))[:_TIMED_QUERIES]]
    prices = {(level, rate): _Price() for level in LEVELS for rate in RATES}
    for draw in pool.draws(_TIMED_DRAWS, n_calibrating, seed=1):
        for rate in RATES:
            seconds, members = _costs(pool, draw, some, rate, rounds)
            for level in LEVELS:
                price, oracle = prices[level, rate], seconds["oracle"]
                price.members.append(members[level] / members["oracle"])
                # Round by round: what else the machine does slows both down.
                price.seconds.extend(np.divide(seconds[level], oracle).tolist())
    return prices


def _costs(
    pool: Pool, draw: Draw, queries: Float32Array, rate: float, rounds: int
) -> tuple[dict[str, list[float]], dict[str, int]]:
    """Return the seconds of each round, and the members tested, with each level's thresholds."""
    cascade = pool.index.units.cascade
    lines = {level: draw.lines(level, rate) for level in (*LEVELS, "oracle")}

    def search(of: Thresholds) -> int:
        found = cascade.search(queries, pool.similarity, of, 1)
        return int(found.spent[:, 2].sum())

    members = {level: search(of) for level, of in lines.items()}
    return interleaved({k: lambda of=of: search(of) for k, of in lines.items()}, rounds), members


def _columns(seen: Held, price: _Price) -> list[str]:
    return [
        f"{seen.mean:.2%} ± {seen.standard_error:.2%}",
        f"{seen.above:.1%}",
        f"{statistics.median(price.seconds):.2f}",
        f"{statistics.median(price.members):.2f}",
    ]


def _exact_row(judged: JudgedSet, index: Index) -> list[str]:
    """Return what "exact" misses, at the similarity and at a lower one with many more matches."""
    n_pairs = n_missed = 0
    queries = judged.queries[:_EXACT_QUERIES]
    for similarity in (judged.similarity, _LOWER * judged.similarity):
        seen = index.measure(queries, similarity, guarantee="exact", progress=False)
        n_pairs, n_missed = n_pairs + seen.n_matches, n_missed + seen.n_missed
    held = f"{n_missed} of {n_pairs:,} pairs"
    return [judged.title, f"{judged.similarity}", "0 %", "exact", held, "", "", ""]


def run_scan(n_vectors: int, rounds: int) -> None:
    """Print the time of "exact" against that of a scan, on near-duplicates."""
    judged = duplicates(n_vectors, rounds * _SCANNED_QUERIES, _SCANNED_DIM)
    index = Index.build(judged.vectors, similarity=judged.similarity, progress=False)
    limit = np.float32(judged.similarity)
    index.range_search(judged.queries[:1], guarantee="exact", threads=1)
    scans, searches, skipped = [], [], []
    with threadpool_limits(1):
        for query in judged.queries:
            started = time.perf_counter()
            np.flatnonzero(judged.vectors @ query >= limit)
            middle = time.perf_counter()
            hits = index.range_search(query, guarantee="exact", threads=1)
            searches.append(time.perf_counter() - middle)
            scans.append(middle - started)
            skipped.append(hits.work.skipped)
    scan, search = statistics.median(scans), statistics.median(searches)
    missed = index.measure(judged.queries, guarantee="exact", progress=False)
    print_table(
        f"Exact on near-duplicates, {n_vectors:,} × {_SCANNED_DIM}, similarity {judged.similarity}",
        ["scan ms", "exact ms", "× scan", "skipped", "missed"],
        [
            [
                f"{1e3 * scan:.2f}",
                f"{1e3 * search:.3f}",
                f"{scan / search:.1f}",
                f"{np.mean(skipped):.2%}",
                f"{missed.n_missed} of {missed.n_matches:,}",
            ]
        ],
        f"One query at a time, in turns with the scan, one thread; {index.design}.",
    )
