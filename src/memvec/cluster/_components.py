"""Connected components by rounds, over parts of the nodes that each fit into memory.

Each round is a large star and a small star (Kiveris, Lattanzi, Mirrokni, Rastogi and Vassilvitskii,
"Connected components in MapReduce and beyond", SoCC 2014). In a large star, each node connects its
larger neighbours with the smallest of its neighbours and itself; in a small star, it connects its
smaller neighbours and itself with the smallest of them. Once neither changes an edge, every node
has one edge, to the smallest of its component. A worker owns a range of the nodes: it holds the
smallest neighbour of each in memory, and reads the edges, however many one node has, in blocks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from memvec import checks
from memvec.errors import damaged
from memvec.kernels import blocks
from memvec.lazy import sparse
from memvec.types import IntArray

Size: TypeAlias = Literal["large", "small"]
#: Calls a function with several lists of arguments, and returns what each call returns, in order.
Run: TypeAlias = Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], list[Any]]

#: How many edges there are, and the sum of a mixture of each: what is read must be what was sent.
Tally: TypeAlias = tuple[int, int]
_NOTHING: Tally = (0, 0)
_WHERE = "memvec.cluster.components"
# Names of the files that rounds write.
_OWN = re.compile(r"(edges-[0-9]{3,}-[0-9]{5,}-[0-9]{6,}|labels-[0-9]{5,})\.i64(\.tmp)?")
# Odd, so that no bit of a node is lost: of the golden ratio, and of xxHash.
_MIXED = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)

# Edges that are read, contracted and sorted at a time: a few arrays of 16 MB.
_EDGES_AT_ONCE = 1 << 20


class Rounds(NamedTuple):
    """Nodes, their parts, and the folder of the edges.

    Attributes
    ----------
    folder : str
        Gets the edges of each step, by the part they go to and the piece they come from.
    n_nodes : int
        How many there are.
    n_parts : int
        How many ranges of nodes there are.
    """

    folder: str
    n_nodes: int
    n_parts: int

    @property
    def width(self) -> int:
        """Nodes of a part."""
        return max(1, -(-self.n_nodes // self.n_parts))

    def part(self, number: int) -> tuple[int, int]:
        """Return the first node of a part and the one behind its last."""
        low = min(number * self.width, self.n_nodes)
        return low, min(low + self.width, self.n_nodes)

    def file(self, step: int, part: int, piece: int) -> Path:
        """Return the file of the edges that a piece of a step sends to a part."""
        return Path(self.folder) / f"edges-{step:03d}-{part:05d}-{piece:06d}.i64"

    def edges(self, step: int, part: int, sent: Tally) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield the edges that were sent to a part: nodes of the part, and their neighbours.

        Raises where they are not those that were sent.
        """
        low, high = self.part(part)
        found = _NOTHING
        for path in sorted(Path(self.folder).glob(f"edges-{step:03d}-{part:05d}-*.i64")):
            for own, other in _edges_in(str(path), self.n_nodes):
                if own.min() < low or own.max() >= high:
                    raise damaged(path, f"it has nodes that are not among {low} to {high - 1}")
                found = _added(found, _tally(own, other))
                yield own, other
        if found != sent:
            reason = f"{found[0]:,} edges of part {part} were read, and {sent[0]:,} other ones sent"
            raise damaged(self.folder, reason)


