"""The catalog: one SQLite file, the journal and the only commit point of a collection."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from memvec.collection._refusals import translated
from memvec.collection._settings import Settings
from memvec.errors import (
    CorruptIndexError,
    LockedError,
    MemvecError,
    StorageError,
    UnknownVersionError,
    damaged,
)
from memvec.storage import CATALOG

FORMAT_VERSION = 1
# "mvec" in ASCII: tells a collection's catalog from any other SQLite file.
_APPLICATION_ID = 0x6D766563

# An item keeps its row, marked, after it was deleted: what a reader found before still has a name.
# Its key is a number that is never used again; a replaced item gets a new one. Vectors lie in
# blobs of many rows with consecutive keys: one row per vector would be written at half the speed.
# Items that a repair has marked as deleted have no checksum.
_SCHEMA = """
CREATE TABLE settings (value TEXT NOT NULL, crc32 INTEGER);
CREATE TABLE state (
    change INTEGER NOT NULL, next_key INTEGER NOT NULL, next_segment INTEGER NOT NULL
);
CREATE TABLE items (
    key INTEGER PRIMARY KEY, id NOT NULL, metadata TEXT NOT NULL,
    deleted INTEGER NOT NULL DEFAULT 0, crc32 INTEGER
);
CREATE UNIQUE INDEX items_by_id ON items (id) WHERE deleted = 0;
CREATE INDEX items_deleted ON items (key) WHERE deleted = 1;
CREATE TABLE waiting (
    first_key INTEGER PRIMARY KEY, n_rows INTEGER NOT NULL, crc32 TEXT NOT NULL,
    vectors BLOB NOT NULL
);
CREATE TABLE segments (segment INTEGER PRIMARY KEY, n_rows INTEGER NOT NULL);
CREATE TABLE segment_files (
    segment INTEGER NOT NULL, file TEXT NOT NULL, size INTEGER NOT NULL, crc32 TEXT NOT NULL,
    PRIMARY KEY (segment, file)
) WITHOUT ROWID;
CREATE TABLE calibration (
    segment INTEGER NOT NULL, source INTEGER NOT NULL, crc32 TEXT NOT NULL, rows BLOB NOT NULL,
    PRIMARY KEY (segment, source)
) WITHOUT ROWID;
"""

_PAGE_BYTES = 4096
_LOG_PAGES = 4096

# Changes, keys and segments are counted up to here; damage alone leads to larger numbers.
LARGEST_NUMBER = 10**15
# Keys, and numbers of segments, of one shard of several: so many from a multiple of it on.
NUMBERS_OF_SHARD = 10**11

# Five seconds: readers of WAL wait for nobody except while the log is
# recovered after a crash.
_BUSY_SECONDS = 5.0

_Result = TypeVar("_Result")


class Numbers(NamedTuple):
    """How many changes were committed, and the numbers that are given next."""

    change: int
    next_key: int
    next_segment: int


class Catalog:
    """A connection, used by one thread at a time.

    Attributes
    ----------
    path : Path
        The file.
    lock : RLock
        Held by whoever uses the connection; also while a change is made in memory that goes with
        one in the catalog.
    ahead : bool
        Whether something may have been committed that is not seen in memory yet: an interrupt may
        come between the two.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.lock = threading.RLock()
        self.ahead = False
        self._connection = connection
        self._process = os.getpid()
        _OPEN[self] = inode(path)

    @classmethod
    def create(cls, folder: Path, settings: Settings) -> None:
        """Make the file, in one transaction."""
        path, text = folder / CATALOG, settings.to_json()
        with _OPENING, translated(path), closing(_connect(path, "rwc")) as connection:
            # Pages that deletes leave empty go back to the disk when `compact` asks for it.
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            # The write-ahead log: readers keep the state they began with while a writer commits,
            # and a commit is one sequential write and one fsync.
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
            connection.execute(
                "INSERT INTO settings VALUES (?, ?)", [text, zlib.crc32(text.encode())]
            )
            connection.execute("INSERT INTO state VALUES (0, 0, 1)")
            connection.execute("COMMIT")

    @classmethod
    def open_to_write(cls, folder: Path, *, scratch: bool = False) -> Catalog:
        """Open the file; the caller holds the writer's lock. Scratch waits for no disk."""
        path = folder / CATALOG
        with translated(path), cls._connected(path, "rw")._closed_on_failure() as catalog:
            connection = catalog._connection
            # FULL: the log is synced at each commit, so that what was acknowledged survives a loss
            # of power; NORMAL would only promise a consistent file.
            connection.execute(f"PRAGMA synchronous = {'OFF' if scratch else 'FULL'}")
            # 16 MiB in the log before it is moved into the file, rather than the usual 4: a batch
            # of 1,000 vectors of 384 dimensions takes 1.5 MiB, and moving syncs.
            connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
            # What a large transaction took beyond that goes back to the disk.
            connection.execute(f"PRAGMA journal_size_limit = {_LOG_PAGES * _PAGE_BYTES}")
            # Builds of SQLite differ in whether they overwrite what is deleted. Vectors that were
            # sealed would be written to the log once more, as zeros, before their pages are free.
            connection.execute("PRAGMA secure_delete = FAST")
            return catalog

    @classmethod
    def open_to_read(cls, folder: Path) -> Catalog:
        """Open the file without the right to write."""
        path = folder / CATALOG
        with translated(path):
            try:
                with cls._connected(path, "ro")._closed_on_failure() as catalog:
                    catalog._connection.execute("SELECT 1 FROM sqlite_master").fetchall()
                    return catalog
            except sqlite3.OperationalError:
                if _has_log(path):
                    raise
                # On a read-only disk SQLite cannot share its log; without a log it needs none.
                return cls._connected(path, "ro&immutable=1")

    @classmethod
    def _connected(cls, path: Path, mode: str) -> Catalog:
        with _OPENING:
            # SQLite remembers the locks of its process by file; a fork has the memory only.
            for other, number in list(_OPEN.items()):
                if path.exists() and number == inode(path):
                    other.check_process()
            return cls(path, _connect(path, mode))

    @contextmanager
    def _closed_on_failure(self) -> Iterator[Catalog]:
        try:
            yield self
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection; whatever was read through it stays as it is."""
        if self.is_inherited:
            return
        with self.lock:
            self._connection.close()
            with _OPENING:
                _OPEN.pop(self, None)

    def take(self, newer: Catalog) -> None:
        """Go on with the connection of another, and the state that it holds; it is closed."""
        with self.lock:
            with _OPENING:
                self._connection, newer._connection = newer._connection, self._connection
                _OPEN[self], _OPEN[newer] = _OPEN[newer], _OPEN[self]
            newer.close()

    @property
    def is_inherited(self) -> bool:
        """Whether another process opened it, of which this is a copy."""
        return os.getpid() != self._process

    def check_process(self) -> None:
        """Raise in a copy of the process that opened it, made by fork.

        Locks are not inherited: SQLite would write beside the parent, or read what it changes
        (https://www.sqlite.org/howtocorrupt.html, section 2.6).
        """
        if self.is_inherited:
            raise LockedError(
                errno.EAGAIN,
                f"{self.path.parent} was opened by process {self._process}, of which this is a "
                f"fork; open it after forking, or in a new process",
            )

    def check_open(self) -> None:
        """Raise where the connection was closed."""
        with translated(self.path):
            self._connection.total_changes  # noqa: B018 - which a closed one refuses to tell

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a question."""
        self.check_process()  # before the lock, which a thread of the parent may have held
        with self.lock, translated(self.path):
            return self._connection.execute(sql, parameters).fetchall()

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Run one statement."""
        self.check_process()
        with translated(self.path):
            self._connection.execute(sql, parameters)

    def execute_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run one statement for each row."""
        self.check_process()
        with translated(self.path):
            self._connection.executemany(sql, rows)

    def transact(self, work: Callable[[], _Result]) -> _Result:
        """Make all changes of a function, on the disk when it returns, or none of them.

        A context manager would be run by Python code outside of its own ``try``: an interrupt
        there would leave the transaction open, and the lock taken.
        """
        self.check_process()
        with self.lock:
            try:
                self.execute("BEGIN IMMEDIATE")
                result = work()
                self.execute("UPDATE state SET change = change + 1")
                self.numbers()  # what could not be opened again is not committed
                self._check_place()
                self.ahead = True
                self.execute("COMMIT")
                return result
            except BaseException:
                # A full disk makes SQLite roll back by itself.
                with suppress(MemvecError):
                    self.execute("ROLLBACK")
                raise

    def _check_place(self) -> None:
        """Raise where the file has lost its name: what is committed to it could not be read again.

        SQLite goes on writing to a file that was removed, or replaced by another one.
        """
        with suppress(OSError):
            if inode(self.path) == _OPEN.get(self):
                return
        reason = "It was removed or replaced while it was open"
        raise StorageError(errno.ESTALE, reason, str(self.path))

    @property
    def holds_state(self) -> bool:
        """Whether all that is read is of one state, as it is for a reader."""
        with translated(self.path):
            return self._connection.in_transaction

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let everything read in the block be of one committed state."""
        self.check_process()
        with self.lock:
            if self.holds_state:
                yield
                return
            self.hold()
            try:
                yield
            finally:
                self.release()

    def hold(self) -> None:
        """Keep the state that is committed now for all that is read from here on."""
        self.check_process()
        with self.lock:
            self.execute("BEGIN")
            self.rows("SELECT change FROM state")  # a transaction begins with its first read

    def release(self) -> None:
        """Let go of the state that is held."""
        with self.lock:
            self.execute("ROLLBACK")

    def empty_log(self) -> bool:
        """Move everything from the log into the file; False where a reader is in the way."""
        with self.lock:
            self.rows("PRAGMA busy_timeout = 0")  # readers may stay for hours
            [(busy, _, _)] = self.rows("PRAGMA wal_checkpoint(TRUNCATE)")
            self.rows(f"PRAGMA busy_timeout = {round(1000 * _BUSY_SECONDS)}")
        return bool(busy == 0)

    def give_back_pages(self, least: int) -> None:
        """Shrink the file by the pages that deletes have left empty, if there are so many."""
        with self.lock, translated(self.path):
            if self.number("PRAGMA freelist_count") < least:
                return
            # As a script: a plain statement is stepped once, which frees one page.
            self._connection.executescript("PRAGMA incremental_vacuum")
            self.empty_log()  # the file shrinks when the log is moved into it

    def settings(self) -> Settings:
        """Return what the collection was created with."""
        text, saved = self._only("SELECT value, crc32 FROM settings")
        found = zlib.crc32(str(text).encode())
        if saved is not None and found != saved:
            shown = f"{saved:08x}" if isinstance(saved, int) else repr(saved)
            reason = f"the checksum (CRC-32) of the settings is {found:08x}, saved was {shown}"
            raise damaged(self.path, reason)
        return Settings.from_json(text)

    def change(self) -> int:
        """Return the number of changes committed."""
        return self.numbers().change

    def numbers(self) -> Numbers:
        """Return the numbers of the state, checked."""
        found = Numbers(*self._only("SELECT change, next_key, next_segment FROM state"))
        if not all(isinstance(one, int) and 0 <= one <= LARGEST_NUMBER for one in found):
            raise damaged(
                self.path,
                f"its state is number {found.change!r}, the next key "
                f"{found.next_key!r}, the next segment {found.next_segment!r}",
            )
        return found

    def number(self, sql: str) -> int:
        """Return the one number that a question asks for."""
        [found] = self._only(sql)
        if not isinstance(found, int):
            raise damaged(self.path, f"{found!r} is not a number")
        return found

    def _only(self, sql: str) -> tuple[Any, ...]:
        match self.rows(sql):
            case [row]:
                return row
        raise damaged(self.path, "it does not hold one state")

    def check_format(self) -> bool:
        """Return False where the file is empty still; raise where it is not this format."""
        [(version,)] = self.rows("PRAGMA user_version")
        [(application,)] = self.rows("PRAGMA application_id")
        if application == 0 and version == 0 and not self.rows("SELECT 1 FROM sqlite_master"):
            return False
        if application != _APPLICATION_ID:
            raise CorruptIndexError(f"{self.path} is not the catalog of a collection.")
        if version != FORMAT_VERSION:
            raise UnknownVersionError(
                f"{self.path} is of format version {version}; "
                f"this memvec reads version {FORMAT_VERSION}."
            )
        self._refuse_programs()
        return True

    def _refuse_programs(self) -> None:
        """Raise where the file holds what SQLite would run: a collection has tables alone."""
        sql = """
            SELECT type, name FROM sqlite_master
            WHERE type NOT IN ('table', 'index') OR sql LIKE 'CREATE VIRTUAL%'
        """
        for kind, name in self.rows(sql):
            raise CorruptIndexError(
                f"{self.path} is not the catalog of a collection: it holds the {kind} {name!r}."
            )


# Where a process closes any descriptor of a file, POSIX drops all locks that it holds on the file,
# those of SQLite too (https://www.sqlite.org/howtocorrupt.html, section 2.2). So a catalog that is
# open here is not opened as a plain file; the lock is held by those who open it in either way.
_OPENING = threading.RLock()
_OPEN: weakref.WeakKeyDictionary[Catalog, tuple[int, int]] = weakref.WeakKeyDictionary()


def inode(path: Path) -> tuple[int, int]:
    """Return what tells a file from every other, whatever its name."""
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _has_log(path: Path) -> bool:
    """Return whether the log holds anything; readers leave an empty one behind."""
    log = path.with_name(f"{CATALOG}-wal")
    return log.exists() and log.stat().st_size > 0


@contextmanager
def plain_file(path: Path) -> Iterator[bool]:
    """Say whether the file may be opened and closed in the block: no catalog here has it open."""
    with _OPENING:
        yield not path.exists() or inode(path) not in list(_OPEN.values())


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    # Transactions are begun and ended in so many words; the lock keeps threads apart.
    connection = sqlite3.connect(
        uri, uri=True, isolation_level=None, check_same_thread=False, timeout=_BUSY_SECONDS
    )
    # A schema that somebody else wrote runs nothing.
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection
