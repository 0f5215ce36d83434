"""Figure 17: a hundred million vectors, streamed in batches.

Data: made-up vectors in families, or Yahoo100M descriptors where they are given. Each batch is
indexed, searched for all queries and forgotten; what is kept grows with the number of queries
only, and is saved after every batch, so that a run can go on where it stopped. Command: ``memvec
reproduce fig17-100m``. Expected outcome: pinv converges faster than sum, k-means with pinv near the
floor of M/N = 0.1. Known drift: made-up vectors; at the scale "small" 10⁶ of 512 dimensions in
batches of 10,000, at "paper" 97.6·10⁶ of 1024 in batches of 100,000.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from memvec import checks
from memvec.evaluation import exact_range
from memvec.experiments._curves import SearchedUnits, paper_config
from memvec.experiments._experiment import Experiment, Finding, Run, Verdict
from memvec.experiments._figures import draw_lines, finish, new_panels
from memvec.experiments._paper_sets import vector_batches
from memvec.experiments._table import Cell, Table, plain
from memvec.index import Index, IndexConfig
from memvec.types import Float32Array, Float64Array

_SIMILARITY = 0.5
_MOST_MATCHES = 1000
_RATIOS = (0.101, 0.102, 0.105, 0.11, 0.115, 0.12, 0.13, 0.15, 0.2, 0.3, 0.5)
_VARIANTS = ("random pinv", "k-means pinv", "k-means sum")
_PAPER_VECTORS, _PAPER_BATCH, _PAPER_DIM = 97_600_000, 100_000, 1024

SETTINGS: dict[Any, dict[str, Any]] = {
    "smoke": {"vectors": 4000, "batch": 1000, "dim": 256, "queries": 100, "rounds": 3},
    "small": {"vectors": 1_000_000, "batch": 10_000, "dim": 512, "queries": 500, "rounds": 4},
    "paper": {
        "vectors": _PAPER_VECTORS,
        "batch": _PAPER_BATCH,
        "dim": _PAPER_DIM,
        "queries": 1000,
        "rounds": 10,
    },
}


@dataclass
class _Tally:
    """What is known after some batches."""

    n_batches: int
    n_vectors: int
    seconds: float
    matches: Float64Array
    thresholds: Float64Array
    found: Float64Array
    costs: Float64Array

    @classmethod
    def empty(cls, n_queries: int) -> _Tally:
        shape = (len(_VARIANTS), len(_RATIOS))
        return cls(
            0,
            0,
            0.0,
            np.zeros(n_queries),
            np.full(shape, np.nan),
            np.zeros((*shape, n_queries)),
            np.zeros((*shape, n_queries)),
        )

    def save(self, path: Path) -> None:
        """Write it so that a crash leaves the old one or the new one."""
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part.npz")
        np.savez(part, **vars(self))
        os.replace(part, path)

    @classmethod
    def load(cls, path: Path) -> _Tally:
        with np.load(path, allow_pickle=False) as arrays:
            kept: dict[str, Any] = {name: arrays[name] for name in arrays.files}
        for name, kind in (("n_batches", int), ("n_vectors", int), ("seconds", float)):
            kept[name] = kind(kept[name])
        return cls(**kept)


@dataclass(frozen=True)
class MadeUpStream:
    """Vectors in families, of any number, batch by batch, without keeping them.

    Three in ten vectors belong to a family of a dozen: centre plus noise, at cosine about 0.6 from
    each other. A centre is the sum of two of 4096 directions, so that families resemble each other
    in places and millions of them need no memory. The others stand alone. The spectrum fades.
    """

    n_vectors: int
    dim: int
    seed: int
    directions: Float64Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng([self.seed, 17])
        object.__setattr__(self, "directions", rng.standard_normal((4096, self.dim)))

    def batch(self, number: int, size: int) -> Float32Array:
        """Return the vectors of a batch; the number decides which."""
        rng = np.random.default_rng([self.seed, 18, number])
        n_families = max(1, int(0.3 * self.n_vectors / 12))
        family = rng.integers(n_families, size=size)
        # Scatter the numbers of families over the pairs of directions, always in the same way.
        mixed = (family * 2_654_435_761) % (1 << 24)
        first, second = self.directions[mixed % 4096], self.directions[mixed // 4096]
        own = rng.standard_normal((size, self.dim))
        in_family = rng.random(size)[:, np.newaxis] < 0.3
        rows = np.where(in_family, 0.8 * (first + second) / np.sqrt(2) + 0.6 * own, own)
        rows *= np.arange(1, self.dim + 1) ** -0.2
        return checks.unit_rows(rows, "rows", "MadeUpStream")


def compute(run: Run) -> Table:
    """Return what each variant finds at each threshold, over all batches."""
    settings = run.settings
    source = run.data.find("yahoo100m") if run.scale != "smoke" else None
    stream = MadeUpStream(settings["vectors"], settings["dim"], run.seed)
    n_batches = -(-settings["vectors"] // settings["batch"])
    if source is None:
        queries = stream.batch(n_batches, settings["queries"])
    else:
        queries = next(vector_batches(source, settings["queries"]))
    kept = None if run.checkpoints is None else run.checkpoints / "tally.npz"
    tally = _Tally.empty(len(queries))
    if kept is not None and kept.is_file():
        tally = _Tally.load(kept)
    with run.bar("fig17-100m", n_batches) as advance:
        advance(tally.n_batches)
        for batch in _batches(stream, source, settings, tally.n_batches):
            _add_batch(tally, batch, queries, run)
            if kept is not None:
                tally.save(kept)
            advance(1)
    return _table(tally, settings)


def _batches(
    stream: MadeUpStream, source: Path | None, settings: Any, done: int
) -> Iterator[Float32Array]:
    size, total = settings["batch"], settings["vectors"]
    if source is None:
        for number in range(done, -(-total // size)):
            yield stream.batch(number, min(size, total - number * size))
        return
    for number, batch in enumerate(vector_batches(source, size)):
        if number >= done:
            yield batch


def _add_batch(tally: _Tally, batch: Float32Array, queries: Float32Array, run: Run) -> None:
    start = time.perf_counter()
    truth = exact_range(batch, queries, _SIMILARITY, progress=False)
    asked = np.repeat(np.arange(len(queries)), np.diff(truth.offsets))
    for place, config in enumerate(_configs(run, tally.n_batches)):
        units = SearchedUnits.of_index(Index.build(batch, config=config), queries)
        if tally.n_batches == 0:
            tally.thresholds[place] = [units.threshold(ratio) for ratio in _RATIOS]
        hits = units.scores[asked, units.labels[truth.ids]]
        for step, threshold in enumerate(tally.thresholds[place]):
            tally.costs[place, step] += units.ratios(threshold) * len(batch)
            seen = asked[hits >= threshold]
            tally.found[place, step] += np.bincount(seen, minlength=len(queries))
    tally.matches += np.diff(truth.offsets)
    tally.n_batches += 1
    tally.n_vectors += len(batch)
    tally.seconds += time.perf_counter() - start


def _configs(run: Run, number: int) -> list[IndexConfig]:
    seed, rounds = run.seed + number, run.settings["rounds"]
    return [
        paper_config("random", "pinv", 10, seed),
        paper_config("kmeans", "pinv", 10, seed, iterations=rounds),
        paper_config("kmeans", "sum", 10, seed, iterations=rounds),
    ]


_COLUMNS = ("variant", "ratio", "found", "queries", "matches", "vectors", "batch seconds", "hours")


def _table(tally: _Tally, settings: Any) -> Table:
    """Return the shares found by queries that have between one and a thousand matches."""
    kept = (tally.matches > 0) & (tally.matches <= _MOST_MATCHES)
    seconds = tally.seconds / tally.n_batches
    # K-means compares every vector of a batch with every unit: in proportion to both and to the
    # dimension.
    growth = (_PAPER_BATCH / settings["batch"]) ** 2 * _PAPER_DIM / settings["dim"]
    hours = seconds * growth * _PAPER_VECTORS / _PAPER_BATCH / 3600
    rows: list[tuple[Cell, ...]] = []
    for place, variant in enumerate(_VARIANTS):
        for step in range(len(_RATIOS)):
            ratio = tally.costs[place, step][kept].mean() / tally.n_vectors
            found = (tally.found[place, step][kept] / tally.matches[kept]).mean()
            known = [kept.sum(), tally.matches[kept].mean(), tally.n_vectors, seconds, hours]
            rows.append(plain([variant, ratio, found, *known]))
    return Table("Batches of a large stream", _COLUMNS, tuple(rows))


def check(table: Table) -> Verdict:
    """Test how fast the variants converge."""
    reached = {variant: _reach(table.where(variant=variant)) for variant in _VARIANTS}
    text = ", ".join(f"{name} {ratio:.3f}" for name, ratio in reached.items())
    first = table.to_records()[0]
    note = (
        f"{first['vectors']:,} vectors, {first['queries']} queries with {first['matches']:.1f} "
        f"matches on average. A batch took {first['batch seconds']:.0f} s for all three; at that "
        f"rate, in proportion to dimension and squared batch size, 97.6 million vectors of 1024 "
        f"dimensions in batches of 100,000 take {first['hours']:.0f} hours on this machine."
    )
    return Verdict(
        (
            Finding(
                "k-means with pinv finds 99 % at a ratio near 0.12 (at most 0.15)",
                reached["k-means pinv"] <= 0.15,
                f"ratios: {text}",
            ),
            Finding(
                "both pinv variants converge faster than k-means with sum",
                max(reached["k-means pinv"], reached["random pinv"]) < reached["k-means sum"],
                f"ratios: {text}",
            ),
        ),
        note,
    )


def _reach(curve: Table, share: float = 0.99) -> float:
    good = np.flatnonzero(curve.column("found") >= share)
    return float(curve.column("ratio")[good[0]]) if len(good) else float("inf")


def plot(table: Table) -> Any:
    """Draw the share found against the complexity ratio."""
    figure, [panel] = new_panels(("matches above cosine 0.5",))
    draw_lines(panel, table, "ratio", "found", "variant")
    finish(panel, ("complexity ratio", "share found"), "x")
    return figure


FIG17 = Experiment(
    "fig17-100m",
    "Figure 17",
    "Among 97.6 million vectors in batches of 100,000, k-means with pinv finds as much as an "
    "exhaustive search at a complexity ratio of 0.12; pinv converges faster than sum.",
    SETTINGS,
    compute,
    check,
    plot,
    data_note="Made-up vectors in families stand for the VLAD descriptors of Yahoo100M, and the "
    "share of matches found for the paper's measure. The dimension was raised after 64 dimensions "
    "(4,000 vectors) had let no variant find 99 % by ratio 0.5; at the scale small, batches of "
    "10,000 instead of 100,000, 512 dimensions instead of 1024 and 500 queries instead of 1000, "
    "before those without a match are left out, save time.",
)

__all__ = ["FIG17", "MadeUpStream"]
