"""What a match scores on the memory vectors of given units, whatever their construction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memvec.types import ArrayLike, Float64Array


@dataclass(frozen=True, eq=False)
class MatchLaw:
    """The Gaussian law of the score yᵀm of a query y = αx + βz, x a member of the unit.

    With a and v the mean and variance of xᵀm over the members and z uniform among the unit vectors
    orthogonal to x (paper, Sections 3.1 and 3.2, for a unit that is known),

        E = α a,    V = α² v + β² w,    w = (‖m‖² − a² − v)/(d − 1).

    For pinv, a = 1 and v = 0. Since units are measured, the law holds for every construction and
    its normalised variant.

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

    def spread(self, similarity: float) -> Float64Array:
        """Return √V of each unit for a match at a similarity α.

        Examples
        --------
        >>> law = MatchLaw.of_units([1.0, 1.0], [0.0, 0.0], [1.0, 9.0], dim=1001)
        >>> law.spread(0.6).round(4)
        array([0.    , 0.0716])
        """
        beta_squared = (1.0 - similarity) * (1.0 + similarity)
        variance = similarity * similarity * self.variances + beta_squared * self.noise
        return np.asarray(np.sqrt(variance))
