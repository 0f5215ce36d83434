"""What vectors go through before they are tested: centring, PCA and whitening."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from memvec import checks
from memvec.kernels import RowBlocks, StoredRows, UnitRows, blocks, run_blocks
from memvec.progress import Advance
from memvec.types import Float32Array, Float64Array, FloatArray, IntArray

# Many rows for each of thousands of directions; more would mostly cost reading.
_SAMPLE_ROWS = 50_000
_FIT_BLOCK = 4096
_APPLY_BLOCK = 1024
# The exact way takes n·d² + 9d³ operations in float64, the randomised one 14·n·d·d′ in float32 and
# its orthonormalisations. By the rates of these parts on two cores, 50,000 × 4096 takes 70 s, or
# 30 s for d′ = 512: they meet near d′ = d/4. Up to 2048 dimensions the exact one takes seconds.
_EXACT_DIM = 2048
_RANDOMISED_SHARE = 0.25
# Halko, Martinsson and Tropp (2011) advise 1 or 2 rounds and 5 to 10 directions more; where the
# variances fall as slowly as 1/j, 32 more are worth another round or two and cost less.
_OVERSAMPLING = 32
_ROUNDS = 2
# Whitening divides by no standard deviation below this share of the largest. The smallest seen of
# 1280 CNN features is 0.027, so data keeps its scale; a direction in which the sample has nothing
# must not rule the vectors that have something there.
_DEVIATION_FLOOR = 1e-3
# A float32 unit row is known to 1e-7; what is left of it after centring and projection has no
# direction when it is no longer than this (in units of the largest factor of the projection).
_VANISHED = 1e-6


@dataclass(frozen=True, eq=False)
class Projection:
    """A linear map of unit rows, x ↦ Bᵀ(x − μ) scaled to norm 1 again.

    A row that vanishes, since it equals μ or is orthogonal to B, has no direction: it becomes the
    first axis, (1, 0, …, 0), so that all of them stay together and nothing is ever NaN.

    Attributes
    ----------
    mean : ndarray of shape (dim,)
        μ, float32; zeros without centring.
    basis : ndarray of shape (dim, out_dim) or None
        B, float32: orthonormal columns, each over its standard deviation when whitened, the
        direction of most variance first. None stands for the identity.
    """

    mean: Float32Array
    basis: Float32Array | None

    @classmethod
    def fit(
        cls,
        rows: object,
        out_dim: int | None = None,
        *,
        center: bool = False,
        whiten: bool = False,
        seed: int | np.random.Generator = 0,
        sample_size: int = _SAMPLE_ROWS,
        among: IntArray | None = None,
    ) -> Projection:
        """Return the projection that fits some rows.

        Variances are those about the mean with `center`, and about the origin without: PCA then
        keeps the most of the inner products rather than of the differences.

        Parameters
        ----------
        rows : array_like of shape (n_rows, dim), or StoredRows
            They are scaled to norm 1 first.
        out_dim : int, optional
            Keep so many principal directions, d′. None keeps all dimensions, and their axes unless
            `whiten` asks for the principal ones.
        center : bool
            Subtract the mean of the rows first.
        whiten : bool
            Divide each component by its standard deviation, or by 1/1000 of the largest one where
            that is more.
        seed : int or numpy.random.Generator
            Fixes the sample and, for large dimensions, the randomised PCA.
        sample_size : int
            Fit on at most so many rows, drawn without replacement.
        among : ndarray of int, optional
            The numbers of the rows to fit on; all by default.

        Examples
        --------
        >>> rows = np.random.default_rng(0).standard_normal((500, 32)) + 1
        >>> projection = Projection.fit(rows, 8, center=True, whiten=True)
        >>> projection.apply(rows).shape
        (500, 8)
        >>> Projection.fit(rows, center=True).out_dim
        32
        """
        where = "Projection.fit"
        array = _matrix(rows, where)
        generator = checks.generator(seed, where)
        n_rows = len(array) if among is None else len(among)
        kept = _kept(n_rows, array.shape[1], out_dim, whiten)
        size = checks.integer(sample_size, "sample_size", where, minimum=max(2, kept or 0))
        sample = _sample(array, among, size, generator)
        mean = np.zeros(array.shape[1], dtype=np.float32)
        if center:
            mean[:] = sample.mean(axis=0, dtype=np.float64)
        if kept is None:
            return cls(mean, None)
        variances, directions = _principal_directions(sample, mean, kept, generator)
        deviations = np.sqrt(np.maximum(variances, 0.0))
        if deviations[0] <= _VANISHED:
            raise checks.bad_value("rows", where, "rows that differ", f"{n_rows} equal rows")
        return cls(mean, _basis(directions, deviations, whiten))

    @property
    def dim(self) -> int:
        """The dimension of what is projected."""
        return len(self.mean)

    @property
    def out_dim(self) -> int:
        """The dimension of the projected rows, d′."""
        return self.dim if self.basis is None else int(self.basis.shape[1])

    def apply(
        self, rows: object, *, threads: int | None = None, advance: Advance | None = None
    ) -> Float32Array:
        """Return the projected rows, scaled to norm 1, as float32 of shape (n_rows, out_dim).

        The result does not depend on the number of `threads`. A row projected alone and among
        others differ by rounding, some 1e-7, as matrix products sum in other orders.

        Parameters
        ----------
        rows : array_like of shape (n_rows, dim), or StoredRows
            They are scaled to norm 1 first; zero, NaN and infinite rows are refused.
        threads : int, optional
            None uses all cores.
        advance : callable, optional
            Called with the number of rows of each finished block.

        Examples
        --------
        >>> projection = Projection(np.zeros(3, np.float32), np.eye(3, 2, dtype=np.float32))
        >>> projection.apply([[3, 4, 0], [0, 0, 1]])
        array([[0.6, 0.8],
               [1. , 0. ]], dtype=float32)
        """
        where = "Projection.apply"
        array = _matrix(rows, where, self.dim)
        out = np.empty((len(array), self.out_dim), dtype=np.float32)

        def project_some(start: int, stop: int) -> None:
            block = _as_unit_rows(array[start:stop], where, start)
            self._project(block, out[start:stop])

        run_blocks(project_some, len(array), _APPLY_BLOCK, threads=threads, done=advance)
        return out

    def of_block(self, block: Float32Array) -> Float32Array:
        """Return the projected rows of a block of unit rows, in this thread."""
        out = np.empty((len(block), self.out_dim), dtype=np.float32)
        self._project(block, out)
        return out

    def _project(self, block: Float32Array, out: Float32Array) -> None:
        # Subtracting before the product keeps the digits that a strong mean would cost after it.
        centred = block - self.mean if self._moves else block
        if self.basis is None:
            out[:] = centred
        else:
            np.matmul(centred, self.basis, out=out)
        norms = np.sqrt(np.einsum("ij,ij->i", out, out))
        lost = norms <= self._smallest_norm
        norms[lost] = 1.0
        out /= norms[:, np.newaxis]
        out[lost] = np.eye(1, self.out_dim, dtype=np.float32)

    @cached_property
    def _moves(self) -> bool:
        return bool(self.mean.any())

    @cached_property
    def _smallest_norm(self) -> float:
        """What a projected row must exceed to have a direction."""
        factor = 1.0 if self.basis is None else float(np.linalg.norm(self.basis, axis=0).max())
        return _VANISHED * factor


@dataclass(frozen=True, eq=False)
class ProjectedRows(RowBlocks):
    """Stored rows that are projected whenever a block of them is read.

    Attributes
    ----------
    rows : StoredRows of shape (n_rows, dim)
    projection : Projection

    Examples
    --------
    >>> rows = StoredRows.of(np.eye(3, dtype=np.float32), "int8")
    >>> centred = ProjectedRows(rows, Projection.fit(rows, center=True))
    >>> centred[:2].astype(float).round(2).tolist()
    [[0.82, -0.41, -0.41], [-0.41, 0.82, -0.41]]
    """

    rows: StoredRows
    projection: Projection

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows there are, and the dimension they are projected to."""
        return len(self.rows), self.projection.out_dim

    def __getitem__(self, which: Any) -> Float32Array:
        """Return some of the projected rows."""
        return self.projection.of_block(self.rows[which])

    def some(self, which: Any) -> ProjectedRows:
        """Return some of them, none of which is projected yet."""
        return ProjectedRows(self.rows.some(which), self.projection)


