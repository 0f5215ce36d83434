"""Streams for figure 17: made up, or read from files, batch by batch, with queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from memvec import checks
from memvec.types import Float32Array, IntArray
from paper.paper_sets import count_vectors, vector_batches, vector_rows

_FAMILY, _IN_FAMILIES = 12, 0.3
_DIRECTIONS = 4096


@dataclass(frozen=True)
class MadeUpStream:
    """Vectors in families, of any number, batch by batch, without keeping them.

    Three in ten vectors belong to a family of a dozen: centre plus noise, at cosine about 0.6 from
    each other. A centre is the sum of two of 4096 directions, so that families resemble each other
    in places and millions of them need no memory. The others stand alone. The spectrum fades.

    Attributes
    ----------
    n_vectors : int
        How long the stream is; there are as many families as that asks for.
    dim : int
        Their dimension.
    seed : int
        Fixes everything.
    together : bool
        Whether all of a family is in one batch; otherwise it is scattered over the stream.
    """

    n_vectors: int
    dim: int
    seed: int
    together: bool = False
    directions: Float32Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng([self.seed, 17])
        drawn = rng.standard_normal((_DIRECTIONS, self.dim), dtype=np.float32)
        object.__setattr__(self, "directions", drawn)

    def batch(self, number: int, size: int) -> Float32Array:
        """Return the vectors of a batch; the number decides which."""
        rng = np.random.default_rng([self.seed, 18, number])
        mixed = self.families(rng, number, size)
        rows = rng.standard_normal((size, self.dim), dtype=np.float32)
        related = rng.random(size) < _IN_FAMILIES
        rows[related] = 0.8 * self.centres(self.directions, mixed[related]) + 0.6 * rows[related]
        rows *= np.arange(1, self.dim + 1, dtype=np.float32) ** -0.2
        return checks.unit_rows(rows, "rows", "MadeUpStream")

    def families(self, rng: Any, number: int, size: int) -> Any:
        """Draw a family for each vector of a batch, as the pair of directions of its centre."""
        n_families = _families(size if self.together else self.n_vectors)
        family = rng.integers(0, n_families, size=size) + (number * n_families) * self.together
        # Scatter the numbers of families over the pairs of directions, always in the same way.
        return (family * 2_654_435_761) % _DIRECTIONS**2

    def drawn(self, rng: Any, number: int, size: int) -> tuple[Any, Any]:
        """Draw the families of a batch, and which vectors belong to theirs."""
        return self.families(rng, number, size), rng.random(size) < _IN_FAMILIES

    def centres(self, directions: Any, mixed: Any) -> Any:
        """Return the centres of families."""
        first, second = mixed % _DIRECTIONS, mixed // _DIRECTIONS
        return (directions[first] + directions[second]) / np.float32(np.sqrt(2))


def _families(n_vectors: int) -> int:
    return max(1, int(_IN_FAMILIES * n_vectors / _FAMILY))


@dataclass(frozen=True, eq=False)
class Source:
    """A stream in batches, and queries for it.

    Attributes
    ----------
    name : str
        What figures call it.
    queries : ndarray of shape (n_queries, dim)
        Unit rows.
    own : ndarray of shape (n_queries,)
        The number of each query in the stream, which it should not find; -1 where it is not there.
    n_vectors, batch_size : int
        Of the stream.
    batches : callable
        Gives the batches from one of a number on.
    """

    name: str
    queries: Float32Array
    own: IntArray
    n_vectors: int
    batch_size: int
    batches: Callable[[int], Iterator[Float32Array]]

    @property
    def n_batches(self) -> int:
        """How many batches there are, the last of which may be smaller."""
        return -(-self.n_vectors // self.batch_size)


def made_up_source(name: str, stream: MadeUpStream, batch_size: int, n_queries: int) -> Source:
    """Return a made-up stream, with queries of its families that are not in it."""
    total = stream.n_vectors
    n_batches = -(-total // batch_size)
    queries = replace(stream, together=False).batch(n_batches, n_queries)

    def batches(done: int) -> Iterator[Float32Array]:
        for number in range(done, n_batches):
            yield stream.batch(number, min(batch_size, total - number * batch_size))

    return Source(name, queries, np.full(n_queries, -1), total, batch_size, batches)


def read_source(
    name: str, folder: Path, n_vectors: int, batch_size: int, n_queries: int, seed: int
) -> Source:
    """Return the first vectors of a folder's files; queries are some of them, chosen at random."""
    total = min(n_vectors, count_vectors(folder))
    rng = np.random.default_rng([seed, 19])
    own = np.sort(rng.choice(total, min(n_queries, total), replace=False))

    def batches(done: int) -> Iterator[Float32Array]:
        return vector_batches(folder, batch_size, skip=done * batch_size, total=total)

    return Source(name, vector_rows(folder, own), own, total, batch_size, batches)


__all__ = ["MadeUpStream", "Source", "made_up_source", "read_source"]
