"""The memory vectors of all units of a batch, in one call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from memvec import checks
from memvec.constructions._cut import least_squares
from memvec.kernels import RowBlocks, UnitRows, blocks, run_blocks, solve_units, sum_units
from memvec.progress import progress_bar
from memvec.types import ArrayLike, Float32Array, Float64Array, IntArray

Construction = Literal["sum", "pinv", "ridge"]
CONSTRUCTIONS: tuple[Construction, ...] = ("sum", "pinv", "ridge")

# Units per task: enough to hide the cost of a task, few enough to share out evenly.
_UNITS_PER_BLOCK = 256
# Members whose eigenvalues are computed at once: a few megabytes of them.
_MEMBERS_AT_ONCE = 1024


def memory_vector(
    vectors: ArrayLike,
    construction: Construction = "pinv",
    *,
    ridge: float = 0.0,
    normalised: bool = False,
) -> Float32Array:
    """Return the memory vector of one unit.

    Parameters
    ----------
    vectors : array_like of shape (unit_size, dim)
        The members x₁ … xₙ; each row is scaled to norm 1 first.
    construction : {"pinv", "sum", "ridge"}
        How the members are combined; see :func:`memory_vectors`.
    ridge : float, default 0
        λ ≥ 0 of the ridge construction, infinity included.
    normalised : bool, default False
        Scale the result to norm 1.

    Returns
    -------
    ndarray of shape (dim,)
        The memory vector m, float32.

    Examples
    --------
    >>> memory_vector([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]], "pinv")
    array([1., 1., 0.], dtype=float32)
    """
    rows = checks.unit_rows(vectors, "vectors", "memory_vector")
    whole = np.array([0, len(rows)])
    [vector] = memory_vectors(
        rows, whole, construction=construction, ridge=ridge, normalised=normalised
    )
    return np.asarray(vector)


def memory_vectors(
    vectors: ArrayLike | RowBlocks,
    offsets: ArrayLike,
    *,
    order: ArrayLike | None = None,
    construction: Construction = "pinv",
    ridge: float = 0.0,
    normalised: bool = False,
    threads: int | None = None,
    progress: bool | None = False,
) -> Float32Array:
    """Return the memory vectors of many units.

    With X the matrix whose columns are the members of a unit:

    - ``"sum"``: m = X1, the sum of the members (paper, Section 3.1);
    - ``"pinv"``: m = (X⁺)ᵀ1, the smallest m on which every member scores 1 (Section 3.2), and the
      least-squares solution where members are dependent, repeated or more than the dimension;
      eigenvalues of XᵀX below 1e-6 of the largest are dropped;
    - ``"ridge"``: m ∝ X(XᵀX + λI)⁻¹1, scaled so that members score 1 on average: λ = 0 is pinv,
      λ = ∞ is the centroid's direction.

    Members that cancel exactly (x and −x) give a zero vector, and so does an empty unit.

    Parameters
    ----------
    vectors : array_like of shape (n_vectors, dim), or RowBlocks
        Unit rows. They are not checked, since this would cost a pass over the data.
    offsets : array_like of shape (n_units + 1,)
        Unit u holds the rows ``order[offsets[u]:offsets[u + 1]]``.
    order : array_like of shape (n_members,), optional
        The rows, unit after unit; by default, they are already in unit order.
    construction : {"pinv", "sum", "ridge"}
        How the members are combined.
    ridge : float, default 0
        λ ≥ 0, for ``construction="ridge"`` only.
    normalised : bool, default False
        Scale each memory vector to norm 1.
    threads : int, optional
        Number of threads; the result does not depend on it.
    progress : bool, optional
        Show a bar; None shows it on a terminal.

    Returns
    -------
    ndarray of shape (n_units, dim)
        One memory vector per row, float32.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.eye(4, dtype=np.float32)
    >>> memory_vectors(rows, np.array([0, 1, 4]), construction="sum")
    array([[1., 0., 0., 0.],
           [0., 1., 1., 1.]], dtype=float32)
    """
    where = "memory_vectors"
    checks.choice(construction, "construction", where, CONSTRUCTIONS)
    ridge = checks.real(ridge, "ridge", where, low=0.0)
    if ridge > 0 and construction != "ridge":
        raise checks.bad_value("ridge", where, f"0 for construction={construction!r}", ridge)
    rows: UnitRows
    if isinstance(vectors, RowBlocks):
        rows = vectors.unit_rows
    else:
        rows = checks.matrix(vectors, "vectors", where).astype(np.float32, copy=False)
    members = np.arange(len(rows)) if order is None else _checked_order(order, len(rows), where)
    bounds = _checked_offsets(np.asarray(offsets), len(members), where)
    n_units = len(bounds) - 1
    unit_vectors = np.empty((n_units, rows.shape[1]), dtype=np.float32)

    def build(first: int, last: int) -> None:
        sums = np.empty((last - first, rows.shape[1]))
        here = _read_units(rows, members, bounds, first, last)
        sum_units(*here, sums)
        solved = sums
        if construction != "sum" and ridge < np.inf:
            solved = _solved(*here, ridge, sums)
        scales = np.ones(len(sums))
        if normalised:
            scales = np.sqrt(np.einsum("ij,ij->i", solved, solved))
        elif construction == "ridge":  # members score 1 on average: their mean score is (Σx)ᵀm/n
            sizes = np.maximum(np.diff(bounds[first : last + 1]), 1)
            scales = np.einsum("ij,ij->i", sums, solved) / sizes
        # Members that cancel leave no direction: their memory vector stays zero, up to rounding.
        scales[~(scales > 1e-12)] = 1.0
        unit_vectors[first:last] = solved / scales[:, None]

    with progress_bar("memory vectors", n_units, progress) as advance:
        run_blocks(build, n_units, _UNITS_PER_BLOCK, threads=threads, done=advance)
    _check_finite(unit_vectors, where)
    return unit_vectors


def _read_units(
    rows: UnitRows, members: IntArray, bounds: IntArray, first: int, last: int
) -> tuple[Float32Array, IntArray, IntArray, int]:
    """Return rows, order and bounds of some units, and the first of them among the bounds.

    Of rows in blocks, the members of these units alone are read.
    """
    if not isinstance(rows, RowBlocks):
        return rows, members, bounds, first
    own = members[bounds[first] : bounds[last]]
    return rows[own], np.arange(len(own)), bounds[first : last + 1] - bounds[first], 0


def _solved(
    rows: Float32Array,
    members: IntArray,
    bounds: IntArray,
    first: int,
    ridge: float,
    sums: Float64Array,
) -> Float64Array:
    """Return X(XᵀX + ridge I)⁺1 of the units from `first` on, of which `sums` has the sums."""
    solved, regular = np.empty_like(sums), np.empty(len(sums), dtype=bool)
    solve_units(rows, members, bounds, first, ridge, sums, solved, regular)
    left = np.flatnonzero(~regular)
    sizes = np.diff(bounds)[first + left]
    for size in np.unique(sizes):
        for some in _parts(left[sizes == size], _MEMBERS_AT_ONCE // size):
            inside = members[bounds[first + some, np.newaxis] + np.arange(size)]
            solved[some] = least_squares(rows[inside].astype(np.float64), ridge)
    return solved


def _parts(units: IntArray, n_each: int) -> Iterator[IntArray]:
    for start, stop in blocks(len(units), max(1, n_each)):
        yield units[start:stop]


def _checked_order(order: ArrayLike, n_vectors: int, where: str) -> IntArray:
    """Return the row numbers as int64; compiled loops do not look where they read."""
    array = np.asarray(order)
    expected = f"a one-dimensional array of row numbers in [0, {n_vectors})"
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size > 0):
        got = f"dtype {array.dtype}, shape {array.shape}"
        raise checks.bad_value("order", where, expected, got)
    if array.size > 0 and (array.min() < 0 or array.max() >= n_vectors):
        raise checks.bad_value("order", where, expected, f"{array.min()} to {array.max()}")
    return array.astype(np.int64, copy=False)


def _check_finite(unit_vectors: Float32Array, where: str) -> None:
    """Refuse NaN and infinite rows by what they leave behind, which costs no pass over the data."""
    finite = np.isfinite(unit_vectors).all(axis=1)
    if not finite.all():
        got = f"one in unit {int(np.argmin(finite))}"
        raise checks.bad_value("vectors", where, "free of NaN and infinite values", got)


def _checked_offsets(offsets: IntArray, n_members: int, where: str) -> IntArray:
    expected = f"non-decreasing integers from 0 to {n_members}"
    if offsets.ndim != 1 or len(offsets) < 2 or offsets.dtype.kind not in "iu":
        got = f"dtype {offsets.dtype}, shape {offsets.shape}"
        raise checks.bad_value("offsets", where, expected, got)
    if offsets[0] != 0 or offsets[-1] != n_members or (np.diff(offsets) < 0).any():
        got = f"{offsets[0]} to {offsets[-1]}, smallest step {np.diff(offsets).min()}"
        raise checks.bad_value("offsets", where, expected, got)
    return offsets.astype(np.int64, copy=False)
