"""What the steps of a search cost on this machine: measured when asked, never during a build."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from memvec import checks
from memvec.guarantee import Thresholds
from memvec.index._build import BuildPromise, build_parts
from memvec.index._config import IndexConfig
from memvec.index._costs import MachineCosts, busy_runs
from memvec.index._index import Index
from memvec.kernels import BLOCK, N_STAGES, PREFIX_STAGE, WORD, StoredRows
from memvec.lazy import special
from memvec.search import CodeUnits
from memvec.types import Float32Array, WordArray

_DIM, _SIMILARITY = 1024, 0.9
_WORDS, _FEW_WORDS, _FIRST_WORDS = 16, 4, 2
# Codes of up to 8 MB: more than the innermost caches, less than the outermost.
_FEW_CODES, _CODES = 16384, 65536
# 8, 16, 32 and 64 MB of codes: from in cache to from memory.
_GROWING_CODES = (65536, 131072, 262144, 524288)
# Units that pass: so few that each is alone in its run of 64, and so many that most have company.
_RARE, _OFTEN = 0.002, 0.1
_UNITS, _SMALL_UNIT, _LARGE_UNIT = 32768, 8, 32
# Queries take turns, or the processor would learn by heart which units pass.
_QUERIES = 16
_ROUNDS, _BURST, _WARMING = 7, 20, 4
# Differences of times that are lost in noise count as this much.
_LEAST = 1e-3

Search = Callable[[], object]


def profile_machine(*, seed: int = 0) -> MachineCosts:
    """Measure the costs of a search on this machine, in one thread, in a few seconds.

    The searches are those of an index, by the same compiled loops, over made-up codes; each time
    is a median of rounds in which all searches of a comparison take turns.

    Parameters
    ----------
    seed : int, default 0
        Fixes the codes.

    Returns
    -------
    MachineCosts
        For ``Index.build(machine=…)``, and for :meth:`MachineCosts.write`.
    """
    bench = _Bench.of(seed)
    code, word = _scan_costs(bench)
    sizes, words = _growing_scan(bench, code)
    memory_word = max(words[-1], word)
    run, visit, member_word, member_code = _visit_costs(bench)
    return MachineCosts(
        query=_query_cost(bench),
        code=code,
        word=word,
        memory_word=memory_word,
        cache=_cache_size(sizes, words, word, memory_word),
        run=run,
        visit=visit,
        member_word=member_word,
        member_code=member_code,
    )


@dataclass(frozen=True, eq=False)
class _Bench:
    """A real index of next to nothing, whose cascade is blown up with made-up codes."""

    rng: np.random.Generator
    index: Index
    cascade: CodeUnits
    query: Float32Array

    @classmethod
    def of(cls, seed: int) -> _Bench:
        rng = np.random.default_rng(seed)
        vectors = rng.standard_normal((2 * WORD, _DIM), dtype=np.float32)
        config = IndexConfig(
            assignment="random",
            codes="estimate",
            unit_size=2,
            unit_words=1,
            member_bits=1,
            center=False,
            reserve=0,
            seed=seed,
        )
        parts = build_parts(
            StoredRows.of(checks.unit_rows(vectors, "vectors", "profile_machine")),
            BuildPromise(_SIMILARITY, 0.01, "expected", 0.95, (_SIMILARITY,)),
            None,
            None,
            config,
            MachineCosts(),
            progress=False,
        )
        cascade = cast(CodeUnits, parts.units.cascade)
        return cls(rng, Index(parts), cascade, cascade.units.vectors[0])

    def searches(
        self,
        n_codes: int,
        n_words: int,
        unit_size: int,
        passed: float = 0.0,
        members_passed: float = 0.0,
    ) -> list[Search]:
        """Return searches of made-up units, a share of which passes, and of their first words.

        No whole code of a member passes.
        """
        cascade = self._blown_up(n_codes, n_words, unit_size)
        if members_passed:
            cascade = replace(cascade, codes=self._words(cascade.codes.shape))
        queries = self.rng.standard_normal((_QUERIES, 1, _DIM), dtype=np.float32)
        queries /= np.linalg.norm(queries, axis=-1, keepdims=True)
        slack = np.full(N_STAGES, -np.inf)
        # Codes of scale 0 score N(0, 1) in standard deviations of their noise.
        slack[:PREFIX_STAGE] = special.ndtri(passed)
        slack[PREFIX_STAGE] = special.ndtri(members_passed)
        lines = Thresholds.one(_SIMILARITY, slack)

        def search_for(query: Float32Array) -> Search:
            return lambda: cascade.search(query, _SIMILARITY, lines, 1)

        return [search_for(query) for query in queries]

    def _blown_up(self, n_codes: int, n_words: int, unit_size: int) -> CodeUnits:
        """Return a cascade of random codes; what its searches never read has no columns."""
        n_members = n_codes * unit_size
        offsets = np.arange(0, n_members + 1, unit_size)
        units = replace(
            self.cascade.units,
            vectors=StoredRows.of(np.empty((n_members, 0), dtype=np.float32)),
            keys=np.empty(n_members, dtype=np.int64),
            offsets=offsets,
            run_offsets=offsets,
            unit_vectors=np.empty((n_codes, 0), dtype=np.float32),
        )
        return replace(
            self.cascade,
            units=units,
            top_blocks=self._words((n_codes // BLOCK, n_words, BLOCK)),
            top_scales=np.zeros(n_codes, dtype=np.float32),
            prefix=self._words((n_members * _FIRST_WORDS,)),
            prefix_scale=0.0,
            codes=np.empty((n_members, _WORDS), dtype=np.uint64),
            code_scales=np.zeros(n_members, dtype=np.float32),
        )

    def _words(self, shape: tuple[int, ...]) -> WordArray:
        return self.rng.integers(0, 2**64, size=shape, dtype=np.uint64)


def _scan_costs(bench: _Bench) -> tuple[float, float]:
    """Return what a code and what each of its words cost, from two lengths and two numbers."""
    shapes = list(itertools.product((_FEW_CODES, _CODES), (_FEW_WORDS, _WORDS)))
    searches = [bench.searches(n_codes, n_words, unit_size=1) for n_codes, n_words in shapes]
    few_short, few_long, short, long = _medians(searches)
    more = _CODES - _FEW_CODES
    short_code, long_code = (short - few_short) / more, (long - few_long) / more
    word = (long_code - short_code) / (_WORDS - _FEW_WORDS)
    return max(short_code - _FEW_WORDS * word, _LEAST), max(word, _LEAST)


def _growing_scan(bench: _Bench, code: float) -> tuple[list[float], list[float]]:
    """Return the bytes of ever more codes, and what one of their words costs."""
    sizes, words = [], []
    for n_codes in _GROWING_CODES:
        [time_of_all] = _medians([bench.searches(n_codes, _WORDS, unit_size=1)])
        sizes.append(float(n_codes * _WORDS * WORD // 8))
        words.append(max((time_of_all / n_codes - code) / _WORDS, _LEAST))
    return sizes, words


def _cache_size(sizes: list[float], words: list[float], word: float, memory: float) -> float:
    """Return the size of cache by whose law the costs of words come nearest to those measured."""

    def error(cache: float) -> float:
        costs = MachineCosts(code=_LEAST, word=word, memory_word=memory, cache=cache)
        codes = [size / (_WORDS * WORD // 8) for size in sizes]
        laws = [costs.scan(n_codes, _WORDS) / n_codes / _WORDS for n_codes in codes]
        return sum((law - seen) ** 2 for law, seen in zip(laws, words, strict=True))

    candidates = np.geomspace(sizes[0] / 8, sizes[-1], 61)
    return float(min(candidates, key=error))


def _visit_costs(bench: _Bench) -> tuple[float, float, float, float]:
    """Return what a run, going to a unit, a first word of a member and a whole code cost."""
    plans = [
        (_SMALL_UNIT, 0.0, 0.0),
        (_SMALL_UNIT, _RARE, 0.0),
        (_SMALL_UNIT, _OFTEN, 0.0),
        (_LARGE_UNIT, 0.0, 0.0),
        (_LARGE_UNIT, _OFTEN, 0.0),
        (_LARGE_UNIT, _OFTEN, _OFTEN),
    ]
    none, rare, often, none_large, often_large, whole = _medians(
        bench.searches(_UNITS, _FEW_WORDS, size, passed, members_passed)
        for size, passed, members_passed in plans
    )
    # Two equations: runs · run + units · visit, for units of the same size.
    done = [[busy_runs(_UNITS, share), _UNITS * share] for share in (_RARE, _OFTEN)]
    run, visit = np.linalg.solve(done, [rare - none, often - none])
    larger = ((often_large - none_large) - (often - none)) / (_UNITS * _OFTEN)
    member_word = larger / ((_LARGE_UNIT - _SMALL_UNIT) * _FIRST_WORDS)
    visit -= _SMALL_UNIT * _FIRST_WORDS * member_word
    member_code = (whole - often_large) / (_UNITS * _OFTEN * _LARGE_UNIT * _OFTEN)
    run, visit, member_word, member_code = (
        max(float(cost), _LEAST) for cost in (run, visit, member_word, member_code)
    )
    return run, visit, member_word, member_code


def _query_cost(bench: _Bench) -> float:
    """Return what a search costs where there is next to nothing to search."""
    [median] = _medians([[lambda: bench.index.range_search(bench.query)]])
    return median


def _medians(plans: Iterable[list[Search]]) -> list[float]:
    """Return the median nanoseconds of each plan; all take turns, and each goes round its own."""
    turns = [itertools.cycle(searches) for searches in plans]
    times: list[list[int]] = [[] for _ in turns]
    for _ in range(_ROUNDS):
        for turn, own in zip(turns, times, strict=True):
            # The first searches of a turn bring back what the turns of others pushed out of cache.
            burst = [_nanoseconds(next(turn)) for _ in range(_BURST)]
            own += burst[_WARMING:]
    return [float(statistics.median(own)) for own in times]


def _nanoseconds(search: Search) -> int:
    started = time.perf_counter_ns()
    search()
    return time.perf_counter_ns() - started
