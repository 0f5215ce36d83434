"""Answers that are read as they are found: matches of a range, pairs of a join."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

from memvec.collection._ids import Id
from memvec.guarantee import Certificate
from memvec.search import IdArray, Searched, SimilarPair
from memvec.types import Float32Array, IntArray

_Record = TypeVar("_Record")
_Block = TypeVar("_Block", bound="MatchBlock | PairBlock")


class Match(NamedTuple):
    """One match of one query."""

    query: int
    id: Id
    score: float


class MatchBlock(NamedTuple):
    """Some matches, in three arrays of the same length."""

    queries: IntArray
    ids: IdArray
    scores: Float32Array

    def records(self) -> Iterator[Match]:
        """Yield them one by one."""
        columns = self.queries.tolist(), self.ids.tolist(), self.scores.tolist()
        return map(Match, *columns)


class PairBlock(NamedTuple):
    """Some similar pairs, in three columns of the same length."""

    left: list[Id]
    right: list[Id]
    scores: list[float]

    def records(self) -> Iterator[SimilarPair[Id]]:
        """Yield them one by one."""
        return map(SimilarPair, self.left, self.right, self.scores)


class _Stream(Generic[_Record, _Block]):
    """Records of blocks, one by one or a block at a time; both take from the same answer."""

    def __init__(self, blocks: Iterator[_Block], certificate: Certificate) -> None:
        self._blocks = blocks
        self._open: Iterator[_Record] = iter(())
        #: What is promised about what the stream misses.
        self.certificate = certificate

    def blocks(self) -> Iterator[_Block]:
        """Yield what is left, as arrays: the way to read millions."""
        return self._blocks

    def __iter__(self) -> Iterator[_Record]:
        return self

    def __next__(self) -> _Record:
        while True:
            for record in self._open:
                return record
            self._open = next(self._blocks).records()  # type: ignore[assignment]


class RangeStream(_Stream[Match, MatchBlock]):
    """Matches of a range, as they are asked for, and what is promised about them.

    Attributes
    ----------
    certificate : Certificate
        What is promised about the matches missed, of all queries.
    searched : Searched
        What they are found in.
    """

    def __init__(
        self, blocks: Iterator[MatchBlock], certificate: Certificate, searched: Searched
    ) -> None:
        super().__init__(blocks, certificate)
        self.searched = searched


class PairStream(_Stream[SimilarPair[Id], PairBlock]):
    """Pairs of a self-join, as they are found, and what is promised about them.

    Attributes
    ----------
    certificate : Certificate
        What is promised about the pairs missed.
    """
