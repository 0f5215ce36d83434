"""Joins and deduplication on Ray: the tasks of the single machine, spread over the nodes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from memvec import checks
from memvec.cluster._components import components
from memvec.cluster._datasets import check_asked, files_of
from memvec.cluster._ray import memory_of_worker, reason_of, require_ray, warn_of_cpus
from memvec.collection import (
    FIRSTS,
    LABELS,
    Asked,
    BlockPlan,
    FileDuplicates,
    FileJoin,
    Task,
    WorkFolder,
    check_out,
    deduplicate_by,
    do_task,
    edge_files,
    join_by,
)
from memvec.errors import MemvecError, damaged
from memvec.guarantee import Guarantee
from memvec.index import KeptRow
from memvec.kernels import THREADS, blocks
from memvec.progress import heeds_progress
from memvec.search import Grouping
from memvec.types import IntArray

#: Paths and patterns, or a ray.data.Dataset, which type checkers know nothing of without Ray.
Files: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Any
# A worker that dies, or whose node does, is replaced so often for one call.
_RETRIES = 5
# Calls that wait in Ray at the same time.
_CALLS_AT_ONCE = 256
# A part of the nodes takes a quarter of the memory of a worker, at 8 bytes and 1 a node.
_PARTS_OF_MEMORY, _BYTES_A_NODE = 4, 9
_COPIES = "copies.i64"
_PAIRS_AT_ONCE = 1 << 20


class RayCalls:
    """Calls functions in workers of Ray, as many at a time as there are CPUs for."""

    def __init__(self, cpus: int, where: str) -> None:
        self._cpus = checks.integer(cpus, "cpus", where)
        self._ray = require_ray(where)
        warn_of_cpus(self._ray, "workers", self._cpus)
        #: Bytes that one worker may use where nothing is said; None where Ray does not tell.
        self.memory = memory_of_worker(self._ray, self._cpus)

    def __call__(self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return what each call returns, in order."""
        results: list[Any] = [None] * len(calls)
        for place, result in self.as_done(function, calls):
            results[place] = result
        return results

    def as_done(
        self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Any]]:
        """Yield the place and the result of each call, as they end."""
        remote = self._ray.remote(function).options(num_cpus=self._cpus, max_retries=_RETRIES)
        begun: dict[Any, int] = {}
        left = list(enumerate(calls))[::-1]
        try:
            while begun or left:
                while left and len(begun) < _CALLS_AT_ONCE:
                    place, arguments = left.pop()
                    begun[remote.remote(*arguments)] = place
                [done], _ = self._ray.wait(list(begun), num_returns=1)
                yield begun.pop(done), self._get(done)
        finally:
            for one in begun:
                self._ray.cancel(one, force=True)

    def _get(self, done: Any) -> Any:
        try:
            return self._ray.get(done)
        except self._ray.exceptions.RayTaskError as error:
            raise getattr(error, "cause", error) from None
        except self._ray.exceptions.RayError as error:
            raise MemvecError(
                f"A worker was lost, and so were {_RETRIES} that took its place: "
                f"{reason_of(error)} The same call goes on where this one stopped."
            ) from None


class _Tasks:
    """Does the tasks of a work folder in workers."""

    def __init__(self, calls: RayCalls, threads: int) -> None:
        self._calls, self._threads = calls, threads

    def __call__(
        self, work: WorkFolder, tasks: list[Task], advance: Callable[[Task], None]
    ) -> None:
        out, record = str(work.out.absolute()), work.plan.record
        if [task.kind for task in tasks] == ["groups"] and work.plan.asked.groups == "components":
            _label(work, self._calls)
        calls = [(out, record, tuple(task), self._threads) for task in tasks]
        for place, _ in self._calls.as_done(_do, calls):
            advance(tasks[place])


def _do(out: str, record: dict[str, Any], task: tuple[Any, ...], threads: int) -> None:
    """Do a task, unless a worker that died has done it; with the threads of the worker alone."""
    work = WorkFolder(Path(out), BlockPlan.of_record(record))
    if not work.is_whole(Task(*task)):
        with _default_threads(threads):
            do_task(work, Task(*task), threads)


@contextmanager
def _default_threads(threads: int) -> Iterator[None]:
    """Let builds use so many threads: they would take all cores of the node, those of others too.

    Ray gives the process to other tasks afterwards.
    """
    before = os.environ.get(THREADS)
    os.environ[THREADS] = str(threads)
    try:
        yield
    finally:
        if before is None:
            del os.environ[THREADS]
        else:
            os.environ[THREADS] = before


