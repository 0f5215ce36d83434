"""One pool of threads for all kernels.

Kernels release the GIL, so plain threads run them on all cores. Numba's own parallel loops are not
used: their default layer must not be entered from two threads at once, and users do that.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from memvec import checks

#: Names the number of threads that are used where nobody says another.
THREADS = "MEMVEC_THREADS"
_LOCK = threading.Lock()
_POOL: ThreadPoolExecutor | None = None
_POOL_OWNER = 0


def default_threads() -> int:
    """Return how many threads to use: MEMVEC_THREADS, else the cores this process may run on."""
    asked = os.environ.get(THREADS, "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def blocks(n_items: int, block: int) -> Iterator[tuple[int, int]]:
    """Yield the consecutive ranges ``(start, stop)`` of at most `block` items."""
    for start in range(0, n_items, block):
        yield start, min(start + block, n_items)


def run_blocks(
    work: Callable[[int, int], None],
    n_items: int,
    block: int,
    *,
    threads: int | None = None,
    done: Callable[[int], None] | None = None,
) -> None:
    """Call ``work(start, stop)`` for every block, on several threads; the first error is raised.

    The blocks do not depend on the number of threads, and each must write its own part of the
    output: so neither does the result. `done` is called with the items of each finished block,
    from the calling thread.
    """
    ranges = list(blocks(n_items, block))
    n_threads = (
        default_threads() if threads is None else checks.integer(threads, "threads", "run_blocks")
    )

    def run(span: tuple[int, int]) -> int:
        work(*span)
        return span[1] - span[0]

    if n_threads == 1 or len(ranges) <= 1:
        _report(map(run, ranges), done)
        return
    with _pool(n_threads) as pool:
        _report(pool.map(run, ranges), done)


def _report(finished: Iterator[int], done: Callable[[int], None] | None) -> None:
    for n_done in finished:
        if done is not None:
            done(n_done)


@contextmanager
def _pool(n_threads: int) -> Iterator[ThreadPoolExecutor]:
    """Yield this process's pool, or one of its own for an unusual number of threads.

    A forked child makes its own pool, as threads do not survive a fork.
    """
    global _POOL, _POOL_OWNER
    if n_threads != default_threads():
        with ThreadPoolExecutor(n_threads, thread_name_prefix="memvec") as own:
            yield own
        return
    with _LOCK:
        if _POOL is None or os.getpid() != _POOL_OWNER:
            _POOL = ThreadPoolExecutor(n_threads, thread_name_prefix="memvec")
            _POOL_OWNER = os.getpid()
    yield _POOL
