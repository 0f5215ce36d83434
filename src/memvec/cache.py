"""What was computed once: kept up to a number of bytes, whichever thread asks."""

from __future__ import annotations

import threading
from collections import OrderedDict
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
        self._n_bytes = 0
        # Of the kind that one thread may take twice: a value that goes may take others along.
        self._lock = threading.RLock()

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """Return the value of a key, made now unless it is kept.

        Values are made without the lock, so that making one may ask for others. Of threads that
        make the same one at once, the first is kept and all get it.
        """
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                return self._entries[key][0]
        made = make()
        with self._lock:
            if key not in self._entries:
                size = _ENTRY_BYTES + self._size_of(made)
                self._entries[key] = made, size
                self._n_bytes += size
            value = self._entries[key][0]
            self._shrink()
        return value

    def drop(self, gone: Callable[[Key], bool]) -> None:
        """Give up the values of some keys."""
        with self._lock:
            for key in [key for key in self._entries if gone(key)]:
                self._n_bytes -= self._entries.pop(key)[1]

    def __contains__(self, key: Key) -> bool:
        with self._lock:
            return key in self._entries

    def __len__(self) -> int:
        with self._lock:
            return len(self._entries)

    @property
    def n_bytes(self) -> int:
        """What all values take, by the sizes that were given."""
        return self._n_bytes

    def _shrink(self) -> None:
        while self._n_bytes > self._most_bytes and len(self._entries) > 1:
            _, (_, size) = self._entries.popitem(last=False)
            self._n_bytes -= size


__all__ = ["Cache"]