def as_tested(rows: StoredRows, projection: Projection | None) -> UnitRows:
    """Return rows as the tests see them: an array of all, or blocks that are made when read.

    Rows in fewer bytes are not held in float32 besides: what centres them is cheap to repeat.
    """
    if projection is None:
        return rows.unit_rows
    if rows.is_plain or projection.basis is not None:
        return projection.apply(rows)
    return ProjectedRows(rows, projection)


def _matrix(rows: object, where: str, dim: int | None = None) -> FloatArray | StoredRows:
    """Return rows to read in blocks; no rows are accepted where the dimension is known."""
    if isinstance(rows, StoredRows):
        return rows
    array = checks.numbers(rows, "rows", where)
    return array if array.shape == (0, dim) else checks.matrix(array, "rows", where, dim=dim)


def _kept(n_rows: int, dim: int, out_dim: int | None, whiten: bool) -> int | None:
    """Return how many principal directions to keep; None when the axes stay."""
    where = "Projection.fit"
    if out_dim is None and not whiten:
        return None
    if n_rows < 2:
        raise checks.bad_value("rows", where, "at least 2 rows", n_rows)
    if out_dim is None:
        if dim > n_rows:
            expected = f"at least {dim} rows, one for each dimension that is whitened"
            raise checks.bad_value("rows", where, expected, n_rows)
        return dim
    kept = checks.integer(out_dim, "out_dim", where)
    for most, what in ((dim, "the dimension"), (n_rows, "the number of rows")):
        if kept > most:
            raise checks.bad_value("out_dim", where, f"at most {what}, {most}", kept)
    return kept


