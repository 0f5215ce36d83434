"""What a collection is made of: roles that one folder fills, and several folders together, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

from memvec.collection._ids import Id, Ids, Rows
from memvec.collection._items import Item
from memvec.collection._reading import Carried, Content, Stats, Where
from memvec.collection._settings import Settings
from memvec.collection._state import State
from memvec.collection._writing import Vectors
from memvec.types import BoolArray, IntArray


class Held(Protocol):
    """Where the state comes from."""

    folder: Path
    settings: Settings

    @property
    def state(self) -> State:
        """What searches see."""

    @property
    def read_only(self) -> bool:
        """Whether changes are refused."""

    def refresh(self) -> None:
        """Read the state that is committed now."""

    def close(self) -> None:
        """Let go of everything."""


class Reader(Protocol):
    """Finds items by id, in the state that is open."""

    def close(self) -> None:
        """Refuse everything from now on, and let go of what was read."""

    def state(self) -> State:
        """Return what is searched now."""

    def passing(self, state: State, where: Where | None, caller: str) -> list[BoolArray]:
        """Return which rows of each part of a state pass a filter and are alive."""

    def names(self, keys: IntArray) -> dict[int, Id]:
        """Return the ids of keys, deleted or not; some may be gone for good."""

    def contains(self, name: object) -> bool:
        """Tell whether there is an item of an id."""

    def ids(self) -> Iterator[Id]:
        """Yield all ids, in the order they came."""

    def get(self, ids: Id | Ids, caller: str) -> Item | list[Item]:
        """Return items in the order of their ids; of one bare id, the item itself."""

    def carried(self, state: State, keys: IntArray, include: frozenset[Content]) -> Carried:
        """Return what is included of items of a state, item by item."""

    def stream(self, state: State, keys: IntArray) -> Iterator[Item]:
        """Yield items, read from the disk as they are asked for."""

    def stats(self) -> Stats:
        """Return the numbers of items and segments, and their sizes on disk."""

    def found(
        self, ids: list[Id], where: str, argument: str = "ids"
    ) -> tuple[State, dict[Id, int]]:
        """Return the keys of ids, and a state that has them all."""

    def check_segments(self, state: State) -> None:
        """Compare the files of segments with their checksums, at first use."""


class Writer(Protocol):
    """Changes a collection."""

    def insert(
        self,
        vectors: Vectors,
        ids: Id | Ids | Iterable[Id] | None,
        metadata: Rows | None,
        where: str,
        *,
        replace: bool,
    ) -> list[Id]:
        """Add items; `replace` puts them in place of others."""

    def delete(self, ids: Id | Ids, where: str) -> int:
        """Delete items; return how many."""

    def seal(self, progress: bool | None, *, merge: bool = True) -> int:
        """Make a segment of all waiting vectors; return how many it holds."""

    def compact(self, progress: bool | None) -> int:
        """Merge everything into one segment, without deleted items; return how many it holds."""

    def settle(self) -> None:
        """Seal what is due before everything is compared with everything."""

    def end(self, close: Callable[[], None], *, solve: bool) -> None:
        """Let sealing come to its end, and close; first `solve` for those who open it next."""
