"""Builds on a card: rows stored and coded block by block, units, calibration."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from memvec import checks
from memvec.codes import CodeSpace
from memvec.errors import DeviceMemoryError
from memvec.gpu._build_units import build_units, moved_units
from memvec.gpu._card import Card, find_card, finish_work
from memvec.gpu._fetched import FetchedCodes
from memvec.gpu._products import ROWS_AT_ONCE
from memvec.gpu._scores import stored_width
from memvec.gpu._solve import MOST_MEMBERS
from memvec.gpu._source import CardSource
from memvec.gpu._sources import LENGTHS, code_bits
from memvec.gpu._truth import CardTruth
from memvec.guarantee import gather_evidence
from memvec.index import (
    BuildPromise,
    IndexConfig,
    IndexDesign,
    IndexParts,
    check_number,
    checked_config,
    code_space,
    config_of_device,
    measured_uniformity,
    random_unit_size,
)
from memvec.kernels import rounded_rows
from memvec.progress import progress_bar
from memvec.search import UnitSource
from memvec.types import ArrayLike, Float32Array, RowType

# Vectors kept out of the units to calibrate on, and their share of the data; fewer say too little.
_RESERVE, _RESERVE_SHARE, _LEAST_RESERVE = 2000, 0.05, 100
# Rows that are looked at to tell whether the data has structure, in so many runs.
_LOOKED_AT, _RUNS = 20_000, 16
# k-means units of fewer rows are made by the CPU, which tries their size; of more, they have this
# one. Larger ones have members that match no better than strangers: of ten million structured rows
# above 0.8, units of 8 let 12 % pass, those of 4 half as many, random ones of 2 a thousandth.
_LEAST_CLUSTERED, _CLUSTERED_SIZE = 20_000, 4
# Bytes that rows are sorted into units with.
_SORTED_ROW = 40
# Bytes of a block of products, and of what else is made on the way.
_ON_THE_WAY = 4 << 30
_WHERE = "Index.build"
# What tells that an object is an array, and not only its slices are.
_ARRAY_PROTOCOLS = ("__array__", "__dlpack__", "__cuda_array_interface__")


def build_on_card(
    device: str,
    vectors: Any,
    dtype: RowType,
    promise: BuildPromise,
    queries: ArrayLike | None,
    held_out: ArrayLike | None,
    config: IndexConfig | None,
    progress: bool | None,
) -> tuple[IndexParts | None, Any]:
    """Build an index on a card; None for what the CPU builds, and from what.

    Parameters
    ----------
    device : str
    vectors : array of shape (n_vectors, dim)
        In memory, mapped from a file, or on the card; or anything else with a shape whose slices
        are such arrays. It is read block by block.
    dtype, promise, queries, held_out, config, progress
        As in `Index.build`.
    """
    shape: Any = getattr(vectors, "shape", ())
    if len(shape) != 2 or 0 in shape:
        return None, vectors
    n_rows, dim = int(shape[0]), int(shape[1])
    check_number(n_rows, _WHERE)
    made = config_of_device(checked_config(config, dim, _WHERE), dim, _WHERE)
    if held_out is not None or not _is_plain(made, promise, dim):
        return None, _whole(vectors)
    card, sample = find_card(device), _sample(vectors, n_rows)
    effective, uniform = measured_uniformity(sample, made.seed)
    if made.assignment == "auto":
        made = dataclasses.replace(made, assignment="random")
    made, asked = _decided(made, dim if uniform else max(2, int(effective)), promise), None
    if queries is not None:
        given = checks.unit_queries(queries, "queries", _WHERE, dim=dim)
        asked = rounded_rows(given, dtype)
    n_reserve = 0 if asked is not None else _reserve(n_rows, made)
    least = _LEAST_CLUSTERED if made.assignment == "kmeans" else int(made.unit_size)
    if n_rows - n_reserve < least or int(made.unit_size) > MOST_MEMBERS:
        return None, _whole(vectors)
    design = IndexDesign(
        *(promise.similarity, promise.miss_rate, n_rows, dim, effective, made),
        guarantee=promise.guarantee,
        confidence=promise.confidence,
        similarities=promise.similarities,
        metric=promise.metric,
        dtype=dtype,
    )
    return _parts(vectors, design, asked, n_reserve, card, progress), vectors


def _parts(
    vectors: Any,
    design: IndexDesign,
    queries: Float32Array | None,
    n_reserve: int,
    card: Card,
    progress: bool | None,
) -> IndexParts:
    """Build what was designed."""
    made = design.config
    space = code_space(design.dim, made)
    needed, free = build_bytes(design, space), card.free_memory()
    if needed > free:
        raise DeviceMemoryError("A build of this index", needed, free)
    stated = f"building in up to {needed / 1e9:.1f} of {free / 1e9:.1f} GB"
    with card.at_work("A build of this index"), progress_bar(stated, 1, progress) as advance:
        held, code_scale = build_units(vectors, design, space, n_reserve, card, progress)
        cascade = FetchedCodes(held, space, design.similarity, code_scale)
        state, truth = cascade.units.fingerprint, CardTruth(held, progress)
        evidence = gather_evidence(
            *(cascade, queries, n_reserve, design.similarity, state, made.seed, progress, truth)
        )
        source = CardSource(cascade, moved_units(held, cascade))
        finish_work()
        advance(1)
    return IndexParts(design, UnitSource(cascade), evidence, source)


def _is_plain(config: IndexConfig, promise: BuildPromise, dim: int) -> bool:
    """Tell whether units are made of all vectors at once, of one level, and of them as they are."""
    pinv = config.construction in ("auto", "pinv") and not config.normalised
    plain = not config.projects and 2 not in (config.levels, config.units_per_vector)
    words = config.n_code_words(dim)
    whole = config.unit_words == config.member_words == words and config.member_bits == 1
    fits = max(dim, config.balanced_bits(dim) or 0) <= LENGTHS[1]
    return (
        config.batch_size is None
        and pinv
        and plain
        and whole
        and fits
        and promise.metric == "cosine"
    )


def _decided(config: IndexConfig, dim: int, promise: BuildPromise) -> IndexConfig:
    """Return what is built of vectors that fill so many dimensions."""
    size = config.unit_size
    if size == "auto" and config.assignment == "kmeans":
        size = _CLUSTERED_SIZE
    if size == "auto":
        size = random_unit_size(
            dim, config.n_code_words(dim), promise.similarity, promise.miss_rate
        )
    group_size = size if config.group_size == "auto" else config.group_size
    return dataclasses.replace(config, construction="pinv", unit_size=size, group_size=group_size)


def _reserve(n_rows: int, config: IndexConfig) -> int:
    if config.reserve != "auto":
        if config.reserve >= n_rows:
            expected = f"less than the {n_rows} vectors"
            raise checks.bad_value("reserve", "IndexConfig", expected, config.reserve)
        return config.reserve
    size = min(_RESERVE, int(_RESERVE_SHARE * n_rows))
    return size if size >= _LEAST_RESERVE else 0


def _sample(vectors: Any, n_rows: int) -> Float32Array:
    """Return some rows in the memory of this machine, from all over the data."""
    step = max(1, n_rows // _RUNS)
    length = min(step, _LOOKED_AT // _RUNS)
    return np.concatenate(
        [
            checks.unit_rows(vectors[start : start + length], "vectors", _WHERE, first_row=start)
            for start in range(0, n_rows, step)
        ]
    )


def _whole(vectors: Any) -> Any:
    """Return an array; that of all slices where only slices are arrays."""
    if any(hasattr(vectors, name) for name in _ARRAY_PROTOCOLS):
        return vectors
    blocks = range(0, int(vectors.shape[0]), ROWS_AT_ONCE)
    return np.concatenate(
        [checks.matrix(vectors[at : at + ROWS_AT_ONCE], "vectors", _WHERE) for at in blocks]
    )


def build_bytes(design: IndexDesign, space: CodeSpace) -> int:
    """Return how much of a card's memory a build takes at most."""
    code_bytes, dtype = code_bits(space.n_bits) // 8, np.dtype(design.dtype)
    a_row = stored_width(design.dim, design.dtype) * dtype.itemsize + 2 * code_bytes + 24
    if design.config.assignment == "kmeans":
        a_row += _SORTED_ROW
    n_rows, size = design.n_vectors, design.unit_size
    return n_rows * a_row + n_rows // size * 2 * (code_bytes + 24) + _ON_THE_WAY
