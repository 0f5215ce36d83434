"""Joins and deduplications: too long for a request, so they run by themselves."""

from __future__ import annotations

import logging
import secrets
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import IO, Any, Literal

from memvec.client import Record
from memvec.collection import Collection, Duplicates, PairStream
from memvec.errors import MemvecError
from memvec.guarantee import Certificate
from memvec.progress import listening
from memvec.server._answers import json_text
from memvec.server._failures import ApiError, told
from memvec.server._keys import Key
from memvec.server._registry import Registry
from memvec.server._settings import Limits

State = Literal["waiting", "running", "done", "failed", "cancelled"]
_ENDED = ("done", "failed", "cancelled")
# Options of one kind of job only.
_ONLY = {"self_join": ("collapse_copies",), "deduplicate": ("keep", "groups")}
_PIECE = 1 << 16
_LOG = logging.getLogger("memvec.server")


class _Stopped(BaseException):
    """Raised in the thread of a job that is to stop."""


@dataclass
class Job:
    """A join or a deduplication.

    Attributes
    ----------
    id : str
        What it is called.
    collection, kind : str
        What is done, and where.
    options : dict
        Arguments of the method.
    state : str
        How far it is: waiting, running, done, failed or cancelled.
    step, done, total
        What it does now, and how much of that is done.
    message : str
        Why it failed.
    n_found : int
        Pairs or groups so far.
    owner : str or None
        The id of the key that started it.
    """

    id: str
    collection: str
    kind: Literal["self_join", "deduplicate"]
    options: dict[str, Any]
    state: State = "waiting"
    step: str = ""
    done: int = 0
    total: int = 0
    message: str = ""
    n_found: int = 0
    owner: str | None = None
    created: float = field(default_factory=time.time)
    ended: float | None = None
    certificate: Certificate | None = None
    duplicates: Duplicates[int | str] | None = None
    stopping: threading.Event = field(default_factory=threading.Event)
    pairs: IO[bytes] | None = None

    def record(self) -> Record:
        """Return what clients see of it."""
        names = ("id", "collection", "kind", "options", "state", "step", "done", "total")
        more = ("message", "n_found", "created", "ended")
        return {name: getattr(self, name) for name in (*names, *more)}

    def is_seen_by(self, holder: Key | None) -> bool:
        """Tell whether a key shows the job: the one that started it, and those that write."""
        return holder is None or holder.scope == "write" or holder.id == self.owner

    def told(self, step: str, done: int, total: int) -> None:
        """Take note of progress; stop here where that was asked for."""
        if self.stopping.is_set():
            raise _Stopped
        self.step, self.done, self.total = step, done, total

    def pieces(self) -> Iterator[bytes]:
        """Yield the pairs that were found, as lines of JSON."""
        if self.pairs is None:
            return
        place = 0
        while piece := self._read(place):
            place += len(piece)
            yield piece

    def _read(self, place: int) -> bytes:
        with _READING:  # one place in the file for all who read it
            if self.pairs is None:
                raise ApiError(404, "not_found", "The result of the job is no longer kept.")
            self.pairs.seek(place)
            return self.pairs.read(_PIECE)

    def drop(self) -> None:
        """Give up the file of the result."""
        with _READING:
            if self.pairs is not None:
                self.pairs.close()
                self.pairs = None


_READING = threading.Lock()


