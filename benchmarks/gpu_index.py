"""Indexes on a GPU: build, one query, batches, self-join, beside products of bf16."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.measure import print_table
from memvec import Index, IndexConfig

DIM = 1024
#: Queries of a batch.
BATCH = 10_000
# Rows that are generated at a time, and the share of them that are one of two near copies.
_BLOCK, _PLANTED = 1 << 16, 0.1
_SINGLE_QUERIES = 200
# How far above the similarity near copies are, so that rounding to int8 loses none.
_ABOVE, _SPREAD = 0.003, 0.05


@dataclass(frozen=True)
class PlantedRows:
    """Uniform vectors that are generated on the card, some of them near copies of others.

    The first tenth of each block are near copies: row i of its first half and row i of the second.
    """

    n_rows: int
    similarity: float
    dim: int = DIM
    seed: int = 1

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows there are, and their dimension."""
        return self.n_rows, self.dim

    @property
    def n_copied(self) -> int:
        """Near copies of a block."""
        return int(_BLOCK * _PLANTED / 2)

    def __getitem__(self, which: slice) -> Any:
        first, begin = which.start // _BLOCK, which.start % _BLOCK
        rows = self.block(first)[begin : begin + which.stop - which.start]
        return rows[: max(0, self.n_rows - which.start)]

    def generate(self) -> None:
        """Make all rows, and keep none."""
        for number in range(-(-self.n_rows // _BLOCK)):
            self.block(number)

    def block(self, number: int) -> Any:
        """Return a block of rows."""
        import cupy

        random = cupy.random.default_rng([self.seed, number])
        rows = random.standard_normal((_BLOCK, self.dim), dtype=np.float32)
        rows /= cupy.linalg.norm(rows, axis=1, keepdims=True)
        n = self.n_copied
        low = self.similarity + _ABOVE
        cosines = low + _SPREAD * random.random((n, 1), dtype=np.float32)
        rows[n : 2 * n] = near(rows[:n], rows[n : 2 * n], cosines)
        return rows


def near(rows: Any, noise: Any, cosines: Any) -> Any:
    """Return unit rows at given cosines of others."""
    import cupy

    noise = noise - (noise * rows).sum(axis=1, keepdims=True) * rows
    noise /= cupy.linalg.norm(noise, axis=1, keepdims=True)
    return cosines * rows + cupy.sqrt(1 - cosines**2) * noise


def synchronised(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of some work, the card's included, and what it returns."""
    import cupy

    cupy.cuda.Device().synchronize()
    started = time.perf_counter()
    made = work()
    cupy.cuda.Device().synchronize()
    return time.perf_counter() - started, made


def run(
    n_vectors: int,
    similarity: float,
    unit_size: int | None,
    device: str,
    *,
    joins: bool = True,
) -> None:
    """Print what an index of uniform vectors takes."""
    data = PlantedRows(n_vectors, similarity)
    config = IndexConfig(assignment="random", unit_size=unit_size or "auto")
    data.block(0)
    seconds, _ = synchronised(data.generate)
    table = [["vectors generated alone", f"{seconds:.2f} s"]]
    given: dict[str, Any] = {"similarity": similarity, "dtype": "int8", "device": device}
    Index.build(PlantedRows(_BLOCK, similarity), config=config, progress=False, **given)
    seconds, index = synchronised(lambda: Index.build(data, config=config, progress=False, **given))
    table.append(["build, with generating and calibration", f"{seconds:.2f} s"])
    table += _queries(index, data, similarity)
    if joins:
        table += _join(index, data, similarity)
    certificate = index.range_search(np.ones(DIM), similarity).certificate
    title = f"{n_vectors:,} × {DIM}, int8, above {similarity:g}, units of {index.design.unit_size}"
    print_table(title, ["what", "took"], table, f"{certificate.bound}: {certificate.source}")


def _asked(data: PlantedRows, n: int, similarity: float) -> Any:
    """Return queries, every second one near a row that is stored."""
    import cupy

    random = cupy.random.default_rng(7)
    rows = data.block(0)[data.n_copied * 2 :][:n]
    noise = random.standard_normal(rows.shape, dtype=np.float32)
    cosines = similarity + _ABOVE + _SPREAD * random.random((len(rows), 1), dtype=np.float32)
    asked = near(rows, noise, cosines)
    asked[1::2] = noise[1::2]
    return asked


def _queries(index: Index, data: PlantedRows, similarity: float) -> list[list[str]]:
    asked = _asked(data, BATCH, similarity)
    own = asked[:_SINGLE_QUERIES].get()
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    first, _ = synchronised(lambda: index.range_search(own[0], similarity, shadow=0.0))
    times, found = [], 0
    for query in own:
        seconds, hits = synchronised(
            lambda query=query: index.range_search(query, similarity, shadow=0.0)
        )
        times.append(1e3 * seconds)
        found += int(hits.counts[0] > 0)
    p50, p99 = np.quantile(times, [0.5, 0.99])
    work = hits.work
    table = [
        ["first query", f"{first:.2f} s"],
        ["one query, p50 / p99", f"{p50:.3f} / {p99:.3f} ms"],
        ["found of near ones", f"{found / (len(own) / 2):.3f}"],
        ["work of the last", f"{work}"],
    ]
    index.range_search(asked, similarity, shadow=0.0)
    runs = [
        synchronised(lambda: index.range_search(asked, similarity, shadow=0.0)) for _ in range(3)
    ]
    seconds = statistics.median(run[0] for run in runs)
    hits = runs[0][1]
    near_found = float((hits.counts[::2] > 0).mean())
    table.append([f"batch of {len(asked):,} on the card", f"{len(asked) / seconds:,.0f} a second"])
    table.append(["found of near ones", f"{near_found:.4f}"])
    host = asked.get()
    seconds, _ = synchronised(lambda: index.range_search(host, similarity, shadow=0.0))
    table.append([f"batch of {len(asked):,} of NumPy", f"{len(asked) / seconds:,.0f} a second"])
    return table


def _join(index: Index, data: PlantedRows, similarity: float) -> list[list[str]]:
    def work() -> tuple[int, int]:
        n_pairs = n_planted = 0
        for pairs in index.iter_self_join(similarity, progress=False):
            n_pairs += len(pairs.left)
            inside = pairs.left % _BLOCK < data.n_copied
            n_planted += int((inside & (pairs.right - pairs.left == data.n_copied)).sum())
        return n_pairs, n_planted

    seconds, (n_pairs, n_planted) = synchronised(work)
    whole, rest = divmod(data.n_rows, _BLOCK)
    planted = whole * data.n_copied + max(0, min(rest - data.n_copied, data.n_copied))
    return [
        ["self-join", f"{seconds:.2f} s"],
        ["pairs found", f"{n_pairs:,}"],
        ["found of planted pairs", f"{n_planted / planted:.4f}"],
        ["pairs of vectors a second", f"{data.n_rows**2 / 2 / seconds:.3g}"],
    ]
