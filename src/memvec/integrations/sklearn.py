"""Neighbours for scikit-learn: everything within a radius, and the k nearest.

Needs the extra ``memvec[sklearn]``. Graphs are sparse matrices in CSR form, each row sorted by
distance, as ``DBSCAN(metric="precomputed")``, ``SpectralClustering`` and ``TSNE`` take them.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
from scipy.sparse import csr_matrix

from memvec import checks
from memvec.errors import MissingExtraError
from memvec.guarantee import Certificate, Guarantee
from memvec.index import Index
from memvec.metric import Metric, checked_metric
from memvec.types import BoolArray, Float64Array, IntArray

try:
    from joblib import effective_n_jobs
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise MissingExtraError("memvec.integrations.sklearn", "scikit-learn", "sklearn") from None

Mode = Literal["distance", "connectivity"]

# An index of fewer rows has no calibration set, and comparing all of them takes no longer.
_CALIBRATED = 2000


class _Neighbours(NamedTuple):
    """Neighbours of each query in CSR form, the nearest first."""

    indptr: IntArray
    rows: IntArray
    distances: Float64Array

    @classmethod
    def sorted(
        cls, n_queries: int, queries: IntArray, rows: IntArray, distances: Float64Array
    ) -> _Neighbours:
        """Return pairs of a query and a row by query, distance and row."""
        order = np.lexsort((rows, distances, queries))
        counts = np.bincount(queries, minlength=n_queries)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        return cls(indptr, rows[order], distances[order])

    def graph(self, mode: Mode, n_rows: int, dtype: Any) -> csr_matrix:
        """Return them as a matrix of shape (n_queries, n_rows)."""
        data = self.distances if mode == "distance" else np.ones(len(self.rows))
        shape = len(self.indptr) - 1, n_rows
        return csr_matrix((data.astype(dtype), self.rows, self.indptr), shape=shape)


class _RangeNeighbors(BaseEstimator):
    """What both estimators share: an index of the rows that have a direction."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Index the rows of X.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            With ``metric="euclidean"``, rows of norm 1; others are refused. With
            ``metric="cosine"``, rows of zeros are kept out of the index, at distance 1 from
            everything.
        y : None
            Ignored.
        """
        rows = validate_data(self, X, dtype=[np.float64, np.float32])
        self.effective_metric_: Metric = checked_metric(self.metric, self._name)
        level = self._level(self.radius)
        self.n_samples_fit_, self._dtype = len(rows), rows.dtype
        directed = self._directed(rows)
        self._indexed_rows, self._zero_rows = np.flatnonzero(directed), np.flatnonzero(~directed)
        self.index_: Index | None = None
        if len(self._indexed_rows):
            self.index_ = Index.build(
                rows[directed] if len(self._zero_rows) else rows,
                metric=self.effective_metric_,
                miss_rate=self.miss_rate,
                guarantee=self._promised,
                progress=False,
                **level,
            )
        return self

    def radius_neighbors(
        self,
        X: Any = None,
        radius: float | None = None,
        return_distance: bool = True,
        sort_results: bool = False,
    ) -> Any:
        """Find everything within a radius of each row of X.

        Parameters
        ----------
        X : array_like of shape (n_queries, n_features), optional
            By default the fitted rows, each without itself.
        radius : float, optional
            That of the estimator by default.
        return_distance : bool, default True
            Return distances, too.
        sort_results : bool, default False
            Ignored: results are always sorted by distance.

        Returns
        -------
        neigh_dist, neigh_ind : ndarray of shape (n_queries,) of arrays
            `neigh_ind` alone with ``return_distance=False``.
        """
        found, _ = self._within(X, radius)
        cuts = found.indptr[1:-1]
        rows = _array_of_arrays(np.split(found.rows, cuts))
        if not return_distance:
            return rows
        return _array_of_arrays(np.split(found.distances, cuts)), rows

    def radius_neighbors_graph(
        self,
        X: Any = None,
        radius: float | None = None,
        mode: Mode = "connectivity",
        sort_results: bool = False,
    ) -> csr_matrix:
        """Return everything within a radius as a sparse matrix of shape (n_queries, n_samples_fit).

        Parameters
        ----------
        X, radius, sort_results
            As in :meth:`radius_neighbors`.
        mode : {"connectivity", "distance"}
            What entries are: ones, or distances.
        """
        checks.choice(mode, "mode", self._name, get_args(Mode))
        found, dtype = self._within(X, radius)
        return found.graph(mode, self.n_samples_fit_, dtype)

    def kneighbors(
        self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True
    ) -> Any:
        """Find the nearest fitted rows; ties are ordered by row.

        Parameters
        ----------
        X, return_distance
            As in :meth:`radius_neighbors`.
        n_neighbors : int, optional
            How many; that of the estimator by default.

        Returns
        -------
        neigh_dist, neigh_ind : ndarray of shape (n_queries, n_neighbors)
            `neigh_ind` alone with ``return_distance=False``.
        """
        distances, rows, dtype = self._nearest(X, n_neighbors)
        return (distances.astype(dtype), rows) if return_distance else rows

    def kneighbors_graph(
        self, X: Any = None, n_neighbors: int | None = None, mode: Mode = "connectivity"
    ) -> csr_matrix:
        """Return the nearest as a sparse matrix of shape (n_queries, n_samples_fit).

        Parameters
        ----------
        X, n_neighbors
            As in :meth:`kneighbors`.
        mode : {"connectivity", "distance"}
            What entries are: ones, or distances.
        """
        checks.choice(mode, "mode", self._name, get_args(Mode))
        distances, rows, dtype = self._nearest(X, n_neighbors)
        indptr = np.arange(0, rows.size + 1, rows.shape[1])
        found = _Neighbours(indptr, rows.ravel(), distances.ravel())
        return found.graph(mode, self.n_samples_fit_, dtype)

    def certificate(self, radius: float | None = None) -> Certificate | None:
        """Return the promise about missed neighbours; None if all rows are zero.

        Parameters
        ----------
        radius : float, optional
            That of the estimator by default.
        """
        check_is_fitted(self)
        if self.index_ is None:
            return None
        nothing = np.empty((0, self.n_features_in_))
        return self.index_.range_search(nothing, **self._range(radius)).certificate

    def _within(self, X: Any, radius: float | None) -> tuple[_Neighbours, Any]:
        """Return everything within a radius, and the type of distances."""
        check_is_fitted(self)
        if X is None:
            return self._joined(self._range(radius)), self._dtype
        queries, directed = self._queries(X)
        asked, own = np.flatnonzero(directed), np.empty(0, dtype=np.int64)
        if self.index_ is None or not len(asked):
            nothing = np.empty(0)
            return _Neighbours.sorted(len(queries), own, own, nothing), queries.dtype
        hits = self.index_.range_search(
            queries[directed], **self._range(radius), threads=self._threads
        )
        of_query = asked[np.repeat(np.arange(len(hits)), hits.counts)]
        rows, distances = self._indexed_rows[hits.ids], self._distances(hits.scores)
        return _Neighbours.sorted(len(queries), of_query, rows, distances), queries.dtype

    def _joined(self, level: dict[str, Any], *, with_self: bool = False) -> _Neighbours:
        """Return neighbours among the rows of the fit: each pair is found once and holds twice."""
        left, right, distances = self._pairs(level)
        own = self._indexed_rows if with_self else np.empty(0, dtype=np.int64)
        return _Neighbours.sorted(
            self.n_samples_fit_,
            np.concatenate([left, right, own]),
            np.concatenate([right, left, own]),
            np.concatenate([distances, distances, np.zeros(len(own))]),
        )

    def _pairs(self, level: dict[str, Any]) -> tuple[IntArray, IntArray, Float64Array]:
        if self.index_ is None:
            nothing = np.empty(0, dtype=np.int64)
            return nothing, nothing, np.empty(0)
        pairs = self.index_.self_join(**level, threads=self._threads, progress=False)
        rows = self._indexed_rows
        return rows[pairs.left], rows[pairs.right], self._distances(pairs.scores)

    def _nearest(self, X: Any, n_neighbors: int | None) -> tuple[Float64Array, IntArray, Any]:
        """Return distances and rows of the nearest, and the type of distances."""
        check_is_fitted(self)
        asked = self.n_neighbors if n_neighbors is None else n_neighbors
        k = checks.integer(asked, "n_neighbors", self._name)
        available = self.n_samples_fit_ - (X is None)
        if k > available:
            expected = f"at most the {available} rows that can be neighbours"
            raise checks.bad_value("n_neighbors", self._name, expected, k)
        if X is not None:
            queries, directed = self._queries(X)
            distances, rows = self._merged(queries, directed, k)
            return distances, rows, queries.dtype
        directed = np.zeros(self.n_samples_fit_, dtype=bool)
        directed[self._indexed_rows] = True
        distances, rows = self._merged(None, directed, k + 1)
        return *_without_self(distances, rows), self._dtype

    def _merged(self, queries: Any, directed: BoolArray, k: int) -> tuple[Float64Array, IntArray]:
        """Return the k nearest of rows of the index, and of rows of zeros at distance 1.

        Without queries, those are the rows of the index.
        """
        shape = len(directed), k
        distances, rows = np.ones(shape), np.tile(np.arange(k), (shape[0], 1))
        if self.index_ is None or not directed.any():
            return distances, rows
        asked = self.index_.vectors() if queries is None else queries[directed]
        top = self.index_.search(asked, min(k, len(self.index_)), threads=self._threads)
        zeros = np.broadcast_to(self._zero_rows[:k], (len(top), len(self._zero_rows[:k])))
        every = np.hstack([self._distances(top.scores), np.ones(zeros.shape)])
        named = np.hstack([self._indexed_rows[top.ids], zeros])
        best = np.lexsort((named, every))[:, :k]
        distances[directed] = np.take_along_axis(every, best, axis=1)
        rows[directed] = np.take_along_axis(named, best, axis=1)
        return distances, rows

    def _queries(self, X: Any) -> tuple[Any, BoolArray]:
        queries = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        return queries, self._directed(queries)

    def _directed(self, rows: Any) -> BoolArray:
        """Tell which rows have a direction; of norm 1, all must have one."""
        if self.effective_metric_ == "euclidean":
            return np.ones(len(rows), dtype=bool)
        return np.asarray(rows.any(axis=1))

    def _distances(self, scores: Any) -> Float64Array:
        wide: Float64Array = scores.astype(np.float64)
        return wide if self.effective_metric_ == "euclidean" else np.maximum(1 - wide, 0.0)

    def _range(self, radius: float | None) -> dict[str, Any]:
        return self._level(self.radius if radius is None else radius)

    def _level(self, radius: object) -> dict[str, Any]:
        """Return a radius as the index takes it."""
        if self.effective_metric_ == "euclidean":
            return {"radius": self._within_bounds(radius, math.sqrt(2))}
        # From 1 on, cosines are 0 or negative: half of everything would be a neighbour.
        return {"similarity": 1 - self._within_bounds(radius, 1.0)}

    def _within_bounds(self, radius: object, high: float) -> float:
        return checks.real(radius, "radius", self._name, low=0.0, high=high, high_open=True)

    @property
    def _promised(self) -> Guarantee:
        few = len(self._indexed_rows) < _CALIBRATED
        return "exact" if few and self.guarantee == "expected" else self.guarantee

    @property
    def _threads(self) -> int | None:
        return None if self.n_jobs is None else int(effective_n_jobs(self.n_jobs))

    @property
    def _name(self) -> str:
        return type(self).__name__


class NearestNeighbors(_RangeNeighbors):
    """The neighbours that ``sklearn.neighbors.NearestNeighbors`` finds, found by an index.

    Parameters
    ----------
    n_neighbors : int, default 5
        How many neighbours :meth:`kneighbors` finds.
    radius : float, default 0.3
        The largest distance of a neighbour: 1 − cosine in [0, 1), or Euclidean in [0, √2). The
        index is designed for it, but calls may ask for others.
    metric : {"cosine", "euclidean"}
        Euclidean distances are for rows of norm 1.
    miss_rate : float, default 0.01
        The share of a row's neighbours that may be missed on average.
    guarantee : {"expected", "model", "high_probability", "exact"}
        Level of the promise; "exact" misses nothing. Fewer than 2,000 rows are searched exactly.
    n_jobs : int, optional
        How many threads share the queries, as joblib counts them; None leaves it to the machine.

    Attributes
    ----------
    index_ : Index or None
        The index that is searched; None if all rows are zero.
    n_samples_fit_ : int
        Rows of the fit.
    effective_metric_ : str

    Examples
    --------
    >>> from memvec.integrations.sklearn import NearestNeighbors
    >>> found = NearestNeighbors(radius=0.3).fit([[1, 0], [4, 3], [0, 1]])
    >>> found.radius_neighbors([[1, 0.1]], return_distance=False)[0]
    array([0, 1])
    """

    def __init__(
        self,
        *,
        n_neighbors: int = 5,
        radius: float = 0.3,
        metric: Metric = "cosine",
        miss_rate: float = 0.01,
        guarantee: Guarantee = "expected",
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.radius = radius
        self.metric = metric
        self.miss_rate = miss_rate
        self.guarantee = guarantee
        self.n_jobs = n_jobs


class RangeNeighborsTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, _RangeNeighbors):
    """Transform rows into a sparse graph: their distances to all fitted rows within a radius.

    For pipelines that continue with ``DBSCAN(metric="precomputed")`` and the like. A fitted row is
    a neighbour of itself, as in ``sklearn.neighbors.RadiusNeighborsTransformer``.

    Parameters
    ----------
    mode : {"distance", "connectivity"}
        What entries are: distances, or ones.
    radius, metric, miss_rate, guarantee, n_jobs
        As in :class:`NearestNeighbors`.
    n_neighbors : int, default 5
        How many neighbours :meth:`kneighbors` finds.

    Examples
    --------
    >>> from sklearn.cluster import DBSCAN
    >>> from sklearn.pipeline import make_pipeline
    >>> from memvec.integrations.sklearn import RangeNeighborsTransformer
    >>> graph = RangeNeighborsTransformer(radius=0.1)
    >>> clusters = make_pipeline(graph, DBSCAN(eps=0.1, min_samples=2, metric="precomputed"))
    >>> clusters.fit_predict([[1, 0], [5, 1], [0, 1]])
    array([ 0,  0, -1])
    """

    def __init__(
        self,
        *,
        mode: Mode = "distance",
        radius: float = 0.3,
        metric: Metric = "cosine",
        miss_rate: float = 0.01,
        guarantee: Guarantee = "expected",
        n_neighbors: int = 5,
        n_jobs: int | None = None,
    ) -> None:
        self.mode = mode
        self.radius = radius
        self.metric = metric
        self.miss_rate = miss_rate
        self.guarantee = guarantee
        self.n_neighbors = n_neighbors
        self.n_jobs = n_jobs

    def transform(self, X: Any) -> csr_matrix:
        """Return distances to the fitted rows within the radius.

        Parameters
        ----------
        X : array_like of shape (n_queries, n_features)

        Returns
        -------
        csr_matrix of shape (n_queries, n_samples_fit)
            Each row sorted by distance.
        """
        check_is_fitted(self)
        return self.radius_neighbors_graph(X, mode=self.mode)

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> csr_matrix:
        """Fit, and return the graph of the rows; each pair is searched for once.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
        y : None
            Ignored.
        **params
            None are taken.
        """
        checks.choice(self.mode, "mode", self._name, get_args(Mode))
        self.fit(X, y, **params)
        found = self._joined(self._range(None), with_self=True)
        return found.graph(self.mode, self.n_samples_fit_, self._dtype)

    @property
    def _n_features_out(self) -> int:
        return self.n_samples_fit_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _array_of_arrays(parts: list[Any]) -> Any:
    """Return an array of objects, even where all parts are of one length."""
    every = np.empty(len(parts), dtype=object)
    every[:] = parts
    return every


def _without_self(distances: Float64Array, rows: IntArray) -> tuple[Float64Array, IntArray]:
    """Return neighbours without the row itself; where copies are in its place, without the last."""
    others = rows != np.arange(len(rows))[:, np.newaxis]
    others[others.all(axis=1), -1] = False
    shape = len(rows), rows.shape[1] - 1
    return distances[others].reshape(shape), rows[others].reshape(shape)


__all__ = ["NearestNeighbors", "RangeNeighborsTransformer"]
