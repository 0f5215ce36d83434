"""The online unit: one vector in, one vector out, the memory vector kept up to date."""

from __future__ import annotations

from typing import Literal

import numpy as np

from memvec import checks
from memvec.kernels import EIGENVALUE_CUT
from memvec.types import ArrayLike, Float32Array, Float64Array

OnlineConstruction = Literal["pinv", "sum"]


class OnlineUnit:
    """A memory unit that is updated as members come and go.

    Adding x to the members X updates the memory vector with the residual r = x − XX⁺x of x,

        m ← m + (1 − xᵀm) r/‖r‖²,

    in O(n·dim + n²) operations; removing costs the same. The inverse Gram matrix (XᵀX)⁻¹, which
    gives XX⁺x, is updated by bordering. If x nearly depends on the members, the residual vanishes.
    From then on, only XᵀX is updated, and `vector` computes the least-squares solution from its
    eigenvalues, in O(n³) and with the cut of the batch construction. The unit returns to fast
    updates when it can.

    Parameters
    ----------
    dim : int
        Dimension d of the vectors.
    construction : {"pinv", "sum"}
        The memory vector to maintain.

    Examples
    --------
    >>> unit = OnlineUnit(3)
    >>> unit.add([1.0, 0.0, 0.0])
    >>> unit.add([0.6, 0.8, 0.0])
    >>> unit.vector.round(6)
    array([1. , 0.5, 0. ], dtype=float32)
    >>> unit.remove([1.0, 0.0, 0.0])
    >>> unit.vector.round(6)
    array([0.6, 0.8, 0. ], dtype=float32)
    """

    def __init__(self, dim: int, construction: OnlineConstruction = "pinv") -> None:
        where = "OnlineUnit"
        self.dim = checks.integer(dim, "dim", where)
        self.construction = checks.choice(construction, "construction", where, ("pinv", "sum"))
        self._rows = np.empty((0, self.dim), dtype=np.float32)
        self._gram = np.empty((0, 0))
        # None where XᵀX may have eigenvalues under the cut: updates would then be wrong.
        self._inverse: Float64Array | None = np.empty((0, 0))
        # None where it has to be computed from XᵀX.
        self._vector: Float64Array | None = np.zeros(self.dim)
        self._updates = 0

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"OnlineUnit(dim={self.dim}, construction={self.construction!r}, size={len(self)})"

    @property
    def vector(self) -> Float32Array:
        """The memory vector m, float32 of shape (dim,); zeros while the unit is empty."""
        return self._current().astype(np.float32)

    @property
    def vectors(self) -> Float32Array:
        """The members in the order they were added, float32 of shape (size, dim)."""
        return self._rows.copy()

    def add(self, vector: ArrayLike) -> None:
        """Add a member, scaled to norm 1."""
        row = self._row(vector, "OnlineUnit.add")
        wide = row.astype(np.float64)
        if self.construction == "sum":
            self._vector = self._current() + wide
        else:
            products = self._rows.astype(np.float64) @ wide
            self._gram = _bordered(self._gram, products, float(wide @ wide))
            self._add_by_residual(wide, products)
        self._rows = np.concatenate([self._rows, row[np.newaxis, :]])
        self._settle()

    def remove(self, vector: ArrayLike) -> None:
        """Remove a member equal to `vector`; of several, the first one added."""
        row = self._row(vector, "OnlineUnit.remove")
        found = np.flatnonzero((self._rows == row).all(axis=1))
        if not len(found):
            got = f"a vector that equals none of its {len(self)} members"
            raise checks.bad_value("vector", "OnlineUnit.remove", "a member of the unit", got)
        position = int(found[0])
        self._rows = np.delete(self._rows, position, axis=0)
        if self.construction == "sum":
            self._vector = self._combination(np.ones(len(self)))
        else:
            self._gram = np.delete(np.delete(self._gram, position, 0), position, 1)
            self._remove_by_bordering(position)
        self._settle()

    def _row(self, vector: ArrayLike, where: str) -> Float32Array:
        array = checks.numbers(vector, "vector", where)
        if array.ndim != 1:
            raise checks.bad_value("vector", where, "one-dimensional", f"shape {array.shape}")
        rows = checks.unit_rows(array[np.newaxis, :], "vector", where, dim=self.dim)
        return rows.reshape(self.dim)

    def _add_by_residual(self, wide: Float64Array, products: Float64Array) -> None:
        """Update m and (XᵀX)⁻¹ for the row `wide`, not yet among the members."""
        if self._inverse is None:
            return
        weights = self._inverse @ products
        residual = wide - self._combination(weights)
        energy = float(residual @ residual)
        if energy <= EIGENVALUE_CUT:
            self._inverse = None
            return
        vector = self._current()
        self._vector = vector + (1.0 - wide @ vector) * residual / energy
        corner = -weights / energy
        self._inverse = _bordered(self._inverse - np.outer(weights, corner), corner, 1.0 / energy)

    def _remove_by_bordering(self, position: int) -> None:
        """Update m and (XᵀX)⁻¹ after a member has left."""
        if self._inverse is None:
            return
        self._inverse = _shrunk_inverse(self._inverse, position)
        self._vector = self._combination(self._inverse.sum(axis=1))

    def _combination(self, weights: Float64Array) -> Float64Array:
        """Return X·weights."""
        return np.asarray(weights @ self._rows.astype(np.float64))

    def _settle(self) -> None:
        """Forget what updates have made where they are unsafe or have been many.

        A fresh start costs O(n³), so doing it every n updates keeps rounding from adding up at
        O(n²) an update. Where updates are unsafe, it waits until the vector is asked for.
        """
        if self.construction == "sum":
            return
        self._updates += 1
        regular = self._inverse is not None and _is_regular(self._gram, self._inverse)
        if regular and self._updates <= len(self):
            return
        self._inverse = self._vector = None
        if regular:
            self._current()

    def _current(self) -> Float64Array:
        """Return m, computed afresh from XᵀX where it is not known; updates go on if they can."""
        if self._vector is None:
            self._updates = 0
            weights, self._inverse = _fresh_start(self._gram)
            self._vector = self._combination(weights)
        return self._vector


