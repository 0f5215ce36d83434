"""What every way of assigning returns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from memvec.theory import imbalance_factor
from memvec.types import Int32Array, IntArray


@dataclass(frozen=True, eq=False)
class Assignment:
    """The unit of each vector.

    Attributes
    ----------
    labels : ndarray of shape (n_vectors,)
        The unit of each vector, int64.
    n_units : int
        Number of units M.
    iterations : int
        Number of k-means rounds; 0 for a random assignment.
    converged : bool
        Whether no vector moved in the last round.
    group_offsets : ndarray of shape (n_groups + 1,), optional
        If units were made inside clusters: the first unit of each cluster.
    near_units : ndarray of shape (n_vectors, n_near), optional
        The units nearest to each vector, nearest first, int32; −1 for none.
    """

    labels: IntArray
    n_units: int
    iterations: int = 0
    converged: bool = True
    group_offsets: IntArray | None = None
    near_units: Int32Array | None = None

    @cached_property
    def sizes(self) -> IntArray:
        """The number of vectors in each unit, shape (n_units,)."""
        return np.bincount(self.labels, minlength=self.n_units)

    @cached_property
    def offsets(self) -> IntArray:
        """Where each unit begins in `order`, shape (n_units + 1,)."""
        return np.concatenate([[0], np.cumsum(self.sizes)])

    @cached_property
    def order(self) -> IntArray:
        """The vectors, unit after unit and in their own order inside each."""
        return np.argsort(self.labels, kind="stable")

    @property
    def imbalance(self) -> float:
        """The imbalance factor δ = M Σ (nᵢ/N)², 1 for equal units (paper, Section 4.3)."""
        return imbalance_factor(self.sizes)

    def __repr__(self) -> str:
        state = "converged" if self.converged else "not converged"
        rounds = f", {self.iterations} rounds, {state}" if self.iterations else ""
        return (
            f"Assignment({len(self.labels)} vectors in {self.n_units} units, "
            f"imbalance {self.imbalance:.2f}{rounds})"
        )
