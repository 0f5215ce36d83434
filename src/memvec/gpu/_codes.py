"""Balanced codes on a card: made there, or brought there."""

from __future__ import annotations

from typing import Any

import numpy as np

from memvec import checks
from memvec.gpu._card import Card
from memvec.gpu._packages import cupy
from memvec.gpu._sources import BITS_STEP, LENGTHS, check_length, code_bits
from memvec.types import Float32Array, WordArray

_WARPS = 4
_ENCODING_BLOCKS = 16  # a multiprocessor
_RADIX = 8

__all__ = ["BITS_STEP", "LENGTHS", "check_codes", "code_bits", "encode_balanced", "pack_codes"]


def pack_codes(codes: WordArray, card: Card) -> Any:
    """Return codes of words of 64 bits on a card, with zeros up to a multiple of 256 bits.

    Parameters
    ----------
    codes : ndarray of shape (n_codes, n_words), uint64
    card : Card

    Returns
    -------
    cupy.ndarray of shape (n_codes, bits / 32), uint32
    """
    words = np.ascontiguousarray(codes, dtype=np.uint64)
    if words.ndim != 2:
        raise checks.bad_value("codes", "pack_codes", "two-dimensional", f"shape {words.shape}")
    halves = words.view(np.uint32)
    packed = card.empty("Codes", (len(words), code_bits(64 * words.shape[1]) // 32), np.uint32)
    with cupy().cuda.Device(card.number):
        packed[:, : halves.shape[1]] = cupy().asarray(halves)
        packed[:, halves.shape[1] :] = 0
    return packed


def encode_balanced(
    rows: Any,
    flips: Float32Array,
    length: int,
    card: Card,
    *,
    coded: int | None = None,
    sums: Any = None,
    codes: Any = None,
) -> Any:
    """Return the balanced codes of rows: half of the bits are set, those of the largest entries.

    Of entries that are equal, the first are set. A row is rotated first: each round multiplies its
    entries by those of `flips` and mixes eight runs, in the order of `memvec.kernels.rotate`.

    Parameters
    ----------
    rows : cupy.ndarray of shape (n_rows, dim), float32
    flips : array of shape (n_rounds, length), float32
        No rounds leave rows as they are, with zeros up to `length`.
    length : int
        Even, 64 to 2048, at least dim; a multiple of 8 where there are rounds.
    card : Card
    coded : int, optional
        Bits of a code, an even number: the first entries are coded. All by default.
    sums : cupy.ndarray of shape (n_rows,), float32, optional
        Takes the sums of the magnitudes of the entries that are coded.
    codes : cupy.ndarray of shape (n_rows, bits / 32), uint32, optional
        Takes the codes; made where it is not given.

    Returns
    -------
    cupy.ndarray of shape (n_rows, bits / 32), uint32
        Bit j of word w belongs to entry 32w + j. Bits past those that are coded are 0.
    """
    where = "encode_balanced"
    length = check_length(length, where)
    coded = length if coded is None else checks.integer(coded, "coded", where, minimum=2)
    if coded > length or coded % 2:
        raise checks.bad_value("coded", where, f"an even number, at most {length}", coded)
    check_rows(rows, "rows", where, np.float32)
    if rows.shape[1] > length:
        raise checks.bad_value("length", where, f"at least {rows.shape[1]}", length)
    if len(flips) and (length % _RADIX or flips.shape[1] != length):
        expected = f"a multiple of {_RADIX} and as long as the flips, {flips.shape[1]}"
        raise checks.bad_value("length", where, expected, length)
    if codes is None:
        codes = card.empty("Codes", (len(rows), code_bits(coded) // 32), np.uint32)
    if not len(rows):
        return codes
    with cupy().cuda.Device(card.number):
        signs = cupy().asarray(flips, dtype=np.float32)
    grid = min(-(-len(rows) // _WARPS), card.n_processors * _ENCODING_BLOCKS)
    sizes = np.int32(rows.shape[1]), np.int32(len(rows))
    arguments = (rows, *sizes, signs if len(flips) else None, np.int32(len(flips)), codes, sums)
    kernel = "encode", "encode", {"BITS": code_bits(coded), "CODED": coded, "LENGTH": length}
    card.launch(kernel, grid, _WARPS * 32, arguments)
    return codes


def check_codes(codes: Any, name: str, where: str, bits: int | None = None) -> int:
    """Return how many bits codes on a card have."""
    check_rows(codes, name, where, np.uint32)
    found = 32 * int(codes.shape[1])
    if found % BITS_STEP or not 0 < found <= LENGTHS[1] or bits not in (None, found):
        expected = f"codes of {bits or 'a multiple of 256, at most 2048,'} bits"
        raise checks.bad_value(name, where, expected, f"{found} bits")
    return found


def check_rows(rows: Any, name: str, where: str, dtype: Any) -> None:
    """Raise unless rows on a card are of a type."""
    _check(rows, name, where, dtype, 2)


def check_numbers(values: Any, name: str, where: str, dtype: Any, n: int) -> None:
    """Raise unless there is one number of a type for each of `n` things."""
    _check(values, name, where, dtype, 1)
    if len(values) != n:
        raise checks.bad_value(name, where, f"of length {n}", f"length {len(values)}")


def _check(array: Any, name: str, where: str, dtype: Any, ndim: int) -> None:
    """Raise unless an array on a card is what a kernel reads."""
    expected = f"a C-contiguous {ndim}-dimensional array of {np.dtype(dtype)} on a GPU"
    if not hasattr(array, "__cuda_array_interface__") or not hasattr(array, "flags"):
        raise checks.bad_type(name, where, expected, type(array).__name__)
    if array.dtype != dtype or array.ndim != ndim or not array.flags.c_contiguous:
        got = f"{array.dtype} of shape {array.shape}"
        raise checks.bad_value(name, where, expected, got)
