"""What an index shows of itself: its make-up, why it answers as it does, how it is doing."""

from __future__ import annotations

import numpy as np

from memvec import checks
from memvec.errors import InvalidValueError
from memvec.guarantee import CalibrationTable, Certificate, Draw
from memvec.index._build import IndexParts
from memvec.index._config import IndexConfig
from memvec.index._design import IndexDesign
from memvec.index._evidence import Evidence, build_table, gather_evidence
from memvec.index._explain import Explanation
from memvec.index._monitor import Health, Verification
from memvec.index._promises import Guarantee
from memvec.index._searcher import Searcher
from memvec.index._watch import Monitor, shadow_share
from memvec.types import ArrayLike, Float32Array, IntArray


class InspectedIndex:
    """Everything about an index but the searches."""

    def __init__(self, parts: IndexParts) -> None:
        made = parts.design
        # The parts lie here alone, so that one assignment replaces what searches use.
        self._searcher = Searcher(parts, Monitor(made.config.seed))
        self._shadow = shadow_share(made.expected_microseconds, made.n_vectors, made.dim)
        self._dim = made.dim

    @property
    def _parts(self) -> IndexParts:
        return self._searcher.parts

    @property
    def design(self) -> IndexDesign:
        """What was chosen for this data, and why."""
        return self._parts.design

    @property
    def config(self) -> IndexConfig:
        """The configuration, with everything decided."""
        return self._parts.design.config

    @property
    def dim(self) -> int:
        """The dimension of the vectors."""
        return self._dim

    @property
    def unit_sizes(self) -> IntArray:
        """The members of each unit, shape (n_units,); strays and the reserve are in none."""
        units = self._parts.cascade.units
        return np.diff(units.offsets)[: units.n_tested]

    @property
    def unit_vectors(self) -> Float32Array:
        """The memory vectors, shape (n_units, dim)."""
        return self._parts.cascade.units.unit_vectors

    @property
    def labels(self) -> IntArray:
        """The unit of each vector, shape (n_vectors,); -1 for strays and those of the reserve."""
        units = self._parts.cascade.units
        labels = np.empty(len(self), dtype=np.int64)
        labels[units.keys] = units.unit_of(np.arange(len(self)))
        labels[labels >= units.n_tested] = -1
        return labels

    @property
    def reserve(self) -> IntArray:
        """The vectors that are calibrated on, shape (n_reserve,), in the order of the queries.

        None where queries were given.
        """
        evidence, keys = self._parts.evidence, self._parts.cascade.units.keys
        if evidence.source != "reserve" or evidence.table is None:
            return np.empty(0, dtype=np.int64)
        return np.array(keys[-1 - int(evidence.table.queries.max()) :])

    @property
    def evidence(self) -> Evidence:
        """What promises rest on: where calibration queries came from, and when."""
        return self._parts.evidence

    @property
    def calibration_table(self) -> CalibrationTable | None:
        """The matches of the calibration queries, and what the stages see of them."""
        return self._parts.evidence.table

    def calibration_rows(
        self, queries: ArrayLike, *, progress: bool | None = False
    ) -> CalibrationTable:
        """Return the matches of other queries, and what the stages see of them.

        Parameters
        ----------
        queries : array_like of shape (n_queries, dim)
            None of them stored here.
        progress : bool, optional
            Show a bar; None shows it on a terminal.
        """
        rows = checks.unit_queries(queries, "queries", "Index.calibration_rows", dim=self.dim)
        similarity = self.design.similarity
        return build_table(self._parts.cascade, rows, None, similarity, progress)

    def unit_scores(self, queries: ArrayLike) -> Float32Array:
        """Return what the unit test sees: yᵀm, or its estimate by codes.

        Parameters
        ----------
        queries : array_like of shape (n_queries, dim) or (dim,)
            Rows are scaled to norm 1.

        Returns
        -------
        ndarray of shape (n_queries, n_units)
            float32. With codes, the score is given in shares of what a match 1 would score.
        """
        rows = checks.unit_queries(queries, "queries", "Index.unit_scores", dim=self.dim)
        scores = np.empty((len(rows), len(self.unit_sizes)), dtype=np.float32)
        for query, row in enumerate(rows):
            scores[query] = self._parts.cascade.unit_scores(row)
        return scores

    def __len__(self) -> int:
        return self.design.n_vectors

    def __repr__(self) -> str:
        return f"Index({len(self)} vectors of dimension {self.dim}, {len(self.unit_sizes)} units)"

    def explain(
        self,
        query: ArrayLike,
        id: int,  # noqa: A002 - what hits call it
        similarity: float | None = None,
        *,
        miss_rate: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
        plot: bool = False,
    ) -> Explanation:
        """Tell why a vector is, or is not, returned for a query.

        Parameters
        ----------
        query : array_like of shape (dim,)
            One query.
        id : int
            A row of the array the index was built from.
        similarity, miss_rate, guarantee, confidence
            As in :meth:`range_search`.
        plot : bool, default False
            Also draw the unit test: what the query scores on all units, the law of a match, the
            threshold and the score of this vector's unit.

        Examples
        --------
        >>> import memvec
        >>> index = memvec.Index.build([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> index.explain([1.0, 0.0], 2, similarity=0.8).reason
        'Not returned: its score 0.0000 is below 0.8.'
        """
        where = "Index.explain"
        rows = checks.unit_queries(query, "query", where, dim=self.dim)
        if len(rows) != 1:
            raise InvalidValueError(checks.message("query", where, "one query", len(rows)))
        key = checks.integer(id, "id", where, minimum=0)
        if key >= len(self):
            expected = f"less than the {len(self)} vectors of the index"
            raise InvalidValueError(checks.message("id", where, expected, key))
        level = self._similarity(similarity, where)
        request = self._parts.promises.default.replaced(miss_rate, guarantee, confidence, where)
        return self._searcher.explain(rows, key, level, request, plot, where)

    def verify(
        self,
        queries: ArrayLike,
        similarity: float | None = None,
        *,
        sample: int | None = None,
        miss_rate: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
        progress: bool | None = None,
    ) -> Verification:
        """Measure the miss rate: compare answers with the exhaustive search.

        Parameters
        ----------
        queries : array_like of shape (n_queries, dim) or (dim,)
            Queries that matter to you.
        similarity, miss_rate, guarantee, confidence
            As in :meth:`range_search`.
        sample : int, optional
            Compare this many of the queries, drawn at random; all by default.
        progress : bool, optional
            Show a bar; None shows it on a terminal.

        Examples
        --------
        >>> import memvec
        >>> index = memvec.Index.build([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> index.verify([[1.0, 0.1]], similarity=0.8).n_missed
        0
        """
        where = "Index.verify"
        rows = checks.unit_queries(queries, "queries", where, dim=self.dim)
        level = self._similarity(similarity, where)
        request = self._parts.promises.default.replaced(miss_rate, guarantee, confidence, where)
        if sample is not None:
            wanted = min(checks.integer(sample, "sample", where), len(rows))
            drawn = np.random.default_rng(self.config.seed).choice(len(rows), wanted, replace=False)
            rows = rows[np.sort(drawn)]
        searcher = self._searcher
        hits = searcher.range(rows, level, request, None, where, live=False)
        truth = searcher.truth(rows, level, progress)
        return Verification.of_answer(truth, hits, request.allowed)

    @property
    def shadow(self) -> float:
        """The share of range queries that are compared with the exhaustive search.

        By default they take at most 2 % of the time, by the cost model; 0 compares none.
        """
        return self._shadow

    @shadow.setter
    def shadow(self, share: float) -> None:
        self._shadow = share_of_queries(share, "Index.shadow")

    @property
    def health(self) -> Health:
        """How the promise is being kept: queries seen, compared in the shadow, drifted."""
        return self._searcher.monitor.health

    def recalibrate(
        self, queries: ArrayLike | None = None, *, progress: bool | None = None
    ) -> Certificate:
        """Solve anew on recent queries, or on queries given, and return what is promised then.

        Searches use the new evidence from then on, in other threads, too; `save` writes it. Tallies
        and the watch for drift start again. An error changes nothing.

        Parameters
        ----------
        queries : array_like of shape (n_queries, dim), optional
            Queries like those to come. By default those of this process that were looked at: one in
            twelve or more, each once, the last 2,000. Copies of stored vectors are left out.
        progress : bool, optional
            Show bars; None shows them on a terminal.

        Examples
        --------
        >>> import memvec, numpy as np
        >>> rng = np.random.default_rng(0)
        >>> vectors = np.repeat(rng.standard_normal((300, 64)), 10, axis=0)
        >>> vectors += 0.3 * rng.standard_normal(vectors.shape)
        >>> index = memvec.Index.build(vectors[:2500], miss_rate=0.05)
        >>> index.recalibrate(vectors[2480:], progress=False).source
        Traceback (most recent call last):
            ...
        memvec.errors.InvalidValueError: The 'queries' parameter of Index.recalibrate must be ...
        >>> index.recalibrate(vectors[:500] + 0.1, progress=False).source
        'queries'
        """
        where = "Index.recalibrate"
        searcher, design = self._searcher, self.design
        parts, recent = searcher.parts, searcher.monitor.recent
        rows = searcher.monitor.recent_rows(self.dim)
        if queries is not None:
            rows = checks.unit_queries(queries, "queries", where, dim=self.dim)
        table, left_out, evidence = None, 0, parts.evidence
        if len(rows):
            seed = design.config.seed
            evidence = gather_evidence(parts.cascade, rows, 0, design.similarity, seed, progress)
            table, left_out = evidence.table, evidence.left_out
        have = 0 if table is None else table.above(design.similarity).n_queries
        needed = parts.promises.queries_needed
        check_enough(have, needed, design.similarity, len(rows), left_out, where)
        recent.remember([Draw.of(row, design.config.seed).digest for row in rows])
        made = parts.with_evidence(evidence)
        self._searcher = Searcher(made, Monitor(design.config.seed, recent))
        return made.promises.for_range(design.similarity, made.promises.default, where).certificate

    def _similarity(self, similarity: float | None, where: str) -> float:
        if similarity is None:
            return self._parts.design.similarity
        return checks.similarity(similarity, where)


def share_of_queries(value: float, where: str) -> float:
    """Return a share of queries to compare with the exhaustive search."""
    return checks.real(value, "shadow", where, low=0.0, high=1.0)


def check_enough(
    have: int, needed: int, similarity: float, n_queries: int, left_out: int, where: str
) -> None:
    """Raise where too few queries have matches to calibrate on."""
    if have >= needed:
        return
    expected = (
        f"at least {needed:,} queries with matches above {similarity:g}, which the promise of "
        "searches that name no other needs"
    )
    got = f"{have:,} of {n_queries:,} queries ({left_out:,} copies of stored vectors left out)"
    raise InvalidValueError(checks.message("queries", where, expected, got))


__all__ = ["InspectedIndex", "check_enough", "share_of_queries"]
