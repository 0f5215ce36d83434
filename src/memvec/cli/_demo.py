"""``memvec demo``: what only memvec does, on the real embeddings that ship with the package."""

from __future__ import annotations

import time
from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from memvec.cli._demo_page import show_page
from memvec.cli._demo_picture import ScorePicture
from memvec.cli._options import COSINE, PORT, SEED, named, option
from memvec.evaluation import SAMPLE_SIZE, Misses, Sample, count_misses, exact_range, load_sample
from memvec.index import Index, self_join
from memvec.matches import Matches
from memvec.search import Hits
from memvec.types import Float32Array, IntArray

_READABLE = ("whale:", "kitchen:", "clock:")
_HELD_OUT = 1000
_SHOWN = 4
_TOP = 10
_NEAR_COPIES = 0.94
_COPIES_SHOWN = 6
_TIMED_QUERIES = 100
_ROUNDS = 5


@click.command()
@option("--similarity", COSINE, "Find everything with at least this cosine.", 0.6)
@option(
    "--miss-rate",
    named("share", click.FloatRange(0, 0.5, min_open=True, max_open=True)),
    "The share of matches that may be missed.",
    0.01,
)
@click.option(
    "--picture", type=click.Path(path_type=Path), help="Draw the scores in this SVG file."
)
@option("--seed", SEED, "Seed of the draw of the queries.", 0)
@click.option(
    "--page", is_flag=True, help="Show the sample in a browser instead; needs memvec[server]."
)
@option("--port", PORT, "Port of the page; 0 takes a free one.", 8765)
def demo(
    similarity: float, miss_rate: float, picture: Path | None, seed: int, page: bool, port: int
) -> None:
    """Search 34,000 sentence embeddings; check the promise.

    The vectors are WordNet synsets embedded by all-MiniLM-L6-v2. A thousand of them are held out
    as queries; the rest is indexed. Every figure is measured while you watch.

    \b
    Example:
      memvec demo --similarity 0.7 --picture scores.svg
      memvec demo --page
    """  # noqa: D301 - click wants the character itself, not its name
    if page:
        show_page(similarity, miss_rate, port)
        return
    console = Console()
    sample = load_sample(SAMPLE_SIZE)
    held_out, kept = _split(sample, seed)
    queries, vectors = sample.vectors[held_out], sample.vectors[kept]
    _print_title(console, f"Everything above {similarity:g}")
    console.print(
        f"{len(kept):,} WordNet synsets in {vectors.shape[1]} dimensions; "
        f"{len(held_out):,} others are the queries."
    )
    started = time.perf_counter()
    index = Index.build(vectors, similarity=similarity, miss_rate=miss_rate)
    console.print(f"Built in {time.perf_counter() - started:.1f} s.\n")
    hits = index.range_search(queries, similarity)
    for number in range(len(_READABLE)):
        _show_matches(console, sample, int(held_out[number]), kept, hits, number)
    _check_promise(console, index, vectors, queries, hits, similarity)
    _show_copies(console, sample)
    _draw(console, vectors, queries, hits, similarity, picture)
    console.print("\nThe same in a browser: memvec demo --page")


def _split(sample: Sample, seed: int) -> tuple[IntArray, IntArray]:
    """Return the rows held out as queries, the readable ones first, and the rows to index."""
    readable = np.array([sample.row(beginning) for beginning in _READABLE])
    others = np.setdiff1d(np.arange(len(sample)), readable)
    drawn = np.random.default_rng(seed).choice(others, _HELD_OUT - len(readable), replace=False)
    held_out = np.concatenate([readable, drawn])
    return held_out, np.setdiff1d(np.arange(len(sample)), held_out)


def _print_title(console: Console, title: str) -> None:
    console.print(Text(f"\n{title}", style="bold"))


def _show_matches(
    console: Console, sample: Sample, query: int, kept: IntArray, hits: Hits, number: int
) -> None:
    _print_line(console, sample.texts[query], "italic")
    found = hits[number]
    for row, score in zip(found.ids[:_SHOWN], found.scores[:_SHOWN], strict=True):
        _print_line(console, f"  {score:.3f}  {sample.texts[kept[row]]}")
    left = len(found.ids) - _SHOWN
    console.print(f"  … and {left} more\n" if left > 0 else "")


def _print_line(console: Console, text: str, style: str = "") -> None:
    """Print a text, cut to the width of the terminal instead of wrapped."""
    console.print(Text(text, style=style), no_wrap=True, overflow="ellipsis")


