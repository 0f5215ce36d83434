"""``memvec demo``: the main job, on the real embeddings that ship with the package."""

from __future__ import annotations

import time

import click
import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from memvec.cli._options import COSINE, option
from memvec.evaluation import Sample, count_misses, exact_range, load_sample
from memvec.index import Index
from memvec.matches import Matches
from memvec.search import Hits
from memvec.types import Float32Array, IntArray

_READABLE = ("dog, domestic dog", "whale:", "butterfly:", "kitchen:", "clock:", "knife:")
_HELD_OUT = 1000
_SHOWN = 5
_TIMED_QUERIES = 200
_ROUNDS = 5


@click.command()
@option("--similarity", COSINE, "Find everything with at least this cosine.", 0.6)
@option(
    "--miss-rate",
    click.FloatRange(0, 0.5, min_open=True, max_open=True),
    "The share of matches that may be missed.",
    0.01,
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
def demo(similarity: float, miss_rate: float, seed: int) -> None:
    """Search 10,000 sentence embeddings; compare with a full scan.

    The vectors are WordNet synsets embedded by all-MiniLM-L6-v2. A thousand of them are held out
    as queries; the rest is indexed.

    \b
    Example:
      memvec demo --similarity 0.7
    """  # noqa: D301 - click wants the character itself, not its name
    console = Console()
    sample = load_sample()
    held_out, kept = _split(sample, seed)
    queries, vectors = sample.vectors[held_out], sample.vectors[kept]
    console.print(
        f"{len(kept):,} WordNet synsets in {vectors.shape[1]} dimensions; "
        f"{len(held_out):,} others are the queries."
    )
    started = time.perf_counter()
    index = Index.build(vectors, similarity=similarity, miss_rate=miss_rate)
    console.print(f"Built in {time.perf_counter() - started:.1f} s: {index.design}.\n")
    hits = index.range_search(queries, similarity)
    for number in range(len(_READABLE)):
        _show_matches(console, sample, int(held_out[number]), kept, hits, number)
    truth = exact_range(vectors, queries, similarity, progress=False)
    console.print(_comparison(index, vectors, queries, similarity, hits, truth))
    console.print(Text(str(hits.certificate)))


def _split(sample: Sample, seed: int) -> tuple[IntArray, IntArray]:
    """Return the rows held out as queries, the readable ones first, and the rows to index."""
    readable = np.array([sample.row(beginning) for beginning in _READABLE])
    others = np.setdiff1d(np.arange(len(sample)), readable)
    drawn = np.random.default_rng(seed).choice(others, _HELD_OUT - len(readable), replace=False)
    held_out = np.concatenate([readable, drawn])
    return held_out, np.setdiff1d(np.arange(len(sample)), held_out)


def _show_matches(
    console: Console, sample: Sample, query: int, kept: IntArray, hits: Hits, number: int
) -> None:
    _print_line(console, sample.texts[query], "bold")
    found = hits[number]
    for row, score in zip(found.ids[:_SHOWN], found.scores[:_SHOWN], strict=True):
        _print_line(console, f"  {score:.3f}  {sample.texts[kept[row]]}")
    left = len(found.ids) - _SHOWN
    console.print(f"  … and {left} more\n" if left > 0 else "")


def _print_line(console: Console, text: str, style: str = "") -> None:
    """Print a text, cut to the width of the terminal instead of wrapped."""
    console.print(Text(text, style=style), no_wrap=True, overflow="ellipsis")


def _comparison(
    index: Index,
    vectors: Float32Array,
    queries: Float32Array,
    similarity: float,
    hits: Hits,
    truth: Matches,
) -> Table:
    scan_ms, index_ms = _times(index, vectors, queries, similarity)
    compared = hits.work.cost_ratio * len(vectors)
    table = Table(title=f"{len(queries):,} queries, everything above {similarity:g}")
    table.add_column("")
    for name in ("matches found", "vectors compared a query", "ms a query"):
        table.add_column(name, justify="right")
    table.add_row("exhaustive scan", f"{len(truth.ids):,}", f"{len(vectors):,}", f"{scan_ms:.3f}")
    table.add_row("memvec", f"{len(hits.ids):,}", f"{compared:,.0f}", f"{index_ms:.3f}")
    table.add_section()
    table.add_row(
        "ratio",
        f"missed {count_misses(truth, hits).miss_rate:.2%}",
        f"{len(vectors) / compared:.1f}× fewer",
        f"{scan_ms / index_ms:.1f}×",
    )
    return table


def _times(
    index: Index, vectors: Float32Array, queries: Float32Array, similarity: float
) -> tuple[float, float]:
    """Return the median milliseconds of a query, scan and index, measured in turns."""
    scans, searches = [], []
    some = queries[:_TIMED_QUERIES]
    for _ in range(_ROUNDS):
        started = time.perf_counter()
        for query in some:
            np.flatnonzero(vectors @ query >= similarity)
        scans.append(time.perf_counter() - started)
        started = time.perf_counter()
        for query in some:
            index.range_search(query, similarity, threads=1)
        searches.append(time.perf_counter() - started)
    return tuple(1000 * float(np.median(t)) / len(some) for t in (scans, searches))  # type: ignore[return-value]