class Jobs:
    """Runs jobs one after the other: each uses all cores.

    Parameters
    ----------
    registry : Registry
        The collections.
    limits : Limits
        How many may wait, and how much one may find.
    """

    def __init__(self, registry: Registry, limits: Limits) -> None:
        self._registry, self._limits = registry, limits
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="memvec-job")
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()
        self._working = False

    def start(
        self, collection: str, kind: Any, options: dict[str, Any], holder: Key | None = None
    ) -> Job:
        """Begin a job, or let it wait for others."""
        other = {"self_join": "deduplicate", "deduplicate": "self_join"}[kind]
        given = {name: value for name, value in options.items() if name not in _ONLY[other]}
        owner = None if holder is None else holder.id
        job = Job(secrets.token_hex(8), collection, kind, given, owner=owner)
        with self._lock:
            open_jobs = [one for one in self._jobs.values() if one.state not in _ENDED]
            if len(open_jobs) >= self._limits.jobs:
                text = f"{len(open_jobs)} jobs are already running or waiting."
                raise ApiError(429, "too_many_jobs", text, retry_after=10)
            self._forget()
            self._jobs[job.id] = job
            if not self._working:
                self._working = True
                self._pool.submit(self._run_waiting)
        return job

    def get(self, name: str, holder: Key | None = None) -> Job:
        """Return a job by its id; that of another reader is not there."""
        with self._lock:
            job = self._jobs.get(name)
        if job is None or not job.is_seen_by(holder):
            raise ApiError(404, "not_found", f"There is no job {name[:100]!r}.")
        return job

    def all(self, holder: Key | None = None) -> list[Job]:
        """Return all jobs that are kept and that a key shows, the newest first."""
        with self._lock:
            return [job for job in self._jobs.values() if job.is_seen_by(holder)][::-1]

    def cancel(self, name: str, holder: Key | None = None) -> Job:
        """Ask a job to stop; it does at its next step."""
        job = self.get(name, holder)
        self._stop(job)
        return job

    def close(self) -> None:
        """Stop all jobs and wait for them."""
        for job in self.all():
            self._stop(job)
        self._pool.shutdown(wait=True)
        for job in self.all():
            job.drop()

    def _forget(self) -> None:
        """Give up the results of the oldest jobs."""
        ended = [job for job in self._jobs.values() if job.state in _ENDED]
        for job in ended[: max(0, len(ended) - self._limits.kept_jobs + 1)]:
            del self._jobs[job.id]
            job.drop()

    def _stop(self, job: Job) -> None:
        job.stopping.set()
        with self._lock:
            if job.state == "waiting":
                job.state, job.ended = "cancelled", time.time()

    def _run_waiting(self) -> None:
        """Run jobs until none waits; those that were cancelled leave nothing behind."""
        while (job := self._next()) is not None:
            self._run(job)

    def _next(self) -> Job | None:
        with self._lock:
            job = next((one for one in self._jobs.values() if one.state == "waiting"), None)
            self._working = job is not None
            if job is not None:
                job.state = "running"
            return job

    def _run(self, job: Job) -> None:
        ended: State = "failed"
        try:
            with self._registry.lease(job.collection) as collection, listening(job.told):
                self._work(job, collection)
            ended = "done"
        except _Stopped:
            ended = "cancelled"
        except (ApiError, MemvecError, OSError) as error:
            job.message = told(error).message
        except Exception as error:
            job.message = told(error).message
            _LOG.error("the job %s failed", job.id, exc_info=error)
        finally:
            job.state = ended
            job.ended = time.time()  # last: who sees it may read the state

    def _work(self, job: Job, collection: Collection) -> None:
        if job.kind == "deduplicate":
            found = collection.deduplicate(**job.options, progress=False)
            job.duplicates, job.certificate = found, found.certificate
            job.n_found = len(found.groups)
            return
        stream = collection.self_join(**job.options, progress=False)
        job.certificate = stream.certificate
        self._write(job, stream)

    def _write(self, job: Job, stream: PairStream) -> None:
        """Keep pairs on disk, in a file that goes with the job."""
        job.pairs = tempfile.TemporaryFile(prefix="memvec-job-")  # noqa: SIM115 - closed with the job
        for block in stream.blocks():
            if job.stopping.is_set():
                raise _Stopped
            lines = [json_text(pair._asdict()) for pair in block.records()]
            job.n_found += len(lines)
            if job.n_found > self._limits.job_pairs:
                text = f"More than {self._limits.job_pairs:,} pairs: ask for a higher similarity."
                raise ApiError(413, "too_many_pairs", text)
            job.pairs.write("".join(f"{line}\n" for line in lines).encode())
        job.pairs.flush()
