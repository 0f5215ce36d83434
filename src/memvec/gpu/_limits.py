"""What codes need to pass on a card, by the thresholds of a plan."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from memvec.gpu._members import EVERYTHING, MemberLimits
from memvec.gpu._packages import cupy
from memvec.gpu._units import CardUnits
from memvec.guarantee import Thresholds
from memvec.kernels import CODE_STAGE, GROUP_STAGE, PREFIX_STAGE, UNIT_STAGE
from memvec.search import StageLines


class Limits(NamedTuple):
    """What codes need to pass, for all queries of a plan.

    Attributes
    ----------
    columns : cupy.ndarray of shape (n_columns,), int16
        Bits that a row and a column have in common at least.
    units : MemberLimits or None
        Of units as members of groups.
    members : MemberLimits
    """

    columns: Any
    units: MemberLimits | None
    members: MemberLimits


def limits_of(units: CardUnits, thresholds: Thresholds) -> Limits:
    """Return what codes need to pass by some thresholds."""
    xp, shape = cupy(), units.shape
    lines = units.cascade.balanced_lines(thresholds)
    first = _whole(lines[PREFIX_STAGE], np.float32(units.cascade.prefix_scale))
    whole = EVERYTHING
    if shape.tests_whole:
        whole = _whole(lines[CODE_STAGE], np.float32(units.cascade.code_scales[0]))
    of_member = MemberLimits(whole, first, shape.first_words)
    if shape.first_words == shape.n_words:
        of_member = MemberLimits(min(whole, first))
    n_singles = len(units.units.begins) - units.n_tested
    with xp.cuda.Device(units.card.number):
        # Who differs in so many bits of the whole code differs in no more of its first words.
        singles = xp.full(n_singles, of_member.whole, dtype=np.int16)
        of_units = _counts(lines[UNIT_STAGE], units.scales)
        if units.groups is None:
            every = xp.concatenate([of_units, singles])
            bits = shape.unit_bits if shape.doubles else shape.n_bits
            return Limits(_least_common(every, bits, shape.doubles), None, of_member)
        of_groups = _counts(lines[GROUP_STAGE], units.group_scales)
        columns = _least_common(xp.concatenate([of_groups, singles]), shape.n_bits, doubles=False)
        passing = xp.concatenate([of_units, xp.full(n_singles, EVERYTHING, dtype=np.int16)])
    return Limits(columns, MemberLimits(passing), of_member)


def _whole(lines: StageLines, scale: np.float32) -> int:
    return int(np.clip(lines.most_different(scale), -1, EVERYTHING))


def _counts(lines: StageLines, scales: Any) -> Any:
    return cupy().clip(lines.most_different(scales), -1, EVERYTHING).astype(np.int16)


def _least_common(most_different: Any, bits: int, doubles: bool) -> Any:
    """Return the bits that codes have in common which differ in so many.

    Of balanced codes it is (bits − p)/2, of a code and its complement bits − p.
    """
    common = bits - most_different.astype(np.int32)
    return (common if doubles else (common + 1) // 2).astype(np.int16)
