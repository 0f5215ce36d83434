"""The calibration table: one row for each true match of a calibration query."""

from __future__ import annotations

import dataclasses
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memvec.errors import InvalidValueError
from memvec.guarantee._bounds import Holds
from memvec.kernels import MATCH_SLACK, N_STAGES, STAGES_BEFORE_FINE
from memvec.types import BoolArray, Float32Array, Float64Array, IntArray

# Small shares are exceeded by few values: so many are sorted at first, and more while they are not
# enough.
_FEWEST_SORTED, _MORE_SORTED = 512, 8


@dataclass(frozen=True, eq=False)
class CalibrationTable:
    """What the stages of a search see of pairs that are known to match.

    A stage passes a pair at similarity α where the slack it is given is at least α·slope − score,
    both measured in standard deviations of the stage. Where the slacks of all stages are one
    number λ times a direction κ, each row needs λ ≥ max over stages of (α·slope − score)/κ: one
    number per row, and every question is a quantile of it.

    Attributes
    ----------
    queries : ndarray of shape (n_rows,)
        Which calibration query the row belongs to.
    cosines : ndarray of shape (n_rows,)
        The canonical score of the pair, rounded to float32 and kept as float64.
    ranks : ndarray of shape (n_rows,)
        How many vectors are nearer to the query, from 0.
    keys : ndarray of shape (n_rows,)
        The matching vector.
    copies : ndarray of shape (n_rows,)
        How many matches a row stands for, float32: of a query with very many, some are drawn.
    scores, slopes : ndarray of shape (n_rows, n_stages)
        What the stages see.
    """

    queries: IntArray
    cosines: Float64Array
    ranks: IntArray
    keys: IntArray
    copies: Float32Array
    scores: Float32Array
    slopes: Float32Array

    def __post_init__(self) -> None:
        columns = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1 or self.scores.shape != self.slopes.shape:
            raise InvalidValueError(
                f"The columns of a calibration table must be of one length. Got {lengths} instead."
            )
        if np.isnan(self.scores).any() or np.isnan(self.slopes).any() or (self.copies <= 0).any():
            raise InvalidValueError("A calibration table must be free of NaN and of rows for none.")

    @property
    def checksum(self) -> str:
        """CRC-32 of all columns."""
        crc = 0
        for field in dataclasses.fields(self):
            crc = zlib.crc32(np.ascontiguousarray(getattr(self, field.name)).data, crc)
        return f"{crc:08x}"

    @classmethod
    def merged(cls, tables: Sequence[CalibrationTable]) -> CalibrationTable:
        """Return the rows of several tables of the same queries, ranked among all of them."""
        both = cls.joined(tables)
        return both.rows(np.lexsort((both.keys, -both.cosines, both.queries))).ranked()

    @classmethod
    def joined(cls, tables: Sequence[CalibrationTable]) -> CalibrationTable:
        """Return the rows of several tables, one table after the other."""
        columns = [field.name for field in dataclasses.fields(cls)]
        # Their rows have passed the checks already.
        return cls._unchecked(
            {name: np.concatenate([getattr(one, name) for one in tables]) for name in columns}
        )

    @classmethod
    def _unchecked(cls, columns: Mapping[str, Any]) -> CalibrationTable:
        """Return a table made around the checks, which read every entry."""
        table = object.__new__(cls)
        for name, column in columns.items():
            object.__setattr__(table, name, column)
        return table

    def ranked(self) -> CalibrationTable:
        """Return the rows ranked among themselves; they stand in order of query and rank."""
        copies = self.copies.astype(np.float64)
        before = np.cumsum(copies) - copies
        starts = np.flatnonzero(np.append(True, self.queries[1:] != self.queries[:-1]))
        of_first = np.repeat(before[starts], np.diff(starts, append=len(self)))
        ranks = np.rint(before - of_first).astype(np.int64)
        return self._with(ranks=ranks)

    def asked_by(self, numbers: IntArray) -> CalibrationTable:
        """Return the rows with the numbers that their queries have now, shape (n_rows,)."""
        return self._with(queries=numbers)

    def _with(self, **changed: NDArray[Any]) -> CalibrationTable:
        """Return the rows with another column, which needs no checks."""
        columns = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return self._unchecked(columns | changed)

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def n_stages(self) -> int:
        """Stages that have seen the rows."""
        return int(self.scores.shape[1])

    def with_all_stages(self) -> CalibrationTable:
        """Return the same rows with a stage of fine codes, which a stored table may not have."""
        if self.n_stages != STAGES_BEFORE_FINE:
            return self
        more = (len(self), N_STAGES - STAGES_BEFORE_FINE)
        passed, none = np.full(more, np.inf, np.float32), np.zeros(more, np.float32)
        return dataclasses.replace(
            self,
            scores=np.hstack([self.scores, passed]),
            slopes=np.hstack([self.slopes, none]),
        )

    @property
    def n_bytes(self) -> int:
        """What the columns take."""
        return sum(int(getattr(self, field.name).nbytes) for field in dataclasses.fields(self))

    @cached_property
    def by_cosine(self) -> CalibrationTable:
        """The same rows, the most similar first."""
        return self.rows(_falling(self.cosines))

    @cached_property
    def best_cosines(self) -> Float64Array:
        """The cosine of each calibration query's best match, rising; −2 where none is known."""
        best = np.full(int(self.queries.max(initial=-1)) + 1, -2.0)
        np.maximum.at(best, self.queries, self.cosines)
        return np.sort(best)

    def above(self, similarity: float) -> CalibrationTable:
        """Return the rows that match at a similarity, the most similar first; nothing is copied."""
        return self.by_cosine.rows(slice(0, self._n_from(similarity - MATCH_SLACK)))

    def just_below(self, similarity: float, width: float) -> CalibrationTable:
        """Return the rows that would match at a similarity lower by `width`, and do not yet.

        The most similar come first; nothing is copied.
        """
        first = self._n_from(similarity - MATCH_SLACK)
        return self.by_cosine.rows(slice(first, self._n_from(similarity - width)))

    def _n_from(self, cosine: float) -> int:
        """Return how many rows have at least a cosine."""
        return int(np.searchsorted(self._rising_by_cosine, -cosine, side="right"))

    @cached_property
    def _rising_by_cosine(self) -> Float64Array:
        return -self.by_cosine.cosines

    def nearest(self, k: int) -> CalibrationTable:
        """Return the rows among the k nearest vectors of their query."""
        return self.rows(self.ranks < k)

    def rows(self, chosen: BoolArray | IntArray | slice) -> CalibrationTable:
        """Return some of the rows, in the order given; those of a slice share its memory."""
        columns = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        if isinstance(chosen, slice):
            return self._unchecked({name: column[chosen] for name, column in columns.items()})
        # `take` copies rows of several columns four times as fast as an index does.
        rows = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
        taken = {name: np.take(column, rows, axis=0) for name, column in columns.items()}
        return self._unchecked(taken)

    @property
    def n_queries(self) -> int:
        """Calibration queries with at least one row."""
        return int(np.count_nonzero(np.bincount(self.queries)))

    def needed(self, similarity: float | Float64Array) -> Float64Array:
        """Return the slack that each row needs at each stage, shape (n_rows, n_stages).

        Parameters
        ----------
        similarity : float or ndarray of shape (n_rows,)
            α of the search, one for all rows or one for each.
        """
        alpha = np.broadcast_to(np.asarray(similarity, dtype=np.float64), len(self))
        return np.asarray(alpha[:, np.newaxis] * self.slopes - self.scores)

    @cached_property
    def weights(self) -> Float64Array:
        """The share of its query's matches that each row stands for, shape (n_rows,)."""
        return np.asarray(self.copies / np.bincount(self.queries, self.copies)[self.queries])

    def effective_rows(self, similarity: float) -> float:
        """Return how many rows of equal weight tell as much of a crowded query, on average.

        (Σw)²/Σw² over the rows of a query at a similarity, for queries with rows that stand for
        several; infinity where there are none.
        """
        rows = self.above(similarity)
        _, query = np.unique(rows.queries, return_inverse=True)
        crowded = np.bincount(query, rows.copies > 1) > 0
        copies = rows.copies.astype(np.float64)
        effective = np.bincount(query, copies) ** 2 / np.bincount(query, copies**2)
        return float(effective[crowded].mean()) if crowded.any() else math.inf

    def missed(self, failed: BoolArray) -> tuple[float, float]:
        """Return the sum over queries of the share missed, and the share of all pairs missed.

        Parameters
        ----------
        failed : ndarray of shape (n_rows,)
            Which rows do not pass.
        """
        pairs = float(self.copies @ failed) / max(float(self.copies.sum()), 1.0)
        # Rounded once: a BLAS product adds in an order that depends on the processor.
        return math.fsum(self.weights[failed]), pairs

    def solve(self, needed: Float64Array, holds: Holds, since: float | None = None) -> float:
        """Return the smallest λ with which a rule holds.

        Parameters
        ----------
        needed : ndarray of shape (n_rows,)
            The λ at which each row passes every stage.
        holds : callable
            Tells from numbers of queries and sums of shares missed where a promise holds.
        since : float, optional
            The rule must hold for the rows above every similarity up to this one, not only for all
            rows.

        Returns
        -------
        float
            Infinity where no λ will do.
        """
        if len(self) == 0:
            return math.inf
        prefixes = _Prefixes.of(self, since)
        candidates = np.concatenate([[-math.inf], np.unique(needed)])
        low, high = 0, len(candidates) - 1
        if not prefixes.all_hold(needed > candidates[high], holds):
            return math.inf
        while low < high:
            middle = (low + high) // 2
            if prefixes.all_hold(needed > candidates[middle], holds):
                high = middle
            else:
                low = middle + 1
        return float(candidates[low])

    def holds(
        self, needed: Float64Array, value: float, holds: Holds, since: float | None = None
    ) -> bool:
        """Tell whether a rule holds with a given λ; the arguments are those of `solve`."""
        return len(self) > 0 and _Prefixes.of(self, since).all_hold(needed > value, holds)

    def quantiles(self, values: Float64Array, shares: Float64Array) -> Float64Array:
        """Return the values that these shares of matches exceed, queries counting alike."""
        total, n_largest = self.weights.sum(), _FEWEST_SORTED
        while True:
            order = _largest(values, n_largest)
            exceeding = np.cumsum(self.weights[order]) / total
            last = np.searchsorted(exceeding, shares)
            if len(order) == len(values) or last.max() < len(order):
                return np.asarray(values[order[np.minimum(last, len(order) - 1)]])
            n_largest *= _MORE_SORTED


