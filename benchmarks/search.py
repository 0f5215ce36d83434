"""Range search against other libraries: tuned on one half of the queries, judged on the other.

Every contender gets the same vectors, queries and exact answers. It is tuned to the fastest setting
whose miss rate (the mean over queries of the share of their matches that is missing) is at most
the target on the tuning half. Then all are timed in turn, round after round, on the judging half.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click
import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.peers import CONTENDERS, Contender, Setting
from benchmarks.search_sets import SearchSet
from benchmarks.tuning import Question, Tuned, Tuner, latencies, measure_misses

_WARM_UP_VECTORS = 1000
_FEWEST_TIMED = 20
# Contenders whose failure is a failure of the benchmark.
OWN = ("scan", "memvec", "memvec-reserve")


@dataclass(frozen=True)
class Plan:
    """How a comparison is measured.

    Attributes
    ----------
    rounds : int
        Rounds of timing.
    target : float
        The miss rate that tuning has to reach.
    budget : float
        Seconds that one round of one contender may take; slow ones answer fewer queries.
    cpu : int or None
        Where single queries run; None leaves it to the system.
    build_threads : int
        Threads of a build.
    batch_threads : tuple of int
        Numbers of threads for batches.
    cpu_time : bool
        Time single queries by the processor rather than on the clock: what else runs on a busy
        machine is left out then.
    """

    rounds: int = 5
    target: float = 0.01
    budget: float = 2.0
    cpu: int | None = None
    build_threads: int = os.cpu_count() or 1
    batch_threads: tuple[int, ...] = (1, 2)
    cpu_time: bool = False

    @property
    def clock(self) -> Callable[[], float]:
        """What single queries are timed by."""
        return time.process_time if self.cpu_time else time.perf_counter


@dataclass
class Row:
    """One line of a table: a contender with a setting and what was measured of it."""

    key: str
    name: str
    contender: Contender
    setting: Setting
    tuned: Tuned | None
    figures: dict[str, Any]


def compare(
    data: SearchSet, similarities: Sequence[float], names: Sequence[str], plan: Plan
) -> Iterator[list[dict[str, Any]]]:
    """Build every contender once, and yield the records of each similarity as they are ready.

    A library that is not installed, or that fails, is left out with a word on why.
    """
    contenders: dict[str, Contender] = {}
    for position, similarity in enumerate(similarities):
        tuning, judging = data.halves(similarity)
        if position:
            _rebuild(contenders, data, tuning, plan)
        else:
            contenders = _built(data, tuning, names, plan)
        rows = _tuned_rows(contenders, tuning, plan)
        _judge(rows, judging, plan)
        records = [_record(row, data, judging, plan) for row in rows]
        _add_ratios(records)
        yield records


def _built(
    data: SearchSet, tuning: Question, names: Sequence[str], plan: Plan
) -> dict[str, Contender]:
    contenders = {}
    for key in names:
        try:
            contender = CONTENDERS[key]()
            contender.warm_up(data.vectors[:_WARM_UP_VECTORS])
            contender.tuning_queries = tuning.queries
            contender.timed_build(data.vectors, tuning.similarity, plan.build_threads)
        except Exception as error:
            # A peer of many minutes must not take the others' figures with it.
            if key in OWN:
                raise
            _say(f"{key} LEFT OUT: {type(error).__name__}: {error}")
            continue
        _say(
            f"{contender.name} built in {contender.build_seconds:.1f} s "
            f"({contender.build_cpu_seconds:.1f} s of CPU)"
        )
        contenders[key] = contender
    return contenders


def _rebuild(
    contenders: dict[str, Contender], data: SearchSet, tuning: Question, plan: Plan
) -> None:
    for contender in contenders.values():
        contender.tuning_queries = tuning.queries
        if contender.tied_to_similarity:
            contender.timed_build(data.vectors, tuning.similarity, plan.build_threads)


def _tuned_rows(contenders: dict[str, Contender], tuning: Question, plan: Plan) -> list[Row]:
    rows = []
    for key, contender in contenders.items():
        started = time.perf_counter()
        with one_thread(plan.cpu):
            tuned = Tuner(contender, tuning, plan.target, plan.clock).run()
        rows.append(Row(key, contender.name, contender, tuned.setting, tuned, {}))
        for name, setting in contender.fixed_settings().items():
            rows.append(Row(key, name, contender, setting, None, {}))
        _say(
            f"{contender.name} at {tuning.similarity}: {contender.label(tuned.setting)}, "
            f"miss {tuned.misses.miss_rate:.4f}, {tuned.milliseconds:.3f} ms "
            f"({tuned.tried} settings, {time.perf_counter() - started:.0f} s)"
        )
    return rows


def _judge(rows: list[Row], judging: Question, plan: Plan) -> None:
    for row in rows:
        with one_thread(plan.cpu):
            row.figures["misses"] = measure_misses(row.contender, judging, row.setting)
    _time_single(rows, judging, plan)
    for threads in plan.batch_threads:
        _time_batches(rows, judging, threads, plan)


def _time_single(rows: list[Row], judging: Question, plan: Plan) -> None:
    """Time single queries, the contenders in turn; each round keeps every query's time."""
    questions = []
    warming = judging.rows(np.arange(min(_FEWEST_TIMED, len(judging.queries))))
    with one_thread(plan.cpu):
        for row in rows:
            guess = statistics.median(latencies(row.contender, warming, row.setting, plan.clock))
            questions.append(judging.rows(np.arange(_affordable(guess, judging, plan))))
            row.figures["single"] = []
        for _ in range(plan.rounds):
            for row, question in zip(rows, questions, strict=True):
                latencies(row.contender, warming, row.setting)
                row.figures["single"].append(
                    latencies(row.contender, question, row.setting, plan.clock)
                )


