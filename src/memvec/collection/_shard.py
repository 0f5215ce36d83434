"""One of several collections that are searched as one: what it tells the others, and finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from memvec.collection._catalog import NUMBERS_OF_SHARD
from memvec.collection._collection import Collection
from memvec.collection._ids import Id, Ids, Rows
from memvec.collection._items import Item, keys_of, largest_integer, records_of
from memvec.collection._naming import MovedError
from memvec.collection._packed_table import PackedTable
from memvec.collection._reading import Stats, Where
from memvec.collection._searches import Inquiry
from memvec.collection._segment import Segment, segment_folder
from memvec.collection._state import Part, State
from memvec.collection._store import Store
from memvec.collection._waiting import Waiting
from memvec.errors import damaged
from memvec.guarantee import CalibrationTable, Request, Thresholds
from memvec.kernels import StoredRows
from memvec.matches import Matches
from memvec.search import Scope, compare_scopes, search_scopes
from memvec.storage import CheckReport, FileSum
from memvec.types import ArrayLike, BoolArray, Float32Array, IntArray

# Ids that come with an answer, at most.
_IDS_WITH_ANSWER = 1000


class Sought(NamedTuple):
    """What a shard is asked to find, in one state of it.

    Attributes
    ----------
    change : int
        Names the state.
    similarity : float
        α₀.
    thresholds : Thresholds or None
        Solved for all shards together; None misses nothing.
    request : Request
        What is to be promised.
    where : mapping or None
        The filter.
    threads : int or None
        How many share the queries.
    allowed : bytes or None
        Which rows, by rising key, may be found, as packed bits; None for those that pass.
    everything : bool
        Whether all rows are compared.
    """

    change: int
    similarity: float
    thresholds: Thresholds | None
    request: Request
    where: Where | None
    threads: int | None
    allowed: bytes | None = None
    everything: bool = False


class Listing(NamedTuple):
    """A state of a shard for those who map its segments themselves; what they know is left out.

    Attributes
    ----------
    change : int
        Names the state.
    segments : list of (int, dict, ndarray)
        Number, files and rows that were deleted, of each.
    waiting : ndarray
        Rows after the last that is known, as they are stored.
    waiting_keys : ndarray of int
        Of all that wait.
    waiting_alive : ndarray of bool
        Which of them were not deleted.
    names, tables
        Segment and source of each table of the calibration, and those tables that are not known.
    """

    change: int
    segments: list[tuple[int, dict[str, FileSum], IntArray]]
    waiting: np.ndarray[Any, Any]
    waiting_keys: IntArray
    waiting_alive: BoolArray
    names: list[tuple[int, int]]
    tables: dict[tuple[int, int], PackedTable]


class Known(NamedTuple):
    """What of a state is known to those who ask for a listing, and the states that they use."""

    last_key: int
    tables: frozenset[tuple[int, int]]
    in_use: frozenset[int]

    @classmethod
    def of(cls, state: State | None, in_use: frozenset[int]) -> Known:
        """Return what a state knows; None knows nothing."""
        if state is None:
            return cls(-1, frozenset(), in_use)
        keys = state.waiting.keys
        return cls(int(keys[-1]) if len(keys) else -1, frozenset(state.calibration), in_use)


class Shard:
    """A collection among several: keys and numbers of segments are its own among all of them.

    Parameters
    ----------
    folder : Path
        An ordinary collection; :func:`open_collection` opens it, too.
    number : int
        Which of the shards it is.
    given : dict
        The settings of the collection, as :func:`checked_settings` returns them.
    read_only, verify, background
        As in :func:`open_collection`.
    """

    def __init__(
        self,
        folder: Path,
        number: int,
        given: dict[str, Any],
        *,
        read_only: bool = False,
        verify: bool = True,
        background: bool = True,
    ) -> None:
        self.folder, self.number = folder, number
        self._store = Store(folder, given, read_only=read_only)
        if not read_only:
            self._store.number_from(number * NUMBERS_OF_SHARD)
        self._collection = Collection(self._store, verify=verify, background=background)
        # By their changes, the newest and those that somebody still reads from.
        self._states: dict[int, State] = {}
        self._order: tuple[int, IntArray] = (-1, np.empty(0, np.int64))
        # One tuple, replaced at once: threads may ask at the same time.
        self._scopes: tuple[State | None, Any, tuple[Scope, ...]] = (None, None, ())
        self.settings = self._store.settings
        #: How many threads share the queries of those who say nothing.
        self.threads: int | None = None

    def state(self, in_use: frozenset[int] = frozenset()) -> State:
        """Return what is committed now; it is answered for as long as it is named among those used.

        Parameters
        ----------
        in_use : frozenset of int
            The changes of states before that somebody still reads from.
        """
        state = self._newest()
        kept = {change: one for change, one in self._states.items() if change in in_use}
        self._states = {**kept, state.change: state}
        return state

    def _newest(self) -> State:
        self._store.refresh()
        state = self._collection._reading.state()
        self._check_numbers(state)
        return state

    def listing(self, known: Known) -> Listing:
        """Return what is committed now, less what is known."""
        state = self.state(known.in_use)
        keys = state.waiting.keys
        fresh = state.waiting.rows.rows.some(
            slice(int(np.searchsorted(keys, known.last_key, "right")), None)
        )
        return Listing(
            state.change,
            [
                (part.rows.number, dict(part.rows.files), np.flatnonzero(~part.alive))
                for part in state.segments
            ],
            np.array(fresh.data),
            keys.copy(),
            state.waiting.alive,
            list(state.calibration),
            {key: one for key, one in state.calibration.items() if key not in known.tables},
        )

    def find(self, rows: Float32Array, sought: Sought) -> tuple[Matches, int, dict[int, Id]]:
        """Return the matches of queries, by key, which state is the newest, and the ids of a few.

        Whoever asks has the ids so without a second question, unless there are many.
        """
        state = self._state_of(sought.change)
        threads = sought.threads or self.threads
        scopes = self._scopes_of(state, sought, threads)
        if sought.allowed is not None:
            scopes = tuple(self._limited(state, scopes, sought.allowed))
        if sought.everything:
            found = compare_scopes(scopes, rows, sought.similarity, threads)
        else:
            level, thresholds = sought.similarity, sought.thresholds
            # To search no rows takes a third of the time of a search of a segment.
            filled = [scope for scope in scopes if len(scope.source)]
            found = search_scopes(filled, rows, level, thresholds, threads)
        few = 0 < len(found.ids) <= _IDS_WITH_ANSWER
        ids = self.names(np.unique(found.ids)) if few else {}
        return found, self._store.state.change, ids

    def _scopes_of(self, state: State, sought: Sought, threads: int | None) -> tuple[Scope, ...]:
        """Return what is searched; those of the last question without a filter are kept."""
        name = sought.similarity, sought.request
        kept_of, kept_name, kept = self._scopes
        if sought.where is None and kept_of is state and kept_name == name:
            return kept
        asked = Inquiry(*name, sought.where, threads, "find")
        scopes = self._collection._searches.question_to(state, asked).scopes
        if sought.where is None:
            self._scopes = state, name, scopes
        return scopes

    def _limited(self, state: State, scopes: tuple[Scope, ...], packed: bytes) -> list[Scope]:
        """Return scopes of the rows that are allowed, which are told in the order of their keys."""
        sizes = [len(part.keys) for part in state.parts]
        change, order = self._order
        if change != state.change:
            order = np.argsort(np.concatenate([part.keys for part in state.parts]), kind="stable")
            self._order = state.change, order
        allowed = np.empty(sum(sizes), dtype=bool)
        bits = np.unpackbits(np.frombuffer(packed, np.uint8), count=len(allowed))
        allowed[order] = bits.astype(bool)
        some = np.split(allowed, np.cumsum(sizes)[:-1])
        return [scope._replace(allowed=one) for scope, one in zip(scopes, some, strict=True)]

    def passing(self, change: int, where: Where, caller: str) -> list[BoolArray]:
        """Return which rows of each part of a state pass a filter and are alive."""
        return self._collection._reading.passing(self._state_of(change), where, caller)

    def names(self, keys: IntArray) -> dict[int, Id]:
        """Return the ids of keys, deleted or not; some may be gone for good."""
        return self._collection._reading.names(keys)

    def records(self, keys: IntArray) -> dict[int, tuple[Id, dict[str, Any]]]:
        """Return ids and metadata of keys, deleted or not; some may be gone for good."""
        return records_of(self._store.catalog, keys)

    def keys(self, ids: list[Id]) -> dict[Id, int]:
        """Return the keys of those ids that are there."""
        return keys_of(self._store.catalog, ids)

    def issued(self) -> tuple[int, int]:
        """Return how many keys were given to items, and the largest id that is an integer."""
        catalog = self._store.catalog
        n_keys = catalog.numbers().next_key - self.number * NUMBERS_OF_SHARD
        return n_keys, largest_integer(catalog)

    def get(self, ids: list[Id]) -> list[Item]:
        """Return items in the order of their ids."""
        return self._collection.get(ids)

    def insert(
        self, vectors: ArrayLike, ids: Ids, metadata: Rows | None, where: str, replace: bool
    ) -> None:
        """Add items, all or none of them; `replace` puts them in place of others."""
        self._collection._writing.insert(vectors, ids, metadata, where, replace=replace)

    def insert_again(
        self, vectors: ArrayLike, ids: Ids, metadata: Rows | None, where: str, replace: bool
    ) -> None:
        """Add items, unless a call that nobody heard the end of has: it added all of them."""
        if replace or len(self.keys(list(ids))) < len(ids):
            self.insert(vectors, ids, metadata, where, replace)

    def delete_again(self, ids: list[Id]) -> int:
        """Delete items, unless a call that nobody heard the end of has deleted all of them."""
        return self.delete(ids) if self.keys(ids) else len(ids)

    def delete(self, ids: list[Id]) -> int:
        """Delete items, all or none of them; return how many."""
        return self._collection.delete(ids)

    def seal(self, merge: bool) -> int:
        """Make a segment of all waiting vectors; return how many it holds."""
        return self._collection.seal(merge=merge, progress=False)

    def compact(self) -> int:
        """Merge everything into one segment, without deleted items; return how many it holds."""
        return self._collection.compact(progress=False)

    def settle(self) -> None:
        """Seal what is due before everything is compared with everything."""
        self._collection._writing.settle()

    def calibration_rows(self, number: int, rows: Float32Array) -> CalibrationTable:
        """Return the matches of rows in a segment, and what its stages see of them.

        Its files are checked before: what is found is kept for those who open the shards next.
        """
        for state in (self._store.state, *self._states.values()):
            for part in state.segments:
                if part.rows.number == number:
                    self._collection._reading.check_segments(state)
                    return part.rows.index.calibration_rows(rows)
        raise MovedError

    def stats(self) -> Stats:
        """Return the numbers of items and segments, and their sizes on disk."""
        return self._collection.stats()

    def check(self) -> CheckReport:
        """Read every file and compare checksums."""
        return self._collection.check()

    def close(self) -> None:
        """Let go of everything, after what is being sealed."""
        self._states.clear()
        self._scopes = None, None, ()
        self._collection.close()

    def _state_of(self, change: int) -> State:
        """Return a state that was handed out, or the present one where it has that number."""
        if (kept := self._states.get(change)) is not None:
            return kept
        state = self._newest()
        if state.change != change:
            raise MovedError
        self._states = {**self._states, change: state}
        return state

    def _check_numbers(self, state: State) -> None:
        """Raise where keys or segments are those of another shard, or of no shard."""
        ends = [int(part.keys[end]) for part in state.parts if len(part.keys) for end in (0, -1)]
        for one in [*ends, *(part.rows.number for part in state.segments)]:
            if one // NUMBERS_OF_SHARD != self.number:
                found = one // NUMBERS_OF_SHARD
                raise damaged(self.folder, f"it is shard {found}, where {self.number} belongs")


def listed_state(folder: Path, listing: Listing, known: State | None, empty: Waiting) -> State:
    """Return the state of a shard in a folder by its listing, its segments mapped here.

    Parameters
    ----------
    folder : Path
        Of the shard.
    listing : Listing
        What the shard told.
    known : State or None
        The state that the listing leaves out.
    empty : Waiting
        One without rows.
    """
    opened = {part.rows.number: part.rows for part in known.segments} if known else {}
    segments = []
    for number, files, dead in listing.segments:
        rows = opened.get(number) or Segment.open(segment_folder(folder, number), number, files)
        alive = np.ones(len(rows), dtype=bool)
        alive[dead] = False
        segments.append(Part(rows, _same(alive, known, number)))
    tables = listing.tables | ({} if known is None else dict(known.calibration))
    tables = {name: tables[name] for name in listing.names}
    waiting = Part(_waiting(listing, known, empty), listing.waiting_alive)
    return State(listing.change, tuple(segments), waiting, tables)


def _same(alive: BoolArray, known: State | None, number: int) -> BoolArray:
    """Return the array that is known where it is the same: what was solved for it is so found."""
    for part in known.segments if known else ():
        if part.rows.number == number and np.array_equal(part.alive, alive):
            return part.alive
    return alive


def _waiting(listing: Listing, known: State | None, empty: Waiting) -> Waiting:
    """Return what waits: of what is known those that still do, then what came since."""
    keys = listing.waiting_keys
    if not len(keys):
        return empty
    waiting = empty if known is None else known.waiting.rows
    if len(waiting) and waiting.keys[0] != keys[0]:
        waiting = waiting.after(int(keys[0]) - 1)
    n_fresh = len(listing.waiting)
    return waiting.followed_by(StoredRows.read(listing.waiting), keys[len(keys) - n_fresh :])
