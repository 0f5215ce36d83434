"""The design step against a grid search: how near its choice comes to the best of the grid.

First every configuration of the grid is built and timed by itself, one index in memory at a time.
Then, for each similarity, the fastest of them and what the design step chooses by itself are built
and timed in turn, round after round. Times are means over queries, by the processor: queries with
many matches count as they cost, and what else runs on the machine does not. The ratio is of the
medians of the rounds.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import click

from benchmarks.data import MissingDataError
from benchmarks.kinds import KINDS
from benchmarks.measure import print_table, spread
from benchmarks.search import one_thread
from benchmarks.search_sets import SearchSet, search_set
from memvec.evaluation import count_misses, exact_range
from memvec.index import Index, IndexConfig, IndexDesign
from memvec.types import Float32Array

SETS = tuple(KINDS)
MISS_RATE = 0.01

UNIT_SIZES, UNIT_WORDS = (2, 4, 8, 12, 16, 24, 32), (4, 8, 12, 16)
KMEANS_UNIT_SIZES = (14, 28, 56, 113)
KMEANS_GROUPS = ((28, 1000),)
FIRST_WORDS = (3, 8)
# Words of unit codes for each vector: more are read more slowly than anything else is done.
_MOST_WORDS = 4.0
# What a match scores on its unit, in standard deviations of what others do: with less, so many
# units pass that most members are tested. 0.78 is what signs keep of a score.
_LEAST_SCORE = 3.0
_CODE_SHARE = 0.78
_FINALISTS = 2
_TIMED, _WARMING = 200, 20


@dataclass(frozen=True)
class Entry:
    """A configuration of the grid; None is what the design step chooses by itself."""

    unit_size: int | None = None
    unit_words: int | None = None
    group_size: int | None = None
    center: bool = False
    assignment: Literal["auto", "kmeans", "random"] = "auto"
    first_words: int | None = None

    @property
    def most_words(self) -> int:
        """Words that codes must have, for this to be another index than one of fewer."""
        # The first of the first words are tried whatever the dimension.
        first = 1 if self.first_words == FIRST_WORDS[0] else self.first_words
        return max(self.unit_words or 1, first or 1)

    @property
    def config(self) -> IndexConfig:
        """What is fixed; the design step decides the rest."""
        levels: Literal["auto", 1, 2] = 2 if self.group_size else 1
        return IndexConfig(
            assignment=self.assignment,
            center=self.center,
            unit_size=self.unit_size or "auto",
            unit_words=self.unit_words or "auto",
            member_words=self.first_words or "auto",
            group_size=self.group_size or "auto",
            levels=levels,
        )

    def is_choice(self, design: IndexDesign) -> bool:
        """Tell whether the design step arrived here by itself."""
        made = design.config
        first = min(self.first_words or made.member_words, made.n_code_words(design.dim))
        words = self.unit_words or made.unit_words, first
        group = made.group_size if made.levels == 2 else None
        own = (self.unit_size, *words, self.group_size, self.center, self.assignment)
        of_codes = made.unit_words, made.member_words
        chosen = (made.unit_size, *of_codes, group, made.center, made.assignment)
        return own == chosen

    def worth_a_try(self, similarity: float) -> bool:
        """Tell whether neither the units nor the members take hopelessly long."""
        if self.unit_size is None or self.unit_words is None:
            return True
        score = _CODE_SHARE * similarity * math.sqrt(64 * self.unit_words / self.unit_size)
        return score >= _LEAST_SCORE and self.unit_words <= _MOST_WORDS * self.unit_size

    def __str__(self) -> str:
        words = f" × {self.unit_words} words" if self.unit_words else ""
        groups = f" in groups of {self.group_size}" if self.group_size else ""
        centred = ", centred" if self.center else ""
        first = f", {self.first_words} first words" if self.first_words else ""
        return f"{self.assignment} {self.unit_size}{words}{groups}{centred}{first}"


_RANDOM = [Entry(size, words, assignment="random") for size in UNIT_SIZES for words in UNIT_WORDS]
_KMEANS = [
    Entry(size, group_size=group, center=center, assignment="kmeans", first_words=words)
    for words in FIRST_WORDS
    for center in (False, True)
    for size, group in (*((size, None) for size in KMEANS_UNIT_SIZES), *KMEANS_GROUPS)
]
# Random units of few vectors, in case that k-means finds no clusters.
_FEW_RANDOM = [
    Entry(size, center=center, assignment="random") for size in (1, 4) for center in (False, True)
]
GRIDS = {name: _RANDOM if name == "uniform" else _KMEANS + _FEW_RANDOM for name in SETS}
Times = dict[Entry, dict[float, float]]


def run(
    name: str,
    data: str | None,
    n_vectors: int | None,
    dim: int | None,
    rounds: int,
    cpu: int | None,
) -> None:
    """Print the comparison, and the whole grid."""
    kind = KINDS[name]
    try:
        chosen = search_set(
            kind.set_name, data, n_vectors or kind.n_vectors, dim or kind.dim, kind.n_queries
        )
    except MissingDataError as error:
        click.echo(f"{name} LEFT OUT: {error.message}", err=True)
        return
    queries = {similarity: chosen.queries(similarity) for similarity in kind.similarities}
    # More words than the dimension has would be the same index again.
    longest = -(-chosen.vectors.shape[1] // 64)
    grid = [entry for entry in GRIDS[name] if entry.most_words <= longest]
    times = _time_grid(grid, chosen.vectors, queries, rounds, cpu)
    rows = [
        _final(chosen, similarity, some, times, rounds, cpu) for similarity, some in queries.items()
    ]
    _print_choices(chosen, rows, rounds)
    _print_grid(chosen, times, list(queries))


def _time_grid(
    grid: Sequence[Entry],
    vectors: Float32Array,
    queries: dict[float, Float32Array],
    rounds: int,
    cpu: int | None,
) -> Times:
    """Return the microseconds of a query for every configuration and similarity worth a try."""
    times: Times = {}
    for entry in grid:
        worth = [similarity for similarity in queries if entry.worth_a_try(similarity)]
        if not worth:
            continue
        # What is fixed does not depend on the similarity: one build serves all of them.
        index = _build(entry.config, vectors, min(queries))
        times[entry] = {}
        for similarity in worth:
            [found] = _in_turn([index], queries[similarity], similarity, rounds, cpu)
            times[entry][similarity] = statistics.median(found)
        click.echo(f"{entry}: {_listed(times[entry].values())} µs", err=True)
        del index
        gc.collect()
    return times


def _final(
    data: SearchSet,
    similarity: float,
    queries: Float32Array,
    times: Times,
    rounds: int,
    cpu: int | None,
) -> list[str]:
    """Time the choice of the design step and the fastest of the grid in turn; return a row."""
    ranked = sorted(
        (entry for entry in times if similarity in times[entry]),
        key=lambda entry: times[entry][similarity],
    )
    own = _build(IndexConfig(), data.vectors, similarity)
    indexes = {
        entry: own
        if entry.is_choice(own.design)
        else _build(entry.config, data.vectors, similarity)
        for entry in _finalists(ranked, own.design)
    }
    contenders = list(dict.fromkeys([own, *indexes.values()]))
    rounds_of = dict(
        zip(contenders, _in_turn(contenders, queries, similarity, rounds, cpu), strict=True)
    )
    best = min(indexes, key=lambda entry: statistics.median(rounds_of[indexes[entry]]))
    truth = exact_range(data.vectors, queries, similarity, progress=False)
    misses = [
        count_misses(truth, index.range_search(queries, similarity))
        for index in (own, indexes[best])
    ]
    own_rounds, best_rounds = rounds_of[own], rounds_of[indexes[best]]
    expected = own.design.expected_microseconds
    return [
        f"{similarity:g}",
        f"{str(own.design).partition(' memory vectors')[0]}, "
        f"{own.design.config.member_words} first words",
        f"{expected:.0f}" if expected else "",
        spread(own_rounds, 1),
        str(best),
        spread(best_rounds, 1),
        f"{statistics.median(own_rounds) / statistics.median(best_rounds):.2f}",
        " / ".join(f"{100 * one.miss_rate:.2f} ± {100 * one.standard_error:.2f}" for one in misses),
    ]


def _finalists(ranked: Sequence[Entry], design: IndexDesign) -> list[Entry]:
    """Return the fastest of the grid, and the choice where it is on the grid."""
    return [
        entry for place, entry in enumerate(ranked) if place < _FINALISTS or entry.is_choice(design)
    ]


def _build(config: IndexConfig, vectors: Float32Array, similarity: float) -> Index:
    return Index.build(
        vectors, similarity=similarity, miss_rate=MISS_RATE, config=config, progress=False
    )


def _in_turn(
    indexes: Sequence[Index],
    queries: Float32Array,
    similarity: float,
    rounds: int,
    cpu: int | None,
) -> list[list[float]]:
    """Return each index's mean microseconds of one query, for every round."""
    means: list[list[float]] = [[] for _ in indexes]
    with one_thread(cpu):
        for _ in range(rounds):
            for index, own in zip(indexes, means, strict=True):
                list(_latencies(index, queries[:_WARMING], similarity))
                own.append(statistics.fmean(_latencies(index, queries[:_TIMED], similarity)))
    return means