def _time_batches(rows: list[Row], judging: Question, threads: int, plan: Plan) -> None:
    """Note queries per second of batches, the contenders in turn."""
    for row in rows:
        row.figures[f"batch_{threads}"] = []
    with threadpool_limits(threads):
        for turn in range(plan.rounds):
            for row in rows:
                if threads > 1 and not row.contender.parallel_batches:
                    continue
                guess = statistics.median(row.figures["single"][turn])
                batch = judging.queries[: _affordable(guess, judging, plan)]
                started = time.perf_counter()
                row.contender.search_batch(batch, judging.similarity, row.setting, threads)
                seconds = time.perf_counter() - started
                row.figures[f"batch_{threads}"].append(len(batch) / seconds)


def _affordable(milliseconds: float, question: Question, plan: Plan) -> int:
    number = max(_FEWEST_TIMED, int(1e3 * plan.budget / milliseconds))
    return min(number, len(question.queries))


def _record(row: Row, data: SearchSet, judging: Question, plan: Plan) -> dict[str, Any]:
    misses, single = row.figures["misses"], np.array(row.figures["single"])
    contender = row.contender
    return {
        "set": data.name,
        "n_vectors": len(data.vectors),
        "dim": data.vectors.shape[1],
        "similarity": judging.similarity,
        "matches_per_query": len(judging.truth.ids) / len(judging.truth),
        "contender": row.key,
        "name": row.name,
        "setting": contender.label(row.setting),
        "settings_tried": row.tuned.tried if row.tuned else 0,
        "target": plan.target,
        "reached": row.tuned.reached if row.tuned else None,
        "tuning_miss_rate": row.tuned.misses.miss_rate if row.tuned else None,
        "miss_rate": misses.miss_rate,
        "miss_rate_error": misses.standard_error,
        "pair_miss": misses.pair_miss,
        "pairs_found": 1.0 - misses.pair_miss,
        "judged_queries": misses.n_queries,
        "judged_queries_with_matches": misses.n_queries_with_matches,
        "timed_queries": single.shape[1],
        "cpu_time": plan.cpu_time,
        "single_ms_rounds": np.median(single, axis=1).tolist(),
        "single_ms": float(np.median(np.median(single, axis=1))),
        # Of each query its median over the rounds: a round that was disturbed tells nothing.
        "single_ms_mean": float(np.median(single, axis=0).mean()),
        "single_ms_99": float(np.quantile(np.median(single, axis=0), 0.99)),
        "batch_per_second": {
            str(threads): row.figures[f"batch_{threads}"] for threads in plan.batch_threads
        },
        "build_threads": plan.build_threads,
        "build_seconds": contender.build_seconds,
        "build_cpu_seconds": contender.build_cpu_seconds,
        "memory_bytes": contender.memory_bytes(),
        "disk_bytes": contender.disk_bytes(),
        "work": contender.work(judging.queries, judging.similarity, row.setting),
        "design": contender.design(),
    }


def _add_ratios(records: list[dict[str, Any]]) -> None:
    scan = [record for record in records if record["contender"] == "scan"]
    for record in records:
        ratio = scan[0]["single_ms"] / record["single_ms"] if scan else None
        record["over_scan"] = ratio


@contextmanager
def one_thread(cpu: int | None) -> Iterator[None]:
    """Hold BLAS and OpenMP to one thread and this thread to one processor."""
    allowed = os.sched_getaffinity(0) if cpu is not None else set()
    try:
        if cpu is not None:
            os.sched_setaffinity(0, {cpu})
        with threadpool_limits(1):
            yield
    finally:
        if cpu is not None:
            os.sched_setaffinity(0, allowed)


def _say(text: str) -> None:
    click.echo(text, err=True)