def _sample(
    array: FloatArray | StoredRows,
    among: IntArray | None,
    size: int,
    generator: np.random.Generator,
) -> Float32Array:
    """Return at most `size` rows, scaled to norm 1; an error names the row of the whole array."""
    where = "Projection.fit"
    if among is None and len(array) <= size:
        return _as_unit_rows(array[:], where, 0)
    chosen = np.arange(len(array)) if among is None else among
    if len(chosen) > size:
        chosen = chosen[np.sort(generator.choice(len(chosen), size, replace=False))]
    picked = array[chosen]
    peaks = np.abs(picked).max(axis=1)
    unusable = chosen[~(np.isfinite(peaks) & (peaks > 0))]
    if len(unusable):
        row = int(unusable[0])
        return checks.unit_rows(array[row : row + 1], "rows", where, first_row=row)  # Raises
    return _as_unit_rows(picked, where, 0)


def _as_unit_rows(rows: FloatArray, where: str, first_row: int) -> Float32Array:
    """Return the rows scaled to norm 1: themselves, not a copy, when they are already."""
    if rows.dtype == np.float32:
        squares = np.einsum("ij,ij->i", rows, rows)
        if (np.abs(squares - 1.0) <= checks.UNIT_NORM_TOLERANCE).all():
            return cast(Float32Array, rows)
    return checks.unit_rows(rows, "rows", where, first_row=first_row)


def _basis(directions: Float64Array, deviations: Float64Array, whiten: bool) -> Float32Array:
    if whiten:
        directions = directions / np.maximum(deviations, _DEVIATION_FLOOR * deviations[0])
    return np.ascontiguousarray(directions, dtype=np.float32)


def _principal_directions(
    rows: Float32Array, mean: Float32Array, n_directions: int, generator: np.random.Generator
) -> tuple[Float64Array, Float64Array]:
    """Return the largest variances about `mean`, in descending order, and their directions.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, dim)
    mean : ndarray of shape (dim,)
        What variances are about; the origin gives the second moments.
    n_directions : int
        At most dim.
    generator : numpy.random.Generator
        Starts the randomised way.

    Returns
    -------
    variances : ndarray of shape (n_directions,)
    directions : ndarray of shape (dim, n_directions)
        Orthonormal columns; the largest entry of each, in magnitude, is positive.

    Examples
    --------
    >>> rows = np.array([[3, 0], [-3, 0], [0, 1], [0, -1]], dtype=np.float32)
    >>> variances, directions = _principal_directions(
    ...     rows, np.zeros(2, np.float32), 1, np.random.default_rng(0)
    ... )
    >>> variances.tolist(), directions.ravel().tolist()
    ([4.5], [1.0, 0.0])
    """
    dim = rows.shape[1]
    if dim > _EXACT_DIM and n_directions <= _RANDOMISED_SHARE * dim:
        variances, directions = _randomised(rows, mean, n_directions, generator)
    else:
        variances, directions = np.linalg.eigh(_covariance(rows, mean))
    # Both come in ascending order.
    best = slice(None, -n_directions - 1, -1)
    return variances[best], _with_fixed_signs(directions[:, best])


def _covariance(rows: Float32Array, mean: Float32Array) -> Float64Array:
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for block in _centred_blocks(rows, mean):
        wide = block.astype(np.float64)
        total += wide.T @ wide
    return total / len(rows)


def _randomised(
    rows: Float32Array, mean: Float32Array, n_directions: int, generator: np.random.Generator
) -> tuple[Float64Array, Float64Array]:
    """Return nearly the same by subspace iteration, which never forms the covariance C.

    A random subspace of a few more dimensions is multiplied by C and made orthonormal again, and
    the best directions within it are taken (Halko, Martinsson and Tropp, "Finding structure with
    randomness", SIAM Review 53(2), 2011, algorithms 4.4 and 5.3).
    """
    dim = rows.shape[1]
    found = generator.standard_normal((dim, n_directions + _OVERSAMPLING))
    for _ in range(1 + _ROUNDS):
        found, _triangle = np.linalg.qr(_covariance_times(rows, mean, found))
    narrow = found.astype(np.float32)
    inner = np.zeros((found.shape[1], found.shape[1]))
    for block in _centred_blocks(rows, mean):
        coordinates = (block @ narrow).astype(np.float64)
        inner += coordinates.T @ coordinates
    variances, turn = np.linalg.eigh(inner / len(rows))
    return variances, found @ turn


def _covariance_times(rows: Float32Array, mean: Float32Array, matrix: Float64Array) -> Float64Array:
    narrow = matrix.astype(np.float32)
    total = np.zeros(matrix.shape)
    for block in _centred_blocks(rows, mean):
        total += block.T @ (block @ narrow)
    return total / len(rows)


def _centred_blocks(rows: Float32Array, mean: Float32Array) -> Iterator[Float32Array]:
    for start, stop in blocks(len(rows), _FIT_BLOCK):
        yield rows[start:stop] - mean


def _with_fixed_signs(directions: Float64Array) -> Float64Array:
    """Return the columns with their largest entry positive: a direction and its opposite are one.

    Which of the two a decomposition gives is left to the library that computes it.
    """
    largest = np.abs(directions).argmax(axis=0)
    signs = np.where(directions[largest, np.arange(directions.shape[1])] < 0, -1.0, 1.0)
    return directions * signs
