"""The GPU as a source: the units of an index, searched on a card."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from memvec.cache import Cache
from memvec.gpu._card import find_card, finish_work
from memvec.gpu._copied import few_rows_on_card, units_on_card
from memvec.gpu._limits import Limits, limits_of
from memvec.gpu._one import OneQuery
from memvec.gpu._own_pairs import joins_itself, own_pairs
from memvec.gpu._packages import cupy
from memvec.gpu._products import (
    QUERIES_AT_ONCE,
    floors_of_best,
    pairs_above,
    queries_at_once,
)
from memvec.gpu._queries import CardQueries, lies_on_card, queries_on_card
from memvec.gpu._scores import CardRows
from memvec.gpu._search import Asked, Rooms, in_order, search_units
from memvec.gpu._store import GIVEN_TYPES
from memvec.gpu._units import CardUnits
from memvec.guarantee import Thresholds
from memvec.kernels import ALL_ALLOWED, ANYTHING
from memvec.matches import N_COUNTS, Matches
from memvec.progress import progress_bar
from memvec.search import CodeUnits, Pairs, UnitSource, are_few
from memvec.types import BoolArray, Float32Array

# Queries of NumPy that are scaled on the card, at least; and their bytes, at most.
_WORTH_UPLOADING, _MOST_UPLOADED = 256, 1 << 30
# Limits of plans that are kept: at most so many bytes of the card.
_KEPT_LIMITS = 1 << 28


def _bytes_of(limits: Limits) -> int:
    return int(limits.columns.nbytes) + 1024


@dataclass(frozen=True, eq=False)
class CardSource(UnitSource):
    """The units of an index, searched on a card; ids and scores are those of the CPU.

    By thresholds, codes are tested and rows scored on the card. What misses nothing compares all
    rows there, by products of matrices in halves whose candidates are scored exactly. Questions
    about few rows, or about every row whatever its score, are answered by the CPU.

    Attributes
    ----------
    moved : CardUnits
        What lies on the card.
    """

    moved: CardUnits
    _limits: Cache[bytes, Limits] = field(
        default_factory=lambda: Cache(_KEPT_LIMITS, _bytes_of), repr=False
    )
    _rooms: Rooms = field(default_factory=Rooms, repr=False)
    _one: OneQuery = field(default_factory=OneQuery, repr=False)
    _lock: Any = field(default_factory=threading.Lock, repr=False)

    def search(
        self,
        queries: Float32Array,
        similarity: float,
        thresholds: Thresholds | None,
        threads: int | None,
        allowed: BoolArray = ALL_ALLOWED,
    ) -> Matches:
        """Return everything above a similarity that passes the thresholds; None misses nothing."""
        if len(queries) == 1:
            queries = queries[:]  # fetched, where it lies on a card: a graph copies it there
        if len(allowed):
            n_allowed = int(np.count_nonzero(allowed))
            if are_few(n_allowed):
                return self.compare_all(queries, similarity, threads, allowed)
            if n_allowed == len(allowed):
                allowed = ALL_ALLOWED
        if thresholds is None or thresholds.pass_everything:
            return self.compare_all(queries, similarity, threads, allowed)
        with self.moved.card.at_work("A search"):
            limits = self._limits_of(thresholds)
            if len(queries) == 1 and not len(allowed) and self._one.answers(self.moved):
                with self._lock:
                    asked = self._one.asked(self.moved, queries, self._tested(queries))
                    found = self._one.search(self.moved, limits, asked, similarity)
            else:
                asked = self.asked(queries)
                given = self._allowed_places(allowed)
                found = search_units(
                    self.moved, limits, asked, similarity, allowed=given, rooms=self._rooms
                )
        if not len(self._units_by_codes.fine):
            return found
        return self._units_by_codes.keep_fine(queries[:], similarity, found, thresholds)

    def takes(self, queries: object) -> bool:
        """Tell whether queries lie on a card, and are to stay there."""
        return lies_on_card(queries)

    def uploads(self, queries: object) -> bool:
        """Tell whether queries of NumPy are better scaled and stored on the card: a large batch."""
        if type(queries) is not np.ndarray or queries.ndim != 2:
            return False
        plain = self._units_by_codes.units.projection is None and not len(self._units_by_codes.fine)
        fits = len(queries) >= _WORTH_UPLOADING and queries.nbytes <= _MOST_UPLOADED
        return plain and fits and queries.dtype.name in GIVEN_TYPES

    def taken(self, queries: Any, name: str, where: str) -> Float32Array:
        """Return queries on the card, as `search` takes them."""
        vectors = self._units_by_codes.units.vectors
        with self.moved.card.at_work("The batch"):
            made = queries_on_card(
                *(queries, name, where),
                dim=vectors.shape[1],
                dtype=vectors.dtype,
                card=self.moved.card,
            )
        return cast(Float32Array, made)

    def compare_all(
        self,
        queries: Float32Array,
        similarity: float,
        threads: int | None = None,
        allowed: BoolArray = ALL_ALLOWED,
        progress: bool | None = False,
    ) -> Matches:
        """Return everything above a similarity, by comparing everything that is allowed."""
        n_allowed = int(np.count_nonzero(allowed)) if len(allowed) else len(self)
        if similarity == ANYTHING or are_few(n_allowed) or not len(queries):
            queries = queries[:]
            return super().compare_all(queries, similarity, threads, allowed, progress)
        spent = np.zeros((len(queries), N_COUNTS), dtype=np.int64)
        spent[:, N_COUNTS - 1] = n_allowed
        found = []
        with (
            self.moved.card.at_work("A search"),
            progress_bar("comparing", len(queries), progress) as advance,
        ):
            given = self._allowed_places(allowed)
            for start in range(0, len(queries), QUERIES_AT_ONCE):
                some = queries[start : start + QUERIES_AT_ONCE]
                found.append(self._compared(some, similarity, given, spent[: len(some)]))
                advance(len(some))
        return Matches.stacked(found)

    def best_of_all(
        self,
        queries: Float32Array,
        k: int,
        threads: int | None = None,
        allowed: BoolArray = ALL_ALLOWED,
    ) -> Matches:
        """Return at least the k nearest of each query, by comparing everything that is allowed."""
        n_allowed = int(np.count_nonzero(allowed)) if len(allowed) else len(self)
        if are_few(n_allowed) or n_allowed <= k:
            return super().compare_all(queries[:], ANYTHING, threads, allowed)
        spent = np.zeros((QUERIES_AT_ONCE, N_COUNTS), dtype=np.int64)
        spent[:, N_COUNTS - 1] = n_allowed
        found = []
        with self.moved.card.at_work("A search"):
            given = self._allowed_places(allowed)
            for start in range(0, len(queries), queries_at_once(k)):
                some = queries[start : start + queries_at_once(k)]
                levels = floors_of_best(
                    *(self._stored(some), self.moved.rows, some.shape[1], k, self.moved.card),
                    allowed=given,
                )
                found.append(self._compared(some, levels, given, spent[: len(some)]))
        return Matches.stacked(found)

    def _compared(
        self, queries: Float32Array, similarity: Any, allowed: Any, spent: Any
    ) -> Matches:
        moved, dim = self.moved, queries.shape[1]
        rows = self._stored(queries)
        blocks = pairs_above(rows, moved.rows, dim, similarity, moved.card, allowed=allowed)
        parts = [(pairs[:, 0], moved.ids(pairs[:, 1]), scores) for pairs, scores in blocks]
        owners, ids, scores = (cupy().concatenate(part).get() for part in zip(*parts, strict=True))
        return in_order(owners, ids, scores, spent)

    def own_pairs(
        self,
        similarity: float,
        thresholds: Thresholds | None,
        allowed: BoolArray = ALL_ALLOWED,
        progress: bool | None = False,
    ) -> Iterator[Pairs] | None:
        """Return all pairs of rows above a similarity, block by block; None for other ways.

        A pair is tested from the row of it that lies first on the card, by the unit of the other.
        """
        if thresholds is None or thresholds.pass_everything or len(self._units_by_codes.fine):
            return None
        if not joins_itself(self.moved):
            return None
        return self._own_pairs(similarity, thresholds, allowed, progress)

    def _own_pairs(
        self, similarity: float, thresholds: Thresholds, allowed: BoolArray, progress: bool | None
    ) -> Iterator[Pairs]:
        moved, xp = self.moved, cupy()
        with moved.card.at_work("A join"):
            limits, given = self._limits_of(thresholds), self._allowed_places(allowed)
        for found in own_pairs(moved, limits, similarity, allowed=given, progress=progress):
            with moved.card.at_work("A join"):
                ids = xp.sort(xp.stack([moved.ids(found.left), moved.ids(found.right)]), axis=0)
                left, right = ids.get()
                scores = found.scores.get().astype(np.float32)
            # The card of whoever reads the pairs is current again.
            yield Pairs(left, right, scores)

    def asked(self, queries: Float32Array) -> Asked:
        """Return queries, unit rows, on the card."""
        if isinstance(queries, CardQueries) and self._units_by_codes.units.projection is None:
            stored = queries.stored
            return Asked(stored.rows, self.moved.encoded(stored.unit_rows))
        queries = queries[:]
        tested = cupy().asarray(np.ascontiguousarray(self._tested(queries)))
        return Asked(self._stored(queries), self.moved.encoded(tested))

    def _tested(self, queries: Float32Array) -> Float32Array:
        return self._units_by_codes.units.as_tested(queries)

    def _stored(self, queries: Float32Array) -> CardRows:
        """Return queries on the card, stored like the rows."""
        return few_rows_on_card(self._units_by_codes.units.vectors.like(queries))

    def _limits_of(self, thresholds: Thresholds) -> Limits:
        key = thresholds.at.tobytes() + thresholds.slack.tobytes()
        return self._limits.get(key, lambda: self._limits_made(thresholds))

    def _limits_made(self, thresholds: Thresholds) -> Limits:
        made = limits_of(self.moved, thresholds)
        finish_work()  # threads share them, each with a stream
        return made

    def _allowed_places(self, allowed: BoolArray) -> Any:
        """Return by place which rows may be hits; None where all may."""
        if not len(allowed):
            return None
        by_id = cupy().asarray(allowed.view(np.uint8))
        return by_id if self.moved.keys is None else by_id[self.moved.keys]

    @property
    def _units_by_codes(self) -> CodeUnits:
        return cast(CodeUnits, self.cascade)


def source_on_card(source: UnitSource, device: str) -> CardSource:
    """Return the units of an index on a card."""
    card = find_card(device)
    with card.at_work("The index"):
        moved = units_on_card(source.cascade, card)
        finish_work()
    return CardSource(source.cascade, moved)


def check_card(device: str) -> None:
    """Raise where a card, its driver or a package for it is missing."""
    find_card(device)