def _latencies(index: Index, queries: Float32Array, similarity: float) -> Iterator[float]:
    for query in queries:
        started = time.process_time()
        index.range_search(query, similarity, threads=1)
        yield 1e6 * (time.process_time() - started)


def _print_choices(data: SearchSet, rows: list[list[str]], rounds: int) -> None:
    header = [
        "similarity",
        "design's choice",
        "expected µs",
        "µs a query (lowest–highest round)",
        "best of the grid",
        "µs a query",
        "choice / best",
        "% missed: choice / best",
    ]
    note = (
        f"Miss rate {MISS_RATE:.0%} asked. One query at a time, one thread: means over {_TIMED} "
        f"queries in each of {rounds} rounds, the choice and the best {_FINALISTS} of the grid in "
        "turn."
    )
    print_table(f"The design step against a grid, {_size(data)}", header, rows, note)


def _print_grid(data: SearchSet, times: Times, similarities: list[float]) -> None:
    header = ["units", *(f"µs at {similarity:g}" for similarity in similarities)]
    rows = [
        [str(entry), *(f"{own[s]:.0f}" if s in own else "" for s in similarities)]
        for entry, own in times.items()
    ]
    note = (
        f"Each configuration by itself. Left out: more than {_MOST_WORDS:g} words of unit codes a "
        f"vector, and a match's score on its unit under {_LEAST_SCORE:g} standard deviations."
    )
    print_table(f"The grid, {_size(data)}", header, rows, note)


def _size(data: SearchSet) -> str:
    n_vectors, dim = data.vectors.shape
    return f"{n_vectors:,} × {dim} {data.name}"


def _listed(values: Iterable[float]) -> str:
    return " ".join(f"{value:.0f}" for value in values)
