"""A step of a Ray Data pipeline: batches of rows get the matches of a collection."""

from __future__ import annotations

import os
import weakref
from typing import Any

import numpy as np

from memvec import checks
from memvec.collection import open_collection

_WHERE = "memvec.cluster.FindSimilar"


class FindSimilar:
    """Adds to each row of a batch the items of a collection above a similarity.

    For ``map_batches`` with a pool of actors, each of which maps the collection into memory once.

    Parameters
    ----------
    path : str or path
        A collection, or a shard; it is opened read-only.
    column : str
        The column of vectors.
    similarity : float, optional
        α₀; that of the collection by default.
    threads : int, default 1
        Number of threads that share the queries of a batch.
    **promise
        `miss_rate`, `guarantee`, `confidence`, `where` of :meth:`memvec.Collection.range_search`.

    Examples
    --------
    >>> import tempfile, memvec, numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with memvec.open(folder + "/two.mv", dim=2) as collection:
    ...         ids = collection.add([[1.0, 0.0], [0.0, 1.0]], ids=["east", "north"])
    ...     step = FindSimilar(folder + "/two.mv", "vector", 0.8)
    ...     batch = step({"vector": np.array([[1.0, 0.1], [-1.0, 0.0]])})
    >>> batch["n_similar"], batch["similar_ids"].tolist()
    (array([1, 0]), [['east'], []])
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        column: str,
        similarity: float | None = None,
        threads: int = 1,
        **promise: Any,
    ) -> None:
        self._collection = open_collection(path, read_only=True)
        # Ray drops a step without a word to it.
        weakref.finalize(self, self._collection.close)
        self._column, self._threads = column, threads
        self._asked = {"similarity": similarity, **promise}

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return the batch with ``n_similar``, ``similar_ids`` and ``similar_scores``."""
        if self._column not in batch:
            expected = f"one of the columns of the batch, {sorted(batch)}"
            raise checks.bad_value("column", _WHERE, expected, repr(self._column))
        vectors = batch[self._column]
        if vectors.dtype == object:
            vectors = np.stack(list(vectors))
        hits = self._collection.range_search(vectors, threads=self._threads, **self._asked)
        ids, scores = np.empty(len(hits), dtype=object), np.empty(len(hits), dtype=object)
        for query, row in enumerate(hits):
            ids[query], scores[query] = row.ids.tolist(), row.scores.tolist()
        return {
            **batch,
            "n_similar": np.diff(hits.offsets),
            "similar_ids": ids,
            "similar_scores": scores,
        }
