"""Where vectors become codes: a random rotation or none, one bit an entry, and scales."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from memvec import checks
from memvec.kernels import (
    RADIX,
    WORD,
    UnitRows,
    balance_rows,
    encode_rows,
    estimate_scores,
    quantise_query,
    rotate_rows,
    run_blocks,
)
from memvec.progress import Advance
from memvec.types import Float32Array, Float64Array, WordArray

# Rounds of the rotation beyond those that let every entry reach every other: the values are then
# Gaussian to the eye.
_EXTRA_ROUNDS = 1
# The width of a level of the query's magnitude, in standard deviations. With the levels 0 to 3 it
# keeps 95.3 % of the query's energy, more than 0.6 or 0.7 do.
_LEVEL_WIDTH = 0.65
_ROWS_PER_BLOCK = 1024


@dataclass(frozen=True, eq=False)
class Encoded:
    """Codes of some vectors.

    Attributes
    ----------
    words : ndarray of shape (n_vectors, n_words)
        Bit j of word w tells the sign of entry 64w + j of the rotated vector, uint64.
    prefix_sums, full_sums : ndarray of shape (n_vectors,)
        Σ|x′| over the entries of the first words, and over all, float32.
    """

    words: WordArray
    prefix_sums: Float32Array
    full_sums: Float32Array


@dataclass(frozen=True, eq=False)
class Estimates:
    """Inner products of one query with some vectors, as their codes tell them.

    Over the random rotation, the estimate by a query of full precision is unbiased, and its error
    is nearly Gaussian with a standard deviation of at most `deviations`: the query's levels, √Σv²,
    over what an inner product of 1 adds up to (RaBitQ, Theorem 3.2, states the same with the angle
    between a vector and its code). The four levels of a query add a bias of less than 3 % of the
    inner product: 1 % at a cosine of 0.6 and 2.5 % at 0.9 were measured. Without a rotation,
    all this is true only of vectors whose entries are alike.

    Attributes
    ----------
    values : ndarray of shape (n_vectors,)
        The estimates, float32.
    deviations : ndarray of shape (n_vectors,)
        Of their errors, float32.
    """

    values: Float32Array
    deviations: Float32Array

    def bound(self, deviations: float) -> Float32Array:
        """Return what an error stays under, but for Φ(−deviations) on each side."""
        return (deviations * self.deviations).astype(np.float32)


@dataclass(frozen=True, eq=False)
class CodeSpace:
    """A rotation, and how queries are quantised in the rotated space.

    A rotated vector x′ is kept as its signs s. A rotated query q′ becomes whole numbers v of 0 to
    `top` with signs. Then Σ sᵢvᵢ estimates the inner product: as q′ = (qᵀx/‖x‖²)x′ + something
    orthogonal to x′, it is gain · qᵀx · Σ|x′|/‖x‖² on average, with a noise of about √Σv². This is
    the estimate of RaBitQ (Gao and Long, SIGMOD 2024) with a query quantised in sign and
    magnitude, which takes two popcounts per word where its four bits take four.

    Attributes
    ----------
    dim : int
        Dimension of the vectors.
    flips : ndarray of shape (rounds, padded_dim)
        The signs of the rotation over √8; no rounds leave vectors as they are, padded with zeros.
    steps : float
        Levels a unit of magnitude of q′.
    top : int
        The highest level: 3, or 1 for a binary query. −L for balanced codes of L bits.
    gain : float
        What Σ sᵢvᵢ is for an inner product of 1 with a code whose sum of magnitudes over the
        squared norm is 1.
    """

    dim: int
    flips: Float32Array
    steps: float
    top: int
    gain: float

    @classmethod
    def random(
        cls, dim: int, *, symmetric: bool = False, seed: int = 0, balanced: int | None = None
    ) -> CodeSpace:
        """Return a space with a random rotation.

        Parameters
        ----------
        dim : int
            Dimension of the vectors; it is padded to a multiple of 64.
        symmetric : bool, default False
            Keep the signs of the query only: codes are then compared by Hamming distance.
        seed : int
            Fixes the rotation.
        balanced : int, optional
            Make balanced codes of so many bits, an even number: the bits of the larger half of the
            entries are set, of rows and of queries alike. Vectors of fewer dimensions are padded
            with zeros before the rotation; of more, the first entries after it are taken.

        Examples
        --------
        >>> space = CodeSpace.random(100)
        >>> space.n_words
        2
        >>> space = CodeSpace.random(100, balanced=256)
        >>> [code] = space.encode(np.eye(1, 100, dtype=np.float32), prefix_words=1).words.tolist()
        >>> sum(word.bit_count() for word in code)
        128
        """
        dim = checks.integer(dim, "dim", "CodeSpace.random")
        rng = checks.generator(seed, "CodeSpace.random")
        padded = _padded(dim, balanced)
        rounds = math.ceil(math.log(padded, RADIX) - 1e-9) + _EXTRA_ROUNDS
        signs = rng.choice(np.array([-1, 1], dtype=np.float32), size=(rounds, padded))
        flips = (signs / np.sqrt(RADIX)).astype(np.float32)
        return cls._of_entries(dim, flips, padded, symmetric, balanced)

    @classmethod
    def unrotated(
        cls, dim: int, *, symmetric: bool = False, balanced: int | None = None
    ) -> CodeSpace:
        """Return a space whose codes are the signs of the entries themselves, as in the paper.

        Parameters
        ----------
        dim : int
            Dimension of the vectors. Zeros pad it to a multiple of 64; they have no part in any
            comparison, since the level of a zero is 0.
        symmetric : bool, default False
            Keep the signs of the query only.
        balanced : int, optional
            As in `random`.

        Examples
        --------
        >>> space = CodeSpace.unrotated(3)
        >>> space.rotate(np.array([[3, -1, 2]], dtype=np.float32))[0, :4].tolist()
        [3.0, -1.0, 2.0, 0.0]
        """
        dim = checks.integer(dim, "dim", "CodeSpace.unrotated")
        flips = np.empty((0, _padded(dim, balanced)), dtype=np.float32)
        return cls._of_entries(dim, flips, dim, symmetric, balanced)

    @classmethod
    def _of_entries(
        cls,
        dim: int,
        flips: Float32Array,
        n_entries: int,
        symmetric: bool,
        balanced: int | None,
    ) -> CodeSpace:
        """Return a space where the norm of a vector is shared by so many entries."""
        root = float(np.sqrt(n_entries))
        if symmetric or balanced is not None:
            # So many levels that every entry but a zero reaches the top one.
            top = 1 if balanced is None else -balanced
            return cls(dim, flips, 1e30, top, root * float(np.sqrt(2 / np.pi)))
        return cls(dim, flips, root / _LEVEL_WIDTH, 3, root * _mean_product(_LEVEL_WIDTH, 3))

    @property
    def rotates(self) -> bool:
        """Whether vectors are rotated, which makes the noise of all codes alike."""
        return len(self.flips) > 0

    @property
    def padded_dim(self) -> int:
        """The dimension of the rotated space, a multiple of 64."""
        return int(self.flips.shape[1])

    @property
    def n_bits(self) -> int:
        """Bits of a code that tell something."""
        return -self.top if self.top < 0 else self.padded_dim

    @property
    def n_words(self) -> int:
        """Words of 64 bits in a code."""
        return -(-self.n_bits // WORD)

    @property
    def highest_level(self) -> int:
        """The highest level of a query's magnitude."""
        return max(self.top, 1)

    def rotate(self, vectors: Float32Array) -> Float32Array:
        """Return the rotated vectors, shape (n_vectors, padded_dim); inner products stay."""
        rotated = np.empty((len(vectors), self.padded_dim), dtype=np.float32)
        rotate_rows(vectors, self.flips, rotated)
        return rotated

    def encode(
        self,
        vectors: UnitRows,
        prefix_words: int,
        *,
        threads: int | None = None,
        advance: Advance | None = None,
    ) -> Encoded:
        """Return the codes of float32 rows, with the sums of magnitudes that scale estimates.

        Examples
        --------
        >>> space = CodeSpace.random(64)
        >>> rows = np.eye(3, 64, dtype=np.float32)
        >>> space.encode(rows, prefix_words=1).words.shape
        (3, 1)
        """
        n_vectors = len(vectors)
        words = np.empty((n_vectors, self.n_words), dtype=np.uint64)
        prefix_sums = np.empty(n_vectors, dtype=np.float32)
        full_sums = np.empty(n_vectors, dtype=np.float32)

        def encode_some(start: int, stop: int) -> None:
            rotated = self.rotate(vectors[start:stop])
            if self.top < 0:
                balance_rows(rotated, self.n_bits)
            encode_rows(
                rotated,
                prefix_words,
                words[start:stop],
                prefix_sums[start:stop],
                full_sums[start:stop],
            )

        run_blocks(encode_some, n_vectors, _ROWS_PER_BLOCK, threads=threads, done=advance)
        return Encoded(words, prefix_sums, full_sums)

    def estimate(
        self, query: Float32Array, vectors: Encoded, squared_norms: Float64Array
    ) -> Estimates:
        """Return estimates of the inner products of a query with encoded vectors of any norm.

        Parameters
        ----------
        query : ndarray of shape (dim,)
            Of norm 1, float32.
        vectors : Encoded
            What `encode` made.
        squared_norms : ndarray of shape (n_vectors,)
            ‖x‖² of the vectors.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> rows = rng.standard_normal((3, 1024)).astype(np.float32) / 32
        >>> space = CodeSpace.random(1024)
        >>> codes = space.encode(rows, prefix_words=1)
        >>> found = space.estimate(rows[0] / np.linalg.norm(rows[0]), codes, (rows**2).sum(axis=1))
        >>> bool(abs(found.values[0] - np.linalg.norm(rows[0])) < found.bound(4)[0])
        True
        """
        scales = (vectors.full_sums / np.maximum(squared_norms, 1e-30)).astype(np.float32)
        values = np.empty(len(scales), dtype=np.float32)
        steps, gain = np.float32(self.steps), np.float32(self.gain)
        estimate_scores(query, self.flips, steps, self.top, gain, vectors.words, scales, values)
        spread = math.sqrt(self._energy(query))
        return Estimates(
            values, (spread / (self.gain * np.maximum(scales, 1e-30))).astype(np.float32)
        )

    def _energy(self, query: Float32Array) -> float:
        """Return Σv², the squared levels of a query."""
        n_words = self.padded_dim // WORD
        signs, low, high = np.empty((3, n_words), dtype=np.uint64)
        sums, squares = np.empty((2, n_words), dtype=np.float32)
        rotated = self.rotate(query[np.newaxis])[0]
        quantise_query(rotated, np.float32(self.steps), self.top, signs, low, high, sums, squares)
        return float(squares[-1])


def _padded(dim: int, balanced: int | None) -> int:
    """Return the entries of a rotated vector: whole words, no fewer than the bits of its code."""
    return -(-max(dim, balanced or 0) // WORD) * WORD


def _mean_product(width: float, top: int) -> float:
    """Return E[v(|g|)·|g|] of a standard Gaussian g, v its level: round(|g|/width), at most `top`.

    v counts the borders (k − ½)·width below |g|, and E[|g|; |g| > t] = √(2/π) exp(−t²/2).
    """
    borders = (np.arange(1, top + 1) - 0.5) * width
    return float(np.sqrt(2 / np.pi) * np.exp(-0.5 * borders**2).sum())