def components(
    n_nodes: int, files: Sequence[str], folder: str, n_parts: int, run: Run
) -> list[str]:
    """Find the smallest node of each node's component; return files of them, in order.

    Parameters
    ----------
    n_nodes : int
        Number of nodes, which are numbered from 0.
    files : sequence of str
        Files of edges: pairs of int64.
    folder : str
        The folder for working files and the result: new, empty, or used by an earlier call.
    n_parts : int
        Number of ranges of nodes that are processed separately. The result does not depend on it.
    run : callable
        Calls a function with several lists of arguments, in parallel or one after the other.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.array([[3, 1], [4, 0], [1, 2]]).tofile(folder + "/edges")
    ...     run = lambda function, calls: [function(*one) for one in calls]
    ...     [found] = components(6, [folder + "/edges"], folder + "/work", 1, run)
    ...     np.fromfile(found, dtype=np.int64).tolist()
    [0, 1, 1, 1, 0, 5]
    """
    n_nodes = checks.integer(n_nodes, "n_nodes", _WHERE, minimum=0)
    n_parts = checks.integer(n_parts, "n_parts", _WHERE)
    _emptied(checks.path(folder, "folder", _WHERE))
    rounds = Rounds(folder, n_nodes, n_parts)
    parts, step, changed = range(n_parts), 0, True
    calls = [(rounds, piece, file) for piece, file in enumerate(files)]
    sent = _sent_to(parts, run(_spread, calls))
    while changed:
        large = run(_star, [(rounds, step, part, "large", sent[part]) for part in parts])
        to_small = _sent_to(parts, [one.sent for one in large])
        small = run(_star, [(rounds, step + 1, part, "small", to_small[part]) for part in parts])
        sent = _sent_to(parts, [one.sent for one in small])
        step += 2
        changed = sum(one.changed for one in (*large, *small)) > 0
        for old in (step - 2, step - 1):
            # What the last small star read tells the components.
            if changed or old < step - 1:
                _remove(rounds, old)
    found: list[str] = run(_labels, [(rounds, step - 1, part, to_small[part]) for part in parts])
    for old in (step - 1, step):
        _remove(rounds, old)
    return found


def _emptied(folder: Path) -> None:
    """Make a folder, without what a call before has left there; raise where it holds more."""
    folder.mkdir(parents=True, exist_ok=True)
    names = sorted(os.listdir(folder))
    for name in names:
        if not _OWN.fullmatch(name):
            expected = "a new or empty folder, or one that an earlier call has used"
            got = f"{folder}, which holds {name!r}"
            raise checks.bad_value("folder", _WHERE, expected, got)
    for name in names:
        (folder / name).unlink()


class Star(NamedTuple):
    """What a part of a star has done: how many edges it changed, and what it sent to each part."""

    changed: int
    sent: dict[int, Tally]


def _sent_to(parts: Sequence[int], sent: Sequence[dict[int, Tally]]) -> list[Tally]:
    """Return what was sent to each part by all calls of a step together."""
    totals = [_NOTHING for _ in parts]
    for one in sent:
        for part, tally in one.items():
            totals[part] = _added(totals[part], tally)
    return totals


def _tally(own: IntArray, other: IntArray) -> Tally:
    mixed = own.view(np.uint64) * _MIXED[0] + other.view(np.uint64) * _MIXED[1]
    mixed ^= mixed >> np.uint64(29)
    return len(own), int((mixed * _MIXED[0]).sum(dtype=np.uint64))


def _added(one: Tally, other: Tally) -> Tally:
    return one[0] + other[0], (one[1] + other[1]) % (1 << 64)


def _spread(rounds: Rounds, piece: int, file: str) -> dict[int, Tally]:
    """Contract the edges of a file, block by block, and send them to the parts of both ends."""
    sending = _Sending(rounds, 0, piece)
    with sending as send:
        for left, right in _edges_in(file, rounds.n_nodes):
            high, low = _contracted(left, right)
            send(high, low)
            send(low, high)
    return sending.sent


def _contracted(left: IntArray, right: IntArray) -> tuple[IntArray, IntArray]:
    """Return one edge for each node of some edges, to the smallest that they connect it with."""
    nodes, ends = np.unique(np.concatenate([left, right]), return_inverse=True)
    a, b = np.split(ends, 2)
    matrix = sparse.coo_matrix((np.ones(len(a), np.int8), (a, b)), shape=(len(nodes),) * 2)
    _, of_node = sparse.csgraph.connected_components(matrix, directed=False)
    # Nodes rise: the first of a component is its smallest.
    _, first = np.unique(of_node, return_index=True)
    smallest = nodes[first[of_node]]
    connected = smallest != nodes
    return nodes[connected], smallest[connected]


