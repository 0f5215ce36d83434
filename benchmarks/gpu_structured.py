"""Indexes of structured vectors on a GPU: k-means units beside random ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import click
import numpy as np

from benchmarks.data import structure_of
from benchmarks.gpu_index import synchronised
from benchmarks.measure import print_table
from memvec import Index, IndexConfig
from memvec.search import SimilarPairs

# Rows that are generated at a time.
_BLOCK = 1 << 16
#: Members of a random unit: of more, units pass a tenth of the tests and above.
RANDOM_SIZE = 2
#: Rows whose pairs are counted exactly, queries of a batch, and queries that are asked one by one.
SAMPLE, BATCH, SINGLE_QUERIES = 2000, 10_000, 200
HEADER = [
    *("units", "of", "build, s", "self-join, s", "pairs", "found of them"),
    *("one query, p50, ms", "batch, queries a second", "codes a query"),
]


@dataclass(frozen=True)
class StructuredRows:
    """Vectors like sentence embeddings that are generated on the card, as `structured_vectors`."""

    n_rows: int
    dim: int
    seed: int = 0
    _made: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows there are, and their dimension."""
        return self.n_rows, self.dim

    def __getitem__(self, which: slice) -> Any:
        """Return rows that follow each other."""
        import cupy

        first = which.start // _BLOCK
        last = -(-min(which.stop, self.n_rows) // _BLOCK)
        rows = cupy.concatenate([self.block(number) for number in range(first, last)])
        begin = which.start - first * _BLOCK
        return rows[begin : begin + min(which.stop, self.n_rows) - which.start]

    def generate(self) -> None:
        """Make what all rows share, and each of them once."""
        for number in range(-(-self.n_rows // _BLOCK)):
            self.block(number)

    def block(self, number: int) -> Any:
        """Return a block of rows."""
        import cupy

        law = structure_of(self.n_rows)
        shared = self._shared(law)
        random = cupy.random.default_rng([self.seed, number])
        place = shared["place"][number * _BLOCK : (number + 1) * _BLOCK]
        spread = random.standard_normal((len(place), 1), dtype=np.float32)
        factors = np.float32(law.own) * cupy.exp(np.float32(law.deviation) * spread)
        rows = random.standard_normal((len(place), self.dim), dtype=np.float32)
        rows *= shared["spectrum"]
        rows *= factors
        rows += shared["common"]
        for level, (held, _) in enumerate(law.clusters):
            rows += shared[f"centres {level}"][place // held]
        return rows / cupy.sqrt((rows * rows).sum(axis=1, keepdims=True))

    def _shared(self, law: Any) -> dict[str, Any]:
        import cupy

        if not self._made:
            random = cupy.random.default_rng([self.seed, 1 << 30])
            spectrum = cupy.arange(1, self.dim + 1, dtype=np.float32) ** np.float32(-law.power)
            spectrum /= cupy.sqrt((spectrum * spectrum).sum())
            common = random.standard_normal((self.dim,), dtype=np.float32)
            common *= np.float32(law.common) / cupy.sqrt((common * common).sum())
            place = cupy.random.RandomState(self.seed).permutation(self.n_rows)
            self._made.update(spectrum=spectrum, common=common, place=place)
            for level, (held, share) in enumerate(law.clusters):
                shape = self.n_rows // held + 1, self.dim
                centres = random.standard_normal(shape, dtype=np.float32)
                centres *= spectrum * np.float32(np.sqrt(share))
                self._made[f"centres {level}"] = centres
        return self._made


def run(n_vectors: int, dim: int, similarity: float, sizes: Sequence[int], device: str) -> None:
    """Print what indexes of k-means units and of random ones take on structured vectors."""
    data = StructuredRows(n_vectors, dim)
    data.block(0)
    seconds, _ = synchronised(data.generate)
    table = []
    for assignment, size in [*(("kmeans", size) for size in sizes), ("random", RANDOM_SIZE)]:
        config = IndexConfig(assignment=assignment, unit_size=size)  # type: ignore[arg-type]
        table.append([assignment, f"{size}", *_measured(data, similarity, config, device)])
        click.echo(" | ".join(table[-1]))  # should the next one take too long
    title = f"{n_vectors:,} × {dim} structured, int8, above {similarity:g}"
    note = f"The build generates the vectors, which takes {seconds:.2f} s alone."
    print_table(title, HEADER, table, note)


def _measured(
    data: StructuredRows, similarity: float, config: IndexConfig, device: str
) -> list[str]:
    given: dict[str, Any] = {"similarity": similarity, "dtype": "int8", "device": device}
    few = StructuredRows(min(data.n_rows, 40_000), data.dim)
    warm = Index.build(few, config=config, progress=False, **given)
    list(warm.iter_self_join(similarity, progress=False))
    build, index = synchronised(lambda: Index.build(data, config=config, progress=False, **given))
    index.range_search(np.ones(data.dim), similarity)  # solves the plan
    join, pairs = synchronised(lambda: list(index.iter_self_join(similarity, progress=False)))
    n_pairs = sum(len(some.left) for some in pairs)
    asked = data[slice(0, min(data.n_rows, BATCH))]
    found = _found(index, asked[:SAMPLE], pairs, similarity)
    hits = index.range_search(asked, similarity, shadow=0.0)
    batch, _ = synchronised(lambda: index.range_search(asked, similarity, shadow=0.0))
    own, times = asked[:SINGLE_QUERIES].get(), []
    index.range_search(own[0], similarity, shadow=0.0)
    for query in own:
        seconds, _ = synchronised(
            lambda query=query: index.range_search(query, similarity, shadow=0.0)
        )
        times.append(1e3 * seconds)
    return [
        *(f"{build:.2f}", f"{join:.2f}", f"{n_pairs:,}", f"{found:.4f}"),
        *(f"{np.median(times):.3f}", f"{len(asked) / batch:,.0f}"),
        f"{hits.work.members_tested / len(asked):,.0f}",
    ]


def _found(index: Index, sample: Any, pairs: Sequence[SimilarPairs], similarity: float) -> float:
    """Return the share of the pairs of the first rows that a join found."""
    exact = index.range_search(sample, similarity, guarantee="exact")
    n_true = len(exact.ids) - len(sample)  # each row finds itself
    ends = [np.sort(np.stack([some.left, some.right]), axis=0) for some in pairs]
    left, right = np.concatenate(ends, axis=1)
    n_found = int((left < len(sample)).sum() + (right < len(sample)).sum())
    return n_found / max(1, n_true)
