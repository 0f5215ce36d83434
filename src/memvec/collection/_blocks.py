"""Deduplication of files that are larger than memory, block by block."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, get_args

from memvec import checks
from memvec.checks import counted
from memvec.collection._blocks_groups import group_rows, write_keep_list
from memvec.collection._blocks_joining import (
    index_block,
    join_blocks,
    solve_thresholds,
    solved_plan,
)
from memvec.collection._blocks_plan import (
    Asked,
    BlockPlan,
    Kind,
    Task,
    differences,
    memory_bytes,
)
from memvec.collection._blocks_reading import find_equal_rows, read_block
from memvec.collection._blocks_work import (
    MANIFEST,
    WORK,
    WorkFolder,
    read_manifest,
    write_manifest,
)
from memvec.collection._checksums import check_size, sum_of
from memvec.collection._lock import WriterLock
from memvec.collection._plain import check_tree
from memvec.errors import InvalidValueError, LockedError, damaged
from memvec.files import expand_paths
from memvec.guarantee import Certificate, Guarantee
from memvec.index import KeptRow
from memvec.progress import heeds_progress, progress_bar
from memvec.search import Grouping, expected_missed
from memvec.storage import FileSum, disk

_WHERE = "memvec.deduplicate_files"


@dataclass(frozen=True)
class FileDuplicates:
    """What a deduplication of files found; pairs and the list of rows are in files.

    Attributes
    ----------
    n_items : int
        Rows of all files.
    n_pairs : int
        Similar pairs of different vectors.
    n_copies : int
        Rows whose vector equals one before them, which are always found.
    n_groups, n_dropped : int
        Groups of duplicates, and how many rows to drop.
    n_blocks : int
        How many blocks the rows were shared out over.
    memory : int
        Bytes that might be used.
    certificate : Certificate
        What is promised about the pairs missed, in all blocks together.
    """

    n_items: int
    n_pairs: int
    n_copies: int
    n_groups: int
    n_dropped: int
    n_blocks: int
    memory: int
    certificate: Certificate

    @property
    def n_kept(self) -> int:
        """Rows that remain."""
        return self.n_items - self.n_dropped

    @property
    def expected_missed(self) -> int:
        """About how many pairs may be left: ε/(1 − ε) for each one found, rounded up.

        ε is the miss rate that the evidence supports, which is about queries like those of the
        certificate; 0 where nothing is missed.
        """
        return expected_missed(self.certificate, self.n_pairs)

    def __repr__(self) -> str:
        groups, left = counted(self.n_groups, "group"), counted(self.expected_missed, "pair")
        found = f"{groups}, {self.n_dropped:,} of {self.n_items:,} to drop"
        return f"FileDuplicates({found}, about {left} may be left)"


@heeds_progress
def deduplicate_files(
    files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
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
    threads: int | None = None,
    keep_work: bool = False,
    progress: bool | None = None,
) -> FileDuplicates:
    """Find the near-duplicates in files that may be larger than memory.

    Rows are read in blocks. Each block is indexed once, and each two blocks are joined once. What
    is done is kept in `out`: after a crash or Ctrl-C, the same call goes on from there, and writes
    the same bytes.

    Parameters
    ----------
    files : str, path or sequence of them
        Vector files as :func:`memvec.files.read_blocks` takes them, or patterns such as
        ``"part-*.parquet"``, in which ``**`` stands for any folders. Rows are numbered through
        all of them, in this order.
    similarity, miss_rate, guarantee, confidence
        As in :func:`memvec.deduplicate`. Up to 16,000 rows, nothing is missed.
    out : str or path
        Folder for the pairs: Parquet files of ``id_a``, ``id_b`` and ``score``. Equal vectors are
        paired with the first of them alone. It holds the work while it is not finished, about
        1.2 times the vectors as float32.
    keep_list : str or path, optional
        A Parquet file to write: ``id`` of each row, ``keep``, and ``group``, the id that is kept
        of its group.
    field, ids : str, optional
        What holds vectors and ids, as in :func:`memvec.files.read_blocks`. Without ids, rows are
        called by their numbers.
    keep : {"first", "last", "best"}
        Keep the first row of a group, the last, or that of the highest score; of equals, the first.
    scores : str, optional
        What holds the scores, for ``keep="best"``.
    groups : {"components", "star"}
        As in :func:`memvec.deduplicate`.
    memory : str or int, optional
        Bytes that may be used, such as ``"4GB"``; the size of blocks follows from it. Half of the
        machine's memory by default. Pages of mapped files, which the system takes back when it
        needs them, are not counted.
    threads : int, optional
        How many threads share the queries; the answer does not depend on it.
    keep_work : bool, default False
        Keep the indexes of the blocks, in ``out/_work``.
    progress : bool, optional
        Show bars; None shows them on a terminal.

    Returns
    -------
    FileDuplicates

    Raises
    ------
    InvalidValueError
        If `out` holds the work of another call; the message says what differs.

    Examples
    --------
    >>> import memvec, tempfile, numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/a.npy", np.float32([[1, 0], [0, 1]]))
    ...     np.save(f"{folder}/b.npy", np.float32([[1, 0.1], [1, 0]]))
    ...     found = memvec.deduplicate_files(f"{folder}/*.npy", out=f"{folder}/pairs")
    >>> found.n_pairs, found.n_copies, found.n_kept
    (1, 1, 2)
    """
    asked = Asked(similarity, field, ids, scores, keep, groups, miss_rate, guarantee, confidence)
    threads = checks.threads(threads, _WHERE)

    def one_by_one(work: WorkFolder, tasks: list[Task], advance: Callable[[Task], None]) -> None:
        for task in tasks:
            do_task(work, task, threads)
            advance(task)

    return deduplicate_by(
        one_by_one,
        files,
        asked,
        out=out,
        keep_list=keep_list,
        memory=memory,
        keep_work=keep_work,
        progress=progress,
    )


#: Does tasks that need nothing of each other, and tells which are done.
DoTasks: TypeAlias = Callable[[WorkFolder, list[Task], Callable[[Task], None]], None]


def deduplicate_by(
    do_tasks: DoTasks,
    files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    asked: Asked,
    *,
    out: str | os.PathLike[str],
    keep_list: str | os.PathLike[str] | None = None,
    memory: str | int | None = None,
    keep_work: bool = False,
    progress: bool | None = None,
) -> FileDuplicates:
    """Find the near-duplicates in files; whoever does the tasks, the bytes are the same.

    Parameters
    ----------
    do_tasks : callable
        Does tasks of a work folder that need nothing of each other.
    asked : Asked
        What is asked for, not checked yet.
    files, out, keep_list, memory, keep_work, progress
        As in :func:`deduplicate_files`.
    """
    asked = _checked(asked)
    folder = checks.path(out, "out", _WHERE)
    listed = None if keep_list is None else _checked_list(keep_list, folder)
    # Absolute: the same call from another working folder goes on with the same files.
    paths = [Path(os.path.abspath(path)) for path in expand_paths(files, _WHERE)]
    with disk.refusals(folder), _opened(folder, paths, listed, asked, memory) as work:
        if (result := _finished(work, listed)) is None:
            _run(work, do_tasks, progress)
            result = _result(work, listed)
            write_manifest(work.out, work.plan, result)
    if not keep_work:
        work.remove()
    return _as_given(result)


def _checked(asked: Asked) -> Asked:
    """Return what is asked for with plain numbers; raise where it cannot be."""
    checks.choice(asked.keep, "keep", _WHERE, get_args(KeptRow))
    checks.choice(asked.groups, "groups", _WHERE, get_args(Grouping))
    checks.choice(asked.guarantee, "guarantee", _WHERE, get_args(Guarantee))
    if (asked.scores is not None) != (asked.keep == "best"):
        expected = "the name of what holds them where keep is 'best', and left out elsewhere"
        raise checks.bad_value("scores", _WHERE, expected, repr(asked.scores))
    return replace(
        asked,
        similarity=checks.similarity(asked.similarity, _WHERE),
        miss_rate=checks.miss_rate(asked.miss_rate, _WHERE),
        confidence=checks.miss_rate(asked.confidence, _WHERE, "confidence"),
    )


def _checked_list(path: str | os.PathLike[str], folder: Path) -> Path:
    expected = "a path ending in .parquet, in a folder that exists and is not that of the pairs"
    checked = checks.path(path, "keep_list", _WHERE, expected)
    parent = checked.parent.resolve()
    is_inside = folder.resolve() in (parent, *parent.parents)
    if checked.suffix != ".parquet" or not parent.is_dir() or is_inside:
        raise checks.bad_value("keep_list", _WHERE, expected, repr(str(path)))
    return checked


@contextmanager
def _opened(
    folder: Path,
    paths: list[Path],
    listed: Path | None,
    asked: Asked,
    memory: str | int | None,
) -> Iterator[WorkFolder]:
    """Make the folder of a new plan, or open that of the same one; one process at a time."""
    manifest = read_manifest(folder)
    if manifest is None and folder.exists():
        foreign = sorted(set(os.listdir(folder)) - {WORK, f"{MANIFEST}.tmp"})
        if foreign:
            expected = "a new folder, an empty one, or one of this very deduplication"
            got = f"{folder}, which holds {foreign[0]!r}"
            raise checks.bad_value("out", _WHERE, expected, got)
    if folder.exists():
        check_tree(folder)
    before = None if manifest is None else _planned(folder, manifest)
    # What was chosen for another machine stays: blocks of other sizes would be other files.
    usable = before.memory if before and memory is None else memory_bytes(memory, _WHERE)
    plan = BlockPlan.of(_inputs(paths, before, folder, listed), asked, usable, _WHERE)
    if before is not None and (found := differences(before, plan)):
        raise InvalidValueError(
            f"{folder} holds another deduplication: {'; '.join(found)}. Ask for the same, name "
            "another folder, or remove this one."
        )
    (folder / WORK).mkdir(parents=True, exist_ok=True)
    lock = _locked(folder)
    try:
        if before is None:
            write_manifest(folder, plan, None)
        # Of the same files and settings, but perhaps shared out by other rules.
        yield WorkFolder(folder, before or plan)
    finally:
        lock.release()


def _inputs(
    paths: list[Path], before: BlockPlan | None, folder: Path, listed: Path | None
) -> list[Path]:
    """Return the files to read; raise where the list would be written over one of them.

    Where the work goes on, a pattern may match what it has written itself, which is left out.
    """
    target = None if listed is None else listed.resolve()
    if before is not None:
        known = {file.path for file in before.files}
        out = folder.resolve()
        paths = [
            path
            for path in paths
            if str(path) in known or not (path.resolve() == target or out in path.resolve().parents)
        ]
    for path in paths:
        if path.resolve() == target:
            expected = "a path that is none of the files"
            raise checks.bad_value("keep_list", _WHERE, expected, repr(str(listed)))
    return paths


def _locked(folder: Path) -> WriterLock:
    try:
        return WriterLock(folder / WORK)
    except LockedError:
        reason = f"{folder} is being worked in by another process; wait for it to end"
        raise LockedError(errno.EAGAIN, reason) from None


def _planned(folder: Path, manifest: dict[str, Any]) -> BlockPlan:
    try:
        return BlockPlan.of_record(manifest["plan"])
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(folder / MANIFEST, f"its plan cannot be read ({error!r})") from None


def _finished(work: WorkFolder, listed: Path | None) -> dict[str, Any] | None:
    """Return the result of work that was finished before; None where some is left."""
    manifest = read_manifest(work.out)
    result: dict[str, Any] | None = None if manifest is None else manifest.get("result")
    if result is None:
        return None
    try:
        _as_given(result)
        files = {work.out / name: FileSum(*saved) for name, saved in result["files"].items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise damaged(work.out / MANIFEST, f"its result cannot be read ({error!r})") from None
    for path, saved in files.items():
        check_size(path, saved)
    if listed is not None and not _is_list_of(result, listed):
        if work.receipt(Task("groups")) is None:
            raise InvalidValueError(
                f"{listed} cannot be written: {work.out} is finished, and the work that the list "
                "is made of was removed. Remove the folder to begin anew."
            )
        return None
    return result


def _is_list_of(result: dict[str, Any], listed: Path) -> bool:
    """Tell whether a file is the list of rows that was written with a result."""
    return listed.exists() and result.get("keep_list") == list(sum_of(listed))


def _as_given(result: dict[str, Any]) -> FileDuplicates:
    """Return the result that a manifest holds as users see it."""
    certificate = Certificate.from_json(result["certificate"])
    numbers = {name: value for name, value in result.items() if isinstance(value, int)}
    return FileDuplicates(**numbers, certificate=certificate)


def _run(work: WorkFolder, do_tasks: DoTasks, progress: bool | None) -> None:
    """Have all tasks done that are not done yet, those of one kind together."""
    done = _done(work)
    n_blocks, memory = work.plan.n_blocks, work.plan.memory / 1e9
    for kind, title in _STAGES.items():
        tasks = [task for task in work.plan.tasks if task.kind == kind]
        title = title.format(f"{counted(n_blocks, 'block')}, memory {memory:.3g} GB")
        with progress_bar(title, sum(_size(work, task) for task in tasks), progress) as advance:
            advance(sum(_size(work, task) for task in tasks if task in done))
            left = [task for task in tasks if task not in done]
            do_tasks(work, left, lambda task: advance(_size(work, task)))


_STAGES: dict[Kind, str] = {
    "read": "reading rows ({})",
    "copies": "finding copies",
    "index": "indexing blocks ({})",
    "thresholds": "calibrating",
    "join": "joining blocks ({})",
    "groups": "grouping",
}


def _size(work: WorkFolder, task: Task) -> int:
    """Return how many rows a task goes through."""
    if task.kind in ("read", "index", "join"):
        start, stop = work.plan.block(task.left)
        return stop - start
    return work.plan.n_rows


def do_task(work: WorkFolder, task: Task, threads: int | None) -> None:
    """Do one task; whoever has the files of those before it gets the same bytes."""
    work.begin(task)
    do: dict[Kind, Callable[[WorkFolder, Task], None]] = {
        "read": read_block,
        "copies": find_equal_rows,
        "index": index_block,
        "thresholds": solve_thresholds,
        "join": lambda work, task: join_blocks(work, task, threads),
        "groups": group_rows,
    }
    do[task.kind](work, task)
    if task.kind == "index":
        disk.remove_file(work.rows(task.left))


def _done(work: WorkFolder) -> set[Task]:
    """Return the tasks that need not be done again: their files are as they were written."""
    tasks = list(work.plan.tasks)
    whole = {task for task in tasks if task.kind != "read" and work.is_whole(task)}
    for task in tasks:
        if task.kind == "read":
            unneeded = Task("copies") in whole and Task("index", task.left) in whole
            if work.is_whole(task, [work.rows(task.left)] if unneeded else []):
                whole.add(task)
    return whole


def _result(work: WorkFolder, listed: Path | None) -> dict[str, Any]:
    """Write the list of rows, and return what the manifest keeps of the result."""
    joins = [task for task in work.plan.tasks if task.kind == "join"]
    if listed is not None:
        write_keep_list(work, listed)
    groups = work.facts(Task("groups"))
    written = [file for task in (Task("copies"), *joins) for file in work.tables(task)]
    return {
        "n_items": work.plan.n_rows,
        "n_pairs": sum(work.facts(task)["n_pairs"] for task in joins),
        "n_copies": work.facts(Task("copies"))["n_pairs"],
        "n_groups": groups["n_groups"],
        "n_dropped": groups["n_dropped"],
        "n_blocks": work.plan.n_blocks,
        "memory": work.plan.memory,
        "certificate": solved_plan(work).certificate.to_json(),
        "files": dict(written),
        "keep_list": None if listed is None else list(sum_of(listed)),
    }
