"""The kernels of a GPU, one by one: joins and scans of codes, encoding, scores of int8 rows."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.stats import hypergeom

from benchmarks.measure import print_table
from memvec import gpu
from memvec.codes import CodeSpace

LENGTHS = (256, 512, 768, 1024, 1536, 2048)
#: Shares of the tests that pass.
RATES = (0.0, 1e-6, 7e-5, 1e-3)
_USUAL_RATE = 7e-5
# 1-bit operations a clock of a multiprocessor: eight times those of int8.
_OPERATIONS = {(9, 0): 65536, (8, 0): 32768, (8, 6): 16384, (8, 9): 16384}
_CLOCK_RATE = 13  # the number of the attribute, in kHz
# Codes that are joined with themselves.
_MOST_SELF_JOINED = 1 << 19
# Popcounts are slower by so much that fewer rows are enough.
_POPCOUNT_SHARE = 16


class Bench:
    """A card, what is timed on it, and how often."""

    def __init__(self, device: str, rounds: int) -> None:
        self.rounds, self.card = rounds, gpu.find_card(device)
        import cupy

        self.cupy = cupy
        self.clock = cupy.cuda.runtime.deviceGetAttribute(_CLOCK_RATE, self.card.number) * 1e3
        self.random = cupy.random.default_rng(0)

    @property
    def peak(self) -> float:
        """1-bit operations a second at the highest clock; NaN where they are not known."""
        operations = _OPERATIONS.get(self.card.capability, float("nan"))
        return operations * self.card.n_processors * self.clock

    def seconds(self, work: Callable[[], object]) -> float:
        """Return the median time on the card, after one call to warm up."""
        work()
        events = [(self.cupy.cuda.Event(), self.cupy.cuda.Event()) for _ in range(self.rounds)]
        for begin, end in events:
            begin.record()
            work()
            end.record()
        self.cupy.cuda.Device().synchronize()
        elapsed = [self.cupy.cuda.get_elapsed_time(*pair) / 1e3 for pair in events]
        return statistics.median(elapsed)

    def codes(self, n: int, length: int) -> Any:
        """Return balanced codes of normal vectors."""
        flips = CodeSpace.random(length, seed=0).flips[:0]
        block = max(1, (1 << 28) // length)
        parts = [
            gpu.encode_balanced(
                self.random.standard_normal((min(block, n - at), length), dtype=np.float32),
                flips,
                length,
                self.card,
            )
            for at in range(0, n, block)
        ]
        return self.cupy.concatenate(parts)

    def thresholds(self, n: int, length: int, rate: float) -> Any:
        """Return thresholds that so many pairs of unrelated codes pass."""
        half = length // 2
        level = hypergeom.isf(rate, length, half, half) + 1 if rate else half + 1
        return self.cupy.full(n, level, dtype=np.int16)


def run(device: str, n_rows: int, n_columns: int, n_scanned: int, rounds: int) -> None:
    """Print the tables."""
    bench = Bench(device, rounds)
    _print_joins(bench, n_rows, n_columns)
    _print_products(bench)
    _print_scans(bench, n_scanned)
    _print_others(bench)


def _join_row(
    bench: Bench, rows: Any, columns: Any, rate: float, way: gpu.Way, **more: Any
) -> list[str]:
    length = 32 * int(rows.shape[1])
    thresholds = bench.thresholds(len(columns), length, rate)
    room = int(len(rows) * len(columns) * rate * 1.5) + 1024
    queue = gpu.Queue(bench.card, room)

    def work() -> None:
        queue.clear()
        gpu.launch_join(rows, columns, thresholds, queue, way=way, **more)

    seconds = bench.seconds(work)
    tests = len(rows) * len(columns) / (2 if more else 1)
    share = 2 * length * tests / seconds / bench.peak
    passed = queue.length()
    assert passed <= room, (passed, room)
    name = f"{way}, triangle" if more else way
    return [
        *(f"{length}", name, f"{rate:.0e}" if rate else "0", f"{passed / tests:.1e}"),
        *(f"{1e3 * seconds:.2f}", f"{tests / seconds:.2e}", f"{share:.0%}"),
    ]


def _print_joins(bench: Bench, n_rows: int, n_columns: int) -> None:
    header = ["bits", "way", "rate asked", "passed", "ms", "pairs a second", "of the 1-bit peak"]
    best, table = bench.card.ways[0], []
    for length in LENGTHS:
        rows, columns = bench.codes(n_rows, length), bench.codes(n_columns, length)
        rates: Sequence[float] = RATES if length == 1024 else (0.0, _USUAL_RATE)
        table += [_join_row(bench, rows, columns, rate, best) for rate in rates]
        if length == 1024:
            same = rows[:_MOST_SELF_JOINED]
            stops = bench.cupy.arange(len(same), dtype=np.int32)
            table.append(_join_row(bench, same, same, 1e-6, best, stops=stops))
            for way in bench.card.ways[1:]:
                few = n_rows // (_POPCOUNT_SHARE if way == "popcount" else 1)
                table.append(_join_row(bench, rows[:few], columns, _USUAL_RATE, way))
    title = f"Join of {n_rows:,} × {n_columns:,} balanced codes, {bench.card.name}"
    note = f"The 1-bit peak is {bench.peak:.3g} operations a second, at the highest clock."
    print_table(title, header, table, note)


def _print_products(bench: Bench) -> None:
    """Print what is usual: products of bf16, a threshold, and the pairs that pass."""
    try:
        import torch
    except ImportError:
        print_table("Products of bf16", ["left out"], [["torch is not installed"]])
        return
    device = f"cuda:{bench.card.number}"
    n, dim = (65536, 16384), 1024
    left, right = (torch.randn(m, dim, device=device).bfloat16() for m in n)
    level = float(torch.quantile((left[:2048] @ right[:2048].T).float().flatten()[::16], 0.9999))

    def product() -> object:
        return left @ right.T

    def pairs() -> object:
        return torch.nonzero(product() > level)

    table = []
    works = {"product alone": product, "product, threshold, nonzero": pairs}
    for name, work in works.items():
        work()
        torch.cuda.synchronize()
        times = []
        for _ in range(bench.rounds):
            started = time.perf_counter()
            work()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - started)
        seconds = statistics.median(times)
        table.append([name, f"{1e3 * seconds:.2f}", f"{n[0] * n[1] / seconds:.2e}"])
    header = ["what", "ms", "pairs a second"]
    print_table(f"bf16, {n[0]:,} × {n[1]:,} vectors of {dim} entries (torch)", header, table)


def _print_scans(bench: Bench, n_columns: int) -> None:
    table = []
    for length in LENGTHS:
        columns, query = bench.codes(n_columns, length), bench.codes(1, length)
        for rate in (0.0, 1e-4) if length == 1024 else (1e-4,):
            thresholds = bench.thresholds(n_columns, length, rate)
            queue = gpu.Queue(bench.card, n_columns)

            def work(given: tuple[Any, ...] = (query, columns, thresholds, queue)) -> None:
                gpu.launch_scan(*given)

            seconds = bench.seconds(work)
            queue.clear()
            work()
            passed = queue.length()
            started = time.perf_counter()
            for _ in range(bench.rounds):
                gpu.scan_codes(query, columns, thresholds, bench.card)
            whole = (time.perf_counter() - started) / bench.rounds
            n_bytes = columns.nbytes + thresholds.nbytes
            table.append(
                [
                    *(f"{length}", f"{passed / n_columns:.1e}", f"{1e3 * seconds:.3f}"),
                    *(f"{n_bytes / seconds / 1e12:.2f}", f"{1e3 * whole:.3f}"),
                ]
            )
    header = ["bits", "passed", "ms", "TB/s", "ms of the whole call"]
    print_table(f"One query against {n_columns:,} codes", header, table)


def _members_row(bench: Bench) -> list[str]:
    """Return the rate of tests of members, units of eight and rows drawn at random."""
    cupy, n, size, n_candidates = bench.cupy, 1 << 22, 8, 1 << 22
    codes = bench.codes(n, 1024)
    limits = gpu.MemberLimits(1024 - 2 * int(bench.thresholds(1, 1024, _USUAL_RATE)[0]))
    begins = cupy.arange(0, n, size, dtype=np.int32)
    candidates, queue = gpu.Queue(bench.card, n_candidates), gpu.Queue(bench.card, n_candidates)
    for column, most in enumerate((n, n // size)):
        candidates.entries[:, column] = bench.random.integers(0, most, n_candidates)
    candidates.count.fill(n_candidates)
    seconds = bench.seconds(
        lambda: gpu.launch_members(
            codes, candidates, gpu.Runs(begins, begins + size, codes), limits, queue
        )
    )
    rate = n_candidates * (size + 1) * 128 / seconds / 1e12
    tests = n_candidates * size / seconds
    return ["test members, 1024 bits, 8 a unit", f"{tests:.2e}", f"{rate:.2f}"]


def _print_others(bench: Bench) -> None:
    cupy, table = bench.cupy, []
    for length in (384, 1024):
        n = (1 << 30) // length
        rows = bench.random.standard_normal((n, length), dtype=np.float32)
        flips = CodeSpace.random(length, seed=0).flips
        seconds = bench.seconds(
            lambda rows=rows, flips=flips, length=length: gpu.encode_balanced(
                rows, flips, length, bench.card
            )
        )
        rate = rows.nbytes / seconds / 1e12
        table.append([f"rotate and encode, {length} entries", f"{n / seconds:.2e}", f"{rate:.2f}"])
    table.append(_members_row(bench))
    n, dim, n_pairs = 1 << 21, 1024, 1 << 24
    rows = (40 * bench.random.standard_normal((n, dim), dtype=np.float32)).astype(np.int8)
    stored = gpu.CardRows(rows, cupy.full(n, 1e-3))
    pairs, hits = gpu.Queue(bench.card, n_pairs), gpu.Queue(bench.card, n_pairs, scored=True)
    pairs.entries[...] = bench.random.integers(0, n, (n_pairs, 2))
    pairs.count.fill(n_pairs)
    seconds = bench.seconds(lambda: gpu.launch_scores(stored, stored, pairs, 2.0, hits))
    rate = n_pairs * 2 * dim / seconds / 1e12
    table.append(
        [f"score random pairs, int8, {dim} entries", f"{n_pairs / seconds:.2e}", f"{rate:.2f}"]
    )
    print_table("Encoding, members, scores", ["what", "rows or pairs a second", "TB/s read"], table)
