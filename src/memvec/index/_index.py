"""The index: built once, searched from any number of threads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from memvec import checks
from memvec.errors import InvalidValueError
from memvec.guarantee import Certificate
from memvec.index._build import Units, assign_vectors, build_units
from memvec.index._config import IndexConfig
from memvec.index._design import IndexDesign, design_index
from memvec.index._results import Hits, TopHits, Work
from memvec.index._search import (
    Found,
    best_in,
    best_units,
    matches_in,
    unit_scores,
    units_above,
)
from memvec.kernels import FLOAT32_SLACK, run_blocks
from memvec.types import ArrayLike, BoolArray, Float32Array, IntArray

# Queries that one thread answers at a time.
_QUERY_BLOCK = 16
# Above a half, the quantile of the law lies over its mean, and the test would be of no use.
_HIGHEST_MISS_RATE = 0.5


class Index:
    """An immutable index of vectors, made by :meth:`Index.build`.

    A query is tested against the memory vector of each unit; the members of the units that pass
    are scored exactly. The similarity is the cosine.

    Examples
    --------
    >>> import memvec, numpy as np
    >>> vectors = np.random.default_rng(0).standard_normal((1000, 64))
    >>> index = memvec.Index.build(vectors, similarity=0.7, miss_rate=0.01)
    >>> hits = index.range_search(vectors[:3], similarity=0.7)
    >>> [row.ids.tolist() for row in hits]
    [[0], [1], [2]]
    """

    def __init__(self, units: Units, design: IndexDesign, config: IndexConfig) -> None:
        self._units = units
        self.design = design
        self.config = config

    @classmethod
    def build(
        cls,
        vectors: ArrayLike,
        *,
        similarity: float = 0.7,
        miss_rate: float = 0.01,
        config: IndexConfig | None = None,
        progress: bool | None = None,
    ) -> Index:
        """Build an index.

        Parameters
        ----------
        vectors : array_like of shape (n_vectors, dim)
            float16, float32 or float64; rows are scaled to norm 1. Zero, NaN and infinite rows are
            refused.
        similarity : float, default 0.7
            α₀ in (0, 1], the cosine the index is designed for. Others can be searched, too.
        miss_rate : float, default 0.01
            ε in (0, 0.5), the share of matches that searches may miss.
        config : IndexConfig, optional
            Fixes parts of the design.
        progress : bool, optional
            Show bars; None shows them on a terminal.
        """
        where = "Index.build"
        similarity = checks.similarity(similarity, where)
        miss_rate = _miss_rate(miss_rate, where)
        config = IndexConfig() if config is None else config
        rows = checks.unit_rows(vectors, "vectors", where)
        design = design_index(rows, similarity, miss_rate, config)
        assignment = assign_vectors(rows, design.unit_size, config, progress)
        units = build_units(rows, assignment, config, design.effective_dim, progress)
        return cls(units, design, config)

    @property
    def dim(self) -> int:
        """The dimension of the vectors."""
        return int(self._units.vectors.shape[1])

    @property
    def unit_sizes(self) -> IntArray:
        """The number of vectors in each unit, shape (n_units,)."""
        return np.diff(self._units.offsets)

    @property
    def unit_vectors(self) -> Float32Array:
        """The memory vectors, shape (n_units, dim)."""
        return self._units.unit_vectors

    def __len__(self) -> int:
        return len(self._units.vectors)

    def __repr__(self) -> str:
        return f"Index({len(self)} vectors of dimension {self.dim}, {len(self.unit_sizes)} units)"

    def range_search(
        self,
        queries: ArrayLike,
        similarity: float | None = None,
        *,
        miss_rate: float | None = None,
        threshold: float | None = None,
        units: int | None = None,
        threads: int | None = None,
    ) -> Hits:
        """Find everything above a similarity.

        Parameters
        ----------
        queries : array_like of shape (n_queries, dim) or (dim,)
            Rows are scaled to norm 1.
        similarity : float, optional
            α₀ in (0, 1]; that of the build by default. At 1 exact copies are found.
        miss_rate : float, optional
            ε in (0, 0.5); that of the build by default.
        threshold : float, optional
            One raw threshold τ for the score of every unit, instead of the model's; −inf visits
            all of them.
        units : int, optional
            Visit this many units, those of highest score, instead of testing them.
        threads : int, optional
            How many threads share the queries; the answer does not depend on it.

        Examples
        --------
        >>> index = Index.build([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> index.range_search([1.0, 0.1], similarity=0.8)[0].ids.tolist()
        [0, 1]
        """
        where = "Index.range_search"
        rows = checks.unit_queries(queries, "queries", where, dim=self.dim)
        similarity = self._similarity(similarity, where)
        select, certificate = self._selection(similarity, miss_rate, threshold, units, where)

        def answer(query: Float32Array) -> Found:
            return matches_in(self._units, query, select(query), similarity)

        found = _answer_all(answer, rows, threads)
        return Hits(
            np.concatenate([[0], np.cumsum([len(one.ids) for one in found])]).astype(np.int64),
            np.concatenate([np.empty(0, dtype=np.int64), *(one.ids for one in found)]),
            np.concatenate([np.empty(0), *(one.scores for one in found)]).astype(np.float32),
            certificate,
            self._work(found),
        )

    def search(
        self,
        queries: ArrayLike,
        k: int,
        *,
        miss_rate: float | None = None,
        threshold: float | None = None,
        units: int | None = None,
        threads: int | None = None,
    ) -> TopHits:
        """Find the k most similar vectors.

        Units are visited in the order of the highest similarity they may still hold by the
        model, until the k-th best found beats what any unvisited one may hold.

        Parameters
        ----------
        queries : array_like of shape (n_queries, dim) or (dim,)
            Rows are scaled to norm 1.
        k : int
            How many, at most the number of vectors.
        miss_rate, threshold, units, threads
            As in :meth:`range_search`.

        Examples
        --------
        >>> index = Index.build([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> index.search([0.0, 2.0], k=2).ids
        array([[2, 1]])
        """
        where = "Index.search"
        rows = checks.unit_queries(queries, "queries", where, dim=self.dim)
        k = checks.integer(k, "k", where)
        if k > len(self):
            raise InvalidValueError(
                checks.message("k", where, f"at most the {len(self)} vectors of the index", k)
            )
        rate = self._miss_rate(miss_rate, where)
        by_hand = threshold is not None or units is not None
        select, certificate = self._selection(1.0, miss_rate, threshold, units, where)

        def answer(query: Float32Array) -> Found:
            if by_hand:
                chosen = select(query)
                return best_in(self._units, query, chosen, np.ones(len(chosen)), k)
            potentials = self._units.law.potentials(unit_scores(self._units, query), rate)
            order = np.argsort(-potentials, kind="stable")
            return best_in(self._units, query, order, potentials[order], k)

        found = _answer_all(answer, rows, threads)
        ids = np.full((len(rows), k), -1, dtype=np.int64)
        scores = np.full((len(rows), k), -np.inf, dtype=np.float32)
        for query, one in enumerate(found):
            ids[query, : len(one.ids)] = one.ids
            scores[query, : len(one.ids)] = one.scores
        return TopHits(ids, scores, certificate, self._work(found))

    def contains(
        self,
        queries: ArrayLike,
        similarity: float | None = None,
        *,
        miss_rate: float | None = None,
        threshold: float | None = None,
        units: int | None = None,
        verify: bool = True,
        threads: int | None = None,
    ) -> BoolArray:
        """Tell for each query whether some vector is that similar: the paper's membership test.

        Parameters
        ----------
        queries, similarity, miss_rate, threshold, units, threads
            As in :meth:`range_search`.
        verify : bool, default True
            Score the members of the units that pass; False gives the bare unit test, which also
            says yes to unrelated queries at its false positive rate.

        Returns
        -------
        ndarray of shape (n_queries,)
            bool.

        Examples
        --------
        >>> index = Index.build([[1.0, 0.0], [0.0, 1.0]])
        >>> index.contains([[2.0, 0.1], [-1.0, 0.0]])
        array([ True, False])
        """
        where = "Index.contains"
        rows = checks.unit_queries(queries, "queries", where, dim=self.dim)
        similarity = self._similarity(similarity, where)
        select, _ = self._selection(similarity, miss_rate, threshold, units, where)
        answers = np.empty(len(rows), dtype=bool)

        def test(start: int, stop: int) -> None:
            for query in range(start, stop):
                selected = select(rows[query])
                if verify:
                    found = matches_in(self._units, rows[query], selected, similarity)
                    answers[query] = len(found.ids) > 0
                else:
                    answers[query] = len(selected) > 0

        run_blocks(test, len(rows), _QUERY_BLOCK, threads=threads)
        return answers

    def _similarity(self, similarity: float | None, where: str) -> float:
        if similarity is None:
            return self.design.similarity
        return checks.similarity(similarity, where)

    def _miss_rate(self, miss_rate: float | None, where: str) -> float:
        return self.design.miss_rate if miss_rate is None else _miss_rate(miss_rate, where)

    def _selection(
        self,
        similarity: float,
        miss_rate: float | None,
        threshold: float | None,
        units: int | None,
        where: str,
    ) -> tuple[Callable[[Float32Array], IntArray], Certificate]:
        """Return how units are selected for a query, and what that promises."""
        rate = self._miss_rate(miss_rate, where)
        if threshold is not None and units is not None:
            raise InvalidValueError(
                checks.message("units", where, "left out where 'threshold' is given", units)
            )
        if units is not None:
            count = checks.integer(units, "units", where)
            certificate = _visiting(count >= len(self.unit_sizes))
            return lambda query: best_units(self._units, query, count), certificate
        if threshold is not None:
            level = checks.real(threshold, "threshold", where)
            limits = np.full(len(self.unit_sizes), level)
            certificate = _visiting(level == -np.inf)
        else:
            limits = self._units.law.thresholds(similarity, rate)
            certificate = Certificate("model", rate)
        # Unit scores are float32: rounding must not fail a match that is at the limit.
        cuts = (limits - FLOAT32_SLACK).astype(np.float32)
        return lambda query: units_above(self._units, query, cuts), certificate

    def _work(self, found: list[Found]) -> Work:
        return Work(
            n_queries=len(found),
            n_vectors=len(self),
            unit_tests=len(found) * len(self.unit_sizes),
            units_visited=sum(one.units_visited for one in found),
            members_scored=sum(one.members_scored for one in found),
        )


def _visiting(everything: bool) -> Certificate:
    return Certificate("exact", 0.0) if everything else Certificate("none", None)


def _miss_rate(value: float, where: str) -> float:
    return checks.real(
        value,
        "miss_rate",
        where,
        low=0.0,
        high=_HIGHEST_MISS_RATE,
        low_open=True,
        high_open=True,
    )


def _answer_all(
    answer: Callable[[Float32Array], Found], rows: Float32Array, threads: int | None
) -> list[Found]:
    """Answer every query, several threads sharing them."""
    found: dict[int, Found] = {}

    def answer_some(start: int, stop: int) -> None:
        for query in range(start, stop):
            found[query] = answer(rows[query])

    run_blocks(answer_some, len(rows), _QUERY_BLOCK, threads=threads)
    return [found[query] for query in range(len(rows))]


__all__ = ["Index"]
