"""Ranges that are asked for again and again, one query at a time, as services do.

What follows from the question alone is worked out at its first call: checks of the arguments, the
plan, and all that the kernel is given besides the query. Then a call is one look in a table and one
kernel, where the path of all other questions takes several times as long as the kernel.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeAlias, cast

import numpy as np

from memvec.guarantee import NOTHING_CHOSEN, Certificate, Chosen, Monitor, Plan, Request
from memvec.kernels import ALL_ALLOWED, N_COUNTS, Kernel, search_codes
from memvec.matches import Matches
from memvec.metric import scores_of
from memvec.search._code_units import CodeUnits
from memvec.search._hits import Hits
from memvec.search._searcher import Target, is_watched, note_range
from memvec.types import Float32Array

# The arguments of a call, as they were given: similarity, radius, miss rate, guarantee, confidence.
Question: TypeAlias = tuple[float | None, float | None, float | None, str | None, float | None]

_PLAIN = {float, str, type(None)}
# Questions that are kept. Who asks more of them spends the time on their plans.
_MOST_QUESTIONS = 64
# Hits that each thread has room for; memory that nothing is written to is not taken.
_ROOM = 65_536
_FLOAT32, _INT64 = np.dtype(np.float32), np.dtype(np.int64)
_NO_IDS, _NO_SCORES = np.empty(0, dtype=_INT64), np.empty(0, dtype=_FLOAT32)
_SPENT = 1, N_COUNTS


class _Room(threading.local):
    """Where the kernel puts the hits of a thread."""

    def __init__(self) -> None:
        self.for_hits = np.empty(_ROOM, dtype=_INT64), np.empty(_ROOM)


_OWN = _Room()


class PreparedRange:
    """A question about an index, ready for one query after the other."""

    def __init__(
        self,
        target: Target,
        units: CodeUnits,
        monitor: Monitor,
        similarity: float,
        plan: Plan,
        request: Request,
    ) -> None:
        assert plan.thresholds is not None
        self._target, self._monitor, self._plan, self._request = target, monitor, plan, request
        self._units = units  # what the kernel reads by its address
        self._asked = *units.asked(similarity, plan.thresholds), ALL_ALLOWED, True
        self._search = cast(Callable[..., int], cast(Kernel, search_codes).compiled)
        self._watched = is_watched(target, plan)
        self._searched, self._metric = target.searched, target.searched.metric
        self._certificate = plan.certificate.in_metric(self._metric)

    def hits(self, row: Float32Array, share: float) -> Hits | None:
        """Return the matches of a query; None where its norm is not 1, or matches are too many.

        Parameters
        ----------
        row : ndarray of shape (1, dim)
            float32, C-contiguous and writable.
        share : float
            Of the queries, to be compared with the exhaustive search.
        """
        own_ids, own_scores = _OWN.for_hits
        offsets, spent = np.empty(2, _INT64), np.empty(_SPENT, _INT64)
        found = self._search(row, row, row, *self._asked, offsets, own_ids, own_scores, spent)
        if not 0 <= found <= len(own_ids):
            return None
        ids, scores, certificate = _NO_IDS, _NO_SCORES, self._certificate
        if found:
            ids, scores = own_ids[:found].copy(), scores_of(self._metric, own_scores[:found])
        chosen = self._monitor.count(1, share if self._watched else 0.0)
        if chosen is not NOTHING_CHOSEN or self._monitor.has_news:
            matches = Matches(offsets, ids, own_scores[:found].copy(), spent)
            certificate = self._noted(chosen, row, matches)
        return Hits(offsets, ids, scores, certificate, spent, self._searched)

    def _noted(self, chosen: Chosen, row: Float32Array, found: Matches) -> Certificate:
        """Return the certificate of an answer that is looked at, compared or warned of."""
        asked = self._plan, self._request
        certificate = note_range(self._target, self._monitor, chosen, row, found, *asked)
        return certificate.in_metric(self._metric)


class PreparedRanges:
    """The questions that were asked of an index, by the arguments of the call."""

    def __init__(self, dim: int) -> None:
        self._shape, self._row_shape = (dim,), (1, dim)
        self._kept: dict[Question, PreparedRange] = {}

    def hits(self, queries: object, question: Question, share: float) -> Hits | None:
        """Return the matches of one query; None where it is left to the path of all others.

        That is a question which was not asked before, or other queries than one row of float32.
        """
        try:
            prepared = self._kept.get(question)
        except TypeError:  # an argument that has no hash
            return None
        if prepared is None or type(queries) is not np.ndarray or queries.dtype is not _FLOAT32:
            return None
        row = queries if queries.ndim == 2 else queries[np.newaxis]
        # Kernels would be compiled again for rows that lie otherwise, or are marked read-only.
        if row.shape != self._row_shape or not row.flags.carray:
            return None
        return prepared.hits(row, share)

    def keep(
        self,
        question: Question,
        target: Target,
        source: object,
        monitor: Monitor,
        similarity: float,
        plan: Plan,
        request: Request,
    ) -> None:
        """Prepare a question that was asked, if there is a way to."""
        is_plain = all(type(one) in _PLAIN for one in question)
        # True is equal to 1: who asks by it has to be told.
        if not is_plain or 1 in question or question in self._kept:
            return
        if plan.thresholds is None or len(self._kept) >= _MOST_QUESTIONS:
            return
        if isinstance(source, CodeUnits) and source.tests_unit_rows:
            given = target, source, monitor, similarity, plan, request
            self._kept[question] = PreparedRange(*given)
