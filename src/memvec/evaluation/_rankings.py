"""Tie-tolerant comparison of rankings."""

from __future__ import annotations

import numpy as np

from memvec import checks
from memvec.evaluation._id_rows import NO_ID, refuse_repeated
from memvec.types import ArrayLike, Float64Array, IntArray


def rankings_agree(
    ids: ArrayLike,
    scores: ArrayLike,
    other_ids: ArrayLike,
    other_scores: ArrayLike,
    *,
    tolerance: float = 1e-6,
) -> bool:
    """Return whether two sets of rankings differ only among scores equal within `tolerance`.

    See `disagreeing_rankings`.

    Examples
    --------
    Ids 4 and 2 tie, and so do 7 and 8 at the end, where only one of them has a place:

    >>> rankings_agree([[4, 2, 7]], [[0.9, 0.9, 0.5]], [[2, 4, 8]], [[0.9, 0.9, 0.5]])
    True
    """
    where = "rankings_agree"
    return len(_disagreeing(ids, scores, other_ids, other_scores, tolerance, where)) == 0


def disagreeing_rankings(
    ids: ArrayLike,
    scores: ArrayLike,
    other_ids: ArrayLike,
    other_scores: ArrayLike,
    *,
    tolerance: float = 1e-6,
) -> IntArray:
    """Return the numbers of the queries whose two rankings differ by more than ties.

    Two rankings of a query agree if the scores at every rank are within `tolerance`, an id that is
    in both has scores within `tolerance`, and an id that is in only one of them ties, within
    `tolerance`, with the last score of its ranking: the other may have chosen another id of the
    tie.

    Parameters
    ----------
    ids, other_ids : array_like of shape (n_queries, k)
        Rankings, best first; −1 means no answer, and must then be in both.
    scores, other_scores : array_like of shape (n_queries, k)
        Their scores, which may not rise by more than `tolerance` along a row.
    tolerance : float
        Scores that differ by at most this much count as equal.

    Examples
    --------
    >>> disagreeing_rankings([[1, 2], [1, 2]], [[0.9, 0.8]] * 2, [[1, 2], [2, 1]], [[0.9, 0.8]] * 2)
    array([1])
    """
    where = "disagreeing_rankings"
    return _disagreeing(ids, scores, other_ids, other_scores, tolerance, where)


def _disagreeing(
    ids: ArrayLike,
    scores: ArrayLike,
    other_ids: ArrayLike,
    other_scores: ArrayLike,
    tolerance: float,
    where: str,
) -> IntArray:
    tolerance = checks.real(tolerance, "tolerance", where, low=0.0)
    left_ids = _ids(ids, "ids", where)
    right_ids = _ids(other_ids, "other_ids", where, shape=left_ids.shape)
    left = _scores(scores, left_ids, "scores", tolerance, where)
    right = _scores(other_scores, right_ids, "other_scores", tolerance, where)
    pairs = zip(left_ids, left, right_ids, right, strict=True)
    agree = [_agree(*pair, tolerance) for pair in pairs]
    return np.flatnonzero(~np.array(agree, dtype=bool))


def _agree(
    left_ids: IntArray,
    left: Float64Array,
    right_ids: IntArray,
    right: Float64Array,
    tolerance: float,
) -> bool:
    present = left_ids != NO_ID
    if not np.array_equal(present, right_ids != NO_ID):
        return False
    left_ids, left = left_ids[present], left[present]
    right_ids, right = right_ids[present], right[present]
    if (np.abs(left - right) > tolerance).any():
        return False
    _, at_left, at_right = np.intersect1d(left_ids, right_ids, return_indices=True)
    if (np.abs(left[at_left] - right[at_right]) > tolerance).any():
        return False
    alone = np.setdiff1d(np.arange(len(left)), at_left)
    other_alone = np.setdiff1d(np.arange(len(right)), at_right)
    at_the_end = (left[alone] - left[-1:] <= tolerance).all()
    return bool(at_the_end and (right[other_alone] - right[-1:] <= tolerance).all())


def _ids(value: ArrayLike, name: str, where: str, shape: tuple[int, ...] | None = None) -> IntArray:
    array = np.asarray(value)
    if array.ndim != 2 or array.dtype.kind not in "iu":
        got = f"shape {array.shape} and dtype {array.dtype}"
        raise checks.bad_type(name, where, "a two-dimensional array of integer ids", got)
    if shape is not None and array.shape != shape:
        raise checks.bad_value(name, where, f"of shape {shape}", array.shape)
    ids = array.astype(np.int64)
    refuse_repeated(np.repeat(np.arange(len(ids)), ids.shape[1]), ids.ravel(), name, where)
    return ids


def _scores(
    value: ArrayLike, ids: IntArray, name: str, tolerance: float, where: str
) -> Float64Array:
    array = np.asarray(value)
    if array.dtype.kind not in "fiu":
        raise checks.bad_type(name, where, "an array of real numbers", f"dtype {array.dtype}")
    if array.shape != ids.shape:
        raise checks.bad_value(name, where, f"of the shape of its ids, {ids.shape}", array.shape)
    # What stands beside a missing answer has no meaning.
    scores = np.where(ids == NO_ID, -np.finfo(np.float64).max, array.astype(np.float64))
    if not np.isfinite(scores).all():
        row = int(np.argmin(np.isfinite(scores).all(axis=1)))
        raise checks.bad_value(name, where, "finite", f"NaN or infinity in row {row}")
    rising = (scores[:, 1:] > scores[:, :-1] + tolerance).any(axis=1)
    if rising.any():
        expected = "in falling order along each row"
        raise checks.bad_value(name, where, expected, f"a rising row {int(np.argmax(rising))}")
    return scores
