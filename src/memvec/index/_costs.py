"""What the steps of a search cost, in nanoseconds: the design step reads it, and never a clock."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memvec import checks
from memvec.errors import FileFormatError, MemvecError, UnknownVersionError

# What the table's fields mean; files of another version are refused.
_VERSION = 3
_FORMAT = "memvec machine costs"
# Codes that a search counts before it looks which of them passed.
_RUN_LENGTH = 64


# Shadow queries may take this share of the time, and be this share of the queries.
_SHADOW_TIME = _MOST_SHADOWS = 0.02
# What a comparison takes however few vectors there are, in nanoseconds.
_LEAST_COMPARISON = 150e3
# What a scan takes for each vector besides reading it, in nanoseconds.
_EACH = 10.0
# What a whole code takes besides its words where it is in cache, in nanoseconds.
_SCATTERED = 6.0
_FLOAT_BYTES, _WORD_BYTES = 4, 8


@dataclass(frozen=True)
class MachineCosts:
    """A table of costs; another machine's can be passed to ``Index.build(machine=…)``.

    ``memvec bench --profile --json FILE`` measures one. The built-in table is that of an AMD Zen 4
    server with AVX-512.

    Attributes
    ----------
    version : int
        Which table this is.
    query : float
        What every search of one query costs whatever the index: the call and the rotation.
    code : float
        What a unit's code costs besides its words.
    word : float
        Comparing one word of 64 bits of a unit's code with the query, in cache.
    memory_word : float
        The same where the codes of units are read from memory.
    cache : float
        Bytes of codes that stay in cache from one query to the next.
    run : float
        Looking which codes of a run of 64 passed, where one did.
    visit : float
        Going to the members of a unit that passed.
    member_word : float
        Comparing one of the first words of a member's code.
    member_code : float
        Reading the whole code of a member whose first words passed from memory, and comparing it.

    Examples
    --------
    >>> costs = MachineCosts(code=0.2, word=0.2, memory_word=0.6, cache=16e6)
    >>> costs.scan(1000, 4)
    1000.0
    """

    version: int = _VERSION
    query: float = 14_700.0
    code: float = 0.36
    word: float = 0.19
    memory_word: float = 0.56
    cache: float = 14e6
    run: float = 150.0
    visit: float = 40.0
    member_word: float = 0.40
    member_code: float = 55.0

    def __post_init__(self) -> None:
        where = "MachineCosts"
        if checks.integer(self.version, "version", where) != _VERSION:
            raise UnknownVersionError(
                f"A table of costs of version {self.version} cannot be used: this memvec knows "
                f"version {_VERSION}."
            )
        for name in COST_NAMES:
            value = getattr(self, name)
            checks.real(value, name, where, low=0.0, low_open=True, high_open=True)

    def scan(self, n_codes: float, n_words: int) -> float:
        """Return the nanoseconds of testing so many codes of units."""
        from_memory = self._from_memory(n_codes * n_words * _WORD_BYTES)
        word = self.word + from_memory * (self.memory_word - self.word)
        return n_codes * (self.code + n_words * word)

    def row(self, n_bytes: float, n_rows: float = math.inf) -> float:
        """Return the nanoseconds of reading and comparing one of so many rows, of so many bytes."""
        from_memory = self._from_memory(n_bytes * n_rows)
        word = self.word + from_memory * (self.memory_word - self.word)
        return _EACH + n_bytes / _WORD_BYTES * word

    def whole_code(self, n_words: float, n_codes: float) -> float:
        """Return the nanoseconds of reading and comparing the whole code of one of many members."""
        cached = min(self.member_code, _SCATTERED + n_words * self.word)
        from_memory = self._from_memory(n_codes * n_words * _WORD_BYTES)
        return cached + from_memory * (self.member_code - cached)

    def _from_memory(self, size: float) -> float:
        """Return the share that is read from memory of so many bytes.

        What exceeds the cache pushes itself out of it: the share is 1 − (cache/size)². At twice the
        cache three quarters were seen.
        """
        return max(0.0, 1.0 - (self.cache / size) ** 2)

    def visits(
        self, n_codes: float, passed: float, members: float, n_words: int, *, together: float = 1.0
    ) -> float:
        """Return the nanoseconds of finding the share of units that passed and testing members.

        Parameters
        ----------
        n_codes, passed : float
            Units tested, and the share of them that passes.
        members : float
            Members of a unit.
        n_words : int
            Words of a member's code that are tested.
        together : float, default 1
            How many units that pass lie side by side; 1 where each passes by itself.
        """
        visit = self.visit + members * n_words * self.member_word
        return busy_runs(n_codes, passed / together) * self.run + n_codes * passed * visit

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the table as JSON.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     MachineCosts(visit=50.0).write(folder + "/mine.json")
        ...     MachineCosts.read(folder + "/mine.json").visit
        50.0
        """
        costs = {name: getattr(self, name) for name in COST_NAMES}
        document = {"format": _FORMAT, "version": self.version, "costs": costs}
        Path(path).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> MachineCosts:
        """Read a table that :meth:`write` wrote, for ``Index.build(machine=…)``."""
        document = _document(path)
        if document.get("version") != _VERSION:
            raise UnknownVersionError(
                f"{os.fspath(path)} holds a table of costs of version {document.get('version')!r}; "
                f"this memvec reads version {_VERSION}."
            )
        costs = document.get("costs")
        if not isinstance(costs, dict) or sorted(costs) != sorted(COST_NAMES):
            raise FileFormatError(
                f"{os.fspath(path)} must give exactly these costs: {', '.join(COST_NAMES)}."
            )
        try:
            return cls(**costs)
        except MemvecError as error:
            raise FileFormatError(f"{os.fspath(path)} holds an invalid cost. {error}") from None


COST_NAMES = tuple(
    field.name for field in dataclasses.fields(MachineCosts) if field.name != "version"
)


def busy_runs(n_codes: float, passed: float) -> float:
    """Return how many runs of 64 codes hold one that passes, where each does by itself."""
    return n_codes / _RUN_LENGTH * (1.0 - (1.0 - passed) ** _RUN_LENGTH)


def _document(path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise FileFormatError(f"{os.fspath(path)} is not a readable JSON file: {error}.") from None
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise FileFormatError(f"{os.fspath(path)} is not a table of machine costs.")
    return found


def shadow_share(microseconds: float | None, n_vectors: int, dim: int) -> float:
    """Return the share of queries to compare by default: at most 2 % of the time.

    No clock is read: both times are those of the cost model.

    Parameters
    ----------
    microseconds : float or None
        The time of a search, as it was designed for; None takes the least that any search takes.
    n_vectors, dim : int
        What an exhaustive search reads.
    """
    costs = MachineCosts()
    search = costs.query if microseconds is None else 1e3 * microseconds
    scan = max(_LEAST_COMPARISON, n_vectors * costs.row(dim * _FLOAT_BYTES))
    return min(_MOST_SHADOWS, _SHADOW_TIME * search / scan)