@dataclass(frozen=True, eq=False)
class _Prefixes:
    """The rows above each similarity from the lowest to `since`: how many queries, what they miss.

    Rows are taken in falling order of the cosine. A further row of a query changes the share that
    its query misses; the sum of those changes is what is missed above each similarity.
    """

    by_query: IntArray
    starts: IntArray
    copies: Float64Array
    seen: Float64Array
    in_order: IntArray
    n_queries: Float64Array
    first: int

    @classmethod
    def of(cls, table: CalibrationTable, since: float | None) -> _Prefixes:
        # Mostly in order already, which takes a stable sort no time.
        falling = np.argsort(-table.cosines, kind="stable")
        grouped = _stable_order(table.queries[falling])
        by_query = falling[grouped]
        queries = table.queries[by_query]
        starts = np.searchsorted(queries, queries)
        copies = table.copies[by_query].astype(np.float64)
        in_order = np.empty_like(grouped)
        in_order[grouped] = np.arange(len(grouped))
        opens = starts == np.arange(len(queries))
        first = len(queries)
        if since is not None:
            first = max(1, int((table.cosines >= since - MATCH_SLACK).sum()))
        return cls(
            by_query,
            starts,
            copies,
            _since_start(copies, starts),
            in_order,
            np.cumsum(opens[in_order]).astype(np.float64)[first - 1 :],
            first,
        )

    def all_hold(self, failed: BoolArray, holds: Holds) -> bool:
        """Tell whether a rule holds above every similarity, if some rows fail."""
        share = _since_start(self.copies * failed[self.by_query], self.starts) / self.seen
        before = np.concatenate([[0.0], share[:-1]])
        before[self.starts == np.arange(len(share))] = 0.0
        missed = np.cumsum((share - before)[self.in_order])[self.first - 1 :]
        return bool(np.all(holds(self.n_queries, missed)))


