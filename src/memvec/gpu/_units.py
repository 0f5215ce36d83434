"""Units of an index on a card: codes in the order of the tests, rows as they are stored."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from memvec.gpu._card import Card
from memvec.gpu._codes import encode_balanced
from memvec.gpu._members import Runs
from memvec.gpu._packages import cupy
from memvec.gpu._scores import CardRows
from memvec.gpu._sources import code_bits
from memvec.kernels import WORD
from memvec.search import CodeUnits


class CodeShape(NamedTuple):
    """How the codes of an index look.

    Attributes
    ----------
    n_bits, n_words : int
        Bits of a code, and words of 64 bits that they take.
    unit_words, first_words : int
        Words that are tested of a unit's code, and of a member's before the whole.
    tests_whole : bool
        Whether whole codes of members are tested.
    """

    n_bits: int
    n_words: int
    unit_words: int
    first_words: int
    tests_whole: bool

    @property
    def doubles(self) -> bool:
        """Whether codes of units are compared by their first words: such codes are not balanced.

        A code and its complement, one after the other, are.
        """
        return self.unit_words < self.n_words

    @property
    def unit_bits(self) -> int:
        """Bits of a unit's code that tell something."""
        return min(WORD * self.unit_words, self.n_bits)


@dataclass(frozen=True, eq=False)
class CardUnits:
    """Units, members and rows on a card.

    Units are in the order of their scales, so that those with like thresholds lie together, and
    codes of members in the order of the units; rows stay where they are. Rows that no unit stands
    for follow: each is a unit of its own, tested by its own code.

    Attributes
    ----------
    card : Card
    cascade : CodeUnits
        Tells lines of thresholds, and how queries become codes.
    shape : CodeShape
    scales : cupy.ndarray of shape (n_tested,), float32
        Of the units that are tested.
    columns : cupy.ndarray of shape (n_columns, …), uint32
        Codes that are tested first: of groups, or of units where there are none.
    groups : Runs or None
        Units as members of groups.
    group_scales : cupy.ndarray of shape (n_groups,), float32
    units : Runs
        Members of units.
    rows : CardRows
        The rows, and where that of each code lies.
    keys : cupy.ndarray of shape (n_rows,), int64, or None
        The id of each row; None where it is the row's number.
    in_order : bool
        Whether codes of members lie in the order of units.
    """

    card: Card
    cascade: CodeUnits
    shape: CodeShape
    scales: Any
    columns: Any
    groups: Runs | None
    group_scales: Any
    units: Runs
    rows: CardRows
    keys: Any
    in_order: bool

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.rows.data)

    @property
    def n_tested(self) -> int:
        """Units with a memory vector."""
        return len(self.scales)

    @cached_property
    def unit_size(self) -> int | None:
        """Members of every unit that is tested; None where they differ."""
        n = self.n_tested
        sizes = cupy().unique(self.units.ends[:n] - self.units.begins[:n])
        return int(sizes[0]) if len(sizes) == 1 else None

    def encoded(self, unit_rows: Any) -> Any:
        """Return the codes of rows on the card."""
        space = self.cascade.space
        given = space.flips, space.padded_dim, self.card
        return encode_balanced(unit_rows, *given, coded=space.n_bits)

    def as_columns_see(self, codes: Any) -> Any:
        """Return codes of rows as they are compared with those of units."""
        if not self.shape.doubles or self.groups is not None:
            return codes
        return doubled(codes[:, : 2 * self.shape.unit_words], self.shape.unit_bits, self.card)

    def as_units_see(self, codes: Any) -> Any:
        """Return the first words of codes of rows, where units are the members of groups."""
        if not self.shape.doubles:
            return codes
        first = cupy().zeros_like(codes)
        first[:, : 2 * self.shape.unit_words] = codes[:, : 2 * self.shape.unit_words]
        return first

    def ids(self, places: Any) -> Any:
        """Return the ids of rows, by their places."""
        return places.astype(np.int64) if self.keys is None else self.keys[places]


def doubled(words: Any, n_bits: int, card: Card) -> Any:
    """Return codes of words of 32 bits with their complements behind them, on a card."""
    xp, (n, n_words) = cupy(), words.shape
    with xp.cuda.Device(card.number):
        codes = xp.zeros((n, code_bits(2 * 32 * n_words) // 32), dtype=np.uint32)
        codes[:, :n_words] = words
        codes[:, n_words : 2 * n_words] = ~words & xp.asarray(_ones(n_bits, n_words))
    return codes


def _ones(n_bits: int, n_words: int) -> np.ndarray:
    """Return words of 32 bits, the first so many bits of which are set."""
    left = np.clip(n_bits - 32 * np.arange(n_words), 0, 32).astype(np.uint64)
    return ((np.uint64(1) << left) - np.uint64(1)).astype(np.uint32)
