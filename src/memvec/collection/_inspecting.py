"""Why an item is, or is not, returned, and what searches miss."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from memvec import checks
from memvec.collection._given import GivenQueries
from memvec.collection._ids import Id, checked_ids
from memvec.collection._live import Live
from memvec.collection._promise import Guarantee, Promise
from memvec.collection._searching import Searches, Where
from memvec.collection._state import State
from memvec.errors import InvalidValueError
from memvec.evaluation import Ranges
from memvec.guarantee import Certificate, Draw, NullLaw, Rule, significance
from memvec.index import (
    Explanation,
    Health,
    Request,
    StageView,
    Verification,
    check_enough,
    explain_pair,
    share_of_queries,
)
from memvec.kernels import canonical_score_pairs
from memvec.types import ArrayLike, BoolArray, Float32Array


class Inspections(Searches):
    """The part of a collection that tells about its searches."""

    def explain(
        self,
        query: ArrayLike,
        id: Id,  # noqa: A002 - what hits call it
        similarity: float | None = None,
        *,
        miss_rate: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
    ) -> Explanation:
        """Tell why an item is, or is not, returned for a query.

        Parameters
        ----------
        query : array_like of shape (dim,)
            One query.
        id : int or str
            An item.
        similarity, miss_rate, guarantee, confidence
            As in :meth:`range_search`.

        Examples
        --------
        >>> import tempfile, memvec
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with memvec.open(folder + "/two.mv", dim=2) as collection:
        ...         ids = collection.add([[1.0, 0.0], [0.0, 1.0]], ids=["east", "north"])
        ...         collection.explain([1.0, 0.1], "east").reason
        'Returned.'
        """
        where = "Collection.explain"
        rows = checks.unit_queries(query, "query", where, dim=self.dim)
        if len(rows) != 1:
            raise InvalidValueError(checks.message("query", where, "one query", len(rows)))
        level = self._similarity(similarity, where)
        request = self._range_request(miss_rate, guarantee, confidence, where)
        [name] = checked_ids([id], where)
        # Together: a replaced item has another key in the state before.
        state, keys = self._found([name], where)
        alive = [part.alive for part in state.parts]
        promise = self._promise(state, alive, level, request, None, where)
        return replace(self._told(state, rows[0], keys[name], level, promise), id=name)

    def _told(
        self, state: State, query: Float32Array, key: int, level: float, promise: Promise
    ) -> Explanation:
        """Return what the stages see of the item, wherever it lies."""
        law = self._null_law(state)
        for part in state.segments:
            here, rows = part.find(np.array([key]))
            if here.any():
                return explain_pair(
                    part.rows.index,
                    query,
                    int(rows[0]),
                    level,
                    promise.lines,
                    promise.certificate,
                    law,
                )
        [vector] = state.vectors(np.array([key]), self.dim)
        zero = np.zeros(1, dtype=np.int64)
        pair = query[np.newaxis], vector[np.newaxis]
        [score] = canonical_score_pairs(*pair, zero, zero)
        surprise = significance(law, float(score), state.n_items)
        stages = self._waiting_stages(state, query, key, level, promise)
        return Explanation(key, float(score), level, stages, surprise, promise.certificate)

    def _waiting_stages(
        self, state: State, query: Float32Array, key: int, level: float, promise: Promise
    ) -> tuple[StageView, ...]:
        """Return the tests of a vector that waits: of its open unit, of its code, or none."""
        units = self._testing_units(promise)
        if units is not None:
            return units.stages(state.waiting, query, key, level, promise.request.miss_rate)
        if promise.waiting is None or promise.lines is None:
            return ()
        [row] = np.flatnonzero(state.waiting.keys == key)
        return promise.waiting.stages(query, int(row), level)

    @staticmethod
    def _null_law(state: State) -> NullLaw:
        laws = [part.rows.index.evidence.null_law.cosines for part in state.segments]
        return NullLaw.of_pairs(np.concatenate(laws) if laws else np.zeros(1, dtype=np.float32))

    def measure(
        self,
        queries: ArrayLike,
        similarity: float | None = None,
        *,
        sample: int | None = None,
        miss_rate: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
        where: Where | None = None,
    ) -> Verification:
        """Measure the miss rate: compare answers with those that miss nothing.

        :meth:`verify` compares checksums.

        Parameters
        ----------
        queries : array_like of shape (n_queries, dim) or (dim,)
            Queries that matter to you.
        sample : int, optional
            Compare this many of them, drawn at random; all by default.
        similarity, miss_rate, guarantee, confidence, where
            As in :meth:`range_search`.
        """
        caller = "Collection.measure"
        rows = checks.unit_queries(queries, "queries", caller, dim=self.dim)
        if sample is not None:
            wanted = min(checks.integer(sample, "sample", caller), len(rows))
            drawn = np.random.default_rng(0).choice(len(rows), wanted, replace=False)
            rows = rows[np.sort(drawn)]
        level = self._similarity(similarity, caller)
        request = self._range_request(miss_rate, guarantee, confidence, caller)
        state, passing = self._passing(where, caller)
        exactly = request._replace(guarantee="exact")
        found, truth = (
            self._keys_found(state, passing, rows, level, asked, where, caller)
            for asked in (request, exactly)
        )
        return Verification.of_answer(truth, found, request.allowed)

    def _keys_found(
        self,
        state: State,
        passing: list[BoolArray],
        rows: Float32Array,
        level: float,
        request: Request,
        where: Where | None,
        caller: str,
    ) -> Ranges:
        promise = self._promise(state, passing, level, request, where, caller)
        return self._range(state, passing, rows, level, promise, None).ranges(len(rows))

    @property
    def shadow(self) -> float:
        """The share of range queries that are compared with the exhaustive search.

        By default they take at most 2 % of the time, by the cost model; 0 compares none.
        """
        return self._shadow(self._state())

    @shadow.setter
    def shadow(self, share: float) -> None:
        self._share = share_of_queries(share, "Collection.shadow")

    @property
    def health(self) -> Health:
        """How the promise is being kept: queries seen, compared in the shadow, drifted."""
        return self._live.monitor.health

    def recalibrate(
        self, queries: ArrayLike | None = None, *, progress: bool | None = None
    ) -> Certificate:
        """Solve anew on recent queries, or on queries given, and return what is promised then.

        Searches of this process use the new evidence from then on; it is not written to the disk.
        Segments that are sealed later are asked the same queries when they are first searched.
        Tallies and the watch for drift start again. An error changes nothing.

        Parameters
        ----------
        queries : array_like of shape (n_queries, dim), optional
            Queries like those to come. By default those of this process that were looked at: one in
            twelve or more, each once, the last 2,000. Copies of sealed vectors are left out.
        progress : bool, optional
            Show a bar; None shows it on a terminal.
        """
        where = "Collection.recalibrate"
        monitor, seed = self._live.monitor, self.settings.config.seed
        recent, rows = monitor.recent, monitor.recent_rows(self.dim)
        if queries is not None:
            rows = checks.unit_queries(queries, "queries", where, dim=self.dim)
        state, level = self._state(), self.settings.similarity
        given = GivenQueries(rows)
        made = Live(self.settings, given, recent)
        have, needed = 0, Rule("expected", self.settings.miss_rate).queries_needed
        if len(rows) and state.segments:
            self._check_segments(state)
            given.find([part.rows for part in state.segments], progress)
            have, needed = made.promises.support(state, level)
        check_enough(have, needed, level, len(rows), given.n_left_out, where)
        recent.remember([Draw.of(row, seed).digest for row in rows])
        self._live = made
        request = made.promises.request(None, None, None, where)
        alive = [part.alive for part in state.parts]
        return self._promise(state, alive, level, request, None, where).certificate


__all__ = ["Inspections"]
