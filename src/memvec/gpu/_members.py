"""Members of units that passed, tested by their own codes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from memvec.gpu._codes import check_codes, check_numbers
from memvec.gpu._queue import Queue

_THREADS, _BLOCKS = 256, 8  # of a block; a multiprocessor
#: No code differs in so many bits.
EVERYTHING = 1 << 14


class Runs(NamedTuple):
    """Units, and which codes are their members.

    Attributes
    ----------
    begins, ends : cupy.ndarray of shape (n_units,), int32
        Unit u holds the slots ``begins[u]`` to ``ends[u] - 1``.
    codes : cupy.ndarray of shape (n_members, bits / 32), uint32
    slots : cupy.ndarray of shape (n_slots,), int32, or None
        The member of each slot; None where slots are members.
    """

    begins: Any
    ends: Any
    codes: Any
    slots: Any = None


class MemberLimits(NamedTuple):
    """In how many bits the code of a member may differ from that of a row.

    Attributes
    ----------
    whole : int or cupy.ndarray of shape (n_members,), int16
    first : int
        The same of the first words alone.
    first_words : int
        How many, of 64 bits; 0 for no test of them.
    """

    whole: Any
    first: int = EVERYTHING
    first_words: int = 0


def launch_members(
    rows: Any,
    candidates: Queue,
    units: Runs,
    limits: MemberLimits,
    queue: Queue,
    *,
    once: bool = False,
    tested: Any = None,
) -> None:
    """Start to test the members of candidates, and do not wait, neither for the candidates.

    Pairs of a row and a member whose codes differ in few enough bits are appended to the queue.
    Candidates that had no room are left out: `candidates.length` tells.

    Parameters
    ----------
    rows : cupy.ndarray of shape (n_rows, bits / 32), uint32
    candidates : Queue
        Pairs of a row and a unit, as a join appends them.
    units : Runs
    limits : MemberLimits
    queue : Queue
        Takes pairs of a row and a member.
    once : bool
        Keep only members whose number is above that of the row: where rows and members are the
        same, each unordered pair is then found once.
    tested : cupy.ndarray of shape (1,), uint64, optional
        The number of members that are tested is added to it.
    """
    where, card = "launch_members", queue.card
    bits = check_codes(rows, "rows", where)
    check_codes(units.codes, "codes", where, bits)
    check_numbers(units.begins, "begins", where, np.int32, len(units.begins))
    check_numbers(units.ends, "ends", where, np.int32, len(units.begins))
    of_each = None if isinstance(limits.whole, int) else limits.whole
    if of_each is not None:
        check_numbers(of_each, "limits", where, np.int16, len(units.codes))
    if not len(units.begins):
        return
    limit = np.int32(limits.whole if of_each is None else 0)
    card.launch(
        ("members", "members", {"BITS": bits, "FIRST": limits.first_words}),
        card.n_processors * _BLOCKS,
        _THREADS,
        (
            *(rows, candidates.entries, candidates.count, np.uint64(candidates.capacity)),
            *(units.begins, units.ends, units.slots, units.codes),
            *(of_each, limit, np.int32(limits.first), np.int32(once)),
            *(queue.entries, queue.count, np.uint64(queue.capacity), tested),
        ),
    )
