"""Members of units that passed, tested by their own codes."""

from __future__ import annotations

from typing import Any

import numpy as np

from memvec.gpu._codes import check_codes, check_numbers
from memvec.gpu._queue import Queue

_THREADS, _BLOCKS = 256, 8  # of a block; a multiprocessor


def launch_members(
    rows: Any,
    candidates: Queue,
    begins: Any,
    ends: Any,
    codes: Any,
    thresholds: Any,
    queue: Queue,
    *,
    once: bool = False,
) -> None:
    """Start to test the members of candidates, and do not wait, neither for the candidates.

    Pairs of a row and a member with popcount(row & member) ≥ threshold of the member are appended
    to the queue. Candidates that had no room are left out: `candidates.length` tells.

    Parameters
    ----------
    rows : cupy.ndarray of shape (n_rows, bits / 32), uint32
    candidates : Queue
        Pairs of a row and a unit, as a join appends them.
    begins, ends : cupy.ndarray of shape (n_units,), int32
        Unit u holds the members ``begins[u]`` to ``ends[u] - 1``.
    codes : cupy.ndarray of shape (n_members, bits / 32), uint32
    thresholds : cupy.ndarray of shape (n_members,), int16
    queue : Queue
        Takes pairs of a row and a member.
    once : bool
        Keep only members whose number is above that of the row: where rows and members are the
        same, each unordered pair is then found once.
    """
    where, card = "launch_members", queue.card
    bits = check_codes(rows, "rows", where)
    check_codes(codes, "codes", where, bits)
    check_numbers(begins, "begins", where, np.int32, len(begins))
    check_numbers(ends, "ends", where, np.int32, len(begins))
    check_numbers(thresholds, "thresholds", where, np.int16, len(codes))
    if not len(begins):
        return
    card.launch(
        ("members", "members", {"BITS": bits}),
        card.n_processors * _BLOCKS,
        _THREADS,
        (
            *(rows, candidates.entries, candidates.count, np.uint64(candidates.capacity)),
            *(begins, ends, codes, thresholds, np.int32(once)),
            *(queue.entries, queue.count, np.uint64(queue.capacity)),
        ),
    )
