"""The index: built once, searched from any number of threads."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import get_args

import numpy as np

from memvec import checks
from memvec.errors import InvalidTypeError, InvalidValueError
from memvec.index._build import BuildPromise, build_parts, check_no_segment, load_parts, save_parts
from memvec.index._by_hand import promise_of, search_selected, selection
from memvec.index._config import IndexConfig
from memvec.index._costs import MachineCosts
from memvec.index._found import ANYTHING
from memvec.index._inspect import InspectedIndex, share_of_queries
from memvec.index._promises import Guarantee
from memvec.index._results import Hits, TopHits
from memvec.index._units import MOST_VECTORS
from memvec.types import ArrayLike, BoolArray, Float32Array, IntArray


class Index(InspectedIndex):
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

    @classmethod
    def build(
        cls,
        vectors: ArrayLike,
        *,
        similarity: float = 0.7,
        miss_rate: float = 0.01,
        guarantee: Guarantee = "expected",
        confidence: float = 0.95,
        similarities: Sequence[float] | None = None,
        queries: ArrayLike | None = None,
        held_out: ArrayLike | None = None,
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
        guarantee : {"expected", "model", "high_probability", "exact"}
            How that is promised, unless a search names another level. Where there is too little
            evidence, searches fall back to a lower level, which their certificate names.
        confidence : float, default 0.95
            1 − δ in (0, 1), for "high_probability".
        similarities : sequence of float, optional
            Those that "high_probability" may be asked for, all promised at once; `similarity` by
            default. Each one makes the promise a little dearer.
        queries : array_like of shape (n_queries, dim), optional
            Queries to calibrate on, like those to come. Without them, vectors are kept out of the
            units for it (the reserve). Copies of stored vectors among them are left out.
        held_out : array_like of int, optional
            The reserve: rows of `vectors` to keep out of the units and to calibrate on, in place
            of `queries`. By default it is drawn at random, as large as `config` says.
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
        checks.choice(guarantee, "guarantee", where, get_args(Guarantee))
        confidence = checks.miss_rate(confidence, where, "confidence")
        listed = _checked_similarities(similarities, similarity, where)
        rows = checks.unit_rows(vectors, "vectors", where, copy=False)
        if len(rows) > MOST_VECTORS:
            expected = f"at most {MOST_VECTORS} rows; split the data over several indexes"
            raise InvalidValueError(checks.message("vectors", where, expected, len(rows)))
        dim = rows.shape[1]
        asked = None
        if queries is not None:
            asked = checks.unit_queries(queries, "queries", where, dim=dim)
        reserve = None if held_out is None else _checked_rows(held_out, asked, len(rows), where)
        costs = MachineCosts() if machine is None else machine
        made = _checked_config(config, dim, where)
        promise = BuildPromise(similarity, miss_rate, guarantee, confidence, listed)
        return cls(build_parts(rows, promise, asked, reserve, made, costs, progress))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to a folder, replacing an index that is there.

        A crash at any point leaves the old index or the new one, and so does a disk that is full or
        refuses (StorageError). `path` may be a link to the folder of an index; a link inside the
        folder is refused, so that nothing outside it can be changed.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Index.build([[1.0, 0.0], [0.0, 1.0]]).save(folder + "/two.mv")
        ...     Index.open(folder + "/two.mv").range_search([1.0, 0.2]).ids
        array([0])
        """
        check_no_segment(path, "Index.save")
        save_parts(self._parts, path)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, verify: bool = False) -> Index:
        """Open a saved index, memory-mapped.

        Whatever the folder holds, this is an index that can be searched, or an error: all settings,
        shapes and places in other arrays are checked, and the checksums of everything but vectors,
        memory vectors and codes.

        Parameters
        ----------
        path : str or path
            The folder it was saved to, or a link to it.
        verify : bool, default False
            Also read vectors, memory vectors and codes, and compare their checksums. A bit that
            flipped in them can change what is found.
        """
        return cls(load_parts(path, verify=verify))

    def range_search(
        self,
        queries: ArrayLike,
        similarity: float | None = None,
        *,
        miss_rate: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
        threshold: float | None = None,
        units: int | None = None,
        shadow: float | None = None,
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
        guarantee : {"expected", "model", "high_probability", "exact"}, optional
            What the promise rests on; that of the build by default. A level that is named here is
            refused where there is too little evidence for it.
        confidence : float, optional
            1 − δ in (0, 1), for "high_probability".
        threshold : float, optional
            One raw threshold τ for the score of every unit, instead of the calibrated ones; −inf
            visits all of them. Members of the units that pass are scored exactly, guests are not.
            With codes, the score is its estimate, in shares of what a match 1 would score.
        units : int, optional
            Visit this many units, those of highest score, instead of testing them.
        shadow : float, optional
            Compare this share of the queries with the exhaustive search and keep the tally in
            `health`; `Index.shadow` by default.
        threads : int, optional
            How many threads share the queries; the answer does not depend on it.

        Examples
        --------
        >>> index = Index.build([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> index.range_search([1.0, 0.1], similarity=0.8)[0].ids.tolist()
        [0, 1]
        """
        where = "Index.range_search"
        rows, threads = self._asked(queries, threads, where)
        level = self._similarity(similarity, where)
        request = self._parts.promises.default.replaced(miss_rate, guarantee, confidence, where)
        if threshold is not None or units is not None:
            select, everything = selection(self._parts.cascade, threshold, units, where)
            found = search_selected(self._parts.cascade, select, rows, level, threads)
            return self._searcher.hits(found, promise_of(everything, level))
        share = self._shadow if shadow is None else share_of_queries(shadow, where)
        return self._searcher.range(rows, level, request, threads, where, shadow=share)

    def count(
        self,
        queries: ArrayLike,
        similarity: float | None = None,
        *,
        miss_rate: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
        threads: int | None = None,
    ) -> IntArray:
        """Count everything above a similarity, for each query.

        Parameters
        ----------
        queries, similarity, miss_rate, guarantee, confidence, threads
            As in :meth:`range_search`.

        Examples
        --------
        >>> index = Index.build([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> index.count([[1.0, 0.1], [-1.0, 0.0]], similarity=0.8)
        array([2, 0])
        """
        return self.range_search(
            queries,
            similarity,
            miss_rate=miss_rate,
            guarantee=guarantee,
            confidence=confidence,
            threads=threads,
        ).counts

    def search(
        self,
        queries: ArrayLike,
        k: int,
        *,
        miss_rate: float | None = None,
        target_recall: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
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
        target_recall : float, optional
            1 − miss_rate, for those who are used to it.
        guarantee, confidence, threshold, units, threads
            As in :meth:`range_search`.

        Examples
        --------
        >>> index = Index.build([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> index.search([0.0, 2.0], k=2).ids
        array([[2, 1]])
        """
        where = "Index.search"
        rows, threads = self._asked(queries, threads, where)
        k = checks.integer(k, "k", where)
        if k > len(self):
            raise InvalidValueError(
                checks.message("k", where, f"at most the {len(self)} vectors of the index", k)
            )
        rate = _rate_of_recall(miss_rate, target_recall, where)
        request = self._parts.promises.default.replaced(rate, guarantee, confidence, where)
        if threshold is not None or units is not None:
            select, everything = selection(self._parts.cascade, threshold, units, where)
            found = search_selected(self._parts.cascade, select, rows, ANYTHING, threads)
            return self._searcher.top(found, k, promise_of(everything, None))
        return self._searcher.best(rows, k, request, threads, where)

    def contains(
        self,
        queries: ArrayLike,
        similarity: float | None = None,
        *,
        miss_rate: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
        threshold: float | None = None,
        units: int | None = None,
        verify: bool = True,
        threads: int | None = None,
    ) -> BoolArray:
        """Tell for each query whether some vector is that similar: the paper's membership test.

        Parameters
        ----------
        queries, similarity, miss_rate, guarantee, confidence, threshold, units, threads
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
        if verify or guarantee == "exact":
            hits = self.range_search(
                queries,
                similarity,
                miss_rate=miss_rate,
                guarantee=guarantee,
                confidence=confidence,
                threshold=threshold,
                units=units,
                threads=threads,
            )
            return hits.counts > 0
        where = "Index.contains"
        rows, threads = self._asked(queries, threads, where)
        level = self._similarity(similarity, where)
        cascade = self._parts.cascade
        if threshold is not None or units is not None:
            select, _ = selection(cascade, threshold, units, where)
            return self._searcher.some_unit(select, rows, level, threads)
        request = self._parts.promises.default.replaced(miss_rate, guarantee, confidence, where)
        slack = self._parts.promises.for_range(level, request, where)
        found = cascade.search(rows, level, slack.lines, threads)
        untested = len(cascade.units.offsets) - 1 - cascade.units.n_tested
        return np.asarray(found.counts[:, 1] > untested) | (np.diff(found.offsets) > 0)

    def _asked(
        self, queries: ArrayLike, threads: int | None, where: str
    ) -> tuple[Float32Array, int | None]:
        if threads is not None:
            threads = checks.integer(threads, "threads", where)
        return checks.unit_queries(queries, "queries", where, dim=self._dim), threads


def _rate_of_recall(
    miss_rate: float | None, target_recall: float | None, where: str
) -> float | None:
    if target_recall is None:
        return miss_rate
    if miss_rate is not None:
        expected = "left out where 'miss_rate' is given"
        raise InvalidValueError(checks.message("target_recall", where, expected, target_recall))
    return 1 - checks.miss_rate(target_recall, where, "target_recall")


def _checked_rows(
    held_out: ArrayLike, queries: Float32Array | None, n_rows: int, where: str
) -> IntArray:
    """Return the rows that are kept out of the units, as they were given."""
    if queries is not None:
        expected = "left out where 'queries' is given"
        raise InvalidValueError(checks.message("held_out", where, expected, "both"))
    rows = np.asarray(held_out)
    if rows.size == 0:
        return np.empty(0, dtype=np.int64)
    expected = f"distinct rows of the {n_rows} vectors, and not all of them"
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        got = f"an array of {rows.dtype} and shape {rows.shape}"
        raise InvalidTypeError(checks.message("held_out", where, expected, got))
    if rows.min() < 0 or rows.max() >= n_rows:
        got = f"a row {rows.min() if rows.min() < 0 else rows.max()}"
        raise InvalidValueError(checks.message("held_out", where, expected, got))
    if len(np.unique(rows)) < len(rows) or len(rows) >= n_rows:
        got = f"{len(rows)} rows, {len(np.unique(rows))} of them distinct"
        raise InvalidValueError(checks.message("held_out", where, expected, got))
    return rows.astype(np.int64)


def _checked_config(config: IndexConfig | None, dim: int, where: str) -> IndexConfig:
    if config is None:
        return IndexConfig()
    if not isinstance(config, IndexConfig):
        raise InvalidTypeError(checks.message("config", where, "an IndexConfig", repr(config)))
    if config.pca_dim is not None and config.pca_dim > dim:
        expected = f"at most the dimension, {dim}"
        raise InvalidValueError(checks.message("pca_dim", "IndexConfig", expected, config.pca_dim))
    return config


def _checked_similarities(
    values: Sequence[float] | None, similarity: float, where: str
) -> tuple[float, ...]:
    if values is None:
        return (similarity,)
    if isinstance(values, int | float | np.number):
        values = [float(values)]
    listed = tuple(sorted({checks.similarity(value, where, "similarities") for value in values}))
    if not listed:
        expected = "at least one similarity, or left out"
        raise InvalidValueError(checks.message("similarities", where, expected, "none"))
    return listed


__all__ = ["Index"]
