"""The vectors of an index of FAISS; FAISS itself is not imported, since whoever has one has it."""

from __future__ import annotations

from typing import Any

import numpy as np

from memvec import checks
from memvec.metric import Metric
from memvec.types import Float32Array

# Those that hold vectors as they were added; others reconstruct what is near to them.
_FLAT = {"IndexFlat", "IndexFlatIP", "IndexFlatL2"}
_IVF = "IndexIVFFlat"
# As FAISS numbers them.
_METRICS: dict[int, Metric] = {0: "cosine", 1: "euclidean"}
# Rows of float32 that were scaled to norm 1 are nearer than this; those of float16 as well.
_NORM_GIVEN = 1e-3


def vectors_of_faiss(index: Any, where: str) -> tuple[Float32Array, Metric]:
    """Return the vectors of a flat or IVF-flat index, and the metric that gives its scores."""
    name = type(index).__name__
    if name not in {*_FLAT, _IVF}:
        expected = (
            "an IndexFlat or IndexIVFFlat, which hold vectors as they were added (of others, give "
            "the vectors to Index.build)"
        )
        raise checks.bad_type("index", where, expected, name)
    metric = _METRICS.get(int(index.metric_type))
    if metric is None:
        expected = "of the inner product or of L2"
        raise checks.bad_value("index", where, expected, f"metric {index.metric_type}")
    if index.ntotal == 0:
        raise checks.bad_value("index", where, "one of at least one vector", "none")
    rows: Float32Array = _of_ivf(index, where) if name == _IVF else _rows(index)
    if metric == "cosine":
        _refuse_products(rows, where)
    return rows, metric


def _rows(index: Any) -> Float32Array:
    rows: Float32Array = index.reconstruct_n(0, index.ntotal)
    return rows


def _of_ivf(index: Any, where: str) -> Float32Array:
    """Return the vectors by id; a map from ids to places is made for it, and taken away again."""
    mapped = not index.direct_map.no()
    if mapped:
        return _rows(index)
    try:
        index.make_direct_map(True)
        return _rows(index)
    except RuntimeError:
        expected = "numbered 0 to n − 1, as `add` does (a Collection takes other ids)"
        raise checks.bad_value("index", where, expected, "other ids") from None
    finally:
        index.make_direct_map(False)


def _refuse_products(rows: Float32Array, where: str) -> None:
    """Refuse rows whose inner products are no cosines."""
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    other = np.abs(norms - 1) > _NORM_GIVEN
    if other.any():
        row = int(np.argmax(other))
        expected = (
            "of rows of norm 1 if its metric is the inner product, which is not a cosine otherwise "
            "(Index.build searches such rows by angle)"
        )
        raise checks.bad_value("index", where, expected, f"norm {norms[row]:.4g} in row {row}")
