"""Whether recent queries still look like the calibration queries."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np

from memvec.types import Float32Array

# Recent scores that are compared, and how many new ones come between two tests.
_WINDOW = 400
_BETWEEN_TESTS = 100
# The chance that queries that do not differ ever raise an alarm.
_FALSE_ALARMS = 0.01


@dataclass(frozen=True)
class Drift:
    """What the last test of recent queries said.

    Attributes
    ----------
    n_queries : int
        Queries watched so far.
    p_value : float or None
        Of the last two-sample test; None before the first.
    alarmed : bool
        Whether any test found a difference.
    """

    n_queries: int
    p_value: float | None
    alarmed: bool


class DriftWatch:
    """Compares the best unit score of recent queries with that of the calibration queries.

    Each test is a Kolmogorov–Smirnov test of two samples. The t-th test alarms below
    0.01/(t(t + 1)): as these add up to 0.01, queries that do not differ raise an alarm with
    probability at most 0.01, however long they are watched. Windows of different tests do not need
    to be independent for that. A query that comes again, as in a cache, has the same score and is
    not counted again.

    Parameters
    ----------
    reference : ndarray of shape (n_queries,)
        The best unit score of each calibration query.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> watch = DriftWatch(rng.normal(size=2000).astype(np.float32))
    >>> watch.saw(rng.normal(size=1000).astype(np.float32)), watch.state.alarmed
    (False, False)
    >>> watch.saw(rng.normal(loc=1, size=1000).astype(np.float32)), watch.state.alarmed
    (True, True)
    """

    def __init__(self, reference: Float32Array) -> None:
        self._reference = np.sort(reference)
        self._recent = np.empty(0, dtype=np.float32)
        self._waiting = 0
        self._n_tests = 0
        self._lock = threading.Lock()
        self.state = Drift(0, None, False)

    def saw(self, scores: Float32Array) -> bool:
        """Take note of further queries; return True where that raises the first alarm."""
        raised = False
        with self._lock:
            for start in range(0, len(scores), _BETWEEN_TESTS):
                raised |= self._add(scores[start : start + _BETWEEN_TESTS])
        return raised

    def _add(self, scores: Float32Array) -> bool:
        fresh = np.setdiff1d(scores, self._recent)
        self._recent = np.concatenate([self._recent, fresh])[-_WINDOW:]
        self._waiting += len(fresh)
        before = self.state
        p_value = before.p_value
        if self._waiting >= _BETWEEN_TESTS:
            self._waiting = 0
            self._n_tests += 1
            p_value = _two_sample_p_value(self._reference, self._recent)
        limit = _FALSE_ALARMS / max(1, self._n_tests * (self._n_tests + 1))
        tested = self._waiting == 0
        differs = tested and p_value is not None and p_value < limit
        alarmed = before.alarmed or differs
        self.state = Drift(before.n_queries + len(scores), p_value, alarmed)
        return alarmed and not before.alarmed


def _two_sample_p_value(left: Float32Array, right: Float32Array) -> float:
    # Importing it takes as long as importing the rest of this package, and few searches come here.
    from scipy.stats import ks_2samp

    return float(ks_2samp(left, right, method="asymp").pvalue)


__all__ = ["Drift", "DriftWatch"]
