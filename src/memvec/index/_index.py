"""The index: built once, searched from any number of threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal, get_args

import numpy as np

from memvec import checks
from memvec.errors import InvalidTypeError, InvalidValueError
from memvec.guarantee import Certificate
from memvec.index._build import IndexParts, build_parts, load_parts, save_parts
from memvec.index._cascades import ANYTHING, Found
from memvec.index._config import IndexConfig
from memvec.index._costs import MachineCosts
from memvec.index._design import IndexDesign
from memvec.index._results import Hits, Spent, TopHits
from memvec.index._top import search_best
from memvec.kernels import N_COUNTS, collect_matches, run_blocks
from memvec.types import ArrayLike, BoolArray, Float32Array, IntArray

Guarantee = Literal["expected", "model"]

# Queries that one thread answers at a time, where units are selected by hand.
_QUERY_BLOCK = 16
# Kernels count rows in 32 bits.
_MOST_VECTORS = 2**31 - 1


class Index:
    """An immutable index of vectors, made by :meth:`Index.build` or :meth:`Index.open`.

    A query is tested against the memory vector of each unit, by its code or in float32; members of
    the units that pass are tested in turn, and what is left is scored exactly. The similarity is
    the cosine.

    Examples
    --------
    >>> import memvec, numpy as np
    >>> vectors = np.random.default_rng(0).standard_normal((1000, 64))
    >>> index = memvec.Index.build(vectors, similarity=0.7, miss_rate=0.01)
    >>> hits = index.range_search(vectors[:3], similarity=0.7)
    >>> [row.ids.tolist() for row in hits]
    [[0], [1], [2]]
    """

    def __init__(self, parts: IndexParts) -> None:
        self._parts = parts

    @classmethod
    def build(
        cls,
        vectors: ArrayLike,
        *,
        similarity: float = 0.7,
        miss_rate: float = 0.01,
        config: IndexConfig | None = None,
        machine: MachineCosts | None = None,
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
            ε in (0, 1), the share of matches that searches may miss.
        config : IndexConfig, optional
            Fixes parts of the design.
        machine : MachineCosts, optional
            What the steps of a search cost on the machine that will run it.
        progress : bool, optional
            Show bars; None shows them on a terminal.
        """
        where = "Index.build"
        similarity = checks.similarity(similarity, where)
        miss_rate = checks.miss_rate(miss_rate, where)
        rows = checks.unit_rows(vectors, "vectors", where, copy=False)
        if len(rows) > _MOST_VECTORS:
            expected = f"at most {_MOST_VECTORS} rows; split the data over several indexes"
            raise InvalidValueError(checks.message("vectors", where, expected, len(rows)))
        costs = MachineCosts() if machine is None else machine
        made = _checked_config(config, rows.shape[1], where)
        return cls(build_parts(rows, similarity, miss_rate, made, costs, progress))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to a folder, replacing an index that is there.

        A crash at any point leaves the old index or the new one.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Index.build([[1.0, 0.0], [0.0, 1.0]]).save(folder + "/two.mv")
        ...     Index.open(folder + "/two.mv").range_search([1.0, 0.2]).ids
        array([0])
        """
        save_parts(self._parts, path)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, verify: bool = False) -> Index:
        """Open a saved index, memory-mapped.

        Parameters
        ----------
        path : str or path
            The folder it was saved to.
        verify : bool, default False
            Read everything and compare checksums; without it only sizes and shapes are checked.
        """
        return cls(load_parts(path, verify=verify))

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
        return self.design.dim

    @property
    def unit_sizes(self) -> IntArray:
        """The number of vectors in each unit, the reserve left out, shape (n_units,)."""
        units = self._parts.cascade.units
        return np.diff(units.offsets)[: units.n_tested]

    @property
    def unit_vectors(self) -> Float32Array:
        """The memory vectors, shape (n_units, dim)."""
        return self._parts.cascade.units.unit_vectors

    @property
    def labels(self) -> IntArray:
        """The unit of each vector, shape (n_vectors,); -1 for those of the reserve."""
        units = self._parts.cascade.units
        labels = np.empty(len(self), dtype=np.int64)
        labels[units.keys] = units.unit_of(np.arange(len(self)))
        labels[labels >= units.n_tested] = -1
        return labels

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

    def range_search(
        self,
        queries: ArrayLike,
        similarity: float | None = None,
        *,
        miss_rate: float | None = None,
        guarantee: Guarantee = "expected",
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
            ε in (0, 1); that of the build by default.
        guarantee : {"expected", "model"}
            Take thresholds from the calibration, or from the paper's law of the score: that needs
            no data, and holds on data that is uniform.
        threshold : float, optional
            One raw threshold τ for the score of every unit, instead of the calibrated ones; −inf
            visits all of them. Members of the units that pass are scored exactly. With codes, the
            score is its estimate, in shares of what a match 1 would score.
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
        if threads is not None:
            threads = checks.integer(threads, "threads", where)
        rows = checks.unit_queries(queries, "queries", where, dim=self.dim)
        level = self._similarity(similarity, where)
        rate = self._miss_rate(miss_rate, where)
        checks.choice(guarantee, "guarantee", where, get_args(Guarantee))
        if threshold is None and units is None:
            calibration = self._parts.calibration
            by_model = guarantee == "model"
            solve = calibration.by_model if by_model else calibration.for_range
            slack = solve(level, rate)
            found = self._parts.cascade.search(rows, level, slack.stages, threads)
            return self._hits(found, slack.certificate)
        select, certificate = self._by_hand(threshold, units, where)
        return self._hits(self._search_selected(select, rows, level, threads), certificate)

    def count(
        self,
        queries: ArrayLike,
        similarity: float | None = None,
        *,
        miss_rate: float | None = None,
        threads: int | None = None,
    ) -> IntArray:
        """Count everything above a similarity, for each query.

        Parameters
        ----------
        queries, similarity, miss_rate, threads
            As in :meth:`range_search`.

        Examples
        --------
        >>> index = Index.build([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> index.count([[1.0, 0.1], [-1.0, 0.0]], similarity=0.8)
        array([2, 0])
        """
        return self.range_search(queries, similarity, miss_rate=miss_rate, threads=threads).counts

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

        Parameters
        ----------
        queries : array_like of shape (n_queries, dim) or (dim,)
            Rows are scaled to norm 1.
        k : int
            How many, at most the number of vectors.
        miss_rate : float, optional
            The share of the k nearest that may be missed on average.
        threshold, units, threads
            As in :meth:`range_search`.

        Examples
        --------
        >>> index = Index.build([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> index.search([0.0, 2.0], k=2).ids
        array([[2, 1]])
        """
        where = "Index.search"
        if threads is not None:
            threads = checks.integer(threads, "threads", where)
        rows = checks.unit_queries(queries, "queries", where, dim=self.dim)
        k = checks.integer(k, "k", where)
        if k > len(self):
            raise InvalidValueError(
                checks.message("k", where, f"at most the {len(self)} vectors of the index", k)
            )
        rate = self._miss_rate(miss_rate, where)
        if threshold is None and units is None:
            slack = self._parts.calibration.for_best(k, rate)
            found = search_best(self._parts, rows, k, slack.stages, threads)
            return self._top(found, k, slack.certificate)
        select, certificate = self._by_hand(threshold, units, where)
        found = self._search_selected(select, rows, ANYTHING, threads)
        return self._top(found, k, certificate)

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
        if verify:
            hits = self.range_search(
                queries,
                similarity,
                miss_rate=miss_rate,
                threshold=threshold,
                units=units,
                threads=threads,
            )
            return hits.counts > 0
        rows = checks.unit_queries(queries, "queries", where, dim=self.dim)
        level = self._similarity(similarity, where)
        if threshold is not None or units is not None:
            select, _ = self._by_hand(threshold, units, where)
            passed = np.array([len(select(query)) > 0 for query in rows], dtype=bool)
            nothing = np.empty(0, dtype=np.int64)
            in_reserve = self._search_selected(lambda query: nothing, rows, level, threads)
            return passed | (np.diff(in_reserve.offsets) > 0)
        slack = self._parts.calibration.for_range(level, self._miss_rate(miss_rate, where))
        found = self._parts.cascade.search(rows, level, slack.stages, threads)
        untested = len(self._parts.cascade.units.offsets) - 1 - len(self.unit_sizes)
        return np.asarray(found.counts[:, 1] > untested) | (np.diff(found.offsets) > 0)

    def _similarity(self, similarity: float | None, where: str) -> float:
        if similarity is None:
            return self.design.similarity
        return checks.similarity(similarity, where)

    def _miss_rate(self, miss_rate: float | None, where: str) -> float:
        return self.design.miss_rate if miss_rate is None else checks.miss_rate(miss_rate, where)

    def _by_hand(
        self, threshold: float | None, units: int | None, where: str
    ) -> tuple[Callable[[Float32Array], IntArray], Certificate]:
        """Return how units are selected by a raw threshold or by number, and what that promises."""
        scores = self._parts.cascade.unit_scores
        if units is not None and threshold is not None:
            raise InvalidValueError(
                checks.message("units", where, "left out where 'threshold' is given", units)
            )
        if units is not None:
            count = checks.integer(units, "units", where)
            everything = count >= len(self.unit_sizes)
            return lambda query: np.argsort(-scores(query), kind="stable")[:count], _visiting(
                everything
            )
        level = checks.real(threshold, "threshold", where)
        return lambda query: np.flatnonzero(scores(query) >= level), _visiting(level == -np.inf)

    def _search_selected(
        self,
        select: Callable[[Float32Array], IntArray],
        rows: Float32Array,
        similarity: float,
        threads: int | None,
    ) -> Found:
        """Score the members of selected units and of the reserve, without codes."""
        units = self._parts.cascade.units
        untested = np.arange(units.n_tested, len(units.offsets) - 1)
        answers: dict[int, tuple[IntArray, np.ndarray, list[int]]] = {}

        def answer(start: int, stop: int) -> None:
            for query in range(start, stop):
                chosen = np.concatenate([select(rows[query]), untested])
                n_members = int((units.offsets[chosen + 1] - units.offsets[chosen]).sum())
                ids, scores = np.empty(n_members, dtype=np.int64), np.empty(n_members)
                n = collect_matches(
                    rows[query],
                    units.vectors,
                    units.keys,
                    units.offsets,
                    chosen,
                    similarity,
                    ids,
                    scores,
                )
                spent = [units.n_tested, len(chosen), n_members, 0, n_members]
                answers[query] = ids[:n], scores[:n], spent

        run_blocks(answer, len(rows), _QUERY_BLOCK, threads=threads)
        ordered = [answers[query] for query in range(len(rows))]
        return Found(
            np.cumsum([0, *(len(ids) for ids, _, _ in ordered)]),
            np.concatenate([np.empty(0, dtype=np.int64), *(ids for ids, _, _ in ordered)]),
            np.concatenate([np.empty(0), *(scores for _, scores, _ in ordered)]),
            np.array([counts for _, _, counts in ordered]).reshape(-1, N_COUNTS),
        )

    def _hits(self, found: Found, certificate: Certificate) -> Hits:
        scores = found.scores.astype(np.float32)
        return Hits(found.offsets, found.ids, scores, certificate, self._spent(found))

    def _top(self, found: Found, k: int, certificate: Certificate) -> TopHits:
        n_queries = len(found.offsets) - 1
        ids = np.full((n_queries, k), -1, dtype=np.int64)
        scores = np.full((n_queries, k), -np.inf, dtype=np.float32)
        for query in range(n_queries):
            start = found.offsets[query]
            stop = min(start + k, found.offsets[query + 1])
            ids[query, : stop - start] = found.ids[start:stop]
            scores[query, : stop - start] = found.scores[start:stop]
        return TopHits(ids, scores, certificate, self._spent(found))

    def _spent(self, found: Found) -> Spent:
        return Spent(found.counts, self.design.n_vectors)


def _checked_config(config: IndexConfig | None, dim: int, where: str) -> IndexConfig:
    if config is None:
        return IndexConfig()
    if not isinstance(config, IndexConfig):
        raise InvalidTypeError(checks.message("config", where, "an IndexConfig", repr(config)))
    if config.pca_dim is not None and config.pca_dim > dim:
        expected = f"at most the dimension, {dim}"
        raise InvalidValueError(checks.message("pca_dim", "IndexConfig", expected, config.pca_dim))
    return config


def _visiting(everything: bool) -> Certificate:
    return Certificate("exact", 0.0) if everything else Certificate("none", None)


__all__ = ["Index"]
