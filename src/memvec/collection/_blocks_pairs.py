"""Joins of two sets of files that are larger than memory, block by block."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memvec import checks
from memvec.checks import counted
from memvec.collection._blocks import checked_asked, input_paths, one_by_one
from memvec.collection._blocks_plan import Asked
from memvec.collection._blocks_running import (
    DoTasks,
    Job,
    result_of_joins,
    run_job,
    saved_result,
)
from memvec.collection._blocks_work import WorkFolder
from memvec.guarantee import Certificate, Guarantee
from memvec.progress import heeds_progress
from memvec.search import expected_missed

_WHERE = "memvec.join_files"


@dataclass(frozen=True)
class FileJoin:
    """What a join of files found; the pairs are in files.

    Attributes
    ----------
    n_a, n_b : int
        Rows of both sets.
    n_pairs : int
        Similar pairs.
    n_blocks : int
        How many blocks the rows were shared out over.
    memory : int
        Bytes that might be used.
    certificate : Certificate
        What is promised about the pairs missed, for queries like the rows of the smaller set.
    """

    n_a: int
    n_b: int
    n_pairs: int
    n_blocks: int
    memory: int
    certificate: Certificate

    @property
    def expected_missed(self) -> int:
        """About how many pairs may be left: ε/(1 − ε) for each one found, rounded up."""
        return expected_missed(self.certificate, self.n_pairs)

    def __repr__(self) -> str:
        found, left = counted(self.n_pairs, "pair"), counted(self.expected_missed, "pair")
        return f"FileJoin({found} of {self.n_a:,} and {self.n_b:,}, about {left} may be left)"


@heeds_progress
def join_files(
    a: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    b: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    similarity: float = 0.9,
    *,
    out: str | os.PathLike[str],
    field: str | None = None,
    ids: str | None = None,
    miss_rate: float = 0.01,
    guarantee: Guarantee = "expected",
    confidence: float = 0.95,
    memory: str | int | None = None,
    threads: int | None = None,
    keep_work: bool = False,
    progress: bool | None = None,
) -> FileJoin:
    """Find all similar pairs of a row of some files and a row of others, larger than memory.

    Rows are read in blocks. The blocks of the larger set are indexed and searched with the rows of
    the smaller one. If the smaller one has at most 8,000 rows, all pairs are compared instead, and
    nothing is missed. After a crash or Ctrl-C, the same call resumes, and writes the same bytes.

    Parameters
    ----------
    a, b : str, path or sequence of them
        Two sets of files, as in :func:`memvec.deduplicate_files`. Rows are numbered across all
        files of a set.
    similarity, miss_rate, guarantee, confidence
        As in :func:`memvec.join`.
    out : str or path
        Folder for the pairs: Parquet files of ``id_a``, ``id_b`` and ``score``. Equal vectors are
        pairs like others. Until the call is done, the folder also holds working files.
    field, ids, memory, threads, keep_work, progress
        As in :func:`memvec.deduplicate_files`. An id may be in both sets, but not twice in one.

    Returns
    -------
    FileJoin

    Examples
    --------
    >>> import memvec, tempfile, numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/a.npy", np.float32([[1, 0], [0, 1]]))
    ...     np.save(f"{folder}/b.npy", np.float32([[1, 0.1], [1, 0]]))
    ...     memvec.join_files(f"{folder}/a.npy", f"{folder}/b.npy", out=f"{folder}/pairs")
    FileJoin(2 pairs of 2 and 2, about 0 pairs may be left)
    """
    asked = Asked.of_join(similarity, field, ids, miss_rate, guarantee, confidence)
    return join_by(
        one_by_one(threads, _WHERE),
        a,
        b,
        asked,
        out=out,
        memory=memory,
        keep_work=keep_work,
        progress=progress,
    )


def join_by(
    do_tasks: DoTasks,
    a: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    b: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    asked: Asked,
    *,
    out: str | os.PathLike[str],
    memory: str | int | None = None,
    keep_work: bool = False,
    progress: bool | None = None,
    where: str = _WHERE,
    usual_memory: int | None = None,
) -> FileJoin:
    """Find the similar pairs of two sets; whoever does the tasks, the bytes are the same.

    Parameters
    ----------
    do_tasks : callable
        Does tasks of a work folder that need nothing of each other.
    asked : Asked
        What is asked for, not checked yet.
    a, b, out, memory, keep_work, progress
        As in :func:`join_files`.
    where : str
        Who asks, for messages.
    usual_memory : int, optional
        Bytes that may be used if `memory` is left out; half of this machine's by default.
    """
    sets = [input_paths(a, where), input_paths(b, where)]
    folder = checks.path(out, "out", where)
    result = run_job(
        Job(sets, checked_asked(asked, where), folder, None, where, usual_memory),
        do_tasks,
        lambda work: saved_result(work, _as_given),
        _result,
        memory=memory,
        keep_work=keep_work,
        progress=progress,
    )
    return _as_given(result)


def _result(work: WorkFolder) -> dict[str, Any]:
    """Return what the manifest keeps of the result."""
    plan = work.plan
    return {"n_a": plan.n_first, "n_b": plan.n_second, **result_of_joins(work)}


def _as_given(result: dict[str, Any]) -> FileJoin:
    """Return the result that a manifest holds as users see it."""
    certificate = Certificate.from_json(result["certificate"])
    numbers = {name: value for name, value in result.items() if isinstance(value, int)}
    return FileJoin(**numbers, certificate=certificate)
