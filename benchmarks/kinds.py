"""Range search on six kinds of data, each at its own similarities, beside the fastest peers.

What is measured is that of the search benchmark. The tables say what a user waits for: the mean
over queries, of which some have hundreds of matches, beside the median and the 99th percentile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from benchmarks.data import MissingDataError
from benchmarks.measure import print_table
from benchmarks.search import Plan, compare
from benchmarks.search_sets import search_set
from benchmarks.search_tables import miss_rate, write_json

PEERS = ("scan", "memvec", "faiss-ivf", "faiss-hnsw", "hnswlib", "svs")
# Graphs find nothing among vectors without neighbours.
_WITHOUT_GRAPHS = ("scan", "memvec", "faiss-ivf", "faiss-rabitq", "faiss-binary")
_OWN = ("memvec", "memvec, untuned")


@dataclass(frozen=True)
class Kind:
    """A kind of data as the benchmark asks for it; sizes of None are all there is."""

    set_name: str
    similarities: tuple[float, ...]
    n_vectors: int | None = None
    n_queries: int = 2000
    dim: int | None = None
    contenders: tuple[str, ...] = PEERS


KINDS = {
    "sentences": Kind("wordnet", (0.6, 0.7, 0.8)),
    "words": Kind("glove", (0.6, 0.7, 0.8)),
    "images": Kind("images", (0.6, 0.7), n_queries=1000),
    "images-whitened": Kind("images-whitened", (0.25, 0.3, 0.4), n_queries=1000),
    "pixels": Kind("pixels", (0.8, 0.9, 0.95)),
    "uniform": Kind(
        "uniform", (0.5, 0.7, 0.9), n_vectors=100_000, dim=1024, contenders=_WITHOUT_GRAPHS
    ),
    "structured": Kind("structured", (0.6, 0.7, 0.8), n_vectors=100_000, dim=384),
}


def run(
    names: Sequence[str],
    data: str | None,
    plan: Plan,
    *,
    similarities: Sequence[float] = (),
    contenders: Sequence[str] = (),
    n_vectors: int | None = None,
    n_queries: int | None = None,
    json_file: str | None = None,
) -> None:
    """Print one table of times for each kind, and one of the work over all of them."""
    done: list[dict[str, Any]] = []
    for name in names:
        kind = KINDS[name]
        try:
            chosen = search_set(
                kind.set_name,
                data,
                n_vectors or kind.n_vectors,
                kind.dim,
                n_queries or kind.n_queries,
            )
        except MissingDataError as error:
            click.echo(f"{name} LEFT OUT: {error.message}", err=True)
            continue
        asked = similarities or kind.similarities
        records = [
            record | {"kind": name}
            for some in compare(chosen, asked, contenders or kind.contenders, plan)
            for record in some
        ]
        print_kind(records)
        done += records
        if json_file:
            write_json(json_file, done)
    if done:
        print_work(done)


def print_kind(records: Sequence[dict[str, Any]]) -> None:
    """Print the times of one kind, the fastest contender by the mean first."""
    header = [
        "above",
        "matches a query",
        "contender",
        "setting",
        "mean ms",
        "median",
        "99th percentile",
        "miss rate ± s.e.",
        "memvec is faster by",
        "build CPU s",
    ]
    rows = []
    for similarity in dict.fromkeys(record["similarity"] for record in records):
        some = [record for record in records if record["similarity"] == similarity]
        own = next((one["single_ms_mean"] for one in some if one["name"] == _OWN[0]), None)
        some.sort(key=lambda record: record["single_ms_mean"])
        rows += [_cells(record, own) for record in some]
    first = records[0]
    clock = "processor time" if first["cpu_time"] else "on the clock"
    note = (
        f"Tuned on one half of the queries to a miss rate of {first['target']:g} at the least mean "
        f"time, judged on the other {first['judged_queries']:,}. One query at a time, one thread, "
        f"{clock}: of each query the median over interleaved rounds, then mean, median and 99th "
        "percentile over queries."
    )
    title = f"{first['kind']}: {first['n_vectors']:,} × {first['dim']} {first['set']}"
    print_table(title, header, rows, note)


def _cells(record: dict[str, Any], own: float | None) -> list[str]:
    peer = own is not None and record["name"] not in _OWN
    return [
        f"{record['similarity']:g}",
        f"{record['matches_per_query']:.2f}",
        record["name"],
        record["setting"] + ("" if record["reached"] in (True, None) else " (target not reached)"),
        f"{record['single_ms_mean']:.3f}",
        f"{record['single_ms']:.3f}",
        f"{record['single_ms_99']:.3f}",
        miss_rate(record),
        f"{record['single_ms_mean'] / own:.1f}" if peer and own else "",
        f"{record['build_cpu_seconds']:.1f}",
    ]


def print_work(records: Sequence[dict[str, Any]]) -> None:
    """Print what memvec counted, a query on average."""
    counted = [record for record in records if record["work"] and record["name"] in _OWN]
    if not counted:
        return
    names = list(counted[0]["work"])
    header = ["kind", "above", "setting", "design", *(name.replace("_", " ") for name in names)]
    header.append("3 × matches + 100")
    rows = [
        [
            record["kind"],
            f"{record['similarity']:g}",
            record["setting"],
            record["design"],
            *(f"{record['work'][name]:,.1f}" for name in names),
            f"{3 * record['work']['matches'] + 100:,.1f}",
        ]
        for record in counted
    ]
    print_table("Work of memvec, a query on average", header, rows)
