"""Several shards as one store: their states joined, with the tables between their segments."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from memvec.collection._catalog import NUMBERS_OF_SHARD
from memvec.collection._ids import Id
from memvec.collection._joined_state import SharedTables, joined_state
from memvec.collection._naming import MovedError
from memvec.collection._segment import Segment
from memvec.collection._settings import Settings
from memvec.collection._shard import Shard
from memvec.collection._state import State
from memvec.errors import (
    CorruptIndexError,
    IndexNotFoundError,
    ShardError,
    StorageError,
    UnknownVersionError,
)
from memvec.guarantee import CalibrationTable
from memvec.types import Float32Array

_TABLES = "tables"
# So often a state is asked for anew where shards change while it is put together.
_TRIES = 20
# Ids that are kept, at least.
_IDS_KEPT = 100_000
#: What a shard that cannot be used raises.
LOSSES = (CorruptIndexError, IndexNotFoundError, StorageError, UnknownVersionError)


class Link(Protocol):
    """The way to a shard, in this process or elsewhere; losses are raised as ShardError."""

    number: int
    folder: Path

    def begin(self, method: str, *args: Any) -> Callable[[], Any]:
        """Call a method of the shard; return what waits for its result."""

    def state(self, known: State | None) -> Callable[[], State]:
        """Ask for the state of the shard, where another is known; return what waits for it."""

    def share(self, rows: Float32Array) -> Any:
        """Return rows as an argument that several links are given."""


@dataclass(eq=False)
class LocalLink:
    """A shard in this process; it is opened at first use, and anew after it was lost."""

    number: int
    folder: Path
    open_shard: Callable[[], Shard]
    _shard: Shard | None = None

    def begin(self, method: str, *args: Any) -> Callable[[], Any]:
        """Return what calls a method of the shard."""
        return partial(self._call, method, args)

    def state(self, known: State | None) -> Callable[[], State]:
        """Return what asks for the state of the shard."""
        return partial(self._call, "state", ())

    def share(self, rows: Float32Array) -> Float32Array:
        """Return the rows."""
        return rows

    def _call(self, method: str, args: tuple[Any, ...]) -> Any:
        try:
            if self._shard is None:
                if method == "close":
                    return None
                self._shard = self.open_shard()
            return getattr(self._shard, method)(*args)
        except LOSSES as error:
            raise ShardError(self.number, self.folder, str(error)) from error


class ShardedStore:
    """The shards, and the state of all of them.

    Attributes
    ----------
    folder : Path
        Where the folders of the shards are.
    links : sequence of Link
        The way to each shard.
    settings : Settings
        What all shards were created with.
    place : callable
        Returns the number of the shard that an id belongs to.
    missing : tuple of int
        Shards that do not answer and are left out.
    state : State
        What searches see.
    states : mapping of int to State
        That of each shard that answers.
    known_ids : dict of int to int or str
        The ids of some keys.
    """

    def __init__(
        self,
        folder: Path,
        links: Sequence[Link],
        settings: Settings,
        place: Callable[[Id], int],
        *,
        read_only: bool,
        partial_answers: bool,
    ) -> None:
        self.folder, self.links, self.settings, self.place = folder, links, settings, place
        self.missing: tuple[int, ...] = ()
        self.states: Mapping[int, State] = {}
        self.state = State.empty(settings)
        self._read_only, self._partial = read_only, partial_answers
        self._tables = SharedTables(folder / _TABLES, read_only=read_only)
        self._lock = threading.RLock()
        self._stale = True
        self.known_ids: dict[int, Id] = {}

    @property
    def read_only(self) -> bool:
        """Whether changes are refused."""
        return self._read_only

    @property
    def answering(self) -> list[Link]:
        """The ways to the shards that are not missing."""
        return [link for link in self.links if link.number not in self.missing]

    def outdated(self) -> None:
        """Ask for the state anew before the next answer."""
        self._stale = True

    def current(self) -> State:
        """Return what is searched now, with everything that was changed through this store."""
        if self._stale:
            self.refresh()
        return self.state

    def refresh(self) -> None:
        """Read the states that are committed now, and make the tables that they lack.

        A segment is seen from then on, and not before: together with what the calibration queries
        of all shards find in it.
        """
        with self._lock:
            for _ in range(_TRIES):
                self._stale = False
                try:
                    states = self._newest()
                    if states == self.states and self.state.change >= 0:
                        return
                    tables = self._tables.between(list(states.values()), self.ask)
                except MovedError:
                    continue
                self.states, self.state = states, joined_state(list(states.values()), tables)
                return
        reason = f"a shard of it changed {_TRIES} times while its state was read"
        raise ShardError(self.missing[0] if self.missing else 0, self.folder, reason)

    def _newest(self) -> dict[int, State]:
        begun = {link.number: link.state(self.states.get(link.number)) for link in self.links}
        states: dict[int, State] = {}
        missing: list[int] = []
        for number, answer in begun.items():
            try:
                states[number] = answer()
            except ShardError:
                if not self._partial or len(missing) == len(begun) - 1:
                    raise
                missing.append(number)
        self.missing = tuple(missing)
        return states

    def lose(self, lost: ShardError) -> None:
        """Leave a shard out from now on where answers may be partial; otherwise raise the error."""
        if not self._partial or len(self.answering) <= 1:
            raise lost
        with self._lock:
            self.missing = tuple(sorted({*self.missing, lost.shard}))
            self.states = {n: one for n, one in self.states.items() if n != lost.shard}
            tables = self._tables.between(list(self.states.values()), self.ask)
            self.state = joined_state(list(self.states.values()), tables)

    def ask(self, segment: Segment, rows: Float32Array) -> CalibrationTable:
        """Return the matches of rows in a segment, asked of its shard."""
        link = self.links[segment.number // NUMBERS_OF_SHARD]
        table: CalibrationTable = link.begin("calibration_rows", segment.number, rows)()
        return table

    def check_places(self, ids: dict[int, Id]) -> None:
        """Raise where a shard holds an id of another one, which may have the same id, too."""
        for key, name in ids.items():
            if self.place(name) != (number := key // NUMBERS_OF_SHARD):
                reason = f"it holds the id {name!r}, which belongs to shard {self.place(name)}"
                raise ShardError(number, self.links[number].folder, reason)

    def remember(self, ids: dict[int, Id]) -> None:
        """Keep the ids of keys that came with an answer; a key never gets another id."""
        known = self.known_ids
        self.check_places({key: name for key, name in ids.items() if key not in known})
        if len(self.known_ids) > _IDS_KEPT:
            self.known_ids = {}
        self.known_ids |= ids

    def everywhere(self, method: str, *args: Any) -> list[Any]:
        """Call a method of all shards at once; return what each returns."""
        begun = [link.begin(method, *args) for link in self.answering]
        return [answer() for answer in begun]

    def close(self) -> None:
        """Let go of everything."""
        with self._lock:
            self.state, self.states = State.empty(self.settings), {}
            begun = [link.begin("close") for link in self.links]
            for answer in begun:
                with suppress(ShardError):  # it is lost: there is nothing to close
                    answer()