def _star(rounds: Rounds, step: int, part: int, size: Size, sent: Tally) -> Star:
    """Do one part of a star, with the edges that were sent to it."""
    low, high = rounds.part(part)
    smallest = np.arange(low, high)
    has_edge = np.zeros(high - low, dtype=bool)
    for own, other in rounds.edges(step, part, sent):
        np.minimum.at(smallest, own - low, other)
        has_edge[own - low] = True
    changed = 0
    sending = _Sending(rounds, step + 1, part)
    with sending as send:
        for own, other in rounds.edges(step, part, sent):
            target = smallest[own - low]
            if size == "large":
                some = other > own
                changed += int(np.count_nonzero(target[some] != own[some]))
                send(other[some], target[some])
            else:
                some = other != target
                changed += int(np.count_nonzero(some))
                send(other[some], target[some])
                send(target[some], other[some])
        if size == "small":
            for start, stop in blocks(high - low, _EDGES_AT_ONCE):
                nodes = low + start + np.flatnonzero(has_edge[start:stop])
                send(nodes, smallest[nodes - low])
                send(smallest[nodes - low], nodes)
    return Star(changed, sending.sent)


def _labels(rounds: Rounds, step: int, part: int, sent: Tally) -> str:
    """Write down of each node of a part the smallest of its component."""
    low, high = rounds.part(part)
    smallest = np.arange(low, high)
    for own, other in rounds.edges(step, part, sent):
        smallest[own - low] = other
    path = Path(rounds.folder) / f"labels-{part:05d}.i64"
    _write(path, [smallest])
    return str(path)


class _Sending:
    """Sends edges to the parts of their first nodes; whole files appear, at the end of the block.

    So a call that is made again, because its worker died, writes the same files once more.
    """

    def __init__(self, rounds: Rounds, step: int, piece: int) -> None:
        self._rounds, self._step, self._piece = rounds, step, piece
        self._files: dict[int, Any] = {}
        #: What was sent to each part.
        self.sent: dict[int, Tally] = {}

    def __enter__(self) -> Callable[[IntArray, IntArray], None]:
        return self._send

    def _send(self, own: IntArray, other: IntArray) -> None:
        own, other = _distinct(own, other)
        parts = own // self._rounds.width
        bounds = np.append(np.flatnonzero(np.diff(parts, prepend=-1)), len(parts))
        for start, stop in pairwise(bounds.tolist()):
            part = int(parts[start])
            if part not in self._files:
                self._files[part] = self._path(part, ".tmp").open("wb")
            some = own[start:stop], other[start:stop]
            self._files[part].write(np.stack(some, 1).tobytes())
            self.sent[part] = _added(self.sent.get(part, _NOTHING), _tally(*some))

    def _path(self, part: int, ending: str = "") -> Path:
        path = self._rounds.file(self._step, part, self._piece)
        return path.with_name(path.name + ending)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        for part, file in self._files.items():
            file.close()
            if kind is None:
                os.replace(self._path(part, ".tmp"), self._path(part))


def _distinct(own: IntArray, other: IntArray) -> tuple[IntArray, IntArray]:
    """Return edges in order, each once."""
    order = np.lexsort((other, own))
    own, other = own[order], other[order]
    fresh = np.ones(len(own), dtype=bool)
    fresh[1:] = (own[1:] != own[:-1]) | (other[1:] != other[:-1])
    return own[fresh], other[fresh]


def _edges_in(file: str, n_nodes: int) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the edges of a file, block by block."""
    with open(file, "rb") as opened:
        while content := opened.read(16 * _EDGES_AT_ONCE):
            if len(content) % 16:
                raise damaged(file, "it ends within an edge, which takes 16 bytes")
            edges = np.frombuffer(content, dtype=np.int64)
            if edges.min() < 0 or edges.max() >= n_nodes:
                wrong = int(edges.min() if edges.min() < 0 else edges.max())
                raise damaged(file, f"it names node {wrong}; nodes are 0 to {n_nodes - 1:,}")
            left, right = edges.reshape(-1, 2).T
            yield left.copy(), right.copy()


def _write(path: Path, arrays: Sequence[IntArray]) -> None:
    unfinished = path.with_name(f"{path.name}.tmp")
    with unfinished.open("wb") as file:
        for array in arrays:
            file.write(array.tobytes())
    os.replace(unfinished, path)


def _remove(rounds: Rounds, step: int) -> None:
    for path in Path(rounds.folder).glob(f"edges-{step:03d}-*.i64"):
        path.unlink()
