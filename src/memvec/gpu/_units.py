"""Units of an index on a card: codes in the order of the tests, rows as they are stored."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from memvec import checks
from memvec.errors import DeviceMemoryError
from memvec.gpu._card import Card
from memvec.gpu._codes import encode_balanced, pack_codes
from memvec.gpu._members import EVERYTHING, MemberLimits, Runs
from memvec.gpu._packages import cupy
from memvec.gpu._scores import CardRows, stored_width
from memvec.gpu._sources import LENGTHS, code_bits
from memvec.gpu._store import room_for_rows
from memvec.guarantee import Thresholds
from memvec.kernels import CODE_STAGE, GROUP_STAGE, PREFIX_STAGE, UNIT_STAGE, WORD, StoredRows
from memvec.search import CodeUnits, StageLines
from memvec.types import Int32Array, IntArray, WordArray

# Rows that are copied to a card at a time.
_COPIED = 1 << 17
# Bytes of the card that are left for queues and what else is made on the way.
_LEFT_FREE = 1 << 30


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


class Limits(NamedTuple):
    """What codes need to pass, for all queries of a plan.

    Attributes
    ----------
    columns : cupy.ndarray of shape (n_columns,), int16
        Bits that a row and a column have in common at least.
    units : MemberLimits or None
        Of units as members of groups.
    members : MemberLimits
    """

    columns: Any
    units: MemberLimits | None
    members: MemberLimits


def limits_of(units: CardUnits, thresholds: Thresholds) -> Limits:
    """Return what codes need to pass by some thresholds."""
    xp, shape = cupy(), units.shape
    lines = units.cascade.balanced_lines(thresholds)
    first = _whole(lines[PREFIX_STAGE], np.float32(units.cascade.prefix_scale))
    whole = EVERYTHING
    if shape.tests_whole:
        whole = _whole(lines[CODE_STAGE], np.float32(units.cascade.code_scales[0]))
    of_member = MemberLimits(whole, first, shape.first_words)
    if shape.first_words == shape.n_words:
        of_member = MemberLimits(min(whole, first))
    n_singles = len(units.units.begins) - units.n_tested
    with xp.cuda.Device(units.card.number):
        # Who differs in so many bits of the whole code differs in no more of its first words.
        singles = xp.full(n_singles, of_member.whole, dtype=np.int16)
        of_units = _counts(lines[UNIT_STAGE], units.scales)
        if units.groups is None:
            every = xp.concatenate([of_units, singles])
            bits = shape.unit_bits if shape.doubles else shape.n_bits
            return Limits(_least_common(every, bits, shape.doubles), None, of_member)
        of_groups = _counts(lines[GROUP_STAGE], units.group_scales)
        columns = _least_common(xp.concatenate([of_groups, singles]), shape.n_bits, doubles=False)
        passing = xp.concatenate([of_units, xp.full(n_singles, EVERYTHING, dtype=np.int16)])
    return Limits(columns, MemberLimits(passing), of_member)


def _whole(lines: StageLines, scale: np.float32) -> int:
    return int(np.clip(lines.most_different(scale), -1, EVERYTHING))


def _counts(lines: StageLines, scales: Any) -> Any:
    return cupy().clip(lines.most_different(scales), -1, EVERYTHING).astype(np.int16)


def _least_common(most_different: Any, bits: int, doubles: bool) -> Any:
    """Return the bits that codes have in common which differ in so many.

    Of balanced codes it is (bits − p)/2, of a code and its complement bits − p.
    """
    common = bits - most_different.astype(np.int32)
    return (common if doubles else (common + 1) // 2).astype(np.int16)


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


def units_on_card(cascade: object, card: Card, where: str = "Index.to") -> CardUnits:
    """Copy the units of an index to a card.

    Raises
    ------
    InvalidValueError
        The codes are not balanced, or longer than kernels compare.
    DeviceMemoryError
        The card has less free memory than all of it needs.
    """
    made = _checked(cascade, where)
    units = made.units
    shape = CodeShape(
        *(made.space.n_bits, made.space.n_words, made.n_unit_words, made.n_prefix),
        made.tests_whole_codes,
    )
    _check_memory(made, shape, card)
    grouped, plain = units.n_groups > 0, not len(units.run_rows)
    order = np.arange(units.n_tested)
    if not grouped:
        order = np.argsort(made.unit_scales, kind="stable")
    begins, ends, code_rows = _layout(units.run_offsets, order, len(units.vectors), plain)
    slots = None
    if not plain:
        slots = np.where(units.run_rows < 0, ~units.run_rows, units.run_rows).astype(np.int32)
    singles = np.ascontiguousarray(made.codes[units.offsets[units.n_tested] :])
    xp = cupy()
    with xp.cuda.Device(card.number):
        codes = _member_codes(made.codes, code_rows, card)
        of_units = pack_codes(made.unit_codes[order], card)
        columns = _columns(of_units, singles, shape, card, doubles=shape.doubles and not grouped)
        runs = Runs(xp.asarray(begins), xp.asarray(ends), codes, _asarray(slots))
        groups, group_scales = None, xp.empty(0, dtype=np.float32)
        if grouped:
            n_tested, n_groups = units.n_tested, units.n_groups
            bounds = np.concatenate(
                [units.group_offsets, np.arange(n_tested + 1, n_tested + len(singles) + 1)]
            ).astype(np.int32)
            of_members = _widened(of_units, codes.shape[1])
            # Units of single rows pass whatever their codes are.
            of_members = xp.concatenate([of_members, pack_codes(singles, card)])
            groups = Runs(xp.asarray(bounds[:-1]), xp.asarray(bounds[1:]), of_members)
            group_scales = xp.asarray(made.top_scales[:n_groups])
            blocks = made.top_blocks
            of_groups = blocks.transpose(0, 2, 1).reshape(-1, blocks.shape[1])[:n_groups]
            packed = pack_codes(np.ascontiguousarray(of_groups), card)
            columns = xp.concatenate([packed, pack_codes(singles, card)])
        scales = xp.asarray(made.unit_scales[order])
        keys = xp.asarray(units.keys)
    rows = rows_on_card(units.vectors, card)._replace(places=_asarray(code_rows))
    return CardUnits(
        *(card, made, shape, scales, columns, groups, group_scales, runs),
        *(rows, keys, plain and not grouped),
    )


def _checked(cascade: object, where: str) -> CodeUnits:
    balanced = isinstance(cascade, CodeUnits) and cascade.is_balanced
    if not isinstance(cascade, CodeUnits) or not balanced:
        expected = "'cpu' for an index without balanced codes"
        got = "'cuda'; build it with IndexConfig(codes=\"balanced\") or device='cuda'"
        raise checks.bad_value("device", where, expected, got)
    longest = LENGTHS[1]
    lengths = cascade.space.padded_dim, 2 * WORD * cascade.n_unit_words
    if max(lengths[0], cascade.space.n_bits) > longest or (
        cascade.n_unit_words < cascade.space.n_words and lengths[1] > longest
    ):
        expected = f"'cpu' for more than {longest} dimensions or bits of a code"
        raise checks.bad_value("device", where, expected, f"'cuda' for {max(lengths)}")
    return cascade


def _check_memory(made: CodeUnits, shape: CodeShape, card: Card) -> None:
    """Raise unless all of an index has room, before any of it is taken."""
    vectors, code_bytes = made.units.vectors, code_bits(shape.n_bits) // 8
    width = stored_width(vectors.shape[1], vectors.dtype)
    a_row = width * vectors.data.itemsize + 2 * code_bytes + 24  # codes are put in order
    needed = len(vectors) * a_row + made.units.n_tested * 2 * (code_bytes + 16) + _LEFT_FREE
    free = card.free_memory()
    if needed > free:
        raise DeviceMemoryError("The index", needed, free)


def _layout(
    offsets: IntArray, order: IntArray, n_rows: int, plain: bool
) -> tuple[Int32Array, Int32Array, Int32Array | None]:
    """Return the slots of units in their order and of single rows, and the row of each code.

    None tells that codes lie like rows, where rows are members of two units.
    """
    sizes = np.diff(offsets)[order]
    n_tested = len(order)
    first_single = int(offsets[n_tested])
    singles = np.arange(first_single, int(offsets[-1]))
    if plain:
        ends = np.cumsum(sizes)
        begins = ends - sizes
        inside = np.arange(int(ends[-1]) if n_tested else 0)
        moved = np.repeat(offsets[:-1][order] - begins, sizes) + inside
        rows = np.concatenate([moved, np.arange(len(inside), n_rows)]).astype(np.int32)
    else:
        begins = offsets[:-1][order]
        ends, rows = begins + sizes, None
    both = np.concatenate([begins, singles]), np.concatenate([ends, singles + 1])
    return both[0].astype(np.int32), both[1].astype(np.int32), rows


def _member_codes(codes: WordArray, code_rows: Int32Array | None, card: Card) -> Any:
    if code_rows is None:
        return pack_codes(codes, card)
    packed = card.empty("Codes", (len(codes), code_bits(64 * codes.shape[1]) // 32), np.uint32)
    for start in range(0, len(codes), _COPIED):
        some = code_rows[start : start + _COPIED]
        packed[start : start + len(some)] = pack_codes(codes[some], card)
    return packed


def _columns(of_units: Any, singles: WordArray, shape: CodeShape, card: Card, doubles: bool) -> Any:
    """Return codes of units and of single rows as rows are compared with them first."""
    of_singles = pack_codes(singles, card)
    if doubles:
        words = 2 * shape.unit_words
        both = (codes[:, :words] for codes in (of_units, of_singles))
        of_units, of_singles = (doubled(codes, shape.unit_bits, card) for codes in both)
    else:
        of_units = _widened(of_units, of_singles.shape[1])
    return cupy().concatenate([of_units, of_singles])


def _widened(codes: Any, n_words: int) -> Any:
    """Return codes with zeros up to a number of words of 32 bits."""
    if codes.shape[1] == n_words:
        return codes
    wide = cupy().zeros((len(codes), n_words), dtype=np.uint32)
    wide[:, : codes.shape[1]] = codes
    return wide


def rows_on_card(vectors: StoredRows, card: Card) -> CardRows:
    """Copy rows to a card, block by block."""
    xp, dim = cupy(), vectors.shape[1]
    made = room_for_rows(len(vectors), dim, vectors.dtype, card)
    with xp.cuda.Device(card.number):
        made.data[:, dim:] = 0
        for start in range(0, len(vectors), _COPIED):
            block = slice(start, start + _COPIED)
            made.data[block, :dim] = xp.asarray(vectors.data[block])
            if made.scales is not None:
                made.scales[block] = xp.asarray(vectors.scales[block])
    return made


def _asarray(array: np.ndarray | None) -> Any:
    return None if array is None else cupy().asarray(array)
