"""What a match scores on the memory vectors of given units, whatever their construction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from memvec.types import ArrayLike, Float64Array


@dataclass(frozen=True, eq=False)
class MatchLaw:
    """The Gaussian law of the score yᵀm of a query y = αx + βz, x a member of the unit.

    With a and v the mean and variance of xᵀm over the members and z uniform among the unit vectors
    orthogonal to x (paper, Sections 3.1 and 3.2, for a unit that is known),

        E = α a,    V = α² v + β² w,    w = (‖m‖² − a² − v)/(d − 1).

    For pinv a = 1 and v = 0. Units are measured, so the law serves every construction and its
    normalised variant.

    Attributes
    ----------
    means, variances : ndarray of shape (n_units,)
        a and v of each unit.
    noise : ndarray of shape (n_units,)
        w of each unit.
    """

    means: Float64Array
    variances: Float64Array
    noise: Float64Array

    @classmethod
    def of_units(
        cls, means: ArrayLike, variances: ArrayLike, squared_norms: ArrayLike, dim: float
    ) -> MatchLaw:
        """Return the law of units with measured member scores and norms.

        Parameters
        ----------
        means, variances, squared_norms : array_like of shape (n_units,)
            Mean and variance of the members' scores, and ‖m‖².
        dim : float
            The dimension d; for real data, its effective dimension.
        """
        a, v = np.asarray(means, dtype=np.float64), np.asarray(variances, dtype=np.float64)
        across = np.asarray(squared_norms, dtype=np.float64) - a * a - v
        return cls(a, v, np.maximum(across, 0.0) / max(dim - 1.0, 1.0))

    def thresholds(self, similarity: float, miss_rate: float) -> Float64Array:
        """Return τ of each unit: a match at `similarity` or above scores less at most that often.

        τ(α) = E + √V Φ⁻¹(ε), made non-decreasing in α: where the spread of the members outweighs
        the noise it may fall towards α = 1, and then τ(1) counts.

        Examples
        --------
        >>> law = MatchLaw.of_units([1.0, 1.0], [0.0, 0.0], [1.0, 9.0], dim=1001)
        >>> law.thresholds(0.7, 0.01).round(4)
        array([0.7   , 0.5514])
        """
        return np.minimum(self._quantile(similarity, miss_rate), self._quantile(1.0, miss_rate))

    def _quantile(self, similarity: float, miss_rate: float) -> Float64Array:
        alpha, beta_squared = similarity, (1.0 - similarity) * (1.0 + similarity)
        spread = np.sqrt(alpha * alpha * self.variances + beta_squared * self.noise)
        return np.asarray(alpha * self.means + spread * special.ndtri(miss_rate))

    def potentials(self, scores: ArrayLike, miss_rate: float) -> Float64Array:
        """Return the highest similarity a unit may still hold, given the query's score on it.

        The inverse of `thresholds`: the largest α in [0, 1] with τ(α) ≤ score, and −1 where even
        α = 0 would score higher. Units in decreasing order of it are the order to visit them in.

        Parameters
        ----------
        scores : array_like of shape (n_units,)
            yᵀm of each unit.
        miss_rate : float
            ε < 1/2.

        Examples
        --------
        >>> law = MatchLaw.of_units([1.0, 1.0], [0.0, 0.0], [1.0, 9.0], dim=1001)
        >>> law.potentials([0.7, 0.5514], 0.01).round(3)
        array([0.7, 0.7])
        """
        s = np.asarray(scores, dtype=np.float64)
        a, v, w = self.means, self.variances, self.noise
        z_squared = float(special.ndtri(miss_rate)) ** 2
        # (αa − s)² = z²(α²v + (1−α²)w) is a quadratic in α; of its roots, those with αa ≥ s count.
        lead = a * a - z_squared * (v - w)
        root = np.sqrt(np.maximum(z_squared * (s * s * (v - w) + w * lead), 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            roots = np.stack([(a * s - root) / lead, (a * s + root) / lead])
            valid = (roots >= 0) & (roots <= 1) & (roots * a >= s - 1e-12)
        crossing = np.where(valid, roots, np.inf).min(axis=0)
        reachable = np.where(s >= self._quantile(0.0, miss_rate), crossing, -1.0)
        return np.where(s >= self._quantile(1.0, miss_rate), 1.0, np.minimum(reachable, 1.0))


__all__ = ["MatchLaw"]