def _check_promise(
    console: Console,
    index: Index,
    vectors: Float32Array,
    queries: Float32Array,
    hits: Hits,
    similarity: float,
) -> None:
    """Compare with the truth, and with what a top-k search leaves of it."""
    truth = exact_range(vectors, queries, similarity, progress=False)
    scan_ms, index_ms = _times(index, vectors, queries, similarity)
    _print_title(console, "The promise")
    console.print(Text(str(hits.certificate)))
    _print_title(
        console, f"The truth: {len(queries):,} held-out queries, one at a time, one thread"
    )
    table = Table()
    columns = ("", "matches found", "pairs missed", "missed per query", "CPU ms per query")
    for name in columns:
        table.add_column(name, justify="right" if name else "left")
    table.add_row("NumPy scan", f"{len(truth.ids):,}", "0 %", "0 %", f"{scan_ms:.3f}")
    best = _best_of(truth)
    table.add_row(f"best {_TOP}, then the threshold", *_told(count_misses(truth, best), best), "")
    table.add_row("memvec", *_told(count_misses(truth, hits), hits), f"{index_ms:.3f}")
    console.print(table)
    work = hits.work
    by_code = (work.unit_tests + work.members_tested + work.codes_tested) / len(queries)
    exact = work.exact_products / len(queries)
    console.print(
        f"memvec is {scan_ms / index_ms:.0f}× as fast as the scan. A query takes {by_code:,.0f} "
        f"tests of one-bit codes and {exact:,.0f} exact products; the scan takes "
        f"{len(vectors):,} products.\nA search for the best {_TOP} misses all matches beyond "
        f"the tenth: {_beyond(truth)} of {len(queries):,} queries have more than {_TOP}."
    )


def _best_of(truth: Matches) -> Matches:
    """Return what is left of the truth where only the nearest few of each query are looked at."""
    return Matches.of_rows(truth.best(_TOP), truth.spent)


def _beyond(truth: Matches) -> int:
    return int(np.count_nonzero(np.diff(truth.offsets) > _TOP))


def _told(misses: Misses, found: Matches | Hits) -> tuple[str, str, str]:
    rates = misses.pair_miss, misses.miss_rate
    return f"{len(found.ids):,}", *(f"{100 * rate:.2g} %" for rate in rates)  # type: ignore[return-value]


def _show_copies(console: Console, sample: Sample) -> None:
    pairs = self_join(sample.vectors, similarity=_NEAR_COPIES, progress=False)
    _print_title(console, f"Near-duplicates: {len(pairs)} pairs above {_NEAR_COPIES}")
    spread = np.linspace(0, len(pairs) - 1, _COPIES_SHOWN).round().astype(np.int64)
    for place in np.argsort(-pairs.scores, kind="stable")[spread]:
        _print_line(console, f"{pairs.scores[place]:.3f}  {sample.texts[pairs.left[place]]}")
        _print_line(console, f"       {sample.texts[pairs.right[place]]}")


def _draw(
    console: Console,
    vectors: Float32Array,
    queries: Float32Array,
    hits: Hits,
    similarity: float,
    path: Path | None,
) -> None:
    drawn = ScorePicture.of_scores(queries @ vectors.T, similarity, hits.null_law)
    _print_title(console, "Why a threshold works: matches and unrelated vectors")
    for line in drawn.lines():
        _print_line(console, line)
    chance = f"{drawn.p_value:.1g}"
    console.print(f"An unrelated vector reaches {similarity:g} with probability {chance} at most.")
    if path is not None:
        drawn.write_svg(path)
        console.print(f"The same picture: {path}", soft_wrap=True)


def _times(
    index: Index, vectors: Float32Array, queries: Float32Array, similarity: float
) -> tuple[float, float]:
    """Return the median milliseconds of a query, scan and index, measured in turns.

    Milliseconds are CPU time, which other work on the machine does not add to.
    """
    scans, searches = [], []
    some = queries[:_TIMED_QUERIES]
    for _ in range(_ROUNDS):
        started = time.process_time()
        for query in some:
            # As fast as BLAS on one thread, and on one thread always.
            np.flatnonzero(np.einsum("ij,j->i", vectors, query) >= similarity)
        scans.append(time.process_time() - started)
        started = time.process_time()
        for query in some:
            index.range_search(query, similarity, threads=1)
        searches.append(time.process_time() - started)
    return tuple(1000 * float(np.median(t)) / len(some) for t in (scans, searches))  # type: ignore[return-value]
