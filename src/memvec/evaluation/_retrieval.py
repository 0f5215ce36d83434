"""Measures of a ranking against the ids that should be in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from memvec import checks
from memvec.evaluation._id_rows import id_rows
from memvec.types import ArrayLike, Float64Array, IntArray

IdRows: TypeAlias = Sequence[ArrayLike] | np.ndarray[Any, Any]
Method: TypeAlias = Literal["trapezoid", "plain"]


def average_precisions(
    rankings: IdRows,
    relevant: IdRows,
    *,
    junk: IdRows | None = None,
    queries: ArrayLike | None = None,
    method: Method = "trapezoid",
) -> Float64Array:
    """Return the average precision of each query; `mean_average_precision` explains it.

    Examples
    --------
    >>> average_precisions([[3, 1, 2]], [[3, 2]], method="plain")
    array([0.83333333])
    """
    return _average_precisions(rankings, relevant, junk, queries, method, "average_precisions")


def mean_average_precision(
    rankings: IdRows,
    relevant: IdRows,
    *,
    junk: IdRows | None = None,
    queries: ArrayLike | None = None,
    method: Method = "trapezoid",
) -> float:
    """Return the mean over queries of the area under the precision-recall curve.

    ``"trapezoid"`` is what the programs of both benchmarks compute: with Pᵢ the precision among the
    first i of the ranking, P₀ = 1, a relevant id at rank i adds (Pᵢ₋₁ + Pᵢ)/2 · 1/R, R being the
    number of relevant ids. ``"plain"`` adds Pᵢ/R instead, as in text retrieval. Relevant
    ids that are not ranked add nothing.

    Parameters
    ----------
    rankings : sequence of n_queries sequences of ids, or ndarray of shape (n_queries, depth)
        The ids returned for each query, best first. The id −1 means no answer.
    relevant : sequence of n_queries sequences of ids
        The ids that should be returned for each query: for Oxford5k, "good" and "ok" images
        together.
    junk : sequence of n_queries sequences of ids, optional
        Ids that count as neither right nor wrong, and are removed from the ranking first: the
        "junk" images of Oxford5k.
    queries : array_like of shape (n_queries,), optional
        The id of each query, if queries are in the data. It is removed from the ranking and from
        the relevant ids: the rule of Holidays, whose program ignores the query in its ranking.
    method : {"trapezoid", "plain"}
        How the area is computed.

    References
    ----------
    J. Philbin, R. Arandjelović, A. Zisserman, The Oxford Buildings Dataset, program
    ``compute_ap.cpp``, https://www.robots.ox.ac.uk/~vgg/data/oxbuildings/

    H. Jégou, M. Douze, C. Schmid, "Hamming embedding and weak geometric consistency for large scale
    image search", ECCV 2008; INRIA Holidays, program ``holidays_map.py``.

    Examples
    --------
    Images 0, 1 and 2 show one scene. The query 0 finds itself, then 1, a wrong image, and 2:

    >>> round(mean_average_precision([[0, 1, 9, 2]], [[1, 2]], queries=[0]), 4)
    0.7917

    which is (1 + 1)/2 · 1/2 + (1/2 + 2/3)/2 · 1/2. Were 9 junk, nothing would be wrong:

    >>> mean_average_precision([[0, 1, 9, 2]], [[1, 2]], junk=[[9]], queries=[0])
    1.0
    """
    where = "mean_average_precision"
    return float(_average_precisions(rankings, relevant, junk, queries, method, where).mean())


def recall_at_k(rankings: IdRows, relevant: IdRows, k: int) -> float:
    """Return the mean over queries of the share of relevant ids among the first k.

    With the k true neighbours as relevant ids it is the k-recall@k of nearest-neighbour search;
    with the first neighbour alone, 1-recall@k.

    Parameters
    ----------
    rankings : sequence of n_queries sequences of ids, or ndarray of shape (n_queries, depth)
        The ids returned for each query, best first; missing ranks count as nothing found.
    relevant : sequence of n_queries sequences of ids
        What should be returned for each query.
    k : int
        Number of first ids that count.

    Examples
    --------
    >>> recall_at_k([[5, 3, 8], [1, 2, 4]], [[3, 8], [9]], k=2)
    0.25
    """
    ranked, wanted = _checked(rankings, relevant, "recall_at_k")
    k = checks.integer(k, "k", "recall_at_k")
    shares = [_n_found(row[:k], ids) / len(ids) for row, ids in zip(ranked, wanted, strict=True)]
    return float(np.mean(shares))


def four_recall_at_4(rankings: IdRows, relevant: IdRows) -> float:
    """Return the mean number of right images among the first 4, the score of UKBench.

    UKBench shows each object in 4 images; each image is a query, and all 4 images of its object,
    the query itself among them, should come first: a perfect score is 4 (D. Nistér, H. Stewénius,
    "Scalable recognition with a vocabulary tree", CVPR 2006).

    Parameters
    ----------
    rankings : sequence of n_queries sequences of ids, or ndarray of shape (n_queries, depth)
        The ids returned for each query, best first, including the query itself.
    relevant : sequence of n_queries sequences of 4 ids
        The images of the query's object.

    Examples
    --------
    >>> four_recall_at_4([[0, 2, 9, 1, 3]], [[0, 1, 2, 3]])
    3.0
    """
    where = "four_recall_at_4"
    ranked, wanted = _checked(rankings, relevant, where)
    for query, ids in enumerate(wanted):
        if len(ids) != 4:
            got = f"{len(ids)} for query {query}"
            raise checks.bad_value("relevant", where, "4 ids for each query", got)
    counts = [_n_found(row[:4], ids) for row, ids in zip(ranked, wanted, strict=True)]
    return float(np.mean(counts))


def _average_precisions(
    rankings: IdRows,
    relevant: IdRows,
    junk: IdRows | None,
    queries: ArrayLike | None,
    method: Method,
    where: str,
) -> Float64Array:
    checks.choice(method, "method", where, ("trapezoid", "plain"))
    ranked, wanted = _checked(rankings, relevant, where)
    ignored = _ignored(wanted, junk, where)
    if queries is not None:
        own = id_rows(np.reshape(queries, (-1, 1)), "queries", where, n_queries=len(ranked))
        ignored = [np.concatenate(pair) for pair in zip(ignored, own, strict=True)]
        wanted = [ids[~np.isin(ids, one)] for ids, one in zip(wanted, own, strict=True)]
        _refuse_empty(wanted, where, " besides the query itself")
    rows = zip(ranked, wanted, ignored, strict=True)
    return np.array(
        [_average_precision(row[~np.isin(row, skip)], ids, method) for row, ids, skip in rows]
    )


def _average_precision(ranking: IntArray, relevant: IntArray, method: Method) -> float:
    ranks = np.flatnonzero(np.isin(ranking, relevant))
    found = np.arange(1, len(ranks) + 1)
    precision = found / (ranks + 1)
    if method == "trapezoid":
        # Just before the first rank the precision is 1 by convention.
        before = np.where(ranks == 0, 1.0, (found - 1) / np.maximum(ranks, 1))
        precision = (before + precision) / 2
    return float(precision.sum() / len(relevant))


def _checked(
    rankings: IdRows, relevant: IdRows, where: str
) -> tuple[list[IntArray], list[IntArray]]:
    ranked = id_rows(rankings, "rankings", where)
    if not ranked:
        raise checks.bad_value("rankings", where, "at least one ranking", "none")
    wanted = id_rows(relevant, "relevant", where, n_queries=len(ranked))
    _refuse_negative(wanted, where)
    _refuse_empty(wanted, where, "")
    return ranked, wanted


def _refuse_negative(wanted: list[IntArray], where: str) -> None:
    for query, ids in enumerate(wanted):
        if (ids < 0).any():
            raise checks.bad_value("relevant", where, "ids >= 0", f"{ids.min()} for query {query}")


def _refuse_empty(wanted: list[IntArray], where: str, besides: str) -> None:
    for query, ids in enumerate(wanted):
        if len(ids) == 0:
            expected = f"at least one id for each query{besides}"
            raise checks.bad_value("relevant", where, expected, f"none for query {query}")


def _ignored(wanted: list[IntArray], junk: IdRows | None, where: str) -> list[IntArray]:
    if junk is None:
        return [np.empty(0, dtype=np.int64) for _ in wanted]
    rows = id_rows(junk, "junk", where, n_queries=len(wanted))
    for query, (ids, skip) in enumerate(zip(wanted, rows, strict=True)):
        both = np.intersect1d(ids, skip)
        if len(both) > 0:
            got = f"id {both[0]} in both for query {query}"
            raise checks.bad_value("junk", where, "free of relevant ids", got)
    return rows


def _n_found(ranking: IntArray, relevant: IntArray) -> int:
    return int(np.count_nonzero(np.isin(ranking, relevant)))
