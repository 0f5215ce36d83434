"""The calibration table: one row for each true match of a calibration query."""

from __future__ import annotations

import dataclasses
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from memvec.errors import InvalidValueError
from memvec.guarantee._bounds import Holds
from memvec.kernels import MATCH_SLACK, N_STAGES, STAGES_BEFORE_FINE
from memvec.types import BoolArray, Float32Array, Float64Array, IntArray


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
        columns = [field.name for field in dataclasses.fields(cls)]
        joined = {name: np.concatenate([getattr(t, name) for t in tables]) for name in columns}
        order = np.lexsort((joined["keys"], -joined["cosines"], joined["queries"]))
        ordered = {name: column[order] for name, column in joined.items()}
        queries, copies = ordered["queries"], ordered["copies"].astype(np.float64)
        before = np.cumsum(copies) - copies
        starts = np.searchsorted(queries, queries)
        ordered["ranks"] = np.rint(before - before[starts]).astype(np.int64)
        return cls(**ordered)

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
        return self.rows(np.argsort(-self.cosines, kind="stable"))

    @cached_property
    def best_cosines(self) -> Float64Array:
        """The cosine of each calibration query's best match, rising; −2 where none is known."""
        best = np.full(int(self.queries.max(initial=-1)) + 1, -2.0)
        np.maximum.at(best, self.queries, self.cosines)
        return np.sort(best)

    def above(self, similarity: float) -> CalibrationTable:
        """Return the rows that match at a similarity, the most similar first; nothing is copied."""
        ranked = self.by_cosine
        lowest = similarity - MATCH_SLACK
        return ranked.rows(slice(0, int(np.searchsorted(-ranked.cosines, -lowest, side="right"))))

    def just_below(self, similarity: float, width: float) -> CalibrationTable:
        """Return the rows that would match at a similarity lower by `width`, and do not yet."""
        below = self.cosines < similarity - MATCH_SLACK
        return self.rows(below & (self.cosines >= similarity - width))

    def nearest(self, k: int) -> CalibrationTable:
        """Return the rows among the k nearest vectors of their query."""
        return self.rows(self.ranks < k)

    def rows(self, chosen: BoolArray | IntArray | slice) -> CalibrationTable:
        """Return some of the rows, in the order given; those of a slice share its memory."""
        # Made around the checks, which these rows have passed already: they read every entry.
        some = object.__new__(CalibrationTable)
        for field in dataclasses.fields(self):
            object.__setattr__(some, field.name, getattr(self, field.name)[chosen])
        return some

    @property
    def n_queries(self) -> int:
        """Calibration queries with at least one row."""
        return len(np.unique(self.queries))

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
        _, query = np.unique(self.queries, return_inverse=True)
        return np.asarray(self.copies / np.bincount(query, self.copies)[query])

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
        order = np.argsort(-values, kind="stable")
        exceeding = np.cumsum(self.weights[order]) / self.weights.sum()
        last = np.minimum(np.searchsorted(exceeding, shares), len(order) - 1)
        return np.asarray(values[order[last]])


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


def _stable_order(queries: IntArray) -> IntArray:
    """Return an order by query; numbers of 16 bits are sorted by radix, in a tenth of the time."""
    small = queries.max(initial=0) <= np.iinfo(np.uint16).max
    return np.argsort(queries.astype(np.uint16) if small else queries, kind="stable")


def _since_start(values: Float64Array, starts: IntArray) -> Float64Array:
    """Return sums of the values from the start of each one's query up to itself."""
    total = np.cumsum(values)
    return np.asarray(total - (total - values)[starts])
