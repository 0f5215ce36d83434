"""Work by blocks: rows and ids are read, equal rows found, and queries drawn."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from memvec import checks
from memvec.collection._blocks_plan import BlockPlan, InputFile, Task, blocks_of
from memvec.collection._blocks_work import WorkFolder
from memvec.collection._ids import checked_id
from memvec.errors import FileFormatError, InvalidTypeError, InvalidValueError
from memvec.files import Column, VectorBlock, joined_columns, read_column, writing_table
from memvec.kernels import blocks
from memvec.search import Pairs, find_copies
from memvec.storage import disk
from memvec.types import Float32Array, IntArray

# Pairs that are held before they are written.
PAIRS_AT_ONCE = 1 << 18
# Rows to calibrate on, drawn evenly from all: at most so many, and this share of them.
_MOST_DRAWN, _SHARE_DRAWN, _FEWEST_DRAWN = 2000, 0.05, 100

#: Arrays that the copies task saves.
FIRSTS, DRAWN, QUERIES = "firsts.npy", "drawn.npy", "queries.npy"


def read_block(work: WorkFolder, task: Task) -> None:
    """Read the rows of a block, scale them to norm 1, and write them down with ids and scores."""
    plan = work.plan
    rows, names = work.rows(task.left), work.names(task.left)
    kind = _kind_of_ids(plan, task.left)
    columns = {"id": kind or "int64"}
    columns |= {} if plan.asked.scores is None else {"score": "float64"}
    number = plan.number_in_set(plan.block(task.left)[0])
    with rows.open("wb") as file, writing_table(names, columns) as write:
        for block, source in _rows_of(plan, task.left):
            unit = checks.unit_rows(
                block.vectors, "vectors", source.path, dim=plan.dim, first_row=block.first_row
            )
            disk.write(file, unit.tobytes())
            batch: dict[str, Any] = {"id": np.arange(number, number + len(block))}
            if kind is not None or block.ids is not None:
                batch["id"] = _checked_ids(block, source, kind)
            if plan.asked.scores is not None:
                batch["score"] = _checked_scores(block, source, plan.asked.scores)
            write(batch)
            number += len(block)
    work.finish(task, [rows, names], ids=kind)


def _kind_of_ids(plan: BlockPlan, number: int) -> str | None:
    """Return the type of the first id of a block; None where there are none."""
    first, _ = next(_rows_of(plan, number))
    if first.ids is None:
        return None
    return "string" if isinstance(first.ids[0], str) else "int64"


def _rows_of(plan: BlockPlan, number: int) -> Iterator[tuple[VectorBlock, InputFile]]:
    """Yield the rows of a block, and the file that they are in."""
    for source, first, n_rows in plan.parts(number):
        if source.has_changed:
            raise FileFormatError(f"{source.path} has changed since the work began.")
        left = n_rows
        for block in blocks_of(source.path, plan.asked, first, plan.rows_at_once):
            yield block.part(0, left), source
            left -= len(block)
            if left <= 0:
                break


def _checked_ids(block: VectorBlock, source: InputFile, kind: str | None) -> list[int | str]:
    """Return the ids of a block, all of them integers or all of them texts."""
    if block.ids is None or kind is None:
        raise FileFormatError(f"{source.path} has {'no ' * (block.ids is None)}ids, unlike others.")
    wanted = int if kind == "int64" else str
    checked: list[int | str] = []
    for row, value in enumerate(block.ids, block.first_row):
        found = None
        with suppress(InvalidTypeError, InvalidValueError):
            found = checked_id(value, source.path)
        if not isinstance(found, wanted):
            kinds = "integers of 64 bits" if wanted is int else "texts"
            raise FileFormatError(
                f"{source.path} has the id {value!r} in row {row}; ids must be {kinds}, as others "
                "are."
            )
        checked.append(found)
    return checked


def _checked_scores(block: VectorBlock, source: InputFile, name: str) -> list[float]:
    """Return how good each row of a block is."""
    checked = []
    for row, values in enumerate(block.metadata or [], block.first_row):
        score = values.get(name)
        if isinstance(score, bool) or not isinstance(score, int | float) or math.isnan(score):
            raise FileFormatError(
                f"{source.path} has {score!r} as '{name}' in row {row}; scores must be numbers."
            )
        checked.append(float(score))
    return checked


def draw_queries(work: WorkFolder, task: Task) -> None:
    """Draw rows of the set that is asked, to calibrate on; refuse ids that come twice in a set."""
    for blocks_of_set in work.plan.sets:
        _check_ids(work, blocks_of_set)
    start, stop = work.plan.span(work.plan.asking)
    drawn = _draw(np.arange(start, stop), work.plan)
    files = [work.save(DRAWN, drawn), work.save(QUERIES, _vectors(work)(drawn))]
    work.finish(task, files)


def find_equal_rows(work: WorkFolder, task: Task) -> None:
    """Find rows with equal vectors and draw rows to calibrate on; refuse ids that come twice."""
    plan, vectors = work.plan, _vectors(work)
    _check_ids(work, range(plan.n_blocks))
    copies = find_copies(np.arange(plan.n_rows), vectors)
    drawn = _draw(copies.distinct, plan)
    files = [
        work.save(FIRSTS, copies.firsts),
        work.save(DRAWN, drawn),
        work.save(QUERIES, vectors(drawn)),
        work.pairs(task),
    ]
    with writing_pairs(work, work.pairs(task)) as writer:
        pairs = copies.pairs
        for start, stop in blocks(len(pairs.left), PAIRS_AT_ONCE):
            some = slice(start, stop)
            writer(Pairs(pairs.left[some], pairs.right[some], pairs.scores[some]))
    sizes = np.diff(np.searchsorted(copies.distinct, plan.bounds))
    work.finish(task, files, distinct=sizes.tolist(), n_pairs=len(pairs.left))


def _check_ids(work: WorkFolder, some: range) -> None:
    """Refuse ids of different kinds, and such that come twice, in some blocks."""
    kinds = {work.facts(Task("read", block))["ids"] for block in some}
    if len(kinds) > 1:
        raise FileFormatError("Some files have ids that are integers, others texts or none.")
    if kinds != {None}:
        _refuse_repeated_ids(work, some)


def _vectors(work: WorkFolder) -> Callable[[IntArray], Float32Array]:
    """Return what returns the vectors of rows that were read."""
    stored = [work.mapped_rows(work.rows(block)) for block in range(work.plan.n_blocks)]
    return lambda keys: _gathered(stored, work.plan.bounds, keys)


def _gathered(stored: Sequence[Float32Array], bounds: IntArray, keys: IntArray) -> Float32Array:
    """Return the vectors of rows of all blocks."""
    found = np.empty((len(keys), stored[0].shape[1]), dtype=np.float32)
    block_of = np.searchsorted(bounds, keys, side="right") - 1
    for block in np.unique(block_of):
        here = block_of == block
        found[here] = stored[block][keys[here] - bounds[block]]
    return found


def _draw(rows: IntArray, plan: BlockPlan) -> IntArray:
    """Return rows to calibrate on, rising; none where nothing is missed, or of too few rows."""
    size = min(_MOST_DRAWN, int(_SHARE_DRAWN * len(rows)))
    if plan.compares_everything or size < _FEWEST_DRAWN:
        return np.empty(0, dtype=np.int64)
    drawn = np.random.default_rng(0).choice(len(rows), size, replace=False)
    return rows[np.sort(drawn)]


def _refuse_repeated_ids(work: WorkFolder, some: range) -> None:
    first, end = work.plan.span(some)
    digests = np.empty(end - first, dtype=np.int64)
    for block in some:
        start, stop = work.plan.block(block)
        digests[start - first : stop - first] = _digests(read_column(work.names(block), "id"))
    order = np.argsort(digests, kind="stable")
    alike = np.flatnonzero(digests[order[1:]] == digests[order[:-1]])
    if not len(alike):
        return
    names = Names(work)
    left, right = first + order[alike], first + order[alike + 1]
    for pair in zip(left.tolist(), right.tolist(), strict=True):
        ids = names.of(np.array(pair)).to_pylist()
        if ids[0] == ids[1]:  # and not only their digests
            places = " and ".join(map(work.plan.place, pair))
            raise FileFormatError(f"The id {ids[0]!r} occurs twice: in {places}.")


def _digests(ids: Column) -> IntArray:
    """Return a number for each id: that of an integer is itself."""
    if str(ids.type) == "int64":
        return np.asarray(ids)
    texts = ids.to_pylist()
    joined = b"".join(hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(joined, dtype=np.int64)


class Names:
    """The ids of rows; those of two blocks are held at a time."""

    def __init__(self, work: WorkFolder) -> None:
        self._work = work
        self._held: dict[int, Column] = {}

    def of(self, rows: IntArray) -> Column:
        """Return the ids of rows, in the order given; rows of many blocks take long."""
        bounds = self._work.plan.bounds
        block_of = np.searchsorted(bounds, rows, side="right") - 1
        found, order = [], []
        for block in np.unique(block_of).tolist():
            here = np.flatnonzero(block_of == block)
            found.append(self._block(block).take(rows[here] - bounds[block]))
            order.append(here)
        if len(found) == 1:
            return found[0]
        return joined_columns(found).take(np.argsort(np.concatenate(order)))

    def _block(self, block: int) -> Column:
        if block not in self._held:
            while len(self._held) > 1:
                self._held.pop(next(iter(self._held)))
            self._held[block] = read_column(self._work.names(block), "id")
        return self._held[block]


@contextmanager
def writing_pairs(work: WorkFolder, path: Path) -> Iterator[Callable[[Pairs], None]]:
    """Write pairs of rows as a table of ids and scores, as they are given."""
    kinds = [work.facts(Task("read", some[0]))["ids"] or "int64" for some in work.plan.sets]
    names = Names(work)
    columns = {"id_a": kinds[0], "id_b": kinds[-1], "score": "float32"}
    with writing_table(path, columns) as write:
        yield lambda pairs: write(
            {"id_a": names.of(pairs.left), "id_b": names.of(pairs.right), "score": pairs.scores}
        )
