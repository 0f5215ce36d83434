"""What the tests of centred vectors know besides their codes."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import numpy as np

from memvec.types import Float32Array


def _empty() -> Float32Array:
    return np.empty(0, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class Centring:
    """Shifts of codes of centred vectors; all arrays are empty where vectors are not centred.

    The inner product of a query with a vector is (q − μ)ᵀ(x − μ) + (qᵀμ − μᵀμ) + xᵀμ. Codes
    estimate the first term, whose noise is smaller than that of the whole; the second is known of
    the query, and xᵀμ of the vector. A shift is xᵀμ times the scale of the code; units, groups and
    the first words of a unit's members have means of it.

    Attributes
    ----------
    top_shifts : ndarray of shape (n_blocks * BLOCK,)
        Of groups, or of units where there are none.
    unit_shifts : ndarray of shape (n_tested,)
        Of units.
    run_scales, run_shifts : ndarray of shape (n_units,)
        Of the first words of members: one scale and one shift for each unit.
    code_shifts : ndarray of shape (n_vectors,)
        Of whole codes of members.
    """

    top_shifts: Float32Array = field(default_factory=_empty)
    unit_shifts: Float32Array = field(default_factory=_empty)
    run_scales: Float32Array = field(default_factory=_empty)
    run_shifts: Float32Array = field(default_factory=_empty)
    code_shifts: Float32Array = field(default_factory=_empty)

    def __bool__(self) -> bool:
        return len(self.code_shifts) > 0

    @property
    def arrays(self) -> tuple[Float32Array, ...]:
        """All of them, in the order of the kernels."""
        return tuple(getattr(self, name) for name in SHIFT_ARRAYS)


SHIFT_ARRAYS = tuple(one.name for one in dataclasses.fields(Centring))
