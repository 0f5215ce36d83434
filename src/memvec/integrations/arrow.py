"""Joins, duplicates and ranges over Arrow tables, Parquet files, and frames of polars and pandas.

Needs the extra ``memvec[arrow]``, and polars or pandas for their frames. Functions return the type
that they are given; for a Parquet file, they return an Arrow table. Columns of lists of a fixed
size are read without a copy.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from memvec import checks
from memvec.integrations._frames import (
    Contamination,
    Deduplicated,
    Frame,
    Joined,
    Kind,
    Work,
    contamination_of,
    pyarrow,
)
from memvec.types import IntArray


def deduplicate(
    frame: Frame,
    column: str = "embedding",
    similarity: float = 0.95,
    *,
    groups_column: str = "duplicates",
    **options: Any,
) -> Deduplicated:
    """Return a frame without near-duplicates.

    Parameters
    ----------
    frame : pyarrow.Table, polars.DataFrame, pandas.DataFrame, or path of a Parquet file
        Files larger than memory are for :func:`memvec.deduplicate_files`.
    column : str, default "embedding"
        The column of vectors: lists of one length.
    similarity : float, default 0.95
        α₀ in (0, 1], the cosine of duplicates.
    groups_column : str, default "duplicates"
        The name of a new column: the rows of `frame` that were dropped in favour of each kept row.
    **options
        As in :func:`memvec.deduplicate`: `keep`, `groups`, `miss_rate`, `guarantee` and so on.
        `scores` may be the name of a column.

    Examples
    --------
    >>> import pyarrow
    >>> from memvec.integrations.arrow import deduplicate
    >>> rows = pyarrow.table({"id": ["a", "b", "c"], "embedding": [[1, 0], [0, 1], [1, 0.1]]})
    >>> unique, found = deduplicate(rows)
    >>> unique.drop_columns("embedding").to_pylist()
    [{'id': 'a', 'duplicates': [2]}, {'id': 'b', 'duplicates': []}]
    """
    work = _work(frame, "frame", "deduplicate")
    return work.deduplicated(column, similarity, groups_column, options)


def join(
    left: Frame, right: Frame, column: str = "embedding", similarity: float = 0.9, **options: Any
) -> Joined:
    """Find all pairs of a row of one frame and a row of another above a similarity.

    Parameters
    ----------
    left, right : frames
        As `frame` in :func:`deduplicate`.
    column : str, default "embedding"
        The column of vectors, in both.
    similarity : float, default 0.9
        α₀ in (0, 1].
    **options
        As in :func:`memvec.join`.

    Returns
    -------
    Joined
        A frame of the type of `left`, with the columns `left` and `right`, which are row numbers,
        and `score`; and the certificate.
    """
    first, second = _work(left, "left", "join"), _work(right, "right", "join")
    pairs = contamination_of(second.vectors(column), first.vectors(column), similarity, options)
    return first.joined(pairs.pairs)


def range_search(
    frame: Frame, queries: Any, column: str = "embedding", similarity: float = 0.7, **options: Any
) -> Joined:
    """Find all rows of a frame above a similarity to queries.

    Parameters
    ----------
    frame : frame
        As in :func:`deduplicate`.
    queries : array_like of shape (n_queries, dim) or (dim,), or frame
        If it is a frame, its column of the same name is used.
    column : str, default "embedding"
        The column of vectors.
    similarity : float, default 0.7
        α₀ in (0, 1].
    **options
        As in :meth:`memvec.Index.build`: `miss_rate`, `guarantee` and so on.

    Returns
    -------
    Joined
        A frame with `query`, `row` and `score`, and the other columns of the rows found; and the
        certificate.
    """
    work = _work(frame, "frame", "range_search")
    if _kind_of(queries) is not None:
        queries = _work(queries, "queries", "range_search").vectors(column)
    return work.within(queries, similarity, column, options)


def contamination(
    train: Frame, test: Frame, similarity: float = 0.9, column: str = "embedding", **options: Any
) -> Contamination:
    """Find near-copies of an evaluation set in a training set.

    Parameters
    ----------
    train, test : frames
        As `frame` in :func:`deduplicate`.
    similarity : float, default 0.9
        α₀ in (0, 1].
    column : str, default "embedding"
        The column of vectors, in both.
    **options
        As in :func:`memvec.join`.
    """
    first, second = _work(train, "train", "contamination"), _work(test, "test", "contamination")
    return contamination_of(first.vectors(column), second.vectors(column), similarity, options)


def _work(frame: Frame, name: str, where: str) -> Work:
    kind = _kind_of(frame)
    if kind is None:
        expected = "an Arrow table, a frame of polars or pandas, or the path of a Parquet file"
        raise checks.bad_type(name, where, expected, type(frame).__name__)
    return Work(kind, _read(frame) if isinstance(frame, str | os.PathLike) else frame, where)


def _read(path: str | os.PathLike[str]) -> Any:
    from pyarrow import parquet

    return parquet.read_table(os.fspath(path), memory_map=True)


def _kind_of(frame: Frame) -> Kind | None:
    if isinstance(frame, str | os.PathLike | pyarrow.Table):
        return _ARROW
    # By name: a package that nobody has imported has made no frame.
    made_by = type(frame).__module__.partition(".")[0], type(frame).__name__
    return {("polars", "DataFrame"): _POLARS, ("pandas", "DataFrame"): _PANDAS}.get(made_by)


def _lists(offsets: IntArray, values: IntArray) -> Any:
    return pyarrow.LargeListArray.from_arrays(offsets, values)


def _arrow_of_columns(columns: Mapping[str, Any], frame: Frame | None) -> Frame:
    others = {} if frame is None else {name: frame[name] for name in frame.column_names}
    return pyarrow.table({**columns, **others})


_ARROW = Kind(
    names=lambda frame: list(frame.column_names),
    column=lambda frame, name: frame.column(name),
    take=lambda frame, rows: frame.take(pyarrow.array(rows)),
    with_lists=lambda frame, name, offsets, values: frame.append_column(
        name, _lists(offsets, values)
    ),
    of_columns=_arrow_of_columns,
)


def _polars_with_lists(frame: Frame, name: str, offsets: IntArray, values: IntArray) -> Frame:
    import polars

    return frame.with_columns(polars.from_arrow(_lists(offsets, values)).alias(name))


def _polars_of_columns(columns: Mapping[str, Any], frame: Frame | None) -> Frame:
    import polars

    made = polars.DataFrame(dict(columns))
    return made if frame is None else made.hstack(frame)


_POLARS = Kind(
    names=lambda frame: list(frame.columns),
    column=lambda frame, name: frame.get_column(name).to_arrow(),
    take=lambda frame, rows: frame[rows],
    with_lists=_polars_with_lists,
    of_columns=_polars_of_columns,
)


def _pandas_column(frame: Frame, name: str) -> Any:
    column = frame[name]
    if type(column.dtype).__name__ == "ArrowDtype":
        return pyarrow.chunked_array(column.array.__arrow_array__())
    return column.to_numpy()


def _pandas_with_lists(frame: Frame, name: str, offsets: IntArray, values: IntArray) -> Frame:
    lists = np.empty(len(offsets) - 1, dtype=object)
    lists[:] = [values[start:stop].tolist() for start, stop in pairwise(offsets)]
    return frame.assign(**{name: lists})


def _pandas_of_columns(columns: Mapping[str, Any], frame: Frame | None) -> Frame:
    import pandas

    made = pandas.DataFrame(dict(columns))
    return made if frame is None else made.join(frame.reset_index(drop=True))


_PANDAS = Kind(
    names=lambda frame: list(frame.columns),
    column=_pandas_column,
    take=lambda frame, rows: frame.iloc[rows],
    with_lists=_pandas_with_lists,
    of_columns=_pandas_of_columns,
)

__all__ = [
    "Contamination",
    "Deduplicated",
    "Joined",
    "contamination",
    "deduplicate",
    "join",
    "range_search",
]
