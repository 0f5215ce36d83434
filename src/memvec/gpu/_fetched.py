"""An index that was built on a card, as the CPU sees it: arrays are fetched when they are needed.

Promises, explanations and drift ask for some rows and codes; these are gathered on the card. What
reads whole arrays (saving, the CPU's own search) fetches them first.
"""

from __future__ import annotations

import zlib
from functools import cached_property
from typing import Any

import numpy as np

from memvec.codes import CodeSpace, FineCodes
from memvec.gpu._held import OnCard
from memvec.gpu._packages import cupy
from memvec.gpu._queue import Queue
from memvec.gpu._scores import launch_scores
from memvec.index import word_by_word
from memvec.kernels import BLOCK, CODE_STAGE, N_STAGES, PREFIX_STAGE, UNIT_STAGE, StoredRows
from memvec.search import Centring, CodeUnits, Units
from memvec.types import Float32Array, Float64Array, Int32Array, IntArray, RowType, WordArray

# Rows that are fetched at a time.
_FETCHED = 1 << 17
_FINGERPRINT_UNITS = 64


class FetchedRows(StoredRows):
    """Rows on a card, in the order of their codes."""

    _held: OnCard

    def __init__(self, held: OnCard) -> None:
        self.__dict__["_held"] = held

    @cached_property
    def data(self) -> Any:
        """All rows."""
        made = np.empty(self.shape, dtype=np.dtype(self.dtype))
        for start in range(0, len(self), _FETCHED):
            made[start : start + _FETCHED] = self.some(slice(start, start + _FETCHED)).data
        return made

    @cached_property
    def scales(self) -> Float64Array:
        """The scales of all rows."""
        rows = self._held.rows
        return np.empty(0) if rows.scales is None else np.asarray(rows.scales[rows.places].get())

    def __len__(self) -> int:
        return len(self._held.rows.places)

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows there are, and their dimension."""
        return len(self), self._held.dim

    @property
    def dtype(self) -> RowType:
        """What a row is stored in."""
        return self._held.dtype

    @property
    def is_plain(self) -> bool:
        """Whether the rows are stored as unit rows, in float32."""
        return self.dtype == "float32"

    def __getitem__(self, which: Any) -> Float32Array:
        return self.some(which)[:]

    def some(self, which: Any) -> StoredRows:
        """Return some rows as they are stored."""
        rows, xp = self._held.rows, cupy()
        with xp.cuda.Device(self._held.card.number):
            chosen = which if isinstance(which, slice) else xp.asarray(which)
            places = rows.places[chosen]
            data = np.ascontiguousarray(rows.data[places].get()[:, : self._held.dim])
            scales = np.empty(0) if rows.scales is None else rows.scales[places].get()
        return StoredRows(data, scales)

    def own_scores(self, left: IntArray, right: IntArray) -> Float64Array:
        """Return the canonical scores of pairs of these rows, in no order."""
        card, rows = self._held.card, self._held.rows
        pairs, hits = Queue(card, len(left)), Queue(card, len(left), scored=True)
        with cupy().cuda.Device(card.number):
            numbers = cupy().asarray(np.stack([left, right], axis=1).astype(np.int32))
            pairs.entries[...] = numbers
            pairs.count.fill(len(left))
            launch_scores(rows, rows, pairs, -2.0, hits)
            return np.asarray(hits.scores[: hits.length()].get())


class FetchedUnits(Units):
    """Units on a card."""

    _held: OnCard

    def __init__(self, held: OnCard) -> None:
        self.__dict__["_held"] = held
        self.__dict__["projection"] = None
        self.__dict__["group_offsets"] = np.array([0])
        self.__dict__["group_vectors"] = np.empty((0, held.dim), dtype=np.float32)
        self.__dict__["run_rows"] = np.empty(0, dtype=np.int32)

    @cached_property
    def vectors(self) -> StoredRows:
        """The members, unit after unit."""
        return FetchedRows(self._held)

    @cached_property
    def keys(self) -> IntArray:
        """The row of the caller's array that each member came from."""
        return np.asarray(self._held.rows.places.get(), dtype=np.int64)

    @cached_property
    def offsets(self) -> IntArray:
        """Where units begin; rows that no unit stands for are the last one."""
        n_rows, bounds = len(self.vectors), self._held.bounds
        return bounds if bounds[-1] == n_rows else np.append(bounds, n_rows)

    @property
    def run_offsets(self) -> IntArray:
        """Where the run of each unit begins."""
        return self.offsets

    @property
    def largest_run(self) -> int:
        """Slots of the largest unit."""
        return int(np.diff(self.offsets).max())

    @property
    def n_tested(self) -> int:
        """Units with a memory vector."""
        return self._held.n_tested

    @cached_property
    def unit_vectors(self) -> Float32Array:
        """The memory vectors."""
        return self._memory_vectors(np.arange(self.n_tested))

    @cached_property
    def means(self) -> Float64Array:
        """Mean of the members' scores on their memory vector."""
        return np.asarray(self._held.moments[0].get(), dtype=np.float64)

    @cached_property
    def variances(self) -> Float64Array:
        """Variance of the members' scores."""
        return np.asarray(self._held.moments[1].get(), dtype=np.float64)

    @property
    def fingerprint(self) -> str:
        """A checksum of which vectors lie where, and of some memory vectors."""
        step = max(1, self.n_tested // _FINGERPRINT_UNITS)
        some = self._memory_vectors(np.arange(0, self.n_tested, step))
        return f"{zlib.crc32(some.tobytes(), zlib.crc32(self.keys.tobytes())):08x}"

    def _memory_vectors(self, chosen: IntArray) -> Float32Array:
        made = np.empty((len(chosen), self._held.dim), dtype=np.float32)
        # Always in the same blocks: products of matrices of another shape are rounded otherwise.
        step = self._held.units_in(_FETCHED)
        with cupy().cuda.Device(self._held.card.number):
            for block in np.unique(chosen // step).tolist():
                first = block * step
                here = np.flatnonzero(chosen // step == block)
                vectors = self._held.memory_vectors(first, min(first + step, self.n_tested))
                made[here] = vectors[cupy().asarray(chosen[here] - first)].get()
        return made


class FetchedCodes(CodeUnits):
    """Units on a card that are tested by whole balanced codes."""

    _held: OnCard

    def __init__(
        self, held: OnCard, space: CodeSpace, similarity: float, code_scale: float
    ) -> None:
        made = self.__dict__
        made["_held"], made["space"], made["similarity"] = held, space, similarity
        made["units"], made["prefix_scale"] = FetchedUnits(held), code_scale
        made["own_scales"], made["fine"], made["centring"] = False, FineCodes.none(), Centring()
        scale = np.full(1, code_scale, dtype=np.float32)
        made["code_scales"] = np.broadcast_to(scale, len(held.rows.places))
        made["unit_runs"] = np.empty(0, dtype=np.uint64)

    @property
    def n_prefix(self) -> int:
        """Words of a member's code that are tested first: all."""
        return self.space.n_words

    @property
    def n_unit_words(self) -> int:
        """Words of a unit's code that are tested: all."""
        return self.space.n_words

    @property
    def tests_whole_codes(self) -> bool:
        """Whether whole codes of members are tested."""
        return True

    @cached_property
    def unit_scales(self) -> Float32Array:
        """What a match 1 scores on each unit, in units of its code."""
        return np.asarray(self._held.scales.get())

    @cached_property
    def top_scales(self) -> Float32Array:
        """The same, padded."""
        padded = np.full(-(-len(self.unit_scales) // BLOCK) * BLOCK, np.inf, dtype=np.float32)
        padded[: len(self.unit_scales)] = self.unit_scales
        return padded

    @cached_property
    def codes(self) -> WordArray:
        """Whole codes of the members."""
        return self._words(self._held.runs.codes)

    @cached_property
    def unit_codes(self) -> WordArray:
        """The codes of the units."""
        return self._words(self._held.unit_codes[: self.units.n_tested])

    @cached_property
    def top_blocks(self) -> WordArray:
        """The same in blocks, word by word inside each."""
        words = self.unit_codes
        n_blocks = -(-len(words) // BLOCK)
        padded = np.zeros((n_blocks * BLOCK, words.shape[1]), dtype=np.uint64)
        padded[: len(words)] = words
        return np.ascontiguousarray(padded.reshape(n_blocks, BLOCK, -1).transpose(0, 2, 1))

    @cached_property
    def prefix(self) -> WordArray:
        """Codes of the members, word by word inside each unit."""
        return word_by_word(self.codes, self.units.offsets)

    def see(
        self, queries: Float32Array, query_of: IntArray, row_of: IntArray
    ) -> tuple[Float32Array, Float32Array]:
        """Return what the stages see of given pairs, as scores and slopes."""
        held, xp, n_bits = self._held, cupy(), np.float32(self.space.n_bits)
        spread, gain = np.sqrt(n_bits), np.float32(self.space.gain)
        scores = np.full((len(query_of), N_STAGES), np.inf, dtype=np.float32)
        slopes = np.zeros((len(query_of), N_STAGES), dtype=np.float32)
        asked = self.space.encode(queries, self.space.n_words).words.view(np.uint32)
        units = self.units.unit_of(row_of)
        tested = np.flatnonzero(units < self.units.n_tested)
        with xp.cuda.Device(held.card.number):
            words = asked.shape[1]
            of_members = held.runs.codes[xp.asarray(row_of), :words].get()
            of_units = held.unit_codes[xp.asarray(units[tested]), :words].get()
        codes = asked[query_of]
        seen = (n_bits - 2 * _different(codes, of_members)) / spread
        for stage in (PREFIX_STAGE, CODE_STAGE):
            scores[:, stage], slopes[:, stage] = seen, gain * self.code_scales[0] / spread
        on_units = n_bits - 2 * _different(codes[tested], of_units)
        scores[tested, UNIT_STAGE] = on_units / spread
        slopes[tested, UNIT_STAGE] = gain * self.unit_scales[units[tested]] / spread
        return scores, slopes

    def _words(self, packed: Any) -> WordArray:
        """Return codes of words of 64 bits."""
        n_words = 2 * self.space.n_words
        made = np.empty((len(packed), n_words), dtype=np.uint32)
        for start in range(0, len(packed), _FETCHED):
            made[start : start + _FETCHED] = packed[start : start + _FETCHED, :n_words].get()
        return made.view(np.uint64)


def _different(codes: Any, others: Any) -> Float32Array:
    """Return in how many bits codes differ, pair by pair."""
    counts: Int32Array = np.bitwise_count(codes ^ others).sum(axis=1, dtype=np.int32)
    return counts.astype(np.float32)
