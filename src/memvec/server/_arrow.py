"""Arrow streams: vectors that come, answers that go."""

from __future__ import annotations

import json
import struct
from typing import Any, NamedTuple

import numpy as np

from memvec.collection import MatchBlock
from memvec.errors import MissingExtraError
from memvec.server._failures import ApiError
from memvec.types import Float32Array

ARROW = "application/vnd.apache.arrow.stream"
# Places in the tables of Arrow's format: a message's kind and its header, a batch's compression.
_HEADER_KIND, _HEADER, _COMPRESSION = 1, 2, 3
_RECORD_BATCH = 3


class VectorTable(NamedTuple):
    """What a stream holds: vectors, and what may come with them."""

    vectors: Float32Array
    ids: list[int | str] | None
    metadata: list[dict[str, Any] | None] | None


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.ipc
    except ImportError:
        raise MissingExtraError("Arrow over HTTP", "pyarrow", "files") from None
    return pyarrow


def read_vectors(data: bytes) -> VectorTable:
    """Return the columns ``vector``, ``id`` and ``metadata`` (JSON text) of a stream."""
    pyarrow = _pyarrow()
    try:
        _refuse_compressed(data)
        table = pyarrow.ipc.open_stream(data).read_all()
        if table.num_rows > len(data):  # rows that take no bytes would take memory here
            raise ValueError(f"{table.num_rows:,} rows in {len(data):,} bytes")
        table.validate(full=True)
    except (pyarrow.ArrowException, OSError, ValueError, struct.error, IndexError) as error:
        raise ApiError(422, "invalid_value", f"The body is not an Arrow stream: {error}") from None
    names = table.schema.names
    if names.count("vector") != 1:
        raise ApiError(422, "invalid_value", "The Arrow stream needs one column 'vector'.")
    vectors = _matrix(pyarrow, table.column("vector").combine_chunks())
    ids = table.column("id").to_pylist() if names.count("id") == 1 else None
    metadata = None
    if names.count("metadata") == 1:
        metadata = _parsed(table.column("metadata").to_pylist())
    return VectorTable(vectors, ids, metadata)


def _matrix(pyarrow: Any, column: Any) -> Float32Array:
    kind = column.type
    lists = pyarrow.types.is_list(kind) or pyarrow.types.is_fixed_size_list(kind)
    if not lists or not pyarrow.types.is_floating(kind.value_type) or column.null_count:
        text = f"The column 'vector' must hold lists of floats, none null. Got {kind} instead."
        raise ApiError(422, "invalid_value", text)
    flat = column.flatten()
    n_rows = len(column)
    if flat.null_count or not n_rows or len(flat) % n_rows:
        raise ApiError(422, "invalid_value", "The vectors must be complete, and of one length.")
    lengths = pyarrow.compute.list_value_length(column).unique()
    if len(lengths) != 1 or not len(flat):
        raise ApiError(422, "invalid_value", "The vectors must be complete, and of one length.")
    made = flat.to_numpy(zero_copy_only=False).astype(np.float32).reshape(n_rows, -1)
    return np.asarray(made)


def _parsed(texts: list[Any]) -> list[dict[str, Any] | None]:
    try:
        found = [None if text is None else json.loads(text) for text in texts]
    except (ValueError, TypeError, RecursionError) as error:
        raise ApiError(
            422, "invalid_value", f"The column 'metadata' is not JSON: {error}"
        ) from None
    return found


def _refuse_compressed(data: bytes) -> None:
    """Raise where a batch is compressed: a few bytes can be gigabytes behind it."""
    place = 0
    while place + 8 <= len(data):
        size = struct.unpack_from("<i", data, place)[0]
        start = place + 4
        if size == -1:
            size = struct.unpack_from("<i", data, place + 4)[0]
            start = place + 8
        if size <= 0:
            return
        root = start + struct.unpack_from("<I", data, start)[0]
        body = _field(data, root, 3)
        length = 0 if body is None else struct.unpack_from("<q", data, body)[0]
        kind = _field(data, root, _HEADER_KIND)
        header = _field(data, root, _HEADER)
        if kind is None or header is None or length < 0:
            raise ValueError("a message has no header")
        if data[kind] == _RECORD_BATCH:
            batch = header + struct.unpack_from("<I", data, header)[0]
            if _field(data, batch, _COMPRESSION) is not None:
                raise ApiError(415, "compressed", "Compressed bodies are not accepted.")
        elif data[kind] != 1:
            raise ValueError("only a schema and record batches are accepted")
        place = start + size + length


def _field(data: bytes, table: int, number: int) -> int | None:
    """Return where a field of a table of FlatBuffers is; None where it has its default."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    if vtable < 0:
        raise ValueError("a table lies outside")
    size = struct.unpack_from("<H", data, vtable)[0]
    if 4 + 2 * number >= size:
        return None
    offset = struct.unpack_from("<H", data, vtable + 4 + 2 * number)[0]
    return table + offset if offset else None


class ArrowMatches:
    """Writes matches as a stream of batches; the last one carries the certificate.

    Columns are ``query``, ``id`` (text, null where the id is an integer), ``number`` (integer,
    null where it is text) and ``score``.
    """

    def __init__(self) -> None:
        self._pyarrow = pyarrow = _pyarrow()
        self._sink = _Sink()
        self._schema = pyarrow.schema(
            [
                ("query", pyarrow.int64()),
                ("id", pyarrow.string()),
                ("number", pyarrow.int64()),
                ("score", pyarrow.float32()),
            ]
        )
        self._file = pyarrow.PythonFile(self._sink, mode="w")
        self._writer = pyarrow.ipc.new_stream(self._file, self._schema)

    def block(self, found: MatchBlock) -> bytes:
        """Return some matches."""
        ids = found.ids.tolist()
        texts = [name if isinstance(name, str) else None for name in ids]
        numbers = [None if isinstance(name, str) else name for name in ids]
        arrays = [found.queries, texts, numbers, found.scores.astype(np.float32)]
        pairs = zip(arrays, self._schema.types, strict=True)
        columns = [self._pyarrow.array(values, kind) for values, kind in pairs]
        self._writer.write_batch(self._pyarrow.record_batch(columns, schema=self._schema))
        return self._sink.taken()

    def end(self, record: str) -> bytes:
        """Return the last batch, empty, with the certificate in its metadata."""
        empty = self._pyarrow.record_batch(
            [self._pyarrow.array([], kind) for kind in self._schema.types], schema=self._schema
        )
        self._writer.write_batch(empty, custom_metadata={"certificate": record})
        self._writer.close()
        return self._sink.taken()


class _Sink:
    """A file in memory that is emptied as it is written."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, piece: Any) -> int:
        data = bytes(piece)
        self._pieces.append(data)
        return len(data)

    def flush(self) -> None:
        """Do nothing: what is written is there."""

    def close(self) -> None:
        """Do nothing."""

    def taken(self) -> bytes:
        """Return what was written since the last time."""
        found, self._pieces = b"".join(self._pieces), []
        return found
