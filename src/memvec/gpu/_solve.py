"""Memory vectors of units on a card: the pseudo-inverse of members, unit by unit."""

from __future__ import annotations

from typing import Any

import numpy as np

from memvec.gpu._card import Card
from memvec.gpu._packages import cupy

_THREADS = 128
# Members of a unit that one thread solves for.
MOST_MEMBERS = 64
# Of the trace: where a pivot is smaller, members depend on each other, and eigenvalues are needed.
_CUT = 1e-6
# Eigenvalues below this share of the largest are dropped, as the CPU does.
_EIGENVALUE_CUT = 1e-6


def solve_grams(grams: Any, card: Card) -> tuple[Any, Any]:
    """Return the weights w of members with G w = 1, and for which units there are any.

    Parameters
    ----------
    grams : cupy.ndarray of shape (n_units, size, size), float32
    card : Card

    Returns
    -------
    weights : cupy.ndarray of shape (n_units, size), float32
        Zeros where members depend on each other.
    easy : cupy.ndarray of shape (n_units,), uint8
    """
    n_units, size, _ = grams.shape
    weights = card.empty("Weights of members", (n_units, size), np.float32)
    easy = card.empty("Weights of members", (n_units,), np.uint8)
    if n_units:
        arguments = grams, np.int32(n_units), np.float64(_CUT), weights, easy
        grid = -(-n_units // _THREADS)
        card.launch(("solve", "solve", {"SIZE": size}), grid, _THREADS, arguments)
    return weights, easy


def member_weights(grams: Any, card: Card) -> Any:
    """Return the weights of members, with G w = 1 as far as that has an answer."""
    weights, easy = solve_grams(grams, card)
    hard = cupy().flatnonzero(easy == 0)
    if len(hard):
        values, vectors = cupy().linalg.eigh(grams[hard].astype(np.float64))
        kept = values > _EIGENVALUE_CUT * values[:, -1:]
        inverse = cupy().where(kept, 1 / cupy().where(kept, values, 1), 0)
        along = vectors.sum(axis=1)  # Vᵀ1
        weights[hard] = ((vectors * (inverse * along)[:, np.newaxis]).sum(axis=2)).astype(
            np.float32
        )
    return weights
