"""Codes of two to eight bits per entry, for members that sign codes cannot tell apart."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from memvec.codes._space import CodeSpace
from memvec.kernels import UnitRows, encode_fine, run_blocks
from memvec.progress import Advance
from memvec.types import ByteArray, Float32Array

# The width of a level, in standard deviations of an entry: the uniform quantiser of least error for
# Gaussian numbers (Max, "Quantizing for minimum distortion", 1960).
_WIDTHS = {2: 0.996, 3: 0.586, 4: 0.335, 5: 0.188, 6: 0.104, 7: 0.0569, 8: 0.0308}
# The tangent of the angle between a vector and its code, in root mean square: within 5 % of 192 and
# 384 dimensions simulated. That of one bit is √(π/2 − 1).
TANGENTS = {1: 0.755, 2: 0.366, 3: 0.196, 4: 0.105, 5: 0.056, 6: 0.029, 7: 0.015, 8: 0.0077}
# What rounding a query to whole numbers up to 127 adds.
_QUERY_TANGENT = 0.0073
_ROWS_PER_BLOCK = 1024
# Levels that half a byte holds.
_HALF_BYTE = 16


@dataclass(frozen=True, eq=False)
class FineCodes:
    """Codes of more than one bit an entry; see `memvec.kernels` for what they hold.

    Attributes
    ----------
    flips : ndarray of shape (rounds, padded_dim)
        The rotation, as in `CodeSpace`.
    bits : int
        Bits an entry, b; 1 where there are no such codes.
    codes : ndarray of shape (n_vectors, n_bytes)
        uint8.
    scales : ndarray of shape (n_vectors,)
        What a match 1 scores on each, float32.

    Examples
    --------
    >>> rows = np.eye(3, 100, dtype=np.float32)
    >>> FineCodes.of(rows, 4, seed=0).codes.shape
    (3, 64)
    """

    flips: Float32Array
    bits: int
    codes: ByteArray
    scales: Float32Array

    @classmethod
    def none(cls) -> FineCodes:
        """Return codes of nothing."""
        flips = np.empty((0, 64), dtype=np.float32)
        return cls(flips, 1, np.empty((0, 32), dtype=np.uint8), np.empty(0, dtype=np.float32))

    @classmethod
    def of(
        cls, vectors: UnitRows, bits: int, *, seed: int, advance: Advance | None = None
    ) -> FineCodes:
        """Return the codes of float32 unit rows, of 2 to 8 bits per entry."""
        space = CodeSpace.random(vectors.shape[1], seed=seed)
        padded, n_vectors = space.padded_dim, len(vectors)
        steps, n_levels = np.float32(math.sqrt(padded) / _WIDTHS[bits]), 1 << bits
        codes = np.empty((n_vectors, n_code_bytes(padded, bits)), dtype=np.uint8)
        scales = np.empty(n_vectors, dtype=np.float32)

        def encode_some(start: int, stop: int) -> None:
            rotated = space.rotate(vectors[start:stop])
            encode_fine(rotated, steps, n_levels, codes[start:stop], scales[start:stop])

        run_blocks(encode_some, n_vectors, _ROWS_PER_BLOCK, done=advance)
        return cls(space.flips, bits, codes, scales)

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def n_levels(self) -> int:
        """Levels of an entry, L."""
        return 1 << self.bits

    @property
    def noise(self) -> float:
        """The standard deviation of an estimate, about."""
        return estimate_noise(self.flips.shape[1], self.bits)


def n_code_bytes(padded_dim: int, bits: int) -> int:
    """Return the bytes of a code; levels of up to four bits take half a byte each."""
    return padded_dim // 2 if 1 << bits <= _HALF_BYTE else padded_dim


def estimate_noise(padded_dim: int, bits: int) -> float:
    """Return the standard deviation of an inner product as codes of 1 to 8 bits estimate it.

    It is that of unrelated unit rows, tan φ/√d, φ the angle between a vector and its code. At a
    cosine of α it is less by √(1 − α²).
    """
    return math.hypot(TANGENTS[bits], _QUERY_TANGENT) / math.sqrt(padded_dim)
