"""What was computed once: kept up to a number of bytes, whichever thread asks."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

# What an entry takes besides its arrays: key, objects, and the place in the table.
_ENTRY_BYTES = 2048


class Cache(Generic[Key, Value]):
    """Values by key; those used longest ago go where all together are too large.

    Parameters
    ----------
    most_bytes : int
        What all values may take. The one made last is kept even if it alone takes more.
    size_of : callable, optional
        Returns the bytes of a value's arrays; none by default, for values that are small.

    Examples
    --------
    >>> squares = Cache(most_bytes=1 << 20)
    >>> squares.get(3, lambda: 9), squares.get(3, lambda: 10)
    (9, 9)
    """

    def __init__(self, most_bytes: int, size_of: Callable[[Value], int] = lambda value: 0) -> None:
        self._most_bytes = most_bytes
        self._size_of = size_of
        self._entries: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._lock = threading.Lock()
        self._gone: deque[Callable[[Key], bool]] = deque()

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """Return the value of a key, made now unless it is kept.

        Values are made without the lock, so that making one may ask for others. Of threads that
        make the same one at once, the first is kept and all get it.
        """
        entry = self._used(key)
        if entry is None:
            made = make()
            new = made, _ENTRY_BYTES + self._size_of(made)
            with self._lock:
                entry = self._entries.setdefault(key, new)
                self._shrink()
            self._forget()
        return entry[0]

    def drop(self, gone: Callable[[Key], bool]) -> None:
        """Give up the values of some keys.

        It may be called while an object dies, at any instruction of any thread, and so waits for no
        lock: where another call holds it, the values go when that call ends.
        """
        self._gone.append(gone)
        self._forget()

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def keys(self) -> list[Key]:
        """Of all that is kept, what was used longest ago first."""
        # An OrderedDict looks each key up as it is read, and others must not change it meanwhile.
        with self._lock:
            return list(self._entries)

    @property
    def items(self) -> list[tuple[Key, Value]]:
        """All that is kept, with its keys, in the same order."""
        with self._lock:
            return [(key, value) for key, (value, _) in self._entries.items()]

    @property
    def n_bytes(self) -> int:
        """What all values take, by the sizes that were given."""
        with self._lock:
            return self._total()

    def _total(self) -> int:
        return sum(size for _, size in self._entries.values())

    def _used(self, key: Key) -> tuple[Value, int] | None:
        """Return what is kept, as what was used last."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
        if self._gone:
            self._forget()
        return entry

    def _shrink(self) -> None:
        while self._total() > self._most_bytes and len(self._entries) > 1:
            self._entries.popitem(last=False)

    def _forget(self) -> None:
        """Remove what was dropped; nobody else changes entries meanwhile.

        Python runs other threads whenever it hashes or compares keys: a value that went then was
        missing in the midst of a loop over all.
        """
        while self._gone and self._lock.acquire(blocking=False):
            try:
                if self._gone:  # or another thread has been quicker
                    gone = self._gone.popleft()
                    for key in [key for key in self._entries if gone(key)]:
                        del self._entries[key]
            finally:
                self._lock.release()


__all__ = ["Cache"]
