"""Markdown and JSON of the search benchmark's records."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import machine, print_table, spread
from benchmarks.peers import DISTRIBUTIONS

Record = dict[str, Any]

_HEADER = [
    "contender",
    "setting",
    "ms a query: median (lowest–highest round)",
    "mean",
    "99th percentile",
    "× scan",
    "miss rate ± s.e.",
    "pair miss",
    "pairs found",
    "batch, 1 thread (queries/s)",
    "batch, 2 threads",
    "build s (CPU s)",
    "memory MB",
    "disk MB",
]


def print_searches(records: Sequence[Record]) -> None:
    """Print one table for each set and similarity, the fastest contender first."""
    for key in dict.fromkeys(_table_of(record) for record in records):
        rows = sorted(
            (record for record in records if _table_of(record) == key),
            key=lambda record: record["single_ms"],
        )
        print_table(_title(rows[0]), _HEADER, [_cells(record) for record in rows], _note(rows[0]))


def _table_of(record: Record) -> tuple[Any, ...]:
    return record["set"], record["n_vectors"], record["dim"], record["similarity"]


def _title(record: Record) -> str:
    return (
        f"Everything above {record['similarity']:g} among {record['n_vectors']:,} × "
        f"{record['dim']} {record['set']}"
    )


def _note(record: Record) -> str:
    return (
        f"{record['matches_per_query']:.2f} matches a query. Tuned on one half of the queries to a "
        f"miss rate of {record['target']:g}, judged on the other {record['judged_queries']:,} "
        f"({record['judged_queries_with_matches']:,} with matches). One query at a time: one "
        f"thread; builds: {record['build_threads']} threads. Mean and 99th percentile are over "
        "queries, each with its median over the rounds."
    )


def _cells(record: Record) -> list[str]:
    missed = "" if record["reached"] in (True, None) else " (target not reached)"
    ratio = record["over_scan"]
    return [
        record["name"],
        record["setting"] + missed,
        spread(record["single_ms_rounds"], 3),
        f"{record['single_ms_mean']:.3f}",
        f"{record['single_ms_99']:.3f}",
        f"{ratio:.1f}" if ratio else "",
        miss_rate(record),
        f"{record['pair_miss']:.4f}",
        f"{record['pairs_found']:.2%}",
        *(_throughput(record["batch_per_second"].get(threads, [])) for threads in ("1", "2")),
        f"{record['build_seconds']:.1f} ({record['build_cpu_seconds']:.1f})",
        _megabytes(record["memory_bytes"]),
        _megabytes(record["disk_bytes"]),
    ]


def miss_rate(record: Record) -> str:
    """Return the judged miss rate, marked where it is no accident that it is above the target."""
    rate, error = record["miss_rate"], record["miss_rate_error"]
    mark = " (above target)" if rate - 2 * error > record["target"] else ""
    return f"{rate:.4f} ± {error:.4f}{mark}"


def _throughput(values: Sequence[float]) -> str:
    return f"{statistics.median(values):,.0f}" if values else ""


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f}" if size else ""


def print_growth(records: Sequence[Record]) -> None:
    """Print each contender's time by the number of vectors, and the exponent that fits it."""
    sizes = sorted({record["n_vectors"] for record in records})
    header = ["contender", *(f"ms at {size:,}" for size in sizes), "exponent", "build exponent"]
    rows = []
    for name in dict.fromkeys(record["name"] for record in records):
        own = {record["n_vectors"]: record for record in records if record["name"] == name}
        cells = [f"{own[size]['single_ms']:.3f}" if size in own else "" for size in sizes]
        exponents = [exponent(own, figure) for figure in ("single_ms", "build_seconds")]
        rows.append([name, *cells, *("" if math.isnan(x) else f"{x:.2f}" for x in exponents)])
    first = records[0]
    title = f"Growth at {first['similarity']:g}: {first['set']} of dimension {first['dim']}"
    print_table(title, header, rows)


def exponent(by_size: dict[int, Record], figure: str) -> float:
    """Return the slope of log time against log size; NaN for a single size."""
    if len(by_size) < 2:
        return math.nan
    times = [max(record[figure], 1e-9) for record in by_size.values()]
    return float(np.polyfit(np.log(list(by_size)), np.log(times), 1)[0])


def write_json(path: str, records: Sequence[Record]) -> None:
    """Write the raw figures with the machine and the versions of the libraries."""
    content = {"machine": machine(), "versions": _versions(), "records": list(records)}
    Path(path).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _versions() -> dict[str, str]:
    found = {}
    for name in DISTRIBUTIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
