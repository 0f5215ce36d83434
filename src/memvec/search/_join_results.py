"""Results of joins as users see them: similar pairs, and groups of duplicates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from memvec.checks import counted
from memvec.guarantee import Certificate
from memvec.types import Float32Array, IntArray

Name = TypeVar("Name", bound=int | str)


class SimilarPair(NamedTuple, Generic[Name]):
    """Two items, or rows, that are similar."""

    left: Name
    right: Name
    score: float


class DuplicateGroup(NamedTuple, Generic[Name]):
    """Items, or rows, that are duplicates of each other: one to keep, the others to drop."""

    kept: Name
    dropped: list[Name]


@dataclass(frozen=True, eq=False)
class SimilarPairs:
    """All pairs of rows above a similarity, by left row and then by right row.

    Attributes
    ----------
    left, right : ndarray of shape (n_pairs,)
        Row numbers, int64.
    scores : ndarray of shape (n_pairs,)
        The cosine of each pair, float32.
    certificate : Certificate
        What is promised about the pairs missed.
    """

    left: IntArray
    right: IntArray
    scores: Float32Array
    certificate: Certificate

    @property
    def expected_missed(self) -> int:
        """About how many pairs may be left: ε/(1 − ε) for each one found, rounded up.

        ε is the miss rate that the evidence supports, which is about queries like those of the
        certificate; 0 where nothing is missed.
        """
        return expected_missed(self.certificate, len(self))

    def __len__(self) -> int:
        return len(self.left)

    def __iter__(self) -> Iterator[SimilarPair[int]]:
        rows = zip(self.left.tolist(), self.right.tolist(), self.scores.tolist(), strict=True)
        return (SimilarPair(*row) for row in rows)

    def __repr__(self) -> str:
        return f"SimilarPairs({counted(len(self), 'pair')}{_left_over(self.expected_missed)})"


@dataclass(frozen=True)
class Duplicates(Generic[Name]):
    """The result of a deduplication.

    Attributes
    ----------
    groups : tuple of DuplicateGroup
        In the order of their first items.
    n_items : int
        Number of items compared.
    n_pairs : int
        Number of similar pairs that the groups were made from. Copies are not counted: they are
        always found.
    certificate : Certificate
        What is promised about the pairs missed.
    """

    groups: tuple[DuplicateGroup[Name], ...]
    n_items: int
    n_pairs: int
    certificate: Certificate

    @property
    def drop(self) -> list[Name]:
        """The ids to drop, group by group."""
        return [name for group in self.groups for name in group.dropped]

    @property
    def expected_missed(self) -> int:
        """About how many pairs may be left: ε/(1 − ε) for each one found, rounded up.

        ε is the miss rate that the evidence supports, which is about queries like those of the
        certificate; 0 where nothing is missed.
        """
        return expected_missed(self.certificate, self.n_pairs)

    def __repr__(self) -> str:
        found = (
            f"{counted(len(self.groups), 'group')}, {len(self.drop):,} of {self.n_items:,} to drop"
        )
        return f"{type(self).__name__}({found}{_left_over(self.expected_missed)})"


class DuplicateRows(Duplicates[int]):
    """The result of deduplicating an array; items are its rows."""

    @property
    def kept(self) -> IntArray:
        """The rows to keep, in ascending order, int64: ``vectors[found.kept]`` is the result."""
        remain = np.ones(self.n_items, dtype=bool)
        remain[self.drop] = False
        return np.flatnonzero(remain)


def expected_missed(certificate: Certificate, n_found: int) -> int:
    """Return about how many pairs may be left: ε/(1 − ε) for each one found, rounded up."""
    rate = certificate.miss_rate if certificate.bound is None else certificate.bound
    if certificate.complete or rate is None:
        return 0
    return math.ceil(rate / (1 - rate) * n_found)


def _left_over(n_pairs: int) -> str:
    if not n_pairs:
        return ""
    return f", about {counted(n_pairs, 'pair')} may be left"
