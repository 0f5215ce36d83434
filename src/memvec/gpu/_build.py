"""Builds on a card: rows stored and coded block by block, units, calibration."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from memvec import checks
from memvec.codes import CodeSpace
from memvec.errors import DeviceMemoryError
from memvec.gpu._card import Card, find_card, finish_work
from memvec.gpu._clusters import clustered_units
from memvec.gpu._codes import encode_balanced
from memvec.gpu._fetched import FetchedCodes
from memvec.gpu._held import OnCard
from memvec.gpu._members import Runs
from memvec.gpu._packages import cupy
from memvec.gpu._products import ROWS_AT_ONCE
from memvec.gpu._queries import on_card
from memvec.gpu._scores import CardRows, stored_width
from memvec.gpu._solve import MOST_MEMBERS
from memvec.gpu._source import CardSource
from memvec.gpu._sources import LENGTHS, code_bits
from memvec.gpu._store import room_for_rows, store_rows
from memvec.gpu._truth import CardTruth
from memvec.gpu._units import CardUnits, CodeShape
from memvec.guarantee import gather_evidence
from memvec.index import (
    KMEANS_RULES,
    BuildPromise,
    IndexConfig,
    IndexDesign,
    IndexParts,
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
        held, code_scale = _built(vectors, design, space, n_reserve, card, progress)
        cascade = FetchedCodes(held, space, design.similarity, code_scale)
        state, truth = cascade.units.fingerprint, CardTruth(held, progress)
        evidence = gather_evidence(
            *(cascade, queries, n_reserve, design.similarity, state, made.seed, progress, truth)
        )
        source = CardSource(cascade, _moved(held, cascade))
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


def _built(
    vectors: Any,
    design: IndexDesign,
    space: CodeSpace,
    n_reserve: int,
    card: Card,
    progress: bool | None,
) -> tuple[OnCard, float]:
    """Return what lies on the card, and the mean sum of magnitudes behind a member's code."""
    xp, n_rows, made = cupy(), design.n_vectors, design.config
    size = design.unit_size if made.assignment == "random" else None
    rows, by_place, total = _stored(vectors, design.dtype, space, card, progress)
    places = xp.asarray(xp.random.RandomState(made.seed).permutation(n_rows), dtype=np.int32)
    if size is None:
        places, ends = _clustered(rows, places, design, n_reserve, card, progress)
    else:
        ends = size * xp.arange(1, (n_rows - n_reserve) // size + 1, dtype=np.int32)
    n_units = len(ends)
    n_inside = int(ends[-1])
    n_words = by_place.shape[1]
    columns = card.empty("Codes of units", (n_units + n_rows - n_inside, n_words), np.uint32)
    scales = card.empty("Scales of units", (n_units,), np.float32)
    moments = card.empty("Scores of members", (2, n_units), np.float32)
    runs = _runs(ends, n_rows, by_place)
    held = OnCard(
        *(card, design.dim, design.dtype, rows._replace(places=places), runs, columns[:n_units]),
        *(scales, moments, size),
    )
    _solve(held, space, progress)
    # Units with like thresholds lie together.
    order = xp.argsort(scales)
    if size is None:
        places[:n_inside], ends = _moved_units(places[:n_inside], ends, order)
    else:
        places[:n_inside] = places[:n_inside].reshape(n_units, size)[order].reshape(-1)
    scales, moments = scales[order], moments[:, order]
    columns[:n_units] = columns[:n_units][order]
    codes = card.empty("Codes", by_place.shape, np.uint32)
    for start in range(0, n_rows, ROWS_AT_ONCE):
        some = places[start : start + ROWS_AT_ONCE]
        codes[start : start + len(some)] = by_place[some]
    columns[n_units:] = codes[n_inside:]
    runs = _runs(ends, n_rows, codes)
    made_anew = dataclasses.replace(
        held, runs=runs, unit_codes=columns, scales=scales, moments=moments
    )
    return made_anew, float(total) / n_rows


def _clustered(
    rows: CardRows,
    places: Any,
    design: IndexDesign,
    n_reserve: int,
    card: Card,
    progress: bool | None,
) -> tuple[Any, Any]:
    """Return places unit after unit, the reserve behind them, and where k-means units end."""
    made, n_inside = design.config, len(places) - n_reserve
    rule = KMEANS_RULES[made.kmeans_rule]
    units = clustered_units(
        *(rows, design.dim, cupy().sort(places[:n_inside]), design.unit_size, card),
        construction=rule.construction,
        normalised=rule.normalised,
        iterations=made.iterations,
        seed=made.seed,
        progress=progress,
    )
    return cupy().concatenate([units.order, places[n_inside:]]), units.offsets[1:]


def _runs(ends: Any, n_rows: int, codes: Any) -> Runs:
    """Return units that end there, one after the other, and each row behind them by itself."""
    xp = cupy()
    singles = xp.arange(int(ends[-1]), n_rows, dtype=np.int32)
    begins = xp.concatenate([xp.zeros(1, dtype=np.int32), ends[:-1]])
    return Runs(xp.concatenate([begins, singles]), xp.concatenate([ends, singles + 1]), codes)


def _moved_units(places: Any, ends: Any, order: Any) -> tuple[Any, Any]:
    """Return the places of units in another order, and where units end then."""
    xp = cupy()
    begins = xp.concatenate([xp.zeros(1, dtype=ends.dtype), ends[:-1]])
    moved_ends = xp.cumsum((ends - begins)[order]).astype(np.int32)
    slots = xp.arange(len(places), dtype=np.int32)
    unit = xp.searchsorted(moved_ends, slots, side="right")
    return places[ends[order][unit] - moved_ends[unit] + slots], moved_ends


def _stored(
    vectors: Any, dtype: RowType, space: CodeSpace, card: Card, progress: bool | None
) -> tuple[CardRows, Any, Any]:
    """Store and code rows block by block; return them, their codes, and the sum of magnitudes."""
    xp, (n_rows, dim) = cupy(), vectors.shape
    rows = room_for_rows(n_rows, dim, dtype, card)
    codes = card.empty("Codes", (n_rows, code_bits(space.n_bits) // 32), np.uint32)
    total = xp.zeros((), dtype=np.float64)
    flips = xp.asarray(space.flips)
    with progress_bar("storing", n_rows, progress) as advance:
        for start in range(0, n_rows, ROWS_AT_ONCE):
            given = on_card(vectors[start : start + ROWS_AT_ONCE], card, "vectors", _WHERE)
            part = slice(start, start + len(given))
            scales = None if rows.scales is None else rows.scales[part]
            into = CardRows(rows.data[part], scales)
            stored = store_rows(given, dtype, card, _WHERE, first_row=start, into=into)
            sums = xp.empty(len(given), dtype=np.float32)
            encode_balanced(
                *(stored.unit_rows, flips, space.padded_dim, card),
                coded=space.n_bits,
                sums=sums,
                codes=codes[part],
            )
            total += sums.sum(dtype=np.float64)
            advance(len(given))
    return rows, codes, total


def _solve(held: OnCard, space: CodeSpace, progress: bool | None) -> None:
    """Fill codes, scales and moments of all units, block by block."""
    xp, n_units = cupy(), len(held.scales)
    step = held.units_in(ROWS_AT_ONCE)
    flips = xp.asarray(space.flips)
    with progress_bar("units", n_units, progress) as advance:
        for start in range(0, n_units, step):
            stop = min(start + step, n_units)
            solved = held.solved(start, stop)
            sums = xp.empty(stop - start, dtype=np.float32)
            encode_balanced(
                *(solved.vectors, flips, space.padded_dim, held.card),
                coded=space.n_bits,
                sums=sums,
                codes=held.unit_codes[start:stop],
            )
            held.moments[0, start:stop] = solved.means
            held.moments[1, start:stop] = solved.variances
            squared = xp.maximum(solved.squared, np.float32(1e-30))
            held.scales[start:stop] = solved.means * sums / squared
            advance(stop - start)


def _moved(held: OnCard, cascade: FetchedCodes) -> CardUnits:
    words = cascade.space.n_words
    shape = CodeShape(cascade.space.n_bits, words, words, words, tests_whole=True)
    none = cupy().empty(0, dtype=np.float32)
    return CardUnits(
        *(held.card, cascade, shape, held.scales, held.unit_codes, None, none, held.runs),
        *(held.rows, None, True),
    )
