"""Duplicates and contamination of Hugging Face data sets; needs the extra ``memvec[datasets]``.

Columns are read from the Arrow files behind a data set. Lists of a fixed size in one chunk are read
without a copy.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from memvec import checks
from memvec.errors import MissingExtraError
from memvec.integrations._frames import Contamination, Deduplicated, Kind, Work, contamination_of
from memvec.types import IntArray

try:
    from datasets import Dataset, List, Value
except ImportError:
    raise MissingExtraError("memvec.integrations.datasets", "datasets", "datasets") from None


def deduplicate(
    dataset: Dataset,
    column: str = "embedding",
    similarity: float = 0.95,
    *,
    groups_column: str = "duplicates",
    **options: Any,
) -> Deduplicated:
    """Return a data set without near-duplicates.

    Parameters
    ----------
    dataset : datasets.Dataset
    column : str, default "embedding"
        The column of vectors: lists of one length.
    similarity : float, default 0.95
        α₀ in (0, 1], the cosine of duplicates.
    groups_column : str, default "duplicates"
        The name of a new column: the rows of `dataset` that were dropped in favour of each kept
        row.
    **options
        As in :func:`memvec.deduplicate`: `keep`, `groups`, `miss_rate`, `guarantee` and so on.
        `scores` may be the name of a column.

    Examples
    --------
    >>> from datasets import Dataset
    >>> from memvec.integrations.datasets import deduplicate
    >>> rows = Dataset.from_dict({"embedding": [[1, 0], [0, 1], [1, 0.1]], "id": ["a", "b", "c"]})
    >>> unique, found = deduplicate(rows, column="embedding", similarity=0.95)
    >>> unique["id"][:], unique["duplicates"][:]
    (['a', 'b'], [[2], []])
    """
    work = _work(dataset, "dataset", "deduplicate")
    return work.deduplicated(column, similarity, groups_column, options)


def contamination(
    train: Dataset,
    test: Dataset,
    similarity: float = 0.9,
    column: str = "embedding",
    **options: Any,
) -> Contamination:
    """Find near-copies of an evaluation set in a training set.

    Parameters
    ----------
    train, test : datasets.Dataset
    similarity : float, default 0.9
        α₀ in (0, 1].
    column : str, default "embedding"
        The column of vectors, in both.
    **options
        As in :func:`memvec.join`.

    Examples
    --------
    >>> from datasets import Dataset
    >>> from memvec.integrations.datasets import contamination
    >>> train = Dataset.from_dict({"embedding": [[1, 0], [0, 1], [1, 0.1]]})
    >>> test = Dataset.from_dict({"embedding": [[0.1, 1]]})
    >>> contamination(train, test, similarity=0.9)
    Contamination(1 of 1 evaluation rows in 1 of 3 training rows, 1 pair)
    """
    first, second = _work(train, "train", "contamination"), _work(test, "test", "contamination")
    return contamination_of(first.vectors(column), second.vectors(column), similarity, options)


def _work(dataset: object, name: str, where: str) -> Work:
    if not isinstance(dataset, Dataset):
        expected = "a datasets.Dataset, one split of it"
        raise checks.bad_type(name, where, expected, type(dataset).__name__)
    return Work(_DATASET, dataset, where)


def _column(dataset: Dataset, name: str) -> Any:
    """Return a column as Arrow holds it; rows that were selected are in their order."""
    return dataset.select_columns(name).with_format("arrow")[:].column(0)


def _with_lists(dataset: Dataset, name: str, offsets: IntArray, values: IntArray) -> Dataset:
    lists = [values[start:stop] for start, stop in pairwise(offsets)]
    return dataset.add_column(name, lists, feature=List(Value("int64")))


def _of_columns(columns: Any, dataset: Any) -> Dataset:
    return Dataset.from_dict({name: np.asarray(column) for name, column in columns.items()})


_DATASET = Kind(
    names=lambda dataset: list(dataset.column_names),
    column=_column,
    take=lambda dataset, rows: dataset.select(rows),
    with_lists=_with_lists,
    of_columns=_of_columns,
)

__all__ = ["Contamination", "Deduplicated", "contamination", "deduplicate"]
