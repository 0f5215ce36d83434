"""Vectors of photographs seen before, by the content of their files."""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path
from typing import Self

import numpy as np

from memvec.errors import FileFormatError
from memvec.images._descriptor import ImageDescriptor, fingerprint, software
from memvec.storage import disk
from memvec.types import Float32Array

_WAIT_SECONDS = 60.0
_NORM_TOLERANCE = 1e-5


class DescriptorCache:
    """A file of vectors, by content and descriptor. Any number of threads may use it.

    Renamed and copied files are found again, changed ones are not. The cache may be deleted at any
    time: vectors are then computed again.

    Examples
    --------
    >>> import tempfile
    >>> from memvec.images import Triangulation
    >>> rows = np.random.default_rng(0).standard_normal((600, 8))
    >>> descriptor = Triangulation.fit([rows], n_words=4)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with DescriptorCache(f"{folder}/cache.sqlite", descriptor) as cache:
    ...         cache.put("digest of a file", np.eye(24, dtype=np.float32)[0])
    ...         cache.get("digest of a file").sum()
    np.float32(1.0)
    """

    def __init__(self, path: str | os.PathLike[str], descriptor: ImageDescriptor) -> None:
        self._path = Path(path)
        for ending in ("", "-wal", "-shm", "-journal"):
            disk.check_file(self._path.with_name(f"{self._path.name}{ending}"))
        self._model = f"{fingerprint(descriptor)} {software()}"
        self._dim = descriptor.dim
        self._lock = threading.Lock()
        try:
            self._connection = _connect(self._path)
        except sqlite3.Error as error:
            raise self._damaged(error) from None

    def get(self, digest: str) -> Float32Array | None:
        """Return the vector of a file with this digest, or None."""
        query = "SELECT vector FROM vectors WHERE model = ? AND content = ?"
        try:
            with self._lock:
                row = self._connection.execute(query, (self._model, digest)).fetchone()
        except sqlite3.Error as error:
            raise self._damaged(error) from None
        if row is None or len(row[0]) != 4 * self._dim:
            return None
        vector = np.frombuffer(row[0], dtype="<f4").astype(np.float32)
        # Anything else than a unit vector was not put there by `put`.
        return vector if abs(float(np.linalg.norm(vector)) - 1) < _NORM_TOLERANCE else None

    def put(self, digest: str, vector: Float32Array) -> None:
        """Keep a vector."""
        blob = np.asarray(vector, dtype="<f4").tobytes()
        try:
            with self._lock:
                self._connection.execute(
                    "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", (self._model, digest, blob)
                )
        except sqlite3.Error as error:
            raise self._damaged(error) from None

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _damaged(self, error: sqlite3.Error) -> FileFormatError:
        return FileFormatError(
            f"{self._path} cannot be used as a cache ({error}); it may be deleted."
        )


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=_WAIT_SECONDS, check_same_thread=False, isolation_level=None
    )
    try:
        # A lost cache costs time, not data: no need to wait for the disk at each vector.
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS vectors (model TEXT, content TEXT, vector BLOB, "
            "PRIMARY KEY (model, content)) WITHOUT ROWID"
        )
    except sqlite3.Error:
        connection.close()
        raise
    return connection
