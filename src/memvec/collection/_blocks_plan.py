"""Work by blocks, planned: which rows make a block, and which tasks there are.

The work is a deduplication of one set of files, or the join of two sets.

A plan is a function of the files and of what is asked, and all of it is in the manifest: whoever
reads that does the same tasks and gets the same bytes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from memvec import checks
from memvec.errors import InvalidValueError
from memvec.files import count_rows, read_blocks
from memvec.guarantee import Guarantee
from memvec.index import compares_everything
from memvec.search import Grouping
from memvec.types import IntArray

Kind = Literal["read", "copies", "draw", "index", "thresholds", "join", "groups"]

# Bytes that a deduplication takes whatever its blocks: libraries, compiled loops, batches of rows.
_BASE_BYTES = 600 << 20
# For each row of all files: its hash, group and rank, and copies of these while they are sorted.
_BYTES_A_ROW = 72
# For each row of the block that is being indexed, besides the copy of it in the order of the units.
_BYTES_A_ROW_OF_BLOCK = 700
# Blocks of a memory that is too small for anything else.
_SMALLEST_BLOCK = 10_000
# More blocks take longer to join, and fewer longer to index, unless they are small. Of 384
# dimensions, a row took 90 µs to index in blocks of 200,000 and 136 µs in those of a million, and
# 37 and 58 µs to be searched in one of them.
_FEW_ROWS, _FEW_BLOCKS = 200_000, 5
# Rows that are read and copied at a time, of dimensions that are not high: entries of a text take
# 32 bytes each while they are read.
_MOST_ROWS, _MOST_ENTRIES = 8192, 1 << 21
_SIZE = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*(k|m|g|t)?(i)?b?\s*", re.IGNORECASE)
_LIMIT_OF_GROUP = Path("/sys/fs/cgroup/memory.max")


class InputFile(NamedTuple):
    """A file as it was when the work began."""

    path: str
    size: int
    modified: int
    n_rows: int

    @property
    def has_changed(self) -> bool:
        """Whether its size or the time of its last change is another now."""
        status = os.stat(self.path)
        return (status.st_size, status.st_mtime_ns) != (self.size, self.modified)


@dataclass(frozen=True)
class Asked:
    """What a deduplication is asked for; anything else in it would be another answer."""

    similarity: float
    field: str | None
    ids: str | None
    scores: str | None
    keep: Literal["first", "last", "best"]
    groups: Grouping
    miss_rate: float
    guarantee: Guarantee
    confidence: float

    @classmethod
    def of_join(
        cls,
        similarity: float,
        field: str | None,
        ids: str | None,
        miss_rate: float,
        guarantee: Guarantee,
        confidence: float,
    ) -> Asked:
        """Return what a join of two sets is asked for: it makes no groups."""
        promise = miss_rate, guarantee, confidence
        return cls(similarity, field, ids, None, "first", "components", *promise)


class FirstSet(NamedTuple):
    """The first of two sets of files that are joined: how many files and blocks are its own."""

    n_files: int
    n_blocks: int


class Task(NamedTuple):
    """One piece of the work; it depends on the plan and on the files of tasks before it alone."""

    kind: Kind
    left: int = 0
    right: int = 0

    @property
    def name(self) -> str:
        """What its files are called by."""
        return f"{self.kind}-{self.left:05d}-{self.right:05d}"


@dataclass(frozen=True)
class BlockPlan:
    """Files, what is asked, and how rows are shared out over blocks.

    Attributes
    ----------
    files : tuple of InputFile
        Rows are numbered through all of them.
    asked : Asked
        What is asked for.
    dim : int
        Dimension of the vectors.
    memory : int
        Bytes that may be used, which the number of blocks follows from.
    n_blocks : int
        How many there are, those of a set all of about the same size.
    first : FirstSet or None
        Of two sets that are joined; None where one set is searched for duplicates.
    """

    files: tuple[InputFile, ...]
    asked: Asked
    dim: int
    memory: int
    n_blocks: int
    first: FirstSet | None = None

    @classmethod
    def of(cls, sets: Sequence[list[Path]], asked: Asked, memory: int, where: str) -> BlockPlan:
        """Look at the files of one set or of two, and share their rows out."""
        paths = [path for some in sets for path in some]
        files = tuple(_input_file(path, asked) for path in paths)
        # Writers of many parts leave some of them empty. Where all are, the first one is refused.
        filled = [path for path, file in zip(paths, files, strict=True) if file.n_rows] or paths[:1]
        dims = [_first_row(path, asked) for path in filled]
        for path, dim in zip(filled, dims, strict=True):
            if dim != dims[0]:
                expected = f"files of one dimension; {filled[0]} has {dims[0]}"
                raise checks.bad_value("files", where, expected, f"{dim} in {path}")
        n_rows = sum(file.n_rows for file in files)
        if len(sets) == 1:
            n_blocks = _n_blocks(n_rows, n_rows, dims[0], memory, where)
            return cls(files, asked, dims[0], memory, n_blocks)
        n_files = len(sets[0])
        numbers = []
        for name, some in zip("ab", (files[:n_files], files[n_files:]), strict=True):
            n_own = sum(file.n_rows for file in some)
            if not n_own:
                raise checks.bad_value(name, where, "files with rows", _some(some))
            numbers.append(_n_blocks(n_own, n_rows, dims[0], memory, where))
        first = FirstSet(n_files, numbers[0])
        return cls(files, asked, dims[0], memory, sum(numbers), first)

    @cached_property
    def n_rows(self) -> int:
        """Rows of all files."""
        return sum(file.n_rows for file in self.files)

    @cached_property
    def n_first(self) -> int:
        """Rows of the first set; all where there is one set."""
        return sum(file.n_rows for file in self.files[: self.first.n_files if self.first else None])

    @cached_property
    def bounds(self) -> IntArray:
        """Where each block begins, and the end of the last one; none is of two sets."""
        own = self.first.n_blocks if self.first else self.n_blocks
        firsts = np.arange(own + 1) * self.n_first // own
        others = self.n_blocks - own
        seconds = np.arange(1, others + 1) * (self.n_rows - self.n_first) // max(1, others)
        return np.concatenate([firsts, self.n_first + seconds])

    @property
    def is_possible(self) -> bool:
        """Whether there may be so many blocks of so many rows, as a plan that was read may deny."""
        if self.first is None:
            return 1 <= self.n_blocks <= self.n_rows
        of_first = 1 <= self.first.n_blocks <= self.n_first
        return of_first and 1 <= self.n_blocks - self.first.n_blocks <= self.n_second

    @property
    def is_join(self) -> bool:
        """Whether two sets are joined."""
        return self.first is not None

    @property
    def sets(self) -> tuple[range, ...]:
        """The blocks of each set."""
        if self.first is None:
            return (range(self.n_blocks),)
        return range(self.first.n_blocks), range(self.first.n_blocks, self.n_blocks)

    @property
    def asking(self) -> range:
        """The blocks whose rows are asked: of two sets, those of the smaller one."""
        return self.sets[0 if self.n_first <= self.n_second else -1]

    @property
    def indexed(self) -> range:
        """The blocks that are indexed: of two sets, those of the larger one, or none."""
        if self.is_join and self.compares_everything:
            return range(0)
        return self.sets[-1 if self.n_first <= self.n_second else 0]

    @property
    def rows_at_once(self) -> int:
        """How many rows are read and copied at a time."""
        return max(1, min(_MOST_ROWS, _MOST_ENTRIES // self.dim))

    @property
    def compares_everything(self) -> bool:
        """Whether nothing is missed: where that is asked for, and of few rows."""
        others = min(self.n_first, self.n_second) if self.is_join else self.n_rows / 2
        return compares_everything(self.asked.guarantee, others)

    @property
    def n_second(self) -> int:
        """Rows of the second set."""
        return self.n_rows - self.n_first

    def number_in_set(self, row: int) -> int:
        """Return the number that a row of all files has in its set."""
        return row if row < self.n_first else row - self.n_first

    def block(self, number: int) -> tuple[int, int]:
        """Return the first row of a block and the one behind its last."""
        return int(self.bounds[number]), int(self.bounds[number + 1])

    def span(self, some: range) -> tuple[int, int]:
        """Return the first row of blocks in a row, and the one behind their last."""
        return int(self.bounds[some.start]), int(self.bounds[some.stop])

    def parts(self, number: int) -> Iterator[tuple[InputFile, int, int]]:
        """Yield the files that a block is in: the first row in each, and how many."""
        start, stop = self.block(number)
        first = 0
        for file in self.files:
            low, high = max(start, first), min(stop, first + file.n_rows)
            if low < high:
                yield file, low - first, high - low
            first += file.n_rows

    def place(self, row: int) -> str:
        """Return file and row of a row of all files, in words."""
        first = 0
        for file in self.files:
            if row < first + file.n_rows:
                break
            first += file.n_rows
        return f"row {row - first} of {file.path}"

    @property
    def tasks(self) -> Iterator[Task]:
        """All of the work, each task behind those that it needs."""
        yield from (Task("read", block) for block in range(self.n_blocks))
        yield self.after_reading
        yield from (Task("index", block) for block in self.indexed)
        yield Task("thresholds")
        for right in self.sets[-1]:
            lefts = self.sets[0] if self.is_join else range(right + 1)
            yield from (Task("join", left, right) for left in lefts)
        if not self.is_join:
            yield Task("groups")

    @property
    def after_reading(self) -> Task:
        """The task that looks at the rows of all blocks together."""
        return Task("draw" if self.is_join else "copies")

    @property
    def record(self) -> dict[str, Any]:
        """The plan as JSON has it."""
        files = [list(file) for file in self.files]
        blocks = {"memory": self.memory, "n_blocks": self.n_blocks, "dim": self.dim}
        record = {"files": files, "asked": asdict(self.asked), **blocks}
        return record if self.first is None else {**record, "first": list(self.first)}

    @classmethod
    def of_record(cls, record: dict[str, Any]) -> BlockPlan:
        """Return the plan that a manifest holds."""
        files = tuple(InputFile(*file) for file in record["files"])
        dim, memory, n_blocks = (int(record[name]) for name in ("dim", "memory", "n_blocks"))
        first = FirstSet(*record["first"]) if "first" in record else None
        return cls(files, Asked(**record["asked"]), dim, memory, n_blocks, first)


def differences(before: BlockPlan, now: BlockPlan) -> list[str]:
    """Return in words what another plan asks for that this one does not."""
    if before.is_join != now.is_join:
        return ["a join of two sets is no deduplication"]
    found = [
        f"{name} was {was!r} and is {asked!r}"
        for (name, was), asked in zip(
            asdict(before.asked).items(), asdict(now.asked).values(), strict=True
        )
        if was != asked
    ]
    if before.dim != now.dim:
        found.append(f"the dimension was {before.dim} and is {now.dim}")
    if before.memory != now.memory:
        found.append(f"memory was {before.memory:,} bytes and is {now.memory:,}")
    if [file.path for file in before.files] != [file.path for file in now.files]:
        found.append(f"the files were {_some(before.files)} and are {_some(now.files)}")
    elif before.first and now.first and before.first.n_files != now.first.n_files:
        found.append(f"of the files {before.first.n_files} were a, and {now.first.n_files} are")
    elif before.files != now.files:
        changed = [a.path for a, b in zip(before.files, now.files, strict=True) if a != b]
        found.append(f"{changed[0]} has changed (size or time of change)")
    return found


def _some(files: tuple[InputFile, ...]) -> str:
    names = ", ".join(file.path for file in files[:3])
    return names if len(files) <= 3 else f"{names} and {len(files) - 3:,} more"


def _first_row(path: Path, asked: Asked) -> int:
    """Return the dimension of a file; raise where it cannot hold what is asked for."""
    try:
        first = next(blocks_of(str(path), asked, 0, 1))
    except InvalidValueError as error:  # readers know scores as metadata
        raise InvalidValueError(str(error).replace("'metadata'", "'scores'", 1)) from None
    return int(first.vectors.shape[1])


def blocks_of(path: str, asked: Asked, first_row: int, n_rows: int) -> Any:
    """Return the rows of a file, with what is asked for besides vectors."""
    metadata = () if asked.scores is None else (asked.scores,)
    return read_blocks(
        path,
        field=asked.field,
        ids=asked.ids,
        metadata=metadata,
        block_rows=n_rows,
        first_row=first_row,
    )


def _input_file(path: Path, asked: Asked) -> InputFile:
    status = path.stat()
    n_rows = count_rows(path, field=asked.field)
    return InputFile(str(path), status.st_size, status.st_mtime_ns, n_rows)


def _n_blocks(n_rows: int, n_all: int, dim: int, memory: int, where: str) -> int:
    """Return how many blocks some of all rows make."""
    fixed, each = _BASE_BYTES + _BYTES_A_ROW * n_all, 4 * dim + _BYTES_A_ROW_OF_BLOCK
    most, least = (memory - fixed) // each, min(n_rows, _SMALLEST_BLOCK)
    if most < least:
        needed = (fixed + least * each) / 1e9
        expected = f"at least {needed:.2g} GB for {n_all:,} rows of dimension {dim}"
        raise checks.bad_value("memory", where, expected, f"{memory / 1e9:.2g} GB")
    wanted = max(_FEW_ROWS, -(-n_rows // _FEW_BLOCKS))
    return -(-n_rows // min(most, wanted))


def memory_bytes(memory: str | int | None, where: str) -> int:
    """Return how many bytes may be used: half of what the machine has where nothing is said.

    Examples
    --------
    >>> memory_bytes("4GB", ""), memory_bytes("1.5 GiB", "")
    (4000000000, 1610612736)
    """
    if memory is None:
        return _machine_memory() // 2
    expected = "a number of bytes, or a text such as '4GB'"
    if not isinstance(memory, str):
        return checks.integer(memory, "memory", where)
    found = _SIZE.fullmatch(memory)
    if found is None or float(found[1]) == 0:
        raise checks.bad_value("memory", where, expected, repr(memory))
    number, prefix, binary = found.groups()
    power = " kmgt".index((prefix or " ").lower())
    return int(float(number) * (1024 if binary else 1000) ** power)


def _machine_memory() -> int:
    """Return the memory of the machine, or of the container that this runs in."""
    try:
        held = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # Windows
        held = 8 << 30
    try:
        return min(held, int(_LIMIT_OF_GROUP.read_text()))
    except (OSError, ValueError):  # no such limit
        return held
