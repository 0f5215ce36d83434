"""A search of a shard and its answer as bytes, which Ray sends without looking into them.

Ray packs bytes several times as fast as other objects, and a fan-out sends one message to each
shard. Answers that are not small stay with the shard, and are fetched piece by piece.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from memvec.collection import Sought
from memvec.guarantee import Request, Thresholds
from memvec.kernels import blocks
from memvec.matches import Matches

Array: TypeAlias = np.ndarray[Any, Any]
#: What a shard finds: matches, the number of its newest state, and the ids of some keys.
Answer: TypeAlias = tuple[Matches, int, dict[int, Any]]
# Larger answers are cheaper to send as arrays, which Ray does not copy.
_MOST_BYTES = 50_000
#: Bytes of a larger answer that are sent at a time.
PIECE_BYTES = 4 << 20
# Kernels are compiled for arrays that begin at a multiple of this.
_ALIGNED = 16


class Held(NamedTuple):
    """An answer that a shard holds, to be fetched piece by piece.

    Attributes
    ----------
    token : str
        What the shard knows it by.
    newest : int
        Names the newest state of the shard.
    ids : dict
        The ids of some keys.
    shapes : list of (str, list of int)
        Type and shape of each array of the matches.
    """

    token: str
    newest: int
    ids: dict[int, Any]
    shapes: list[tuple[str, list[int]]]


def packed_find(rows: Array, sought: Sought) -> bytes:
    """Return a search as bytes, the same for all shards: without state, filter and allowed rows."""
    lines = sought.thresholds
    fields = [sought.similarity, list(sought.request), sought.threads, sought.everything]
    return _packed(fields, [rows] if lines is None else [rows, lines.at, lines.slack])


def unpacked_find(message: bytes, change: int, allowed: bytes | None) -> tuple[Array, Sought]:
    """Return queries, and what is sought for them in a state."""
    [similarity, request, threads, everything], [rows, *arrays] = _unpacked(message)
    lines = _lines_of(*((one.tobytes(), one.shape) for one in arrays)) if arrays else None
    return rows, Sought(
        change, similarity, lines, Request(*request), None, threads, allowed, everything
    )


@lru_cache(maxsize=64)
def _lines_of(at: tuple[bytes, Any], slack: tuple[bytes, Any]) -> Thresholds:
    """Return thresholds, those of a message before where they are the same: kernels have them."""
    return Thresholds(*(np.frombuffer(content).reshape(shape) for content, shape in (at, slack)))


def is_small(answer: Answer) -> bool:
    """Tell whether an answer is sent as a whole."""
    return sum(one.nbytes for one in _arrays(answer[0])) <= _MOST_BYTES


def packed_answer(answer: Answer) -> bytes:
    """Return what a search found as bytes."""
    found, newest, ids = answer
    return _packed([newest, list(ids), list(ids.values())], _arrays(found))


def unpacked_answer(message: bytes) -> Answer:
    """Return what a search found."""
    [newest, keys, names], arrays = _unpacked(message)
    return Matches(*arrays), newest, dict(zip(keys, names, strict=True))


def held_answer(token: str, answer: Answer) -> Held:
    """Return what is told of an answer that is fetched piece by piece."""
    found, newest, ids = answer
    shapes = [(one.dtype.str, list(one.shape)) for one in _arrays(found)]
    return Held(token, newest, ids, shapes)


def pieces_of(answer: Answer) -> Iterator[Array]:
    """Yield the bytes of the matches of an answer, array after array."""
    for array in _arrays(answer[0]):
        flat = _bytes_of(np.ascontiguousarray(array))
        for start, stop in blocks(len(flat), PIECE_BYTES):
            yield flat[start:stop]


def gathered(held: Held, pieces: Iterator[Array]) -> Answer | None:
    """Return an answer from its pieces, of which one is in memory at a time; None if some lack."""
    arrays = [np.empty(shape, dtype=np.dtype(kind)) for kind, shape in held.shapes]
    for array in arrays:
        flat, filled = _bytes_of(array), 0
        while filled < len(flat):
            piece = next(pieces, None)
            if piece is None:
                return None
            flat[filled : filled + len(piece)] = piece
            filled += len(piece)
    return Matches(*arrays), held.newest, held.ids


def _arrays(found: Matches) -> list[Array]:
    return [found.offsets, found.ids, found.scores, found.spent]


def _bytes_of(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)


def _packed(fields: list[Any], arrays: Sequence[Array]) -> bytes:
    """Return plain values and arrays as bytes: a header in JSON, its length before it."""
    shapes = [(one.dtype.str, one.shape) for one in arrays]
    header = json.dumps([fields, shapes]).encode()
    parts = [len(header).to_bytes(_ALIGNED, "little"), header]
    for array in arrays:
        parts += [bytes(-len(parts[-1]) % _ALIGNED), array.tobytes()]
    return b"".join(parts)


def _unpacked(message: bytes) -> tuple[list[Any], list[Array]]:
    """Return plain values and arrays, which are views of the message."""
    end = _ALIGNED + int.from_bytes(message[:_ALIGNED], "little")
    fields, shapes = json.loads(message[_ALIGNED:end])
    arrays = []
    for kind, shape in shapes:
        start = end + -end % _ALIGNED
        dtype, count = np.dtype(kind), math.prod(shape)
        end = start + count * dtype.itemsize
        arrays.append(np.frombuffer(message, dtype, count, start).reshape(shape))
    return fields, arrays
