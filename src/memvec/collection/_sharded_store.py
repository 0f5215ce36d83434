"""Several shards as one store: their states joined, with the tables between their segments."""

from __future__ import annotations

import errno
import logging
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from memvec.collection._catalog import NUMBERS_OF_SHARD
from memvec.collection._ids import Id
from memvec.collection._joined_state import JoinedState, SharedTables, joined_state
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

_LOG = logging.getLogger("memvec")
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

    def state(self, known: State | None, in_use: frozenset[int]) -> Callable[[], State]:
        """Ask for the state of the shard, where another is known; return what waits for it.

        The shard goes on answering for states in use, which are named by their changes.
        """

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

    def state(self, known: State | None, in_use: frozenset[int]) -> Callable[[], State]:
        """Return what asks for the state of the shard."""
        return partial(self._call, "state", (in_use,))

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
    state : JoinedState
        What searches see. It tells the state of each shard, and which of them are left out.
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
        self.state = _nothing(settings)
        # Those that somebody still reads from, a stream perhaps, and the newest.
        self._in_use: weakref.WeakSet[JoinedState] = weakref.WeakSet()
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
    def missing(self) -> tuple[int, ...]:
        """Shards that do not answer and are left out of what is searched now."""
        return self.state.missing

    def outdated(self) -> None:
        """Ask for the state anew before the next answer."""
        self._stale = True

    def current(self) -> JoinedState:
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
            lost: dict[int, ShardError] = {}
            for _ in range(_TRIES + len(self.links)):
                self._stale = False
                states = self._newest(lost)
                if states == self.state.of_shards and self.state.change >= 0:
                    return
                try:
                    tables = self._tables.between(list(states.values()), self.ask)
                except MovedError:
                    continue
                except ShardError as error:
                    self._leave_out(error, lost)
                    continue
                self._show(joined_state(states, tables, tuple(sorted(lost))), lost)
                return
        text = f"{self.folder} changed {_TRIES} times while its state was read. Ask again."
        raise StorageError(errno.EAGAIN, text)

    def _newest(self, lost: dict[int, ShardError]) -> dict[int, State]:
        """Return the state of each shard that answers; the others are added to those lost."""
        held = [state.of_shards for state in self._in_use]
        begun = {
            link.number: link.state(
                self.state.of_shards.get(link.number),
                frozenset(one[link.number].change for one in held if link.number in one),
            )
            for link in self.links
            if link.number not in lost
        }
        states: dict[int, State] = {}
        for number, answer in begun.items():
            try:
                states[number] = answer()
            except ShardError as error:
                self._leave_out(error, lost)
        return states

    def _leave_out(self, error: ShardError, lost: dict[int, ShardError]) -> None:
        """Add a shard to those lost; raise its error unless others may answer without it."""
        if not self._partial or len(lost) == len(self.links) - 1:
            raise error
        lost[error.shard] = error

    def _show(self, state: JoinedState, lost: Mapping[int, ShardError]) -> None:
        """Let searches see a state; counts and lists have no certificate to name what they lack."""
        for number, error in lost.items():
            if number not in self.state.missing:
                _LOG.warning("%s Answers leave out its items.", _sentence(str(error)))
        self._in_use.add(state)
        self.state = state

    def lose(self, lost: ShardError) -> None:
        """Leave a shard out from now on where answers may be partial; otherwise raise the error."""
        with self._lock:
            if not self._partial or not set(self.state.of_shards) - {lost.shard}:
                raise lost
            if lost.shard in self.state.of_shards:
                self._show(self.state.left_without(lost.shard), {lost.shard: lost})

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
        """Call a method of all shards that answer, at once; return what each returns."""
        left_out = self.missing
        begun = [link.begin(method, *args) for link in self.links if link.number not in left_out]
        return [answer() for answer in begun]

    def close(self) -> None:
        """Let go of everything."""
        with self._lock:
            self.state = _nothing(self.settings)
            begun = [link.begin("close") for link in self.links]
            for answer in begun:
                with suppress(ShardError):  # it is lost: there is nothing to close
                    answer()


def _nothing(settings: Settings) -> JoinedState:
    empty = State.empty(settings)
    return JoinedState(empty.change, (), empty.waiting, {}, {}, ())


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."
