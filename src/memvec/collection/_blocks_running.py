"""Work by blocks, done: its folder opened, its tasks done in order, its result written down."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from memvec import checks
from memvec.checks import counted
from memvec.collection._blocks_groups import group_rows
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
from memvec.collection._blocks_reading import draw_queries, find_equal_rows, read_block
from memvec.collection._blocks_work import (
    MANIFEST,
    WORK,
    WorkFolder,
    is_inside,
    read_manifest,
    write_manifest,
)
from memvec.collection._checksums import check_size
from memvec.collection._lock import WriterLock
from memvec.collection._plain import check_tree
from memvec.errors import (
    CorruptIndexError,
    FileFormatError,
    InvalidTypeError,
    InvalidValueError,
    LockedError,
    damaged,
)
from memvec.progress import progress_bar
from memvec.storage import FileSum, disk

#: Does tasks that need nothing of each other, and tells which are done.
DoTasks: TypeAlias = Callable[[WorkFolder, list[Task], Callable[[Task], None]], None]


class Job(NamedTuple):
    """What is done with files by blocks.

    Attributes
    ----------
    sets : sequence of list of Path
        The files: one set to be deduplicated, or two to be joined.
    asked : Asked
        What is asked for.
    out : Path
        Folder for the pairs and the work.
    listed : Path or None
        Where a list of rows is written.
    where : str
        Who asks, for messages.
    usual_memory : int or None
        Bytes that may be used where nothing is said; None for half of this machine's.
    """

    sets: Sequence[list[Path]]
    asked: Asked
    out: Path
    listed: Path | None
    where: str
    usual_memory: int | None = None


def run_job(
    job: Job,
    do_tasks: DoTasks,
    finished: Callable[[WorkFolder], dict[str, Any] | None],
    result_of: Callable[[WorkFolder], dict[str, Any]],
    *,
    memory: str | int | None,
    keep_work: bool,
    progress: bool | None,
) -> dict[str, Any]:
    """Do what is left of a job, and return what its manifest keeps of the result.

    Parameters
    ----------
    do_tasks : callable
        Does tasks of a work folder that need nothing of each other.
    finished, result_of : callable
        Return the result of work that was finished before, or None, and that of work just done.
    """
    with disk.refusals(job.out), _opened(job, memory) as work:
        if (result := finished(work)) is None:
            _run(work, do_tasks, progress)
            result = result_of(work)
            write_manifest(work.out, work.plan, result)
    if not keep_work:
        work.remove()
    return result


@contextmanager
def _opened(job: Job, memory: str | int | None) -> Iterator[WorkFolder]:
    """Make the folder of a new plan, or open that of the same one; one process at a time."""
    folder, where = job.out, job.where
    manifest = _checked_manifest(folder, where, len(job.sets) > 1)
    if folder.exists():
        check_tree(folder)
    before = None if manifest is None else _planned(folder, manifest)
    # What was chosen for another machine stays: blocks of other sizes would be other files.
    if memory is None:
        memory = before.memory if before else job.usual_memory
    usable = memory_bytes(memory, where)
    sets = [_inputs(job, paths, before) for paths in job.sets]
    plan = BlockPlan.of(sets, job.asked, usable, where)
    if before is not None and (found := differences(before, plan)):
        raise InvalidValueError(
            f"{folder} holds another {_noun(before.is_join)}: {'; '.join(found)}. Ask for the "
            "same, name another folder, or remove this one."
        )
    is_there = folder.exists()
    (folder / WORK).mkdir(parents=True, exist_ok=True)
    lock = _locked(folder)
    # Of the same files and settings, but perhaps shared out by other rules.
    work = WorkFolder(folder, before or plan)
    try:
        if before is None:
            write_manifest(folder, plan, None)
        yield work
    except _REFUSED as error:
        # Files that are refused while they are read must be changed: then they are others.
        is_read = work.receipt(plan.after_reading) is not None
        if before is None and not is_read and not isinstance(error, CorruptIndexError):
            _discard(work, keep_folder=is_there)
        raise
    finally:
        lock.release()


_REFUSED = FileFormatError, InvalidTypeError, InvalidValueError


def _discard(work: WorkFolder, *, keep_folder: bool) -> None:
    """Remove what was begun; workers that are being stopped may still write there."""
    shutil.rmtree(work.inner, ignore_errors=True)
    disk.remove_file(work.out / MANIFEST)
    with suppress(OSError):
        if not keep_folder:
            work.out.rmdir()


def _checked_manifest(folder: Path, where: str, is_join: bool) -> dict[str, Any] | None:
    """Return the manifest of a folder, None where it is new; raise where it is somebody else's."""
    manifest = read_manifest(folder)
    if manifest is None and folder.exists():
        foreign = sorted(set(os.listdir(folder)) - {WORK, f"{MANIFEST}.tmp"})
        if foreign:
            expected = f"a new folder, an empty one, or the folder of this {_noun(is_join)}"
            got = f"{folder}, which holds {foreign[0]!r}"
            raise checks.bad_value("out", where, expected, got)
    return manifest


