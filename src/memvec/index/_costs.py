"""What the steps of a search cost, in nanoseconds: the design step reads it, and never a clock."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MachineCosts:
    """A table of costs; another machine's can be passed to ``Index.build(machine=…)``.

    Attributes
    ----------
    version : int
        Which table this is.
    word : float
        Comparing one word of 64 bits of a unit's code with the query.
    code : float
        What a unit's code costs besides its words.
    member_word : float
        Comparing one word of a member's code, in a run of members.
    visit : float
        Going to the members of a unit that passed: a read from memory.
    """

    version: int = 1
    word: float = 0.19
    code: float = 0.15
    member_word: float = 0.25
    visit: float = 60.0


__all__ = ["MachineCosts"]
