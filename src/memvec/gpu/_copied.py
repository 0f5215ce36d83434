"""Units of an index and rows, copied to a card."""

from __future__ import annotations

from typing import Any

import numpy as np

from memvec import checks
from memvec.errors import DeviceMemoryError
from memvec.gpu._card import Card
from memvec.gpu._codes import pack_codes
from memvec.gpu._members import Runs
from memvec.gpu._packages import cupy
from memvec.gpu._scores import CardRows, stored_width
from memvec.gpu._sources import LENGTHS, code_bits
from memvec.gpu._store import room_for_rows
from memvec.gpu._units import CardUnits, CodeShape, doubled
from memvec.kernels import WORD, StoredRows
from memvec.search import CodeUnits
from memvec.types import Int32Array, IntArray, WordArray

# Rows that are copied to a card at a time.
_COPIED = 1 << 17
# Bytes of the card that are left for queues and what else is made on the way.
_LEFT_FREE = 1 << 30


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
        groups, group_scales = None, xp.empty(0, dtype=np.float32)
        if grouped:
            groups, columns = _groups(made, _widened(of_units, codes.shape[1]), singles, card)
            group_scales = xp.asarray(made.top_scales[: units.n_groups])
        else:
            columns = _columns(of_units, singles, shape, card)
        runs = Runs(xp.asarray(begins), xp.asarray(ends), codes, _asarray(slots))
        scales = xp.asarray(made.unit_scales[order])
        keys = xp.asarray(units.keys)
    rows = rows_on_card(units.vectors, card)._replace(places=_asarray(code_rows))
    return CardUnits(
        *(card, made, shape, scales, columns, groups, group_scales, runs),
        *(rows, keys, plain and not grouped),
    )


def _groups(made: CodeUnits, of_units: Any, singles: WordArray, card: Card) -> tuple[Runs, Any]:
    """Return groups of units, each single row as one of its own, and the codes of all of them."""
    xp, units = cupy(), made.units
    ends = units.n_tested + 1 + np.arange(len(singles))
    bounds = xp.asarray(np.concatenate([units.group_offsets, ends]).astype(np.int32))
    of_singles = pack_codes(singles, card)
    # Units of single rows pass whatever their codes are.
    members = Runs(bounds[:-1], bounds[1:], xp.concatenate([of_units, of_singles]))
    blocks = made.top_blocks
    of_groups = blocks.transpose(0, 2, 1).reshape(-1, blocks.shape[1])[: units.n_groups]
    packed = pack_codes(np.ascontiguousarray(of_groups), card)
    return members, xp.concatenate([packed, of_singles])


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


def _columns(of_units: Any, singles: WordArray, shape: CodeShape, card: Card) -> Any:
    """Return codes of units and of single rows as rows are compared with them first."""
    of_singles = pack_codes(singles, card)
    if shape.doubles:
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


def few_rows_on_card(stored: StoredRows) -> CardRows:
    """Copy rows to the current card, at once."""
    dim, width = stored.shape[1], stored_width(stored.shape[1], stored.dtype)
    data = np.zeros((len(stored), width), dtype=stored.data.dtype)
    data[:, :dim] = stored.data
    scales = None if stored.is_plain else cupy().asarray(stored.scales)
    return CardRows(cupy().asarray(data), scales)


def _asarray(array: np.ndarray | None) -> Any:
    return None if array is None else cupy().asarray(array)