def _bordered(matrix: Float64Array, column: Float64Array, corner: float) -> Float64Array:
    """Return the symmetric matrix with one more row and column."""
    n = len(matrix)
    grown = np.empty((n + 1, n + 1))
    grown[:n, :n] = matrix
    grown[:n, n] = grown[n, :n] = column
    grown[n, n] = corner
    return grown


def _shrunk_inverse(inverse: Float64Array, position: int) -> Float64Array:
    """Return the inverse of a matrix without one row and column, from the inverse with it."""
    column = np.delete(inverse[:, position], position)
    rest = np.delete(np.delete(inverse, position, 0), position, 1)
    return np.asarray(rest - np.outer(column, column) / inverse[position, position])


def _is_regular(gram: Float64Array, inverse: Float64Array) -> bool:
    """Tell that no eigenvalue can be under the cut: λmax ≤ tr(G) and λmin ≥ 1/tr(G⁻¹)."""
    return bool(np.trace(gram) * np.trace(inverse) * EIGENVALUE_CUT < 1.0)


def _fresh_start(gram: Float64Array) -> tuple[Float64Array, Float64Array | None]:
    """Return (XᵀX)⁺1 with the eigenvalue cut of the batch construction, and (XᵀX)⁻¹ if regular."""
    if not len(gram):
        return np.empty(0), np.empty((0, 0))
    values, basis = np.linalg.eigh(gram)
    kept = values > EIGENVALUE_CUT * values[-1]
    weights = (basis[:, kept] / values[kept]) @ basis[:, kept].sum(axis=0)
    if not kept.all():
        return weights, None
    inverse = (basis / values) @ basis.T
    return weights, inverse if _is_regular(gram, inverse) else None
