"""Checks for lists of ids, one list per query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from memvec.checks import bad_type, bad_value
from memvec.types import ArrayLike, IntArray

# Answers shorter than asked are padded with this id; it may repeat and never counts as found.
NO_ID = -1


def id_rows(
    value: Sequence[ArrayLike] | np.ndarray[Any, Any],
    name: str,
    where: str,
    *,
    n_queries: int | None = None,
) -> list[IntArray]:
    """Return one int64 array per query; a two-dimensional array or a sequence of sequences."""
    expected = "a sequence of integer ids for each query"
    if isinstance(value, str | bytes) or not hasattr(value, "__len__"):
        raise bad_type(name, where, expected, repr(value))
    rows = [_id_row(row, name, where) for row in value]
    if n_queries is not None and len(rows) != n_queries:
        raise bad_value(name, where, f"{n_queries} rows, one per query", len(rows))
    for query, row in enumerate(rows):
        refuse_repeated(np.full(len(row), query), row, name, where)
    return rows


def _id_row(row: ArrayLike, name: str, where: str) -> IntArray:
    # Sets are how ground truths are often held, and NumPy would make one object of them.
    expected = "a sequence of integer ids for each query"
    try:
        array = np.asarray(sorted(row) if isinstance(row, set | frozenset) else row)
    except ValueError:  # ragged
        raise bad_type(name, where, expected, repr(row)) from None
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size > 0):
        got = f"a row of shape {array.shape} and dtype {array.dtype}"
        raise bad_type(name, where, expected, got)
    return cast(IntArray, array.astype(np.int64))


def refuse_repeated(queries: IntArray, ids: IntArray, name: str, where: str) -> None:
    """Raise where one query has the same id twice, which would be counted twice."""
    real = ids != NO_ID
    queries, ids = queries[real], ids[real]
    order = np.lexsort((ids, queries))
    queries, ids = queries[order], ids[order]
    twice = (queries[1:] == queries[:-1]) & (ids[1:] == ids[:-1])
    if twice.any():
        at = int(np.argmax(twice))
        got = f"id {ids[at]} twice for query {queries[at]}"
        raise bad_value(name, where, "free of repeated ids", got)
