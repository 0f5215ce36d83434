"""Canonical scores of pairs of int8 rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from memvec import checks
from memvec.gpu._card import Card
from memvec.gpu._codes import check_numbers, check_rows

_THREADS, _BLOCKS = 256, 16  # of a block; a multiprocessor
_LANES = 8
_CHUNK = 16  # bytes that a lane reads at a time


def score_int8_pairs(
    left: Any, left_scales: Any, right: Any, right_scales: Any, pairs: Any, card: Card
) -> Any:
    """Return the canonical scores float64(x·y) · (s_x · s_y) of given pairs.

    Parameters
    ----------
    left, right : cupy.ndarray of shape (n, padded_dim), int8
        Zeros follow the entries up to a multiple of 16.
    left_scales, right_scales : cupy.ndarray of shape (n,), float64
        s = 1/‖row‖.
    pairs : cupy.ndarray of shape (n_pairs, 2), int32
        Rows of `left` and of `right`, as a join returns them.
    card : Card

    Returns
    -------
    cupy.ndarray of shape (n_pairs,), float64
    """
    where = "score_int8_pairs"
    check_rows(left, "left", where, np.int8)
    check_rows(right, "right", where, np.int8)
    check_rows(pairs, "pairs", where, np.int32)
    check_numbers(left_scales, "left_scales", where, np.float64, len(left))
    check_numbers(right_scales, "right_scales", where, np.float64, len(right))
    dim = int(left.shape[1])
    if dim % _CHUNK or right.shape[1] != dim or pairs.shape[1] != 2:
        expected = "of rows of one length, a multiple of 16, with pairs of two numbers"
        got = f"shapes {left.shape}, {right.shape}, {pairs.shape}"
        raise checks.bad_value("left", where, expected, got)
    n_pairs = len(pairs)
    scores = card.empty("Scores", (n_pairs,), np.float64)
    if n_pairs:
        blocks = -(-n_pairs * _LANES // _THREADS)
        grid = min(blocks, card.n_processors * _BLOCKS)
        rows = left, left_scales, right, right_scales, np.int32(dim // _CHUNK)
        card.launch(
            ("scores", "score_int8", {}), grid, _THREADS, (*rows, pairs, np.int64(n_pairs), scores)
        )
    return scores
