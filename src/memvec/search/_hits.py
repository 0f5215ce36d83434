"""Results as users see them: hits, the best k, the work spent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from memvec.checks import counted
from memvec.display import html_table, html_text
from memvec.guarantee import Certificate, NullLaw
from memvec.metric import Metric, cosines_of
from memvec.search._frames import Columns, faiss_ids
from memvec.types import Float32Array, Float64Array, IntArray, WordArray

IdArray: TypeAlias = np.ndarray[Any, np.dtype[np.object_]]


@dataclass(frozen=True)
class Work:
    """The work of a search, summed over its queries.

    Attributes
    ----------
    n_queries, n_vectors : int
        Number of queries, and of vectors searched.
    unit_tests : int
        Memory vectors of units and of groups that were tested, in float32 or by code.
    units_visited : int
        Units whose members were tested.
    members_tested : int
        Members of those units, tested in float32 or by the first words of their codes.
    codes_tested : int
        Members whose whole code, or fine code, was tested.
    exact_products : int
        Members scored exactly.
    """

    n_queries: int
    n_vectors: int
    unit_tests: int
    units_visited: int
    members_tested: int
    codes_tested: int
    exact_products: int

    @classmethod
    def of(cls, spent: IntArray, searched: Searched) -> Work:
        """Return the sum over queries, from what each spent."""
        return cls(len(spent), searched.n_vectors, *spent.sum(axis=0).tolist())

    @property
    def cost_ratio(self) -> float:
        """Vectors compared, over those of an exhaustive scan: (M + Σ nᵢ)/N (paper, Section 5)."""
        compared = self.unit_tests + self.members_tested
        return compared / max(1, self.n_queries * self.n_vectors)

    @property
    def skipped(self) -> float:
        """The share of vectors that were not scored exactly."""
        return 1 - self.exact_products / max(1, self.n_queries * self.n_vectors)


@dataclass(frozen=True, eq=False)
class Searched:
    """What hits were found in.

    Attributes
    ----------
    n_vectors : int
        Vectors stored.
    n_candidates : int
        Those that could be hits: neither deleted nor left out by a filter.
    null_law : NullLaw
        The law of the scores of vectors that are unrelated to a query.
    metric : {"cosine", "euclidean"}
        What scores are.
    """

    n_vectors: int
    n_candidates: int
    null_law: NullLaw = field(repr=False)
    metric: Metric = "cosine"

    @classmethod
    def lawless(cls, n_vectors: int, n_candidates: int, metric: Metric = "cosine") -> Searched:
        """Return it without the law: 100,000 cosines would be most of a few hits elsewhere."""
        bare = object.__new__(cls)
        vars(bare).update(n_vectors=n_vectors, n_candidates=n_candidates, metric=metric)
        return bare

    def without_law(self) -> Searched:
        """Return it without the law, for pickles."""
        return Searched.lawless(self.n_vectors, self.n_candidates, self.metric)

    def __getattr__(self, name: str) -> Any:
        # Called for what is not there.
        if name == "null_law":
            raise AttributeError("Hits from a pickle or a server have p_values, but no null law.")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


# What a notebook shows of an answer: the first queries, and the best of each.
_SHOWN_QUERIES, _SHOWN_HITS = 5, 5


class HitRow(NamedTuple):
    """The matches of one query, the best first."""

    ids: IntArray | IdArray
    scores: Float32Array


@dataclass(frozen=True, eq=False, init=False)
class Hits:
    """The matches of a batch of queries, in flat arrays ordered by query, score and id.

    Its length is the number of queries; ``hits[q]`` are the matches of query q.

    Attributes
    ----------
    offsets : ndarray of shape (n_queries + 1,)
        The matches of query q lie between ``offsets[q]`` and ``offsets[q + 1]``.
    ids : ndarray of shape (n_matches,)
        For an index, row numbers of the array it was built from, int64; for a collection, its ids,
        in an array of objects.
    scores : ndarray of shape (n_matches,)
        Their cosines with the query or distances from it, by the metric; float32.
    certificate : Certificate
        What is promised about the matches missed.
    spent : ndarray of shape (n_queries, 5)
        Work of each query: unit tests, units visited, members tested, whole codes tested, exact
        products. `work` is their sum.
    searched : Searched
        What was searched.
    metadata : list of dict, or None
        Metadata of each match, if a collection was asked for it. All matches of an item share a
        dict.
    vectors : ndarray of shape (n_matches, dim), or None
        Stored vectors of the matches, if a collection was asked for them.

    Notes
    -----
    A pickle contains the p-values but not the law that they come from: `p_values` and `e_values`
    can be read from it, `null_law` cannot.
    """

    offsets: IntArray
    ids: IntArray | IdArray
    scores: Float32Array
    certificate: Certificate
    spent: IntArray
    searched: Searched
    metadata: list[dict[str, Any]] | None = None
    vectors: Float32Array | None = None

    def __init__(
        self,
        offsets: IntArray,
        ids: IntArray | IdArray,
        scores: Float32Array,
        certificate: Certificate,
        spent: IntArray,
        searched: Searched,
        metadata: list[dict[str, Any]] | None = None,
        vectors: Float32Array | None = None,
    ) -> None:
        # As dataclasses do it, this takes a microsecond of every search; by `update`, half of one.
        own = vars(self)
        own["offsets"], own["ids"], own["scores"] = offsets, ids, scores
        own["certificate"], own["spent"], own["searched"] = certificate, spent, searched
        # The class has None for both.
        if metadata is not None:
            own["metadata"] = metadata
        if vectors is not None:
            own["vectors"] = vectors

    @property
    def work(self) -> Work:
        """The work, summed over the queries."""
        return Work.of(self.spent, self.searched)

    @property
    def null_law(self) -> NullLaw:
        """The law of the scores of vectors that are unrelated to a query."""
        return self.searched.null_law

    @property
    def p_values(self) -> Float64Array:
        """The chance that an unrelated vector scores as high, for each hit.

        A value equal to ``null_law.smallest`` is an upper limit, unless ``null_law.is_uniform``.
        """
        kept: Float64Array | None = vars(self).get("_p_values")
        if kept is not None:
            return kept
        return self.null_law.p_values(cosines_of(self.searched.metric, self.scores))

    @property
    def e_values(self) -> Float64Array:
        """p·N: how many unrelated vectors a search is expected to return at the hit's score."""
        return self.p_values * self.searched.n_candidates

    @property
    def counts(self) -> IntArray:
        """The number of matches of each query, shape (n_queries,)."""
        return self.offsets[1:] - self.offsets[:-1]  # np.diff takes 2 µs

    def with_p_values(self, values: Float64Array) -> Hits:
        """Return the same hits with p-values that were computed elsewhere."""
        told = object.__new__(Hits)
        vars(told).update(vars(self), _p_values=values)
        return told

    def to_arrow(self) -> Any:
        """Return a ``pyarrow.Table`` of all matches: columns query, id and score.

        If the ids mix integers and text, all become text.
        """
        return self._columns.to_arrow("Hits.to_arrow()")

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame`` of all matches: columns query, id and score."""
        return self._columns.to_pandas("Hits.to_pandas()")

    def to_polars(self) -> Any:
        """Return a ``polars.DataFrame`` of all matches: columns query, id and score.

        If the ids mix integers and text, all become text.
        """
        return self._columns.to_polars("Hits.to_polars()")

    def as_faiss(self) -> tuple[WordArray, Float32Array, IntArray]:
        """Return ``lims, D, I``, as ``range_search`` of FAISS does; ids must be integers.

        The matches of query q are ``I[lims[q]:lims[q + 1]]``, and ``D`` their cosines, or the
        squares of their distances.

        Examples
        --------
        >>> import memvec
        >>> index = memvec.Index.build([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> lims, D, I = index.range_search([[1.0, 0.0], [0.0, 1.0]], 0.7).as_faiss()
        >>> lims.tolist(), I.tolist()
        ([0, 2, 3], [0, 1, 2])
        """
        ids = faiss_ids(self.ids, "Hits.as_faiss()")
        return self.offsets.astype(np.uint64), faiss_scores(self), ids

    @property
    def _columns(self) -> Columns:
        queries = np.repeat(np.arange(len(self)), self.counts)
        return Columns(queries, self.ids, self.scores)

    def __getstate__(self) -> dict[str, Any]:
        searched = self.searched.without_law()
        return {**vars(self), "searched": searched, "_p_values": self.p_values}

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, query: int) -> HitRow:
        start, stop = self.offsets[:-1][query], self.offsets[1:][query]
        return HitRow(self.ids[start:stop], self.scores[start:stop])

    def __iter__(self) -> Iterator[HitRow]:
        return (self[query] for query in range(len(self)))

    def _repr_html_(self) -> str:
        shown = range(min(len(self), _SHOWN_QUERIES))
        return _html(self, [(query, *self[query]) for query in shown])

    def __repr__(self) -> str:
        return (
            f"Hits({counted(len(self), 'query', 'queries')}, "
            f"{counted(len(self.ids), 'match', 'matches')}, cost ratio {self.work.cost_ratio:.3f})"
        )


@dataclass(frozen=True, eq=False)
class TopHits:
    """The best k of each query, ordered by score and then by id.

    Attributes
    ----------
    ids : ndarray of shape (n_queries, k)
        As in :class:`Hits`. If fewer than k are found, the rest is -1 for an index and None for a
        collection.
    scores : ndarray of shape (n_queries, k)
        Cosines in descending order, -inf where there is no id; or distances in ascending order, inf
        where there is no id. float32.
    certificate : Certificate
        What is promised about the vectors missed.
    spent : ndarray of shape (n_queries, 5)
        Work of each query; `work` is their sum.
    searched : Searched
        What was searched.
    metadata : list of lists of dict, or None
        One list per query, as long as its row of ids, if a collection was asked for it; None in
        place of a dict where there is no id.
    vectors : ndarray of shape (n_queries, k, dim), or None
        Stored vectors, if a collection was asked for them; NaN where there is no id.
    """

    ids: IntArray | IdArray
    scores: Float32Array
    certificate: Certificate
    spent: IntArray
    searched: Searched
    metadata: list[list[dict[str, Any] | None]] | None = None
    vectors: Float32Array | None = None

    @classmethod
    def of(cls, hits: Hits, k: int) -> TopHits:
        """Return the first k matches of each query, padded to k."""
        plain = hits.metadata is None and hits.vectors is None
        if plain and len(hits) == 1 and len(hits.ids) == k:  # as services ask
            found = hits.ids.reshape(1, k), hits.scores.astype(np.float32).reshape(1, k)
            return cls(*found, hits.certificate, hits.spent, hits.searched)
        named = hits.ids.dtype == np.object_
        ids: Any = np.full((len(hits), k), None if named else -1, dtype=hits.ids.dtype)
        worst = -np.inf if hits.searched.metric == "cosine" else np.inf
        scores = np.full((len(hits), k), worst, dtype=np.float32)
        metadata: list[list[dict[str, Any] | None]] | None = None
        if hits.metadata is not None:
            metadata = [[None] * k for _ in range(len(hits))]
        vectors = None
        if hits.vectors is not None:
            shape = len(hits), k, hits.vectors.shape[1]
            vectors = np.full(shape, np.nan, dtype=np.float32)
        for query, (start, stop) in enumerate(pairwise(hits.offsets.tolist())):
            n_found = min(k, stop - start)
            best = slice(start, start + n_found)
            ids[query, :n_found] = hits.ids[best]
            scores[query, :n_found] = hits.scores[best]
            if metadata is not None and hits.metadata is not None:
                metadata[query][:n_found] = hits.metadata[best]
            if vectors is not None and hits.vectors is not None:
                vectors[query, :n_found] = hits.vectors[best]
        return cls(ids, scores, hits.certificate, hits.spent, hits.searched, metadata, vectors)

    @property
    def work(self) -> Work:
        """The work, summed over the queries."""
        return Work.of(self.spent, self.searched)

    def to_arrow(self) -> Any:
        """Return a ``pyarrow.Table`` of what was found; as :meth:`Hits.to_arrow`."""
        return self._columns.to_arrow("TopHits.to_arrow()")

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame`` of what was found; as :meth:`Hits.to_pandas`."""
        return self._columns.to_pandas("TopHits.to_pandas()")

    def to_polars(self) -> Any:
        """Return a ``polars.DataFrame`` of what was found; as :meth:`Hits.to_polars`."""
        return self._columns.to_polars("TopHits.to_polars()")

    def as_faiss(self) -> tuple[Float32Array, IntArray]:
        """Return ``D, I``, as ``search`` of FAISS does; ids must be integers, and are -1 for none.

        ``D`` holds cosines, or squares of distances.
        """
        return faiss_scores(self), faiss_ids(self.ids, "TopHits.as_faiss()")

    @property
    def _columns(self) -> Columns:
        found = np.isfinite(self.scores)
        return Columns(np.nonzero(found)[0], self.ids[found], self.scores[found])

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "searched": self.searched.without_law()}

    def __len__(self) -> int:
        return len(self.ids)

    def _repr_html_(self) -> str:
        rows = zip(self.ids[:_SHOWN_QUERIES], self.scores[:_SHOWN_QUERIES], strict=True)
        found = [(ids, scores, np.isfinite(scores)) for ids, scores in rows]
        return _html(self, [(i, ids[is_], of[is_]) for i, (ids, of, is_) in enumerate(found)])

    def __repr__(self) -> str:
        n_queries, k = self.ids.shape
        asked = counted(n_queries, "query", "queries")
        return f"TopHits({asked}, best {k}, cost ratio {self.work.cost_ratio:.3f})"


def _html(hits: Hits | TopHits, rows: list[tuple[int, IntArray | IdArray, Float32Array]]) -> str:
    """Return the best hits of some queries, each with how many there are, and the certificate."""
    lines: list[list[object]] = []
    for query, ids, scores in rows:
        best = zip(ids[:_SHOWN_HITS], scores[:_SHOWN_HITS], strict=True)
        shown = [f"{one}: {score:.3f}" for one, score in best]
        shown += ["…"] if len(ids) > _SHOWN_HITS else []
        lines.append([query, len(ids), ", ".join(shown) or "none"])
    if len(hits) > len(rows):
        lines.append(["…", "", f"{len(hits) - len(rows):,} more queries"])
    table = html_table(["query", "found", "id: score"], lines)
    return html_text(repr(hits)) + table + html_text(str(hits.certificate))


def faiss_scores(hits: Hits | TopHits) -> Float32Array:
    """Return scores as FAISS has them: cosines, or squares of distances."""
    return hits.scores if hits.searched.metric == "cosine" else hits.scores**2