def check_out(out: str | os.PathLike[str], where: str, is_join: bool) -> Path:
    """Return the folder of pairs; raise where it is somebody else's, or being worked in."""
    folder = checks.path(out, "out", where)
    with disk.refusals(folder):
        _checked_manifest(folder, where, is_join)
        if folder.exists():
            check_tree(folder)  # before anything below it is removed
        if (folder / WORK).is_dir():
            _locked(folder).release()
    return Path(os.path.abspath(folder))


def work_folder(out: Path) -> Path:
    """Return the folder below that of the pairs that is removed when everything is done."""
    return out / WORK


def _noun(is_join: bool) -> str:
    return "join" if is_join else "deduplication"


def _inputs(job: Job, paths: list[Path], before: BlockPlan | None) -> list[Path]:
    """Return the files to read; raise where the list would be written over one of them.

    Where the work goes on, a pattern may match what it has written itself, which is left out.
    """
    target = None if job.listed is None else job.listed.resolve()
    if before is not None:
        known = {file.path for file in before.files}
        out = job.out.resolve()
        paths = [
            path
            for path in paths
            if str(path) in known or not (path.resolve() == target or out in path.resolve().parents)
        ]
    for path in paths:
        if path.resolve() == target:
            expected = "a path that is none of the files"
            raise checks.bad_value("keep_list", job.where, expected, repr(str(job.listed)))
    return paths


def _locked(folder: Path) -> WriterLock:
    try:
        return WriterLock(folder / WORK)
    except LockedError:
        reason = f"{folder} is in use by another process; wait until that one ends"
        raise LockedError(errno.EAGAIN, reason) from None


def _planned(folder: Path, manifest: dict[str, Any]) -> BlockPlan:
    try:
        plan = BlockPlan.of_record(manifest["plan"])
        if not plan.is_possible:
            raise ValueError(f"{plan.n_blocks} blocks of {plan.n_rows} rows")
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(folder / MANIFEST, f"its plan cannot be read ({error!r})") from None
    return plan


def _run(work: WorkFolder, do_tasks: DoTasks, progress: bool | None) -> None:
    """Have all tasks done that are not done yet, those of one kind together."""
    done = _done(work)
    n_blocks, memory = work.plan.n_blocks, work.plan.memory / 1e9
    for kind, title in _STAGES.items():
        tasks = [task for task in work.plan.tasks if task.kind == kind]
        if not tasks:
            continue
        title = title.format(f"{counted(n_blocks, 'block')}, memory {memory:.3g} GB")
        with progress_bar(title, sum(_size(work, task) for task in tasks), progress) as advance:
            advance(sum(_size(work, task) for task in tasks if task in done))
            left = [task for task in tasks if task not in done]
            do_tasks(work, left, lambda task: advance(_size(work, task)))


_STAGES: dict[Kind, str] = {
    "read": "reading rows ({})",
    "copies": "finding copies",
    "draw": "drawing queries",
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
        "draw": draw_queries,
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
            unneeded = work.plan.after_reading in whole and Task("index", task.left) in whole
            if work.is_whole(task, [work.rows(task.left)] if unneeded else []):
                whole.add(task)
    return whole


def saved_result(
    work: WorkFolder, as_given: Callable[[dict[str, Any]], object]
) -> dict[str, Any] | None:
    """Return the result of work that was finished before, if its files are there; None if not."""
    manifest = read_manifest(work.out)
    result: dict[str, Any] | None = None if manifest is None else manifest.get("result")
    if result is None:
        return None
    try:
        as_given(result)
        files = {name: FileSum(*saved) for name, saved in result["files"].items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise damaged(work.out / MANIFEST, f"its result cannot be read ({error!r})") from None
    for name, saved in files.items():
        if not is_inside(name):
            raise damaged(
                work.out / MANIFEST, f"it names {name!r}, which is not a file of the folder"
            )
        check_size(work.out / name, saved)
    return result


def result_of_joins(work: WorkFolder, besides: Sequence[Task] = ()) -> dict[str, Any]:
    """Return what a manifest keeps of all joins, and the tables of other tasks."""
    joins = [task for task in work.plan.tasks if task.kind == "join"]
    return {
        "n_pairs": sum(work.facts(task)["n_pairs"] for task in joins),
        "n_blocks": work.plan.n_blocks,
        "memory": work.plan.memory,
        "certificate": solved_plan(work).certificate.to_json(),
        "files": dict(file for task in (*besides, *joins) for file in work.tables(task)),
    }