def _falling(cosines: Float64Array) -> IntArray:
    """Return the order of falling cosines, equal ones as they stand.

    Cosines are rounded to float32, whose bits rise with the number, and fall where it is negative.
    So the bits and the row make one integer, and integers are sorted in a third of the time.
    """
    narrow = (-cosines + 0.0).astype(np.float32)  # no −0.0, whose bits are others
    if not np.array_equal(narrow, -cosines):
        return np.argsort(-cosines, kind="stable")
    bits = narrow.view(np.int32).astype(np.int64)
    rising = np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
    return np.sort((rising << 32) + np.arange(len(cosines))) & 0xFFFFFFFF


def _largest(values: Float64Array, n_largest: int) -> IntArray:
    """Return where the largest values are, so many and those equal to the last, falling."""
    if n_largest >= len(values):
        return np.argsort(-values, kind="stable")
    least = np.partition(values, -n_largest)[-n_largest]
    large = np.flatnonzero(values >= least)
    return large[np.argsort(-values[large], kind="stable")]


def _stable_order(queries: IntArray) -> IntArray:
    """Return an order by query; numbers of 16 bits are sorted by radix, in a tenth of the time."""
    small = queries.max(initial=0) <= np.iinfo(np.uint16).max
    return np.argsort(queries.astype(np.uint16) if small else queries, kind="stable")


def _since_start(values: Float64Array, starts: IntArray) -> Float64Array:
    """Return sums of the values from the start of each one's query up to itself."""
    total = np.cumsum(values)
    return np.asarray(total - (total - values)[starts])
