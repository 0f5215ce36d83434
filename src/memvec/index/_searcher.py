"""The searches behind the index's methods, on input that is checked already."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from memvec.evaluation import Ranges, exact_range
from memvec.guarantee import Certificate, Level, NullLaw, significance
from memvec.index._build import IndexParts
from memvec.index._by_hand import Select, search_selected
from memvec.index._explain import Explanation, draw_unit_test, stage_views
from memvec.index._found import Found
from memvec.index._lines import Lines
from memvec.index._monitor import Asked
from memvec.index._needed import NeededSlack
from memvec.index._promises import Request
from memvec.index._results import Hits, Spent, TopHits
from memvec.index._top import likely_similarities, search_best, search_best_exactly
from memvec.index._watch import Monitor
from memvec.kernels import canonical_score_pairs
from memvec.types import BoolArray, Float32Array, Float64Array, IntArray

# So few queries are compared one by one: products of matrices pay off for more.
_FEW_QUERIES = 16


@dataclass(frozen=True)
class _RangeQuestion:
    """A range that an index is asked for, as the watch for drift sees it."""

    parts: IndexParts
    similarity: float
    request: Request
    level: Level
    #: An index does not change: only a new calibration starts the watch again.
    version: None = None

    @property
    def place(self) -> tuple[float, Request]:
        """What is asked for."""
        return self.similarity, self.request

    def begin(self) -> tuple[NeededSlack, Float64Array] | None:
        """Return how scores are found, and those of the calibration queries."""
        return self.parts.promises.needed_slack(self.similarity, self.request, self.level)

    def seen(
        self, queries: Float32Array, query_of: IntArray, ids: IntArray
    ) -> tuple[Float32Array, Float32Array]:
        """Return what the stages see of given pairs."""
        return seen_of_ids(self.parts, queries, query_of, ids)


def seen_of_ids(
    parts: IndexParts, queries: Float32Array, query_of: IntArray, ids: IntArray
) -> tuple[Float32Array, Float32Array]:
    """Return what the stages see of queries and vectors that are named by their ids."""
    rows = parts.cascade.units.places[ids].astype(np.int64)
    return parts.cascade.calibrate(queries, query_of, rows)


@dataclass(frozen=True, eq=False)
class Searcher:
    """Searches the parts of an index; the monitor sees each query that is promised something."""

    parts: IndexParts
    monitor: Monitor

    def range(
        self,
        rows: Float32Array,
        level: float,
        request: Request,
        threads: int | None,
        where: str,
        *,
        live: bool = True,
        shadow: float = 0.0,
    ) -> Hits:
        """Return everything above a similarity, with the promise that was asked for.

        Queries that are not live, as those of a verification, are not counted or watched. Of the
        others, a share is compared with the exhaustive search, unless nothing can be missed.
        """
        parts, monitor = self.parts, self.monitor
        if request.guarantee == "exact":
            found, certificate = parts.bounded.search(rows, level, threads), parts.complete(level)
        else:
            slack = parts.promises.for_range(level, request, where)
            found = parts.cascade.search(rows, level, slack.lines, threads)
            certificate = slack.certificate
        if not live:
            return self.hits(found, certificate)
        share = 0.0 if certificate.complete else shadow
        looked_at, compared = monitor.count(len(rows), share)
        if looked_at:
            question = _RangeQuestion(parts, level, request, certificate.level)
            monitor.look_at(looked_at, rows, found, question if certificate.natural else None)
        asked = Asked(level, request.allowed, certificate.level)
        if compared:
            monitor.compare(compared, rows, found, asked, lambda some: self.truth(some, level))
        return self.hits(found, monitor.marked(certificate, asked))

    def truth(self, rows: Float32Array, similarity: float, progress: bool | None = False) -> Ranges:
        """Return everything above a similarity, by comparing everything."""
        units = self.parts.cascade.units
        if len(rows) <= _FEW_QUERIES:
            every = np.arange(units.n_tested)
            few = search_selected(self.parts.cascade, lambda _: every, rows, similarity, None)
            return Ranges(few.offsets, few.ids, few.scores.astype(np.float32))
        found = exact_range(units.vectors, rows, similarity, progress=progress)
        return dataclasses.replace(found, ids=units.keys[found.ids])

    def best(
        self, rows: Float32Array, k: int, request: Request, threads: int | None, where: str
    ) -> TopHits:
        """Return the k nearest, with the promise that was asked for."""
        parts = self.parts
        exactly = request.guarantee == "exact"
        if exactly:
            # The nearest that are likely: what is as good as the last of them holds all k.
            request = request._replace(guarantee="expected", explicit=False)
        slack = parts.promises.for_best(k, request, where)
        found = search_best(
            lambda some, similarity, lines: parts.cascade.search(some, similarity, lines, threads),
            rows,
            k,
            slack,
            likely_similarities(parts.calibration, k),
        )
        if exactly:
            if not slack.certificate.complete:
                found = search_best_exactly(parts.bounded, found, rows, k, threads)
            return self.top(found, k, parts.complete(None))
        looked_at, _ = self.monitor.count(len(rows))
        self.monitor.look_at(looked_at, rows, found, None)
        return self.top(found, k, self.monitor.marked(slack.certificate))

    def some_unit(
        self, select: Select, rows: Float32Array, similarity: float, threads: int | None
    ) -> BoolArray:
        """Tell which queries have a unit selected, or a match among strays and the reserve."""
        passed = np.array([len(select(query)) > 0 for query in rows], dtype=bool)
        nothing = np.empty(0, dtype=np.int64)
        in_reserve = search_selected(
            self.parts.cascade, lambda query: nothing, rows, similarity, threads
        )
        return passed | (np.diff(in_reserve.offsets) > 0)

    def explain(
        self, rows: Float32Array, key: int, level: float, request: Request, plot: bool, where: str
    ) -> Explanation:
        """Tell what each stage sees of a query and a vector."""
        parts = self.parts
        slack = None
        if request.guarantee != "exact":
            slack = parts.promises.for_range(level, request, where)
        certificate = parts.complete(level) if slack is None else slack.certificate
        told = self.explain_with(
            None if slack is None else slack.lines,
            rows,
            key,
            level,
            certificate,
            parts.evidence.null_law,
        )
        shown = next((stage for stage in told.stages if stage.name == "unit"), None)
        if not plot or shown is None:
            return told
        scores = parts.cascade.unit_scores(rows[0]) / self._unit_means
        return dataclasses.replace(told, figure=draw_unit_test(shown, level, scores))

    def explain_with(
        self,
        lines: Lines | None,
        rows: Float32Array,
        key: int,
        level: float,
        certificate: Certificate,
        law: NullLaw,
    ) -> Explanation:
        """Tell what each stage sees, with given lines of thresholds; None visits everything."""
        units = self.parts.cascade.units
        row = np.flatnonzero(units.keys == key)
        [score] = canonical_score_pairs(rows, units.vectors, np.zeros(1, np.int64), row)
        stages = () if lines is None else stage_views(self.parts.cascade, rows, row, lines)
        surprise = significance(law, float(score), self.parts.design.n_vectors)
        return Explanation(key, float(score), level, stages, surprise, certificate)

    @property
    def _unit_means(self) -> Float32Array | float:
        """What turns unit scores into similarities: estimates by codes are that already."""
        codes = self.parts.design.config.codes != "none"
        return 1.0 if codes else self.parts.cascade.units.means.astype(np.float32)

    def hits(self, found: Found, certificate: Certificate) -> Hits:
        """Return what was found as users see it."""
        offsets, ids, scores, counts = found
        parts = self.parts
        spent = Spent(counts, parts.design.n_vectors)
        return Hits(
            offsets, ids, scores.astype(np.float32), certificate, spent, parts.evidence.null_law
        )

    def top(self, found: Found, k: int, certificate: Certificate) -> TopHits:
        """Return the first k of what was found as users see it."""
        n_queries = len(found.offsets) - 1
        ids = np.full((n_queries, k), -1, dtype=np.int64)
        scores = np.full((n_queries, k), -np.inf, dtype=np.float32)
        for query in range(n_queries):
            start = found.offsets[query]
            stop = min(start + k, found.offsets[query + 1])
            ids[query, : stop - start] = found.ids[start:stop]
            scores[query, : stop - start] = found.scores[start:stop]
        spent = Spent(found.counts, self.parts.design.n_vectors)
        return TopHits(ids, scores, certificate, spent)


__all__ = ["Searcher", "seen_of_ids"]
