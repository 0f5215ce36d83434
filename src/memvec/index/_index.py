"""The index: built once, searched from any number of threads."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np

from memvec import checks
from memvec.display import html_table, html_text
from memvec.errors import InvalidValueError
from memvec.guarantee import (
    CalibrationTable,
    Certificate,
    Draw,
    Evidence,
    Guarantee,
    Health,
    Measurement,
    Monitor,
    build_table,
)
from memvec.index._arguments import (
    check_number,
    checked_config,
    checked_ids,
    checked_rows,
    checked_similarities,
    config_of_device,
)
from memvec.index._build import BuildPromise, build_parts
from memvec.index._config import IndexConfig
from memvec.index._costs import MachineCosts, shadow_share
from memvec.index._design import IndexDesign
from memvec.index._faiss import vectors_of_faiss
from memvec.index._files import check_no_segment, load_parts, save_parts, solve_ahead
from memvec.index._joins import (
    KeptRow,
    all_pairs,
    duplicate_rows,
    ordered_blocks,
    pairs_of_matches,
    ranks_to_keep,
)
from memvec.index._parts import IndexParts
from memvec.index._pickling import by_value, is_index, of_value, opened_again, state_of
from memvec.index._plot import draw_index
from memvec.index._recalibrate import recalibrated, share_of_queries
from memvec.kernels import ROW_TYPES, StoredRows, rounded_rows
from memvec.matches import Matches
from memvec.metric import Metric, checked_level, checked_metric, limit_text, scores_of
from memvec.progress import heeds_progress
from memvec.search import (
    ANYTHING,
    DuplicateRows,
    Explanation,
    Grouping,
    Hits,
    PreparedRanges,
    SelfJoin,
    SimilarPairs,
    Source,
    TopHits,
    UnitSource,
    built_on,
    check_device,
    explain,
    find_nearest,
    find_range,
    measure,
    observe_nearest,
    observe_range,
    promise_of_selection,
    rate_of_recall,
    sampled,
    search_selected,
    selection,
    some_unit_selected,
    source_on,
    taker_of,
)
from memvec.storage import CheckReport, FileSum, Kind, MappedFolder, check_free, check_saved
from memvec.types import ArrayLike, BoolArray, Float32Array, IntArray, RowType


class _Live(NamedTuple):
    """What searches use and what they leave behind; a new calibration replaces all."""

    parts: IndexParts
    monitor: Monitor
    prepared: PreparedRanges

    @classmethod
    def of(cls, parts: IndexParts, monitor: Monitor) -> _Live:
        """Return them before the first search."""
        return cls(parts, monitor, PreparedRanges(parts.design.dim))


class Index:
    """An immutable index of vectors, made by :meth:`Index.build` or :meth:`Index.open`.

    A query is tested against the memory vector of each unit, by its code or in float32. Members of
    the units that pass are tested in turn; survivors are scored exactly. The similarity is the
    cosine.

    Examples
    --------
    >>> import memvec, numpy as np
    >>> vectors = np.random.default_rng(0).standard_normal((1000, 64))
    >>> index = memvec.Index.build(vectors, similarity=0.7, miss_rate=0.01)
    >>> hits = index.range_search(vectors[:3], similarity=0.7)
    >>> [row.ids.tolist() for row in hits]
    [[0], [1], [2]]
    """

    def __init__(self, parts: IndexParts, path: Path | None = None) -> None:
        made = parts.design
        # All lie here alone, so that one assignment replaces what searches use.
        self._live = _Live.of(parts, Monitor(made.config.seed))
        self._path = path
        # What the folder holds; a new calibration is in memory alone.
        self._saved = None if path is None else parts
        self._shadow = shadow_share(made.expected_microseconds, made.n_vectors, made.dim)
        self._dim = made.dim

    @property
    def _parts(self) -> IndexParts:
        return self._live.parts

    @classmethod
    @heeds_progress
    def build(
        cls,
        vectors: ArrayLike | StoredRows,
        *,
        similarity: float | None = None,
        radius: float | None = None,
        metric: Metric = "cosine",
        dtype: RowType = "float32",
        miss_rate: float = 0.01,
        guarantee: Guarantee = "expected",
        confidence: float = 0.95,
        similarities: Sequence[float] | None = None,
        queries: ArrayLike | None = None,
        held_out: ArrayLike | None = None,
        config: IndexConfig | None = None,
        machine: MachineCosts | None = None,
        device: str = "cpu",
        progress: bool | None = None,
    ) -> Index:
        """Build an index.

        Parameters
        ----------
        vectors : array_like of shape (n_vectors, dim)
            float16, float32 or float64; rows are scaled to norm 1. Zero, NaN and infinite rows are
            refused.
        similarity : float, optional
            α₀ in (0, 1], the cosine the index is designed for; 0.7 by default. Searches may ask for
            others.
        radius : float, optional
            r in [0, √2), in place of `similarity` if the metric is "euclidean": r² = 2 − 2α₀.
        metric : {"cosine", "euclidean"}
            What scores are. With "euclidean", scores are distances, the nearest come first, and
            rows must have norm 1.
        dtype : {"float32", "float16", "int8"}
            Type that rows are stored in. Scores are those of the stored rows, and of queries
            rounded in the same way; docs/settings.md lists the rounding errors.
        miss_rate : float, default 0.01
            ε in (0, 1), the share of matches that searches may miss.
        guarantee : {"expected", "model", "high_probability", "exact"}
            Level of the promise, unless a search names another. If there is too little evidence,
            searches fall back to a lower level, which their certificate names.
        confidence : float, default 0.95
            1 − δ in (0, 1), for "high_probability".
        similarities : sequence of float, optional
            Similarities at which "high_probability" may be asked for, all promised at once;
            `similarity` by default. Each one makes searches a little slower.
        queries : array_like of shape (n_queries, dim), optional
            Queries to calibrate on, like those you will ask. Copies of stored vectors among them
            are left out. Without queries, some vectors are held out of the units for calibration:
            the reserve.
        held_out : array_like of int, optional
            Rows of `vectors` to hold out as the reserve, in place of `queries`. By default, the
            reserve is drawn at random, and `config` sets its size.
        config : IndexConfig, optional
            Settings that replace those of the design step.
        machine : MachineCosts, optional
            Costs of the steps of a search on the machine that will run it.
        device : str
            Where the index is built and searched: "cpu", "cuda", or "cuda:1" and so on. A GPU uses
            balanced codes and tests them whole. It builds random units (the default), and k-means
            units of many vectors, block by block; `vectors` may be in its memory. docs/gpu.md lists
            what is built on the CPU and then moved.
        progress : bool, optional
            Show bars; None shows them on a terminal.
        """
        where = "Index.build"
        device = check_device(device, where)
        metric = checked_metric(metric, where)
        similarity = checked_level(metric, similarity, radius, 0.7, where)
        miss_rate = checks.miss_rate(miss_rate, where)
        checks.choice(guarantee, "guarantee", where, get_args(Guarantee))
        confidence = checks.miss_rate(confidence, where, "confidence")
        listed = checked_similarities(similarities, similarity, where)
        scale = metric == "cosine"
        checks.choice(dtype, "dtype", where, ROW_TYPES)
        promise = BuildPromise(similarity, miss_rate, guarantee, confidence, listed, metric)
        if device != "cpu":
            given = dtype, promise, queries, held_out, config, progress
            parts, vectors = built_on(device, vectors, *given)
            if parts is not None:
                return cls(parts)
        rows = StoredRows.checked(vectors, "vectors", where, dtype, scale=scale)
        check_number(len(rows), where)
        dim = rows.shape[1]
        asked = None
        if queries is not None:
            asked = checks.unit_queries(queries, "queries", where, dim=dim, scale=scale)
        reserve = None if held_out is None else checked_rows(held_out, asked, len(rows), where)
        costs = MachineCosts() if machine is None else machine
        made = checked_config(config, dim, where)
        if device != "cpu":
            made = config_of_device(made, dim, where)
        index = cls(build_parts(rows, promise, asked, reserve, made, costs, progress))
        return index if device == "cpu" else index.to(device)

    @classmethod
    def from_faiss(cls, index: Any, **settings: Any) -> Index:
        """Build an index of the vectors of a flat or IVF index of FAISS.

        Ids are those of FAISS. Scores of an inner-product index are cosines. Scores of an L2 index
        are Euclidean distances; FAISS returns their squares, as :meth:`Hits.as_faiss` does. Vectors
        must have norm 1.

        Parameters
        ----------
        index : faiss.IndexFlat or faiss.IndexIVFFlat
            An index of inner products or L2 distances, filled by `add`.
        **settings
            Parameters of :meth:`build`, except `vectors` and `metric`.
        """
        rows, metric = vectors_of_faiss(index, "Index.from_faiss")
        return cls.build(rows, metric=metric, **settings)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to a folder, replacing an index that is there.

        A crash at any point leaves the old index or the new one. So does a full or failing disk,
        which raises StorageError. `path` may be a link to the folder of an index; a link inside the
        folder is refused, so that nothing outside it can be changed.

        Thresholds are solved and saved for the similarity of the build and the multiples of 0.05
        above it. Those of other similarities are solved when they are first asked for, and kept in
        the folder if it is writable.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Index.build([[1.0, 0.0], [0.0, 1.0]]).save(folder + "/two.index")
        ...     Index.open(folder + "/two.index").range_search([1.0, 0.2]).ids
        array([0])
        """
        solve_ahead(self._parts, path, save_index(self, path))

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, verify: bool = False, device: str = "cpu"
    ) -> Index:
        """Open a saved index, memory-mapped.

        All settings, shapes and references between arrays are checked, and the checksums of
        everything but vectors, memory vectors and codes. A damaged folder therefore raises an
        error, or gives an index that can be searched.

        Parameters
        ----------
        path : str or path
            The folder that the index was saved to, or a link to it.
        verify : bool, default False
            Also read vectors, memory vectors and codes, and compare their checksums. A bit that
            flipped in them can change what is found.
        device : str
            Device that searches run on, as in :meth:`to`.
        """
        device = check_device(device, "Index.open")
        index = cls(load_parts(path, verify=verify)[0], Path(path).absolute())
        return index if device == "cpu" else index.to(device)

    def range_search(
        self,
        queries: ArrayLike,
        similarity: float | None = None,
        *,
        radius: float | None = None,
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
            α₀ in (0, 1]; that of the build by default. At 1, exact copies are found.
        radius : float, optional
            r in [0, √2), in place of `similarity` where the metric is "euclidean".
        miss_rate : float, optional
            ε in (0, 1); that of the build by default.
        guarantee : {"expected", "model", "high_probability", "exact"}, optional
            Level of the promise; that of the build by default. A level named here is refused if
            there is too little evidence for it.
        confidence : float, optional
            1 − δ in (0, 1), for "high_probability".
        threshold : float, optional
            One threshold τ for the score of every unit, in place of the calibrated ones; −inf
            visits all units. Members of the units that pass are scored exactly; a vector that
            belongs to two units is found through the nearer one. With codes, τ is compared with the
            estimated score, on a scale where a match of cosine 1 scores 1.
        units : int, optional
            Number of units to visit, those of highest score, in place of a threshold.
        shadow : float, optional
            Share of the queries to compare with an exhaustive search, for the counts in `health`;
            `Index.shadow` by default.
        threads : int, optional
            Number of threads; the answer does not depend on it.

        Examples
        --------
        >>> index = Index.build([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> index.range_search([1.0, 0.1], similarity=0.8)[0].ids.tolist()
        [0, 1]
        """
        where = "Index.range_search"
        live, question = self._live, (similarity, radius, miss_rate, guarantee, confidence)
        known = threads is None or (type(threads) is int and threads > 0)
        if known and threshold is None and units is None and shadow is None:
            hits = live.prepared.hits(queries, question, self._shadow)
            if hits is not None:
                return hits
        parts, monitor, prepared = live
        rows, threads = self._rows(queries, where, batch=True), checks.threads(threads, where)
        level = self._level(similarity, radius, where)
        request = parts.promises.default.replaced(miss_rate, guarantee, confidence, where)
        if threshold is not None or units is not None:
            cascade = parts.units.cascade
            select, everything = selection(cascade, threshold, units, where)
            found = search_selected(cascade, select, rows[:], level, threads)
            return _hits(found, promise_of_selection(everything, level), parts)
        share = self._shadow if shadow is None else share_of_queries(shadow, where)
        plan = parts.promises.for_range(level, request, where)
        if parts.moved is None:
            cascade = parts.units.cascade
            prepared.keep(question, parts, cascade, monitor, level, plan, request)
        found = find_range(parts, rows, level, plan, threads)
        certificate = observe_range(parts, monitor, rows, found, plan, request, share)
        return _hits(found, certificate, parts)

    def count(
        self,
        queries: ArrayLike,
        similarity: float | None = None,
        *,
        radius: float | None = None,
        miss_rate: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
        threshold: float | None = None,
        units: int | None = None,
        threads: int | None = None,
    ) -> IntArray:
        """Count everything above a similarity, for each query.

        Parameters
        ----------
        queries, similarity, radius, miss_rate, guarantee, confidence, threshold, units, threads
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
            radius=radius,
            miss_rate=miss_rate,
            guarantee=guarantee,
            confidence=confidence,
            threshold=threshold,
            units=units,
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
            Number of vectors. If the index has fewer, each row holds all of them.
        miss_rate : float, optional
            The share of the k nearest that may be missed on average.
        target_recall : float, optional
            1 − miss_rate, in place of `miss_rate`.
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
        k = min(checks.integer(k, "k", where), len(self))
        rate = rate_of_recall(miss_rate, target_recall, where)
        parts, monitor, _ = self._live
        request = parts.promises.default.replaced(rate, guarantee, confidence, where)
        if threshold is not None or units is not None:
            cascade = parts.units.cascade
            select, everything = selection(cascade, threshold, units, where)
            found = search_selected(cascade, select, rows, ANYTHING, threads)
            return TopHits.of(_hits(found, promise_of_selection(everything, None), parts), k)
        plan = parts.nearest_plan(k, request, where)
        found = find_nearest(parts, rows, k, plan, threads)
        certificate = observe_nearest(monitor, rows, found, plan.certificate)
        return TopHits.of(_hits(found, certificate, parts), k)

    def contains(
        self,
        queries: ArrayLike,
        similarity: float | None = None,
        *,
        radius: float | None = None,
        miss_rate: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
        threshold: float | None = None,
        units: int | None = None,
        verify: bool = True,
        threads: int | None = None,
    ) -> BoolArray:
        """Return for each query whether any vector is above a similarity: the membership test.

        Parameters
        ----------
        queries, similarity, radius, miss_rate, guarantee, confidence, threshold, units, threads
            As in :meth:`range_search`.
        verify : bool, default True
            Score the members of the units that pass; False gives the bare unit test of the paper,
            which accepts unrelated queries at its false positive rate.

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
                radius=radius,
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
        level = self._level(similarity, radius, where)
        parts, cascade = self._parts, self._parts.units.cascade
        if threshold is not None or units is not None:
            select, _ = selection(cascade, threshold, units, where)
            return some_unit_selected(cascade, select, rows, level, threads)
        request = parts.promises.default.replaced(miss_rate, guarantee, confidence, where)
        plan = parts.range_plan(level, request, where)
        found = find_range(parts, rows, level, plan, threads)
        untested = len(cascade.units.offsets) - 1 - cascade.units.n_tested
        return np.asarray(found.spent[:, 1] > untested) | (found.counts > 0)

    @heeds_progress
    def self_join(
        self,
        similarity: float | None = None,
        *,
        radius: float | None = None,
        miss_rate: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
        threads: int | None = None,
        progress: bool | None = None,
    ) -> SimilarPairs:
        """Find all pairs of vectors of the index above a similarity.

        Parameters
        ----------
        similarity, radius, miss_rate, guarantee, confidence, threads
            As in :meth:`range_search`.
        progress : bool, optional
            Show a bar; None shows it on a terminal.

        Returns
        -------
        SimilarPairs
            Each pair once, `left` < `right`. The certificate is about queries like the stored
            vectors that were not used to build the units. The rows of a join were used;
            docs/duplicates.md gives the miss rates measured for joins.

        Examples
        --------
        >>> index = Index.build([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> index.self_join(similarity=0.7).left
        array([0])
        """
        promise = miss_rate, guarantee, confidence
        where = "Index.self_join"
        level = self._level(similarity, radius, where)
        return all_pairs(join_of_index(self, level, promise, threads, progress, where))

    def iter_self_join(
        self,
        similarity: float | None = None,
        *,
        radius: float | None = None,
        miss_rate: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
        threads: int | None = None,
        progress: bool | None = None,
    ) -> Iterator[SimilarPairs]:
        """Yield what :meth:`self_join` returns, block by block, without holding it in memory.

        Parameters
        ----------
        similarity, radius, miss_rate, guarantee, confidence, threads, progress
            As in :meth:`self_join`.
        """
        promise = miss_rate, guarantee, confidence
        where = "Index.iter_self_join"
        level = self._level(similarity, radius, where)
        return ordered_blocks(join_of_index(self, level, promise, threads, progress, where))

    def join(
        self,
        queries: ArrayLike,
        similarity: float | None = None,
        *,
        radius: float | None = None,
        miss_rate: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
        threads: int | None = None,
    ) -> SimilarPairs:
        """Find all pairs of a query and a vector of the index above a similarity.

        Parameters
        ----------
        queries, similarity, radius, miss_rate, guarantee, confidence, threads
            As in :meth:`range_search`, which finds the same pairs.

        Returns
        -------
        SimilarPairs
            `left` are rows of the queries, `right` those of the index.

        Examples
        --------
        >>> index = Index.build([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> [(pair.left, pair.right) for pair in index.join([[1.0, 0.1], [0.0, 2.0]], 0.8)]
        [(0, 0), (0, 1), (1, 2)]
        """
        hits = self.range_search(
            queries,
            similarity,
            radius=radius,
            miss_rate=miss_rate,
            guarantee=guarantee,
            confidence=confidence,
            threads=threads,
        )
        return pairs_of_matches(hits, hits.certificate)

    @heeds_progress
    def deduplicate(
        self,
        similarity: float | None = None,
        *,
        radius: float | None = None,
        keep: KeptRow = "first",
        scores: ArrayLike | None = None,
        groups: Grouping = "components",
        miss_rate: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
        threads: int | None = None,
        progress: bool | None = None,
    ) -> DuplicateRows:
        """Find groups of near-duplicates and the one of each to keep.

        Parameters
        ----------
        similarity, radius, miss_rate, guarantee, confidence, threads, progress
            As in :meth:`self_join`. Copies of a vector are always found.
        keep : {"first", "last", "best"}
            Row of a group to keep: the first, the last, or the one of highest score; ties keep the
            first.
        scores : array_like of shape (n_vectors,), optional
            How good each row is, for ``keep="best"``.
        groups : {"components", "star"}
            "components" groups rows that a chain of similar pairs connects; the ends of a chain may
            differ. "star" takes rows in the order of `keep` and drops only those similar to a kept
            row.

        Examples
        --------
        >>> index = Index.build([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> index.deduplicate(similarity=0.7, keep="best", scores=[1, 2, 0]).groups
        (DuplicateGroup(kept=1, dropped=[0]),)
        """
        where = "Index.deduplicate"
        promise = miss_rate, guarantee, confidence
        ranks = ranks_to_keep(len(self), keep, scores, groups, where)
        level = self._level(similarity, radius, where)
        join = join_of_index(self, level, promise, threads, progress, where)
        copies = join.copies()
        return duplicate_rows(join.limited_to(copies.distinct), copies, ranks, groups)

    def explain(
        self,
        query: ArrayLike,
        id: int,  # noqa: A002 - what hits call it
        similarity: float | None = None,
        *,
        radius: float | None = None,
        miss_rate: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
    ) -> Explanation:
        """Explain why a vector is, or is not, returned for a query.

        Parameters
        ----------
        query : array_like of shape (dim,)
            One query.
        id : int
            A row of the array the index was built from.
        similarity, radius, miss_rate, guarantee, confidence
            As in :meth:`range_search`.

        Examples
        --------
        >>> import memvec
        >>> index = memvec.Index.build([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> index.explain([1.0, 0.0], 2, similarity=0.8).reason
        'Not returned: its score 0.0000 is below 0.8.'
        """
        where = "Index.explain"
        rows = self._rows(query, where, "query")
        if len(rows) != 1:
            raise checks.bad_value("query", where, "one query", len(rows))
        key = checks.integer(id, "id", where, minimum=0)
        if key >= len(self):
            expected = f"less than the {len(self)} vectors of the index"
            raise checks.bad_value("id", where, expected, key)
        level = self._level(similarity, radius, where)
        parts = self._parts
        request = parts.promises.default.replaced(miss_rate, guarantee, confidence, where)
        plan = parts.range_plan(level, request, where)
        vector = parts.stored(np.array([key]))
        searched = parts.searched
        return explain(parts.units, vector, key, key, rows[0], level, plan, searched)

    @heeds_progress
    def measure(
        self,
        queries: ArrayLike,
        similarity: float | None = None,
        *,
        radius: float | None = None,
        sample: int | None = None,
        miss_rate: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
        progress: bool | None = None,
    ) -> Measurement:
        """Measure the miss rate: compare answers with the exhaustive search.

        Parameters
        ----------
        queries : array_like of shape (n_queries, dim) or (dim,)
            Queries like those you will ask.
        similarity, radius, miss_rate, guarantee, confidence
            As in :meth:`range_search`.
        sample : int, optional
            Number of queries to compare, drawn at random; all by default.
        progress : bool, optional
            Show a bar; None shows it on a terminal.

        Examples
        --------
        >>> import memvec
        >>> index = memvec.Index.build([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> index.measure([[1.0, 0.1]], similarity=0.8).n_missed
        0
        """
        where = "Index.measure"
        rows = self._rows(queries, where)
        level = self._level(similarity, radius, where)
        parts = self._parts
        request = parts.promises.default.replaced(miss_rate, guarantee, confidence, where)
        rows = sampled(rows, sample, self.config.seed, where)
        return measure(parts, rows, level, request, where, progress)

    def check(self) -> CheckReport:
        """Read every file of the folder that the index was opened from and compare checksums.

        An index that is too damaged to be opened is checked by ``memvec check``, or by
        :func:`memvec.storage.check_saved`.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Index.build([[1.0, 0.0], [0.0, 1.0]]).save(folder + "/two.index")
        ...     Index.open(folder + "/two.index").check().ok
        True
        """
        if self._path is None:
            raise InvalidValueError(
                "Index.check compares files, but this index is only in memory. Save it first."
            )
        return check_saved(self._path)

    def vectors(self, ids: ArrayLike | None = None) -> Float32Array:
        """Return stored vectors, scaled to norm 1 and rounded to `dtype`.

        Parameters
        ----------
        ids : array_like of int, optional
            Rows of the array the index was built from; all by default.

        Returns
        -------
        ndarray of shape (n_ids, dim)

        Examples
        --------
        >>> Index.build([[2.0, 0.0], [0.0, 3.0]]).vectors([1])
        array([[0., 1.]], dtype=float32)
        """
        if ids is None:
            return self._parts.vectors(np.arange(len(self)))
        return self._parts.vectors(checked_ids(ids, len(self), "Index.vectors"))

    @property
    def units(self) -> UnitSource:
        """The units and their tests, in main memory."""
        return self._parts.units

    @property
    def source(self) -> Source:
        """The source that searches use: the units, or their copy on a device."""
        return self._parts.source

    @property
    def design(self) -> IndexDesign:
        """The design that was chosen for this data, and the reasons."""
        return self._parts.design

    @property
    def config(self) -> IndexConfig:
        """The configuration, with the choices of the design step in place of "auto"."""
        return self._parts.design.config

    @property
    def dim(self) -> int:
        """The dimension of the vectors."""
        return self._dim

    @property
    def metric(self) -> Metric:
        """Whether scores are cosines or distances: "cosine" or "euclidean"."""
        return self._parts.design.metric

    @property
    def dtype(self) -> RowType:
        """The type that rows are stored in: "float32", "float16" or "int8"."""
        return self._parts.design.dtype

    @property
    def unit_sizes(self) -> IntArray:
        """Members of each unit, shape (n_units,); outliers and the reserve are in no unit."""
        units = self._parts.units.cascade.units
        return np.diff(units.offsets)[: units.n_tested]

    @property
    def unit_vectors(self) -> Float32Array:
        """The memory vectors, shape (n_units, dim)."""
        return self._parts.units.cascade.units.unit_vectors

    @property
    def labels(self) -> IntArray:
        """The unit of each vector, shape (n_vectors,); -1 for outliers and the reserve."""
        units = self._parts.units.cascade.units
        labels = np.empty(len(self), dtype=np.int64)
        labels[units.keys] = units.unit_of(np.arange(len(self)))
        labels[labels >= units.n_tested] = -1
        return labels

    @property
    def reserve(self) -> IntArray:
        """The rows held out for calibration, shape (n_reserve,), in the order of the queries.

        Empty if queries were given.
        """
        evidence, keys = self._parts.evidence, self._parts.units.cascade.units.keys
        if evidence.source != "reserve" or evidence.table is None:
            return np.empty(0, dtype=np.int64)
        return np.array(keys[-1 - int(evidence.table.queries.max()) :])

    @property
    def evidence(self) -> Evidence:
        """The evidence for promises: where calibration queries came from, and when."""
        return self._parts.evidence

    @property
    def calibration_table(self) -> CalibrationTable | None:
        """The matches of the calibration queries, and their scores in each stage."""
        return self._parts.evidence.table

    def calibration_rows(
        self, queries: ArrayLike, *, progress: bool | None = False
    ) -> CalibrationTable:
        """Return the matches of given queries, and their scores in each stage.

        Parameters
        ----------
        queries : array_like of shape (n_queries, dim)
            Queries that are not stored in the index.
        progress : bool, optional
            Show a bar; None shows it on a terminal.
        """
        rows = self._rows(queries, "Index.calibration_rows")
        similarity = self.design.similarity
        return build_table(self._parts.units.cascade, rows, None, similarity, progress)

    def unit_scores(self, queries: ArrayLike) -> Float32Array:
        """Return the score of each unit: yᵀm, or its estimate by codes.

        Parameters
        ----------
        queries : array_like of shape (n_queries, dim) or (dim,)
            Rows are scaled to norm 1.

        Returns
        -------
        ndarray of shape (n_queries, n_units)
            float32. With codes, on a scale where a match of cosine 1 scores 1.
        """
        rows = self._rows(queries, "Index.unit_scores")
        scores = np.empty((len(rows), len(self.unit_sizes)), dtype=np.float32)
        for query, row in enumerate(rows):
            scores[query] = self._parts.units.cascade.unit_scores(row)
        return scores

    def __len__(self) -> int:
        return self.design.n_vectors

    def __repr__(self) -> str:
        vectors, units = len(self), len(self.unit_sizes)
        return (
            f"Index({checks.counted(vectors, 'vector')} of dimension {self.dim}, "
            f"{checks.counted(units, 'unit')})"
        )

    def _repr_html_(self) -> str:
        made = self.design
        limit = limit_text(made.metric, made.similarity)
        facts = [
            ["promise", f"at most {100 * made.miss_rate:g} % missed {limit}"],
            ["level", made.guarantee],
            ["rows", f"{made.dtype}, {made.metric}"],
            ["design", str(made)],
        ]
        return html_text(repr(self)) + html_table([], facts)

    def plot(self) -> Any:
        """Return a matplotlib figure: cost against unit size, and scores with and without a match.

        The left panel shows the cost of random units by the paper's law, in the effective dimension
        of the data, and the size that was chosen. The right panel shows the scores of units that
        hold a match of a calibration query, and the scores of all units.
        """
        return draw_index(self._parts)

    @property
    def shadow(self) -> float:
        """The share of range queries that are compared with the exhaustive search.

        By default, comparisons take at most 2 % of the time, by the cost model; 0 turns them off.
        """
        return self._shadow

    @shadow.setter
    def shadow(self, share: float) -> None:
        self._shadow = share_of_queries(share, "Index.shadow")

    @property
    def health(self) -> Health:
        """How well the promise holds: queries answered, misses seen by `shadow`, drift."""
        return self._live.monitor.health.in_metric(self.metric)

    @heeds_progress
    def recalibrate(
        self, queries: ArrayLike | None = None, *, progress: bool | None = None
    ) -> Certificate:
        """Calibrate on recent queries, or on queries given, and return the new certificate.

        Searches use the new evidence from then on, in all threads; `save` writes it. The counts and
        the drift test of `health` start again. An error changes nothing.

        Parameters
        ----------
        queries : array_like of shape (n_queries, dim), optional
            Queries like those you will ask. By default, the last 2,000 queries of this process that
            `health` sampled: at least one in twelve, each once. Copies of stored vectors are left
            out.
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
        parts, monitor, _ = self._live
        rows = monitor.recent_rows(self.dim)
        if queries is not None:
            rows = self._rows(queries, where)
        made = recalibrated(parts, rows, progress, where)
        seed, recent = self.config.seed, monitor.recent
        recent.remember([Draw.of(row, seed).digest for row in rows])
        self._live = _Live.of(made, Monitor(seed, recent))
        default = made.promises.default
        plan = made.range_plan(made.design.similarity, default, where)
        return plan.in_metric(made.design.metric).certificate

    def to(self, device: str) -> Index:
        """Return the same index, searched on a device.

        Range searches, top-k searches and joins run on the device. Explanations, searches by
        `threshold` or `units`, and the drift test use the units in main memory.

        Parameters
        ----------
        device : str
            "cpu", "cuda" for the first GPU, "cuda:1" for the second, and so on, or one that was
            registered (:func:`memvec.search.register_device`). A GPU needs balanced codes
            (``IndexConfig(codes="balanced")``) and holds a copy of the index. Ranges and the k
            nearest equal those of the CPU bit for bit. Pairs of a join have the same scores, but
            each pair is tested from one side only: a pair near a threshold may be found on one
            device and not on the other.

        Examples
        --------
        >>> Index.build([[1.0, 0.0], [0.0, 1.0]]).to("cpu").range_search([1.0, 0.2]).ids
        array([0])
        """
        moved = source_on(device, self._parts.units, "Index.to")
        made = Index(dataclasses.replace(self._parts, moved=moved), self._path)
        made._shadow = self._shadow
        made._saved = made._parts if self._saved is self._parts else None
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path of a folder that holds this very index, and everything otherwise.

        What was seen of live queries, and a device, stay behind.
        """
        parts, path = self._parts, self._path
        if self._saved is parts and path is not None and is_index(path):
            return _opened_again, (os.fspath(path), state_of(parts)), self._shadow
        return _of_value, by_value(parts), self._shadow

    def __setstate__(self, shadow: float) -> None:
        self._shadow = shadow

    def _asked(
        self, queries: ArrayLike, threads: int | None, where: str
    ) -> tuple[Float32Array, int | None]:
        return self._rows(queries, where), checks.threads(threads, where)

    def _rows(
        self, queries: ArrayLike, where: str, name: str = "queries", *, batch: bool = False
    ) -> Float32Array:
        scale = self._parts.design.metric == "cosine"
        device = taker_of(self._parts.moved) if scale else None
        if device is not None and ((batch and device.uploads(queries)) or device.takes(queries)):
            return device.taken(queries, name, where)
        rows = checks.unit_queries(queries, name, where, dim=self._dim, scale=scale)
        return rounded_rows(rows, self._parts.design.dtype)

    def _level(self, similarity: float | None, radius: float | None, where: str) -> float:
        made = self._parts.design
        return checked_level(made.metric, similarity, radius, made.similarity, where)


def save_index(index: Index, path: str | os.PathLike[str]) -> dict[str, FileSum]:
    """Save an index as :meth:`Index.save` does; return size and CRC-32 of every file by name."""
    check_no_segment(path, "Index.save")
    check_free(Path(path), Kind.INDEX, "Index.save")
    parts = index._parts  # those of one moment: another thread may recalibrate
    sums = save_parts(parts, path)
    index._path, index._saved = Path(path).absolute(), parts
    return sums


def _opened_again(path: str, state: tuple[str, str]) -> Index:
    return Index(opened_again(path, state), Path(path))


def _of_value(arrays: dict[str, Any], meta: str) -> Index:
    return Index(of_value(arrays, meta))


def map_index(path: str | os.PathLike[str]) -> tuple[Index, MappedFolder]:
    """Open an index as :meth:`Index.open` does; return its files, too, which it shares."""
    parts, folder = load_parts(path, verify=False)
    return Index(parts, Path(path).absolute()), folder


def join_of_index(
    index: Index,
    similarity: float,
    promise: tuple[float | None, Guarantee | None, float | None],
    threads: int | None,
    progress: bool | None,
    where: str,
) -> SelfJoin:
    """Return the join of an index with itself; `promise` is miss rate, guarantee, confidence."""
    parts, threads = index._parts, checks.threads(threads, where)
    request = parts.promises.default.replaced(*promise, where)
    plan = parts.range_plan(similarity, request, where).in_metric(parts.design.metric)
    return SelfJoin(parts.scopes, parts.vectors, similarity, plan, threads, progress)


def _hits(found: Matches, certificate: Certificate, parts: IndexParts) -> Hits:
    """Return what was found as users see it."""
    metric = parts.design.metric
    scores, certificate = scores_of(metric, found.scores), certificate.in_metric(metric)
    return Hits(found.offsets, found.ids, scores, certificate, found.spent, parts.searched)