def _label(work: WorkFolder, calls: RayCalls) -> None:
    """Find of each row the first one that pairs and copies connect it with, by rounds."""
    plan, folder = work.plan, work.inner / "rounds"
    copies = work.inner / _COPIES
    _write_copies(np.asarray(work.load(FIRSTS)), copies)
    files = [str(path.absolute()) for path in (*edge_files(work), copies)]
    most = max(1, plan.memory // _PARTS_OF_MEMORY // _BYTES_A_NODE)
    n_parts = max(plan.n_blocks, -(-plan.n_rows // most))
    parts = components(plan.n_rows, files, str(folder.absolute()), n_parts, calls)
    path = work.inner / LABELS
    unfinished = path.with_name("unfinished.npy")
    labels = np.lib.format.open_memmap(unfinished, "w+", np.int64, (plan.n_rows,))
    first = 0
    for part in parts:
        some = np.fromfile(part, dtype=np.int64)
        _check_labels(some, first, plan.n_rows, part)
        labels[first : first + len(some)] = some
        first += len(some)
    if first != plan.n_rows:
        raise damaged(folder, f"it has labels of {first:,} rows, and there are {plan.n_rows:,}")
    labels.flush()
    os.replace(unfinished, path)


def _check_labels(labels: IntArray, first: int, n_rows: int, path: str) -> None:
    """Raise where labels cannot be the smallest rows of components."""
    rows = np.arange(first, first + len(labels))
    if len(labels) > n_rows - first or np.any((labels < 0) | (labels > rows)):
        raise damaged(path, "it has labels that are not those of its rows")


def _write_copies(firsts: np.ndarray[Any, Any], path: Path) -> None:
    """Write the pairs of copies and the first row of each."""
    with path.open("wb") as file:
        for start, stop in blocks(len(firsts), _PAIRS_AT_ONCE):
            rows, some = np.arange(start, stop), firsts[start:stop]
            copied = some != rows
            file.write(np.stack([rows[copied], some[copied]], axis=1).tobytes())


@heeds_progress
def deduplicate(
    files: Files,
    similarity: float = 0.9,
    *,
    out: str | os.PathLike[str],
    keep_list: str | os.PathLike[str] | None = None,
    field: str | None = None,
    ids: str | None = None,
    keep: KeptRow = "first",
    scores: str | None = None,
    groups: Grouping = "components",
    miss_rate: float = 0.01,
    guarantee: Guarantee = "expected",
    confidence: float = 0.95,
    memory: str | int | None = None,
    cpus: int = 1,
    keep_work: bool = False,
    progress: bool | None = None,
) -> FileDuplicates:
    """Find the near-duplicates in files, on the nodes of a Ray cluster.

    The output files are those of :func:`memvec.deduplicate_files`, byte for byte. Blocks are read,
    indexed and joined by as many workers as the cluster has CPUs for. Groups are computed in rounds
    over parts of the rows. After a crash of the driver, the same call resumes, on the cluster or on
    a single machine.

    Parameters
    ----------
    files : str, path, sequence of them or ray.data.Dataset
        Files as in :func:`memvec.deduplicate_files`, or a dataset, in whose order rows are
        numbered. A dataset is first written to ``out/_work``, as Parquet. The same call resumes
        after a crash if the dataset has the same rows in the same blocks.
    similarity, keep_list, field, ids, keep, scores, groups, miss_rate, guarantee, confidence
        As in :func:`memvec.deduplicate_files`. For a dataset, fields are columns.
    out : str or path
        As in :func:`memvec.deduplicate_files`. All nodes must reach the folder, and the files,
        under the same paths.
    memory : str or int, optional
        Memory that one worker may use; it sets the size of blocks. By default, the workers of a
        node share half of the memory that Ray counts there.
    cpus : int, default 1
        Number of CPUs that Ray reserves for a worker, which is also its number of threads.
    keep_work, progress
        As in :func:`memvec.deduplicate_files`.

    Returns
    -------
    FileDuplicates
    """
    where = "memvec.cluster.deduplicate"
    asked = Asked(similarity, field, ids, scores, keep, groups, miss_rate, guarantee, confidence)
    check_asked(asked, [files], where)
    check_out(out, where, is_join=False)
    calls = RayCalls(cpus, where)
    return deduplicate_by(
        _Tasks(calls, cpus),
        files_of(files, out, "rows", asked, calls, where),
        asked,
        out=out,
        keep_list=keep_list,
        memory=memory,
        keep_work=keep_work,
        progress=progress,
        where=where,
        usual_memory=calls.memory,
    )


def self_join(
    files: Files,
    out: str | os.PathLike[str],
    similarity: float = 0.9,
    **options: Any,
) -> FileDuplicates:
    """Write all similar pairs of rows to a folder, on the nodes of a Ray cluster.

    Parameters
    ----------
    files, out, similarity
        As in :func:`deduplicate`: the folder gets Parquet files of ``id_a``, ``id_b``, ``score``.
    **options
        As in :func:`deduplicate`.
    """
    return deduplicate(files, similarity, out=out, **options)


@heeds_progress
def join(
    a: Files,
    b: Files,
    out: str | os.PathLike[str],
    similarity: float = 0.9,
    *,
    field: str | None = None,
    ids: str | None = None,
    miss_rate: float = 0.01,
    guarantee: Guarantee = "expected",
    confidence: float = 0.95,
    memory: str | int | None = None,
    cpus: int = 1,
    keep_work: bool = False,
    progress: bool | None = None,
) -> FileJoin:
    """Write all similar pairs of two sets of files to a folder, on the nodes of a Ray cluster.

    The output files are those of :func:`memvec.join_files`, byte for byte. After a crash of the
    driver, the same call resumes, on the cluster or on a single machine.

    Parameters
    ----------
    a, b : str, path, sequence of them or ray.data.Dataset
        Two sets, each as in :func:`deduplicate`.
    similarity, field, ids, miss_rate, guarantee, confidence
        As in :func:`memvec.join_files`.
    out, memory, cpus, keep_work, progress
        As in :func:`deduplicate`.

    Returns
    -------
    FileJoin
    """
    where = "memvec.cluster.join"
    asked = Asked.of_join(similarity, field, ids, miss_rate, guarantee, confidence)
    check_asked(asked, [a, b], where)
    check_out(out, where, is_join=True)
    calls = RayCalls(cpus, where)
    return join_by(
        _Tasks(calls, cpus),
        files_of(a, out, "a", asked, calls, where),
        files_of(b, out, "b", asked, calls, where),
        asked,
        out=out,
        memory=memory,
        keep_work=keep_work,
        progress=progress,
        where=where,
        usual_memory=calls.memory,
    )
