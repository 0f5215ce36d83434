"""Deduplication of files that are larger than memory, block by block."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

from memvec import checks
from memvec.checks import counted
from memvec.collection._blocks_groups import write_keep_list
from memvec.collection._blocks_plan import Asked, Task
from memvec.collection._blocks_running import (
    DoTasks,
    Job,
    do_task,
    result_of_joins,
    run_job,
    saved_result,
)
from memvec.collection._blocks_work import WorkFolder
from memvec.collection._checksums import sum_of
from memvec.errors import InvalidValueError
from memvec.files import expand_paths
from memvec.guarantee import Certificate, Guarantee
from memvec.index import KeptRow
from memvec.progress import heeds_progress
from memvec.search import Grouping, expected_missed

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

    Rows are read in blocks. Each block is indexed once, and each pair of blocks is joined once.
    Progress is kept in `out`: after a crash or Ctrl-C, the same call resumes, and writes the same
    bytes.

    Parameters
    ----------
    files : str, path or sequence of them
        Vector files as :func:`memvec.files.read_blocks` takes them, or patterns such as
        ``"part-*.parquet"``, in which ``**`` stands for any folders. Rows are numbered across all
        files, in this order.
    similarity, miss_rate, guarantee, confidence
        As in :func:`memvec.deduplicate`. Up to 16,000 rows, nothing is missed.
    out : str or path
        Folder for the pairs: Parquet files of ``id_a``, ``id_b`` and ``score``. Equal vectors are
        paired only with the first of them. Until the call ends, the folder also contains working
        files, about 1.2 times the size of the vectors as float32.
    keep_list : str or path, optional
        A Parquet file to write: ``id`` of each row, ``keep``, and ``group``, the id that is kept
        of its group.
    field, ids : str, optional
        Names of the fields of vectors and ids, as in :func:`memvec.files.read_blocks`. Without ids,
        row numbers are used.
    keep : {"first", "last", "best"}
        Row of a group to keep: the first, the last, or the one of highest score; ties keep the
        first.
    scores : str, optional
        Name of the field of scores, for ``keep="best"``.
    groups : {"components", "star"}
        As in :func:`memvec.deduplicate`.
    memory : str or int, optional
        Memory to use, such as ``"4GB"``; it sets the size of blocks. Half of the machine's memory
        by default. Pages of mapped files, which the system takes back when it needs them, are not
        counted.
    threads : int, optional
        Number of threads; the answer does not depend on it.
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
    return deduplicate_by(
        one_by_one(threads, _WHERE),
        files,
        asked,
        out=out,
        keep_list=keep_list,
        memory=memory,
        keep_work=keep_work,
        progress=progress,
    )


def one_by_one(threads: int | None, where: str) -> DoTasks:
    """Return what does tasks in this process, one after the other."""
    threads = checks.threads(threads, where)

    def do(work: WorkFolder, tasks: list[Task], advance: Callable[[Task], None]) -> None:
        for task in tasks:
            do_task(work, task, threads)
            advance(task)

    return do


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
    where: str = _WHERE,
    usual_memory: int | None = None,
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
    where : str
        Who asks, for messages.
    usual_memory : int, optional
        Bytes that may be used if `memory` is left out; half of this machine's by default.
    """
    asked = checked_asked(asked, where)
    folder = checks.path(out, "out", where)
    listed = None if keep_list is None else _checked_list(keep_list, folder, where)
    result = run_job(
        Job([input_paths(files, where)], asked, folder, listed, where, usual_memory),
        do_tasks,
        partial(_finished, listed=listed),
        partial(_result, listed=listed),
        memory=memory,
        keep_work=keep_work,
        progress=progress,
    )
    return _as_given(result)


def input_paths(
    files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], where: str
) -> list[Path]:
    """Return files and what patterns match.

    Absolute: the same call from another working folder goes on with the same files.
    """
    return [Path(os.path.abspath(path)) for path in expand_paths(files, where)]


def checked_asked(asked: Asked, where: str) -> Asked:
    """Return what is asked for with plain numbers; raise where it cannot be."""
    checks.choice(asked.keep, "keep", where, get_args(KeptRow))
    checks.choice(asked.groups, "groups", where, get_args(Grouping))
    checks.choice(asked.guarantee, "guarantee", where, get_args(Guarantee))
    if (asked.scores is not None) != (asked.keep == "best"):
        expected = "the name of what holds them where keep is 'best', and left out elsewhere"
        raise checks.bad_value("scores", where, expected, repr(asked.scores))
    return replace(
        asked,
        similarity=checks.similarity(asked.similarity, where),
        miss_rate=checks.miss_rate(asked.miss_rate, where),
        confidence=checks.miss_rate(asked.confidence, where, "confidence"),
    )


def _checked_list(path: str | os.PathLike[str], folder: Path, where: str) -> Path:
    expected = "a path ending in .parquet, in a folder that exists and is not that of the pairs"
    checked = checks.path(path, "keep_list", where, expected)
    parent = checked.parent.resolve()
    is_inside = folder.resolve() in (parent, *parent.parents)
    if checked.suffix != ".parquet" or not parent.is_dir() or is_inside:
        raise checks.bad_value("keep_list", where, expected, repr(str(path)))
    return checked


def _finished(work: WorkFolder, listed: Path | None) -> dict[str, Any] | None:
    """Return the result of work that was finished before; None where some is left."""
    result = saved_result(work, _as_given)
    if result is None or listed is None or _is_list_of(result, listed):
        return result
    if work.receipt(Task("groups")) is None:
        raise InvalidValueError(
            f"{listed} cannot be written: {work.out} is finished, and the work that the list "
            "is made of was removed. Remove the folder to begin anew."
        )
    return None


def _is_list_of(result: dict[str, Any], listed: Path) -> bool:
    """Tell whether a file is the list of rows that was written with a result."""
    return listed.exists() and result.get("keep_list") == list(sum_of(listed))


def _as_given(result: dict[str, Any]) -> FileDuplicates:
    """Return the result that a manifest holds as users see it."""
    certificate = Certificate.from_json(result["certificate"])
    numbers = {name: value for name, value in result.items() if isinstance(value, int)}
    return FileDuplicates(**numbers, certificate=certificate)


def _result(work: WorkFolder, listed: Path | None) -> dict[str, Any]:
    """Write the list of rows, and return what the manifest keeps of the result."""
    if listed is not None:
        write_keep_list(work, listed)
    groups = work.facts(Task("groups"))
    return {
        "n_items": work.plan.n_rows,
        "n_copies": work.facts(Task("copies"))["n_pairs"],
        "n_groups": groups["n_groups"],
        "n_dropped": groups["n_dropped"],
        **result_of_joins(work, [Task("copies")]),
        "keep_list": None if listed is None else list(sum_of(listed)),
    }
