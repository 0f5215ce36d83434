"""Lines of thresholds, as stages by codes test them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from memvec import checks
from memvec.codes import CodeSpace
from memvec.guarantee import Thresholds
from memvec.kernels import (
    CODE_STAGE,
    GROUP_STAGE,
    N_STAGES,
    PREFIX_STAGE,
    STAGES_BEFORE_FINE,
    UNIT_STAGE,
    WORD,
    stage_lines,
)
from memvec.types import Float32Array


class StageLines(NamedTuple):
    """Lines of thresholds of a stage: a code differs in 2p ≤ base − factor · scale bits by one."""

    bases: Float32Array
    factors: Float32Array

    def most_different(self, scales: Any) -> Any:
        """Return in how many bits codes of given scales may differ: ⌊limit/2⌋, as float32.

        `scales` may lie on a device: every operation is one of its own, rounded once.
        """
        limit = self.bases[0] - scales * self.factors[0]
        for base, factor in zip(self.bases[1:], self.factors[1:], strict=True):
            limit = np.maximum(limit, base - scales * factor)
        return np.floor(limit * np.float32(0.5))


def of_all_stages(thresholds: Thresholds) -> tuple[Float32Array, Float32Array]:
    """Return thresholds for kernels, which would read beyond those of fewer stages."""
    at, slack = thresholds.for_kernel
    if len(slack) != N_STAGES:
        raise checks.bad_value("thresholds", "search", f"of {N_STAGES} stages", len(slack))
    return at, slack


def balanced_lines(
    thresholds: Thresholds,
    space: CodeSpace,
    tested_words: tuple[int, int],
    scale_ranges: Float32Array,
) -> tuple[StageLines, ...]:
    """Return the lines of thresholds of every query, by stage, but for fine codes.

    Every level of a balanced query is 1: Σv and Σv² are the bits that are compared.

    Parameters
    ----------
    thresholds : Thresholds
    space : CodeSpace
        Of balanced codes.
    tested_words : tuple of int
        Words that are tested of the code of a unit, and first of that of a member.
    scale_ranges : ndarray of shape (STAGES_BEFORE_FINE, 2)
        The least and the largest scale of each stage.
    """
    at, slack = thresholds.for_kernel
    bits = np.minimum(WORD * np.arange(1, space.n_words + 1), space.n_bits)
    sums = bits.astype(np.float32)
    words = [space.n_words] * STAGES_BEFORE_FINE
    words[UNIT_STAGE], words[PREFIX_STAGE] = tested_words
    test = slack, at, np.float32(space.gain), scale_ranges
    found = []
    for stage in (GROUP_STAGE, UNIT_STAGE, PREFIX_STAGE, CODE_STAGE):
        bases, factors = np.empty((2, len(at)), dtype=np.float32)
        n_lines = stage_lines(stage, words[stage], sums, sums, test, bases, factors)
        found.append(StageLines(bases[:n_lines], factors[:n_lines]))
    return tuple(found)
