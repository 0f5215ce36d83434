"""Work by blocks: each block indexed once, and each two blocks joined once.

One certificate covers all blocks. Rows to calibrate on are drawn evenly from all files and kept out
of the units of their block; what they find in every block is one table, which thresholds are solved
on. Promises of single blocks would not add up.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace

import numpy as np

from memvec.collection._blocks_plan import Task
from memvec.collection._blocks_reading import (
    DRAWN,
    FIRSTS,
    PAIRS_AT_ONCE,
    QUERIES,
    writing_pairs,
)
from memvec.collection._blocks_work import WorkFolder, Written
from memvec.guarantee import (
    Calibration,
    CalibrationTable,
    Certificate,
    Plan,
    Promises,
    Request,
    Thresholds,
    complete_plan,
    lowest_cosine,
)
from memvec.index import Index, IndexConfig, save_index
from memvec.kernels import StoredRows, blocks
from memvec.search import Pairs, PlainRows, Scope, SelfJoin, Source, UnitSource
from memvec.storage import disk, open_folder, write_folder
from memvec.types import Float32Array, IntArray

_THRESHOLDS = "thresholds"


def distinct_rows(work: WorkFolder, block: int) -> IntArray:
    """Return the rows that the index of a block has: no copies of rows before them.

    Where two sets are joined, copies are rows like others.
    """
    start, stop = work.plan.block(block)
    rows = np.arange(start, stop)
    if work.plan.is_join:
        return rows
    return np.asarray(rows[work.load(FIRSTS)[start:stop] == rows])


def index_block(work: WorkFolder, task: Task) -> None:
    """Index the distinct rows of a block, and find what the calibration queries match there."""
    asked, block = work.plan.asked, task.left
    rows = distinct_rows(work, block)
    if not len(rows):
        work.finish(task, [])
        return
    drawn = np.searchsorted(rows, np.intersect1d(work.load(DRAWN), rows))
    with _lying(work, block, rows) as vectors:
        index = Index.build(
            vectors,
            similarity=asked.similarity,
            miss_rate=asked.miss_rate,
            guarantee=asked.guarantee,
            confidence=asked.confidence,
            # One row is left to make a unit of.
            held_out=drawn[: len(rows) - 1],
            config=_CONFIG,
            progress=False,
        )
        files = Written.below(work.index(block), save_index(index, work.index(block)))
        if len(work.load(DRAWN)):
            files += _write_table(work, block, rows, index)
    work.finish(task, files)


# A join asks each row once of each block, at a high similarity: second homes and more rounds of
# k-means would take longer than they save. Centring would take memory for a copy of the block.
_CONFIG = IndexConfig(units_per_vector=1, iterations=2, center=False, member_bits=1)


@contextmanager
def _lying(work: WorkFolder, block: int, rows: IntArray) -> Iterator[Float32Array]:
    """Map the vectors of some rows of a block; copied to a file where others are among them."""
    start, stop = work.plan.block(block)
    stored = work.mapped_rows(work.rows(block))
    if len(rows) == stop - start:
        yield stored
        return
    path = work.rows(block).with_suffix(".distinct")
    with path.open("wb") as file:
        for first, last in blocks(len(rows), work.plan.rows_at_once):
            disk.write(file, stored[rows[first:last] - start].tobytes())
    yield work.mapped_rows(path)
    disk.remove_file(path)


def _write_table(work: WorkFolder, block: int, rows: IntArray, index: Index) -> list[Written]:
    """Write what the calibration queries of all blocks find in this one."""
    drawn, queries = work.load(DRAWN), work.load(QUERIES)
    own = np.searchsorted(drawn, rows[index.reserve])
    others = np.flatnonzero(~np.isin(drawn, rows))
    tables = []
    if index.calibration_table is not None:
        table = index.calibration_table
        tables.append(replace(table, queries=own[table.queries]))
    if len(others):
        table = index.calibration_rows(queries[others])
        tables.append(replace(table, queries=others[table.queries]))
    merged = CalibrationTable.merged(tables)
    known = merged.rows(merged.cosines >= lowest_cosine(work.plan.asked.similarity))
    found = replace(known, keys=rows[known.keys])
    columns = {field.name: getattr(found, field.name) for field in fields(found)}
    return Written.below(work.table(block), write_folder(work.table(block), columns, {}))


def solve_thresholds(work: WorkFolder, task: Task) -> None:
    """Solve the thresholds of all blocks together, and write them down with their certificate."""
    asked = work.plan.asked
    plan = complete_plan(asked.similarity) if work.plan.compares_everything else _solved(work)
    nothing = np.empty(0)
    at, slack = (
        (nothing, nothing)
        if plan.thresholds is None
        else (plan.thresholds.at, plan.thresholds.slack)
    )
    # Without the time: the same work writes the same bytes.
    certificate = replace(plan.certificate, calibrated=None)
    folder = work.inner / _THRESHOLDS
    saved = write_folder(folder, {"at": at, "slack": slack}, {"text": certificate.to_json()})
    work.finish(task, Written.below(folder, saved))


def _solved(work: WorkFolder) -> Plan:
    asked = work.plan.asked
    indexed = _indexed(work)
    opened = [Index.open(work.index(block)) for block in indexed]
    table = None
    if len(work.load(DRAWN)):
        found = [CalibrationTable(**open_folder(work.table(block))[0]) for block in indexed]
        merged = CalibrationTable.merged([table.with_all_stages() for table in found])
        table = merged if len(merged) else None
    first = opened[0].evidence
    states = " ".join(index.evidence.state for index in opened)
    evidence = replace(
        first,
        table=table,
        source=None if table is None else "queries" if work.plan.is_join else "reserve",
        state=f"{zlib.crc32(states.encode()):08x}",
    )
    cascades = tuple(index.units.cascade for index in opened)
    similarity = asked.similarity
    seed = opened[0].config.seed
    solver = Calibration(cascades, evidence, similarity, (similarity,), seed, nested=False)
    request = Request(asked.miss_rate, asked.guarantee, asked.confidence, explicit=False)
    caller = "join_files" if work.plan.is_join else "deduplicate_files"
    return Promises(solver, request).for_range(similarity, request, caller)


def _indexed(work: WorkFolder) -> list[int]:
    """Return the blocks that have an index: those with distinct rows."""
    if work.plan.is_join:
        return list(work.plan.indexed)
    sizes = work.facts(Task("copies"))["distinct"]
    return [block for block, size in enumerate(sizes) if size]


def solved_plan(work: WorkFolder) -> Plan:
    """Return the thresholds that were solved, with their certificate."""
    arrays, meta = open_folder(work.inner / _THRESHOLDS)
    certificate = Certificate.from_json(meta["text"])
    if not len(arrays["at"]):
        return Plan(None, certificate)
    return Plan(Thresholds(np.array(arrays["at"]), np.array(arrays["slack"])), certificate)


def join_blocks(work: WorkFolder, task: Task, threads: int | None) -> None:
    """Find all similar pairs of a row of one block and a row of another, or of the same one."""
    sides = list(dict.fromkeys([task.left, task.right]))
    if not set(sides) & set(work.plan.indexed) <= set(_indexed(work)):
        work.finish(task, [], n_pairs=0)
        return
    opened = [_Side.of(work, block) for block in sides]

    def vectors(keys: IntArray) -> Float32Array:
        # Keys are of one block at a time, and the left one is before the right one.
        side = next(side for side in reversed(opened) if side.rows[0] <= keys[0])
        return side.vectors(np.searchsorted(side.rows, keys))

    scopes = [Scope(side.source, side.rows) for side in opened]
    similarity, plan = work.plan.asked.similarity, solved_plan(work)
    join = SelfJoin(scopes, vectors, similarity, plan, threads, progress=False)
    asked_second = task.left not in work.plan.asking
    found = join.pairs_between(1, 0) if asked_second else join.pairs_between(0, len(scopes) - 1)
    n_pairs = _write_pairs(work, task, map(_swapped, found) if asked_second else found)
    files = [work.pairs(task)] if work.plan.is_join else [work.pairs(task), work.found(task)]
    work.finish(task, files, n_pairs=n_pairs)


def _swapped(pairs: Pairs) -> Pairs:
    return Pairs(pairs.right, pairs.left, pairs.scores)


@dataclass(frozen=True)
class _Side:
    """One of the blocks of a join: its index or, where it is only asked, its vectors.

    `rows` tells which row of all files each of its rows is.
    """

    source: Source
    rows: IntArray

    @classmethod
    def of(cls, work: WorkFolder, block: int) -> _Side:
        rows = distinct_rows(work, block)
        if block in work.plan.indexed:
            return cls(Index.open(work.index(block)).source, rows)
        return cls(PlainRows(StoredRows.of(work.mapped_rows(work.rows(block)))), rows)

    def vectors(self, rows: IntArray) -> Float32Array:
        if isinstance(self.source, PlainRows):
            return np.ascontiguousarray(self.source.vectors[rows])
        assert isinstance(self.source, UnitSource)
        units = self.source.cascade.units
        return np.ascontiguousarray(units.vectors[units.places[rows]])


def _write_pairs(work: WorkFolder, task: Task, found: Iterator[Pairs]) -> int:
    """Write pairs by id, and by row where there are groups; return how many there are."""
    n_pairs = 0
    with _writing_rows(work, task) as write_rows, writing_pairs(work, work.pairs(task)) as write:
        for pairs in _gathered(found):
            write(pairs)
            write_rows(pairs)
            n_pairs += len(pairs.left)
    return n_pairs


@contextmanager
def _writing_rows(work: WorkFolder, task: Task) -> Iterator[Callable[[Pairs], None]]:
    """Write pairs by row, for the groups; nothing where none are made."""
    if work.plan.is_join:
        yield lambda pairs: None
        return
    with work.found(task).open("wb") as file:
        yield lambda pairs: disk.write(file, np.stack([pairs.left, pairs.right], axis=1).tobytes())


def _gathered(found: Iterator[Pairs]) -> Iterator[Pairs]:
    """Put small blocks of pairs together, and those of a row in order."""
    held: list[Pairs] = []
    for pairs in found:
        held.append(pairs)
        if sum(len(one.left) for one in held) >= PAIRS_AT_ONCE:
            yield _in_order(held)
            held = []
    if sum(len(one.left) for one in held):
        yield _in_order(held)


def _in_order(held: list[Pairs]) -> Pairs:
    left, right, scores = (np.concatenate(part) for part in zip(*held, strict=True))
    order = np.lexsort((right, left))
    return Pairs(left[order], right[order], scores[order])
