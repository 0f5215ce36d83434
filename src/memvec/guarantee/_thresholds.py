"""How strict the stages of a search are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from memvec.types import BoolArray, Float32Array, Float64Array


@dataclass(frozen=True, eq=False)
class Thresholds:
    """How strict the stages are: a pair passes a stage by any of these lines.

    By a line, a stage passes what it scores at least as high as a match of similarity α less the
    slack, in standard deviations of the stage.

    Attributes
    ----------
    at : ndarray of shape (n_lines,)
        α.
    slack : ndarray of shape (n_lines, n_stages)
        Infinity passes everything.
    """

    at: Float64Array
    slack: Float64Array

    @classmethod
    def one(cls, at: float, slack: Float64Array) -> Thresholds:
        """Return a single line."""
        return cls(np.array([at]), slack[np.newaxis])

    @cached_property
    def pass_everything(self) -> bool:
        """Whether no stage stops anything."""
        return bool(np.isinf(self.slack).any(axis=0).all())

    def joined(self, others: Thresholds, least_slopes: Float64Array) -> Thresholds:
        """Return lines that pass what these pass and what the others pass.

        Parameters
        ----------
        others : Thresholds
            Those that let nothing else pass, whatever the unit, are left out.
        least_slopes : ndarray of shape (n_stages,)
            What a similarity lower by 1 is worth to every unit and member, at each stage; infinity
            where a stage tests nothing.
        """
        relief = np.subtract.outer(others.at, self.at)
        tests = np.isfinite(least_slopes)
        worth = relief[:, :, np.newaxis] * np.where(tests, least_slopes, 0.0)
        given = np.where(tests, self.slack + worth, np.inf)
        covered = (relief >= 0) & (given >= others.slack[:, np.newaxis]).all(axis=2)
        new = ~covered.any(axis=1)
        return Thresholds(
            np.append(self.at, others.at[new]), np.vstack([self.slack, others.slack[new]])
        )

    @cached_property
    def for_kernel(self) -> tuple[Float32Array, Float32Array]:
        """The similarities, and the slack stage by stage, float32."""
        return self.at.astype(np.float32), np.ascontiguousarray(self.slack.T, dtype=np.float32)

    def passes(self, scores: Float32Array, slopes: Float32Array) -> BoolArray:
        """Tell which pairs pass all stages that see these scores, shape (n_pairs,)."""
        return np.asarray(self.passes_stages(scores, slopes).all(axis=1))

    def passes_stages(self, scores: Float32Array, slopes: Float32Array) -> BoolArray:
        """Tell which stages pairs pass that they see, shape (n_pairs, n_stages)."""
        passed = np.empty(scores.shape, dtype=bool)
        for stage in range(scores.shape[1]):
            slope, score = slopes[:, stage].astype(np.float64), scores[:, stage]
            needed = np.outer(self.at, slope) - score
            passed[:, stage] = (needed <= self.slack[:, stage, np.newaxis]).any(axis=0)
        return passed
