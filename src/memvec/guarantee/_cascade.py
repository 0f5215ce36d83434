"""What the guarantee knows of units: a cascade of stages, each of which tests a pair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from memvec.kernels import StoredRows
from memvec.types import Float32Array, Float64Array, IntArray

# Sums of float32, in another order than that of the search.
_ROUNDING = 1e-2


def joint_shares(cascades: Sequence[Cascade]) -> Float64Array:
    """Return how the stages of several cascades share the matches that are missed, as one.

    A stage that tests anything in any of them has a share: the most that it has in one, scaled so
    that all together have no more than there is.
    """
    shares = np.max([cascade.stage_shares for cascade in cascades], axis=0)
    total = shares.sum()
    return np.asarray(shares / total if total > 1 + 1e-9 else shares)


def seen_by_stages(
    cascade: Cascade,
    queries: Float32Array,
    query_of: IntArray,
    row_of: IntArray,
    cosines: Float64Array | float,
) -> tuple[Float32Array, Float32Array]:
    """Return what each stage sees of pairs of known cosines, as scores and slopes.

    What a stage stops whatever the thresholds has a score of minus infinity: no slack is enough.
    """
    scores, slopes = cascade.see(queries, query_of, row_of)
    most = cascade.most_deviations
    if np.isfinite(most).any():
        at = np.broadcast_to(np.asarray(cosines, dtype=np.float64), len(scores))
        scores[at[:, np.newaxis] * slopes - scores > most - _ROUNDING] = -np.inf
    return scores, slopes


class Cascade(Protocol):
    """Stored rows, and the tests (stages) that a row passes before it is scored exactly."""

    @property
    def vectors(self) -> StoredRows:
        """The rows, in the order in which they are stored."""

    @property
    def keys(self) -> IntArray:
        """What each row is called."""

    @property
    def stage_names(self) -> tuple[str, ...]:
        """What the stages test."""

    @property
    def stage_shares(self) -> Float64Array:
        """How the stages share the matches that are missed; 0 for one that tests nothing."""

    @property
    def most_slack(self) -> Float64Array:
        """The slack of each stage beyond which no match is lost, as far as it is known."""

    @property
    def most_deviations(self) -> Float64Array:
        """How far below the similarity asked for a stage lets anything pass, in units of slack.

        It is infinite where thresholds alone decide.
        """

    @property
    def least_slopes(self) -> Float64Array:
        """What a similarity lower by 1 is worth to every unit and member, in slack of a stage.

        It is infinite for a stage that tests nothing.
        """

    def model_spreads(self, similarity: float) -> Float64Array:
        """Return the largest standard deviation of a match at each stage, in units of slack."""

    def see(
        self, queries: Float32Array, query_of: IntArray, row_of: IntArray
    ) -> tuple[Float32Array, Float32Array]:
        """Return what each stage sees of given pairs, as scores and slopes.

        The similarity that a stage sees is score/slope, and its standard deviation 1/slope.
        """
